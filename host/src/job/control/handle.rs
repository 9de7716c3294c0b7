//! A running job as others see it, through all its attempts.

use crate::checkpoint::{CheckpointStorage, Outcome, shown};
use crate::env::{Env, WaitPoint};
use crate::job::attempt::Site;
use crate::job::check;
use crate::job::definition::Definition;
use crate::job::savepoint::{self, Written};
use crate::job::storage;
use crate::task::{Event, Held, Request, Stop};
use crate::telemetry::Status;
use anyhow::{Context, anyhow, bail, ensure};
use dataflow::checkpoint::CheckpointId;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A running job as others see it.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    definition: Definition,
    home: PathBuf,
    storage: Arc<dyn CheckpointStorage>,
    env: Env,
    now: Mutex<Now>,
    /// Noticed when the job is to stop while no attempt runs, and when a request was answered.
    wake: WaitPoint,
}

struct Now {
    /// Where requests go; none while no attempt runs.
    events: Option<Sender<Event>>,
    /// Why none runs, or none ran when the last one had ended.
    pause: Pause,
    /// Attempts that have ended.
    ended: u64,
    status: Arc<Status>,
    parallelism: usize,
    wish: Option<Wish>,
    /// Requests that are being answered.
    answering: usize,
}

/// Why no attempt runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// The last one failed, and the next is not due yet.
    Waiting,
    /// The next is being made.
    Starting,
    /// There will be none.
    Ended,
}

impl Pause {
    fn refusal(self) -> &'static str {
        match self {
            Self::Waiting => "the job has failed and waits to start again: try again when it runs",
            Self::Starting => {
                "the job is being started again, after a failure or in another number of tasks: try again when it runs"
            }
            Self::Ended => "the job has come to its end",
        }
    }
}

/// What is to become of the job when the attempt that runs has stopped.
pub(in crate::job) enum Wish {
    /// It ends.
    Stop(Stop),
    /// It goes on in another number of tasks.
    Rescale { parallelism: usize, answer: Sender<anyhow::Result<()>> },
}

impl Handle {
    pub(in crate::job) fn new(site: &Site, events: Sender<Event>, status: Arc<Status>) -> Self {
        let parallelism = site.definition.parallelism;
        Self(Arc::new(Shared {
            definition: site.definition.clone(),
            home: site.home.clone(),
            storage: site.storage.clone(),
            env: site.env.clone(),
            now: Mutex::new(Now {
                events: Some(events),
                pause: Pause::Starting,
                ended: 0,
                status,
                parallelism,
                wish: None,
                answering: 0,
            }),
            wake: WaitPoint::default(),
        }))
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.0.definition.name
    }

    /// Its counters, those of the attempt that runs.
    pub fn status(&self) -> Arc<Status> {
        self.now().status.clone()
    }

    /// Tasks of each node that has no number of its own.
    pub fn parallelism(&self) -> usize {
        self.now().parallelism
    }

    /// Has the job take a last checkpoint and end. Asking again changes nothing. False where it has failed and waits to start again:
    /// it ends then as it is, with the checkpoint before.
    pub fn stop(&self, stop: Stop) -> bool {
        let mut now = self.now();
        now.refuse_rescale("the job is being stopped");
        now.wish = Some(Wish::Stop(stop));
        now.send(Request::Stop(stop));
        self.0.wake.notify();
        now.events.is_some() || now.pause == Pause::Starting
    }

    /// Takes a checkpoint and waits until it is applied.
    ///
    /// # Errors
    /// It was given up, or the job ended before.
    pub fn checkpoint(&self) -> anyhow::Result<CheckpointId> {
        Ok(self.hold(None)?.manifest.checkpoint)
    }

    /// Makes a savepoint at `place`, of a checkpoint taken now; the job runs on meanwhile, or ends with it if so said.
    ///
    /// # Errors
    /// The place is refused, the checkpoint was given up, or the job ended before.
    pub fn savepoint(&self, place: &str, stop: Option<Stop>) -> anyhow::Result<Written> {
        let opened = storage::place(place, false);
        let shown = shown(place);
        let to = opened.with_context(|| format!("`{shown}` cannot be a savepoint's place"))?;
        let _answering = self.answering();
        // Before the job is stopped for it.
        savepoint::claim(&*to, self.job()).with_context(|| format!("`{shown}` takes no savepoint, the job runs on"))?;
        let held = self.hold(stop).inspect_err(|_| savepoint::give_up(&*to))?;
        let from = (&self.0.storage, &*self.0.home.join("scratch"));
        let written = savepoint::write(&held.manifest, from, &*to, self.0.env.clock.now_ms());
        written.map_err(|error| {
            let mut said = format!("the savepoint `{shown}` cannot be written");
            if stop.is_some() {
                let (job, checkpoint, home) = (self.job(), held.manifest.checkpoint, self.0.home.display());
                said += &format!(
                    ", and job `{job}` has stopped with checkpoint {checkpoint}, from which `millstream run` goes on (`{home}`)"
                );
            }
            savepoint::give_up(&*to);
            error.context(said)
        })
    }

    /// Stops the job at a checkpoint, deals its key groups out among `parallelism` tasks, and goes on.
    ///
    /// # Errors
    /// The number is refused, and the job runs on untouched; or the job ended before; or it cannot run so, and goes on as
    /// it was.
    pub fn rescale(&self, parallelism: usize) -> anyhow::Result<()> {
        let definition = Definition { parallelism, ..self.0.definition.clone() };
        let most = usize::from(definition.max_parallelism);
        ensure!(
            (1..=most).contains(&parallelism),
            "parallelism {parallelism} is not within 1 and the job's `max_parallelism`, {most}"
        );
        if let Some(problem) = check::structure(&definition).first() {
            bail!("the job cannot run with parallelism {parallelism}: {}", problem.message);
        }
        let (answer, heard) = mpsc::channel();
        {
            let mut now = self.now();
            ensure!(now.wish.is_none(), "the job is being stopped or rescaled already");
            ensure!(now.events.is_some(), now.pause.refusal());
            if now.parallelism == parallelism {
                return Ok(());
            }
            now.wish = Some(Wish::Rescale { parallelism, answer });
            now.send(Request::Stop(Stop::Suspend));
        }
        heard.recv().unwrap_or_else(|_| Err(anyhow!("job `{}` ended before it was done; its log says why", self.job())))
    }

    fn hold(&self, stop: Option<Stop>) -> anyhow::Result<Held> {
        let (answer, heard): (_, Receiver<anyhow::Result<Held>>) = mpsc::channel();
        let ended = {
            let mut now = self.now();
            ensure!(now.events.is_some(), now.pause.refusal());
            if let Some(stop) = stop {
                now.refuse_rescale("the job is being stopped");
                now.wish = Some(Wish::Stop(stop));
            }
            now.send(Request::Checkpoint { stop, answer });
            now.ended
        };
        let held = heard.recv().unwrap_or_else(|_| Err(self.unanswered(ended)));
        if stop.is_none() {
            return held;
        }
        held.with_context(|| {
            format!(
                "job `{}` was to end with it, and ends with the checkpoint that it had; `millstream run` goes on there",
                self.job()
            )
        })
    }

    /// Why an attempt gave no answer: the one after so many that had `ended`.
    fn unanswered(&self, ended: u64) -> anyhow::Error {
        loop {
            let now = self.now();
            if now.ended > ended {
                return match now.pause {
                    Pause::Ended => anyhow!("job `{}` came to its end before it was done", self.job()),
                    _ => anyhow!("job `{}` failed before it was done, and starts again; its log says why", self.job()),
                };
            }
            drop(now);
            // Its coordinator is gone, so that it has ended is noted in a moment.
            self.0.wake.wait(Some(Duration::from_millis(10)));
        }
    }

    /// No attempt runs, since the last `ended` so; whether the next is to be another. That the job is to stop stays so.
    pub(in crate::job) fn attempt_ended(&self, ended: &anyhow::Result<Outcome>) -> Option<Wish> {
        let mut now = self.now();
        let wish = now.take_rescale();
        now.events = None;
        now.ended += 1;
        now.pause = match ended {
            Ok(Outcome::Stopped) if wish.is_some() => Pause::Starting,
            Ok(_) => Pause::Ended,
            Err(_) => Pause::Waiting,
        };
        wish
    }

    /// The job has waited to start again after a failure, and starts.
    pub(in crate::job) fn starts_again(&self) {
        self.now().pause = Pause::Starting;
    }

    pub(in crate::job) fn attempt_began(&self, events: Sender<Event>, status: Arc<Status>, parallelism: usize) {
        let mut now = self.now();
        (now.events, now.status, now.parallelism) = (Some(events), status, parallelism);
        if let Some(Wish::Stop(stop)) = now.wish {
            now.send(Request::Stop(stop));
        }
    }

    /// Waits; true as soon as the job is to stop.
    pub(in crate::job) fn wait_for_stop(&self, at_most: Duration) -> bool {
        let clock = &self.0.env.clock;
        let until = clock.monotonic() + at_most;
        loop {
            if matches!(self.now().wish, Some(Wish::Stop(_))) {
                return true;
            }
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return false;
            }
            self.0.wake.wait(Some(left));
        }
    }

    /// The job has ended: waits until who asked has heard, of a savepoint with which it ended for one.
    pub(in crate::job) fn job_ended(&self) {
        {
            let mut now = self.now();
            (now.events, now.pause) = (None, Pause::Ended);
            now.ended += 1;
            now.ended += 1;
        }
        while self.now().answering > 0 {
            self.0.wake.wait(None);
        }
    }

    /// Keeps the process from ending with the job until it is dropped.
    pub(super) fn answering(&self) -> Answering<'_> {
        self.now().answering += 1;
        Answering(self)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    fn send(&self, request: Request) {
        if let Some(events) = &self.events {
            // A coordinator that is gone answers nothing: who waits hears that the job ended.
            let _ = events.send(Event::Request(request));
        }
    }

    fn refuse_rescale(&mut self, why: &'static str) {
        if let Some(Wish::Rescale { answer, .. }) = self.take_rescale() {
            let _ = answer.send(Err(anyhow!(why)));
        }
    }

    fn take_rescale(&mut self) -> Option<Wish> {
        self.wish.take_if(|wish| matches!(wish, Wish::Rescale { .. }))
    }
}

/// Counts a request that is being answered.
pub(super) struct Answering<'a>(&'a Handle);

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.now().answering -= 1;
        self.0.0.wake.notify();
    }
}
