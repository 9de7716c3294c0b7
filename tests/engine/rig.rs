//! One guest operator with its state, driven call by call.

use dataflow::key::Keying;
use dataflow::record::{Batch, Column, Origin, Raw, Value, ValueType};
use dataflow::time::{START, Timestamp};
use millstream::checkpoint::memory::MemoryStorage;
use millstream::dead_letter::DeadLetter;
use millstream::engine::{Component, Engine, EngineSettings, Limits};
use millstream::env::WaitPoint;
use millstream::operator::guest::{FieldSource, GuestFactory, GuestInput, GuestSettings};
use millstream::operator::{Context, Due, Emitter, Operator, OperatorFactory, TaskInfo};
use millstream::state::memory::{self, ACTIVE_LIMIT_DEFAULT, MemoryOptions};
use millstream::state::{StateBackend, StateNumber};
use millstream::telemetry::NodeMetrics;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) const KEY_GROUPS: u16 = 128;

/// The engine that all tests share.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineSettings::default()).expect("the machine has room for an engine"))
}

pub(crate) fn hostile() -> Component {
    static LOADED: OnceLock<Component> = OnceLock::new();
    LOADED.get_or_init(|| engine().load(millstream_tests::guests::hostile()).expect("the hostile guest loads")).clone()
}

pub(crate) fn hostile_next() -> Component {
    static LOADED: OnceLock<Component> = OnceLock::new();
    LOADED
        .get_or_init(|| engine().load(millstream_tests::guests::hostile_next()).expect("the hostile guest loads"))
        .clone()
}

/// A record: key, what to do, how much, when.
pub(crate) type Row<'a> = (&'a str, &'a str, i64, Timestamp);

/// What came out of the operator.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Port 0: number and note of each row.
    pub(crate) said: Vec<(i64, String)>,
    /// Port 0: the rows' times.
    pub(crate) times: Vec<Timestamp>,
    /// Port 1: the rows' bytes.
    pub(crate) raw: Vec<String>,
    /// Lines of the file that rows of either port came from.
    pub(crate) lines: Vec<u64>,
    pub(crate) dead: Vec<DeadLetter>,
}

impl Output {
    pub(crate) fn numbers(&self) -> Vec<i64> {
        self.said.iter().map(|(number, _)| *number).collect()
    }
}

pub(crate) struct Rig {
    operator: Box<dyn Operator>,
    state: Box<dyn StateBackend>,
    pub(crate) metrics: NodeMetrics,
    pub(crate) watermark: Timestamp,
    pub(crate) now: Timestamp,
    lines: u64,
}

/// Settings under which only what never ends takes too long.
pub(crate) fn settings() -> GuestSettings {
    let field = |name: &str, column, value_type, required| FieldSource {
        name: name.into(),
        column: Some(column),
        value_type,
        required,
    };
    let fields = vec![field("do", 0, ValueType::Text, true), field("amount", 1, ValueType::Int, false)];
    GuestSettings {
        limits: Limits { time: Duration::from_secs(30), ..Limits::default() },
        inputs: vec![GuestInput { fields, broadcast: false }],
        ..GuestSettings::default()
    }
}

pub(crate) fn rig() -> Rig {
    Rig::new(hostile(), settings()).expect("the hostile guest opens")
}

impl Rig {
    pub(crate) fn new(component: Component, settings: GuestSettings) -> anyhow::Result<Self> {
        let factory = GuestFactory::new("hostile", component, settings)?;
        let state = memory::open(MemoryOptions {
            storage: Arc::new(MemoryStorage::default()),
            chain: "hostile".into(),
            task: 0,
            attempt: "1".into(),
            groups: 0..KEY_GROUPS,
            active_limit: ACTIVE_LIMIT_DEFAULT,
            notify: Arc::new(WaitPoint::default()),
            fail_points: Arc::default(),
        });
        Self::on(state, &factory)
    }

    /// On a state that is there already.
    fn on(mut state: Box<dyn StateBackend>, factory: &GuestFactory) -> anyhow::Result<Self> {
        let declared = factory.states();
        let states: Vec<StateNumber> = (0..declared.len() as u32).map(StateNumber).collect();
        states.iter().zip(&declared).for_each(|(number, declaration)| state.register(*number, declaration));
        let operator = factory.create(&TaskInfo {
            operator: "hostile".into(),
            task: 0,
            parallelism: 1,
            max_parallelism: KEY_GROUPS,
            states,
        })?;
        let mut rig = Self { operator, state, metrics: NodeMetrics::default(), watermark: START, now: 0, lines: 0 };
        rig.call(|operator, context| operator.open(context)).map(|_| rig)
    }

    /// The same state under another component.
    pub(crate) fn swapped(self, component: Component, settings: GuestSettings) -> anyhow::Result<Self> {
        let factory = GuestFactory::new("hostile", component, settings)?;
        Self::on(self.state, &factory)
    }

    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, Output)> {
        let mut out = Emitter::default();
        let mut context = Context {
            state: &mut self.state,
            out: &mut out,
            watermark: self.watermark,
            now: self.now,
            metrics: &self.metrics,
        };
        let answer = call(self.operator.as_mut(), &mut context)?;
        Ok((answer, read(out)))
    }

    pub(crate) fn try_batch(&mut self, batch: Batch) -> anyhow::Result<Output> {
        self.call(|operator, context| operator.on_batch(0, batch, context)).map(|((), output)| output)
    }

    /// Hands rows in, as the next lines of a file.
    pub(crate) fn rows(&mut self, rows: &[Row<'_>]) -> Output {
        self.try_rows(rows).expect("the job goes on")
    }

    pub(crate) fn try_rows(&mut self, rows: &[Row<'_>]) -> anyhow::Result<Output> {
        let batch = self.batch(rows);
        self.try_batch(batch)
    }

    pub(crate) fn batch(&mut self, rows: &[Row<'_>]) -> Batch {
        let (mut keys, mut deeds) = (Column::new(ValueType::Text), Column::new(ValueType::Text));
        let mut amounts = Column::new(ValueType::Int);
        let mut raw = Raw::default();
        let mut slab = vec![];
        for (key, deed, amount, _) in rows {
            keys.push(Value::Text(key));
            deeds.push(Value::Text(deed));
            amounts.push(Value::Int(*amount));
            let from = slab.len() as u32;
            slab.extend_from_slice(format!("{key} {deed} {amount}").as_bytes());
            raw.spans.push((from, slab.len() as u32));
        }
        raw.slab = slab.into();
        let places = (self.lines + 1..=self.lines + rows.len() as u64).collect();
        self.lines += rows.len() as u64;
        Batch {
            timestamps: rows.iter().map(|row| row.3).collect(),
            keys: Some(Keying::default().keys(rows.len(), &[&keys]).0),
            columns: vec![deeds, amounts],
            raw: Some(raw),
            origin: Some(Origin { partition: "deeds.csv".into(), places }),
            ..Batch::default()
        }
    }

    /// Moves event time on and fires all that is due.
    pub(crate) fn watermark(&mut self, watermark: Timestamp) -> Output {
        self.watermark = watermark;
        self.fire(|operator, context| operator.on_watermark(context))
    }

    /// Moves processing time on and fires all that is due.
    pub(crate) fn clock(&mut self, now: Timestamp) -> Output {
        self.now = now;
        self.fire(|operator, context| operator.on_clock(context))
    }

    fn fire(&mut self, fire: impl Fn(&mut dyn Operator, &mut Context<'_>) -> anyhow::Result<Due>) -> Output {
        let mut all = Output::default();
        loop {
            let (due, output) = self.call(&fire).expect("the job goes on");
            all.said.extend(output.said);
            all.times.extend(output.times);
            all.dead.extend(output.dead);
            if due == Due::Done {
                return all;
            }
        }
    }
}

fn read(out: Emitter) -> Output {
    let mut output = Output { dead: out.dead, ..Output::default() };
    for (port, batch) in out.batches {
        output.lines.extend(batch.origin.iter().flat_map(|origin| origin.places.clone()));
        for row in 0..batch.len() {
            match (port, &batch.raw) {
                (0, _) => {
                    let [Value::Int(number), note] = [batch.columns[0].get(row), batch.columns[1].get(row)] else {
                        panic!("the main output has a number and a note");
                    };
                    let note = if let Value::Text(note) = note { note } else { "" };
                    output.said.push((number, note.into()));
                    output.times.push(batch.timestamps[row]);
                }
                (_, Some(raw)) => output.raw.push(String::from_utf8_lossy(raw.get(row).unwrap_or_default()).into()),
                (_, None) => panic!("the raw output has bytes"),
            }
        }
    }
    output
}
