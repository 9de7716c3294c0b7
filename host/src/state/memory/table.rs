//! The rows of one state and key group in one layer, in the shape that the state's access asks for. No locks, no layers.

use crate::state::row::Row;
use crate::state::{Access, RowMeta};
use hashbrown::HashTable;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// The first 8 bytes of a row: a slice's end.
pub(super) type Slice = [u8; 8];

/// Rows by access.
#[derive(Debug)]
pub(super) enum Rows {
    Point(HashTable<Row>),
    Ordered(BTreeSet<Row>),
    Sliced(BTreeMap<Slice, HashTable<Row>>),
}

/// Rows and what they weigh.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) rows: Rows,
    /// Rows that are no tombstones.
    pub(super) live: u64,
    /// All rows.
    pub(super) entries: u64,
    /// Bytes of all rows as stored in a file, about.
    pub(super) bytes: u64,
    /// Writes since the last sweep.
    pub(super) writes: u64,
}

/// A row that is looked for, hashed once for all layers.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) row: &'a [u8],
    hash: u64,
}

impl<'a> Probe<'a> {
    #[inline]
    pub(super) fn new(access: Access, row: &'a [u8]) -> Self {
        Self { row, hash: if access == Access::Ordered { 0 } else { hash(row) } }
    }
}

/// The slice a row lies in; a row too short for one is filled up with zeros.
#[inline]
pub(super) fn slice_of(row: &[u8]) -> Slice {
    match row.first_chunk() {
        Some(slice) => *slice,
        None => {
            let mut slice = [0; 8];
            slice[..row.len()].copy_from_slice(row);
            slice
        }
    }
}

/// Rows of one key group may agree in the low bits of this very hash, which choose the group: others choose the slot.
#[inline]
fn hash(row: &[u8]) -> u64 {
    xxh3_64(row).rotate_right(20)
}

fn rehash(row: &Row) -> u64 {
    hash(row.key())
}

#[inline]
pub(super) fn find<'a>(rows: &'a HashTable<Row>, probe: &Probe<'_>) -> Option<&'a Row> {
    rows.find(probe.hash, |row| row.key() == probe.row)
}

impl Table {
    pub(super) fn new(access: Access) -> Self {
        let rows = match access {
            Access::Point => Rows::Point(HashTable::new()),
            Access::Ordered => Rows::Ordered(BTreeSet::new()),
            Access::Sliced => Rows::Sliced(BTreeMap::new()),
        };
        Self { rows, live: 0, entries: 0, bytes: 0, writes: 0 }
    }

    #[inline]
    pub(super) fn get(&self, probe: &Probe<'_>) -> Option<&Row> {
        match &self.rows {
            Rows::Point(rows) => find(rows, probe),
            Rows::Ordered(rows) => rows.get(probe.row),
            Rows::Sliced(slices) => find(slices.get(&slice_of(probe.row))?, probe),
        }
    }

    /// Writes a row; without bytes a tombstone.
    pub(super) fn put(&mut self, probe: &Probe<'_>, meta: RowMeta, bytes: Option<&[u8]>) {
        self.writes += 1;
        let rows = match &mut self.rows {
            Rows::Point(rows) => rows,
            Rows::Sliced(slices) => slices.entry(slice_of(probe.row)).or_default(),
            Rows::Ordered(rows) => {
                let row = Row::new(probe.row, meta, bytes);
                self.bytes += row.stored_size();
                self.live += u64::from(!row.is_tombstone());
                self.entries += 1;
                if let Some(old) = rows.replace(row) {
                    self.forget(&old);
                }
                return;
            }
        };
        if let Some(row) = rows.find_mut(probe.hash, |row| row.key() == probe.row) {
            self.bytes -= row.stored_size();
            self.live -= u64::from(!row.is_tombstone());
            row.set(meta, bytes);
            self.bytes += row.stored_size();
        } else {
            let row = Row::new(probe.row, meta, bytes);
            self.bytes += row.stored_size();
            self.entries += 1;
            rows.insert_unique(probe.hash, row, rehash);
        }
        self.live += u64::from(bytes.is_some());
    }

    fn forget(&mut self, row: &Row) {
        self.bytes -= row.stored_size();
        self.live -= u64::from(!row.is_tombstone());
        self.entries -= 1;
    }

    /// Takes a row out, without a trace.
    pub(super) fn remove(&mut self, probe: &Probe<'_>) {
        self.writes += 1;
        let gone = match &mut self.rows {
            Rows::Point(rows) => remove(rows, probe),
            Rows::Ordered(rows) => rows.take(probe.row),
            Rows::Sliced(slices) => {
                let slice = slice_of(probe.row);
                let rows = slices.get_mut(&slice);
                let gone = rows.and_then(|rows| remove(rows, probe));
                if gone.is_some() && slices[&slice].is_empty() {
                    slices.remove(&slice);
                }
                gone
            }
        };
        if let Some(row) = gone {
            self.forget(&row);
        }
    }

    /// All rows, tombstones too; a sorted or sliced table's in the order of its access.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = &Row> + '_> {
        match &self.rows {
            Rows::Point(rows) => Box::new(rows.iter()),
            Rows::Ordered(rows) => Box::new(rows.iter()),
            Rows::Sliced(slices) => Box::new(slices.values().flat_map(HashTable::iter)),
        }
    }

    /// Drops rows whose stamp lies at or below `clock`; returns their bytes.
    pub(super) fn sweep(&mut self, clock: i64) -> u64 {
        let before = self.bytes;
        let (bytes, live, entries) = (&mut self.bytes, &mut self.live, &mut self.entries);
        let mut keep = |row: &Row| {
            let keep = row.meta().expiry > clock;
            if !keep {
                *bytes -= row.stored_size();
                *live -= u64::from(!row.is_tombstone());
                *entries -= 1;
            }
            keep
        };
        match &mut self.rows {
            Rows::Point(rows) => {
                rows.retain(|row| keep(row));
                if rows.len() < rows.capacity() / 4 {
                    rows.shrink_to(rows.len() * 2, rehash);
                }
            }
            Rows::Ordered(rows) => rows.retain(keep),
            Rows::Sliced(slices) => slices.retain(|_, rows| {
                rows.retain(|row| keep(row));
                !rows.is_empty()
            }),
        }
        self.writes = 0;
        before - self.bytes
    }
}

fn remove(rows: &mut HashTable<Row>, probe: &Probe<'_>) -> Option<Row> {
    rows.find_entry(probe.hash, |row| row.key() == probe.row).ok().map(|entry| entry.remove().0)
}
