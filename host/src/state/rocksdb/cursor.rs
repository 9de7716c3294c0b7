//! Walks over the rows of a database in byte order, which every access allows.

use super::stored;
use crate::state::layered;
use crate::state::{RowMeta, StateLost};
use anyhow::Context;
use rocksdb::{DB, DBRawIteratorWithThreadMode};

/// See the module.
pub(in crate::state) struct Cursor<'a> {
    /// None: there is nothing.
    rows: Option<DBRawIteratorWithThreadMode<'a, DB>>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(mut rows: DBRawIteratorWithThreadMode<'a, DB>, from: &[u8]) -> Self {
        rows.seek(from);
        Self { rows: Some(rows) }
    }

    pub(super) fn empty() -> Self {
        Self { rows: None }
    }

    /// Key and value where it stands; none behind the last.
    pub(super) fn stored(&self) -> anyhow::Result<Option<(&[u8], &[u8])>> {
        let Some(rows) = &self.rows else { return Ok(None) };
        let item = rows.item();
        if item.is_none() {
            rows.status().context("a row of the state cannot be read")?;
        }
        Ok(item)
    }

    pub(super) fn next(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.next();
        }
    }
}

impl layered::Cursor for Cursor<'_> {
    fn peek(&mut self) -> Option<(&[u8], RowMeta, &[u8])> {
        let (key, value) = self.stored().unwrap_or_else(|error| StateLost::unwind(error))?;
        // Invariant: only rows are written, and `restore` has checked where they come from.
        let (meta, bytes) = stored::value(value).expect("a database holds rows only");
        Some((&key[stored::PREFIX..], meta, bytes))
    }

    fn advance(&mut self) {
        self.next();
    }
}
