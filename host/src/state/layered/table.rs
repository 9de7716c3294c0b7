//! The rows of one state and key group in one layer, in the shape that the state's access asks for. No locks, no layers.

use super::hashed::Hashed;
use super::row::{Row, RowRef, stored_size};
use crate::state::{Access, NEVER, RowMeta};
use dataflow::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// The first 8 bytes of a row: a slice's end.
pub(in crate::state) type Slice = [u8; 8];

/// Rows by access.
#[derive(Debug)]
pub(in crate::state) enum Rows {
    Point(Hashed),
    Ordered(BTreeSet<Row>),
    Sliced(BTreeMap<Slice, Hashed>),
}

/// Rows and what they weigh.
#[derive(Debug)]
pub(in crate::state) struct Table {
    pub(in crate::state) rows: Rows,
    /// Rows that are no tombstones.
    pub(in crate::state) live: u64,
    /// All rows.
    pub(in crate::state) entries: u64,
    /// Bytes of all rows as stored in a file, about.
    pub(in crate::state) bytes: u64,
    /// Writes since the last sweep.
    pub(in crate::state) writes: u64,
    /// Rows that the last sweep left.
    kept: u64,
    /// No row expires before this.
    earliest: Timestamp,
}

/// A row that is looked for, hashed once for all layers.
#[derive(Clone, Copy)]
pub(in crate::state) struct Probe<'a> {
    pub(in crate::state) row: &'a [u8],
    pub(in crate::state) hash: u64,
}

impl<'a> Probe<'a> {
    #[inline]
    pub(in crate::state) fn new(access: Access, row: &'a [u8]) -> Self {
        Self { row, hash: if access == Access::Ordered { 0 } else { hash(row) } }
    }
}

/// The slice a row lies in; a row too short for one is filled up with zeros.
#[inline]
pub(in crate::state) fn slice_of(row: &[u8]) -> Slice {
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

impl Table {
    pub(in crate::state) fn new(access: Access) -> Self {
        let rows = match access {
            Access::Point => Rows::Point(Hashed::default()),
            Access::Ordered => Rows::Ordered(BTreeSet::new()),
            Access::Sliced => Rows::Sliced(BTreeMap::new()),
        };
        Self { rows, live: 0, entries: 0, bytes: 0, writes: 0, kept: 0, earliest: NEVER }
    }

    #[inline]
    pub(in crate::state) fn get(&self, probe: &Probe<'_>) -> Option<RowRef<'_>> {
        match &self.rows {
            Rows::Point(rows) => rows.find(probe),
            Rows::Ordered(rows) => rows.get(probe.row).map(Row::get),
            Rows::Sliced(slices) => slices.get(&slice_of(probe.row))?.find(probe),
        }
    }

    /// Writes a row; without bytes a tombstone.
    pub(in crate::state) fn put(&mut self, probe: &Probe<'_>, meta: RowMeta, bytes: Option<&[u8]>) {
        self.writes += 1;
        self.earliest = self.earliest.min(meta.expiry);
        let mut weight = Weight { live: &mut self.live, entries: &mut self.entries, bytes: &mut self.bytes };
        weight.add(probe.row, bytes);
        let rows = match &mut self.rows {
            Rows::Point(rows) => rows,
            Rows::Sliced(slices) => slices.entry(slice_of(probe.row)).or_default(),
            Rows::Ordered(rows) => {
                if let Some(old) = rows.replace(Row::new(probe.row, meta, bytes)) {
                    weight.take(old.get());
                }
                return;
            }
        };
        rows.put(probe, meta, bytes, |old| weight.take(old));
    }

    /// Takes a row out, without a trace.
    pub(in crate::state) fn remove(&mut self, probe: &Probe<'_>) {
        self.writes += 1;
        let mut weight = Weight { live: &mut self.live, entries: &mut self.entries, bytes: &mut self.bytes };
        match &mut self.rows {
            Rows::Point(rows) => rows.remove(probe, |gone| weight.take(gone)),
            Rows::Ordered(rows) => {
                if let Some(gone) = rows.take(probe.row) {
                    weight.take(gone.get());
                }
            }
            Rows::Sliced(slices) => {
                let slice = slice_of(probe.row);
                let Some(rows) = slices.get_mut(&slice) else { return };
                rows.remove(probe, |gone| weight.take(gone));
                if rows.is_empty() {
                    slices.remove(&slice);
                }
            }
        }
    }

    /// All rows, tombstones too, each with the probe that finds it in any table of the same access; a sorted or sliced
    /// table's in the order of its access.
    pub(in crate::state) fn iter(&self) -> Box<dyn Iterator<Item = (Probe<'_>, RowRef<'_>)> + '_> {
        match &self.rows {
            Rows::Point(rows) => Box::new(rows.iter()),
            Rows::Ordered(rows) => Box::new(rows.iter().map(|row| (Probe { row: row.key(), hash: 0 }, row.get()))),
            Rows::Sliced(slices) => Box::new(slices.values().flat_map(Hashed::iter)),
        }
    }

    /// Whether some row may have expired.
    pub(in crate::state) fn may_have_expired(&self, clock: Timestamp) -> bool {
        self.earliest <= clock
    }

    /// Whether a sweep costs no more than the writes since the last one did: so expired rows are never many more than the others,
    /// also where each key is written once.
    pub(in crate::state) fn is_worth_a_sweep(&self, clock: Timestamp) -> bool {
        self.may_have_expired(clock) && self.writes > self.kept
    }

    /// Drops rows whose stamp lies at or below `clock`; returns their bytes.
    pub(in crate::state) fn sweep(&mut self, clock: Timestamp) -> u64 {
        let (before, mut earliest) = (self.bytes, NEVER);
        let mut weight = Weight { live: &mut self.live, entries: &mut self.entries, bytes: &mut self.bytes };
        let mut keep = |row: RowRef<'_>| {
            let keep = row.meta().expiry > clock;
            if keep {
                earliest = earliest.min(row.meta().expiry);
            } else {
                weight.take(row);
            }
            keep
        };
        match &mut self.rows {
            Rows::Point(rows) => rows.retain(keep),
            Rows::Ordered(rows) => rows.retain(|row| keep(row.get())),
            Rows::Sliced(slices) => slices.retain(|_, rows| {
                rows.retain(&mut keep);
                !rows.is_empty()
            }),
        }
        (self.writes, self.kept, self.earliest) = (0, self.entries, earliest);
        before - self.bytes
    }
}

/// A table's counters, apart from its rows.
struct Weight<'a> {
    live: &'a mut u64,
    entries: &'a mut u64,
    bytes: &'a mut u64,
}

impl Weight<'_> {
    fn add(&mut self, key: &[u8], bytes: Option<&[u8]>) {
        *self.bytes += stored_size(key, bytes);
        *self.live += u64::from(bytes.is_some());
        *self.entries += 1;
    }

    fn take(&mut self, row: RowRef<'_>) {
        *self.bytes -= row.stored_size();
        *self.live -= u64::from(!row.is_tombstone());
        *self.entries -= 1;
    }
}
