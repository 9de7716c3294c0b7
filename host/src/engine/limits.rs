//! What one instance may use, and the limiter that wasmtime asks before memory or tables grow.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bounds on one instance and one call of it. A job may set each for an operator, up to the server's ceiling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of all linear memories together. Past it the guest's allocation fails, which ends the call. 64 MiB.
    pub memory: usize,
    /// Memory above which an instance is replaced after the call: language runtimes leak, and memory never shrinks. 48 MiB.
    pub memory_soft: usize,
    /// How long one call may run; see [`super::Engine`] for the grain. 1 s.
    pub time: Duration,
    /// Rows handed in with one call; larger batches are cut. 4,096.
    pub rows: usize,
    /// Bytes of prefetched state handed in with one call; a batch with more is cut. 8 MiB.
    pub prefetch_bytes: usize,
    /// Rows that one call may put out over all outputs. 1,000,000.
    pub output_rows: usize,
    /// Bytes of the rows that one call may put out. 32 MiB.
    pub output_bytes: usize,
    /// Bytes that a guest may hand over in one answer or one host call, before anything is copied. 96 MiB.
    pub answer_bytes: usize,
    /// Bytes of one value, item or entry of a state. 4 MiB.
    pub state_value_bytes: usize,
    /// Timers that one call may set for one key. 10,000.
    pub timers_per_key: usize,
    /// Log lines kept per second and task. 100.
    pub log_lines: u32,
    /// Metrics that an operator may register. 256.
    pub metrics: usize,
    /// Entries of all tables together: functions called through pointers. 100,000.
    pub table_entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            memory_soft: 48 << 20,
            time: Duration::from_secs(1),
            rows: 4096,
            prefetch_bytes: 8 << 20,
            output_rows: 1_000_000,
            output_bytes: 32 << 20,
            answer_bytes: 96 << 20,
            state_value_bytes: 4 << 20,
            timers_per_key: 10_000,
            log_lines: 100,
            metrics: 256,
            table_entries: 100_000,
        }
    }
}

/// Adds up what an instance holds and refuses what goes beyond.
#[derive(Debug)]
pub(super) struct Limiter {
    memory_max: usize,
    table_max: usize,
    memory: usize,
    tables: usize,
    /// What was refused last, in words, until somebody asks.
    refused: Option<String>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { memory_max: limits.memory, table_max: limits.table_entries, memory: 0, tables: 0, refused: None }
    }

    /// Bytes of all memories now.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Why a growth was refused since the last question.
    pub(super) fn take_refusal(&mut self) -> Option<String> {
        self.refused.take()
    }
}

impl wasmtime::ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory - current + desired;
        if total > self.memory_max {
            self.refused = Some(format!("wanted {total} bytes of memory, may have {}", self.memory_max));
            return Ok(false);
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.tables - current + desired;
        if total > self.table_max {
            self.refused = Some(format!("wanted {total} table entries, may have {}", self.table_max));
            return Ok(false);
        }
        self.tables = total;
        Ok(true)
    }
}
