//! What a component says of itself, checked once and then trusted: ids in every later call are positions in these lists.

use super::bindings::{aggregator, processing, types};
use crate::state::{StateKind, Ttl};
use dataflow::record::ValueType;
use dataflow::time::Clock;
use std::collections::BTreeSet;

/// What a processor is.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// States by id.
    pub states: Vec<State>,
    /// Timers by id.
    pub timers: Vec<Timer>,
    /// Fields it wants taken out of its records.
    pub fields: Vec<WantedField>,
    /// It wants whole values.
    pub whole_values: bool,
    /// It wants headers.
    pub headers: bool,
    /// Names of its inputs; at least one.
    pub inputs: Vec<String>,
    /// Its outputs by port; at least one.
    pub outputs: Vec<Output>,
    /// JSON Schema of its configuration.
    pub config_schema: Option<serde_json::Value>,
}

/// A state it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Its identity across versions of the component.
    pub name: String,
    /// Its shape.
    pub kind: StateKind,
    /// Type of values, items, or entries' values.
    pub value_type: ValueType,
    /// Encoding version, from 1.
    pub version: u16,
    /// When entries go.
    pub ttl: Option<Ttl>,
    /// Goes in with each batch and comes back with the effects.
    pub prefetch: bool,
}

/// A kind of timer it sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// Its identity across versions of the component.
    pub name: String,
    /// Which clock it goes by.
    pub clock: Clock,
}

/// A field of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedField {
    /// Name by which a job may point it elsewhere.
    pub name: String,
    /// Where it lies unless the job says otherwise.
    pub pointer: String,
    /// Its type.
    pub value_type: ValueType,
    /// A record without it is a dead letter.
    pub required: bool,
    /// The input it is taken from; none: from every input.
    pub input: Option<usize>,
}

/// An output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its name; the main output's is not used in jobs.
    pub name: String,
    /// Columns it sends; none where it sends bytes.
    pub columns: Vec<(String, ValueType)>,
}

/// What an aggregator is.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregatorDescription {
    /// Fields it wants taken out of its records.
    pub fields: Vec<WantedField>,
    /// It wants whole values.
    pub whole_values: bool,
    /// Encoding version of its accumulators, from 1.
    pub accumulator_version: u16,
    /// It can take rows out again.
    pub retracts: bool,
    /// Type of the pane's column.
    pub result_type: ValueType,
    /// JSON Schema of its configuration.
    pub config_schema: Option<serde_json::Value>,
}

impl Description {
    pub(super) fn of(from: processing::Description) -> Result<Self, String> {
        let description = Self {
            states: from.states.into_iter().map(State::of).collect::<Result<_, _>>()?,
            timers: from
                .timers
                .into_iter()
                .map(|timer| Timer { name: timer.name, clock: clock(timer.clock) })
                .collect(),
            fields: from.fields.into_iter().map(WantedField::of).collect::<Result<_, _>>()?,
            whole_values: from.whole_values,
            headers: from.headers,
            inputs: from.inputs,
            outputs: from.outputs.into_iter().map(Output::of).collect::<Result<_, _>>()?,
            config_schema: from.config_schema.map(|schema| parse_schema(&schema)).transpose()?,
        };
        distinct("state", description.states.iter().map(|state| &state.name))?;
        distinct("timer", description.timers.iter().map(|timer| &timer.name))?;
        distinct("field", description.fields.iter().map(|field| &field.name))?;
        distinct("input", description.inputs.iter())?;
        distinct("output", description.outputs.iter().map(|output| &output.name))?;
        if description.inputs.is_empty() {
            return Err("describes no input; at least one is needed".into());
        }
        if description.outputs.is_empty() {
            return Err("describes no output; at least one is needed".into());
        }
        for field in &description.fields {
            if field.input.is_some_and(|input| input >= description.inputs.len()) {
                return Err(format!("field `{}` is of an input that is not described", field.name));
            }
        }
        Ok(description)
    }
}

impl AggregatorDescription {
    pub(super) fn of(
        from: aggregator::exports::millstream::operator::aggregation::Description,
    ) -> Result<Self, String> {
        let description = Self {
            fields: from.fields.into_iter().map(WantedField::of).collect::<Result<_, _>>()?,
            whole_values: from.whole_values,
            accumulator_version: version("the accumulator", from.accumulator_version)?,
            retracts: from.retracts,
            result_type: value_type(from.result_type),
            config_schema: from.config_schema.map(|schema| parse_schema(&schema)).transpose()?,
        };
        distinct("field", description.fields.iter().map(|field| &field.name))?;
        Ok(description)
    }
}

impl State {
    fn of(from: types::StateDeclaration) -> Result<Self, String> {
        let kind = match from.kind {
            types::StateKind::ValueState => StateKind::Value,
            types::StateKind::ListState => StateKind::List,
            types::StateKind::MapState => StateKind::Map,
            types::StateKind::BroadcastMap => StateKind::BroadcastMap,
        };
        if from.prefetch && kind != StateKind::Value {
            return Err(format!("state `{}` is to be prefetched, which only a value state can be", from.name));
        }
        let ttl = from.ttl.map(|ttl| match i64::try_from(ttl.milliseconds) {
            Ok(ms) if ms > 0 => Ok(Ttl { ms, clock: clock(ttl.clock), renewed_by_reads: ttl.renewed_by_reads }),
            _ => Err(format!("state `{}` has a time to live of {} ms", from.name, ttl.milliseconds)),
        });
        Ok(Self {
            version: version(&format!("state `{}`", from.name), from.version)?,
            ttl: ttl.transpose()?,
            name: from.name,
            kind,
            value_type: value_type(from.value_type),
            prefetch: from.prefetch,
        })
    }
}

impl WantedField {
    fn of(from: types::Field) -> Result<Self, String> {
        if !from.pointer.is_empty() && !from.pointer.starts_with('/') {
            return Err(format!(
                "field `{}` has the pointer `{}`, which does not begin with `/`",
                from.name, from.pointer
            ));
        }
        Ok(Self {
            name: from.name,
            pointer: from.pointer,
            value_type: value_type(from.value_type),
            required: from.required,
            input: from.input.map(|input| input as usize),
        })
    }
}

impl Output {
    fn of(from: types::OutputDeclaration) -> Result<Self, String> {
        distinct("column", from.columns.iter().map(|column| &column.name))?;
        let columns = from.columns.into_iter().map(|column| (column.name, value_type(column.value_type))).collect();
        Ok(Self { name: from.name, columns })
    }
}

fn version(what: &str, version: u32) -> Result<u16, String> {
    match u16::try_from(version) {
        Ok(version) if version > 0 => Ok(version),
        _ => Err(format!("{what} has version {version}; versions go from 1 to 65535")),
    }
}

fn clock(from: types::Clock) -> Clock {
    match from {
        types::Clock::EventTime => Clock::EventTime,
        types::Clock::ProcessingTime => Clock::ProcessingTime,
    }
}

fn value_type(from: types::ValueType) -> ValueType {
    match from {
        types::ValueType::Text => ValueType::Text,
        types::ValueType::Bytes => ValueType::Bytes,
        types::ValueType::Int => ValueType::Int,
        types::ValueType::Float => ValueType::Float,
        types::ValueType::Boolean => ValueType::Boolean,
    }
}

fn parse_schema(schema: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(schema).map_err(|error| format!("its config-schema is not JSON: {error}"))
}

fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("describes {what} without a name"));
        }
        if !seen.insert(name) {
            return Err(format!("describes {what} `{name}` twice"));
        }
    }
    Ok(())
}
