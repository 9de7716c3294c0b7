//! Starts a job, resumes it from its data directory, and ends it. `build` and `wire` make the parts; here they get threads.

use super::blueprint::{Blueprint, ComponentLoader, blueprint};
use super::definition::{DeadLetters, Definition, Every};
use super::restore::Restored;
use super::wire::{Runnable, Wired, Wiring, wire};
use crate::checkpoint::filesystem::FilesystemStorage;
use crate::checkpoint::{CheckpointSettings, Checkpoints, Coordinator, Outcome};
use crate::engine::{Engine, EngineSettings};
use crate::env::{self, Env};
use crate::sink::{Sink, SinkFactory, SinkInput};
use crate::task::{End, Event, TaskId};
use crate::telemetry::Status;
use anyhow::{Context, anyhow, bail};
use dataflow::checkpoint::{CheckpointId, Manifest, Payload};
use dataflow::record::{Batch, Value};
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

/// How a job is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Everything the job keeps lies in a folder of its name here.
    pub data_dir: PathBuf,
    /// Start over: earlier checkpoints are deleted.
    pub fresh: bool,
}

/// What a start led to.
pub enum Started {
    /// The job runs.
    Running(RunningJob),
    /// Its inputs were read to their end by an earlier run.
    AlreadyFinished(CheckpointId),
}

/// A job whose tasks run.
pub struct RunningJob {
    /// Its counters.
    pub status: Arc<Status>,
    /// The checkpoint it went on from; none at a fresh start.
    pub resumed: Option<CheckpointId>,
    /// Where its dead letters go; none where the first fails the job.
    pub dead_letters: Option<PathBuf>,
    stop: Stopper,
    coordinator: JoinHandle<anyhow::Result<Outcome>>,
    tasks: Vec<JoinHandle<()>>,
    _lock: File,
}

/// Asks a running job to stop: a last checkpoint, then the end.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Asks; asking again changes nothing.
    pub fn stop(&self) {
        // A job that has ended needs no stopping.
        let _ = self.0.send(Event::Stop);
    }
}

impl RunningJob {
    /// A handle by which others may stop the job.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// Whether `wait` would return at once.
    pub fn has_ended(&self) -> bool {
        self.coordinator.is_finished()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The job failed: the whole chain of reasons. It goes on from its last checkpoint when run again.
    pub fn wait(self) -> anyhow::Result<Outcome> {
        let outcome =
            self.coordinator.join().map_err(|_| anyhow!("the coordinator panicked; this is a bug of Millstream"))?;
        for task in self.tasks {
            task.join().map_err(|_| anyhow!("a task could not be joined; this is a bug of Millstream"))?;
        }
        outcome
    }
}

/// Starts a job, from its last checkpoint if it has one.
///
/// # Errors
/// It is refused, already runs, does not fit its last checkpoint, or something cannot be opened. Nothing runs then.
pub fn start(
    definition: &Definition,
    options: &RunOptions,
    load: ComponentLoader<'_>,
    env: &Env,
) -> anyhow::Result<Started> {
    let home = options.data_dir.join(&definition.name);
    std::fs::create_dir_all(&home)
        .with_context(|| format!("the data directory `{}` cannot be made", home.display()))?;
    let lock = lock(&home, &definition.name)?;
    let engine =
        Engine::new(EngineSettings { cache: Some(options.data_dir.join("components")), ..EngineSettings::default() })?;
    let blueprint = blueprint(definition, &engine, load, &env.clock)?;
    let storage = Arc::new(FilesystemStorage::open(home.join("checkpoints"))?);
    let attempt = format!("{:x}-{:x}", env.clock.now_ms(), std::process::id());
    let checkpoints = Checkpoints::new(storage.clone(), attempt.clone());
    if options.fresh {
        checkpoints.clear().context("earlier checkpoints cannot be deleted")?;
    }
    let latest = checkpoints.latest().context("the last checkpoint cannot be read")?;
    if let Some(manifest) =
        latest.as_ref().filter(|manifest| manifest.finished && manifest.job_revision == definition.revision)
    {
        return Ok(Started::AlreadyFinished(manifest.checkpoint));
    }
    let resumed = latest.as_ref().map(|manifest| manifest.checkpoint);
    let restored = Restored::new(latest, &blueprint, definition.max_parallelism)?;
    checkpoints.sweep().context("what a crash left behind cannot be deleted")?;
    let (events, inbox) = mpsc::channel();
    let (dead_letters, dead_sink) = dead_letters(definition, &home);
    let (every, every_records) = match definition.checkpoint.every {
        Every::Time(time) => (Some(time), None),
        Every::Records(records) => (None, Some(records)),
    };
    let wired = wire(Wiring {
        job: &definition.name,
        blueprint: &blueprint,
        dead_letters: &*dead_sink,
        max_parallelism: definition.max_parallelism,
        every_records,
        storage,
        attempt,
        restored: &restored,
        events: events.clone(),
        env: env.clone(),
    })?;
    let Wired { tasks, threads, status, gate } = wired;
    let settings =
        CheckpointSettings { every, keep: definition.checkpoint.keep, timeout: definition.checkpoint.timeout };
    let facts = (facts(definition, &blueprint, restored), checkpoints.next_id()?);
    let coordinator =
        Coordinator::new(settings, checkpoints, facts, (tasks, gate), (inbox, status.clone()), env.clone());
    let tasks = threads.into_iter().map(|(id, run)| spawn_task(id, run, events.clone())).collect::<Result<_, _>>()?;
    let coordinator = env::spawn("coordinator", move || coordinator.run()).context("no thread for the coordinator")?;
    let stop = Stopper(events);
    Ok(Started::Running(RunningJob { status, resumed, dead_letters, stop, coordinator, tasks, _lock: lock }))
}

/// Runs a job to its end.
///
/// # Errors
/// As [`start`] and [`RunningJob::wait`].
pub fn run(
    definition: &Definition,
    options: &RunOptions,
    load: ComponentLoader<'_>,
    env: &Env,
) -> anyhow::Result<Outcome> {
    match start(definition, options, load, env)? {
        Started::Running(job) => job.wait(),
        Started::AlreadyFinished(_) => Ok(Outcome::Finished),
    }
}

/// Two runs of one job in one data directory would both decide checkpoints: the second is refused.
fn lock(home: &Path, job: &str) -> anyhow::Result<File> {
    let path = home.join("lock");
    let file = File::create(&path).with_context(|| format!("`{}` cannot be made", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "job `{job}` already runs with the data directory `{}`; stop it first, or give another `--data-dir`",
            home.parent().unwrap_or(home).display()
        ),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("`{}` cannot be locked", path.display())),
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
        states: restored.states,
        sources: BTreeMap::new(),
        tasks: vec![],
        sinks: BTreeMap::new(),
    }
}

/// Gives a task its thread. A task that panics fails the job, not the process.
fn spawn_task(id: TaskId, run: Runnable, events: Sender<Event>) -> anyhow::Result<JoinHandle<()>> {
    let name = format!("{}-{}", id.node, id.task);
    let body = move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
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

fn dead_letters(definition: &Definition, home: &Path) -> (Option<PathBuf>, Box<dyn SinkFactory>) {
    let folder = match &definition.dead_letters {
        DeadLetters::DataDirectory => home.join("dead-letters"),
        DeadLetters::Folder(folder) => folder.clone(),
        DeadLetters::Fail => return (None, Box::new(Refuse)),
    };
    (Some(folder.clone()), super::connectors::dead_letter_sink(folder))
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
        let said = |column: usize| match batch.columns[column].get(0) {
            Value::Text(text) => text.to_string(),
            Value::Int(int) => int.to_string(),
            _ => "unknown".to_string(),
        };
        bail!(
            "a record cannot be processed, and the job is to fail then (`dead_letters: {{ fail: true }}`): at `{}`, file {}, line {}: {}",
            said(0),
            said(1),
            said(2),
            said(5)
        )
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
