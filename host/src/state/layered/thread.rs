//! The thread beside a task, started with the first layer that is frozen: what it is asked, and what it answers. It takes
//! layers in the order in which they were frozen, so a snapshot of the base is that of one moment.

use super::{Clocks, Layer, Setup};
use crate::env::{self, FailPoints, WaitPoint};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A layer that takes no more writes.
pub(in crate::state) struct Frozen {
    pub(in crate::state) layer: Arc<Layer>,
    /// As the clocks stood when it was frozen.
    pub(in crate::state) clocks: Clocks,
    /// The checkpoint, if any, that it was frozen for.
    pub(in crate::state) checkpoint: Option<CheckpointId>,
}

/// Applies layers to a base and makes snapshots durable.
pub(in crate::state) trait Worker: Send {
    /// Takes a layer; answers when it is applied, and when its snapshot is durable or lost. False: nobody hears any more.
    fn take(&mut self, frozen: Frozen) -> bool;
}

/// What a task asks its thread.
pub(super) enum Work {
    Freeze(Frozen),
    /// Give back the memory of a layer nobody reads any more: millions of rows, too slow for the task.
    Free(Arc<Layer>),
}

/// What the thread answers.
pub(super) enum Answer {
    /// The oldest frozen layer is part of the base.
    Applied,
    /// It cannot be applied; it is tried again with the next one.
    Refused(String),
    /// How a snapshot ended.
    Snapshot(CheckpointId, anyhow::Result<Vec<FileEntry>>),
}

/// Carries answers to the task, and wakes it.
#[derive(Clone)]
pub(in crate::state) struct Answers {
    to: Sender<Answer>,
    notify: Arc<WaitPoint>,
    chain: Arc<str>,
    fail_points: Arc<FailPoints>,
}

impl Answers {
    fn send(&self, answer: Answer) -> bool {
        let heard = self.to.send(answer).is_ok();
        self.notify.notify();
        heard
    }

    /// The oldest layer that was taken and not answered yet is part of the base. False: nobody hears any more.
    pub(in crate::state) fn applied(&self) -> bool {
        self.fail_points.passed(|| format!("state/{}/applied", self.chain), 1);
        self.send(Answer::Applied)
    }

    /// The oldest layer cannot be applied now.
    pub(in crate::state) fn refused(&self, why: &anyhow::Error) -> bool {
        self.send(Answer::Refused(format!("{why:#}")))
    }

    /// A snapshot is durable, or lost.
    pub(in crate::state) fn snapshot(&self, checkpoint: CheckpointId, files: anyhow::Result<Vec<FileEntry>>) -> bool {
        self.fail_points.passed(|| format!("state/{}/stored", self.chain), u64::from(files.is_ok()));
        self.send(Answer::Snapshot(checkpoint, files))
    }
}

/// The task's end of it.
pub(super) struct Thread {
    pub(super) work: Sender<Work>,
    pub(super) answers: Receiver<Answer>,
    handle: JoinHandle<()>,
}

impl Thread {
    pub(super) fn start(
        name: &str,
        setup: &Setup,
        worker: impl FnOnce(Answers) -> Box<dyn Worker>,
    ) -> std::io::Result<Self> {
        let (work, inbox) = channel();
        let (to, answers) = channel();
        let (notify, fail_points) = (setup.notify.clone(), setup.fail_points.clone());
        let mut worker = worker(Answers { to, notify, chain: setup.chain.as_str().into(), fail_points });
        let handle = env::spawn_beside(name, move || {
            while let Ok(work) = inbox.recv() {
                match work {
                    Work::Free(layer) => drop(layer),
                    Work::Freeze(frozen) => {
                        if !worker.take(frozen) {
                            return;
                        }
                    }
                }
            }
        })?;
        Ok(Self { work, answers, handle })
    }

    /// Tells it that nobody asks or hears any more, and waits until it has ended.
    pub(super) fn join(self) {
        let Self { work, answers, handle } = self;
        drop((work, answers));
        if handle.join().is_err() {
            tracing::warn!("the thread that writes state had panicked");
        }
    }
}
