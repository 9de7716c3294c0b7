//! One checkpoint under way: who has yet to report, and what came together. Pure; the coordinator acts on it.

use super::{CheckpointId, Payload, SourceSnapshot, TaskSnapshot};
use std::collections::{BTreeMap, BTreeSet};

/// What a task says about the checkpoint under way.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// A source task has noted its positions and sent the barrier on.
    Source {
        /// Name of the source.
        source: String,
        /// Which of its tasks.
        task: usize,
        /// Its part.
        snapshot: SourceSnapshot,
    },
    /// An operator task's state is durable.
    Operator(TaskSnapshot),
    /// Everything a sink got before the barrier is staged or already out.
    Sink {
        /// Name of the sink.
        sink: String,
        /// What it must apply.
        payload: Payload,
    },
}

/// The parts of a complete checkpoint.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Ended {
    /// By source.
    pub sources: BTreeMap<String, SourceSnapshot>,
    /// In order of chain and task.
    pub tasks: Vec<TaskSnapshot>,
    /// By sink.
    pub sinks: BTreeMap<String, Payload>,
}

/// Who has yet to report.
#[derive(Debug)]
pub struct Progress {
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    missing: BTreeSet<(String, usize)>,
    ended: Ended,
}

impl Progress {
    /// `expected`: the name and index of every task of the job, sinks with index 0.
    pub fn new(checkpoint: CheckpointId, expected: impl IntoIterator<Item = (String, usize)>) -> Self {
        Self { checkpoint, missing: expected.into_iter().collect(), ended: Ended::default() }
    }

    /// Takes a report; the parts once nobody is missing. A task that reports twice is a bug of ours, and says so.
    pub fn report(&mut self, report: Report) -> Option<Ended> {
        let who = match &report {
            Report::Source { source, task, .. } => (source.clone(), *task),
            Report::Operator(snapshot) => (snapshot.chain.clone(), snapshot.task),
            Report::Sink { sink, .. } => (sink.clone(), 0),
        };
        assert!(
            self.missing.remove(&who),
            "task `{}` {} reports once for checkpoint {}",
            who.0,
            who.1,
            self.checkpoint
        );
        match report {
            Report::Source { source, snapshot, .. } => {
                let whole = self.ended.sources.entry(source).or_default();
                whole.partitions.extend(snapshot.partitions);
                for (name, count) in snapshot.counters {
                    *whole.counters.entry(name).or_default() += count;
                }
            }
            Report::Operator(snapshot) => self.ended.tasks.push(snapshot),
            Report::Sink { sink, payload } => {
                self.ended.sinks.insert(sink, payload);
            }
        }
        if !self.missing.is_empty() {
            return None;
        }
        self.ended.tasks.sort_by(|a, b| (&a.chain, a.task).cmp(&(&b.chain, b.task)));
        Some(std::mem::take(&mut self.ended))
    }

    /// What sinks have staged for a checkpoint that is given up: their rows belong to the next.
    pub fn take_sinks(&mut self) -> BTreeMap<String, Payload> {
        std::mem::take(&mut self.ended.sinks)
    }

    /// Who holds the checkpoint up.
    pub fn missing(&self) -> impl Iterator<Item = &(String, usize)> {
        self.missing.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_is_complete_when_the_last_task_reports() {
        let mut progress =
            Progress::new(CheckpointId(3), [("rides".into(), 0), ("rides".into(), 1), ("out".into(), 0)]);
        let source = |task, records| Report::Source {
            source: "rides".into(),
            task,
            snapshot: SourceSnapshot { counters: [("records_in".into(), records)].into(), ..SourceSnapshot::default() },
        };
        assert_eq!(progress.report(source(1, 2)), None);
        assert_eq!(progress.report(Report::Sink { sink: "out".into(), payload: Payload::default() }), None);
        assert_eq!(progress.missing().collect::<Vec<_>>(), [&("rides".to_string(), 0)]);
        let ended = progress.report(source(0, 5)).expect("nobody is missing");
        assert_eq!(ended.sources["rides"].counters["records_in"], 7);
    }

    #[test]
    #[should_panic(expected = "reports once")]
    fn task_that_reports_twice_is_a_bug() {
        let mut progress = Progress::new(CheckpointId(1), [("out".into(), 0), ("rides".into(), 0)]);
        let report = || Report::Sink { sink: "out".into(), payload: Payload::default() };
        progress.report(report());
        progress.report(report());
    }
}
