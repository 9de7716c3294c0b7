//! State as JSON, without the job's code: what `millstream state` shows. Of a savepoint, or of a job's newest checkpoint.

use super::{FILE, Opened, open};
use crate::checkpoint::{CheckpointStorage, Checkpoints};
use crate::job::storage::place;
use crate::state::{self, NEVER, RowMeta, SnapshotVisitor, typed};
use anyhow::Context;
use dataflow::checkpoint::{Manifest, StateEntry, StateKind};
use dataflow::key::{self, take_varint};
use dataflow::record::Value;
use dataflow::time::Timestamp;
use serde_json::{Map, Value as Json, json};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Something that state can be read from.
pub enum Reading {
    /// A savepoint.
    Savepoint(Box<Opened>),
    /// A checkpoint of a job, and the storage of its files.
    Checkpoint(Box<Manifest>, Arc<dyn CheckpointStorage>),
}

/// What lies at `name`: a savepoint, or else a job's folder in a data directory, whose newest decided checkpoint is meant.
///
/// # Errors
/// It is neither, or damaged.
pub fn reading(name: &str) -> anyhow::Result<Reading> {
    let storage = place(name, true)?;
    if storage.read(FILE)?.is_some() {
        return Ok(Reading::Savepoint(Box::new(open(storage, name)?)));
    }
    let folder = Path::new(name).join("checkpoints");
    let storage = if folder.is_dir() { place(&folder.to_string_lossy(), true)? } else { storage };
    let latest = Checkpoints::new(storage.clone(), String::new()).latest()?;
    let manifest = latest.with_context(|| format!("`{name}` holds neither a savepoint nor a decided checkpoint"))?;
    Ok(Reading::Checkpoint(Box::new(manifest), storage))
}

/// A row in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The row's key as it is stored; empty for what is of no key.
    pub key: Vec<u8>,
    /// What else is in it, by name.
    pub rest: Map<String, Json>,
}

impl Reading {
    /// The states there are.
    pub fn states(&self) -> &[StateEntry] {
        match self {
            Self::Savepoint(opened) => &opened.savepoint.states,
            Self::Checkpoint(manifest, _) => &manifest.states,
        }
    }

    /// Key groups of the job.
    pub fn max_parallelism(&self) -> u16 {
        match self {
            Self::Savepoint(opened) => opened.savepoint.max_parallelism,
            Self::Checkpoint(manifest, _) => manifest.max_parallelism,
        }
    }

    /// What it is, for a person.
    pub fn name(&self) -> String {
        match self {
            Self::Savepoint(opened) => {
                format!("savepoint of checkpoint {} of job `{}`", opened.savepoint.checkpoint, opened.savepoint.job)
            }
            Self::Checkpoint(manifest, _) => format!("checkpoint {} of job `{}`", manifest.checkpoint, manifest.job),
        }
    }

    /// Visits the rows of these key groups.
    ///
    /// # Errors
    /// A file is missing or damaged, or the visitor refuses.
    pub fn rows(&self, groups: Range<u16>, visit: &mut SnapshotVisitor<'_>) -> anyhow::Result<()> {
        match self {
            Self::Savepoint(opened) => opened.rows(groups, visit),
            Self::Checkpoint(manifest, storage) => {
                let overlaps = |task: &&dataflow::checkpoint::TaskSnapshot| {
                    task.groups.0 < groups.end && groups.start < task.groups.1
                };
                let scratch = tempfile::tempdir().context("no scratch directory can be made")?;
                for task in manifest.tasks.iter().filter(overlaps) {
                    let own = groups.start.max(task.groups.0)..groups.end.min(task.groups.1);
                    state::read_snapshot(storage, scratch.path(), task, own, visit)
                        .with_context(|| format!("the state of `{}` task {} cannot be read", task.chain, task.task))?;
                }
                Ok(())
            }
        }
    }
}

/// A row in words; none if it only helps to find others. Bytes that do not read as their kind of state are shown as they are.
pub fn line(kind: StateKind, row: &[u8], meta: RowMeta, bytes: &[u8]) -> Option<Line> {
    let mut rest = Map::new();
    let key = match kind {
        StateKind::Value | StateKind::List | StateKind::Map | StateKind::BroadcastMap => {
            let (key, user) = split_key(row)?;
            match kind {
                StateKind::List => {
                    // The row without a number says where the list begins and ends.
                    let number: [u8; 8] = user.try_into().ok()?;
                    rest.insert("index".into(), json!(u64::from_be_bytes(number)));
                }
                StateKind::Map | StateKind::BroadcastMap => {
                    rest.insert("entry".into(), text_or_hex(user));
                }
                _ => {}
            }
            rest.insert("value".into(), typed(bytes).map_or_else(|| hex(bytes), shown));
            key
        }
        StateKind::TimersByTime => {
            let (fires_at, row) = row.split_first_chunk()?;
            let (due, row) = row.split_first_chunk()?;
            let (row, length) = row.split_last_chunk()?;
            let (key, row) = row.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            let (timer, tag) = row.split_first_chunk()?;
            rest.insert("timer".into(), json!(u32::from_be_bytes(*timer)));
            rest.insert("tag".into(), text_or_hex(tag));
            rest.insert("due".into(), time(sorted(*due)));
            if fires_at != due {
                rest.insert("fires_at".into(), time(sorted(*fires_at)));
            }
            rest.insert("payload".into(), text_or_hex(bytes));
            key
        }
        StateKind::TimersByName => return None,
        StateKind::Windows => {
            let (end, key) = row.split_first_chunk()?;
            rest.insert("window_end".into(), time(sorted(*end)));
            rest.insert("accumulator".into(), hex(bytes));
            key
        }
    };
    if meta.expiry != NEVER {
        rest.insert("expires".into(), time(meta.expiry));
    }
    Some(Line { key: key.to_vec(), rest })
}

impl Line {
    /// As one JSON object; a key of one part stands by itself.
    pub fn to_json(&self, entry: &StateEntry) -> Json {
        let mut object = Map::new();
        object.insert("operator".into(), json!(entry.operator));
        object.insert("state".into(), json!(entry.name));
        let mut parts: Vec<Json> = key::parts(&self.key).map(shown).collect();
        if parts.len() > 1 {
            object.insert("key".into(), Json::Array(parts));
        } else if let Some(part) = parts.pop() {
            object.insert("key".into(), part);
        }
        object.extend(self.rest.clone());
        Json::Object(object)
    }
}

fn split_key(row: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = row;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    rest.split_at_checked(length)
}

/// A time as it lies in a stored key: big-endian, the sign flipped.
fn sorted(bytes: [u8; 8]) -> Timestamp {
    (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
}

/// RFC 3339 in UTC; a number where there is no such year.
fn time(ms: Timestamp) -> Json {
    jiff::Timestamp::from_millisecond(ms).map_or(json!(ms), |time| json!(time.to_string()))
}

/// A typed value. Text that holds a JSON object or array, as structured values do by convention, is shown as that.
fn shown(value: Value<'_>) -> Json {
    match value {
        Value::Absent => Json::Null,
        Value::Text(text) if text.starts_with(['{', '[']) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => hex(bytes),
        Value::Int(int) => json!(int),
        Value::Float(float) => json!(float),
        Value::Boolean(boolean) => json!(boolean),
    }
}

fn text_or_hex(bytes: &[u8]) -> Json {
    std::str::from_utf8(bytes).map_or_else(|_| hex(bytes), |text| json!(text))
}

fn hex(bytes: &[u8]) -> Json {
    json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
}
