//! A sink as the job file has it: what it reads, where rows go, in which form, and with which promise.

use super::{Place, Pointer, Reference};
use std::path::PathBuf;

/// One entry of `sinks`.
#[derive(Debug, Clone)]
pub struct Sink {
    /// Its name in the job.
    pub name: String,
    /// Where it is written.
    pub place: Place,
    /// What it reads.
    pub input: Reference,
    /// Where rows go.
    pub connector: SinkConnector,
    /// The promise: what the connector and the checkpoints give.
    pub delivery: Delivery,
    /// Do what is refused otherwise, such as adding rows that may be repeated.
    pub force: bool,
}

impl Sink {
    /// Whether its rows are seen only once their checkpoint is decided.
    pub fn waits_for_checkpoint(&self) -> bool {
        match &self.connector {
            SinkConnector::Stdout(_) => false,
            SinkConnector::File(_) => true,
            SinkConnector::Sqlite(sqlite) => !sqlite.immediate,
        }
    }
}

/// Where rows go, with the connector's own settings.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkConnector {
    /// Standard output.
    Stdout(StdoutSink),
    /// Files that appear whole.
    File(FileSink),
    /// A table of an SQLite database.
    Sqlite(SqliteSink),
}

/// Settings of the stdout sink.
#[derive(Debug, Clone, PartialEq)]
pub struct StdoutSink {
    /// How a row is written.
    pub format: RowFormat,
    /// How times are written.
    pub times: Times,
    /// Only these columns, in this order; empty: all.
    pub columns: Vec<Pointer>,
}

/// Settings of the file sink.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSink {
    /// The folder that gets the files.
    pub path: PathBuf,
    /// How a row is written.
    pub format: RowFormat,
    /// How times are written.
    pub times: Times,
    /// Only these columns, in this order; empty: all.
    pub columns: Vec<Pointer>,
}

/// Settings of the SQLite sink.
#[derive(Debug, Clone, PartialEq)]
pub struct SqliteSink {
    /// The database file.
    pub path: PathBuf,
    /// The table; made if it is not there.
    pub table: String,
    /// What a row does to the table.
    pub mode: Mode,
    /// Columns that name a table row (`upsert`, `add`); empty for `append`.
    pub key: Vec<Pointer>,
    /// Only these columns, in this order; empty: all.
    pub columns: Vec<Pointer>,
    /// How times are written.
    pub times: Times,
    /// Written at once instead of with the checkpoint: at least once.
    pub immediate: bool,
}

/// How a row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFormat {
    /// One JSON object per line.
    Json,
    /// CSV with a header line.
    Csv,
    /// The whole value as it is, and a line end.
    Raw,
}

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// RFC 3339, UTC.
    Rfc3339,
    /// Milliseconds since 1970 UTC.
    UnixMs,
}

/// What a row does to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A new row.
    Append,
    /// Replaces the row with its key.
    Upsert,
    /// Its numbers are added to those of the row with its key.
    Add,
}

/// What a sink promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Every row is seen once, also after a crash.
    ExactlyOnce,
    /// No row is lost; after a crash some come again.
    AtLeastOnce,
}
