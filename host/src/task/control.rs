//! What tasks and the coordinator say to each other: commands to a task, events from it, and the gate that counts records
//! towards a checkpoint.

use super::in_flight::Written;
use crate::env::WaitPoint;
use dataflow::checkpoint::{CheckpointId, Manifest, Payload, Report};
use dataflow::element::Barrier;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Which task of which node: a source, a chain by its first operator, or a sink.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    /// Name of the node.
    pub node: String,
    /// Which of its tasks.
    pub task: usize,
}

/// From the coordinator to a task.
#[derive(Debug, Clone)]
pub enum Command {
    /// To a source: send this barrier on, and end after it if so told.
    Barrier {
        /// The checkpoint and how it cuts.
        barrier: Barrier,
        /// Nothing follows the barrier.
        then_end: bool,
    },
    /// To a source: read no more, and let everything fire that waits for event time to come.
    Drain,
    /// To a sink: the checkpoint is decided.
    Apply {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What the sink staged for it.
        payload: Payload,
    },
    /// To a sink: nothing more will be decided.
    Finish,
    /// To all: the job has failed; stop at once.
    Abort,
}

/// From a task to the coordinator.
#[derive(Debug)]
pub enum Event {
    /// The task's part of a checkpoint.
    Report(CheckpointId, Report),
    /// An operator task has taken its snapshot and sent the barrier on; its state is being stored.
    SnapshotTaken(CheckpointId, TaskId),
    /// A task's part of a checkpoint could not be made durable: the checkpoint is lost, the job goes on.
    SnapshotLost(CheckpointId, TaskId, anyhow::Error),
    /// A source task has read everything and sent the last watermark.
    SourceFinished(TaskId),
    /// So many records have been read that a checkpoint is due.
    CountReached,
    /// A sink has applied a checkpoint.
    Applied(TaskId, CheckpointId),
    /// A task has ended as told.
    Ended(TaskId),
    /// A task has ended because one that it is connected to is gone. That one says why.
    Orphaned(TaskId),
    /// A task cannot go on.
    Failed(TaskId, anyhow::Error),
    /// Somebody outside asks for something.
    Request(Request),
}

/// What may be asked of a running job. The next checkpoint answers; one that is under way is not it.
#[derive(Debug)]
pub enum Request {
    /// A last checkpoint, then the end.
    Stop(Stop),
    /// A checkpoint whose files stay as long as the answer is held; the last one, if so said.
    Checkpoint {
        /// Whether the job ends with it.
        stop: Option<Stop>,
        /// Hears once it is decided and applied, or why not.
        answer: Sender<anyhow::Result<Held>>,
    },
}

/// How a job that is told to stop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Fires nothing: it can go on where it stopped.
    Suspend,
    /// Fires all windows and event-time timers: it has ended for good.
    Drain,
}

/// A decided checkpoint whose files are not deleted while this is held.
#[derive(Debug)]
pub struct Held {
    /// What it holds.
    pub manifest: Arc<Manifest>,
    /// Lets go when dropped.
    pub hold: Arc<()>,
}

impl Event {
    /// What became of what lay in a task's inputs.
    pub(super) fn of_in_flight(id: &TaskId, (checkpoint, moments, written): Written) -> Self {
        match written {
            Ok(file) => {
                let report = Report::InFlight { reader: id.node.clone(), task: id.task, file, moments };
                Self::Report(checkpoint, report)
            }
            Err(error) => {
                let reason = error.context("what lay in its inputs cannot be stored");
                Self::SnapshotLost(checkpoint, id.clone(), reason)
            }
        }
    }
}

/// Why a task that did not fail has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was told to, or its inputs have ended.
    Told,
    /// A task that it is connected to is gone.
    Orphaned,
}

/// A task's mailbox for commands.
#[derive(Debug, Default)]
pub struct Control {
    commands: Mutex<VecDeque<Command>>,
    /// The task's wait point.
    pub wait: Arc<WaitPoint>,
}

impl Control {
    /// A command for the task.
    pub fn send(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push_back(command);
        self.wait.notify();
    }

    /// The next command.
    pub fn receive(&self) -> Option<Command> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Lets exactly so many records through between two checkpoints, over all source tasks (`checkpoint: { every: 4 records }`).
#[derive(Debug)]
pub struct Gate {
    every: u64,
    left: AtomicU64,
    /// Somebody was refused, and wants to hear when there is passage again.
    refused: AtomicBool,
    waiting: Mutex<Vec<Arc<WaitPoint>>>,
}

impl Gate {
    /// Opens for `every` records; for any number if none.
    pub fn new(every: Option<u64>) -> Self {
        let every = every.unwrap_or(u64::MAX);
        Self { every, left: AtomicU64::new(every), refused: AtomicBool::new(false), waiting: Mutex::default() }
    }

    /// Adds a source task's wait point: it hears when there is passage again.
    pub fn register(&self, wait: Arc<WaitPoint>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
    }

    /// Takes up to `wanted` records' worth of passage. A task that got some looks for commands before it reads: a barrier
    /// sent before the gate opened again is then seen before any record behind it.
    pub fn reserve(&self, wanted: usize) -> usize {
        if self.every == u64::MAX || wanted == 0 {
            return wanted;
        }
        match self.take(wanted) {
            0 => {
                // Said first and tried again: what is given back in between is not missed.
                self.refused.store(true, Ordering::SeqCst);
                self.take(wanted)
            }
            got => got,
        }
    }

    fn take(&self, wanted: usize) -> usize {
        let mut got = 0;
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            got = left.min(wanted as u64);
            Some(left - got)
        });
        got as usize
    }

    fn notify_refused(&self) {
        if self.refused.swap(false, Ordering::SeqCst) {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wait| wait.notify());
        }
    }

    /// Gives back what was reserved and not read.
    pub fn give_back(&self, unused: usize) {
        if self.every != u64::MAX && unused > 0 {
            self.left.fetch_add(unused as u64, Ordering::SeqCst);
            self.notify_refused();
        }
    }

    /// Whether all passage is used up: a checkpoint is due.
    pub fn is_closed(&self) -> bool {
        self.every != u64::MAX && self.left.load(Ordering::SeqCst) == 0
    }

    /// Opens again, after the barriers have been sent.
    pub fn open(&self) {
        self.left.store(self.every, Ordering::SeqCst);
        self.notify_refused();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_lets_exactly_so_many_through() {
        let gate = Gate::new(Some(4));
        assert_eq!(gate.reserve(3), 3);
        gate.give_back(1);
        assert_eq!(gate.reserve(10), 2);
        assert!(gate.is_closed());
        assert_eq!(gate.reserve(1), 0);
        gate.open();
        assert_eq!(gate.reserve(10), 4);
    }

    #[test]
    fn source_that_was_refused_hears_of_what_another_gives_back() {
        let gate = Gate::new(Some(3));
        let wait = Arc::new(WaitPoint::default());
        gate.register(wait.clone());
        assert_eq!(gate.reserve(5), 3);
        assert_eq!(gate.reserve(5), 0, "all passage is taken");
        gate.give_back(1);
        wait.wait(None);
        assert_eq!(gate.reserve(5), 1);
        assert_eq!(gate.reserve(5), 0);
        gate.open();
        wait.wait(None);
    }

    #[test]
    fn gate_without_a_count_is_always_open() {
        let gate = Gate::new(None);
        assert_eq!(gate.reserve(5000), 5000);
        assert!(!gate.is_closed());
    }
}
