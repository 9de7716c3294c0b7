//! Runs per-record logic over batches and due timers. Values are written and timers set once all rows of a call are done.

use super::row::{Effects, Row, Sent};
use super::values::Values;
use super::{Fired, Logic};
use crate::dead_letter::DeadLetter;
use crate::operator::{Context, Due, Operator, OperatorFactory, TaskInfo};
use crate::state::timers::{Firings, Timers, declarations};
use crate::state::{Call, Cell, Keyed, Overlay, StateDeclaration};
use anyhow::Context as _;
use dataflow::key::{self, KeyGroup, Keys};
use dataflow::record::{Batch, Schema};
use dataflow::time::{Clock, Timestamp};
use std::sync::Arc;

/// Timers that one call of `on_watermark` fires at most.
const TIMERS_PER_CALL: usize = 1024;

/// The number under which all timers of a logic are stored; tags tell them apart.
const TIMER: u32 = 0;

/// Makes native operators.
#[derive(Clone)]
pub struct NativeFactory {
    logic: Arc<dyn Logic>,
    columns: Vec<usize>,
}

impl NativeFactory {
    /// Operators of this logic. `columns`: where each of its fields lies.
    pub fn new(logic: Arc<dyn Logic>, columns: Vec<usize>) -> Self {
        Self { logic, columns }
    }
}

impl OperatorFactory for NativeFactory {
    fn states(&self) -> Vec<StateDeclaration> {
        let mut states = self.logic.values();
        if self.logic.has_timers() {
            states.extend(declarations(Clock::EventTime));
        }
        states
    }

    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Operator>> {
        let declared = self.logic.values();
        let values = declared
            .iter()
            .zip(&task.states)
            .map(|(declared, &number)| Values::new(Keyed::new(number, declared), task.max_parallelism));
        let groups = KeyGroup::range(task.task, task.parallelism, task.max_parallelism);
        let numbers = task.states.get(declared.len()..).and_then(|rest| rest.first_chunk().copied());
        Ok(Box::new(NativeOperator {
            name: task.operator.clone(),
            values: values.collect(),
            timers: numbers.map(|numbers| Timers::new(Clock::EventTime, numbers, groups)),
            overlay: Overlay::default(),
            effects: Effects::default(),
            outputs: self.logic.ports().into_iter().map(|port| port.columns.unwrap_or_default()).collect(),
            columns: self.columns.clone(),
            logic: self.logic.clone(),
            max_parallelism: task.max_parallelism,
        }))
    }
}

struct NativeOperator {
    name: String,
    logic: Arc<dyn Logic>,
    /// Where each field lies.
    columns: Vec<usize>,
    /// The columns of each port.
    outputs: Vec<Schema>,
    values: Vec<Values>,
    timers: Option<Timers>,
    overlay: Overlay,
    effects: Effects,
    max_parallelism: u16,
}

/// The rows of a call.
struct Rows<'a> {
    keys: &'a Keys,
    timestamps: &'a [Timestamp],
    batch: Option<&'a Batch>,
}

impl NativeOperator {
    /// Runs the logic over the rows; answers those that failed, with reasons.
    fn run(
        &mut self,
        rows: &Rows<'_>,
        context: &Context<'_>,
        step: impl Fn(&dyn Logic, &mut Row<'_>, usize) -> Result<(), String>,
    ) -> Vec<(usize, String)> {
        self.values.iter_mut().for_each(|values| values.load(&**context.state, rows.keys));
        self.effects.sent = self.outputs.iter().map(Sent::new).collect();
        let mut row = Row {
            number: 0,
            timestamp: 0,
            keys: rows.keys,
            batch: rows.batch,
            columns: &self.columns,
            values: &mut self.values,
            effects: &mut self.effects,
            watermark: context.watermark,
            now: context.now,
        };
        let mut failed = vec![];
        for (number, &timestamp) in rows.timestamps.iter().enumerate() {
            row.number = number;
            row.timestamp = timestamp;
            if let Err(reason) = step(&*self.logic, &mut row, number) {
                failed.push((number, reason));
            }
        }
        failed
    }

    /// Makes values and timers real.
    fn write(&mut self, rows: &Rows<'_>, context: &mut Context<'_>) {
        self.values.iter_mut().for_each(|values| values.write(&mut **context.state));
        let changes = std::mem::take(&mut self.effects.timers);
        if let Some(timers) = &mut self.timers {
            let (backend, watermark, now) = (&**context.state, context.watermark, context.now);
            let mut call = Call { backend, overlay: &mut self.overlay, watermark, now };
            for change in changes {
                let key = rows.keys.of[change.row] as usize;
                let cell = Cell {
                    group: KeyGroup::of(rows.keys.hashes[key], self.max_parallelism),
                    key: rows.keys.distinct.get(key),
                    timestamp: rows.timestamps[change.row],
                };
                match change.set {
                    Some((at, payload)) => timers.set(&mut call, &cell, (TIMER, &change.tag), at, &payload),
                    None => timers.remove(&mut call, &cell, (TIMER, &change.tag)),
                }
            }
            self.overlay.commit(&mut **context.state);
        }
    }

    fn send(&mut self, batch: Option<Batch>, context: &mut Context<'_>) {
        let passed = std::mem::take(&mut self.effects.passed);
        match batch {
            Some(batch) if passed.len() == batch.len() => context.out.emit(0, batch),
            Some(batch) if !passed.is_empty() => context.out.emit(0, batch.select(&passed)),
            _ => {}
        }
        for (port, Sent { timestamps, columns }) in self.effects.sent.drain(..).enumerate() {
            context.out.emit(port, Batch { timestamps, columns, ..Batch::default() });
        }
    }
}

impl Operator for NativeOperator {
    fn open(&mut self, context: &mut Context<'_>) -> anyhow::Result<()> {
        if let Some(timers) = &mut self.timers {
            timers.open(&**context.state);
        }
        Ok(())
    }

    fn on_batch(&mut self, _input: usize, batch: Batch, context: &mut Context<'_>) -> anyhow::Result<()> {
        let keys =
            batch.keys.as_ref().context("native operators work by key, and the input has none: give it a `key`")?;
        let rows = Rows { keys, timestamps: &batch.timestamps, batch: Some(&batch) };
        let failed = self.run(&rows, context, |logic, row, _| logic.on_record(row));
        self.write(&rows, context);
        for (row, reason) in failed {
            context.out.dead.push(DeadLetter::of_row(&self.name, &batch, row, reason));
        }
        self.send(Some(batch), context);
        Ok(())
    }

    fn on_watermark(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due> {
        let Some(timers) = &mut self.timers else { return Ok(Due::Done) };
        let mut firings = Firings::default();
        let more = timers.due(&**context.state, context.watermark, TIMERS_PER_CALL, &mut firings);
        if firings.is_empty() {
            return Ok(Due::Done);
        }
        let (backend, watermark, now) = (&**context.state, context.watermark, context.now);
        let mut call = Call { backend, overlay: &mut self.overlay, watermark, now };
        (0..firings.len()).for_each(|firing| timers.fired(&mut call, &firings, firing));
        self.overlay.commit(&mut **context.state);

        // No key fires twice in a call, so each firing has a key of its own.
        let keys = Keys {
            of: (0..firings.len() as u32).collect(),
            distinct: firings.keys.clone(),
            hashes: firings.keys.iter().map(key::hash).collect(),
        };
        let rows = Rows { keys: &keys, timestamps: &firings.at, batch: None };
        let failed = self.run(&rows, context, |logic, row, firing| {
            let (at, tag, payload) = (firings.at[firing], firings.tags.get(firing), firings.payloads.get(firing));
            logic.on_timer(row, &Fired { at, tag, payload })
        });
        self.write(&rows, context);
        for (firing, reason) in failed {
            context.out.dead.push(DeadLetter {
                node: self.name.clone(),
                key: Some(keys.distinct.get(firing).to_vec()),
                timestamp: Some(firings.at[firing]),
                reason,
                value: Some(firings.payloads.get(firing).to_vec()),
                ..DeadLetter::default()
            });
        }
        self.send(None, context);
        Ok(if more { Due::More } else { Due::Done })
    }

    fn on_clock(&mut self, _context: &mut Context<'_>) -> anyhow::Result<Due> {
        Ok(Due::Done)
    }

    fn next_clock_timer(&self, _context: &Context<'_>) -> Option<Timestamp> {
        None
    }
}
