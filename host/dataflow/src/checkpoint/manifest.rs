//! What a checkpoint holds: everything needed to go on as if nothing had happened. Stored as JSON, with a version.

use super::CheckpointId;
use crate::aggregate::Function;
use crate::record::ValueType;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The whole of a checkpoint, small: state lies in the files it names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format; see [`Manifest::VERSION`].
    pub version: u32,
    /// Which checkpoint it is.
    pub checkpoint: CheckpointId,
    /// Name of the job.
    pub job: String,
    /// xxh3-64 of the job's definition in hexadecimal, to tell a changed job from the same one.
    pub job_revision: String,
    /// Key groups of the job, fixed at its creation.
    pub max_parallelism: u16,
    /// True for the checkpoint taken when all inputs had ended: there is nothing to go on with.
    pub finished: bool,
    /// Content digest of each operator's component, by operator.
    pub components: BTreeMap<String, String>,
    /// State numbers: once given to an operator's state, never reused.
    pub states: Vec<StateEntry>,
    /// The number that the next state gets.
    pub next_state: u32,
    /// The savepoint that the job was started from, by its checksum; none if it began with nothing.
    pub savepoint: Option<String>,
    /// Positions and watermarks, by source.
    pub sources: BTreeMap<String, SourceSnapshot>,
    /// State and watermark of each operator task.
    pub tasks: Vec<TaskSnapshot>,
    /// Rows that lay between tasks when a barrier overtook them. Their readers get them before anything else.
    pub in_flight: Vec<InFlight>,
    /// What each sink has staged and must apply, in order, once this checkpoint is decided, by sink.
    pub sinks: BTreeMap<String, Vec<Staged>>,
    /// Counters of each sink that go on after a restart, by sink and name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sink_counters: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Manifest {
    /// The version this program writes. It reads no other.
    pub const VERSION: u32 = 2;

    /// Every file it names.
    pub fn files(&self) -> impl Iterator<Item = &FileEntry> {
        let state = self.tasks.iter().flat_map(|task| &task.files);
        state.chain(self.in_flight.iter().map(|in_flight| &in_flight.file))
    }
}

/// Stands for (operator, state name) in stored keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry {
    /// The number in stored keys.
    pub number: u32,
    /// Operator that owns the state.
    pub operator: String,
    /// Its name there.
    pub name: String,
    /// What its rows are.
    pub kind: StateKind,
    /// Encoding version of the values, as the operator counts it.
    pub version: u32,
    /// None where the state stands by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkEntry>,
    /// What the operator made its rows for, in its words: with another, it would take them for what they are not. None: for anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_for: Option<String>,
    /// What its rows' keys were made of: for each keyed input of the operator its fields, parted by `, `; an empty text where
    /// it has no key. Nothing where nobody told.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keyed_by: BTreeSet<String>,
    /// What the accumulators of windows hold, aggregate by aggregate. Empty for all else, and where nobody told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<AggregateEntry>,
}

/// One aggregate of a window, as those need to know it who read its accumulators without the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateEntry {
    /// The pointer of its column.
    pub column: String,
    /// What the host computes; none: a component does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<Function>,
    /// Over a field of this type; none: over rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<ValueType>,
}

/// Says that a state is a fork: where neither side was written since, it has the rows of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkEntry {
    /// Number of the state it was forked from.
    pub number: u32,
    /// Number of the state whose rows mark what the fork has of its own.
    pub marks: u32,
}

/// What the rows of a state are: enough to read them without their operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// One value per key.
    Value,
    /// Items per key, in order.
    List,
    /// Named entries per key.
    Map,
    /// Named entries, the same in every task.
    BroadcastMap,
    /// Timers by the time at which they fire.
    TimersByTime,
    /// The same timers by key and name.
    TimersByName,
    /// Accumulators per window and key.
    Windows,
}

impl std::fmt::Display for StateKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Value => "value",
            Self::List => "list",
            Self::Map => "map",
            Self::BroadcastMap => "broadcast map",
            Self::TimersByTime => "timers by time",
            Self::TimersByName => "timers by name",
            Self::Windows => "windows",
        })
    }
}

/// A source's part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceSnapshot {
    /// Where each partition reads next, by the partition's name.
    pub partitions: BTreeMap<String, PartitionPosition>,
    /// Counters that go on after a restart, such as records read, by name.
    pub counters: BTreeMap<String, u64>,
}

/// Where a partition reads next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionPosition {
    /// The connector's own: byte and line of a file, sequence number of a generator.
    pub next: serde_json::Value,
    /// The partition's watermark; it never goes back after a restore.
    pub watermark: Timestamp,
    /// Whether it is read to its end.
    pub finished: bool,
}

/// An operator task's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSnapshot {
    /// Name of the task's chain: its first operator.
    pub chain: String,
    /// The operators of the chain, in order.
    pub operators: Vec<String>,
    /// Which of the chain's tasks.
    pub task: usize,
    /// Key groups it owns: from, inclusive, to, exclusive.
    pub groups: (u16, u16),
    /// The chain's watermark: all that it makes due has fired.
    pub watermark: Timestamp,
    /// The watermark that it was firing for: part of what it makes due has fired, and the rest does before anything else.
    pub firing: Option<Timestamp>,
    /// The state backend that wrote the files: `memory` or `rocksdb`. No other reads them.
    pub backend: String,
    /// What holds the state, in the backend's own form and order.
    pub files: Vec<FileEntry>,
    /// Counters that must survive, such as late records dropped, by operator and name.
    pub counters: BTreeMap<String, u64>,
}

/// What lay in the inputs of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The task's chain by its first operator, or its sink.
    pub reader: String,
    /// Which of its tasks.
    pub task: usize,
    /// The rows, and what was said of time between them, by channel and in order.
    pub file: FileEntry,
}

/// A stored file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name within the job's checkpoint storage.
    pub name: String,
    /// Length in bytes.
    pub length: u64,
    /// xxh3-64 of its content in hexadecimal.
    pub checksum: String,
}

/// A sink's output for one checkpoint. One that was abandoned leaves its output to the next that is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Staged {
    /// The checkpoint it was staged for.
    pub checkpoint: CheckpointId,
    /// What the sink gets back.
    pub payload: Payload,
}

/// What a sink says it has staged: its own words, which it gets back when it must apply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Payload(pub serde_json::Value);

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> FileEntry {
        FileEntry { name: name.into(), length: 7, checksum: "00000000000000ff".into() }
    }

    /// A change of the format shows here, and needs another version.
    #[test]
    fn manifest_of_version_2_is_written_like_this() {
        let position = PartitionPosition { next: 90.into(), watermark: 35_000, finished: false };
        let manifest = Manifest {
            version: Manifest::VERSION,
            checkpoint: CheckpointId(3),
            job: "rides".into(),
            job_revision: "0a".into(),
            max_parallelism: 128,
            finished: false,
            components: [("dedup".to_string(), "0b".to_string())].into(),
            states: vec![StateEntry {
                number: 0,
                operator: "dedup".into(),
                name: "seen".into(),
                kind: StateKind::BroadcastMap,
                version: 1,
                forked_from: Some(ForkEntry { number: 4, marks: 5 }),
                made_for: None,
                keyed_by: ["/id".to_string()].into(),
                aggregates: vec![],
            }],
            next_state: 6,
            savepoint: Some("0c".into()),
            sources: [(
                "rides".to_string(),
                SourceSnapshot {
                    partitions: [("a".to_string(), position)].into(),
                    counters: [("records_in".to_string(), 4)].into(),
                },
            )]
            .into(),
            tasks: vec![TaskSnapshot {
                chain: "dedup".into(),
                operators: vec!["dedup".into()],
                task: 1,
                groups: (64, 128),
                watermark: 30_000,
                firing: Some(35_000),
                backend: "rocksdb".into(),
                files: vec![file("state/dedup-1")],
                counters: [("dedup/records_in".to_string(), 4)].into(),
            }],
            in_flight: vec![InFlight { reader: "out".into(), task: 0, file: file("in-flight/out-0") }],
            sinks: [("out".to_string(), vec![Staged { checkpoint: CheckpointId(2), payload: Payload(true.into()) }])]
                .into(),
            sink_counters: [("out".to_string(), [("records_in".to_string(), 4)].into())].into(),
        };
        let expected = r#"{"version":2,"checkpoint":3,"job":"rides","job_revision":"0a","max_parallelism":128,"finished":false,"components":{"dedup":"0b"},"states":[{"number":0,"operator":"dedup","name":"seen","kind":"broadcast_map","version":1,"forked_from":{"number":4,"marks":5},"keyed_by":["/id"]}],"next_state":6,"savepoint":"0c","sources":{"rides":{"partitions":{"a":{"next":90,"watermark":35000,"finished":false}},"counters":{"records_in":4}}},"tasks":[{"chain":"dedup","operators":["dedup"],"task":1,"groups":[64,128],"watermark":30000,"firing":35000,"backend":"rocksdb","files":[{"name":"state/dedup-1","length":7,"checksum":"00000000000000ff"}],"counters":{"dedup/records_in":4}}],"in_flight":[{"reader":"out","task":0,"file":{"name":"in-flight/out-0","length":7,"checksum":"00000000000000ff"}}],"sinks":{"out":[{"checkpoint":2,"payload":true}]},"sink_counters":{"out":{"records_in":4}}}"#;
        assert_eq!(serde_json::to_string(&manifest).unwrap(), expected);
        assert_eq!(serde_json::from_str::<Manifest>(expected).unwrap(), manifest);
    }
}
