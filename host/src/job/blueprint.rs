//! From a definition to what can be run: loads components, asks every node what it reads and puts out, plans the edges, and
//! makes the factories. Nothing runs yet and no sink is opened, so `check` does all of this too. With `connectors` and
//! `logic`, the only place that names concrete sources, operators and sinks.

use super::connectors;
use super::definition::{Aggregate, AggregateFunction, Component, Definition, Guest, Logic, Operator, Reference};
use super::logic::{GuestLogic, NativeLogic, OperatorLogic, WindowLogic};
use crate::engine::Engine;
use crate::operator::{OperatorFactory, native};
use crate::sink::SinkFactory;
use crate::source::{Projection, SourceFactory};
use crate::task::SourceTimeSettings;
use anyhow::{Context, anyhow, bail};
use dataflow::graph::{self, Node, Plan, Port, Role};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job, planned and ready to be wired.
pub struct Blueprint {
    /// Sources, operators and sinks, in the file's order.
    pub nodes: Vec<Node>,
    /// How they are connected.
    pub plan: Plan,
    /// What each node is made by, in the order of `nodes`.
    pub parts: Vec<Part>,
    /// Content digest of each operator's component, by operator.
    pub components: BTreeMap<String, String>,
}

impl Blueprint {
    /// Plans the job anew for another parallelism of the nodes that have none of their own.
    ///
    /// # Errors
    /// The nodes no longer fit together.
    pub fn set_parallelism(&mut self, definition: &Definition, parallelism: usize) -> anyhow::Result<()> {
        let mut nodes = self.nodes.clone();
        let own = definition.sources.iter().map(|it| it.parallelism);
        let own: Vec<Option<usize>> = own.chain(definition.operators.iter().map(|it| it.parallelism)).collect();
        for ((node, part), own) in nodes.iter_mut().zip(&self.parts).zip(own) {
            let wanted = own.unwrap_or(parallelism);
            node.parallelism = match part {
                Part::Source(source) => wanted.min(source.factory.parallelism_max()).max(1),
                _ => wanted,
            };
        }
        (self.plan, self.nodes) = (graph::plan(&nodes)?, nodes);
        Ok(())
    }
}

/// What a node is made by.
pub enum Part {
    /// A source.
    Source(SourcePart),
    /// An operator.
    Operator(Arc<dyn OperatorFactory>),
    /// A sink.
    Sink(SinkPart),
}

/// A source and what the job asks of it.
pub struct SourcePart {
    /// Opens its shares.
    pub factory: Box<dyn SourceFactory>,
    /// Its time.
    pub time: SourceTimeSettings,
    /// What it takes out of its records.
    pub projection: Projection,
}

/// A sink and what it promises.
pub struct SinkPart {
    /// Opens it.
    pub factory: Box<dyn SinkFactory>,
    /// What flows in carries whole values that it writes as they are.
    pub whole_values: bool,
}

/// What stands behind a component that a job names.
pub enum Code {
    /// The component's bytes.
    Component(Vec<u8>),
    /// Logic compiled into this program, made from the operator's configuration.
    Native(fn(&serde_json::Value) -> anyhow::Result<Arc<dyn native::Logic>>),
}

/// Gets what is behind a component: reads a file, or builds a project first.
pub type ComponentLoader<'a> = &'a dyn Fn(&Component) -> anyhow::Result<Code>;

/// Reads a definition into a blueprint. `clock` drives generators.
///
/// # Errors
/// A component is refused, or nodes do not fit together: which, and why.
pub fn blueprint(
    definition: &Definition,
    engine: &Engine,
    load: ComponentLoader<'_>,
    clock: &Arc<dyn crate::env::Clock>,
) -> anyhow::Result<Blueprint> {
    let mut logics = Vec::new();
    let mut components = BTreeMap::new();
    for operator in &definition.operators {
        let logic = logic(operator, engine, load)?;
        if let Some(digest) = logic.digest() {
            components.insert(operator.name.clone(), digest);
        }
        logics.push(logic);
    }
    let factories = connectors::sources(definition, clock)?;
    let nodes = nodes(definition, &factories, &mut logics)?;
    let plan = graph::plan(&nodes)?;
    let mut parts = Vec::new();
    for (at, (source, factory)) in definition.sources.iter().zip(factories).enumerate() {
        let flow = &plan.ports[at][0];
        let projection = Projection { schema: flow.schema.clone(), whole_values: flow.whole_values };
        parts.push(Part::Source(SourcePart { factory, time: connectors::source_time(source), projection }));
    }
    let first_operator = parts.len();
    for (at, logic) in logics.into_iter().enumerate() {
        let at = first_operator + at;
        let factory = logic
            .factory(&nodes, &plan, at)
            .with_context(|| format!("operator `{}` cannot be made", nodes[at].name))?;
        parts.push(Part::Operator(factory));
    }
    let first_sink = parts.len();
    for (at, sink) in definition.sinks.iter().enumerate() {
        let input = nodes[first_sink + at].inputs[0].clone();
        let whole_values = input.whole_values && graph::declared(&nodes, input.from).is_none();
        parts.push(Part::Sink(SinkPart { factory: connectors::sink_factory(sink), whole_values }));
    }
    Ok(Blueprint { nodes, plan, parts, components })
}

fn logic(operator: &Operator, engine: &Engine, load: ComponentLoader<'_>) -> anyhow::Result<OperatorLogic> {
    let code = |guest: &Guest| {
        load(&guest.component).with_context(|| format!("the component of operator `{}` cannot be had", operator.name))
    };
    let component = |guest: &Guest, bytes: &[u8]| {
        engine.load(bytes).with_context(|| {
            let place = match &guest.component {
                Component::File(path) | Component::Project(path) => path.display().to_string(),
            };
            format!("the component `{place}` of operator `{}` is refused", operator.name)
        })
    };
    match &operator.logic {
        Logic::Guest(guest) => match code(guest)? {
            Code::Component(bytes) => {
                Ok(OperatorLogic::Guest(Box::new(GuestLogic::new(operator, guest, component(guest, &bytes)?)?)))
            }
            Code::Native(make) => {
                let logic = make(&guest.config)
                    .with_context(|| format!("the logic of operator `{}` cannot be made", operator.name))?;
                Ok(OperatorLogic::Native(NativeLogic(logic)))
            }
        },
        Logic::Window(window) => {
            let guest = |aggregate: &Aggregate| match &aggregate.function {
                AggregateFunction::Guest(guest) => match code(guest)? {
                    Code::Component(bytes) => component(guest, &bytes).map(Some),
                    Code::Native(_) => bail!(
                        "aggregate `{}` of operator `{}` needs a component: native logic goes by record",
                        aggregate.name,
                        operator.name
                    ),
                },
                AggregateFunction::BuiltIn { .. } => Ok(None),
            };
            let guests = window.aggregates.iter().map(guest).collect::<anyhow::Result<Vec<_>>>()?;
            Ok(OperatorLogic::Window(Box::new(WindowLogic::new(operator, window, guests))))
        }
    }
}

fn nodes(
    definition: &Definition,
    factories: &[Box<dyn SourceFactory>],
    logics: &mut [OperatorLogic],
) -> anyhow::Result<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    for (source, factory) in definition.sources.iter().zip(factories) {
        let parallelism = source.parallelism.unwrap_or(definition.parallelism).min(factory.parallelism_max()).max(1);
        let side = Port { name: "out_of_tolerance".into(), ..Port::default() };
        let ports = vec![Port::default(), side];
        nodes.push(Node { name: source.name.clone(), role: Role::Source, parallelism, inputs: vec![], ports });
    }
    let first = nodes.len();
    for operator in &definition.operators {
        let parallelism = operator.parallelism.unwrap_or(definition.parallelism);
        let name = operator.name.clone();
        nodes.push(Node { name, role: Role::Operator, parallelism, inputs: vec![], ports: vec![] });
    }
    for (at, logic) in logics.iter().enumerate() {
        nodes[first + at].ports = logic.ports()?;
    }
    for (at, (operator, logic)) in definition.operators.iter().zip(logics.iter()).enumerate() {
        let froms = operator
            .inputs
            .iter()
            .map(|input| resolve(&nodes, &operator.name, &input.from))
            .collect::<Result<Vec<_>, _>>()?;
        nodes[first + at].inputs = logic.inputs(operator, &froms)?;
    }
    // Types of declared columns flow forward: as often as there are operators is always enough.
    for _ in 0..logics.len() {
        for (at, logic) in logics.iter_mut().enumerate() {
            logic.settle_types(&nodes, first + at);
            nodes[first + at].ports = logic.ports()?;
            let froms: Vec<(usize, usize)> = nodes[first + at].inputs.iter().map(|input| input.from).collect();
            nodes[first + at].inputs = logic.inputs(&definition.operators[at], &froms)?;
        }
    }
    for sink in &definition.sinks {
        let from = resolve(&nodes, &sink.name, &sink.input)?;
        let input = connectors::sink_input(sink, from, graph::declared(&nodes, from).is_some());
        nodes.push(Node {
            name: sink.name.clone(),
            role: Role::Sink,
            parallelism: 1,
            inputs: vec![input],
            ports: vec![],
        });
    }
    Ok(nodes)
}

fn resolve(nodes: &[Node], reader: &str, reference: &Reference) -> anyhow::Result<(usize, usize)> {
    let node = nodes
        .iter()
        .position(|node| node.name == reference.node)
        .ok_or_else(|| anyhow!("`{reader}` reads `{}`, which is no source and no operator", reference.node))?;
    let Some(output) = &reference.output else { return Ok((node, 0)) };
    let port = nodes[node].ports.iter().position(|port| &port.name == output).ok_or_else(|| {
        let known: Vec<&str> = nodes[node].ports.iter().skip(1).map(|port| port.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        anyhow!(
            "`{reader}` reads output `{output}` of `{}`, which has no such output; its side outputs: {known}",
            reference.node
        )
    })?;
    Ok((node, port))
}
