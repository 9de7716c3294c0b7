//! The first loop: polls a source, stamps and sorts by tolerance, tells watermarks, sends barriers on. The source itself
//! never sees a signal.

use super::control::{Command, Control, End, Event, Gate, TaskId};
use super::source_time::{Emit, SourceTime};
use super::{BATCH_BYTES_MAX, Port, SourceTimeSettings, Stopwatch};
use crate::dead_letter::{self, DeadLetter};
use crate::env::Env;
use crate::source::{Limit, Polled, Records, Source};
use crate::telemetry::NodeMetrics;
use dataflow::checkpoint::{Report, SourceSnapshot};
use dataflow::element::{Barrier, Cut, Element};
use dataflow::record::Batch;
use dataflow::time::{END, START, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Where a source's elements go.
#[derive(Default)]
pub struct SourceOutputs {
    /// The records.
    pub main: Port,
    /// Records out of tolerance, where the job wants them.
    pub out_of_tolerance: Port,
    /// Records put aside.
    pub dead: Port,
}

/// One source task.
pub struct SourceTask {
    id: TaskId,
    source: Box<dyn Source>,
    time: SourceTime,
    outputs: SourceOutputs,
    control: Arc<Control>,
    events: Sender<Event>,
    gate: Arc<Gate>,
    metrics: Arc<NodeMetrics>,
    env: Env,
    watermark: Timestamp,
    idle: bool,
    finished: bool,
    ending: bool,
    /// Time in which nothing could be read because an output was full or a checkpoint was due: no partition is idle for that.
    held: Duration,
    /// When to look next for partitions that have had nothing.
    look: Duration,
}

/// A batch is at most such a part of what a channel may hold: a full channel takes no more, but for the batch that fills it, and
/// another waits to be sent.
const CHANNEL_BATCHES: usize = 4;

/// How often a source task that reads looks for partitions that have had nothing.
const LOOK_FOR_IDLE: Duration = Duration::from_millis(100);

impl SourceTask {
    /// A task that reads `source`, whose partitions go on from the watermarks `restored`.
    pub fn new(
        id: TaskId,
        source: Box<dyn Source>,
        settings: SourceTimeSettings,
        restored: &BTreeMap<String, Timestamp>,
        wiring: SourceWiring,
    ) -> Self {
        let SourceWiring { outputs, control, events, gate, metrics, env } = wiring;
        let mut time = SourceTime::new(settings);
        let now = env.clock.monotonic();
        for partition in source.partitions() {
            let watermark = restored.get(&*partition.name).copied().unwrap_or(START);
            time.add(&partition.name, watermark, partition.finished, now);
        }
        let (watermark, idle, finished, ending) = (START, false, false, false);
        let (held, look) = (Duration::ZERO, Duration::ZERO);
        Self {
            id,
            source,
            time,
            outputs,
            control,
            events,
            gate,
            metrics,
            env,
            watermark,
            idle,
            finished,
            ending,
            held,
            look,
        }
    }

    /// Runs until told to end.
    ///
    /// # Errors
    /// The source cannot go on.
    pub fn run(mut self) -> anyhow::Result<End> {
        let mut watch = Stopwatch::start(&*self.env.clock);
        if let Some(watermark) = self.time.start() {
            self.tell(watermark);
        }
        loop {
            // Passage first, commands second: see `Gate::reserve`.
            let wanted = if self.finished || self.ending { 0 } else { self.env.batch_records };
            let passage = self.gate.reserve(wanted);
            if self.obey() {
                return Ok(End::Told);
            }
            if self.is_closed() {
                return Ok(End::Orphaned);
            }
            if !self.flush() {
                self.gate.give_back(passage);
                self.metrics.busy_ns.add(watch.lap(&*self.env.clock));
                self.control.wait.wait(None);
                let blocked = watch.lap(&*self.env.clock);
                self.metrics.blocked_ns.add(blocked);
                self.held += Duration::from_nanos(blocked);
                continue;
            }
            if self.ending {
                return Ok(End::Told);
            }
            let pause = if passage == 0 { Some(None) } else { self.poll(passage)? };
            if let Some(at_most) = pause {
                self.metrics.busy_ns.add(watch.lap(&*self.env.clock));
                self.control.wait.wait(at_most);
                let idle = watch.lap(&*self.env.clock);
                self.metrics.idle_ns.add(idle);
                if passage == 0 {
                    self.held += Duration::from_nanos(idle);
                }
            }
        }
    }

    /// The time by which partitions become idle.
    fn reading_time(&self) -> Duration {
        self.env.clock.monotonic().saturating_sub(self.held)
    }

    /// Does what the coordinator says; true to stop at once.
    fn obey(&mut self) -> bool {
        while let Some(command) = self.control.receive() {
            match command {
                Command::Abort => return true,
                Command::Drain => {
                    self.finished = true;
                    self.tell(END);
                }
                Command::Barrier { barrier, then_end } => self.barrier(barrier, then_end),
                Command::Apply { .. } | Command::Finish => unreachable!("only sinks apply and finish"),
            }
        }
        false
    }

    fn barrier(&mut self, barrier: Barrier, then_end: bool) {
        let snapshot = SourceSnapshot {
            partitions: self.time.positions(self.source.partitions()),
            counters: self.metrics.durable().into_iter().collect(),
        };
        if barrier.cut == Cut::Overtaking {
            let SourceOutputs { main, out_of_tolerance, dead } = &mut self.outputs;
            [main, out_of_tolerance, dead].into_iter().for_each(|port| port.overtake(barrier));
        } else {
            self.signal(&Element::Barrier(barrier));
        }
        if then_end {
            self.signal(&Element::End);
            self.ending = true;
        }
        let report = Report::Source { source: self.id.node.clone(), task: self.id.task, snapshot };
        self.send_event(Event::Report(barrier.checkpoint, report));
    }

    /// Reads once; how long to wait before the next time, if at all.
    fn poll(&mut self, passage: usize) -> anyhow::Result<Option<Option<Duration>>> {
        let bytes = BATCH_BYTES_MAX.min(self.outputs.main.bytes_max() / CHANNEL_BATCHES);
        let polled = self.source.poll(Limit { records: passage, bytes })?;
        let read = if let Polled::Records(records) = &polled { records.batch.len() + records.dead.len() } else { 0 };
        self.gate.give_back(passage.saturating_sub(read));
        match polled {
            Polled::Records(records) => {
                self.take(*records);
                self.look_for_idle();
                if self.gate.is_closed() {
                    self.send_event(Event::CountReached);
                }
                Ok(self.env.pace.map(Some))
            }
            Polled::Nothing(retry) => Ok(Some(Some(self.nothing(retry)))),
            Polled::Partitions => {
                self.sync_partitions();
                Ok(None)
            }
            Polled::Finished => {
                self.sync_partitions();
                self.finished = true;
                self.tell(END);
                self.send_event(Event::SourceFinished(self.id.clone()));
                Ok(None)
            }
        }
    }

    fn take(&mut self, records: Records) {
        let Records { partition, mut batch, arrivals, mut dead, bytes } = records;
        self.metrics.records_in.add((batch.len() + dead.len()) as u64);
        self.metrics.bytes.add(bytes);
        dead.iter_mut().for_each(|letter| letter.node.clone_from(&self.id.node));
        self.time.stamp(&mut batch, self.env.clock.now_ms());
        let sorted = self.time.sort(batch, &arrivals);
        if let Some(refused) = &sorted.refused {
            let letter = |(row, reason)| DeadLetter::of_row(&self.id.node, refused, row, reason);
            dead.extend(sorted.dead.into_iter().map(letter));
        }
        if let Some(side) = sorted.side {
            self.outputs.out_of_tolerance.send_batch(side, &mut dead);
        }
        self.metrics.records_out.add(sorted.kept.len() as u64);
        self.send(&partition, sorted.kept, &mut dead);
        self.put_aside(&dead);
    }

    fn send(&mut self, partition: &Arc<str>, batch: Batch, dead: &mut Vec<DeadLetter>) {
        let now = self.reading_time();
        if batch.is_empty() {
            return;
        }
        if std::mem::take(&mut self.idle) {
            self.presence(&Element::Active);
        }
        let rows = batch.len();
        if self.time.emit() == Emit::PerRecord {
            for row in 0..rows {
                let one = batch.slice(row, row + 1);
                let watermark = self.time.observe(partition, &one.timestamps, now);
                self.outputs.main.send_batch(one, dead);
                self.env.fail_points.passed(|| format!("source/{}/record", self.id.node), 1);
                watermark.into_iter().for_each(|watermark| self.tell(watermark));
            }
            return;
        }
        let watermark = self.time.observe(partition, &batch.timestamps, now);
        self.outputs.main.send_batch(batch, dead);
        self.env.fail_points.passed(|| format!("source/{}/record", self.id.node), rows as u64);
        watermark.into_iter().for_each(|watermark| self.tell(watermark));
    }

    /// One partition may have nothing for long while others are busy.
    fn look_for_idle(&mut self) {
        let now = self.reading_time();
        if now >= self.look {
            self.look = now + LOOK_FOR_IDLE;
            self.mark_idle(now);
        }
    }

    fn mark_idle(&mut self, now: Duration) {
        self.source.postponed().iter().for_each(|partition| self.time.postpone(partition, now));
        if let Some(watermark) = self.time.mark_idle(now) {
            self.tell(watermark);
        }
    }

    fn nothing(&mut self, retry: Duration) -> Duration {
        let now = self.reading_time();
        self.mark_idle(now);
        if let Some(watermark) = self.time.idle_watermark(self.env.clock.now_ms()) {
            self.tell(watermark);
        } else if self.time.all_idle() && !std::mem::replace(&mut self.idle, true) {
            self.presence(&Element::Idle);
        }
        self.time.next_idle(now).map_or(retry, |idle| idle.min(retry))
    }

    fn sync_partitions(&mut self) {
        let now = self.reading_time();
        for partition in self.source.partitions() {
            self.time.add(&partition.name, START, false, now);
            if partition.finished
                && let Some(watermark) = self.time.finish_named(&partition.name)
            {
                self.tell(watermark);
            }
        }
    }

    fn tell(&mut self, watermark: Timestamp) {
        if watermark > self.watermark {
            self.watermark = watermark;
            self.metrics.set_watermark(watermark);
            self.presence(&Element::Watermark(watermark));
        }
    }

    fn put_aside(&mut self, dead: &[DeadLetter]) {
        if !dead.is_empty() {
            self.metrics.put_aside(&self.id.node, dead);
            self.outputs.dead.send_batch(dead_letter::batch(dead), &mut vec![]);
        }
    }

    /// Signals about time go to the outputs that have it; dead letters have none.
    fn presence(&mut self, element: &Element) {
        self.outputs.main.send_signal(element);
        self.outputs.out_of_tolerance.send_signal(element);
    }

    fn signal(&mut self, element: &Element) {
        self.presence(element);
        self.outputs.dead.send_signal(element);
    }

    fn flush(&mut self) -> bool {
        let outputs = &mut self.outputs;
        // Every port is tried, also behind one that is full.
        outputs.main.flush() & outputs.out_of_tolerance.flush() & outputs.dead.flush()
    }

    fn is_closed(&self) -> bool {
        self.outputs.main.is_closed() || self.outputs.out_of_tolerance.is_closed() || self.outputs.dead.is_closed()
    }

    fn send_event(&self, event: Event) {
        // A coordinator that is gone has sent `Abort`, or will be noticed as a closed channel.
        let _ = self.events.send(event);
    }
}

/// What a source task is connected to.
pub struct SourceWiring {
    /// Where its elements go.
    pub outputs: SourceOutputs,
    /// Its commands.
    pub control: Arc<Control>,
    /// Where it reports.
    pub events: Sender<Event>,
    /// Counts records towards a checkpoint.
    pub gate: Arc<Gate>,
    /// Its counters.
    pub metrics: Arc<NodeMetrics>,
    /// Clock and fail points.
    pub env: Env,
}
