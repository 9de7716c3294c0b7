//! Takes checkpoints: tells the sources to send barriers, collects the parts, makes the manifest durable, decides, has the
//! sinks apply. Also ends the job: after the last checkpoint when all inputs are read or somebody asks, at once when a task
//! fails. One at a time; the only thing that may decide.

use super::schedule::{CheckpointSettings, Schedule};
use super::store::{Checkpoints, DecidedElsewhere};
use crate::env::Env;
use crate::task::{Command, Control, Event, Gate, Held, Request, Stop, TaskId};
use crate::telemetry::{CheckpointDone, Status};
use anyhow::anyhow;
use dataflow::checkpoint::{CheckpointId, Ended, Manifest, Progress, Report, Staged};
use dataflow::element::{Barrier, Cut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How a job came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All inputs were read to their end, and everything is visible.
    Finished,
    /// Somebody asked; it goes on from its last checkpoint when run again.
    Stopped,
}

/// The tasks of a job, by what they do.
#[derive(Default)]
pub struct Tasks {
    /// Source tasks.
    pub sources: Vec<(TaskId, Arc<Control>)>,
    /// Operator tasks.
    pub operators: Vec<(TaskId, Arc<Control>)>,
    /// Sink tasks.
    pub sinks: Vec<(TaskId, Arc<Control>)>,
}

/// Makes consistent cuts of one running job.
pub struct Coordinator {
    keep: usize,
    schedule: Schedule,
    checkpoints: Checkpoints,
    /// What every manifest of this run says alike.
    manifest: Manifest,
    tasks: Tasks,
    gate: Arc<Gate>,
    events: Receiver<Event>,
    env: Env,
    status: Arc<Status>,
    next: CheckpointId,
    phase: Phase,
    /// Output of abandoned checkpoints, which the next decided one covers.
    carried: BTreeMap<String, Vec<Staged>>,
    reading: BTreeSet<TaskId>,
    running: BTreeSet<TaskId>,
    is_due: bool,
    stop: Option<Stop>,
    requests: Requests,
}

/// Who waits for a checkpoint.
#[derive(Default)]
struct Requests {
    /// Hear of the next one to begin.
    waiting: Vec<Sender<anyhow::Result<Held>>>,
    /// Hear of the one under way.
    attached: Vec<Sender<anyhow::Result<Held>>>,
    /// What they hear, once it is applied.
    decided: Option<Arc<Manifest>>,
}

impl Requests {
    fn answer(&mut self, answer: impl Fn() -> anyhow::Result<Held>) {
        for asked in self.attached.drain(..) {
            // One who has gone away does not want it any more.
            let _ = asked.send(answer());
        }
    }
}

enum Phase {
    Idle,
    UnderWay { progress: Progress, last: bool },
    Applying { done: CheckpointDone, missing: BTreeSet<(TaskId, CheckpointId)>, last: bool },
    Ending(Outcome),
}

impl Coordinator {
    /// For a job whose tasks are about to start. `manifest` has the job's facts; `next` is free.
    pub fn new(
        settings: CheckpointSettings,
        checkpoints: Checkpoints,
        (manifest, next): (Manifest, CheckpointId),
        (tasks, gate): (Tasks, Arc<Gate>),
        (events, status): (Receiver<Event>, Arc<Status>),
        env: Env,
    ) -> Self {
        let ids = |tasks: &[(TaskId, Arc<Control>)]| tasks.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
        let reading: BTreeSet<TaskId> = ids(&tasks.sources).into_iter().collect();
        let mut running = reading.clone();
        running.extend(ids(&tasks.operators));
        running.extend(ids(&tasks.sinks));
        let schedule = Schedule::new(settings, env.clock.monotonic());
        let (phase, carried) = (Phase::Idle, BTreeMap::new());
        let (is_due, stop, requests) = (false, None, Requests::default());
        Self {
            keep: settings.keep,
            schedule,
            checkpoints,
            manifest,
            tasks,
            gate,
            events,
            env,
            status,
            next,
            phase,
            carried,
            reading,
            running,
            is_due,
            stop,
            requests,
        }
    }

    /// Runs until the job has ended.
    ///
    /// # Errors
    /// A task failed, or a checkpoint could not be decided: the job's tasks have been told to stop.
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        let ended = self.drive();
        if ended.is_err() {
            self.tell_all(&Command::Abort);
        }
        ended
    }

    fn drive(&mut self) -> anyhow::Result<Outcome> {
        loop {
            if let Phase::Ending(outcome) = self.phase
                && self.running.is_empty()
            {
                return Ok(outcome);
            }
            self.begin_if_due();
            let event = match self.until_next() {
                Some(limit) => self.events.recv_timeout(limit),
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(event) => self.take(event)?,
                Err(RecvTimeoutError::Timeout) => self.time_passed()?,
                Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("all tasks of the job are gone")),
            }
        }
    }

    fn take(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Report(checkpoint, report) => self.report(checkpoint, report)?,
            Event::SnapshotTaken(checkpoint, task) => {
                if let Phase::UnderWay { progress, .. } = &mut self.phase
                    && progress.checkpoint == checkpoint
                {
                    progress.snapshot_taken(task.node, task.task);
                }
            }
            Event::SnapshotLost(checkpoint, task, error) => {
                let reason = error.context(format!("task {} of `{}` cannot store its state", task.task, task.node));
                self.abandon(checkpoint, reason)?;
            }
            Event::SourceFinished(task) => {
                self.reading.remove(&task);
            }
            Event::CountReached => self.is_due = true,
            Event::Applied(task, checkpoint) => self.applied(&task, checkpoint)?,
            // Why is told by the task that is gone.
            Event::Orphaned(task) => {
                self.running.remove(&task);
            }
            Event::Ended(task) => {
                self.running.remove(&task);
                if !matches!(
                    self.phase,
                    Phase::Ending(_) | Phase::UnderWay { last: true, .. } | Phase::Applying { last: true, .. }
                ) {
                    return Err(anyhow!("task {} of `{}` ended before its job", task.task, task.node));
                }
            }
            Event::Failed(_, error) => return Err(error),
            Event::Request(Request::Stop(stop)) => self.stop = self.stop.or(Some(stop)),
            Event::Request(Request::Checkpoint { stop, answer }) => {
                self.stop = self.stop.or(stop);
                self.requests.waiting.push(answer);
            }
        }
        Ok(())
    }

    fn begin_if_due(&mut self) {
        if !matches!(self.phase, Phase::Idle) {
            return;
        }
        let last = self.stop.is_some() || self.reading.is_empty();
        let late = self.schedule.next().is_some_and(|next| self.env.clock.monotonic() >= next);
        if last || self.is_due || late || !self.requests.waiting.is_empty() {
            self.begin(last);
        }
    }

    fn begin(&mut self, last: bool) {
        let checkpoint = self.next;
        self.next = CheckpointId(checkpoint.0 + 1);
        self.schedule.begin(self.env.clock.monotonic());
        self.is_due = false;
        // What is asked for must be whole in itself: a savepoint has no rows between tasks.
        let cut = self.schedule.cut(last || !self.requests.waiting.is_empty());
        let tasks = [&self.tasks.sources, &self.tasks.operators, &self.tasks.sinks];
        let named = |(id, _): &(TaskId, Arc<Control>)| (id.node.clone(), id.task);
        let expected = tasks.into_iter().flatten().map(named);
        let copying: &[_] = if cut == Cut::Overtaking { &tasks[1..] } else { &[] };
        let inputs = copying.iter().copied().flatten().map(named);
        let progress = Progress::new(checkpoint, self.schedule.began(), expected, inputs);
        self.phase = Phase::UnderWay { progress, last };
        self.requests.attached.append(&mut self.requests.waiting);
        for (_, control) in &self.tasks.sources {
            if self.stop == Some(Stop::Drain) {
                control.send(Command::Drain);
            }
            control.send(Command::Barrier { barrier: Barrier { checkpoint, cut }, then_end: last });
        }
        self.gate.open();
    }

    fn report(&mut self, checkpoint: CheckpointId, report: Report) -> anyhow::Result<()> {
        let Phase::UnderWay { progress, last } = &mut self.phase else {
            self.carry(checkpoint, report);
            return Ok(());
        };
        if progress.checkpoint != checkpoint {
            self.carry(checkpoint, report);
            return Ok(());
        }
        let last = *last;
        match progress.report(report) {
            Some(ended) => self.complete(checkpoint, ended, last),
            None => Ok(()),
        }
    }

    /// Parts of a checkpoint that was abandoned meanwhile: a sink's rows belong to the next.
    fn carry(&mut self, checkpoint: CheckpointId, report: Report) {
        match report {
            Report::Sink { sink, payload, .. } => {
                self.carried.entry(sink).or_default().push(Staged { checkpoint, payload });
            }
            // These rows are in their reader's next snapshot, or are copied again.
            Report::InFlight { file, .. } => self.checkpoints.discard(file),
            Report::Source { .. } | Report::Operator(..) => {}
        }
    }

    fn complete(&mut self, checkpoint: CheckpointId, ended: Ended, last: bool) -> anyhow::Result<()> {
        self.env.fail_points.passed(|| "checkpoint/complete".into(), 1);
        let mut sinks = std::mem::take(&mut self.carried);
        for (sink, payload) in ended.sinks {
            sinks.entry(sink).or_default().push(Staged { checkpoint, payload });
        }
        let finished = last && (self.reading.is_empty() || self.stop == Some(Stop::Drain));
        let manifest = Manifest {
            checkpoint,
            finished,
            sources: ended.sources,
            tasks: ended.tasks,
            in_flight: ended.in_flight,
            sinks,
            sink_counters: ended.sink_counters,
            ..self.manifest.clone()
        };
        let written = match self.checkpoints.write(&manifest) {
            Ok(written) => written,
            Err(error) => {
                self.carried = manifest.sinks;
                self.checkpoints.discard(manifest.in_flight.into_iter().map(|in_flight| in_flight.file));
                let reason = error.context("the manifest cannot be stored");
                return self.abandon_with(checkpoint, reason, last);
            }
        };
        self.env.fail_points.passed(|| "checkpoint/manifest".into(), 1);
        match self.checkpoints.decide(checkpoint, written) {
            Ok(()) => {}
            Err(error) if error.is::<DecidedElsewhere>() => return Err(error),
            // Whether it is decided is not known, and need not be: until the next one is, recovery takes whichever of the two
            // is there, and the next one covers what this one staged. No sink shows any of it before.
            Err(error) => {
                self.carried = manifest.sinks;
                return self.abandon_with(checkpoint, error.context("it cannot be decided"), last);
            }
        }
        self.env.fail_points.passed(|| "checkpoint/decided".into(), 1);
        self.requests.decided = (!self.requests.attached.is_empty()).then(|| Arc::new(manifest.clone()));
        let mut missing = BTreeSet::new();
        for (id, control) in &self.tasks.sinks {
            for staged in manifest.sinks.get(&id.node).into_iter().flatten() {
                missing.insert((id.clone(), staged.checkpoint));
                control.send(Command::Apply { checkpoint: staged.checkpoint, payload: staged.payload.clone() });
            }
        }
        let bytes = manifest.in_flight.iter().map(|in_flight| in_flight.file.length).sum();
        let done = CheckpointDone { checkpoint, longest: ended.longest, in_flight_bytes: bytes, took: Duration::ZERO };
        self.phase = Phase::Applying { done, missing, last };
        self.settle();
        Ok(())
    }

    fn applied(&mut self, task: &TaskId, checkpoint: CheckpointId) -> anyhow::Result<()> {
        let Phase::Applying { missing, .. } = &mut self.phase else {
            return Err(anyhow!("sink `{}` applied checkpoint {checkpoint} unasked", task.node));
        };
        missing.remove(&(task.clone(), checkpoint));
        self.settle();
        Ok(())
    }

    /// Goes on once every sink has applied.
    fn settle(&mut self) {
        let Phase::Applying { done, missing, last } = &self.phase else { return };
        if !missing.is_empty() {
            return;
        }
        let (now, last) = (self.env.clock.monotonic(), *last);
        let done = CheckpointDone { took: now.saturating_sub(self.schedule.began()), ..*done };
        let CheckpointDone { checkpoint, took, longest, in_flight_bytes } = done;
        tracing::info!(%checkpoint, ?took, ?longest, in_flight_bytes, "checkpoint decided and applied");
        self.status.checkpoint_decided(done, self.env.clock.now_ms());
        self.schedule.complete(now);
        if let Some(manifest) = self.requests.decided.take() {
            let checkpoints = &self.checkpoints;
            self.requests.answer(|| Ok(Held { manifest: manifest.clone(), hold: checkpoints.hold(checkpoint) }));
        }
        if let Err(error) = self.checkpoints.retain(self.keep) {
            tracing::warn!("old checkpoints cannot be deleted: {error:#}");
        }
        self.env.fail_points.passed(|| "checkpoint/retained".into(), 1);
        self.phase = Phase::Idle;
        if last {
            let drained = self.stop == Some(Stop::Drain);
            let outcome = if self.reading.is_empty() || drained { Outcome::Finished } else { Outcome::Stopped };
            self.phase = Phase::Ending(outcome);
            self.tasks.sinks.iter().for_each(|(_, control)| control.send(Command::Finish));
        }
    }

    fn time_passed(&mut self) -> anyhow::Result<()> {
        let Phase::UnderWay { progress, .. } = &self.phase else { return Ok(()) };
        let (now, deadline) = (self.env.clock.monotonic(), self.schedule.deadline());
        if now < deadline {
            return Ok(());
        }
        let missing: Vec<String> = progress.missing().map(|missing| missing.to_string()).collect();
        let checkpoint = progress.checkpoint;
        self.abandon(
            checkpoint,
            anyhow!("it took longer than {:?}, held up by {}", deadline - self.schedule.began(), missing.join(", ")),
        )
    }

    fn abandon(&mut self, checkpoint: CheckpointId, reason: anyhow::Error) -> anyhow::Result<()> {
        match &mut self.phase {
            Phase::UnderWay { progress, last } if progress.checkpoint == checkpoint => {
                let last = *last;
                self.checkpoints.discard(progress.take_in_flight().into_iter().map(|in_flight| in_flight.file));
                for (sink, payload) in progress.take_sinks() {
                    self.carried.entry(sink).or_default().push(Staged { checkpoint, payload });
                }
                self.abandon_with(checkpoint, reason, last)
            }
            _ => Ok(()),
        }
    }

    fn abandon_with(&mut self, checkpoint: CheckpointId, reason: anyhow::Error, last: bool) -> anyhow::Result<()> {
        self.requests.answer(|| Err(anyhow!("checkpoint {checkpoint} was given up: {reason:#}")));
        if last {
            return Err(reason.context(format!("the last checkpoint, {checkpoint}, cannot be completed")));
        }
        self.status.checkpoint_abandoned(format!("{reason:#}"));
        if let Err(failures) = self.schedule.abandon(self.env.clock.monotonic()) {
            let limit = "the job is to fail then (`checkpoint.tolerated_failures`)";
            return Err(
                reason.context(format!("checkpoint {checkpoint} is the {failures}. abandoned in a row, and {limit}"))
            );
        }
        tracing::warn!(%checkpoint, "checkpoint abandoned, the job goes on: {reason:#}");
        self.phase = Phase::Idle;
        Ok(())
    }

    fn until_next(&self) -> Option<Duration> {
        let now = self.env.clock.monotonic();
        match &self.phase {
            Phase::Idle => self.schedule.next().map(|next| next.saturating_sub(now)),
            Phase::UnderWay { .. } => Some(self.schedule.deadline().saturating_sub(now)),
            Phase::Applying { .. } | Phase::Ending(_) => None,
        }
    }

    fn tell_all(&self, command: &Command) {
        let tasks = [&self.tasks.sources, &self.tasks.operators, &self.tasks.sinks];
        tasks.into_iter().flatten().for_each(|(_, control)| control.send(command.clone()));
    }
}
