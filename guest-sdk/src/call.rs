//! One call of the host: columns in, the author's code row by row, effects out.
//! Runs alike in wasm and under the test harness. Keeps nothing from call to call.

use crate::bindings::types::{self, Effects, Failure, Firings, StateWrite};
use crate::declare::Registry;
use crate::input::Fields;
use crate::input::blob;
use crate::metric::{MetricKind, Tally};
use crate::output::OutputBuffer;
use crate::output::SideBuffer;
use crate::processor::{Moment, Processor};
use crate::row::{Batch, Facts, Refused, Row};
use crate::state::Prefetched;
use crate::state::{Fired, Timers};
use crate::{Bad, Output};
use std::cell::{RefCell, RefMut};

/// What calls need to know of the operator's declarations.
pub(crate) struct Plan {
    pub(crate) prefetched: Vec<PrefetchPlan>,
    timers: usize,
    sides: usize,
    metrics: Vec<(MetricKind, &'static str)>,
    /// What the host calls the metrics; empty until `open`.
    metric_ids: Vec<u32>,
}

pub(crate) struct PrefetchPlan {
    pub(crate) state: u32,
    pub(crate) renewed_by_reads: bool,
}

impl Plan {
    pub(crate) fn of(registry: &Registry) -> Self {
        let prefetched = registry.states.iter().enumerate().filter(|(_, state)| state.prefetch).map(|(id, state)| {
            let renewed_by_reads = state.ttl.is_some_and(|ttl| ttl.renewed_by_reads);
            PrefetchPlan { state: id as u32, renewed_by_reads }
        });
        Self {
            prefetched: prefetched.collect(),
            timers: registry.timers.len(),
            sides: registry.sides.len(),
            metrics: registry.metrics.clone(),
            metric_ids: Vec::new(),
        }
    }

    /// Registers the metrics, in `open`.
    pub(crate) fn open(&mut self) {
        self.metric_ids = self.metrics.iter().map(|(kind, name)| kind.register(name)).collect();
    }
}

/// What the running call has done so far, but for the main output.
pub(crate) struct Call {
    pub(crate) states: Vec<RefCell<Prefetched>>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) metrics: Vec<RefCell<Tally>>,
    sides: Vec<RefCell<Option<Box<dyn SideBuffer>>>>,
    /// Whether the rows are records: a fired timer has nothing to pass on.
    records: bool,
}

impl Call {
    fn new(plan: &Plan, states: Vec<types::Column>, keys: usize, records: bool) -> Self {
        let states = plan.prefetched.iter().zip(states);
        Self {
            states: states.map(|(plan, column)| RefCell::new(Prefetched::new(plan, column, keys))).collect(),
            timers: RefCell::new(Timers::new(plan.timers)),
            metrics: plan.metrics.iter().map(|(kind, _)| RefCell::new(kind.tally())).collect(),
            sides: std::iter::repeat_with(|| RefCell::new(None)).take(plan.sides).collect(),
            records,
        }
    }

    #[inline]
    pub(crate) fn passing(&self) {
        assert!(self.records, "a fired timer is not a record: it has nothing to pass on");
    }

    pub(crate) fn side<O: Output>(&self, index: usize) -> RefMut<'_, OutputBuffer<O>> {
        RefMut::map(self.sides[index].borrow_mut(), |side| {
            let buffer = side.get_or_insert_with(|| Box::new(OutputBuffer::<O>::new()));
            buffer.as_any().downcast_mut().expect("a side output keeps the type it was declared with")
        })
    }

    fn finish<O: Output>(
        self,
        plan: &Plan,
        facts: &Facts,
        main: OutputBuffer<O>,
        mut refused: Refused,
    ) -> Result<Effects, Failure> {
        let mut writes: Vec<StateWrite> = Vec::with_capacity(self.states.len());
        for state in self.states {
            writes.extend(state.into_inner().finish(|row, bad| refused.refuse(facts, row, bad)));
        }
        if !refused.rows.is_empty() {
            refused.rows.sort_by_key(|bad| bad.row);
            refused.rows.dedup_by_key(|bad| bad.row);
            return Err(Failure::BadRows(refused.rows));
        }
        for (tally, metric) in self.metrics.into_iter().zip(&plan.metric_ids) {
            tally.into_inner().report(*metric);
        }
        let sides = self.sides.into_iter().enumerate();
        let sides = sides.filter_map(|(index, side)| side.into_inner()?.finish(index as u32 + 1));
        Ok(Effects {
            outputs: main.finish(0).into_iter().chain(sides).collect(),
            writes,
            timers: self.timers.into_inner().finish(),
        })
    }
}

/// The host's `on-batch`.
pub(crate) fn on_batch<P: Processor>(
    processor: &P,
    config: &P::Config,
    plan: &Plan,
    batch: types::Batch,
) -> Result<Effects, Failure> {
    let types::Batch { now, watermark, input, keys, key_of, timestamps, changes, values, fields, headers, states } =
        batch;
    let facts = Facts { moment: Moment { now, watermark }, keys, key_of, timestamps, changes, values, headers };
    let fields = Fields::of(input, &fields);
    let call = Call::new(plan, states, facts.keys.ends.len(), true);
    let mut main = OutputBuffer::new();
    let mut refused = Refused::default();
    let mut rows = Batch { facts: &facts, fields: &fields, call: &call, output: &mut main, refused: &mut refused };
    processor.on_batch(config, &mut rows).map_err(|bad: Bad| Failure::Failed(bad.into_reason()))?;
    call.finish(plan, &facts, main, refused)
}

/// The host's `on-timers`.
pub(crate) fn on_timers<P: Processor>(
    processor: &P,
    config: &P::Config,
    plan: &Plan,
    firings: Firings,
) -> Result<Effects, Failure> {
    let Firings { now, watermark, keys, key_of, timer_of, at, tags, payloads, states } = firings;
    let moment = Moment { now, watermark };
    let facts = Facts { moment, keys, key_of, timestamps: at, changes: Vec::new(), values: None, headers: None };
    let call = Call::new(plan, states, facts.keys.ends.len(), false);
    let mut main = OutputBuffer::new();
    let mut refused = Refused::default();
    for (number, timer) in timer_of.into_iter().enumerate() {
        let fired = Fired { timer, tag: blob(&tags, number), payload: blob(&payloads, number) };
        if refused.skips(&facts, number) || call.timers.borrow().overtakes(timer, facts.key_of[number], fired.tag) {
            continue;
        }
        let mut row = Row::<P>::new(&facts, &call, &mut main, number);
        if let Err(bad) = processor.on_timer(config, &mut row, fired) {
            refused.refuse(&facts, number, bad);
        }
    }
    call.finish(plan, &facts, main, refused)
}
