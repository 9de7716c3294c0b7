//! The coordinator between one source and one sink that the test plays.

use super::CheckpointStorage;
use super::coordinator::{Coordinator, Outcome, Tasks};
use super::memory::MemoryStorage;
use super::schedule::CheckpointSettings;
use super::store::Checkpoints;
use crate::env::{self, Clock, Env, ManualClock, SystemClock};
use crate::task::{Command, Control, Event, Gate, Held, Request, Stop, TaskId};
use crate::telemetry::Status;
use anyhow::anyhow;
use dataflow::checkpoint::{CheckpointId, CheckpointMode, Manifest, Moments, Payload, Report, SourceSnapshot};
use dataflow::element::Cut;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

struct Job {
    source: Arc<Control>,
    sink: Arc<Control>,
    events: Sender<Event>,
    storage: Arc<MemoryStorage>,
    status: Arc<Status>,
    gate: Arc<Gate>,
    run: JoinHandle<anyhow::Result<Outcome>>,
}

fn id(node: &str) -> TaskId {
    TaskId { node: node.into(), task: 0 }
}

fn job() -> Job {
    job_with(vec![], Arc::new(SystemClock::default()))
}

fn job_with(operators: Vec<(TaskId, Arc<Control>)>, clock: Arc<dyn Clock>) -> Job {
    let (source, sink) = (Arc::new(Control::default()), Arc::new(Control::default()));
    let (events, inbox) = channel();
    let (storage, status, gate) =
        (Arc::new(MemoryStorage::default()), Arc::new(Status::new(vec![])), Arc::new(Gate::new(Some(4))));
    let settings = CheckpointSettings {
        every: None,
        keep: 1,
        timeout: Duration::from_secs(600),
        min_pause: Duration::ZERO,
        tolerated_failures: Some(1),
        mode: CheckpointMode::AtLeastOnce,
    };
    let manifest = Manifest {
        version: Manifest::VERSION,
        checkpoint: CheckpointId(0),
        job: "job".into(),
        job_revision: String::new(),
        max_parallelism: 128,
        finished: false,
        components: BTreeMap::new(),
        states: vec![],
        next_state: 0,
        savepoint: None,
        sources: BTreeMap::new(),
        tasks: vec![],
        in_flight: vec![],
        sinks: BTreeMap::new(),
        sink_counters: BTreeMap::new(),
    };
    let tasks = Tasks { sources: vec![(id("in"), source.clone())], operators, sinks: vec![(id("out"), sink.clone())] };
    let env = Env {
        clock,
        fail_points: Arc::default(),
        batch_records: 1,
        pace: None,
        state_backend: None,
        checkpoint_mode: None,
    };
    let coordinator = Coordinator::new(
        settings,
        Checkpoints::new(storage.clone(), "a".into()),
        (manifest, CheckpointId(1)),
        (tasks, gate.clone()),
        (inbox, status.clone()),
        env,
    );
    let run = env::spawn("coordinator", move || coordinator.run()).unwrap();
    Job { source, sink, events, storage, status, gate, run }
}

fn next(control: &Control) -> Command {
    loop {
        if let Some(command) = control.receive() {
            return command;
        }
        control.wait.wait(None);
    }
}

impl Job {
    fn send(&self, event: Event) {
        self.events.send(event).unwrap();
    }

    /// Waits for the barrier; its checkpoint and whether it is the last.
    fn barrier(&self) -> (CheckpointId, bool) {
        match next(&self.source) {
            Command::Barrier { barrier, then_end } => {
                assert_eq!(barrier.cut, Cut::Settled, "checkpoints by records are exact, whatever the mode");
                (barrier.checkpoint, then_end)
            }
            other => panic!("a source is told of barriers, not {other:?}"),
        }
    }

    fn report(&self, checkpoint: CheckpointId) {
        let source = Report::Source { source: "in".into(), task: 0, snapshot: SourceSnapshot::default() };
        self.send(Event::Report(checkpoint, source));
        let payload = Payload(checkpoint.0.into());
        self.send(Event::Report(
            checkpoint,
            Report::Sink { sink: "out".into(), payload, counters: BTreeMap::new(), moments: Moments::default() },
        ));
    }

    fn applied(&self) -> CheckpointId {
        match next(&self.sink) {
            Command::Apply { checkpoint, .. } => {
                self.send(Event::Applied(id("out"), checkpoint));
                checkpoint
            }
            other => panic!("a sink is told to apply, not {other:?}"),
        }
    }

    fn end(self) -> anyhow::Result<Outcome> {
        // A coordinator that has failed listens no more.
        for node in ["in", "out"] {
            let _ = self.events.send(Event::Ended(id(node)));
        }
        self.run.join().unwrap()
    }

    fn latest(&self) -> Manifest {
        Checkpoints::new(self.storage.clone(), "b".into()).latest().unwrap().expect("a checkpoint is decided")
    }
}

#[test]
fn checkpoint_is_decided_once_all_have_reported_and_then_applied() {
    let job = job();
    job.send(Event::CountReached);
    assert_eq!(job.barrier(), (CheckpointId(1), false));
    job.report(CheckpointId(1));
    assert_eq!(job.applied(), CheckpointId(1));
    assert_eq!(job.latest().checkpoint, CheckpointId(1));
    job.send(Event::SourceFinished(id("in")));
    assert_eq!(job.barrier(), (CheckpointId(2), true));
    job.report(CheckpointId(2));
    assert_eq!(job.applied(), CheckpointId(2));
    assert!(matches!(next(&job.sink), Command::Finish));
    let last = job.latest();
    assert!(last.finished);
    assert_eq!(job.status.checkpoints().decided, 2);
    assert_eq!(job.end().unwrap(), Outcome::Finished);
}

#[test]
fn output_of_an_abandoned_checkpoint_is_applied_with_the_next() {
    let job = job();
    job.send(Event::CountReached);
    job.barrier();
    job.storage.fail_next();
    job.report(CheckpointId(1));
    // The checkpoint costs itself, not the job.
    job.send(Event::CountReached);
    assert_eq!(job.barrier().0, CheckpointId(2));
    assert_eq!(job.status.checkpoints().abandoned, 1);
    job.report(CheckpointId(2));
    assert_eq!((job.applied(), job.applied()), (CheckpointId(1), CheckpointId(2)));
    let staged: Vec<u64> = job.latest().sinks["out"].iter().map(|staged| staged.checkpoint.0).collect();
    assert_eq!(staged, [1, 2]);
    job.send(Event::Request(Request::Stop(Stop::Suspend)));
    job.barrier();
    job.report(CheckpointId(3));
    job.applied();
    assert_eq!(job.end().unwrap(), Outcome::Stopped);
}

#[test]
fn state_that_cannot_be_stored_costs_the_checkpoint_and_not_the_job() {
    let job = job();
    job.send(Event::CountReached);
    job.barrier();
    job.send(Event::SnapshotLost(CheckpointId(1), id("in"), anyhow!("disk full")));
    job.send(Event::CountReached);
    assert_eq!(job.barrier().0, CheckpointId(2));
    let failure = job.status.checkpoints().last_failure.expect("it is told");
    assert!(failure.contains("disk full") && failure.contains("`in`"), "{failure}");
    job.send(Event::Failed(id("in"), anyhow!("no more")));
    assert!(matches!(next(&job.source), Command::Abort));
    assert!(job.end().is_err());
}

#[test]
fn last_checkpoint_that_cannot_be_stored_fails_the_job() {
    let job = job();
    job.send(Event::Request(Request::Stop(Stop::Suspend)));
    job.barrier();
    job.storage.fail_next();
    job.report(CheckpointId(1));
    assert!(matches!(next(&job.sink), Command::Abort));
    let error = format!("{:#}", job.end().unwrap_err());
    assert!(error.contains("the last checkpoint, 1, cannot be completed"), "{error}");
}

#[test]
fn gate_opens_again_once_the_barrier_is_sent() {
    let job = job();
    assert_eq!(job.gate.reserve(9), 4);
    job.send(Event::CountReached);
    job.barrier();
    job.report(CheckpointId(1));
    job.applied();
    assert_eq!(job.gate.reserve(9), 4);
    job.send(Event::Failed(id("in"), anyhow!("enough")));
    assert!(job.end().is_err());
}

/// Asks for a checkpoint to hold.
fn ask(job: &Job, stop: Option<Stop>) -> std::sync::mpsc::Receiver<anyhow::Result<Held>> {
    let (answer, heard) = channel();
    job.send(Event::Request(Request::Checkpoint { stop, answer }));
    heard
}

#[test]
fn requested_checkpoint_is_answered_once_applied_and_kept_as_long_as_it_is_held() {
    let job = job();
    let heard = ask(&job, None);
    let (checkpoint, last) = job.barrier();
    assert!(!last);
    job.report(checkpoint);
    assert!(heard.try_recv().is_err(), "its sinks have not applied it yet");
    job.applied();
    let held = heard.recv().unwrap().unwrap();
    assert_eq!(held.manifest.checkpoint, checkpoint);
    let decided = |job: &Job| job.storage.list("decisions/").unwrap().len();
    for _ in 0..3 {
        job.send(Event::CountReached);
        job.report(job.barrier().0);
        job.applied();
    }
    job.send(Event::CountReached);
    job.barrier();
    assert_eq!(decided(&job), 2, "the held one and those that are kept anyway");
    drop(held);
    job.report(CheckpointId(5));
    job.applied();
    job.send(Event::CountReached);
    job.barrier();
    assert_eq!(decided(&job), 1);
}

#[test]
fn requested_checkpoint_that_is_given_up_says_why() {
    let job = job();
    let heard = ask(&job, None);
    job.barrier();
    job.send(Event::SnapshotLost(CheckpointId(1), id("in"), anyhow!("disk full")));
    let reason = format!("{:#}", heard.recv().unwrap().unwrap_err());
    assert!(reason.contains("checkpoint 1 was given up") && reason.contains("disk full"), "{reason}");
}

#[test]
fn job_that_is_drained_fires_everything_and_has_finished_for_good() {
    let job = job();
    let heard = ask(&job, Some(Stop::Drain));
    assert!(matches!(next(&job.source), Command::Drain));
    assert_eq!(job.barrier(), (CheckpointId(1), true));
    job.report(CheckpointId(1));
    job.applied();
    assert!(heard.recv().unwrap().unwrap().manifest.finished);
    assert_eq!(job.end().unwrap(), Outcome::Finished);
}

#[test]
fn more_failures_in_a_row_than_are_tolerated_fail_the_job() {
    let job = job();
    for checkpoint in [1, 2] {
        job.send(Event::CountReached);
        job.barrier();
        job.send(Event::SnapshotLost(CheckpointId(checkpoint), id("in"), anyhow!("disk full")));
    }
    assert!(matches!(next(&job.source), Command::Abort));
    let error = format!("{:#}", job.end().unwrap_err());
    assert!(error.contains("checkpoint 2 is the 2. abandoned in a row") && error.contains("disk full"), "{error}");
}

#[test]
fn checkpoint_that_takes_too_long_says_who_waits_for_what() {
    let clock = Arc::new(ManualClock::default());
    let job = job_with(vec![(id("count"), Arc::default()), (id("dedup"), Arc::default())], clock.clone());
    job.send(Event::CountReached);
    let (checkpoint, _) = job.barrier();
    job.report(checkpoint);
    job.send(Event::SnapshotTaken(checkpoint, id("dedup")));
    clock.advance(600_000);
    job.send(Event::CountReached);
    job.barrier();
    let why = job.status.checkpoints().last_failure.expect("it was given up");
    assert_eq!(
        why,
        "it took longer than 600s, held up by `count` task 0, `dedup` task 0 (whose state is still being stored)"
    );
}
