//! What lay in a task's inputs when a barrier overtook it, as a file of the checkpoint. Encoded by the task, written by a thread
//! beside it, read when a job starts.
//!
//! ```text
//! file      "millflight" · version u16 BE · channels varint · channel…
//! channel   input varint · schema string, JSON · whole values u8 · watermark i64 BE · idle u8 · elements varint · element…
//! element   0 batch (dataflow::record::stored) | 1 watermark i64 BE | 2 idle | 3 active
//! string    length varint · bytes
//! ```

use super::TaskId;
use crate::checkpoint::{CheckpointStorage, entry, read_verified};
use crate::env::{self, Env, WaitPoint};
use anyhow::{Context, ensure};
use dataflow::checkpoint::{CheckpointId, FileEntry, Moments};
use dataflow::element::Element;
use dataflow::graph::Flow;
use dataflow::key::{push_varint, take_varint};
use dataflow::record::{Schema, stored};
use dataflow::replay::ChannelState;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

const MAGIC: &[u8] = b"millflight";

/// The version this program writes. It reads no other.
const VERSION: u16 = 1;

/// Where a task's files go.
pub struct InFlightStore {
    /// The job's checkpoints.
    pub storage: Arc<dyn CheckpointStorage>,
    /// Unique to this run of the job.
    pub attempt: String,
    /// What flows into each of the reader's inputs.
    pub flows: Vec<Flow>,
}

/// What became of one checkpoint's file: none where there was nothing to store.
pub(super) type Written = (CheckpointId, Moments, anyhow::Result<Option<FileEntry>>);

/// Writes a task's files.
pub(super) struct InFlightWriter {
    store: InFlightStore,
    reader: TaskId,
    notify: Arc<WaitPoint>,
    env: Env,
    written: (Sender<Written>, Receiver<Written>),
}

impl InFlightWriter {
    /// `notify` hears when a file is written.
    pub(super) fn new(store: InFlightStore, reader: TaskId, notify: Arc<WaitPoint>, env: Env) -> Self {
        Self { store, reader, notify, env, written: channel() }
    }

    /// Begins to write.
    pub(super) fn write(&self, checkpoint: CheckpointId, channels: &[ChannelState], moments: Moments) {
        if channels.iter().all(|channel| channel.elements.is_empty()) {
            return self.finish(checkpoint, moments, Ok(None));
        }
        let content = encode(channels, &self.store.flows);
        let TaskId { node, task } = &self.reader;
        let name = format!("state/{node}-{task}-in-flight-{:010}-{}", checkpoint.0, self.store.attempt);
        let (storage, done, notify, env) =
            (self.store.storage.clone(), self.written.0.clone(), self.notify.clone(), self.env.clone());
        let place = format!("in-flight/{node}/written");
        let write = move || {
            let written = storage.write(&name, &content).map(|()| Some(entry(name, &content)));
            if written.is_ok() {
                env.fail_points.passed(|| place, 1);
            }
            let moments = Moments { durable: env.clock.monotonic(), ..moments };
            // A task that is gone wants nothing any more.
            let _ = done.send((checkpoint, moments, written));
            notify.notify();
        };
        if let Err(error) = env::spawn_beside(&format!("{node}-{task}-in-flight"), write) {
            self.finish(checkpoint, moments, Err(error).context("no thread to write it"));
        }
    }

    /// The next file that has been written, or could not be.
    pub(super) fn poll(&self) -> Option<Written> {
        self.written.1.try_recv().ok()
    }

    fn finish(&self, checkpoint: CheckpointId, moments: Moments, file: anyhow::Result<Option<FileEntry>>) {
        let moments = Moments { durable: self.env.clock.monotonic(), ..moments };
        self.written.0.send((checkpoint, moments, file)).expect("the other end is held beside it");
    }
}

fn encode(channels: &[ChannelState], flows: &[Flow]) -> Vec<u8> {
    let mut content = MAGIC.to_vec();
    content.extend_from_slice(&VERSION.to_be_bytes());
    push_varint(&mut content, channels.len() as u64);
    for channel in channels {
        let flow = &flows[channel.input];
        let schema = serde_json::to_vec(&flow.schema).expect("a schema is always JSON");
        push_varint(&mut content, channel.input as u64);
        push_varint(&mut content, schema.len() as u64);
        content.extend_from_slice(&schema);
        content.push(u8::from(flow.whole_values));
        content.extend_from_slice(&channel.watermark.to_be_bytes());
        content.push(u8::from(channel.idle));
        push_varint(&mut content, channel.elements.len() as u64);
        for element in &channel.elements {
            match element {
                Element::Batch(batch) => {
                    content.push(0);
                    stored::encode(batch, &mut content);
                }
                Element::Watermark(watermark) => {
                    content.push(1);
                    content.extend_from_slice(&watermark.to_be_bytes());
                }
                Element::Idle => content.push(2),
                Element::Active => content.push(3),
                Element::Barrier(_) | Element::End => unreachable!("only rows and what is said of time are copied"),
            }
        }
    }
    content
}

/// Reads a file that a manifest names, for a reader with these inputs.
///
/// # Errors
/// The file is missing, damaged or of another version, or its rows are not what flows into the reader now.
pub(super) fn read_in_flight(
    storage: &dyn CheckpointStorage,
    file: &FileEntry,
    flows: &[Flow],
) -> anyhow::Result<Vec<ChannelState>> {
    let content = read_verified(storage, file)?;
    let mut rest = content
        .strip_prefix(MAGIC)
        .with_context(|| format!("checkpoint file `{}` does not hold rows between tasks", file.name))?;
    let version = rest.split_first_chunk().map(|(version, _)| u16::from_be_bytes(*version));
    ensure!(
        version == Some(VERSION),
        "checkpoint file `{}` has format version {}, this program reads {VERSION}: use the program that wrote it",
        file.name,
        version.unwrap_or_default()
    );
    rest = &rest[2..];
    let damaged = || format!("checkpoint file `{}` ends too early", file.name);
    let count = take_varint(&mut rest).with_context(damaged)?;
    let mut channels = Vec::new();
    for _ in 0..count {
        let (channel, flow) = take_channel(&mut rest).with_context(damaged)?;
        ensure!(
            flows.get(channel.input) == Some(&flow),
            "the checkpoint has rows on their way into input {} whose columns are not those that the job file gives it now: run the \
             job file that the checkpoint was taken with, stop it, and change it then; or start over with `--fresh`",
            channel.input
        );
        channels.push(channel);
    }
    Ok(channels)
}

fn take_channel(rest: &mut &[u8]) -> Option<(ChannelState, Flow)> {
    let input = usize::try_from(take_varint(rest)?).ok()?;
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (schema, after) = rest.split_at_checked(length)?;
    *rest = after;
    let schema: Schema = serde_json::from_slice(schema).ok()?;
    let whole_values = take_byte(rest)? == 1;
    let (watermark, idle) = (take_time(rest)?, take_byte(rest)? == 1);
    let count = take_varint(rest)?;
    let elements = (0..count).map(|_| take_element(rest)).collect::<Option<_>>()?;
    Some((ChannelState { input, watermark, idle, elements }, Flow { schema, whole_values }))
}

fn take_element(rest: &mut &[u8]) -> Option<Element> {
    match take_byte(rest)? {
        0 => stored::decode(rest).map(|batch| Element::Batch(Box::new(batch))),
        1 => take_time(rest).map(Element::Watermark),
        2 => Some(Element::Idle),
        3 => Some(Element::Active),
        _ => None,
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    Some(byte)
}

fn take_time(rest: &mut &[u8]) -> Option<i64> {
    let (time, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(i64::from_be_bytes(*time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::memory::MemoryStorage;
    use dataflow::record::{Batch, Column, Field, ValueType, Values};

    fn flow(pointer: &str) -> Flow {
        Flow { schema: Schema { fields: vec![Field::new(pointer, ValueType::Int)] }, whole_values: false }
    }

    fn channels() -> Vec<ChannelState> {
        let columns = vec![Column::all(Values::Int(vec![7, 8]))];
        let batch = Element::Batch(Box::new(Batch { timestamps: vec![1, 2], columns, ..Batch::default() }));
        let elements = vec![Element::Watermark(5), batch, Element::Idle, Element::Active];
        let quiet = ChannelState { input: 1, watermark: 3, idle: true, elements: vec![] };
        vec![ChannelState { input: 0, watermark: -4, idle: false, elements }, quiet]
    }

    fn stored(content: &[u8]) -> (MemoryStorage, FileEntry) {
        let storage = MemoryStorage::default();
        storage.write("rows", content).unwrap();
        (storage, entry("rows".into(), content))
    }

    #[test]
    fn what_lay_in_inputs_comes_back_as_it_was() {
        let flows = [flow("/a"), flow("/b")];
        let (storage, file) = stored(&encode(&channels(), &flows));
        let back = read_in_flight(&storage, &file, &flows).unwrap();
        assert_eq!(encode(&back, &flows), encode(&channels(), &flows));
        assert_eq!((back[0].watermark, back[1].idle, back[0].elements.len()), (-4, true, 4));
    }

    #[test]
    fn rows_with_other_columns_than_the_job_has_now_are_refused() {
        let (storage, file) = stored(&encode(&channels(), &[flow("/a"), flow("/b")]));
        let refused = read_in_flight(&storage, &file, &[flow("/a"), flow("/c")]).unwrap_err().to_string();
        assert!(refused.contains("into input 1") && refused.contains("stop it"), "{refused}");
    }

    #[test]
    fn file_of_another_version_or_that_is_damaged_is_refused_by_name() {
        let flows = [flow("/a"), flow("/b")];
        let mut content = encode(&channels(), &flows);
        content[MAGIC.len() + 1] = 9;
        let (storage, file) = stored(&content);
        let refused = |storage: &MemoryStorage, file| read_in_flight(storage, file, &flows).unwrap_err().to_string();
        let said = refused(&storage, &file);
        assert!(said.contains("`rows` has format version 9"), "{said}");
        storage.write("rows", &content[..content.len() - 1]).unwrap();
        let said = refused(&storage, &file);
        assert!(said.contains("`rows` is damaged"), "{said}");
    }
}
