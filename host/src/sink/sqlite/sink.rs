//! The sink's three moments as transactions: rows are staged (or written at once), a checkpoint is noted, staged rows are
//! moved over. A transaction never spans two calls.

use super::Settings;
use super::ledger::Ledger;
use super::staged::{self, Part, Staged};
use super::table::Table;
use crate::sink::{Sink, SinkInput, payload};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another program that writes to the database is waited for so long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// One connection, one table.
pub(super) struct SqliteSink {
    path: PathBuf,
    database: Connection,
    table: Table,
    ledger: Ledger,
    staged: Staged,
    applied: Option<CheckpointId>,
    immediate: bool,
}

impl SqliteSink {
    /// Makes what is not there, and checks what is.
    pub(super) fn open(settings: &Settings, input: &SinkInput) -> anyhow::Result<Self> {
        let table = Table::new(settings, input)?;
        let path = settings.path.clone();
        let mut database = connect(&path, settings.immediate)
            .with_context(|| format!("opening database `{}` for sink `{}`", path.display(), input.sink))?;
        let ledger = Ledger::new(input, &settings.table);
        let failed = || format!("preparing table `{}` of `{}`", settings.table, path.display());
        let prepared = begin(&mut database).with_context(failed)?;
        ledger.make(&prepared).with_context(failed)?;
        table.prepare(&prepared, &ledger, settings, input).with_context(failed)?;
        let applied = ledger.applied(&prepared).with_context(failed)?;
        prepared.commit().with_context(failed)?;
        table.check(&database).with_context(failed)?;
        let staged = Staged::new(input.fresh);
        let immediate = settings.immediate;
        Ok(Self { path, database, table, ledger, staged, applied, immediate })
    }
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
        payload::write(staged::VERSION, parts).with_context(failed)
    }

    fn apply(&mut self, checkpoint: CheckpointId, payload: &Payload) -> anyhow::Result<()> {
        let failed = || format!("applying checkpoint {checkpoint} to `{}`", self.path.display());
        let parts: Vec<Part> = payload::read(staged::VERSION, payload).with_context(failed)?;
        if self.applied < Some(checkpoint) {
            let transaction = begin(&mut self.database).with_context(failed)?;
            for part in parts.iter().filter(|part| Some(part.checkpoint) > self.applied) {
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
