//! Runs one case on a fresh operator and fresh state.

use super::case::{Case, Record, Step};
use super::compare::{Outcome, differences};
use super::rows;
use crate::engine::Component;
use crate::engine::description::Description;
use crate::operator::guest::{FieldSource, GuestFactory, GuestInput, GuestSettings};
use crate::operator::{Context, Due, Emitter, Operator, OperatorFactory, TaskInfo};
use crate::state::memory::MemoryBackend;
use crate::state::{Address, StateBackend, StateNumber, typed};
use crate::telemetry::NodeMetrics;
use anyhow::{Context as _, bail};
use dataflow::key::{KeyGroup, MAX_PARALLELISM_DEFAULT, hash, push_varint};
use dataflow::record::{Batch, ValueType};
use dataflow::time::{END, START, Timestamp};
use serde_json::Value as Json;

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
    let description = component.processor()?;
    let mut running = Running::start(component, case, way)?;
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
            Step::End(_) => running.watermark(END)?,
        }
    }
    let states = case.expect.state.iter().map(|expected| running.state(&expected.state, &expected.key));
    running.outcome.states = states.collect::<anyhow::Result<_>>()?;
    for name in case.expect.outputs.keys() {
        if name != MAIN && !description.outputs.iter().skip(1).any(|output| output.name == *name) {
            let names: Vec<&str> = description.outputs.iter().skip(1).map(|output| output.name.as_str()).collect();
            bail!("the case expects rows of `{name}`; the component's outputs are {MAIN} {}", names.join(" "));
        }
    }
    Ok(differences(&case.expect, &running.outcome))
}

/// The main output's name in cases.
const MAIN: &str = "main";

struct Running<'a> {
    description: &'a Description,
    /// Pointer and type of each field, by input.
    fields: Vec<Vec<(String, ValueType)>>,
    operator: Box<dyn Operator>,
    state: Box<dyn StateBackend>,
    metrics: NodeMetrics,
    watermark: Timestamp,
    now: Timestamp,
    outcome: Outcome,
}

impl<'a> Running<'a> {
    fn start(component: &'a Component, case: &Case, way: Way) -> anyhow::Result<Self> {
        let description = component.processor()?;
        for name in case.fields.keys() {
            if !description.fields.iter().any(|field| field.name == *name) {
                bail!("the case points the field `{name}` elsewhere; the component takes no such field");
            }
        }
        let mut fields = vec![];
        let mut inputs = vec![];
        for input in 0..description.inputs.len() {
            let wanted: Vec<_> = rows::fields(description, input).collect();
            let pointer = |name: &String, own: &String| case.fields.get(name).unwrap_or(own).clone();
            fields.push(wanted.iter().map(|field| (pointer(&field.name, &field.pointer), field.value_type)).collect());
            let source = |(index, field): (usize, &&crate::engine::description::WantedField)| FieldSource {
                name: field.name.clone(),
                column: Some(index),
                value_type: field.value_type,
                required: field.required,
            };
            inputs.push(GuestInput { fields: wanted.iter().enumerate().map(source).collect(), broadcast: false });
        }
        let settings = GuestSettings {
            config: case.config.clone().unwrap_or_else(|| serde_json::json!({})),
            inputs,
            replace_every_call: way == Way::Replaced,
            ..GuestSettings::default()
        };
        let factory = GuestFactory::new("case", component.clone(), settings)?;
        let mut state: Box<dyn StateBackend> = Box::new(MemoryBackend::for_tests(0..MAX_PARALLELISM_DEFAULT));
        let declared = factory.states();
        let numbers: Vec<StateNumber> = (0..declared.len() as u32).map(StateNumber).collect();
        numbers.iter().zip(&declared).for_each(|(number, declared)| state.register(*number, declared));
        let task = TaskInfo {
            operator: "case".into(),
            task: 0,
            parallelism: 1,
            max_parallelism: MAX_PARALLELISM_DEFAULT,
            states: numbers,
        };
        let operator = factory.create(&task)?;
        let mut running = Self {
            description,
            fields,
            operator,
            state,
            metrics: NodeMetrics::default(),
            watermark: START,
            now: 0,
            outcome: Outcome::default(),
        };
        running.call(|operator, context| operator.open(context))?;
        Ok(running)
    }

    fn records(&mut self, records: &[&Record]) -> anyhow::Result<()> {
        let input = match &records[0].input {
            None => 0,
            Some(name) => {
                let inputs = &self.description.inputs;
                let found = inputs.iter().position(|input| input == name);
                found.with_context(|| format!("the component has no input `{name}`; it has {}", inputs.join(", ")))?
            }
        };
        let batch = rows::batch(records, &self.fields[input]);
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
        let output = &self.description.outputs[port];
        let name = if port == 0 { MAIN } else { &output.name };
        self.outcome.outputs.entry(name.to_string()).or_default().extend(rows::json(batch, output));
    }

    /// The value of a value state, null if there is none.
    fn state(&self, name: &str, key: &Json) -> anyhow::Result<Json> {
        let index = self.description.states.iter().position(|state| state.name == name);
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
