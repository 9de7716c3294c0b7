//! What a running job tells of itself: counters per node, and its checkpoints. Read by the progress display and the summary.

use super::{Counter, Gauge, GuestMetrics, MetricValue, NodeMetrics};
use dataflow::checkpoint::{CheckpointId, Longest};
use dataflow::graph::Role;
use dataflow::time::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A running job as seen from outside.
#[derive(Debug)]
pub struct Status {
    /// Sources, operators and sinks in the job file's order; dead letters last.
    pub nodes: Vec<NodeStatus>,
    checkpoints: Mutex<CheckpointStatus>,
}

/// One node.
#[derive(Debug)]
pub struct NodeStatus {
    /// Its name in the job.
    pub name: String,
    /// What part it has.
    pub role: Role,
    /// Counters of each of its tasks.
    pub tasks: Vec<Arc<NodeMetrics>>,
    /// What its guests report.
    pub reports: Vec<Arc<GuestMetrics>>,
}

/// How checkpoints go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// Decided by this run.
    pub decided: u64,
    /// Given up by this run.
    pub abandoned: u64,
    /// The last decided one.
    pub last: Option<CheckpointDone>,
    /// When that was, ms since 1970 UTC.
    pub last_at_ms: Timestamp,
    /// Why the last abandoned one was.
    pub last_failure: Option<String>,
    /// How often the job has started again after a failure.
    pub restarts: u64,
}

/// How large the state of a job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateSize {
    /// Rows, about.
    pub rows: u64,
    /// Their bytes, about.
    pub bytes: u64,
    /// Bytes freed because their time to live had passed, since the tasks were started.
    pub expired_bytes: u64,
}

/// A checkpoint that was decided and applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointDone {
    /// Which.
    pub checkpoint: CheckpointId,
    /// From the first barrier until every sink had applied it.
    pub took: Duration,
    /// The longest that any task took for each step.
    pub longest: Longest,
    /// Bytes stored of what lay between tasks.
    pub in_flight_bytes: u64,
}

impl Status {
    /// For these nodes.
    pub fn new(nodes: Vec<NodeStatus>) -> Self {
        Self { nodes, checkpoints: Mutex::default() }
    }

    /// How checkpoints go.
    pub fn checkpoints(&self) -> CheckpointStatus {
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A checkpoint was decided and applied.
    pub fn checkpoint_decided(&self, done: CheckpointDone, now_ms: Timestamp) {
        let mut status = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        status.decided += 1;
        status.last = Some(done);
        status.last_at_ms = now_ms;
    }

    /// A checkpoint was given up.
    pub fn checkpoint_abandoned(&self, reason: String) {
        let mut status = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        status.abandoned += 1;
        status.last_failure = Some(reason);
    }

    /// Counts on from what an earlier attempt of the same run did; `failed`: it failed.
    pub fn follow(&self, earlier: &Self, failed: bool) {
        let earlier = earlier.checkpoints();
        let mut status = self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        *status = CheckpointStatus { restarts: earlier.restarts + u64::from(failed), ..earlier };
    }

    /// The state of all tasks together, about, as of the last checkpoint.
    pub fn state(&self) -> StateSize {
        let tasks = || self.nodes.iter().flat_map(|node| &node.tasks);
        let sum = |gauge: fn(&NodeMetrics) -> &Gauge| tasks().map(|task| gauge(task).get()).sum();
        StateSize {
            rows: sum(|task| &task.state_rows),
            bytes: sum(|task| &task.state_bytes),
            expired_bytes: sum(|task| &task.expired_bytes),
        }
    }

    /// Records put aside at a node: by its tasks, or by those that sent them to it.
    pub fn dead_letters(&self, node: &NodeStatus) -> u64 {
        let on_the_way =
            self.nodes.iter().flat_map(|sender| &sender.tasks).map(|task| task.dead_letters_for(&node.name));
        node.sum(|task| &task.dead_letters) + on_the_way.sum::<u64>()
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&NodeStatus> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

impl NodeStatus {
    /// A counter, summed over the node's tasks.
    pub fn sum(&self, counter: impl Fn(&NodeMetrics) -> &Counter) -> u64 {
        self.tasks.iter().map(|task| counter(task).get()).sum()
    }

    /// What its guests report, by name.
    pub fn reported(&self) -> Vec<(String, MetricValue)> {
        self.reports.iter().flat_map(|report| report.read()).collect()
    }

    /// How its tasks' time was spent: the parts busy, blocked by a full output, and idle.
    pub fn time_spent(&self) -> [f64; 3] {
        let spent = [self.sum(|task| &task.busy_ns), self.sum(|task| &task.blocked_ns), self.sum(|task| &task.idle_ns)];
        let all = spent.iter().sum::<u64>().max(1) as f64;
        spent.map(|part| part as f64 / all)
    }

    /// The watermark that all its tasks have reached.
    pub fn watermark(&self) -> Timestamp {
        self.tasks.iter().map(|task| task.watermark()).min().unwrap_or(dataflow::time::START)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letter::DeadLetter;

    #[test]
    fn records_put_aside_on_their_way_are_kept_by_the_sender_and_counted_at_the_reader() {
        let letter = |node: &str| DeadLetter { node: node.into(), ..DeadLetter::default() };
        let before = NodeMetrics::default();
        before.put_aside("rides", &[letter("rides"), letter("board"), letter("board")]);
        // A checkpoint keeps them, and another run goes on from there.
        let rides = NodeMetrics::default();
        before.durable().iter().for_each(|(name, count)| rides.restore(name, *count));
        rides.put_aside("rides", &[letter("board")]);
        let node = |name: &str, role, metrics| {
            let tasks = vec![Arc::new(metrics)];
            NodeStatus { name: name.into(), role, tasks, reports: vec![] }
        };
        let status =
            Status::new(vec![node("rides", Role::Source, rides), node("board", Role::Sink, NodeMetrics::default())]);
        assert_eq!(status.nodes.iter().map(|node| status.dead_letters(node)).collect::<Vec<_>>(), [1, 3]);
    }
}
