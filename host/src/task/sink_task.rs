//! The third loop: writes rows, stages at a barrier, applies once the checkpoint is decided.

use super::control::{Command, Control, End, Event, TaskId};
use super::{Input, Stopwatch};
use crate::env::Env;
use crate::sink::Sink;
use crate::telemetry::NodeMetrics;
use anyhow::Context;
use dataflow::alignment::{Alignment, Decision};
use dataflow::checkpoint::{CheckpointId, Report};
use dataflow::element::Element;
use dataflow::time::START;
use dataflow::watermark::{Merge, Merged};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The one task of a sink.
pub struct SinkTask {
    id: TaskId,
    sink: Box<dyn Sink>,
    inputs: Vec<Input>,
    ended: Vec<bool>,
    alignment: Alignment,
    merge: Merge,
    turn: usize,
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
        inputs: Vec<Input>,
        control: Arc<Control>,
        (events, metrics, env): (Sender<Event>, Arc<NodeMetrics>, Env),
    ) -> Self {
        let (alignment, merge) = (Alignment::new(inputs.len()), Merge::new(inputs.len(), START));
        let ended = vec![false; inputs.len()];
        Self { id, sink, inputs, ended, alignment, merge, turn: 0, control, events, metrics, env }
    }

    /// Runs until told to finish.
    ///
    /// # Errors
    /// The target refuses.
    pub fn run(mut self) -> anyhow::Result<End> {
        let mut watch = Stopwatch::start(&*self.env.clock);
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
            if self.work()? {
                continue;
            }
            self.metrics.busy_ns.add(watch.lap(&*self.env.clock));
            self.control.wait.wait(None);
            self.metrics.idle_ns.add(watch.lap(&*self.env.clock));
        }
    }

    fn work(&mut self) -> anyhow::Result<bool> {
        for offset in 0..self.inputs.len() {
            let at = (self.turn + offset) % self.inputs.len();
            if self.alignment.holds(at) || self.ended[at] {
                continue;
            }
            if let Some(element) = self.inputs[at].receiver.receive() {
                self.turn = (at + 1) % self.inputs.len();
                self.take(at, element)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, at: usize, element: Element) -> anyhow::Result<()> {
        match element {
            Element::Batch(batch) => {
                let rows = batch.len() as u64;
                self.sink.write(&batch).with_context(|| format!("sink `{}` cannot write", self.id.node))?;
                self.metrics.records_in.add(rows);
                self.env.fail_points.passed(|| format!("sink/{}/written", self.id.node), rows);
            }
            Element::Watermark(watermark) => {
                let merged = self.merge.advance(at, watermark);
                self.note(merged);
            }
            Element::Idle => {
                let merged = self.merge.idle(at);
                self.note(merged);
            }
            Element::Active => {
                self.merge.active(at);
            }
            Element::Barrier(barrier) => {
                let decision = self.alignment.barrier(at, barrier.checkpoint);
                self.decide(decision)?;
            }
            Element::End => {
                self.ended[at] = true;
                let decision = self.alignment.end(at);
                self.decide(decision)?;
            }
        }
        Ok(())
    }

    fn note(&self, merged: Merged) {
        if let Merged::Advanced(watermark) = merged {
            self.metrics.set_watermark(watermark);
        }
    }

    fn decide(&mut self, decision: Decision) -> anyhow::Result<()> {
        if let Decision::Snapshot(checkpoint) = decision {
            self.stage(checkpoint)?;
        }
        Ok(())
    }

    fn stage(&mut self, checkpoint: CheckpointId) -> anyhow::Result<()> {
        let payload = self
            .sink
            .stage(checkpoint)
            .with_context(|| format!("sink `{}` cannot stage checkpoint {checkpoint}", self.id.node))?;
        self.env.fail_points.passed(|| format!("sink/{}/staged", self.id.node), 1);
        self.send_event(Event::Report(checkpoint, Report::Sink { sink: self.id.node.clone(), payload }));
        Ok(())
    }

    fn send_event(&self, event: Event) {
        // A coordinator that is gone has sent `Abort`.
        let _ = self.events.send(event);
    }
}
