//! What is known of each node's outputs before anything runs: the columns of windows and of components that declare them;
//! whatever comes from a source may have any field.

use super::structure::{LATE, OUT_OF_TOLERANCE};
use crate::job::definition::{
    AggregateFunction, BuiltIn, Component, Definition, Guest, Logic, OnExcess, Operator, Reference, Window,
};
use dataflow::record::{Field, Schema, ValueType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the job's components say of themselves, by where the job file says they are.
pub type Components = BTreeMap<PathBuf, Described>;

/// What a component says of itself, as far as a job file can be wrong about it.
#[derive(Debug, Clone)]
pub enum Described {
    /// It is of the world `processor`.
    Processor {
        /// Fields it takes out of its records.
        fields: Vec<TakenField>,
        /// Names of its inputs.
        inputs: Vec<String>,
        /// Its outputs, the main one first.
        outputs: Vec<(String, Columns)>,
        /// It has states or timers of its records' keys.
        keyed: bool,
        /// States by key that nothing ever ends: no time to live, and no timers that could clear them.
        endless: Vec<String>,
    },
    /// It is of the world `aggregator`.
    Aggregator {
        /// Fields it takes out of its records.
        fields: Vec<TakenField>,
        /// Type of the pane's column.
        result_type: ValueType,
    },
}

/// A field that a component takes.
#[derive(Debug, Clone)]
pub struct TakenField {
    /// Name by which a job may point it elsewhere.
    pub name: String,
    /// Where it lies unless the job says otherwise.
    pub pointer: String,
    /// A record without it is a dead letter.
    pub required: bool,
    /// The input it is taken from; none: from every input.
    pub input: Option<usize>,
}

impl Described {
    /// The fields it takes.
    pub fn fields(&self) -> &[TakenField] {
        match self {
            Self::Processor { fields, .. } | Self::Aggregator { fields, .. } => fields,
        }
    }
}

/// The columns of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum Columns {
    /// These and no others.
    Declared(Schema),
    /// Whatever the records have.
    Open,
}

/// The outputs of each node, by node and name; the main output's name is empty.
pub type Outputs = BTreeMap<(String, String), Columns>;

/// What is known of every output of a job without cycles.
pub fn outputs(definition: &Definition, components: &Components) -> Outputs {
    let mut outputs = Outputs::new();
    for source in &definition.sources {
        outputs.insert((source.name.clone(), String::new()), Columns::Open);
        if source.tolerance.on_excess == OnExcess::SideOutput {
            outputs.insert((source.name.clone(), OUT_OF_TOLERANCE.into()), Columns::Open);
        }
    }
    // As many rounds as there are operators: each settles at least the next one downstream.
    for _ in &definition.operators {
        for operator in &definition.operators {
            let of = operator_outputs(operator, components, &outputs);
            outputs.extend(of.into_iter().map(|(name, columns)| ((operator.name.clone(), name), columns)));
        }
    }
    outputs
}

/// The columns that `reference` names; none where there is no such output.
pub(super) fn columns_of<'a>(outputs: &'a Outputs, reference: &Reference) -> Option<&'a Columns> {
    outputs.get(&(reference.node.clone(), reference.output.clone().unwrap_or_default()))
}

/// Where a guest's code is, as a key of [`Components`].
pub(in crate::job) fn path_of(guest: &Guest) -> &Path {
    match &guest.component {
        Component::File(path) | Component::Project(path) => path,
    }
}

fn operator_outputs(operator: &Operator, components: &Components, known: &Outputs) -> Vec<(String, Columns)> {
    match &operator.logic {
        Logic::Window(window) => {
            let late = match operator.inputs.as_slice() {
                [input] => columns_of(known, &input.from).cloned().unwrap_or(Columns::Open),
                _ => Columns::Open,
            };
            vec![(String::new(), Columns::Declared(pane(operator, window, components))), (LATE.into(), late)]
        }
        Logic::Guest(guest) => match components.get(path_of(guest)) {
            Some(Described::Processor { outputs, .. }) => {
                let name = |index: usize, name: &str| if index == 0 { String::new() } else { name.to_string() };
                let outputs = outputs.iter().enumerate();
                outputs.map(|(index, (output, columns))| (name(index, output), columns.clone())).collect()
            }
            _ => vec![(String::new(), Columns::Open)],
        },
    }
}

/// The columns of a window's panes.
pub(super) fn pane(operator: &Operator, window: &Window, components: &Components) -> Schema {
    let key = operator.inputs.first().map(|input| input.key.as_slice()).unwrap_or_default();
    let mut fields: Vec<Field> = match key {
        [_] => vec![Field::new("/key", ValueType::Scalar)],
        several => several.iter().map(|pointer| Field::new(pointer.as_str(), ValueType::Scalar)).collect(),
    };
    fields.push(Field::time("/window_start"));
    fields.push(Field::time("/window_end"));
    fields.push(Field::new("/pane/timing", ValueType::Text));
    fields.push(Field::new("/pane/index", ValueType::Int));
    for aggregate in &window.aggregates {
        let value_type = match &aggregate.function {
            AggregateFunction::BuiltIn { function: BuiltIn::Count, .. } => ValueType::Int,
            AggregateFunction::BuiltIn { function: BuiltIn::Mean, .. } => ValueType::Float,
            AggregateFunction::BuiltIn { value_type, .. } => value_type.unwrap_or(ValueType::Float),
            AggregateFunction::Guest(guest) => match components.get(path_of(guest)) {
                Some(Described::Aggregator { result_type, .. }) => *result_type,
                _ => ValueType::Bytes,
            },
        };
        fields.push(Field::new(format!("/{}", aggregate.name), value_type));
    }
    Schema { fields }
}
