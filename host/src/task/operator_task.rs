//! The second loop: takes from the inputs, advances time, and calls a chain of operators. A snapshot may be taken in the middle of
//! a firing; a barrier that overtakes is obeyed also while an output is full.

use super::control::{Command, Control, End, Event, TaskId};
use super::in_flight::{InFlightStore, InFlightWriter};
use super::inputs::{Input, Inputs, Taken};
use super::{Chain, Stopwatch};
use crate::env::Env;
use crate::state::Sizes;
use dataflow::checkpoint::{CheckpointId, FileEntry, Moments, Report, TaskSnapshot};
use dataflow::element::{Barrier, Element};
use dataflow::replay::{Replay, ReplayStep};
use dataflow::time::Timestamp;
use dataflow::watermark::Merged;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// One task of a chain of operators.
pub struct OperatorTask {
    /// The chain by its first operator, and which of its tasks.
    pub id: TaskId,
    /// Key groups it owns: from, inclusive, to, exclusive.
    pub groups: (u16, u16),
    inputs: Inputs,
    chain: Chain,
    /// What a restored task is given before its inputs are looked at; none once that is done.
    replay: Option<Replay>,
    idle: bool,
    /// Snapshots that are not durable yet, without their files.
    snapshots: VecDeque<(CheckpointId, Moments, TaskSnapshot)>,
    in_flight: InFlightWriter,
    control: Arc<Control>,
    events: Sender<Event>,
    env: Env,
    sent_end: bool,
}

/// What an operator task goes on from, and where it keeps what the next run goes on from.
pub struct Durable {
    /// What lay in its inputs.
    pub replay: Replay,
    /// Where such things go.
    pub in_flight: InFlightStore,
}

impl OperatorTask {
    /// A task whose chain stands at the watermark it was restored with.
    pub fn new(
        id: TaskId,
        groups: (u16, u16),
        (inputs, chain): (Vec<Input>, Chain),
        durable: Durable,
        control: Arc<Control>,
        (events, env): (Sender<Event>, Env),
    ) -> Self {
        let inputs = Inputs::new(id.clone(), inputs, chain.watermark(), env.clone());
        let in_flight = InFlightWriter::new(durable.in_flight, id.clone(), control.wait.clone(), env.clone());
        let (replay, idle, snapshots, sent_end) = (Some(durable.replay), false, VecDeque::new(), false);
        Self { id, groups, inputs, chain, replay, idle, snapshots, in_flight, control, events, env, sent_end }
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
            if self.replay.is_none()
                && let Some(taken) = self.inputs.urgent(self.env.clock.monotonic())
            {
                self.act(taken)?;
                continue;
            }
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
            if self.inputs.lost() {
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
            let monotonic = self.env.clock.monotonic();
            match self.replay.is_none().then(|| self.inputs.next_barrier(monotonic)).flatten() {
                Some(barrier) => self.act(barrier)?,
                None => {
                    self.chain.step(now)?;
                    self.passed("slice");
                }
            }
            return Ok(true);
        }
        if !self.sent_end && self.chain.next_clock_timer(now).is_some_and(|due| due <= now) {
            self.chain.begin_clock(now);
            return Ok(true);
        }
        if let Some(replay) = &mut self.replay {
            match replay.step() {
                Some(ReplayStep::Advance(watermark)) => self.chain.begin_watermark(watermark),
                Some(ReplayStep::Rows { input, batch, watermark }) => {
                    self.chain.process(input, *batch, (watermark, now))?;
                }
                None => {
                    self.replay = None;
                    self.passed("replayed");
                }
            }
            return Ok(true);
        }
        match self.inputs.next(self.env.clock.monotonic()) {
            Some(taken) => self.act(taken).map(|()| true),
            None => Ok(false),
        }
    }

    fn act(&mut self, taken: Taken) -> anyhow::Result<()> {
        match taken {
            Taken::Rows(input, batch) => {
                let times = (self.chain.watermark(), self.env.clock.now_ms());
                self.chain.process(input, *batch, times)?;
                self.passed("batch");
            }
            Taken::Time(merged) => {
                // What was given again may have taken the chain further than its inputs have come since.
                if let Merged::Advanced(watermark) = merged
                    && watermark > self.chain.watermark()
                {
                    self.chain.begin_watermark(watermark);
                }
                self.presence();
            }
            Taken::Snapshot(barrier, moments) => {
                self.snapshot(barrier, moments);
                self.chain.signal(&Element::Barrier(barrier));
            }
            Taken::Overtaken(barrier, moments) => {
                self.snapshot(barrier, moments);
                self.chain.overtake(barrier);
                self.passed("overtaken");
            }
            Taken::InFlight(checkpoint, channels, moments) => self.in_flight.write(checkpoint, &channels, moments),
            Taken::Nothing => {}
        }
        if self.inputs.all_ended() && !self.sent_end {
            self.chain.signal(&Element::End);
            self.sent_end = true;
        }
        Ok(())
    }

    fn presence(&mut self) {
        let idle = self.inputs.all_idle();
        if idle != self.idle {
            self.idle = idle;
            self.chain.signal(if idle { &Element::Idle } else { &Element::Active });
        }
    }

    fn snapshot(&mut self, barrier: Barrier, moments: Moments) {
        let mut counters = BTreeMap::new();
        for node in self.chain.nodes() {
            for (name, count) in node.metrics.durable() {
                counters.insert(format!("{}/{name}", node.name), count);
            }
        }
        let snapshot = TaskSnapshot {
            chain: self.id.node.clone(),
            operators: self.chain.nodes().iter().map(|node| node.name.clone()).collect(),
            task: self.id.task,
            groups: self.groups,
            watermark: self.chain.watermark(),
            firing: self.chain.firing(),
            backend: self.chain.state.name().to_string(),
            files: vec![],
            counters,
        };
        self.snapshots.push_back((barrier.checkpoint, moments, snapshot));
        self.chain.state.snapshot(barrier.checkpoint);
        self.send_event(Event::SnapshotTaken(barrier.checkpoint, self.id.clone()));
    }

    fn report_snapshots(&mut self) {
        match self.chain.state.poll_snapshot() {
            Ok(Some((checkpoint, files))) => {
                self.tell_sizes();
                self.report(checkpoint, files);
            }
            Ok(None) => {}
            Err(error) => {
                let lost = self.snapshots.pop_front().map(|(checkpoint, ..)| checkpoint);
                let checkpoint = lost.expect("a snapshot that fails was asked for");
                self.send_event(Event::SnapshotLost(checkpoint, self.id.clone(), error));
            }
        }
        while let Some(written) = self.in_flight.poll() {
            self.send_event(Event::of_in_flight(&self.id, written));
        }
    }

    fn tell_sizes(&self) {
        let Some(first) = self.chain.nodes().first() else { return };
        let Sizes { rows, bytes, expired_bytes } = self.chain.state.sizes();
        first.metrics.state_rows.set(rows);
        first.metrics.state_bytes.set(bytes);
        first.metrics.expired_bytes.set(expired_bytes);
    }

    fn report(&mut self, checkpoint: CheckpointId, files: Vec<FileEntry>) {
        while let Some((asked, moments, snapshot)) = self.snapshots.pop_front() {
            if asked == checkpoint {
                let moments = Moments { durable: self.env.clock.monotonic(), ..moments };
                let report = Report::Operator(TaskSnapshot { files, ..snapshot }, moments);
                return self.send_event(Event::Report(checkpoint, report));
            }
        }
    }

    fn until_next_timer(&mut self) -> Option<Duration> {
        let now = self.env.clock.now_ms();
        let due: Timestamp = self.chain.next_clock_timer(now)?;
        Some(Duration::from_millis(due.saturating_sub(now).max(0).unsigned_abs()))
    }

    fn passed(&self, step: &str) {
        self.env.fail_points.passed(|| format!("operator/{}/{step}", self.id.node), 1);
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
