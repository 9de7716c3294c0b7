//! A source in memory that a test steers: it pushes records, pauses, resumes, finishes, lets the next poll fail. It keeps
//! all that was pushed, so that it can be opened again at any position.

use super::format::{Decoded, DecoderSettings, Span};
use super::{Limit, Partition, Polled, Projection, Records, Share, Source, SourceFactory};
use anyhow::{Context, bail};
use dataflow::record::Origin;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The test's end: clones steer the same source. Records are texts of the decoder's format, one per push.
#[derive(Clone)]
pub struct Memory {
    settings: DecoderSettings,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    partitions: BTreeMap<Arc<str>, Vec<String>>,
    paused: bool,
    finished: bool,
    fails: Option<String>,
    polls: u64,
}

impl Memory {
    /// Without records. CSV has no sense here: there is no file to have a header.
    pub fn new(settings: DecoderSettings) -> Self {
        Self { settings, state: Arc::default() }
    }

    /// Appends a record to a partition, which appears with its first one.
    pub fn push(&self, partition: &str, record: &str) {
        self.state().partitions.entry(partition.into()).or_default().push(record.to_string());
    }

    /// Polls give nothing until `resume`.
    pub fn pause(&self) {
        self.state().paused = true;
    }

    /// Polls give records again.
    pub fn resume(&self) {
        self.state().paused = false;
    }

    /// No more records will come: what was pushed is still read.
    pub fn finish(&self) {
        self.state().finished = true;
    }

    /// The next poll fails with this reason.
    pub fn fail_next(&self, reason: &str) {
        self.state().fails = Some(reason.to_string());
    }

    /// How often it was polled.
    pub fn polls(&self) -> u64 {
        self.state().polls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SourceFactory for Memory {
    fn parallelism_max(&self) -> usize {
        usize::MAX
    }

    fn open(&self, share: Share<'_>) -> anyhow::Result<Box<dyn Source>> {
        self.settings.check()?;
        let mut next = BTreeMap::new();
        for partition in share.positions {
            let position = partition.next.as_u64().with_context(|| format!("the position of `{}`", partition.name))?;
            next.insert(partition.name.clone(), position as usize);
        }
        let mut opened = MemoryShare {
            memory: self.clone(),
            projection: share.projection.clone(),
            task: share.task,
            parallelism: share.parallelism,
            next,
            turn: 0,
            told: vec![],
        };
        opened.told = opened.partitions();
        Ok(Box::new(opened))
    }
}

struct MemoryShare {
    memory: Memory,
    projection: Projection,
    task: usize,
    parallelism: usize,
    /// Index of each partition's next record, 0 where it is missing.
    next: BTreeMap<Arc<str>, usize>,
    turn: usize,
    /// What the task knows of the partitions: only names and ends are compared.
    told: Vec<Partition>,
}

impl MemoryShare {
    fn read(&self, name: &Arc<str>, records: &[String], limit: Limit) -> anyhow::Result<Records> {
        let first = self.next.get(name).copied().unwrap_or(0);
        let (mut slab, mut spans) = (vec![], vec![]);
        for (at, record) in records.iter().enumerate().skip(first).take(limit.records) {
            if !slab.is_empty() && slab.len() + record.len() > limit.bytes {
                break;
            }
            let from = slab.len() as u32;
            slab.extend_from_slice(record.as_bytes());
            spans.push(Span { from, to: slab.len() as u32, line: at as u64 + 1 });
        }
        let bytes = slab.len() as u64;
        let decoded = self.memory.settings.decoder(&self.projection).decode(&slab.into(), &spans)?;
        let Decoded { mut batch, arrivals, places, mut dead } = decoded;
        dead.iter_mut().for_each(|letter| letter.partition = Some(name.to_string()));
        batch.origin = Some(Origin { partition: name.clone(), places });
        Ok(Records { partition: name.clone(), batch, arrivals, dead, bytes })
    }
}

impl Source for MemoryShare {
    fn poll(&mut self, limit: Limit) -> anyhow::Result<Polled> {
        const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
        let memory = self.memory.clone();
        let mut state = memory.state();
        state.polls += 1;
        if let Some(reason) = state.fails.take() {
            bail!("{reason}");
        }
        if state.paused {
            return Ok(Polled::Nothing(LOOK_AGAIN_AFTER));
        }
        let finished = state.finished;
        drop(state);
        let partitions = self.partitions();
        let known = |partitions: &[Partition]| -> Vec<_> {
            partitions.iter().map(|partition| (partition.name.clone(), partition.finished)).collect()
        };
        if known(&partitions) != known(&self.told) {
            self.told = partitions;
            return Ok(Polled::Partitions);
        }
        let state = memory.state();
        for _ in 0..partitions.len() {
            self.turn = (self.turn + 1) % partitions.len();
            let name = &partitions[self.turn].name;
            let Some(records) = state.partitions.get(name) else { continue };
            let next = self.next.get(name).copied().unwrap_or(0);
            if next < records.len() {
                let read = self.read(name, records, limit)?;
                self.next.insert(name.clone(), next + read.batch.len() + read.dead.len());
                return Ok(Polled::Records(Box::new(read)));
            }
        }
        Ok(if finished { Polled::Finished } else { Polled::Nothing(LOOK_AGAIN_AFTER) })
    }

    fn partitions(&self) -> Vec<Partition> {
        let state = self.memory.state();
        let is_mine = |name: &str| dataflow::key::hash(name.as_bytes()) % self.parallelism as u64 == self.task as u64;
        let mine = state.partitions.iter().filter(|(name, _)| is_mine(name));
        mine.map(|(name, records)| {
            let next = self.next.get(name).copied().unwrap_or(0);
            Partition { name: name.clone(), next: next.into(), finished: state.finished && next >= records.len() }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::contract;
    use crate::source::format::{Format, TimeField, TimeFormat};

    fn memory() -> Memory {
        let event_time = Some(TimeField { field: "/t".into(), format: TimeFormat::UnixMs });
        Memory::new(DecoderSettings { format: Format::Json, event_time, arrival: None })
    }

    #[test]
    fn keeps_the_contract_of_a_source() {
        let memory = memory();
        for at in 0..12 {
            memory.push(["a", "b", "c"][at % 3], &format!("{{\"t\":{at},\"city\":\"Pune\"}}"));
        }
        memory.push("b", "not json");
        memory.push("b", "{\"t\":99}");
        memory.finish();
        contract::check_source(&|| Box::new(memory.clone()));
    }

    #[test]
    fn does_what_the_test_says() {
        let memory = memory();
        let projection = Projection::default();
        let share = Share { task: 0, parallelism: 1, positions: &[], projection: &projection };
        let mut source = memory.open(share).unwrap();
        let mut poll = || source.poll(Limit { records: 8, bytes: 1 << 20 });
        assert!(matches!(poll(), Ok(Polled::Nothing(_))));
        memory.push("a", "{\"t\":1}");
        memory.pause();
        assert!(matches!(poll(), Ok(Polled::Nothing(_))));
        memory.resume();
        assert!(matches!(poll(), Ok(Polled::Partitions)));
        assert!(matches!(poll(), Ok(Polled::Records(records)) if records.batch.timestamps == [1]));
        memory.fail_next("the broker is gone");
        assert_eq!(poll().unwrap_err().to_string(), "the broker is gone");
        memory.finish();
        assert!(matches!(poll(), Ok(Polled::Partitions)));
        assert!(matches!(poll(), Ok(Polled::Finished)));
        assert_eq!(memory.polls(), 7);
    }
}
