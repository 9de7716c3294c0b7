//! Rows on their way to the table: gathered in memory, stored in chunks in our staging table, moved over by `apply`.
//!
//! A chunk is rows end to end. A row is a byte (0 inserted, 1 taken back), then for each column the length of its key
//! part as LEB128 varint (0: absent) and the part.

use super::ledger::Ledger;
use super::table::Table;
use crate::sink::encode::{Chosen, Given};
use anyhow::{Context, ensure};
use dataflow::checkpoint::CheckpointId;
use dataflow::key;
use dataflow::record::{Batch, Change, Value};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// Version of payloads and of the chunks they name. This program reads no other.
pub(super) const VERSION: u32 = 1;

/// A chunk is stored when it has grown to about so much.
const CHUNK_BYTES: usize = 1 << 20;

/// The chunks of one checkpoint. A payload is a list of all parts not applied when it was made, so a checkpoint that was
/// abandoned is carried by the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) checkpoint: CheckpointId,
    /// Ids of the first and the last chunk; other sinks' chunks may lie between.
    ids: (i64, i64),
    chunks: u64,
}

/// What has been written and not yet applied.
#[derive(Debug)]
pub(super) struct Staged {
    chunk: Vec<u8>,
    scratch: Vec<u8>,
    /// First id, last id and number of the chunks stored since the last seal.
    stored: Option<((i64, i64), u64)>,
    /// Sealed, not yet applied.
    waiting: Vec<Part>,
    /// What an earlier run left undecided has been removed.
    swept: bool,
}

impl Staged {
    pub(super) fn new(swept: bool) -> Self {
        Self { chunk: vec![], scratch: vec![], stored: None, waiting: vec![], swept }
    }

    /// Takes rows.
    pub(super) fn push(&mut self, batch: &Batch, columns: &[Chosen]) {
        let given = Given::of(batch, columns);
        for row in 0..batch.len() {
            self.chunk.push(u8::from(batch.change(row) == Change::Retract));
            for column in columns {
                self.scratch.clear();
                let text = given.get(row, column.position).map(Value::Text);
                key::push_part(&mut self.scratch, text.unwrap_or_else(|| batch.columns[column.position].get(row)));
                key::push_varint(&mut self.chunk, self.scratch.len() as u64);
                self.chunk.extend_from_slice(&self.scratch);
            }
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.chunk.len() >= CHUNK_BYTES
    }

    /// Stores what was gathered.
    pub(super) fn flush(&mut self, database: &Connection, ledger: &Ledger) -> anyhow::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let id = ledger.stage(database, &self.chunk)?;
        self.chunk.clear();
        let ((first, _), chunks) = self.stored.unwrap_or(((id, id), 0));
        self.stored = Some(((first, id), chunks + 1));
        Ok(())
    }

    /// What was written since the last seal belongs to `checkpoint` and is durable; all parts that wait.
    pub(super) fn seal(
        &mut self,
        checkpoint: CheckpointId,
        database: &Connection,
        ledger: &Ledger,
    ) -> anyhow::Result<&[Part]> {
        self.flush(database, ledger)?;
        if let Some((ids, chunks)) = self.stored.take() {
            self.waiting.push(Part { checkpoint, ids, chunks });
        }
        Ok(&self.waiting)
    }

    /// `checkpoint` is in the table. The first time, what else lies staged was left by a run that died.
    pub(super) fn applied(
        &mut self,
        checkpoint: CheckpointId,
        database: &Connection,
        ledger: &Ledger,
    ) -> anyhow::Result<()> {
        self.waiting.retain(|part| part.checkpoint > checkpoint);
        if !self.swept && self.waiting.is_empty() && self.stored.is_none() {
            ledger.remove_staged(database)?;
            self.swept = true;
        }
        Ok(())
    }
}

/// Moves a part's rows into the table, within the caller's transaction.
pub(super) fn move_part(database: &Connection, part: &Part, ledger: &Ledger, table: &Table) -> anyhow::Result<()> {
    let mut writer = table.writer(database)?;
    let width = table.columns().len();
    let mut values: Vec<(usize, usize)> = Vec::with_capacity(width);
    let taken = ledger.take_staged(database, part.ids, |chunk| {
        let mut at = 0;
        while at < chunk.len() {
            let change = if chunk[at] == 1 { Change::Retract } else { Change::Insert };
            at = spans(chunk, at + 1, width, &mut values).context("a staged chunk ends within a row")?;
            writer.write(change, values.iter().map(|&(from, to)| value(&chunk[from..to])))?;
        }
        Ok(())
    })?;
    ensure!(
        taken == part.chunks,
        "checkpoint {} staged {} chunks of rows, but {taken} are there: the rest is gone",
        part.checkpoint,
        part.chunks
    );
    Ok(())
}

/// Where the row's values lie, from `at` on; the place behind it.
fn spans(chunk: &[u8], mut at: usize, width: usize, values: &mut Vec<(usize, usize)>) -> Option<usize> {
    values.clear();
    for _ in 0..width {
        let mut rest = chunk.get(at..)?;
        let length = key::take_varint(&mut rest)? as usize;
        let from = chunk.len() - rest.len();
        at = from.checked_add(length).filter(|&to| to <= chunk.len())?;
        values.push((from, at));
    }
    Some(at)
}

fn value(part: &[u8]) -> Value<'_> {
    key::parts(part).next().unwrap_or(Value::Absent)
}
