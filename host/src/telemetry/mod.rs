//! What is counted, per node of the job. Tasks add, the progress display and the summary read. Names, units and meaning
//! stand beside each counter.

mod reported;
mod status;

pub use reported::{GuestMetrics, MetricValue};
pub use status::{CheckpointDone, CheckpointStatus, NodeStatus, StateSize, Status};

use dataflow::time::{START, Timestamp};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

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
    pub fn durable(&self) -> [(&'static str, u64); 4] {
        [
            ("records_in", self.records_in.get()),
            ("records_out", self.records_out.get()),
            ("late_records_dropped", self.late_records_dropped.get()),
            ("dead_letters", self.dead_letters.get()),
        ]
    }

    /// Adds a counter that a checkpoint kept; a name that is unknown is passed over.
    pub fn restore(&self, name: &str, count: u64) {
        match name {
            "records_in" => self.records_in.add(count),
            "records_out" => self.records_out.add(count),
            "late_records_dropped" => self.late_records_dropped.add(count),
            "dead_letters" => self.dead_letters.add(count),
            _ => {}
        }
    }

    /// A task moved to `watermark`.
    pub fn set_watermark(&self, watermark: Timestamp) {
        self.watermark.store(watermark, Ordering::Relaxed);
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is now `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
