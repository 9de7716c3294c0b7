//! The third loop: writes rows, stages at a barrier, applies once the checkpoint is decided.

use super::Stopwatch;
use super::control::{Command, Control, End, Event, TaskId};
use super::in_flight::{InFlightStore, InFlightWriter};
use super::inputs::{Input, Inputs, Taken};
use crate::env::Env;
use crate::sink::Sink;
use crate::telemetry::NodeMetrics;
use anyhow::Context;
use dataflow::checkpoint::{CheckpointId, Moments, Report};
use dataflow::record::Batch;
use dataflow::replay::{Replay, ReplayStep};
use dataflow::time::START;
use dataflow::watermark::Merged;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The one task of a sink.
pub struct SinkTask {
    id: TaskId,
    sink: Box<dyn Sink>,
    inputs: Inputs,
    in_flight: InFlightWriter,
    control: Arc<Control>,
    events: Sender<Event>,
    metrics: Arc<NodeMetrics>,
    env: Env,
}

impl SinkTask {
    /// A task that writes what comes from `inputs`.
    pub fn new(
        id: TaskId,
        sink: Box<dyn Sink>,
        (inputs, in_flight): (Vec<Input>, InFlightStore),
        control: Arc<Control>,
        (events, metrics, env): (Sender<Event>, Arc<NodeMetrics>, Env),
    ) -> Self {
        let inputs = Inputs::new(id.clone(), inputs, START, env.clone());
        let in_flight = InFlightWriter::new(in_flight, id.clone(), control.wait.clone(), env.clone());
        Self { id, sink, inputs, in_flight, control, events, metrics, env }
    }

    /// Runs until told to finish. First of all it is given what was on its way to it when it was restored.
    ///
    /// # Errors
    /// The target refuses.
    pub fn run(mut self, mut replay: Replay) -> anyhow::Result<End> {
        let mut watch = Stopwatch::start(&*self.env.clock);
        while let Some(step) = replay.step() {
            if matches!(self.control.receive(), Some(Command::Abort)) {
                return Ok(End::Told);
            }
            if let ReplayStep::Rows { batch, .. } = step {
                self.write(&batch)?;
            }
        }
        self.env.fail_points.passed(|| format!("sink/{}/replayed", self.id.node), 1);
        loop {
            while let Some(command) = self.control.receive() {
                match command {
                    Command::Abort | Command::Finish => return Ok(End::Told),
                    Command::Apply { checkpoint, payload } => {
                        self.sink
                            .apply(checkpoint, &payload)
                            .with_context(|| format!("sink `{}` cannot apply checkpoint {checkpoint}", self.id.node))?;
                        self.env.fail_points.passed(|| format!("sink/{}/applied", self.id.node), 1);
                        self.send_event(Event::Applied(self.id.clone(), checkpoint));
                    }
                    Command::Barrier { .. } | Command::Drain => unreachable!("only sources are told to send barriers"),
                }
            }
            while let Some(written) = self.in_flight.poll() {
                self.send_event(Event::of_in_flight(&self.id, written));
            }
            let now = self.env.clock.monotonic();
            if let Some(taken) = self.inputs.urgent(now).or_else(|| self.inputs.next(now)) {
                self.act(taken)?;
                continue;
            }
            self.metrics.busy_ns.add(watch.lap(&*self.env.clock));
            self.control.wait.wait(None);
            self.metrics.idle_ns.add(watch.lap(&*self.env.clock));
        }
    }

    fn act(&mut self, taken: Taken) -> anyhow::Result<()> {
        match taken {
            Taken::Rows(_, batch) => self.write(&batch)?,
            Taken::Time(Merged::Advanced(watermark)) => self.metrics.set_watermark(watermark),
            Taken::Time(Merged::Unchanged) | Taken::Nothing => {}
            Taken::Snapshot(barrier, moments) => self.stage(barrier.checkpoint, moments)?,
            Taken::Overtaken(barrier, moments) => {
                self.stage(barrier.checkpoint, moments)?;
                self.env.fail_points.passed(|| format!("sink/{}/overtaken", self.id.node), 1);
            }
            Taken::InFlight(checkpoint, channels, moments) => self.in_flight.write(checkpoint, &channels, moments),
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let rows = batch.len() as u64;
        self.sink.write(batch).with_context(|| format!("sink `{}` cannot write", self.id.node))?;
        self.metrics.records_in.add(rows);
        self.env.fail_points.passed(|| format!("sink/{}/written", self.id.node), rows);
        Ok(())
    }

    fn stage(&mut self, checkpoint: CheckpointId, moments: Moments) -> anyhow::Result<()> {
        let payload = self
            .sink
            .stage(checkpoint)
            .with_context(|| format!("sink `{}` cannot stage checkpoint {checkpoint}", self.id.node))?;
        self.env.fail_points.passed(|| format!("sink/{}/staged", self.id.node), 1);
        let moments = Moments { durable: self.env.clock.monotonic(), ..moments };
        let counters = self.metrics.durable().into_iter().collect();
        let report = Report::Sink { sink: self.id.node.clone(), payload, counters, moments };
        self.send_event(Event::Report(checkpoint, report));
        Ok(())
    }

    fn send_event(&self, event: Event) {
        // A coordinator that is gone has sent `Abort`.
        let _ = self.events.send(event);
    }
}
