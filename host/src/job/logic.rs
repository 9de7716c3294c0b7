//! What an operator of a job file is: a window or a guest. Says what it reads and puts out, for the plan, and makes the
//! factory once the plan is there.

use super::blueprint::input;
use super::definition::{
    self, Aggregate, AggregateFunction, BuiltIn, Guest, OnError, Operator, Window, WindowKind,
};
use crate::engine::{self, WantedField};
use crate::operator::guest::{self, FieldSource, GuestFactory, GuestInput, GuestPort, GuestSettings};
use crate::operator::window::{self, WindowFactory, WindowSettings};
use crate::operator::OperatorFactory;
use anyhow::{anyhow, ensure};
use dataflow::aggregate as rules;
use dataflow::graph::{self, Edge, Input, Node, Plan, Port};
use dataflow::record::{Field, Schema, ValueType};
use std::sync::Arc;

/// One operator's logic.
pub(super) enum OperatorLogic {
    Window(Box<WindowLogic>),
    Guest(GuestLogic),
}

impl OperatorLogic {
    /// Content digest of its component, if it has one.
    pub(super) fn digest(&self) -> Option<String> {
        match self {
            Self::Window(window) => window.guest.as_ref().map(|component| component.digest().to_string()),
            Self::Guest(guest) => Some(guest.component.digest().to_string()),
        }
    }

    pub(super) fn ports(&self) -> anyhow::Result<Vec<Port>> {
        match self {
            Self::Window(window) => window.ports(),
            Self::Guest(guest) => Ok(guest.ports()),
        }
    }

    pub(super) fn inputs(&self, operator: &Operator, froms: &[(usize, usize)]) -> anyhow::Result<Vec<Input>> {
        match self {
            Self::Window(window) => Ok(vec![window.input(froms[0])]),
            Self::Guest(guest) => guest.inputs(operator, froms),
        }
    }

    /// Takes the types of fields from the columns they come from, where those are declared.
    pub(super) fn settle_types(&mut self, nodes: &[Node], at: usize) {
        if let (Self::Window(window), Some(input)) = (self, nodes[at].inputs.first()) {
            let declared = graph::declared(nodes, input.from);
            for aggregate in &mut window.aggregates {
                aggregate.settle(declared);
            }
        }
    }

    pub(super) fn factory(self, nodes: &[Node], plan: &Plan, at: usize) -> anyhow::Result<Arc<dyn OperatorFactory>> {
        match self {
            Self::Window(window) => window.factory(nodes, plan, at),
            Self::Guest(guest) => guest.factory(nodes, plan, at),
        }
    }
}

/// A window with its aggregates.
pub(super) struct WindowLogic {
    name: String,
    key: Vec<String>,
    kind: WindowKind,
    allowed_lateness_ms: i64,
    aggregates: Vec<Computed>,
    guest: Option<engine::Component>,
    guest_settings: Option<Guest>,
}

/// One aggregate with the type its field has.
struct Computed {
    column: String,
    function: Option<rules::Function>,
    field: Option<String>,
    given: Option<ValueType>,
    value_type: ValueType,
}

impl Computed {
    fn new(aggregate: &Aggregate) -> Self {
        let column = format!("/{}", aggregate.name);
        let (function, field, given) = match &aggregate.function {
            AggregateFunction::BuiltIn { function, field, value_type } => (Some(rule(*function)), field.clone(), *value_type),
            AggregateFunction::Guest(_) => (None, None, None),
        };
        Self { column, function, field, given, value_type: given.unwrap_or(ValueType::Float) }
    }

    fn settle(&mut self, declared: Option<&Schema>) {
        let found = declared.and_then(|schema| schema.find(self.field.as_deref()?).map(|at| schema.fields[at].value_type));
        self.value_type = self.given.or(found).unwrap_or(ValueType::Float);
    }
}

fn rule(function: BuiltIn) -> rules::Function {
    match function {
        BuiltIn::Count => rules::Function::Count,
        BuiltIn::Sum => rules::Function::Sum,
        BuiltIn::Min => rules::Function::Min,
        BuiltIn::Max => rules::Function::Max,
        BuiltIn::Mean => rules::Function::Mean,
    }
}

impl WindowLogic {
    pub(super) fn new(operator: &Operator, window: &Window, guest: Option<engine::Component>) -> Self {
        let guest_settings = window.aggregates.iter().find_map(|aggregate| match &aggregate.function {
            AggregateFunction::Guest(guest) => Some(guest.clone()),
            AggregateFunction::BuiltIn { .. } => None,
        });
        Self {
            name: operator.name.clone(),
            key: operator.inputs[0].key.clone(),
            kind: window.kind,
            allowed_lateness_ms: window.allowed_lateness_ms,
            aggregates: window.aggregates.iter().map(Computed::new).collect(),
            guest,
            guest_settings,
        }
    }

    fn ports(&self) -> anyhow::Result<Vec<Port>> {
        let columns = vec![0; self.aggregates.len() + self.wanted_by_guest().len()];
        let panes = self.window_factory(&columns, false)?.schema();
        let keyed_by: Vec<String> = match self.key.len() {
            1 => vec!["/key".to_string()],
            _ => self.key.clone(),
        };
        Ok(vec![
            Port { name: String::new(), columns: Some(panes), keyed_by },
            Port { name: "late".into(), columns: None, keyed_by: self.key.clone() },
        ])
    }

    fn input(&self, from: (usize, usize)) -> Input {
        let mut wants: Vec<Field> = self
            .aggregates
            .iter()
            .filter_map(|aggregate| aggregate.field.as_ref().map(|field| Field::new(field, aggregate.value_type)))
            .collect();
        wants.extend(self.wanted_by_guest().iter().map(|field| self.guest_field(field)));
        let whole_values = self.guest.as_ref().is_some_and(|guest| guest.aggregator().is_ok_and(|it| it.whole_values));
        input(from, self.key.clone(), wants, whole_values)
    }

    fn wanted_by_guest(&self) -> &[WantedField] {
        self.guest.as_ref().and_then(|guest| guest.aggregator().ok()).map_or(&[], |description| &description.fields)
    }

    fn guest_field(&self, field: &WantedField) -> Field {
        let elsewhere = self.guest_settings.as_ref().and_then(|guest| guest.fields.get(&field.name));
        Field::new(elsewhere.unwrap_or(&field.pointer), field.value_type)
    }

    fn factory(&self, nodes: &[Node], plan: &Plan, at: usize) -> anyhow::Result<Arc<dyn OperatorFactory>> {
        let late_read = nodes.iter().any(|node| node.inputs.iter().any(|input| input.from == (at, WindowFactory::LATE)));
        Ok(Arc::new(self.window_factory(&plan.inputs[at][0].wants, late_read)?))
    }

    /// `columns`: where each wanted field lies.
    fn window_factory(&self, columns: &[usize], late_output: bool) -> anyhow::Result<WindowFactory> {
        let WindowKind::Tumbling { size_ms, offset_ms } = self.kind;
        let settings = WindowSettings {
            size_ms,
            offset_ms,
            allowed_lateness_ms: self.allowed_lateness_ms,
            key: self.key.clone(),
            late_output,
            input_retracts: false,
        };
        let aggregator: Arc<dyn window::Aggregator> = match &self.guest {
            Some(component) => self.guest_aggregator(component, columns)?,
            None => Arc::new(window::BuiltIn::new(&self.built_in(columns), false)?),
        };
        WindowFactory::new(settings, aggregator)
    }

    fn built_in(&self, columns: &[usize]) -> Vec<(String, rules::Aggregate)> {
        let mut column = columns.iter();
        let one = |aggregate: &Computed| {
            let function = aggregate.function.expect("a guest aggregate stands alone");
            let field = aggregate.field.as_ref().map(|_| {
                (*column.next().expect("every wanted field has a column"), aggregate.value_type)
            });
            (aggregate.column.clone(), rules::Aggregate { function, field })
        };
        self.aggregates.iter().map(one).collect()
    }

    fn guest_aggregator(&self, component: &engine::Component, columns: &[usize]) -> anyhow::Result<Arc<dyn window::Aggregator>> {
        let guest = self.guest_settings.as_ref().expect("a guest aggregate has its settings");
        let fields = sources(component.aggregator()?.fields.iter(), columns);
        let settings = settings(guest, vec![GuestInput { fields, broadcast: false }], vec![]);
        let column = self.aggregates[0].column.clone();
        Ok(Arc::new(guest::GuestAggregator::new(&self.name, component.clone(), &column, settings)?))
    }
}

/// A guest with what it says of itself.
pub(super) struct GuestLogic {
    component: engine::Component,
    description: engine::Description,
    guest: Guest,
}

impl GuestLogic {
    pub(super) fn new(operator: &Operator, guest: &Guest, component: engine::Component) -> anyhow::Result<Self> {
        let description = component.processor()?.clone();
        let named = |name: &String| description.fields.iter().any(|field| &field.name == name);
        if let Some(unknown) = guest.fields.keys().find(|name| !named(name)) {
            let known: Vec<&str> = description.fields.iter().map(|field| field.name.as_str()).collect();
            anyhow::bail!(
                "operator `{}` points field `{unknown}` elsewhere, but its component has no such field; it has {}",
                operator.name,
                known.join(", ")
            );
        }
        Ok(Self { component, description, guest: guest.clone() })
    }

    fn ports(&self) -> Vec<Port> {
        let port = |(at, output): (usize, &engine::Output)| {
            let fields = output.columns.iter().map(|(name, value_type)| Field::new(pointer(name), *value_type)).collect();
            let columns = (!output.columns.is_empty()).then_some(Schema { fields });
            let name = if at == 0 { String::new() } else { output.name.clone() };
            Port { name, columns, keyed_by: vec![] }
        };
        self.description.outputs.iter().enumerate().map(port).collect()
    }

    /// The job's inputs in the description's order.
    fn inputs(&self, operator: &Operator, froms: &[(usize, usize)]) -> anyhow::Result<Vec<Input>> {
        let order = self.order(operator)?;
        let one = |(described, &given): (usize, &usize)| {
            let wants = self.fields_of(described).map(|field| self.field(field)).collect();
            let key = operator.inputs[given].key.clone();
            ensure!(
                !key.is_empty() || !self.is_keyed(),
                "operator `{}` keeps state or sets timers, so its input needs a key: add `key: /field`",
                operator.name
            );
            Ok(input(froms[given], key, wants, self.description.whole_values))
        };
        order.iter().enumerate().map(one).collect()
    }

    /// For each described input, which of the job's inputs it is.
    fn order(&self, operator: &Operator) -> anyhow::Result<Vec<usize>> {
        let described = &self.description.inputs;
        ensure!(
            described.len() == operator.inputs.len(),
            "operator `{}` has {} inputs in the job, its component describes {}: {}",
            operator.name,
            operator.inputs.len(),
            described.len(),
            described.join(", ")
        );
        let find = |(at, name): (usize, &String)| match operator.inputs[at].name {
            None => Ok(at),
            Some(_) => operator.inputs.iter().position(|input| input.name.as_ref() == Some(name)).ok_or_else(|| {
                anyhow!("operator `{}` has no input `{name}`, which its component describes", operator.name)
            }),
        };
        described.iter().enumerate().map(find).collect()
    }

    fn is_keyed(&self) -> bool {
        let keyed = |state: &engine::State| state.kind != engine::StateKind::Broadcast;
        !self.description.timers.is_empty() || self.description.states.iter().any(keyed)
    }

    fn fields_of(&self, input: usize) -> impl Iterator<Item = &WantedField> {
        self.description.fields.iter().filter(move |field| field.input.is_none_or(|of| of == input))
    }

    fn field(&self, field: &WantedField) -> Field {
        Field::new(self.guest.fields.get(&field.name).unwrap_or(&field.pointer), field.value_type)
    }

    fn factory(&self, nodes: &[Node], plan: &Plan, at: usize) -> anyhow::Result<Arc<dyn OperatorFactory>> {
        let inputs = plan.inputs[at]
            .iter()
            .enumerate()
            .map(|(input, edge): (usize, &Edge)| GuestInput { fields: sources(self.fields_of(input), &edge.wants), broadcast: false })
            .collect();
        let read = |port| nodes.iter().any(|node| node.inputs.iter().any(|input| input.from == (at, port)));
        let ports = (0..self.description.outputs.len())
            .map(|port| GuestPort { unread: !read(port), decode: decoder(nodes, plan, at, port), pass: vec![] })
            .collect();
        let factory = GuestFactory::new(self.component.clone(), settings(&self.guest, inputs, ports))?;
        Ok(Arc::new(factory))
    }
}

/// Takes the fields that are read downstream out of the bytes that a guest put out, which are JSON then.
fn decoder(nodes: &[Node], plan: &Plan, at: usize, port: usize) -> Option<guest::Reshape> {
    let schema = plan.ports[at][port].schema.clone();
    if nodes[at].ports[port].columns.is_some() || schema.fields.is_empty() {
        return None;
    }
    Some(Arc::new(move |mut batch| {
        if let Some(raw) = &batch.raw {
            let (columns, faults) = crate::source::format::fields_of_json(raw, &schema);
            batch.columns = columns;
            batch.faults = faults;
        }
        batch
    }))
}

fn sources<'a>(fields: impl Iterator<Item = &'a WantedField>, columns: &[usize]) -> Vec<FieldSource> {
    let source = |(field, &column): (&WantedField, &usize)| FieldSource {
        name: field.name.clone(),
        column: Some(column),
        value_type: field.value_type,
        required: field.required,
    };
    fields.zip(columns).map(source).collect()
}

fn settings(guest: &Guest, inputs: Vec<GuestInput>, ports: Vec<GuestPort>) -> GuestSettings {
    let definition::Limits { memory, time, output_records, output_bytes } = guest.limits;
    let limit = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = engine::Limits {
        memory: limit(memory),
        time,
        output_rows: limit(output_records),
        output_bytes: limit(output_bytes),
        ..engine::Limits::default()
    };
    let on_error = match guest.on_error {
        OnError::DeadLetter => guest::OnError::DeadLetter,
        OnError::Skip => guest::OnError::Skip,
        OnError::Fail => guest::OnError::Fail,
    };
    GuestSettings { config: guest.config.clone(), on_error, limits, inputs, ports, ..GuestSettings::default() }
}

/// The pointer of a declared column: `city` is `/city`.
fn pointer(name: &str) -> String {
    if name.starts_with('/') { name.to_string() } else { format!("/{name}") }
}
