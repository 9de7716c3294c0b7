//! What an operator of a job file is: a window, a guest, or native logic in a guest's place. Says what it reads and puts out, for the plan, and makes the
//! factory once the plan is there.

use super::definition::{self, Aggregate, AggregateFunction, BuiltIn, Guest, OnError, Operator, Window, WindowKind};
use crate::engine;
use crate::engine::description::{Description, Output, State, WantedField};
use crate::operator::OperatorFactory;
use crate::operator::guest::{self, FieldSource, GuestFactory, GuestInput, GuestPort, GuestSettings};
use crate::operator::native::{self, NativeFactory};
use crate::operator::window::{self, WindowFactory, WindowSettings};
use crate::state::StateKind;
use anyhow::{anyhow, ensure};
use dataflow::aggregate as rules;
use dataflow::graph::{self, Edge, Input, Node, Plan, Port};
use dataflow::record::{Field, Schema, ValueType};
use std::sync::Arc;

/// One operator's logic.
pub(super) enum OperatorLogic {
    Window(Box<WindowLogic>),
    Guest(Box<GuestLogic>),
    Native(NativeLogic),
}

impl OperatorLogic {
    /// Content digest of its component, if it has one.
    pub(super) fn digest(&self) -> Option<String> {
        match self {
            Self::Window(window) => window.aggregates.iter().find_map(|aggregate| match &aggregate.by {
                By::Guest { component, .. } => Some(component.digest().to_string()),
                By::Host { .. } => None,
            }),
            Self::Guest(guest) => Some(guest.component.digest().to_string()),
            Self::Native(_) => None,
        }
    }

    pub(super) fn ports(&self) -> anyhow::Result<Vec<Port>> {
        match self {
            Self::Window(window) => window.ports(),
            Self::Guest(guest) => Ok(guest.ports()),
            Self::Native(native) => Ok(native.0.ports()),
        }
    }

    pub(super) fn inputs(&self, operator: &Operator, froms: &[(usize, usize)]) -> anyhow::Result<Vec<Input>> {
        match self {
            Self::Window(window) => Ok(vec![window.input(froms[0])]),
            Self::Guest(guest) => guest.inputs(operator, froms),
            Self::Native(native) => Ok(vec![native.input(operator, froms[0])]),
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
            Self::Native(native) => Ok(native.factory(plan, at)),
        }
    }
}

/// A window with its aggregates.
pub(super) struct WindowLogic {
    key: Vec<String>,
    kind: WindowKind,
    allowed_lateness_ms: i64,
    aggregates: Vec<Computed>,
}

/// One aggregate.
struct Computed {
    column: String,
    by: By,
}

/// What computes it.
enum By {
    /// The host, over a field of a type.
    Host { function: rules::Function, field: Option<String>, given: Option<ValueType>, value_type: ValueType },
    /// A guest.
    Guest { component: engine::Component, guest: Guest },
}

impl Computed {
    fn new(aggregate: &Aggregate, component: Option<engine::Component>) -> Self {
        let by = match (&aggregate.function, component) {
            (AggregateFunction::Guest(guest), Some(component)) => By::Guest { component, guest: guest.clone() },
            (AggregateFunction::BuiltIn { function, field, value_type }, _) => By::Host {
                function: rule(*function),
                field: field.clone(),
                given: *value_type,
                value_type: value_type.unwrap_or(ValueType::Float),
            },
            (AggregateFunction::Guest(_), None) => unreachable!("a guest aggregate's component was loaded"),
        };
        Self { column: format!("/{}", aggregate.name), by }
    }

    /// A field has the type that its declared column has, unless the job says otherwise.
    fn settle(&mut self, declared: Option<&Schema>) {
        if let By::Host { field: Some(field), given, value_type, .. } = &mut self.by {
            let found = declared.and_then(|schema| schema.find(field).map(|at| schema.fields[at].value_type));
            *value_type = given.or(found).unwrap_or(ValueType::Float);
        }
    }

    /// Whether it can take rows out again.
    fn undoes(&self) -> bool {
        match &self.by {
            By::Host { function, .. } => function.can_retract(),
            By::Guest { component, .. } => component.aggregator().is_ok_and(|description| description.retracts),
        }
    }

    /// The fields it reads.
    fn wants(&self) -> Vec<Field> {
        match &self.by {
            By::Host { field, value_type, .. } => field.iter().map(|field| Field::new(field, *value_type)).collect(),
            By::Guest { component, guest } => {
                let fields = component.aggregator().map_or(&[][..], |description| &description.fields);
                let field = |field: &WantedField| {
                    Field::new(guest.fields.get(&field.name).unwrap_or(&field.pointer), field.value_type)
                };
                fields.iter().map(field).collect()
            }
        }
    }

    /// What the host computes, over the column it reads, if any.
    fn by_host(
        &self,
        function: rules::Function,
        value_type: ValueType,
        columns: &[usize],
    ) -> (String, rules::Aggregate) {
        let field = columns.first().map(|&column| (column, value_type));
        (self.column.clone(), rules::Aggregate { function, field })
    }

    /// What a guest computes.
    fn by_guest(
        &self,
        component: &engine::Component,
        guest: &Guest,
        columns: &[usize],
    ) -> anyhow::Result<Arc<dyn window::Aggregator>> {
        let fields = sources(component.aggregator()?.fields.iter(), columns);
        let settings = settings(guest, vec![GuestInput { fields, broadcast: false }], vec![]);
        Ok(Arc::new(guest::GuestAggregator::new(&self.column, component.clone(), settings)?))
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
    /// `guests`: the component of each aggregate that has one.
    pub(super) fn new(operator: &Operator, window: &Window, guests: Vec<Option<engine::Component>>) -> Self {
        Self {
            key: operator.inputs[0].key.clone(),
            kind: window.kind,
            allowed_lateness_ms: window.allowed_lateness_ms,
            aggregates: window
                .aggregates
                .iter()
                .zip(guests)
                .map(|(it, component)| Computed::new(it, component))
                .collect(),
        }
    }

    fn ports(&self) -> anyhow::Result<Vec<Port>> {
        let columns = vec![0; self.aggregates.iter().map(|aggregate| aggregate.wants().len()).sum()];
        let panes = self.window_factory(&columns, (false, false))?.schema();
        let keyed_by = if self.key.len() == 1 { vec!["/key".to_string()] } else { self.key.clone() };
        Ok(vec![
            Port { columns: Some(panes), keyed_by, ..Port::default() },
            Port { name: "late".into(), keyed_by: self.key.clone(), ..Port::default() },
        ])
    }

    fn input(&self, from: (usize, usize)) -> Input {
        let wants = self.aggregates.iter().flat_map(Computed::wants).collect();
        let reads_values = |aggregate: &Computed| match &aggregate.by {
            By::Guest { component, .. } => component.aggregator().is_ok_and(|description| description.whole_values),
            By::Host { .. } => false,
        };
        let whole_values = self.aggregates.iter().any(reads_values);
        Input { from, key: self.key.clone(), wants, whole_values, ..Input::default() }
    }

    fn factory(&self, nodes: &[Node], plan: &Plan, at: usize) -> anyhow::Result<Arc<dyn OperatorFactory>> {
        let late_read =
            nodes.iter().any(|node| node.inputs.iter().any(|input| input.from == (at, WindowFactory::LATE)));
        // Why: where an aggregate cannot undo, a row that takes one back is put aside, and nothing need be remembered for it.
        let retracts =
            graph::may_retract(nodes, nodes[at].inputs[0].from) && self.aggregates.iter().all(Computed::undoes);
        Ok(Arc::new(self.window_factory(&plan.inputs[at][0].wants, (late_read, retracts))?))
    }

    /// `columns`: where each wanted field lies.
    fn window_factory(
        &self,
        columns: &[usize],
        (late_output, input_retracts): (bool, bool),
    ) -> anyhow::Result<WindowFactory> {
        let WindowKind::Tumbling { size_ms, offset_ms } = self.kind;
        let wants = self.aggregates.iter().flat_map(Computed::wants);
        let settings = WindowSettings {
            size_ms,
            offset_ms,
            allowed_lateness_ms: self.allowed_lateness_ms,
            key: self.key.clone(),
            late_output,
            input_retracts,
            fields: columns.iter().copied().zip(wants.map(|field| field.pointer)).collect(),
        };
        let mut rest = columns;
        let mut parts: Vec<Arc<dyn window::Aggregator>> = Vec::new();
        // The host's aggregates between two guests share one accumulator.
        let mut host = Vec::new();
        for aggregate in &self.aggregates {
            let (own, others) = rest.split_at(aggregate.wants().len());
            rest = others;
            match &aggregate.by {
                By::Host { function, value_type, .. } => host.push(aggregate.by_host(*function, *value_type, own)),
                By::Guest { component, guest } => {
                    if !host.is_empty() {
                        parts
                            .push(Arc::new(window::BuiltIn::new(&std::mem::take(&mut host), settings.input_retracts)?));
                    }
                    parts.push(aggregate.by_guest(component, guest, own)?);
                }
            }
        }
        if !host.is_empty() {
            parts.push(Arc::new(window::BuiltIn::new(&host, settings.input_retracts)?));
        }
        let aggregator = if parts.len() == 1 { parts.remove(0) } else { Arc::new(window::Combined::new(parts)) };
        WindowFactory::new(settings, aggregator)
    }
}

/// A guest with what it says of itself.
pub(super) struct GuestLogic {
    component: engine::Component,
    description: Description,
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
        let port = |(at, output): (usize, &Output)| {
            let fields =
                output.columns.iter().map(|(name, value_type)| Field::new(pointer(name), *value_type)).collect();
            let columns = (!output.columns.is_empty()).then_some(Schema { fields });
            let name = if at == 0 { String::new() } else { output.name.clone() };
            // Its world has no word for whether it takes rows back, so it may.
            Port { name, columns, retracts: true, ..Port::default() }
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
                !key.is_empty() || !self.is_keyed() || operator.inputs[given].broadcast,
                "operator `{}` keeps state or sets timers, so its input needs a key: add `key: /field`",
                operator.name
            );
            let (whole_values, broadcast) = (self.description.whole_values, operator.inputs[given].broadcast);
            Ok(Input { from: froms[given], key, wants, whole_values, broadcast })
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
        let keyed = |state: &State| state.kind != StateKind::BroadcastMap;
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
            .map(|(input, edge): (usize, &Edge)| GuestInput {
                fields: sources(self.fields_of(input), &edge.wants),
                broadcast: nodes[at].inputs[input].broadcast,
            })
            .collect();
        let read = |port| nodes.iter().any(|node| node.inputs.iter().any(|input| input.from == (at, port)));
        let ports = (0..self.description.outputs.len())
            .map(|port| GuestPort { unread: !read(port), decode: decoder(nodes, plan, at, port), pass: vec![] })
            .collect();
        let factory = GuestFactory::new(&nodes[at].name, self.component.clone(), settings(&self.guest, inputs, ports))?;
        Ok(Arc::new(factory))
    }
}

/// Logic compiled into this program.
pub(super) struct NativeLogic(pub(super) Arc<dyn native::Logic>);

impl NativeLogic {
    fn input(&self, operator: &Operator, from: (usize, usize)) -> Input {
        let key = operator.inputs[0].key.clone();
        Input { from, key, wants: self.0.fields().fields, ..Input::default() }
    }

    fn factory(self, plan: &Plan, at: usize) -> Arc<dyn OperatorFactory> {
        Arc::new(NativeFactory::new(self.0, plan.inputs[at][0].wants.clone()))
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
