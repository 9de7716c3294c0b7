//! Runs one case on a fresh operator and fresh state.

use super::case::{Case, Record, Step};
use super::compare::{Outcome, differences};
use super::rows;
use crate::engine::Component;
use crate::engine::description::{Description, Output, WantedField};
use crate::operator::guest::{FieldSource, GuestAggregator, GuestFactory, GuestInput, GuestSettings};
use crate::operator::window::{WindowFactory, WindowSettings};
use crate::operator::{Context, Due, Emitter, Operator, OperatorFactory, TaskInfo};
use crate::state::memory;
use crate::state::{Address, StateBackend, StateNumber, typed};
use crate::telemetry::NodeMetrics;
use anyhow::{Context as _, bail};
use dataflow::key::{KeyGroup, MAX_PARALLELISM_DEFAULT, hash, push_varint};
use dataflow::record::{Batch, ValueType};
use dataflow::time::{END, START, Timestamp};
use serde_json::Value as Json;
use std::sync::Arc;

/// How a case is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Records that follow one another come in one batch.
    Straight,
    /// Each record comes alone, and each call finds a fresh instance.
    Replaced,
}

/// Runs a case; the answer is each difference from what it expects.
///
/// # Errors
/// The component refuses the configuration, does not start, or the case names what it does not have.
pub fn run(component: &Component, case: &Case, way: Way) -> anyhow::Result<Vec<String>> {
    let mut running = Running::start(Subject::of(component, case, way)?)?;
    let mut steps = case.steps.iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Record(first) => {
                let mut records = vec![first];
                while let Some(Step::Record(next)) = steps.peek()
                    && way == Way::Straight
                    && next.input == first.input
                    && next.key.is_some() == first.key.is_some()
                {
                    records.push(next);
                    steps.next();
                }
                running.records(&records)?;
            }
            Step::Watermark(step) => running.watermark(step.watermark)?,
            Step::Clock(step) => running.clock(step.clock)?,
            Step::End => running.watermark(END)?,
        }
    }
    let states = case.expect.state.iter().map(|expected| running.state(&expected.state, &expected.key));
    running.outcome.states = states.collect::<anyhow::Result<_>>()?;
    for name in case.expect.outputs.keys() {
        let sides = &running.subject.outputs[1..];
        if name != MAIN && !sides.iter().any(|output| output.name == *name) {
            let names: Vec<&str> = sides.iter().map(|output| output.name.as_str()).collect();
            bail!("the case expects rows of `{name}`; the component's outputs are {MAIN} {}", names.join(" "));
        }
    }
    Ok(differences(&case.expect, &running.outcome))
}

/// The main output's name in cases.
const MAIN: &str = "main";

/// Pointer and type of each field of an input.
type Fields = Vec<(String, ValueType)>;

/// What a case runs: a component behind the operator that a job would make of it.
struct Subject {
    inputs: Vec<String>,
    /// By input.
    fields: Vec<Fields>,
    /// Its outputs, the main one first.
    outputs: Vec<Output>,
    /// Columns of the main output that are compared; none: all.
    shown: Option<Vec<usize>>,
    states: Vec<String>,
    factory: Box<dyn OperatorFactory>,
}

impl Subject {
    fn of(component: &Component, case: &Case, way: Way) -> anyhow::Result<Self> {
        match (component.processor(), case.window_ms) {
            (Ok(description), None) => Self::processor(component, description, case, way),
            (Ok(_), Some(_)) => {
                bail!("the case has a `window`, which is for aggregators: the component is a processor")
            }
            (Err(_), Some(window_ms)) => Self::aggregator(component, window_ms, case, way),
            (Err(_), None) => {
                component.aggregator()?;
                bail!("the component is an aggregator: give the case a `window`, such as `window: 1m`")
            }
        }
    }

    fn processor(component: &Component, description: &Description, case: &Case, way: Way) -> anyhow::Result<Self> {
        let (fields, settings) = wiring(&description.fields, &description.inputs, case, way)?;
        Ok(Self {
            inputs: description.inputs.clone(),
            fields,
            outputs: description.outputs.clone(),
            shown: None,
            states: description.states.iter().map(|state| state.name.clone()).collect(),
            factory: Box::new(GuestFactory::new("case", component.clone(), settings)?),
        })
    }

    /// The only aggregate of tumbling windows, which send `key`, `window_start` and `result`.
    fn aggregator(component: &Component, window_ms: i64, case: &Case, way: Way) -> anyhow::Result<Self> {
        const SHOWN: [&str; 3] = ["key", "window_start", "result"];
        let description = component.aggregator()?;
        let inputs = vec![MAIN.to_string()];
        let (fields, settings) = wiring(&description.fields, &inputs, case, way)?;
        let is_keyed = |step: &Step| matches!(step, Step::Record(Record { key: Some(_), .. }));
        let settings_of_window = WindowSettings {
            size_ms: window_ms,
            offset_ms: 0,
            allowed_lateness_ms: 0,
            key: if case.steps.iter().any(is_keyed) { vec!["/key".to_string()] } else { vec![] },
            late_output: false,
            input_retracts: false,
            fields: fields[0].iter().enumerate().map(|(column, field)| (column, field.0.clone())).collect(),
        };
        let aggregator = GuestAggregator::new("/result", component.clone(), settings)?;
        let factory = WindowFactory::new(settings_of_window, Arc::new(aggregator))?;
        let columns =
            factory.schema().fields.into_iter().map(|field| (field.pointer[1..].to_string(), field.value_type));
        let (shown, columns): (Vec<usize>, Vec<_>) =
            columns.enumerate().filter(|(_, (name, _))| SHOWN.contains(&name.as_str())).unzip();
        Ok(Self {
            inputs,
            fields,
            outputs: vec![Output { name: MAIN.to_string(), columns }],
            shown: Some(shown),
            states: vec![],
            factory: Box::new(factory),
        })
    }
}

/// Where each input's fields come from, and the settings that say so to the operator.
fn wiring(
    wanted: &[WantedField],
    inputs: &[String],
    case: &Case,
    way: Way,
) -> anyhow::Result<(Vec<Fields>, GuestSettings)> {
    for name in case.fields.keys() {
        if !wanted.iter().any(|field| field.name == *name) {
            bail!("the case points the field `{name}` elsewhere; the component takes no such field");
        }
    }
    let (mut fields, mut sources) = (vec![], vec![]);
    for (input, name) in inputs.iter().enumerate() {
        let wanted: Vec<_> = rows::fields(wanted, input).collect();
        let pointer = |name: &String, own: &String| case.fields.get(name).unwrap_or(own).clone();
        fields.push(wanted.iter().map(|field| (pointer(&field.name, &field.pointer), field.value_type)).collect());
        let source = |(index, field): (usize, &&WantedField)| FieldSource {
            name: field.name.clone(),
            column: Some(index),
            value_type: field.value_type,
            required: field.required,
        };
        let is_of_it = |record: &Record| record.input.as_ref().map_or(input == 0, |given| given == name);
        let keyed = |step: &Step| matches!(step, Step::Record(record) if record.key.is_some() && is_of_it(record));
        // A case does not say which inputs are broadcast: one without keys may be.
        let broadcast = !case.steps.iter().any(keyed);
        sources.push(GuestInput { fields: wanted.iter().enumerate().map(source).collect(), broadcast });
    }
    let settings = GuestSettings {
        config: case.config.clone().unwrap_or_else(|| serde_json::json!({})),
        inputs: sources,
        replace_every_call: way == Way::Replaced,
        ..GuestSettings::default()
    };
    Ok((fields, settings))
}

struct Running {
    subject: Subject,
    operator: Box<dyn Operator>,
    state: Box<dyn StateBackend>,
    metrics: NodeMetrics,
    watermark: Timestamp,
    now: Timestamp,
    outcome: Outcome,
}

impl Running {
    fn start(subject: Subject) -> anyhow::Result<Self> {
        let mut state = memory::for_tests(0..MAX_PARALLELISM_DEFAULT);
        let declared = subject.factory.states();
        let numbers: Vec<StateNumber> = (0..declared.len() as u32).map(StateNumber).collect();
        numbers.iter().zip(&declared).for_each(|(number, declared)| state.register(*number, declared));
        let task = TaskInfo {
            operator: "case".into(),
            task: 0,
            parallelism: 1,
            max_parallelism: MAX_PARALLELISM_DEFAULT,
            states: numbers,
        };
        let operator = subject.factory.create(&task)?;
        let (metrics, outcome) = (NodeMetrics::default(), Outcome::default());
        let mut running = Self { subject, operator, state, metrics, watermark: START, now: 0, outcome };
        running.call(|operator, context| operator.open(context))?;
        Ok(running)
    }

    fn records(&mut self, records: &[&Record]) -> anyhow::Result<()> {
        let input = match &records[0].input {
            None => 0,
            Some(name) => {
                let inputs = &self.subject.inputs;
                let found = inputs.iter().position(|input| input == name);
                found.with_context(|| format!("the component has no input `{name}`; it has {}", inputs.join(", ")))?
            }
        };
        let batch = rows::batch(records, &self.subject.fields[input]);
        self.call(|operator, context| operator.on_batch(input, batch, context))
    }

    fn watermark(&mut self, to: Timestamp) -> anyhow::Result<()> {
        self.watermark = self.watermark.max(to);
        while self.call(|operator, context| operator.on_watermark(context))? == Due::More {}
        self.state.advance(self.watermark, self.now);
        Ok(())
    }

    fn clock(&mut self, to: Timestamp) -> anyhow::Result<()> {
        self.now = self.now.max(to);
        while self.call(|operator, context| operator.on_clock(context))? == Due::More {}
        self.state.advance(self.watermark, self.now);
        Ok(())
    }

    /// One call of the operator; what it puts out is kept.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut out = Emitter::default();
        let mut context = Context {
            state: &mut self.state,
            out: &mut out,
            watermark: self.watermark,
            now: self.now,
            metrics: &self.metrics,
        };
        let answer = call(self.operator.as_mut(), &mut context)?;
        for (port, batch) in &out.batches {
            self.keep(*port, batch);
        }
        self.outcome.dead.extend(out.dead.into_iter().map(|letter| letter.reason));
        Ok(answer)
    }

    fn keep(&mut self, port: usize, batch: &Batch) {
        let output = &self.subject.outputs[port];
        let name = if port == 0 { MAIN } else { &output.name };
        let rows = match &self.subject.shown {
            Some(shown) => {
                let columns = shown.iter().map(|&column| batch.columns[column].clone()).collect();
                rows::json(&Batch { columns, timestamps: batch.timestamps.clone(), ..Batch::default() }, output)
            }
            None => rows::json(batch, output),
        };
        self.outcome.outputs.entry(name.to_string()).or_default().extend(rows);
    }

    /// The value of a value state, null if there is none.
    fn state(&self, name: &str, key: &Json) -> anyhow::Result<Json> {
        let index = self.subject.states.iter().position(|state| state == name);
        let index = index.with_context(|| format!("the component has no state `{name}`"))?;
        let key = rows::key(key);
        let mut row = vec![];
        push_varint(&mut row, key.len() as u64);
        row.extend_from_slice(&key);
        let group = KeyGroup::of(hash(&key), MAX_PARALLELISM_DEFAULT);
        let mut bytes = vec![];
        let found = self.state.get(Address { group, state: StateNumber(index as u32), row: &row }, &mut bytes);
        let visible = found.is_some_and(|meta| meta.expiry > self.watermark || self.watermark == START);
        Ok(if visible { typed(&bytes).map_or(Json::Null, rows::value_json) } else { Json::Null })
    }
}
