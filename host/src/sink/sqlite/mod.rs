//! Rows go to a table of an SQLite database. Exactly once: staged rows lie in a table of ours beside the user's, and
//! `apply` moves them over and notes the checkpoint in one transaction. Immediate: each batch is a transaction of its own,
//! seen at once; after a crash what came since the last checkpoint is written again.
//!
//! | mode | a row | a row taken back |
//! |---|---|---|
//! | append | a new table row | refused |
//! | upsert | replaces the table row with its key | removes the table row if it still equals it |
//! | add | adds its numbers to those of the table row with its key; the rest, and what lies under `/pane`, is replaced | subtracts them |

mod ledger;
mod sink;
mod staged;
mod statements;
mod table;

use super::encode::Times;
use super::file::OnExisting;
use super::{Sink, SinkFactory, SinkInput};
use serde::{Deserialize, Serialize};
use sink::SqliteSink;
use std::path::PathBuf;

/// Where rows go and what they do there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The database file; made if it is not there.
    pub path: PathBuf,
    /// The table; made if it is not there.
    pub table: String,
    /// What a row does to the table.
    pub mode: Mode,
    /// Columns that name a table row, by pointer or flat name; none in `append`.
    pub key: Vec<String>,
    /// Only these columns, by pointer or flat name, in this order; empty: all.
    pub columns: Vec<String>,
    /// How times are written: as text or as numbers.
    pub times: Times,
    /// Written at once instead of with the checkpoint: at least once.
    pub immediate: bool,
    /// What happens to rows of an earlier run when the job starts anew; none: a table that this sink made is made anew,
    /// any other keeps its rows.
    pub on_existing: Option<OnExisting>,
}

/// What a row does to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is a new row.
    #[default]
    Append,
    /// It replaces the row with its key.
    Upsert,
    /// Its numbers are added to those of the row with its key.
    Add,
}

/// Opens SQLite sinks.
#[derive(Debug, Clone)]
pub struct Factory {
    /// Where to, and how.
    pub settings: Settings,
}

impl SinkFactory for Factory {
    fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(SqliteSink::open(&self.settings, input)?))
    }
}

#[cfg(test)]
mod tests;
