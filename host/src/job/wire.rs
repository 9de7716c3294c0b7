//! From a blueprint to tasks: channels between them, state for each chain, positions and watermarks where a checkpoint has
//! some. Nothing runs before everything could be made.

use super::blueprint::{Blueprint, Part};
use super::restore::Restored;
use super::storage::States;
use crate::checkpoint::Tasks;
use crate::dead_letter;
use crate::env::{Env, WaitPoint};
use crate::exchange::{CHANNEL_BYTES_MAX, KeyBy, Outbox, Partitioning, Receiver, Sender as ChannelSender, channel};
use crate::operator::TaskInfo;
use crate::sink::{SinkFactory, SinkInput};
use crate::source::Share;
use crate::state::StateNumber;
use crate::task::{
    Chain, ChainNode, ChainShare, Control, Durable, End, Event, Gate, Input, OperatorTask, Port, SinkTask,
    SourceOutputs, SourceTask, SourceWiring, Target, TaskId, replay_of_chain, replay_of_sink,
};
use crate::telemetry::{NodeMetrics, NodeStatus, Status};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::restart::Permanent;
use dataflow::{graph::Flow, graph::Role, key::KeyGroup, replay::Replay, time::START};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Name of the node that takes dead letters.
pub const DEAD_LETTERS: &str = "dead-letters";

/// A task that is ready to run on a thread of its own.
pub(super) type Runnable = Box<dyn FnOnce() -> anyhow::Result<End> + Send>;

/// Everything a job needs to start.
pub(super) struct Wired {
    pub(super) tasks: Tasks,
    pub(super) threads: Vec<(TaskId, Runnable)>,
    pub(super) status: Arc<Status>,
    pub(super) gate: Arc<Gate>,
    /// The highest checkpoint that each sink has applied, in this run or an earlier one.
    pub(super) applied: BTreeMap<String, CheckpointId>,
}

/// What a job is wired with.
pub(super) struct Wiring<'a> {
    pub(super) job: &'a str,
    pub(super) blueprint: &'a Blueprint,
    /// And whether what was staged there is gone.
    pub(super) dead_letters: (&'a dyn SinkFactory, bool),
    pub(super) max_parallelism: u16,
    pub(super) every_records: Option<u64>,
    pub(super) states: States,
    pub(super) restored: &'a Restored,
    /// Sinks whose rows of an earlier run stay, also where the job begins.
    pub(super) kept: BTreeSet<&'a str>,
    pub(super) events: Sender<Event>,
    pub(super) env: Env,
}

/// A unit of tasks: a source, a chain, a sink, or the dead letters' sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Node(usize),
    Chain(usize),
    Dead,
}

struct Wirer<'a> {
    with: Wiring<'a>,
    controls: BTreeMap<Unit, Vec<Arc<Control>>>,
    metrics: BTreeMap<(Unit, usize), Vec<Arc<NodeMetrics>>>,
    /// By reading unit and task.
    inputs: BTreeMap<(Unit, usize), Vec<Input>>,
    gate: Arc<Gate>,
    applied: BTreeMap<String, CheckpointId>,
}

/// Makes every task.
pub(super) fn wire(with: Wiring<'_>) -> anyhow::Result<Wired> {
    let gate = Arc::new(Gate::new(with.every_records));
    let mut wirer = Wirer {
        with,
        controls: BTreeMap::new(),
        metrics: BTreeMap::new(),
        inputs: BTreeMap::new(),
        gate,
        applied: BTreeMap::new(),
    };
    wirer.make_controls();
    let mut threads = Vec::new();
    let mut tasks = Tasks::default();
    let nodes = &wirer.with.blueprint.nodes;
    let sources: Vec<usize> = (0..nodes.len()).filter(|&at| nodes[at].role == Role::Source).collect();
    let sinks: Vec<usize> = (0..nodes.len()).filter(|&at| nodes[at].role == Role::Sink).collect();
    for &at in &sources {
        for task in 0..nodes[at].parallelism {
            let (id, run) = wirer.source_task(at, task)?;
            tasks.sources.push((id.clone(), wirer.control(Unit::Node(at), task)));
            threads.push((id, run));
        }
    }
    for at in 0..wirer.with.blueprint.plan.chains.len() {
        for task in 0..wirer.parallelism(Unit::Chain(at)) {
            let made = wirer.chain_outputs(at, task)?;
            let (id, run) = wirer.operator_task(at, task, made)?;
            tasks.operators.push((id.clone(), wirer.control(Unit::Chain(at), task)));
            threads.push((id, run));
        }
    }
    let sinks: Vec<Unit> = sinks.iter().map(|&at| Unit::Node(at)).chain([Unit::Dead]).collect();
    // Everything stored is read, and thereby verified, before the first sink applies anything.
    let replays = sinks.iter().map(|&unit| wirer.sink_replay(unit)).collect::<anyhow::Result<Vec<_>>>()?;
    for (unit, replay) in sinks.into_iter().zip(replays) {
        let (id, run) = wirer.sink_task(unit, replay)?;
        tasks.sinks.push((id.clone(), wirer.control(unit, 0)));
        threads.push((id, run));
    }
    let status = Arc::new(wirer.status());
    Ok(Wired { tasks, threads, status, gate: wirer.gate, applied: wirer.applied })
}

impl Wirer<'_> {
    fn make_controls(&mut self) {
        let mut units: Vec<Unit> = (0..self.with.blueprint.plan.chains.len()).map(Unit::Chain).collect();
        let nodes = &self.with.blueprint.nodes;
        units.extend((0..nodes.len()).filter(|&at| nodes[at].role != Role::Operator).map(Unit::Node));
        units.push(Unit::Dead);
        for unit in units {
            let tasks = self.parallelism(unit);
            self.controls.insert(unit, (0..tasks).map(|_| Arc::default()).collect());
            for node in self.members(unit) {
                self.metrics.insert((unit, node), (0..tasks).map(|_| Arc::default()).collect());
            }
        }
    }

    fn parallelism(&self, unit: Unit) -> usize {
        let blueprint = self.with.blueprint;
        match unit {
            Unit::Node(at) => blueprint.nodes[at].parallelism,
            Unit::Chain(at) => blueprint.nodes[blueprint.plan.chains[at][0]].parallelism,
            Unit::Dead => 1,
        }
    }

    /// The nodes that run in a unit's tasks; the dead letters' sink counts as one behind the last.
    fn members(&self, unit: Unit) -> Vec<usize> {
        match unit {
            Unit::Node(at) => vec![at],
            Unit::Chain(at) => self.with.blueprint.plan.chains[at].clone(),
            Unit::Dead => vec![self.with.blueprint.nodes.len()],
        }
    }

    fn unit_of(&self, node: usize) -> Unit {
        let chains = &self.with.blueprint.plan.chains;
        chains.iter().position(|chain| chain.contains(&node)).map_or(Unit::Node(node), Unit::Chain)
    }

    fn control(&self, unit: Unit, task: usize) -> Arc<Control> {
        self.controls[&unit][task].clone()
    }

    fn wait_point(&self, unit: Unit, task: usize) -> Arc<WaitPoint> {
        self.controls[&unit][task].wait.clone()
    }

    /// Node and input of everything that reads a port.
    fn readers(&self, from: (usize, usize)) -> Vec<(usize, usize)> {
        let nodes = &self.with.blueprint.nodes;
        let inputs = |node: usize| nodes[node].inputs.iter().enumerate().map(move |(input, it)| (node, input, it.from));
        (0..nodes.len())
            .flat_map(inputs)
            .filter(|&(_, _, read)| read == from)
            .map(|(node, input, _)| (node, input))
            .collect()
    }

    /// The edges of a port that lead to other tasks.
    fn port(&mut self, sender: (Unit, usize), from: (usize, usize)) -> Port {
        let away: Vec<(usize, usize)> =
            self.readers(from).into_iter().filter(|&(node, _)| self.unit_of(node) != sender.0).collect();
        Port { edges: away.into_iter().map(|reader| self.outbox(sender, reader)).collect() }
    }

    fn outbox(&mut self, sender: (Unit, usize), (node, input): (usize, usize)) -> Outbox {
        let blueprint = self.with.blueprint;
        let reader = self.unit_of(node);
        let partitioning = if blueprint.nodes[node].inputs[input].broadcast {
            Partitioning::Broadcast
        } else if let Some(key) = self.key_by(node, input) {
            Partitioning::ByKey(key)
        } else if self.parallelism(sender.0) == self.parallelism(reader) {
            Partitioning::Forward(sender.1)
        } else if self.parallelism(reader) == 1 {
            Partitioning::Forward(0)
        } else {
            Partitioning::RoundRobin
        };
        let senders = self.channels(sender, reader, input);
        Outbox::new(senders, partitioning, self.with.max_parallelism)
    }

    /// How the rows of an input get their keys, where it is keyed.
    fn key_by(&self, node: usize, input: usize) -> Option<KeyBy> {
        let blueprint = self.with.blueprint;
        let (edge, reading) = (&blueprint.plan.inputs[node][input], &blueprint.nodes[node]);
        let (columns, pointers) = (edge.key.clone(), reading.inputs[input].key.clone());
        let key = KeyBy { columns, pointers, reader: reading.name.clone(), schema: edge.flow.schema.clone() };
        (!key.columns.is_empty()).then_some(key)
    }

    fn channels(&mut self, sender: (Unit, usize), reader: Unit, input: usize) -> Vec<ChannelSender> {
        let sending = self.wait_point(sender.0, sender.1);
        let mut senders = Vec::new();
        for task in 0..self.parallelism(reader) {
            let (to, receiver): (ChannelSender, Receiver) =
                channel(CHANNEL_BYTES_MAX, sending.clone(), self.wait_point(reader, task));
            self.inputs.entry((reader, task)).or_default().push(Input { receiver, input });
            senders.push(to);
        }
        senders
    }

    fn dead_port(&mut self, sender: (Unit, usize)) -> Port {
        let senders = self.channels(sender, Unit::Dead, 0);
        Port { edges: vec![Outbox::new(senders, Partitioning::Forward(0), self.with.max_parallelism)] }
    }

    fn source_task(&mut self, at: usize, task: usize) -> anyhow::Result<(TaskId, Runnable)> {
        let blueprint = self.with.blueprint;
        let Part::Source(part) = &blueprint.parts[at] else { unreachable!("a source is made by a source part") };
        let node = &blueprint.nodes[at];
        let unit = Unit::Node(at);
        let positions = self.with.restored.positions(&node.name);
        let share = Share { task, parallelism: node.parallelism, positions: &positions, projection: &part.projection };
        let source = part.factory.open(share).with_context(|| format!("source `{}` cannot be opened", node.name))?;
        let outputs = SourceOutputs {
            main: self.port((unit, task), (at, 0)),
            out_of_tolerance: self.port((unit, task), (at, 1)),
            dead: self.dead_port((unit, task)),
        };
        let metrics = self.metrics[&(unit, at)][task].clone();
        if task == 0 {
            self.with.restored.count_source(&node.name, &metrics);
        }
        self.gate.register(self.wait_point(unit, task));
        let wiring = SourceWiring {
            outputs,
            control: self.control(unit, task),
            events: self.with.events.clone(),
            gate: self.gate.clone(),
            metrics,
            env: self.with.env.clone(),
        };
        let id = TaskId { node: node.name.clone(), task };
        let watermarks = self.with.restored.watermarks(&node.name);
        let made = SourceTask::new(id.clone(), source, part.time, &watermarks, wiring);
        Ok((id, Box::new(move || made.run())))
    }

    /// The operators of a chain's task with their readers, and the ports that lead to other tasks.
    fn chain_outputs(&mut self, chain: usize, task: usize) -> anyhow::Result<(Vec<ChainNode>, Vec<Port>)> {
        let blueprint = self.with.blueprint;
        let unit = Unit::Chain(chain);
        let members = &blueprint.plan.chains[chain];
        let mut outputs = Vec::new();
        let mut nodes = Vec::new();
        for &at in members {
            let node = &blueprint.nodes[at];
            let Part::Operator(factory) = &blueprint.parts[at] else {
                unreachable!("an operator is made by a factory")
            };
            let mut ports = Vec::new();
            for port in 0..node.ports.len() {
                let chained = self.readers((at, port)).into_iter().filter(|&(reader, _)| self.unit_of(reader) == unit);
                let mut targets: Vec<Target> = chained.map(|reader| self.chained(members, reader)).collect();
                let away = self.port((unit, task), (at, port));
                if !away.edges.is_empty() {
                    targets.push(Target::Edge(outputs.len()));
                    outputs.push(away);
                }
                ports.push(targets);
            }
            let states = self.with.restored.numbers(&node.name, &factory.states());
            let info = TaskInfo {
                operator: node.name.clone(),
                task,
                parallelism: node.parallelism,
                max_parallelism: self.with.max_parallelism,
                states,
            };
            let operator = factory.create(&info).with_context(|| format!("operator `{}` cannot be made", node.name))?;
            let metrics = self.metrics[&(unit, at)][task].clone();
            nodes.push(ChainNode { name: node.name.clone(), operator, metrics, ports });
        }
        Ok((nodes, outputs))
    }

    fn chained(&self, members: &[usize], (node, input): (usize, usize)) -> Target {
        let operator = members.iter().position(|&member| member == node).expect("a chained reader is of the chain");
        Target::Next { operator, input, key: self.key_by(node, input) }
    }

    fn operator_task(
        &mut self,
        chain: usize,
        task: usize,
        (nodes, outputs): (Vec<ChainNode>, Vec<Port>),
    ) -> anyhow::Result<(TaskId, Runnable)> {
        let unit = Unit::Chain(chain);
        let name = nodes[0].name.clone();
        let groups = KeyGroup::range(task, self.parallelism(unit), self.with.max_parallelism);
        let mut state = self.with.states.backend(&name, task, groups.clone(), self.wait_point(unit, task));
        for &at in &self.with.blueprint.plan.chains[chain] {
            let Part::Operator(factory) = &self.with.blueprint.parts[at] else { continue };
            let (operator, declared) = (&self.with.blueprint.nodes[at].name, factory.states());
            let numbers: Vec<StateNumber> = self.with.restored.numbers(operator, &declared);
            numbers.iter().zip(&declared).for_each(|(&number, declaration)| state.register(number, declaration));
            state = self.with.restored.forks(operator, &declared, state);
        }
        let id = TaskId { node: name, task };
        self.with.restored.restore_chain(&id, groups.clone(), (&mut *state, &self.with.states), &nodes)?;
        if !self.with.restored.is_fresh() {
            self.with.env.fail_points.passed(|| format!("restore/{}", id.node), 1);
        }
        let first = self.with.blueprint.plan.chains[chain][0];
        let flows: Vec<Flow> = self.with.blueprint.plan.inputs[first].iter().map(|edge| edge.flow.clone()).collect();
        let (parallelism, max_parallelism) = (self.parallelism(unit), self.with.max_parallelism);
        let broadcast = self.with.blueprint.nodes[first].inputs.iter().map(|input| input.broadcast).collect();
        let operators = nodes.iter().map(|node| node.name.as_str()).collect();
        let share = ChainShare { chain: &id.node, operators, task, parallelism, max_parallelism, broadcast };
        let replay = match self.with.restored.manifest() {
            Some(manifest) => replay_of_chain(manifest, &share, &flows, self.with.states.storage())?,
            None => self.with.restored.stood(&nodes),
        };
        let dead = self.dead_port((unit, task));
        let chain = Chain::new(nodes, state, outputs, dead, replay.watermark());
        let inputs = self.inputs.remove(&(unit, task)).expect("a chain reads something");
        let made = OperatorTask::new(
            id.clone(),
            (groups.start, groups.end),
            (inputs, chain),
            Durable { replay, in_flight: self.with.states.in_flight(flows) },
            self.control(unit, task),
            (self.with.events.clone(), self.with.env.clone()),
        );
        Ok((id, Box::new(move || made.run())))
    }

    /// A sink's name, and what flows into it.
    fn sink(&self, unit: Unit) -> (String, Flow) {
        let blueprint = self.with.blueprint;
        match unit {
            Unit::Node(at) => (blueprint.nodes[at].name.clone(), blueprint.plan.inputs[at][0].flow.clone()),
            _ => (DEAD_LETTERS.to_string(), Flow { schema: dead_letter::schema(), whole_values: false }),
        }
    }

    fn sink_replay(&self, unit: Unit) -> anyhow::Result<Replay> {
        let (name, flow) = self.sink(unit);
        match self.with.restored.manifest() {
            Some(manifest) => replay_of_sink(manifest, &name, &flow, self.with.states.storage()),
            None => Ok(Replay::nothing(START)),
        }
    }

    fn sink_task(&mut self, unit: Unit, replay: Replay) -> anyhow::Result<(TaskId, Runnable)> {
        let (name, flow) = self.sink(unit);
        let (factory, whole_values) = match unit {
            Unit::Node(at) => {
                let Part::Sink(part) = &self.with.blueprint.parts[at] else {
                    unreachable!("a sink is made by a sink part")
                };
                (&*part.factory, part.whole_values)
            }
            _ => (self.with.dead_letters.0, false),
        };
        let schema = flow.schema.clone();
        let fresh = self.with.restored.is_fresh();
        let input = SinkInput { sink: name.clone(), job: self.with.job.to_string(), schema, whole_values, fresh };
        if fresh && self.with.kept.contains(name.as_str()) {
            self.refuse_to_replace(factory, &input)?;
        }
        let mut sink = factory.open(&input).with_context(|| format!("sink `{name}` cannot be opened"))?;
        let is_gone = unit == Unit::Dead && self.with.dead_letters.1;
        for staged in self.with.restored.staged(&name) {
            let payload = if is_gone { &Payload::default() } else { &staged.payload };
            let applying = || format!("sink `{name}` cannot apply checkpoint {}", staged.checkpoint);
            sink.apply(staged.checkpoint, payload).with_context(applying)?;
        }
        let applied = sink.applied().with_context(|| format!("sink `{name}` does not answer"))?;
        self.applied.extend(applied.map(|checkpoint| (name.clone(), checkpoint)));
        let id = TaskId { node: name, task: 0 };
        let member = self.members(unit)[0];
        let metrics = self.metrics[&(unit, member)][0].clone();
        self.with.restored.count_sink(&id.node, &metrics);
        let inputs = self.inputs.remove(&(unit, 0)).expect("a sink reads something");
        let made = SinkTask::new(
            id.clone(),
            sink,
            (inputs, self.with.states.in_flight(vec![flow])),
            self.control(unit, 0),
            (self.with.events.clone(), metrics, self.with.env.clone()),
        );
        Ok((id, Box::new(move || made.run(replay))))
    }

    /// A job that begins replaces what it wrote before: not where only its checkpoints were not found.
    fn refuse_to_replace(&self, factory: &dyn SinkFactory, input: &SinkInput) -> anyhow::Result<()> {
        let earlier = factory.open(&SinkInput { fresh: false, ..input.clone() });
        // What cannot be opened so is said when it is opened as it will be.
        let Some(checkpoint) = earlier.ok().and_then(|mut sink| sink.applied().ok().flatten()) else { return Ok(()) };
        bail!(Permanent(format!(
            "sink `{}` shows what an earlier run wrote up to its checkpoint {checkpoint}, and no checkpoint is found to go on from: \
             give the `--data-dir` or `--checkpoint-storage` of that run; or replace its rows with `--fresh`",
            input.sink
        )))
    }

    fn status(&self) -> Status {
        let nodes = &self.with.blueprint.nodes;
        let mut all: Vec<NodeStatus> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| NodeStatus {
                name: node.name.clone(),
                role: node.role,
                tasks: self.metrics[&(self.unit_of(at), at)].clone(),
                reports: match &self.with.blueprint.parts[at] {
                    Part::Operator(factory) => factory.reports(),
                    Part::Source(_) | Part::Sink(_) => vec![],
                },
            })
            .collect();
        let tasks = self.metrics[&(Unit::Dead, nodes.len())].clone();
        all.push(NodeStatus { name: DEAD_LETTERS.to_string(), role: Role::Sink, tasks, reports: vec![] });
        Status::new(all)
    }
}
