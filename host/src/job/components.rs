//! What a job's components say of themselves, for `check`: loads each once through the engine and asks.

use super::check::{Columns, Components, Described, TakenField, guests};
use super::definition::problem::Problem;
use super::definition::{Component, Definition, Guest};
use crate::engine::description::{AggregatorDescription, Description, WantedField};
use crate::engine::{self, Engine};
use crate::state::StateKind;
use dataflow::record::{Field, Schema};
use std::path::Path;

/// Loads every component of a job; what is refused, and every configuration that does not fit, is a problem.
pub fn describe(
    definition: &Definition,
    engine: &Engine,
    load: &dyn Fn(&Component) -> anyhow::Result<Vec<u8>>,
) -> (Components, Vec<Problem>) {
    let mut known = Components::new();
    let mut problems = vec![];
    for guest in guests(definition) {
        match describe_one(guest, engine, load) {
            Ok((described, config)) => {
                known.insert(path_of(guest).to_path_buf(), described);
                problems.extend(config.err().map(|error| Problem::at(guest.place, format!("{error:#}"))));
            }
            Err(error) => {
                let message = format!("the component {} is refused: {error:#}", path_of(guest).display());
                problems.push(Problem::at(guest.place, message));
            }
        }
    }
    (known, problems)
}

fn path_of(guest: &Guest) -> &Path {
    match &guest.component {
        Component::File(path) | Component::Project(path) => path,
    }
}

fn describe_one(
    guest: &Guest,
    engine: &Engine,
    load: &dyn Fn(&Component) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<(Described, anyhow::Result<()>)> {
    let component = engine.load(&load(&guest.component)?)?;
    let described = match component.processor() {
        Ok(description) => processor(description),
        Err(_) => aggregator(component.aggregator()?),
    };
    Ok((described, component.check_config(&guest.config)))
}

fn processor(description: &Description) -> Described {
    Described::Processor {
        fields: description.fields.iter().map(taken).collect(),
        inputs: description.inputs.clone(),
        outputs: description.outputs.iter().map(|output| (output.name.clone(), columns(output))).collect(),
        keyed: !description.timers.is_empty()
            || description.states.iter().any(|state| state.kind != StateKind::BroadcastMap),
        endless: description
            .states
            .iter()
            .filter(|state| {
                description.timers.is_empty() && state.kind != StateKind::BroadcastMap && state.ttl.is_none()
            })
            .map(|state| state.name.clone())
            .collect(),
    }
}

fn aggregator(description: &AggregatorDescription) -> Described {
    Described::Aggregator {
        fields: description.fields.iter().map(taken).collect(),
        result_type: description.result_type,
    }
}

fn taken(field: &WantedField) -> TakenField {
    TakenField {
        name: field.name.clone(),
        pointer: field.pointer.clone(),
        required: field.required,
        input: field.input,
    }
}

fn columns(output: &engine::description::Output) -> Columns {
    if output.columns.is_empty() {
        return Columns::Open;
    }
    let fields = output.columns.iter().map(|(name, value_type)| Field::new(format!("/{name}"), *value_type));
    Columns::Declared(Schema { fields: fields.collect() })
}
