//! Our own tables in the user's database: how far each sink has been applied, and what is staged. Many jobs and sinks
//! share them.

use crate::sink::SinkInput;
use anyhow::bail;
use dataflow::checkpoint::CheckpointId;
use rusqlite::{Connection, OptionalExtension, params};

/// The version of our tables. This program knows no other.
const VERSION: i64 = 1;

const VERSION_TABLE: &str = "CREATE TABLE IF NOT EXISTS _millstream_version (version INTEGER NOT NULL)";

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS _millstream_applied (
    job TEXT NOT NULL, sink TEXT NOT NULL,
    target TEXT NOT NULL,       -- the table its rows go to
    made INTEGER NOT NULL,      -- 1: the sink made that table
    checkpoint INTEGER,         -- the highest whose rows are in the table
    PRIMARY KEY (job, sink)
);
CREATE TABLE IF NOT EXISTS _millstream_staged (
    id INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used twice
    job TEXT NOT NULL, sink TEXT NOT NULL,
    rows BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS _millstream_staged_by_sink ON _millstream_staged (job, sink, id);
";

/// One sink's rows in those tables.
#[derive(Debug)]
pub(super) struct Ledger {
    job: String,
    sink: String,
    target: String,
}

impl Ledger {
    pub(super) fn new(input: &SinkInput, target: &str) -> Self {
        Self { job: input.job.clone(), sink: input.sink.clone(), target: target.to_string() }
    }

    /// Makes the tables where they are not there, and refuses those of another version.
    pub(super) fn make(&self, database: &Connection) -> anyhow::Result<()> {
        database.execute(VERSION_TABLE, ())?;
        let select = "SELECT version FROM _millstream_version";
        let found: Option<i64> = database.query_row(select, (), |row| row.get(0)).optional()?;
        match found {
            Some(VERSION) => {}
            Some(found) => bail!(
                "the tables `_millstream_…` of this database have format version {found}, this program knows {VERSION}: use the \
                 program that wrote them, or another database"
            ),
            None => {
                database.execute("INSERT INTO _millstream_version VALUES (?1)", params![VERSION])?;
            }
        }
        Ok(database.execute_batch(TABLES)?)
    }

    /// Whether this sink made its table in an earlier run.
    pub(super) fn made_target(&self, database: &Connection) -> rusqlite::Result<bool> {
        let select = "SELECT made FROM _millstream_applied WHERE job = ?1 AND sink = ?2 AND target = ?3";
        let made =
            database.query_row(select, params![self.job, self.sink, self.target], |row| row.get(0)).optional()?;
        Ok(made.unwrap_or(false))
    }

    /// Forgets what an earlier run applied and staged.
    pub(super) fn begin(&self, database: &Connection, made: bool) -> rusqlite::Result<()> {
        database.execute(
            "INSERT OR REPLACE INTO _millstream_applied (job, sink, target, made, checkpoint)
             VALUES (?1, ?2, ?3, ?4, NULL)",
            params![self.job, self.sink, self.target, made],
        )?;
        self.remove_staged(database)
    }

    /// None if nothing was applied, or if it was applied to another table.
    pub(super) fn applied(&self, database: &Connection) -> rusqlite::Result<Option<CheckpointId>> {
        let select = "SELECT checkpoint FROM _millstream_applied WHERE job = ?1 AND sink = ?2 AND target = ?3";
        let applied: Option<Option<i64>> =
            database.query_row(select, params![self.job, self.sink, self.target], |row| row.get(0)).optional()?;
        Ok(applied.flatten().map(|number| CheckpointId(number as u64)))
    }

    pub(super) fn set_applied(&self, database: &Connection, checkpoint: CheckpointId) -> rusqlite::Result<()> {
        database.execute(
            "INSERT INTO _millstream_applied (job, sink, target, made, checkpoint) VALUES (?1, ?2, ?3, 0, ?4)
             ON CONFLICT (job, sink) DO UPDATE SET
                made = made AND target = excluded.target, target = excluded.target, checkpoint = excluded.checkpoint",
            params![self.job, self.sink, self.target, checkpoint.0 as i64],
        )?;
        Ok(())
    }

    /// Stores rows under an id that is higher than any before.
    pub(super) fn stage(&self, database: &Connection, rows: &[u8]) -> rusqlite::Result<i64> {
        database
            .prepare_cached("INSERT INTO _millstream_staged (job, sink, rows) VALUES (?1, ?2, ?3)")?
            .execute(params![self.job, self.sink, rows])?;
        Ok(database.last_insert_rowid())
    }

    /// Takes out what this sink staged under ids `from..=to`, in order; answers how many there were.
    pub(super) fn take_staged(
        &self,
        database: &Connection,
        (from, to): (i64, i64),
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let within = "FROM _millstream_staged WHERE job = ?1 AND sink = ?2 AND id BETWEEN ?3 AND ?4";
        let mut select = database.prepare_cached(&format!("SELECT rows {within} ORDER BY id"))?;
        let mut found = select.query(params![self.job, self.sink, from, to])?;
        while let Some(row) = found.next()? {
            each(row.get_ref(0)?.as_blob()?)?;
        }
        drop(found);
        let taken =
            database.prepare_cached(&format!("DELETE {within}"))?.execute(params![self.job, self.sink, from, to])?;
        Ok(taken as u64)
    }

    /// Removes all that this sink staged.
    pub(super) fn remove_staged(&self, database: &Connection) -> rusqlite::Result<()> {
        database
            .prepare_cached("DELETE FROM _millstream_staged WHERE job = ?1 AND sink = ?2")?
            .execute(params![self.job, self.sink])?;
        Ok(())
    }
}
