//! The channels into a task: takes their elements in turn, aligns barriers, merges what they say of time, and copies what a
//! barrier has overtaken. What it takes it hands to the task as things to do.

use super::control::TaskId;
use crate::env::Env;
use crate::exchange::Receiver;
use dataflow::alignment::{Alignment, Decision};
use dataflow::checkpoint::{CheckpointId, Moments};
use dataflow::element::{Barrier, Element};
use dataflow::record::Batch;
use dataflow::replay::ChannelState;
use dataflow::time::Timestamp;
use dataflow::watermark::{Merge, Merged};
use std::time::Duration;

/// One channel into a task.
pub struct Input {
    /// Where elements come from.
    pub receiver: Receiver,
    /// Which input of the reader they are for.
    pub input: usize,
}

/// What a task does about what it took.
pub(super) enum Taken {
    /// Rows for an input of the reader.
    Rows(usize, Box<Batch>),
    /// Something was said of time: where all inputs stand now, if that moved.
    Time(Merged),
    /// Snapshot, and forward the barrier behind everything.
    Snapshot(Barrier, Moments),
    /// Snapshot, and forward the barrier past everything.
    Overtaken(Barrier, Moments),
    /// What lay in the inputs when barriers overtook it.
    InFlight(CheckpointId, Vec<ChannelState>, Moments),
    /// Nothing.
    Nothing,
}

/// The channels into one task.
pub(super) struct Inputs {
    reader: TaskId,
    env: Env,
    inputs: Vec<Input>,
    ended: Vec<bool>,
    alignment: Alignment,
    merge: Merge,
    /// The input to look at first: each gets its turn.
    turn: usize,
    /// When barriers of the last checkpoint came, and which that is.
    moments: Moments,
    timed: Option<CheckpointId>,
    copies: Option<Copies>,
}

/// What is copied for a checkpoint whose barriers overtake.
struct Copies {
    checkpoint: CheckpointId,
    channels: Vec<ChannelState>,
    complete: bool,
}

impl Inputs {
    /// Into the task `reader`, which stands at `watermark`.
    pub(super) fn new(reader: TaskId, inputs: Vec<Input>, watermark: Timestamp, env: Env) -> Self {
        let (alignment, merge) = (Alignment::new(inputs.len()), Merge::new(inputs.len(), watermark));
        let (ended, moments) = (vec![false; inputs.len()], Moments::default());
        Self { reader, env, inputs, ended, alignment, merge, turn: 0, moments, timed: None, copies: None }
    }

    /// What cannot wait, whatever the task is at: a barrier that has overtaken, or that the last of them has.
    pub(super) fn urgent(&mut self, now: Duration) -> Option<Taken> {
        if let Some(copies) = self.copies.take_if(|copies| copies.complete) {
            return Some(Taken::InFlight(copies.checkpoint, copies.channels, self.moments));
        }
        for at in 0..self.inputs.len() {
            if let Some((barrier, before)) = self.inputs[at].receiver.overtaken() {
                let taken = self.barrier(at, barrier, now);
                if let Some(copies) = self.copies.as_mut().filter(|copies| copies.checkpoint == barrier.checkpoint) {
                    copies.channels[at].elements.extend(before);
                }
                return Some(taken);
            }
        }
        None
    }

    /// A barrier that may be taken while the task is firing, if one is next in an input.
    pub(super) fn next_barrier(&mut self, now: Duration) -> Option<Taken> {
        let open = |at: &usize| !self.alignment.holds(*at) && !self.ended[*at];
        let open: Vec<usize> = (0..self.inputs.len()).filter(open).collect();
        let (at, barrier) =
            open.into_iter().find_map(|at| self.inputs[at].receiver.barrier_next(now).map(|barrier| (at, barrier)))?;
        Some(self.barrier(at, barrier, now))
    }

    /// The next element of an input that is not held.
    pub(super) fn next(&mut self, now: Duration) -> Option<Taken> {
        for offset in 0..self.inputs.len() {
            let at = (self.turn + offset) % self.inputs.len();
            if self.alignment.holds(at) || self.ended[at] {
                continue;
            }
            if let Some(element) = self.inputs[at].receiver.receive(now) {
                self.turn = (at + 1) % self.inputs.len();
                return Some(self.take(at, element, now));
            }
        }
        None
    }

    /// Whether every input has ended.
    pub(super) fn all_ended(&self) -> bool {
        self.alignment.all_ended()
    }

    /// Whether no input has anything, but some may again.
    pub(super) fn all_idle(&self) -> bool {
        self.merge.all_idle()
    }

    /// Whether a sender went away without an end: the job is being taken down.
    pub(super) fn lost(&self) -> bool {
        self.inputs.iter().zip(&self.ended).any(|(input, ended)| !ended && input.receiver.is_closed())
    }

    fn take(&mut self, at: usize, element: Element, now: Duration) -> Taken {
        if self.alignment.copies(at)
            && let Some(copies) = &mut self.copies
            && !matches!(element, Element::Barrier(_) | Element::End)
        {
            copies.channels[at].elements.push(element.clone());
        }
        match element {
            Element::Batch(batch) => Taken::Rows(self.inputs[at].input, batch),
            Element::Watermark(watermark) => Taken::Time(self.merge.advance(at, watermark)),
            Element::Idle => Taken::Time(self.merge.idle(at)),
            Element::Active => Taken::Time(self.merge.active(at)),
            Element::Barrier(barrier) => self.barrier(at, barrier, now),
            Element::End => {
                self.ended[at] = true;
                let decision = self.alignment.end(at);
                self.decided(decision, now)
            }
        }
    }

    fn barrier(&mut self, at: usize, barrier: Barrier, now: Duration) -> Taken {
        // Of a checkpoint that a newer one replaces nothing is asked any more.
        self.copies.take_if(|copies| copies.checkpoint < barrier.checkpoint);
        let decision = self.alignment.barrier(at, barrier);
        if decision != Decision::Nothing && self.timed.replace(barrier.checkpoint) != Some(barrier.checkpoint) {
            self.moments.first_barrier = now;
        }
        if decision != Decision::Nothing {
            self.env.fail_points.passed(|| format!("exchange/{}/barrier", self.reader.node), 1);
        }
        self.decided(decision, now)
    }

    fn decided(&mut self, decision: Decision, now: Duration) -> Taken {
        self.moments.last_barrier = now;
        match decision {
            Decision::Wait | Decision::Nothing => Taken::Nothing,
            Decision::Snapshot(barrier) => Taken::Snapshot(barrier, self.moments),
            Decision::Overtake { barrier, complete } => {
                let channel = |(at, input): (usize, &Input)| {
                    let (watermark, idle) = self.merge.input(at);
                    ChannelState { input: input.input, watermark, idle, elements: vec![] }
                };
                let channels = self.inputs.iter().enumerate().map(channel).collect();
                self.copies = Some(Copies { checkpoint: barrier.checkpoint, channels, complete });
                Taken::Overtaken(barrier, self.moments)
            }
            Decision::Copied(_) => {
                if let Some(copies) = &mut self.copies {
                    copies.complete = true;
                }
                Taken::Nothing
            }
        }
    }
}
