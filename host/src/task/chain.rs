//! The operators of one task between two exchanges. Rows run through all of them in one go; a watermark is passed on by an
//! operator once everything it makes due has fired.

use super::Port;
use crate::dead_letter::{self, DeadLetter};
use crate::exchange::{KeyBy, key_batch};
use crate::operator::{Context, Due, Emitter, Operator};
use crate::state::StateBackend;
use crate::telemetry::NodeMetrics;
use dataflow::element::{Barrier, Element};
use dataflow::key::Keying;
use dataflow::record::Batch;
use dataflow::time::{END, Timestamp};
use std::sync::Arc;

/// One operator of a chain.
pub struct ChainNode {
    /// Its name in the job.
    pub name: String,
    /// Its logic.
    pub operator: Box<dyn Operator>,
    /// Its counters in this task.
    pub metrics: Arc<NodeMetrics>,
    /// Who reads each of its ports.
    pub ports: Vec<Vec<Target>>,
}

/// A reader of a port.
#[derive(Debug, Clone)]
pub enum Target {
    /// An operator of the same chain, by its place, at one of its inputs.
    Next {
        /// Place in the chain, after the sender's.
        operator: usize,
        /// Which of its inputs.
        input: usize,
        /// How it is keyed.
        key: Option<KeyBy>,
    },
    /// Another task, by the place of the port among the chain's outputs.
    Edge(usize),
}

/// The operators of one task, the state they share, and where their rows go.
pub struct Chain {
    nodes: Vec<ChainNode>,
    /// What the chain remembers.
    pub state: Box<dyn StateBackend>,
    outputs: Vec<Port>,
    dead: Port,
    keying: Keying,
    watermark: Timestamp,
    /// The watermark under way, and the operator that fires for it.
    advancing: Option<(Timestamp, usize)>,
    /// The moment of processing time under way, and the operator that fires for it.
    ticking: Option<(Timestamp, usize)>,
}

impl Chain {
    /// A chain whose operators stand at `watermark`. `nodes` is in order: every target lies behind its sender.
    pub fn new(
        nodes: Vec<ChainNode>,
        state: Box<dyn StateBackend>,
        outputs: Vec<Port>,
        dead: Port,
        watermark: Timestamp,
    ) -> Self {
        Self { nodes, state, outputs, dead, keying: Keying::default(), watermark, advancing: None, ticking: None }
    }

    /// Opens the operators.
    ///
    /// # Errors
    /// One cannot start.
    pub fn open(&mut self, now: Timestamp) -> anyhow::Result<()> {
        for at in 0..self.nodes.len() {
            self.call(at, now, |operator, context| operator.open(context))?;
        }
        Ok(())
    }

    /// Rows for an input of the first operator, judged by a watermark that may lie ahead of what has fired: that of the task that
    /// they were sent to first.
    ///
    /// # Errors
    /// An operator cannot go on.
    pub fn process(
        &mut self,
        input: usize,
        batch: Batch,
        (watermark, now): (Timestamp, Timestamp),
    ) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.watermark, watermark);
        let done = self.run(0, input, batch, now);
        self.watermark = before;
        done
    }

    /// Event time has come to `watermark`: `step` does the work.
    pub fn begin_watermark(&mut self, watermark: Timestamp) {
        self.advancing = Some((watermark, 0));
    }

    /// Processing time has come to `now`: `step` does the work.
    pub fn begin_clock(&mut self, now: Timestamp) {
        self.ticking = Some((now, 0));
    }

    /// Whether `step` has work to do.
    pub fn is_firing(&self) -> bool {
        self.advancing.is_some() || self.ticking.is_some()
    }

    /// Fires one slice of what is due.
    ///
    /// # Errors
    /// An operator cannot go on.
    pub fn step(&mut self, now: Timestamp) -> anyhow::Result<()> {
        if let Some((watermark, at)) = self.advancing {
            let before = std::mem::replace(&mut self.watermark, watermark);
            let due = self.call(at, now, |operator, context| operator.on_watermark(context))?;
            if due == Due::More {
                // In a snapshot a watermark counts as reached only when everything has fired.
                self.watermark = before;
                return Ok(());
            }
            self.nodes[at].metrics.set_watermark(watermark);
            self.tell(at, &Element::Watermark(watermark));
            self.advancing = (at + 1 < self.nodes.len()).then_some((watermark, at + 1));
            if self.advancing.is_some() {
                self.watermark = before;
            } else if watermark == END {
                // At the end of input nothing waits any longer.
                self.begin_clock(now);
            }
            self.state.advance(self.watermark, now);
        } else if let Some((moment, at)) = self.ticking {
            let due = self.call(at, moment, |operator, context| operator.on_clock(context))?;
            if due == Due::Done {
                self.ticking = (at + 1 < self.nodes.len()).then_some((moment, at + 1));
                self.state.advance(self.watermark, now);
            }
        }
        Ok(())
    }

    /// When the next processing-time timer is due.
    pub fn next_clock_timer(&mut self, now: Timestamp) -> Option<Timestamp> {
        let mut emitter = Emitter::default();
        let Self { nodes, state, watermark, .. } = self;
        let next = |node: &ChainNode| {
            let context = Context { state, out: &mut emitter, watermark: *watermark, now, metrics: &node.metrics };
            node.operator.next_clock_timer(&context)
        };
        nodes.iter().filter_map(next).min()
    }

    /// The watermark that everything has fired for.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// The watermark that it is firing for.
    pub fn firing(&self) -> Option<Timestamp> {
        // The end of the input fires what is due on the clock as well.
        let ends = self.ticking.is_some() && self.watermark == END;
        self.advancing.map(|(watermark, _)| watermark).or(ends.then_some(END))
    }

    /// The chain's operators.
    pub fn nodes(&self) -> &[ChainNode] {
        &self.nodes
    }

    /// Sends a signal out of every port of every operator.
    pub fn signal(&mut self, signal: &Element) {
        self.outputs.iter_mut().for_each(|port| port.send_signal(signal));
        if matches!(signal, Element::Barrier(_) | Element::End) {
            self.dead.send_signal(signal);
        }
    }

    /// Sends a barrier out of every port of every operator, past everything.
    pub fn overtake(&mut self, barrier: Barrier) {
        self.outputs.iter_mut().chain([&mut self.dead]).for_each(|port| port.overtake(barrier));
    }

    /// Tries again what was refused; true once nothing is left.
    pub fn flush(&mut self) -> bool {
        self.outputs.iter_mut().fold(self.dead.flush(), |empty, port| port.flush() && empty)
    }

    /// Whether a reader is gone.
    pub fn is_closed(&self) -> bool {
        self.dead.is_closed() || self.outputs.iter().any(Port::is_closed)
    }

    fn run(&mut self, at: usize, input: usize, batch: Batch, now: Timestamp) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.nodes[at].metrics.records_in.add(batch.len() as u64);
        self.call(at, now, |operator, context| operator.on_batch(input, batch, context))
    }

    /// Calls operator `at` and sends on what it put out.
    fn call<T>(
        &mut self,
        at: usize,
        now: Timestamp,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut emitter = Emitter::default();
        let node = &mut self.nodes[at];
        let mut context = Context {
            state: &mut self.state,
            out: &mut emitter,
            watermark: self.watermark,
            now,
            metrics: &node.metrics,
        };
        let answer = call(&mut *node.operator, &mut context)
            .map_err(|error| error.context(format!("operator `{}` cannot go on", node.name)))?;
        self.route(at, emitter, now)?;
        Ok(answer)
    }

    fn route(&mut self, at: usize, emitter: Emitter, now: Timestamp) -> anyhow::Result<()> {
        let Emitter { batches, mut dead } = emitter;
        for (port, batch) in batches {
            self.nodes[at].metrics.records_out.add(batch.len() as u64);
            let targets = self.nodes[at].ports.get(port).cloned().unwrap_or_default();
            let mut batch = Some(batch);
            for (place, target) in targets.iter().enumerate() {
                let last = place + 1 == targets.len();
                let rows = if last { batch.take() } else { batch.clone() };
                self.deliver(at, target, rows.expect("only the last reader takes the rows"), &mut dead, now)?;
            }
        }
        if !dead.is_empty() {
            dead.iter_mut()
                .filter(|letter| letter.node.is_empty())
                .for_each(|letter| letter.node.clone_from(&self.nodes[at].name));
            self.nodes[at].metrics.put_aside(&self.nodes[at].name, &dead);
            self.dead.send_batch(dead_letter::batch(&dead), &mut vec![]);
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        from: usize,
        target: &Target,
        batch: Batch,
        dead: &mut Vec<DeadLetter>,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        match target {
            Target::Edge(port) => {
                self.outputs[*port].send_batch(batch, dead);
                Ok(())
            }
            Target::Next { operator, input, key: None } => self.run(*operator, *input, batch, now),
            Target::Next { operator, input, key: Some(key) } => {
                debug_assert!(*operator > from, "a chain runs forward");
                let keyed = key_batch(&mut self.keying, batch, key, dead);
                self.run(*operator, *input, keyed, now)
            }
        }
    }

    fn tell(&mut self, at: usize, signal: &Element) {
        for target in self.nodes[at].ports.iter().flatten() {
            if let Target::Edge(port) = target {
                self.outputs[*port].send_signal(signal);
            }
        }
    }
}
