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
mod staged;
mod statements;
mod table;

use super::encode::Times;
use super::file::OnExisting;
use super::{Sink, SinkFactory, SinkInput};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use ledger::Ledger;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::{Deserialize, Serialize};
use staged::{Part, Staged};
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::Table;

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

/// Another program that writes to the database is waited for so long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens SQLite sinks.
#[derive(Debug, Clone)]
pub struct Factory {
    /// Where to, and how.
    pub settings: Settings,
}

impl SinkFactory for Factory {
    fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
        let table = Table::new(&self.settings, input)?;
        let path = self.settings.path.clone();
        let mut database = connect(&path, self.settings.immediate)
            .with_context(|| format!("opening database `{}` for sink `{}`", path.display(), input.sink))?;
        let ledger = Ledger::new(input, &self.settings.table);
        let failed = || format!("preparing table `{}` of `{}`", self.settings.table, path.display());
        let prepared = begin(&mut database).with_context(failed)?;
        ledger.make(&prepared).with_context(failed)?;
        table.prepare(&prepared, &ledger, &self.settings, input).with_context(failed)?;
        let applied = ledger.applied(&prepared).with_context(failed)?;
        prepared.commit().with_context(failed)?;
        table.check(&database).with_context(failed)?;
        let staged = Staged::new(input.fresh);
        let immediate = self.settings.immediate;
        Ok(Box::new(SqliteSink { path, database, table, ledger, staged, applied, immediate }))
    }
}

fn connect(path: &Path, immediate: bool) -> anyhow::Result<Connection> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let database = Connection::open(path)?;
    database.busy_timeout(BUSY_TIMEOUT)?;
    let mode: String = database.query_row("PRAGMA journal_mode", (), |row| row.get(0))?;
    if mode != "wal" {
        database.query_row("PRAGMA journal_mode = wal", (), |_| Ok(()))?;
    }
    set_durable(&database, !immediate)?;
    Ok(database)
}

/// Durable: a commit returns when it is on the disk, with all commits before it.
fn set_durable(database: &Connection, durable: bool) -> rusqlite::Result<()> {
    database.pragma_update(None, "synchronous", if durable { "full" } else { "normal" })
}

fn begin(database: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    // Why: a transaction that reads first and writes later fails when another one wrote in between.
    database.transaction_with_behavior(TransactionBehavior::Immediate)
}

struct SqliteSink {
    path: PathBuf,
    database: Connection,
    table: Table,
    ledger: Ledger,
    staged: Staged,
    applied: Option<CheckpointId>,
    immediate: bool,
}

impl Sink for SqliteSink {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        self.table.refuse(batch)?;
        let failed = || format!("writing to `{}`", self.path.display());
        if self.immediate {
            let transaction = begin(&mut self.database).with_context(failed)?;
            self.table.write_batch(&transaction, batch).with_context(failed)?;
            return transaction.commit().with_context(failed);
        }
        self.staged.push(batch, self.table.columns());
        if self.staged.is_full() {
            self.staged.flush(&self.database, &self.ledger).with_context(failed)?;
        }
        Ok(())
    }

    fn stage(&mut self, checkpoint: CheckpointId) -> anyhow::Result<Payload> {
        let failed = || format!("staging checkpoint {checkpoint} in `{}`", self.path.display());
        if self.immediate {
            set_durable(&self.database, true).with_context(failed)?;
            self.ledger.set_applied(&self.database, checkpoint).with_context(failed)?;
            set_durable(&self.database, false).with_context(failed)?;
            self.applied = Some(checkpoint);
            return Ok(Payload::default());
        }
        if let Some(applied) = self.applied.filter(|&applied| applied >= checkpoint) {
            bail!(
                "`{}` already holds checkpoint {applied}, but the job is only at {checkpoint}: it was started from an \
                 older state; start it with `--fresh` or write to another table",
                self.path.display()
            );
        }
        let parts = self.staged.seal(checkpoint, &self.database, &self.ledger).with_context(failed)?;
        Ok(Payload(serde_json::to_value(parts).with_context(failed)?))
    }

    fn apply(&mut self, checkpoint: CheckpointId, payload: &Payload) -> anyhow::Result<()> {
        let failed = || format!("applying checkpoint {checkpoint} to `{}`", self.path.display());
        let parts: Option<Vec<Part>> = serde_json::from_value(payload.0.clone()).with_context(failed)?;
        if self.applied < Some(checkpoint) {
            let transaction = begin(&mut self.database).with_context(failed)?;
            for part in parts.unwrap_or_default().iter().filter(|part| Some(part.checkpoint) > self.applied) {
                staged::move_part(&transaction, part, &self.ledger, &self.table).with_context(failed)?;
            }
            self.ledger.set_applied(&transaction, checkpoint).with_context(failed)?;
            transaction.commit().with_context(failed)?;
            self.applied = Some(checkpoint);
        }
        self.staged.applied(checkpoint, &self.database, &self.ledger).with_context(failed)
    }

    fn applied(&mut self) -> anyhow::Result<Option<CheckpointId>> {
        Ok(self.applied)
    }
}

#[cfg(test)]
mod tests;
