//! The file a user writes, as plain data: what to compute, not where it runs. `load` reads it; every key with its default
//! and a sentence stands in `keys`. Nothing here opens a file of data, a component or a sink; `job::check` judges what was
//! read, `job::build` turns it into running tasks.

pub mod keys; // every key, its default, a sentence
mod load; // from a file to a definition
mod operator;
pub mod problem; // what is wrong, where, what to do
mod read;
mod section;
mod sink;
mod source;
mod tree;
pub mod units; // 30s, 64MiB

pub use load::{Loaded, Process, load, read_text};
pub use tree::References;

pub use operator::{
    Aggregate, AggregateFunction, BuiltIn, Component, Guest, Input, Limits, Logic, OnError, Operator, Window,
    WindowKind,
};
pub use sink::{Delivery, FileSink, Mode, RowFormat, Sink, SinkConnector, SqliteSink, StdoutSink, Times};
pub use source::{
    Emit, EventTime, FileFormat, FileSource, GeneratorKind, GeneratorSource, OnBadRecord, OnExcess, Source,
    SourceConnector, TimeField, TimeFormat, Tolerance, Watermark, WhenAllIdle,
};

use dataflow::checkpoint::CheckpointMode;
use dataflow::restart::RestartPolicy;
use std::path::PathBuf;
use std::time::Duration;

/// A JSON pointer: `/city`; also the name of a column. The empty one is the whole value.
pub type Pointer = String;

/// A whole job file. Paths in it are resolved against the file's folder already; references to secrets are replaced.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The job's name: letters, digits, `-` and `_`.
    pub name: String,
    /// xxh3-64 of the file's text in hexadecimal, to tell a changed job from the same one.
    pub revision: String,
    /// Tasks of each source and operator that says nothing else.
    pub parallelism: usize,
    /// Where that is written; the file's beginning if it is not.
    pub parallelism_place: Place,
    /// Key groups; fixed when the job is created.
    pub max_parallelism: u16,
    /// When and how checkpoints are taken.
    pub checkpoint: Checkpoint,
    /// Where state is kept.
    pub state: State,
    /// When a job that failed starts again.
    pub restart: RestartPolicy,
    /// Where records that were put aside go.
    pub dead_letters: DeadLetters,
    /// In the file's order.
    pub sources: Vec<Source>,
    /// In the file's order.
    pub operators: Vec<Operator>,
    /// In the file's order.
    pub sinks: Vec<Sink>,
}

impl Definition {
    /// Names of the sinks whose rows must neither be lost nor come twice.
    pub fn exact_sinks(&self) -> impl Iterator<Item = &str> {
        let exact = self.sinks.iter().filter(|sink| sink.delivery == Delivery::ExactlyOnce);
        exact.map(|sink| sink.name.as_str())
    }
}

/// When and how checkpoints are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// How often.
    pub every: Every,
    /// How many decided checkpoints are kept, at least 1.
    pub keep: usize,
    /// One that takes longer is abandoned.
    pub timeout: Duration,
    /// The least time between the end of one and the beginning of the next.
    pub min_pause: Duration,
    /// So many in a row may be abandoned; none: any number.
    pub tolerated_failures: Option<u64>,
    /// What they promise.
    pub mode: CheckpointMode,
}

/// What a checkpoint waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// So much processing time since the last one began.
    Time(Duration),
    /// So many records, summed over the job's sources, since the last one.
    Records(u64),
}

/// Where state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In memory, whatever it takes.
    Memory,
    /// On disk.
    RocksDb {
        /// Bytes of memory that all its tasks together take beside it.
        memory: u64,
    },
}

/// Where records that were put aside go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetters {
    /// To files in the job's data directory.
    DataDirectory,
    /// To files in this folder.
    Folder(PathBuf),
    /// Nowhere: the first one fails the job.
    Fail,
}

/// A node's output: `rides`, or `per-minute.late`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Source or operator.
    pub node: String,
    /// Its output; none: the main one.
    pub output: Option<String>,
    /// Where it is written.
    pub place: Place,
}

/// A place in the job file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

#[cfg(test)]
mod tests;
