//! Runs a job: resumes it from its data directory, starts it again when it fails, at another parallelism when somebody asks,
//! and ends it. What one attempt does is in `attempt`.

use super::attempt::{Attempt, Begun, Site};
use super::blueprint::{Blueprint, ComponentLoader, blueprint};
use super::control::{Handle, Wish};
use super::definition::Definition;
use super::{savepoint, storage};
use crate::checkpoint::{Damaged, DecidedElsewhere, Location, Outcome};
use crate::engine::{Engine, EngineSettings};
use crate::env::{self, Env};
use anyhow::{Context, anyhow, bail};
use dataflow::checkpoint::CheckpointId;
use dataflow::checkpoint::savepoint::StateFit;
use dataflow::restart::{Permanent, Restarts};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

/// How a job is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Everything the job keeps lies in a folder of its name here.
    pub data_dir: PathBuf,
    /// Start over: earlier checkpoints are deleted.
    pub fresh: bool,
    /// The savepoint to start from, if the job has no checkpoint that came of it already.
    pub from: Option<String>,
    /// What a savepoint holds and the job does not is left out.
    pub allow_dropped: bool,
    /// Operators may be keyed by other fields than their state was.
    pub allow_changed_key: bool,
    /// Checkpoints are kept here instead of in the data directory.
    pub checkpoint_storage: Option<Location>,
    /// Where the last checkpoint is damaged, go on from the one before although exactly-once sinks get rows again.
    pub repeat_output: bool,
}

/// What a start led to.
pub enum Started {
    /// The job runs.
    Running(RunningJob),
    /// Its inputs were read to their end by an earlier run.
    AlreadyFinished(CheckpointId),
}

/// What a job that runs went on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// Nothing: it began.
    Nothing,
    /// Its own checkpoint.
    Checkpoint(CheckpointId),
    /// A savepoint, with what became of each state.
    Savepoint(Vec<StateFit>),
}

/// A job whose tasks run.
pub struct RunningJob {
    /// What it went on from at first.
    pub resumed: Resumed,
    /// What was damaged of checkpoints that could not be restored; none if nothing was.
    pub damaged: Option<String>,
    /// Where its dead letters go; none where the first fails the job.
    pub dead_letters: Option<PathBuf>,
    handle: Handle,
    supervisor: JoinHandle<anyhow::Result<Outcome>>,
    _lock: File,
}

impl RunningJob {
    /// What others may ask of it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether `wait` would return at once.
    pub fn has_ended(&self) -> bool {
        self.supervisor.is_finished()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The job failed: the whole chain of reasons. It goes on from its last checkpoint when run again.
    pub fn wait(self) -> anyhow::Result<Outcome> {
        let joined = self.supervisor.join();
        self.handle.job_ended();
        joined.map_err(|_| anyhow!("the coordinator panicked; this is a bug of Millstream"))?
    }
}

/// Starts a job, from its last checkpoint if it has one.
///
/// # Errors
/// It is refused, already runs, does not fit what it goes on from, or something cannot be opened. Nothing runs then.
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
    let storage = storage::checkpoints(&definition.name, options)?;
    // Before anything is deleted for it; and once: it may be gone when the job starts again after a failure.
    let from = match &options.from {
        Some(place) => Some(Arc::new(savepoint::open(storage::place(place, true)?, place)?)),
        None => None,
    };
    storage::clear_state(&home)?;
    let (definition, options) = (definition.clone(), options.clone());
    let site = Site { definition, options, from, home, storage, env: env.clone() };
    let (attempt, resumed, damaged) = match site.begin(&blueprint, 0)? {
        Begun::Finished(checkpoint) => return Ok(Started::AlreadyFinished(checkpoint)),
        Begun::Ready { attempt, resumed, damaged } => (attempt, resumed, damaged),
    };
    let handle = Handle::new(&site, attempt.events.clone(), attempt.status.clone());
    let dead_letters = site.dead_letters();
    let supervisor = Supervisor { site, blueprint, handle: handle.clone(), number: 0, _engine: engine };
    let supervisor =
        env::spawn("coordinator", move || supervisor.run(*attempt)).context("no thread for the coordinator")?;
    Ok(Started::Running(RunningJob { resumed, damaged, dead_letters, handle, supervisor, _lock: lock }))
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

struct Supervisor {
    site: Site,
    blueprint: Blueprint,
    handle: Handle,
    /// Attempts so far.
    number: u32,
    // Guests run on it.
    _engine: Engine,
}

impl Supervisor {
    fn run(mut self, first: Attempt) -> anyhow::Result<Outcome> {
        let mut restarts = Restarts::new(self.site.definition.restart);
        let mut attempt = first;
        loop {
            let status = attempt.status.clone();
            let decided = status.checkpoints().decided;
            let ended = attempt.run();
            let wish = self.handle.attempt_ended(&ended);
            attempt = match (ended, wish) {
                (Ok(Outcome::Stopped), Some(Wish::Rescale { parallelism, answer })) => {
                    self.rescale(parallelism, &answer, &mut restarts)?
                }
                (Ok(outcome), _) => return Ok(outcome),
                (Err(error), Some(Wish::Rescale { answer, .. })) => {
                    let reason = format!(
                        "the job goes on as it was from its last checkpoint: stopping it at a new one failed: {error:#}"
                    );
                    // Who asked may have gone away.
                    let _ = answer.send(Err(anyhow!(reason)));
                    self.restart(error, status.checkpoints().decided > decided, &mut restarts)?
                }
                (Err(error), _) => self.restart(error, status.checkpoints().decided > decided, &mut restarts)?,
            };
        }
    }

    /// Goes on from the checkpoint that it was just stopped with, in another number of tasks.
    fn rescale(
        &mut self,
        parallelism: usize,
        answer: &Sender<anyhow::Result<()>>,
        restarts: &mut Restarts,
    ) -> anyhow::Result<Attempt> {
        let before = self.site.definition.parallelism;
        let again = self.set_parallelism(parallelism).and_then(|()| self.again(false));
        let (told, attempt) = match again {
            Ok(attempt) => (Ok(()), Ok(attempt)),
            Err(error) => {
                let reason = format!("{error:#}");
                let back = self.set_parallelism(before).and_then(|()| self.again(false));
                let told =
                    anyhow!("the job cannot run with parallelism {parallelism}, it goes on with {before}: {reason}");
                (Err(told), back.or_else(|error| self.restart(error, false, restarts)))
            }
        };
        // Who asked may have gone away.
        let _ = answer.send(told);
        attempt
    }

    fn set_parallelism(&mut self, parallelism: usize) -> anyhow::Result<()> {
        self.blueprint.set_parallelism(&self.site.definition, parallelism)?;
        self.site.definition.parallelism = parallelism;
        Ok(())
    }

    /// Waits, and starts again from the last checkpoint, as often as the job's policy lets it.
    fn restart(
        &mut self,
        mut error: anyhow::Error,
        mut progressed: bool,
        restarts: &mut Restarts,
    ) -> anyhow::Result<Attempt> {
        loop {
            // None of these is another after a while.
            let permanent = error.is::<Permanent>() || error.is::<DecidedElsewhere>() || error.is::<Damaged>();
            if permanent || restarts.attempts() == 0 {
                return Err(error);
            }
            if self.handle.wait_for_stop(Duration::ZERO) {
                return Err(error.context(
                    "the job was told to stop and failed at its last checkpoint: it ends with the one before",
                ));
            }
            let Some(restart) = restarts.failed(progressed) else {
                let times = restarts.attempts();
                return Err(error.context(format!(
                    "the job was started again {times} times without coming to a checkpoint, and gives up (`restart:`)"
                )));
            };
            tracing::warn!(
                attempt = restart.attempt,
                of = restarts.attempts(),
                "the job failed and starts again from its last checkpoint in {:?}: {error:#}",
                restart.delay
            );
            if self.handle.wait_for_stop(restart.delay) {
                return Err(error.context("the job was stopped while it waited to start again after a failure"));
            }
            self.handle.starts_again();
            match self.again(true) {
                Ok(attempt) => return Ok(attempt),
                Err(again) => (error, progressed) = (again, false),
            }
        }
    }

    fn again(&mut self, failed: bool) -> anyhow::Result<Attempt> {
        self.number += 1;
        let attempt = match self.site.begin(&self.blueprint, self.number)? {
            Begun::Ready { attempt, .. } => *attempt,
            Begun::Finished(checkpoint) => bail!("checkpoint {checkpoint} had finished the job"),
        };
        attempt.status.follow(&self.handle.status(), failed);
        self.handle.attempt_began(attempt.events.clone(), attempt.status.clone(), self.site.definition.parallelism);
        Ok(attempt)
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
