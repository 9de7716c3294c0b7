//! The second loop: merges inputs, aligns barriers, advances time, and calls a chain of operators.

use super::control::{Command, Control, End, Event, TaskId};
use super::{Chain, Stopwatch};
use crate::env::Env;
use crate::exchange::Receiver;
use dataflow::alignment::{Alignment, Decision};
use dataflow::checkpoint::{CheckpointId, FileEntry, Report, TaskSnapshot};
use dataflow::element::{Barrier, Element};
use dataflow::time::Timestamp;
use dataflow::watermark::{Merge, Merged};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// One channel into an operator task.
pub struct Input {
    /// Where elements come from.
    pub receiver: Receiver,
    /// Which input of the chain's first operator they are for.
    pub input: usize,
}

/// One task of a chain of operators.
pub struct OperatorTask {
    /// The chain by its first operator, and which of its tasks.
    pub id: TaskId,
    /// Key groups it owns: from, inclusive, to, exclusive.
    pub groups: (u16, u16),
    inputs: Vec<Input>,
    ended: Vec<bool>,
    chain: Chain,
    alignment: Alignment,
    merge: Merge,
    idle: bool,
    /// The input to look at first: each gets its turn.
    turn: usize,
    /// Snapshots that are not durable yet, without their files.
    snapshots: VecDeque<(CheckpointId, TaskSnapshot)>,
    control: Arc<Control>,
    events: Sender<Event>,
    env: Env,
    sent_end: bool,
}

impl OperatorTask {
    /// A task whose chain stands at the watermark it was restored with.
    pub fn new(
        id: TaskId,
        groups: (u16, u16),
        inputs: Vec<Input>,
        chain: Chain,
        control: Arc<Control>,
        (events, env): (Sender<Event>, Env),
    ) -> Self {
        let merge = Merge::new(inputs.len(), chain.watermark());
        let alignment = Alignment::new(inputs.len());
        let ended = vec![false; inputs.len()];
        let (idle, turn, snapshots, sent_end) = (false, 0, VecDeque::new(), false);
        Self {
            id,
            groups,
            inputs,
            ended,
            chain,
            alignment,
            merge,
            idle,
            turn,
            snapshots,
            control,
            events,
            env,
            sent_end,
        }
    }

    /// Runs until all inputs have ended.
    ///
    /// # Errors
    /// An operator cannot go on.
    pub fn run(mut self) -> anyhow::Result<End> {
        let mut watch = Stopwatch::start(&*self.env.clock);
        self.chain.open(self.env.clock.now_ms())?;
        loop {
            if matches!(self.control.receive(), Some(Command::Abort)) {
                return Ok(End::Told);
            }
            if self.chain.is_closed() {
                return Ok(End::Orphaned);
            }
            self.report_snapshots();
            if !self.chain.flush() {
                self.metrics(|metrics, lap| metrics.busy_ns.add(lap), &mut watch);
                self.control.wait.wait(None);
                self.metrics(|metrics, lap| metrics.blocked_ns.add(lap), &mut watch);
                continue;
            }
            if self.sent_end && self.snapshots.is_empty() {
                return Ok(End::Told);
            }
            if self.work()? {
                continue;
            }
            if self.lost_input() {
                return Ok(End::Orphaned);
            }
            let wait = self.until_next_timer();
            self.metrics(|metrics, lap| metrics.busy_ns.add(lap), &mut watch);
            self.control.wait.wait(wait);
            self.metrics(|metrics, lap| metrics.idle_ns.add(lap), &mut watch);
        }
    }

    /// Does one piece of work; false if there is none.
    fn work(&mut self) -> anyhow::Result<bool> {
        let now = self.env.clock.now_ms();
        if self.chain.is_firing() {
            self.chain.step(now)?;
            return Ok(true);
        }
        if !self.sent_end && self.chain.next_clock_timer(now).is_some_and(|due| due <= now) {
            self.chain.begin_clock(now);
            return Ok(true);
        }
        for offset in 0..self.inputs.len() {
            let at = (self.turn + offset) % self.inputs.len();
            if self.alignment.holds(at) || self.ended[at] {
                continue;
            }
            if let Some(element) = self.inputs[at].receiver.receive() {
                self.turn = (at + 1) % self.inputs.len();
                self.take(at, element, now)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, at: usize, element: Element, now: Timestamp) -> anyhow::Result<()> {
        match element {
            Element::Batch(batch) => {
                self.chain.process(self.inputs[at].input, *batch, now)?;
                self.env.fail_points.passed(|| format!("operator/{}/batch", self.id.node), 1);
            }
            Element::Watermark(watermark) => {
                let merged = self.merge.advance(at, watermark);
                self.advance(merged);
            }
            Element::Idle => {
                let merged = self.merge.idle(at);
                self.advance(merged);
                self.presence();
            }
            Element::Active => {
                let merged = self.merge.active(at);
                self.advance(merged);
                self.presence();
            }
            Element::Barrier(barrier) => {
                let decision = self.alignment.barrier(at, barrier.checkpoint);
                self.decide(decision);
            }
            Element::End => {
                self.ended[at] = true;
                let decision = self.alignment.end(at);
                self.decide(decision);
                if self.alignment.all_ended() {
                    self.chain.signal(&Element::End);
                    self.sent_end = true;
                }
            }
        }
        Ok(())
    }

    fn advance(&mut self, merged: Merged) {
        if let Merged::Advanced(watermark) = merged {
            self.chain.begin_watermark(watermark);
        }
    }

    fn presence(&mut self) {
        let idle = self.merge.all_idle();
        if idle != self.idle {
            self.idle = idle;
            self.chain.signal(if idle { &Element::Idle } else { &Element::Active });
        }
    }

    fn decide(&mut self, decision: Decision) {
        if let Decision::Snapshot(checkpoint) = decision {
            self.snapshots.push_back((checkpoint, self.snapshot()));
            self.chain.state.snapshot(checkpoint);
            self.chain.signal(&Element::Barrier(Barrier { checkpoint }));
        }
    }

    fn snapshot(&self) -> TaskSnapshot {
        let mut counters = BTreeMap::new();
        for node in self.chain.nodes() {
            for (name, count) in node.metrics.durable() {
                counters.insert(format!("{}/{name}", node.name), count);
            }
        }
        TaskSnapshot {
            chain: self.id.node.clone(),
            operators: self.chain.nodes().iter().map(|node| node.name.clone()).collect(),
            task: self.id.task,
            groups: self.groups,
            watermark: self.chain.watermark(),
            backend: self.chain.state.name().to_string(),
            files: vec![],
            counters,
        }
    }

    fn report_snapshots(&mut self) {
        match self.chain.state.poll_snapshot() {
            Ok(Some((checkpoint, files))) => self.report(checkpoint, files),
            Ok(None) => {}
            Err(error) => {
                let lost = self.snapshots.pop_front().map(|(checkpoint, _)| checkpoint);
                let checkpoint = lost.expect("a snapshot that fails was asked for");
                self.send_event(Event::SnapshotLost(checkpoint, self.id.clone(), error));
            }
        }
    }

    fn report(&mut self, checkpoint: CheckpointId, files: Vec<FileEntry>) {
        while let Some((asked, snapshot)) = self.snapshots.pop_front() {
            if asked == checkpoint {
                return self
                    .send_event(Event::Report(checkpoint, Report::Operator(TaskSnapshot { files, ..snapshot })));
            }
        }
    }

    /// Whether a sender went away without an end: the job is being taken down.
    fn lost_input(&self) -> bool {
        self.inputs.iter().zip(&self.ended).any(|(input, ended)| !ended && input.receiver.is_closed())
    }

    fn until_next_timer(&mut self) -> Option<Duration> {
        let now = self.env.clock.now_ms();
        let due = self.chain.next_clock_timer(now)?;
        Some(Duration::from_millis(due.saturating_sub(now).max(0).unsigned_abs()))
    }

    fn metrics(&self, add: impl Fn(&crate::telemetry::NodeMetrics, u64), watch: &mut Stopwatch) {
        let lap = watch.lap(&*self.env.clock);
        self.chain.nodes().iter().for_each(|node| add(&node.metrics, lap));
    }

    fn send_event(&self, event: Event) {
        // A coordinator that is gone has sent `Abort`, or will be noticed as a closed channel.
        let _ = self.events.send(event);
    }
}
