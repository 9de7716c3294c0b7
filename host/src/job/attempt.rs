//! One attempt at running a job: from what it goes on from to its end or its first failure. Whoever starts another one after
//! it is not known here.

use super::blueprint::Blueprint;
use super::definition::{DeadLetters, Definition, Every};
use super::recovery::recover;
use super::restore::{Origin, Restored, state_fits};
use super::run::{Resumed, RunOptions};
use super::wire::{Runnable, Wired, Wiring, wire};
use super::{savepoint::Opened, storage};
use crate::checkpoint::{CheckpointSettings, CheckpointStorage, Checkpoints, Coordinator, Outcome};
use crate::env::{self, Env};
use crate::sink::{Sink, SinkFactory, SinkInput};
use crate::task::{End, Event, TaskId};
use crate::{dead_letter, telemetry::Status};
use anyhow::{Context, anyhow, bail, ensure};
use dataflow::checkpoint::{CheckpointId, Manifest, Payload};
use dataflow::record::Batch;
use dataflow::restart::Permanent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::{path::PathBuf, thread::JoinHandle, time::Duration};

/// What all attempts of one run have in common.
pub(super) struct Site {
    pub(super) definition: Definition,
    pub(super) options: RunOptions,
    /// The savepoint to start from.
    pub(super) from: Option<Arc<Opened>>,
    /// The job's folder in the data directory.
    pub(super) home: PathBuf,
    pub(super) storage: Arc<dyn CheckpointStorage>,
    pub(super) env: Env,
}

/// A job whose tasks are made and do not run yet.
pub(super) struct Attempt {
    pub(super) status: Arc<Status>,
    /// Where requests go.
    pub(super) events: Sender<Event>,
    coordinator: Coordinator,
    threads: Vec<(TaskId, Runnable)>,
}

/// What a start leads to.
pub(super) enum Begun {
    /// All inputs were read to their end by an earlier run, and everything is visible.
    Finished(CheckpointId),
    /// The tasks are made.
    Ready {
        attempt: Box<Attempt>,
        resumed: Resumed,
        /// What was damaged of newer checkpoints; none if nothing was.
        damaged: Option<String>,
    },
}

/// The tasks, and the channel over which they and the coordinator speak.
type Made = (Wired, Sender<Event>, Receiver<Event>);

impl Site {
    /// Makes every task anew, from the newest checkpoint that is whole or the savepoint that the job is to start from. `number`
    /// counts the attempts of this process.
    ///
    /// # Errors
    /// The job does not fit what it goes on from, that is damaged, or something cannot be opened.
    pub(super) fn begin(&self, blueprint: &Blueprint, number: u32) -> anyhow::Result<Begun> {
        let (definition, options) = (&self.definition, &self.options);
        let name = format!("{:x}-{:x}-{number}", self.env.clock.now_ms(), std::process::id());
        let checkpoints = Checkpoints::new(self.storage.clone(), name.clone());
        // The lock lies in the data directory: it says nothing of runs elsewhere that use the same storage.
        let claimed = match options.checkpoint_storage {
            Some(_) => Some(checkpoints.claim().context("this run cannot take over the job's checkpoints")?),
            None => None,
        };
        let fresh = options.fresh && number == 0;
        let clear = || checkpoints.clear(claimed).context("earlier checkpoints cannot be deleted");
        if fresh && self.from.is_none() {
            // Before the sinks forget what these have staged.
            clear()?;
        }
        let make = |latest| {
            let origin = self.origin(latest)?;
            let (resumed, finished) = match &origin {
                Origin::Nothing => (Resumed::Nothing, false),
                Origin::Checkpoint(it) => {
                    (Resumed::Checkpoint(it.checkpoint), it.finished && it.job_revision == definition.revision)
                }
                Origin::Savepoint(opened) => (Resumed::Savepoint(state_fits(&opened.savepoint, blueprint)), false),
            };
            let restored = Restored::new(origin, blueprint, definition.max_parallelism, options)?;
            let made = self.make(blueprint, &restored, name.clone())?;
            self.refuse_repeats(&restored, &made.0.applied)?;
            Ok((resumed, finished, restored, made))
        };
        let (made, damaged) = match fresh {
            true => (make(None)?, None),
            false => recover(&checkpoints, definition, options.repeat_output, make)?,
        };
        if fresh && self.from.is_some() {
            // Only now is it known that the job can start from the savepoint.
            clear()?;
        }
        let (resumed, finished, restored, (wired, events, inbox)) = made;
        let Wired { tasks, threads, status, gate, applied } = wired;
        if let (Resumed::Checkpoint(checkpoint), true, 0) = (&resumed, finished, number) {
            checkpoints.give_back(claimed)?;
            return Ok(Begun::Finished(*checkpoint));
        }
        checkpoints.sweep().context("what a crash left behind cannot be deleted")?;
        let (every, _) = every(definition);
        let settings = CheckpointSettings {
            every,
            keep: definition.checkpoint.keep,
            timeout: definition.checkpoint.timeout,
            min_pause: definition.checkpoint.min_pause,
            tolerated_failures: definition.checkpoint.tolerated_failures,
            mode: self.env.checkpoint_mode.filter(|_| every.is_some()).unwrap_or(definition.checkpoint.mode),
        };
        // A sink takes a checkpoint for applied that is not above its last: the numbers go on behind what any has seen.
        let next = checkpoints.first_id(restored.checkpoint().max(applied.into_values().max()))?;
        let facts = (facts(definition, blueprint, restored), next);
        let coordinator =
            Coordinator::new(settings, checkpoints, facts, (tasks, gate), (inbox, status.clone()), self.env.clone());
        let attempt = Box::new(Attempt { status, events, coordinator, threads });
        Ok(Begun::Ready { attempt, resumed, damaged })
    }

    /// A savepoint may be older than what a target shows already; a checkpoint where a decision was deleted, or an older copy put back.
    fn refuse_repeats(&self, restored: &Restored, applied: &BTreeMap<String, CheckpointId>) -> anyhow::Result<()> {
        let Some(made_of) = restored.checkpoint() else { return Ok(()) };
        let exact = |name: &String| self.definition.exact_sinks().any(|exact| exact == name);
        let ahead = applied.iter().find(|(sink, checkpoint)| **checkpoint > made_of && exact(sink));
        let Some((sink, checkpoint)) = ahead.filter(|_| !self.options.repeat_output) else { return Ok(()) };
        let from = match restored.origin() {
            Origin::Savepoint(_) => format!("the savepoint was made of checkpoint {made_of}"),
            _ => format!(
                "checkpoint {made_of} is the newest that is left: a later one was deleted, or this is an older copy of the checkpoints"
            ),
        };
        bail!(Permanent(format!(
            "sink `{sink}` shows what came up to checkpoint {checkpoint}, and {from}. Rows after it would come a second time: put back \
             what is missing, write somewhere else, or accept that with `--repeat-output`"
        )))
    }

    /// All state is restored, and thereby verified, before the first sink is opened; then the sinks apply what was decided.
    fn make(&self, blueprint: &Blueprint, restored: &Restored, attempt: String) -> anyhow::Result<Made> {
        let (events, inbox) = mpsc::channel();
        let folder = self.dead_letters();
        // The job may go on on another machine, whose data directory has never seen its dead letters.
        let gone = folder.as_ref().is_some_and(|folder| !folder.exists());
        let dead_letters: Box<dyn SinkFactory> = match folder {
            Some(folder) => super::connectors::dead_letter_sink(folder),
            None => Box::new(Refuse),
        };
        let with_state = blueprint.plan.chains.iter().map(|chain| blueprint.nodes[chain[0]].parallelism).sum();
        let states = storage::States::new(
            self.definition.state,
            &self.env,
            (storage::state_folder(&self.home), with_state),
            (self.storage.clone(), attempt),
        )?;
        let kept = if self.options.fresh { BTreeSet::new() } else { self.definition.exact_sinks().collect() };
        let wired = wire(Wiring {
            job: &self.definition.name,
            blueprint,
            dead_letters: (&*dead_letters, gone),
            max_parallelism: self.definition.max_parallelism,
            every_records: every(&self.definition).1,
            states,
            restored,
            kept,
            events: events.clone(),
            env: self.env.clone(),
        })?;
        Ok((wired, events, inbox))
    }

    /// Where dead letters go; none where the first fails the job.
    pub(super) fn dead_letters(&self) -> Option<PathBuf> {
        match &self.definition.dead_letters {
            DeadLetters::DataDirectory => Some(self.home.join("dead-letters")),
            DeadLetters::Folder(folder) => Some(folder.clone()),
            DeadLetters::Fail => None,
        }
    }

    /// What the job goes on from: `latest`, its newest decided checkpoint, or the savepoint it is to start from. A savepoint is for a
    /// job that has not come further yet: one that runs again, after a crash say, goes on from its own checkpoints.
    ///
    /// # Errors
    /// The job has come somewhere else already.
    fn origin(&self, latest: Option<Manifest>) -> anyhow::Result<Origin> {
        let (latest, opened) = match (latest, self.from.clone()) {
            (None, None) => return Ok(Origin::Nothing),
            (Some(manifest), None) => return Ok(Origin::Checkpoint(Box::new(manifest))),
            (None, Some(opened)) => return Ok(Origin::Savepoint(opened)),
            (Some(manifest), Some(opened)) => (manifest, opened),
        };
        let made_of = &opened.savepoint;
        if latest.savepoint.as_ref() == Some(&made_of.checksum) {
            return Ok(Origin::Checkpoint(Box::new(latest)));
        }
        // Made of this very checkpoint, it forgets nothing. The checkpoint is deleted once there is a newer one.
        let is_same = latest.job == made_of.job && latest.checkpoint == made_of.checkpoint;
        let refused = || {
            format!(
                "job `{}` has come to checkpoint {} in `{}`, which is not what the savepoint was made of (checkpoint {} of job `{}`): \
             leave out `--from` to go on from there, or say `--fresh` to forget it and start from the savepoint",
                latest.job,
                latest.checkpoint,
                self.home.display(),
                made_of.checkpoint,
                made_of.job
            )
        };
        ensure!(is_same, Permanent(refused()));
        Ok(Origin::Savepoint(opened))
    }
}

impl Attempt {
    /// Gives the tasks their threads, and runs until all of them have ended.
    ///
    /// # Errors
    /// The job failed: the whole chain of reasons.
    pub(super) fn run(self) -> anyhow::Result<Outcome> {
        let Self { events, coordinator, threads, .. } = self;
        let mut tasks: Vec<JoinHandle<()>> = vec![];
        for (id, run) in threads {
            match spawn_task(id.clone(), run, events.clone()) {
                Ok(task) => tasks.push(task),
                Err(error) => {
                    // The coordinator, which listens as long as its sender is here, fails the job and ends the others.
                    let _ = events.send(Event::Failed(id, error));
                    break;
                }
            }
        }
        drop(events);
        let outcome = coordinator.run();
        for task in tasks {
            task.join().map_err(|_| anyhow!("a task could not be joined; this is a bug of Millstream"))?;
        }
        outcome
    }
}

/// When checkpoints are taken: so long after the last one began, or when so many records were read.
fn every(definition: &Definition) -> (Option<Duration>, Option<u64>) {
    match definition.checkpoint.every {
        Every::Time(time) => (Some(time), None),
        Every::Records(records) => (None, Some(records)),
    }
}

fn facts(definition: &Definition, blueprint: &Blueprint, restored: Restored) -> Manifest {
    Manifest {
        version: Manifest::VERSION,
        checkpoint: CheckpointId(0),
        job: definition.name.clone(),
        job_revision: definition.revision.clone(),
        max_parallelism: definition.max_parallelism,
        finished: false,
        components: blueprint.components.clone(),
        next_state: restored.next_state,
        savepoint: restored.savepoint(),
        states: restored.states,
        sources: BTreeMap::new(),
        tasks: vec![],
        in_flight: vec![],
        sinks: BTreeMap::new(),
        sink_counters: BTreeMap::new(),
    }
}

/// Gives a task its thread. A task that panics fails the job, not the process.
fn spawn_task(id: TaskId, run: Runnable, events: Sender<Event>) -> anyhow::Result<JoinHandle<()>> {
    let name = format!("{}-{}", id.node, id.task);
    let body = move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| crate::state::StateLost::catch(run)));
        let event = match ended {
            Ok(Ok(End::Told)) => Event::Ended(id),
            Ok(Ok(End::Orphaned)) => Event::Orphaned(id),
            Ok(Err(error)) => Event::Failed(id, error),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                let reason = anyhow!("{}", text.unwrap_or("without a message"));
                let what = format!("task {} of `{}` panicked; this is a bug of Millstream", id.task, id.node);
                Event::Failed(id, reason.context(what))
            }
        };
        // A coordinator that is gone has heard of another failure first.
        let _ = events.send(event);
    };
    env::spawn(&name, body).with_context(|| format!("no thread for task `{name}`"))
}

/// The sink of dead letters of a job that wants none: the first fails it.
struct Refuse;

impl SinkFactory for Refuse {
    fn open(&self, _input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(Self))
    }
}

impl Sink for Refuse {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        bail!(Permanent(format!(
            "a record cannot be processed, and the job is to fail then (`dead_letters: {{ fail: true }}`): at {}",
            dead_letter::first(batch)
        )))
    }

    fn stage(&mut self, _checkpoint: CheckpointId) -> anyhow::Result<Payload> {
        Ok(Payload::default())
    }

    fn apply(&mut self, _checkpoint: CheckpointId, _payload: &Payload) -> anyhow::Result<()> {
        Ok(())
    }

    fn applied(&mut self) -> anyhow::Result<Option<CheckpointId>> {
        Ok(None)
    }
}
