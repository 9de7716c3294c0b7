//! Rows go to a list in memory that outlives the sink, exactly once. For tests: it shows what is visible and what is
//! staged, fails on request, and can be held up.

use super::encode::{self, Encoder};
use super::{Sink, SinkFactory, SinkInput};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A target in memory, and the factory of sinks that write to it. Clones share it, as processes share a disk.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    target: Mutex<Target>,
    resumed: Condvar,
}

#[derive(Debug, Default)]
struct Target {
    visible: Vec<String>,
    staged: BTreeMap<CheckpointId, Vec<String>>,
    applied: Option<CheckpointId>,
    fail_next: Option<String>,
    paused: bool,
}

impl Memory {
    /// Rows that a reader sees, as NDJSON without line ends, in order.
    pub fn visible(&self) -> Vec<String> {
        self.lock().visible.clone()
    }

    /// Rows that are durable but not visible, by checkpoint.
    pub fn staged(&self) -> BTreeMap<CheckpointId, Vec<String>> {
        self.lock().staged.clone()
    }

    /// The next call of any sink on this target fails with `reason`.
    pub fn fail_next(&self, reason: &str) {
        self.lock().fail_next = Some(reason.to_string());
    }

    /// From now on `write` waits, as on a slow target.
    pub fn pause(&self) {
        self.lock().paused = true;
    }

    /// Ends [`Memory::pause`].
    pub fn resume(&self) {
        self.lock().paused = false;
        self.shared.resumed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        self.shared.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self) -> anyhow::Result<MutexGuard<'_, Target>> {
        let mut target = self.lock();
        match target.fail_next.take() {
            Some(reason) => bail!(reason),
            None => Ok(target),
        }
    }
}

impl SinkFactory for Memory {
    fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
        let encoder = Encoder::new(&encode::Settings::default(), input)?;
        let mut target = self.call()?;
        if input.fresh {
            *target = Target { paused: target.paused, ..Target::default() };
        }
        drop(target);
        Ok(Box::new(MemorySink { memory: self.clone(), encoder, rows: vec![], waiting: vec![] }))
    }
}

struct MemorySink {
    memory: Memory,
    encoder: Encoder,
    rows: Vec<u8>,
    /// Staged, not yet applied.
    waiting: Vec<CheckpointId>,
}

impl Sink for MemorySink {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let target = self.memory.call()?;
        drop(
            self.memory
                .shared
                .resumed
                .wait_while(target, |target| target.paused)
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.encoder.write(batch, &mut self.rows)
    }

    fn stage(&mut self, checkpoint: CheckpointId) -> anyhow::Result<Payload> {
        let mut target = self.memory.call()?;
        let rows = String::from_utf8_lossy(&std::mem::take(&mut self.rows)).lines().map(str::to_string).collect();
        target.staged.insert(checkpoint, rows);
        self.waiting.push(checkpoint);
        Ok(Payload(serde_json::to_value(&self.waiting).context("writing down what the memory sink staged")?))
    }

    fn apply(&mut self, checkpoint: CheckpointId, payload: &Payload) -> anyhow::Result<()> {
        let parts: Vec<CheckpointId> = serde_json::from_value(payload.0.clone())
            .with_context(|| format!("reading what the memory sink staged for checkpoint {checkpoint}"))?;
        let mut target = self.memory.call()?;
        for part in parts.into_iter().filter(|&part| Some(part) > target.applied).collect::<Vec<_>>() {
            let rows = target.staged.remove(&part);
            target.visible.extend(rows.with_context(|| format!("what was staged for checkpoint {part} is gone"))?);
        }
        target.applied = target.applied.max(Some(checkpoint));
        self.waiting.retain(|&part| part > checkpoint);
        target.staged.retain(|part, _| self.waiting.contains(part));
        Ok(())
    }

    fn applied(&mut self) -> anyhow::Result<Option<CheckpointId>> {
        Ok(self.memory.call()?.applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::contract::{self, Target};

    impl Target for Memory {
        fn factory(&self) -> Box<dyn SinkFactory> {
            Box::new(self.clone())
        }

        fn visible(&self) -> Vec<String> {
            self.visible()
        }
    }

    #[test]
    fn memory_keeps_the_contract() {
        contract::check_sink(Memory::default);
    }

    #[test]
    fn failure_on_request_hits_one_call() {
        let memory = Memory::default();
        let mut sink = memory.open(&contract::input(true)).unwrap();
        memory.fail_next("disk full");
        assert_eq!(sink.write(&contract::batch(1..2)).unwrap_err().to_string(), "disk full");
        sink.write(&contract::batch(1..2)).unwrap();
        sink.stage(CheckpointId(1)).unwrap();
        assert_eq!(memory.staged()[&CheckpointId(1)], [contract::row(1)]);
    }
}
