//! What a savepoint says: the canonical, self-contained form of a checkpoint, and how a job's states fit it. Pure.
//! docs/savepoints.md describes the format for others to read and write.

use super::{CheckpointId, FileEntry, SourceSnapshot, StateEntry, StateKind};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file `savepoint.json` of a savepoint. The rows of state lie in the files it names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Savepoint {
    /// [`Savepoint::FORMAT`]: tells the file from others.
    pub format: String,
    /// Version of this format; see [`Savepoint::VERSION`].
    pub version: u32,
    /// xxh3-64, in hexadecimal, of this file as compact JSON with an empty checksum. Also names the savepoint.
    pub checksum: String,
    /// Name of the job.
    pub job: String,
    /// Revision of the job's definition; see `Manifest::job_revision`.
    pub job_revision: String,
    /// The checkpoint that it was made of. A job that starts here counts on from it.
    pub checkpoint: CheckpointId,
    /// When it was made, ms since 1970 UTC.
    pub created_ms: Timestamp,
    /// Key groups of the job.
    pub max_parallelism: u16,
    /// True if all inputs had been read to their end.
    pub finished: bool,
    /// Content digest of each operator's component, by operator.
    pub components: BTreeMap<String, String>,
    /// What the state numbers in the rows stand for.
    pub states: Vec<StateEntry>,
    /// The number that the next state gets: numbers of dropped states are not used again.
    pub next_state: u32,
    /// Positions, watermarks and counters, by source.
    pub sources: BTreeMap<String, SourceSnapshot>,
    /// Watermark and counters, by operator.
    pub operators: BTreeMap<String, OperatorSnapshot>,
    /// The rows, in order of key group, state number and row.
    pub files: Vec<RowFile>,
}

impl Savepoint {
    /// Says that a file is a savepoint's.
    pub const FORMAT: &str = "millstream savepoint";
    /// The version this program writes, and the newest it reads.
    pub const VERSION: u32 = 1;
}

/// An operator's part, over all its tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorSnapshot {
    /// The least watermark of its tasks: all that it makes due has fired.
    pub watermark: Timestamp,
    /// The watermark that its tasks were firing for: the rest of what that makes due fires before anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firing: Option<Timestamp>,
    /// Counters, summed over its tasks, by name.
    pub counters: BTreeMap<String, u64>,
}

/// A file of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowFile {
    /// Name beside `savepoint.json`, length and checksum.
    #[serde(flatten)]
    pub file: FileEntry,
    /// The key groups of its rows: first and last.
    pub groups: (u16, u16),
    /// How many rows.
    pub rows: u64,
}

/// How a state of a savepoint fits the job that starts from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Taken over as it is.
    Kept,
    /// Taken over; its values are brought from this version to the job's when they are first touched.
    Migrated(u32),
    /// The job has it, the savepoint does not.
    New,
    /// The savepoint has it, the job does not.
    Dropped,
    /// The job's version is older than this one of the savepoint: nothing can read its values.
    Older(u32),
    /// The rows are of this kind, and the job's of another: nothing can read them.
    OtherKind(StateKind),
}

/// One line of the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFit {
    /// Operator that owns the state.
    pub operator: String,
    /// Its name there.
    pub name: String,
    /// What becomes of it.
    pub fit: Fit,
}

/// Compares the states of a savepoint with those that a job declares: (operator, name, kind, version). In the order of the
/// savepoint's, then the new ones.
pub fn compare(stored: &[StateEntry], declared: &[(String, String, StateKind, u32)]) -> Vec<StateFit> {
    let of_job = |entry: &StateEntry| declared.iter().find(|it| it.0 == entry.operator && it.1 == entry.name);
    let fit = |entry: &StateEntry| match of_job(entry) {
        None => Fit::Dropped,
        Some((_, _, kind, _)) if *kind != entry.kind => Fit::OtherKind(entry.kind),
        Some((_, _, _, version)) => match entry.version.cmp(version) {
            std::cmp::Ordering::Equal => Fit::Kept,
            std::cmp::Ordering::Less => Fit::Migrated(entry.version),
            std::cmp::Ordering::Greater => Fit::Older(entry.version),
        },
    };
    let line =
        |entry: &StateEntry| StateFit { operator: entry.operator.clone(), name: entry.name.clone(), fit: fit(entry) };
    let known = |it: &&(String, String, StateKind, u32)| {
        !stored.iter().any(|entry| entry.operator == it.0 && entry.name == it.1)
    };
    let new = declared.iter().filter(known).map(|(operator, name, ..)| StateFit {
        operator: operator.clone(),
        name: name.clone(),
        fit: Fit::New,
    });
    stored.iter().map(line).chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32, name: &str, kind: StateKind, version: u32) -> StateEntry {
        StateEntry {
            number,
            operator: "fraud".into(),
            name: name.into(),
            kind,
            version,
            forked_from: None,
            made_for: None,
            keyed_by: [].into(),
            aggregates: vec![],
        }
    }

    #[test]
    fn states_are_kept_migrated_new_dropped_or_unreadable() {
        let stored = [
            entry(0, "total", StateKind::Value, 1),
            entry(1, "last", StateKind::List, 1),
            entry(2, "gone", StateKind::Map, 1),
            entry(3, "ahead", StateKind::Value, 4),
            entry(4, "shape", StateKind::Value, 1),
        ];
        let declare = |name: &str, kind, version| ("fraud".to_string(), name.to_string(), kind, version);
        let declared = [
            declare("fresh", StateKind::Value, 1),
            declare("last", StateKind::List, 2),
            declare("total", StateKind::Value, 1),
            declare("ahead", StateKind::Value, 3),
            declare("shape", StateKind::Map, 1),
        ];
        let fits: Vec<_> = compare(&stored, &declared).into_iter().map(|it| (it.name, it.fit)).collect();
        let expected = [
            ("total", Fit::Kept),
            ("last", Fit::Migrated(1)),
            ("gone", Fit::Dropped),
            ("ahead", Fit::Older(4)),
            ("shape", Fit::OtherKind(StateKind::Value)),
            ("fresh", Fit::New),
        ];
        assert_eq!(fits, expected.map(|(name, fit)| (name.to_string(), fit)));
    }
}
