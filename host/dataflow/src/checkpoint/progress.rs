//! One checkpoint under way: who has yet to report, and what came together. Pure; the coordinator acts on it.

use super::{CheckpointId, FileEntry, InFlight, Payload, SourceSnapshot, TaskSnapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

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
    Operator(TaskSnapshot, Moments),
    /// What lay in a task's inputs is durable.
    InFlight {
        /// The task's chain by its first operator, or its sink.
        reader: String,
        /// Which of its tasks.
        task: usize,
        /// None where nothing lay there.
        file: Option<FileEntry>,
        /// How far the task was when.
        moments: Moments,
    },
    /// Everything a sink got before the barrier is staged or already out.
    Sink {
        /// Name of the sink.
        sink: String,
        /// What it must apply.
        payload: Payload,
        /// Counters that go on after a restart, by name.
        counters: BTreeMap<String, u64>,
        /// How far the task was when.
        moments: Moments,
    },
}

/// When a task was how far with its part of a checkpoint: times of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    /// The barrier came on the first of its inputs.
    pub first_barrier: Duration,
    /// It came on the last one.
    pub last_barrier: Duration,
    /// Its part was durable.
    pub durable: Duration,
}

/// The longest that any task took for each step of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Longest {
    /// Until the first barrier came: how long it was behind data.
    pub travel: Duration,
    /// From the first barrier to the last.
    pub alignment: Duration,
    /// From the last barrier until the task's part was durable.
    pub snapshot: Duration,
}

impl Longest {
    fn note(&mut self, began: Duration, moments: Moments) {
        let Moments { first_barrier, last_barrier, durable } = moments;
        self.travel = self.travel.max(first_barrier.saturating_sub(began));
        self.alignment = self.alignment.max(last_barrier.saturating_sub(first_barrier));
        self.snapshot = self.snapshot.max(durable.saturating_sub(last_barrier));
    }
}

/// The parts of a complete checkpoint.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Ended {
    /// By source.
    pub sources: BTreeMap<String, SourceSnapshot>,
    /// In order of chain and task.
    pub tasks: Vec<TaskSnapshot>,
    /// In order of reader and task.
    pub in_flight: Vec<InFlight>,
    /// By sink.
    pub sinks: BTreeMap<String, Payload>,
    /// By sink.
    pub sink_counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// How long it took.
    pub longest: Longest,
}

/// A task that has yet to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing<'a> {
    /// Name of the source, chain or sink.
    pub node: &'a str,
    /// Which of its tasks.
    pub task: usize,
    /// The barrier has passed it, and it waits for the storage of its state.
    pub is_storing: bool,
}

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, task, is_storing } = self;
        write!(f, "`{node}` task {task}{}", if *is_storing { " (whose state is still being stored)" } else { "" })
    }
}

/// Who has yet to report.
#[derive(Debug)]
pub struct Progress {
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    began: Duration,
    missing: BTreeSet<(String, usize)>,
    /// Whose inputs are not known yet.
    missing_inputs: BTreeSet<(String, usize)>,
    /// Who has taken its snapshot.
    storing: BTreeSet<(String, usize)>,
    ended: Ended,
}

impl Progress {
    /// One that began at a moment of the monotonic clock. `expected`: the name and index of every task of the job, sinks with index
    /// 0; `inputs`: of those that also report what lay in their inputs.
    pub fn new(
        checkpoint: CheckpointId,
        began: Duration,
        expected: impl IntoIterator<Item = (String, usize)>,
        inputs: impl IntoIterator<Item = (String, usize)>,
    ) -> Self {
        let (missing, missing_inputs) = (expected.into_iter().collect(), inputs.into_iter().collect());
        let (storing, ended) = (BTreeSet::new(), Ended::default());
        Self { checkpoint, began, missing, missing_inputs, storing, ended }
    }

    /// Takes a report; the parts once nobody is missing. A task that reports twice is a bug of ours, and says so.
    pub fn report(&mut self, report: Report) -> Option<Ended> {
        let (who, missing) = match &report {
            Report::Source { source, task, .. } => ((source.clone(), *task), &mut self.missing),
            Report::Operator(snapshot, _) => ((snapshot.chain.clone(), snapshot.task), &mut self.missing),
            Report::Sink { sink, .. } => ((sink.clone(), 0), &mut self.missing),
            Report::InFlight { reader, task, .. } => ((reader.clone(), *task), &mut self.missing_inputs),
        };
        assert!(missing.remove(&who), "task `{}` {} reports once for checkpoint {}", who.0, who.1, self.checkpoint);
        self.take(report);
        if !self.missing.is_empty() || !self.missing_inputs.is_empty() {
            return None;
        }
        self.ended.tasks.sort_by(|a, b| (&a.chain, a.task).cmp(&(&b.chain, b.task)));
        self.ended.in_flight.sort_by(|a, b| (&a.reader, a.task).cmp(&(&b.reader, b.task)));
        Some(std::mem::take(&mut self.ended))
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Source { source, snapshot, .. } => {
                let whole = self.ended.sources.entry(source).or_default();
                whole.partitions.extend(snapshot.partitions);
                for (name, count) in snapshot.counters {
                    *whole.counters.entry(name).or_default() += count;
                }
            }
            Report::Operator(snapshot, moments) => {
                self.ended.tasks.push(snapshot);
                self.ended.longest.note(self.began, moments);
            }
            Report::InFlight { reader, task, file, moments } => {
                self.ended.in_flight.extend(file.map(|file| InFlight { reader, task, file }));
                self.ended.longest.note(self.began, moments);
            }
            Report::Sink { sink, payload, counters, moments } => {
                self.ended.sink_counters.insert(sink.clone(), counters);
                self.ended.sinks.insert(sink, payload);
                self.ended.longest.note(self.began, moments);
            }
        }
    }

    /// What sinks have staged for a checkpoint that is given up: their rows belong to the next.
    pub fn take_sinks(&mut self) -> BTreeMap<String, Payload> {
        std::mem::take(&mut self.ended.sinks)
    }

    /// What lay in inputs, of a checkpoint that is given up: nobody will ask for it.
    pub fn take_in_flight(&mut self) -> Vec<InFlight> {
        std::mem::take(&mut self.ended.in_flight)
    }

    /// An operator task has taken its snapshot: from now on it waits for the storage alone.
    pub fn snapshot_taken(&mut self, node: String, task: usize) {
        self.storing.insert((node, task));
    }

    /// Who holds the checkpoint up.
    pub fn missing(&self) -> impl Iterator<Item = Missing<'_>> {
        let is_storing = |who| self.storing.contains(who) && !self.missing_inputs.contains(who);
        let missing = self.missing.union(&self.missing_inputs);
        missing.map(move |who| Missing { node: &who.0, task: who.1, is_storing: is_storing(who) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(moments: Moments) -> Report {
        let counters = [("records_in".to_string(), 4)].into();
        Report::Sink { sink: "out".into(), payload: Payload::default(), counters, moments }
    }

    #[test]
    fn checkpoint_is_complete_when_the_last_task_reports() {
        let expected = [("rides".into(), 0), ("rides".into(), 1), ("out".into(), 0)];
        let mut progress = Progress::new(CheckpointId(3), Duration::ZERO, expected, []);
        let source = |task, records| Report::Source {
            source: "rides".into(),
            task,
            snapshot: SourceSnapshot { counters: [("records_in".into(), records)].into(), ..SourceSnapshot::default() },
        };
        assert_eq!(progress.report(source(1, 2)), None);
        assert_eq!(progress.report(sink(Moments::default())), None);
        assert_eq!(missing(&progress), ["`rides` task 0"]);
        let ended = progress.report(source(0, 5)).expect("nobody is missing");
        assert_eq!(ended.sources["rides"].counters["records_in"], 7);
        assert_eq!(ended.sink_counters["out"]["records_in"], 4);
    }

    fn missing(progress: &Progress) -> Vec<String> {
        progress.missing().map(|missing| missing.to_string()).collect()
    }

    #[test]
    fn task_that_waits_for_the_storage_alone_is_told_from_one_that_waits_for_the_barrier() {
        let tasks = || [("count".to_string(), 0), ("count".to_string(), 1)];
        let mut progress = Progress::new(CheckpointId(1), Duration::ZERO, tasks(), []);
        progress.snapshot_taken("count".into(), 1);
        assert_eq!(missing(&progress), ["`count` task 0", "`count` task 1 (whose state is still being stored)"]);
        let mut overtaking = Progress::new(CheckpointId(1), Duration::ZERO, tasks(), tasks());
        overtaking.snapshot_taken("count".into(), 1);
        assert_eq!(missing(&overtaking), ["`count` task 0", "`count` task 1"], "what lay in its inputs is missing too");
    }

    #[test]
    #[should_panic(expected = "reports once")]
    fn task_that_reports_twice_is_a_bug() {
        let mut progress = Progress::new(CheckpointId(1), Duration::ZERO, [("out".into(), 0), ("rides".into(), 0)], []);
        let report = || sink(Moments::default());
        progress.report(report());
        progress.report(report());
    }

    #[test]
    fn checkpoint_that_overtakes_waits_for_what_lay_in_the_inputs() {
        let out = || [("out".to_string(), 0)];
        let second = Duration::from_secs(1);
        let mut progress = Progress::new(CheckpointId(1), 10 * second, out(), out());
        let moments = Moments { first_barrier: 11 * second, last_barrier: 11 * second, durable: 14 * second };
        assert_eq!(progress.report(sink(moments)), None);
        assert_eq!(progress.missing().count(), 1);
        let file = FileEntry { name: "rows".into(), length: 3, checksum: String::new() };
        let moments = Moments { last_barrier: 13 * second, ..moments };
        let report = Report::InFlight { reader: "out".into(), task: 0, file: Some(file.clone()), moments };
        let ended = progress.report(report).expect("nobody is missing");
        assert_eq!(ended.in_flight, [InFlight { reader: "out".into(), task: 0, file }]);
        assert_eq!(ended.longest, Longest { travel: second, alignment: 2 * second, snapshot: 3 * second });
    }
}
