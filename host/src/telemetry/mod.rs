//! What is counted, per node of the job. Tasks add, the progress display and the summary read. Names, units and meaning
//! stand beside each counter.

mod counter; // numbers that tasks share
mod reported;
mod status;

pub use counter::{Counter, Gauge};
pub use reported::{GuestMetrics, MetricValue};
pub use status::{CheckpointDone, CheckpointStatus, NodeStatus, StateSize, Status};

use crate::dead_letter::DeadLetter;
use dataflow::time::{START, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Before a reader's name: the counter of records put aside on their way to it.
const DEAD_LETTERS_FOR: &str = "dead_letters/";

/// Counters of one source, operator or sink, summed over its tasks.
#[derive(Debug)]
pub struct NodeMetrics {
    /// Records taken in.
    pub records_in: Counter,
    /// Records sent on, over all outputs.
    pub records_out: Counter,
    /// Records too late for a window, dropped or sent to the `late` output.
    pub late_records_dropped: Counter,
    /// Records put aside.
    pub dead_letters: Counter,
    /// Records put aside on their way to other nodes, by node: those count them as theirs. Kept here, so that a checkpoint holds the
    /// number as of the sender's barrier.
    dead_letters_for: Mutex<BTreeMap<String, u64>>,
    /// Bytes read by a source or written by a sink.
    pub bytes: Counter,
    /// Guest calls that failed and were taken apart row by row.
    pub guest_faults: Counter,
    /// Rows of state that a chain's tasks hold, about, as of the last checkpoint; at the chain's first operator.
    pub state_rows: Gauge,
    /// Bytes of these rows.
    pub state_bytes: Gauge,
    /// Bytes of state freed because their time to live had passed, since the tasks were started.
    pub expired_bytes: Gauge,
    /// Time spent working, ns; with `blocked_ns` and `idle_ns` it sums to the wall clock of the node's tasks.
    pub busy_ns: Counter,
    /// Time spent waiting for room in an output, ns.
    pub blocked_ns: Counter,
    /// Time spent waiting for input, ns.
    pub idle_ns: Counter,
    watermark: AtomicI64,
}

impl Default for NodeMetrics {
    fn default() -> Self {
        Self {
            records_in: Counter::default(),
            records_out: Counter::default(),
            late_records_dropped: Counter::default(),
            dead_letters: Counter::default(),
            dead_letters_for: Mutex::default(),
            bytes: Counter::default(),
            guest_faults: Counter::default(),
            state_rows: Gauge::default(),
            state_bytes: Gauge::default(),
            expired_bytes: Gauge::default(),
            busy_ns: Counter::default(),
            blocked_ns: Counter::default(),
            idle_ns: Counter::default(),
            watermark: AtomicI64::new(START),
        }
    }
}

impl NodeMetrics {
    /// The watermark that some task of this node stands at; `START` before the first.
    pub fn watermark(&self) -> Timestamp {
        self.watermark.load(Ordering::Relaxed)
    }

    /// The counters that a checkpoint keeps, by name: after a restart they go on as if nothing had happened.
    pub fn durable(&self) -> Vec<(String, u64)> {
        let own = [
            ("records_in", &self.records_in),
            ("records_out", &self.records_out),
            ("late_records_dropped", &self.late_records_dropped),
            ("dead_letters", &self.dead_letters),
        ];
        let on_the_way = self.dead_letters_for.lock().unwrap_or_else(PoisonError::into_inner);
        let on_the_way = on_the_way.iter().map(|(reader, &count)| (format!("{DEAD_LETTERS_FOR}{reader}"), count));
        own.into_iter().map(|(name, counter)| (name.to_string(), counter.get())).chain(on_the_way).collect()
    }

    /// Adds a counter that a checkpoint kept; a name that is unknown is passed over.
    pub fn restore(&self, name: &str, count: u64) {
        match name {
            "records_in" => self.records_in.add(count),
            "records_out" => self.records_out.add(count),
            "late_records_dropped" => self.late_records_dropped.add(count),
            "dead_letters" => self.dead_letters.add(count),
            _ => {
                if let Some(reader) = name.strip_prefix(DEAD_LETTERS_FOR) {
                    self.put_aside_for(reader, count);
                }
            }
        }
    }

    /// Counts records that a task of `node` puts aside: at the node that each letter names.
    pub fn put_aside(&self, node: &str, letters: &[DeadLetter]) {
        for letter in letters {
            if letter.node == node {
                self.dead_letters.add(1);
            } else {
                self.put_aside_for(&letter.node, 1);
            }
        }
    }

    fn put_aside_for(&self, reader: &str, count: u64) {
        let mut on_the_way = self.dead_letters_for.lock().unwrap_or_else(PoisonError::into_inner);
        *on_the_way.entry(reader.to_string()).or_default() += count;
    }

    /// Records that were put aside on their way to `reader`.
    pub fn dead_letters_for(&self, reader: &str) -> u64 {
        let on_the_way = self.dead_letters_for.lock().unwrap_or_else(PoisonError::into_inner);
        on_the_way.get(reader).copied().unwrap_or(0)
    }

    /// A task moved to `watermark`.
    pub fn set_watermark(&self, watermark: Timestamp) {
        self.watermark.store(watermark, Ordering::Relaxed);
    }
}
