//! Rows found by their hash. They lie end to end in chunks of memory, in the order in which they came, so that millions of
//! them cost no allocation each, are gone over without a miss of the processor's cache each, and are given back at once.

use super::row::{self, Row, RowRef};
use super::table::Probe;
use crate::state::RowMeta;
use hashbrown::HashTable;

/// A chunk grows to about this size, a row that is larger aside.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of rows that are gone, beyond as many of rows that are there, before the chunks are written anew.
const GONE_SLACK: usize = 1 << 10;

/// Where a row lies. Its hash stands beside it: a table grows, and passes over other rows, without reading them.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    chunk: u32,
    from: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::state) struct Hashed {
    slots: HashTable<Slot>,
    chunks: Vec<Vec<u8>>,
    /// Bytes in the chunks, and how many of them belong to rows that are gone.
    bytes: usize,
    gone: usize,
}

fn at(chunks: &[Vec<u8>], slot: Slot) -> RowRef<'_> {
    RowRef::first(&chunks[slot.chunk as usize][slot.from as usize..])
}

fn is(chunks: &[Vec<u8>], slot: Slot, probe: &Probe<'_>) -> bool {
    slot.hash == probe.hash && at(chunks, slot).key() == probe.row
}

impl Hashed {
    pub(in crate::state) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[inline]
    pub(in crate::state) fn find(&self, probe: &Probe<'_>) -> Option<RowRef<'_>> {
        let slot = self.slots.find(probe.hash, |slot| is(&self.chunks, *slot, probe))?;
        Some(at(&self.chunks, *slot))
    }

    /// Writes a row, without bytes a tombstone; `before` gets the one it takes the place of.
    #[inline]
    pub(in crate::state) fn put(
        &mut self,
        probe: &Probe<'_>,
        meta: RowMeta,
        bytes: Option<&[u8]>,
        before: impl FnOnce(RowRef<'_>),
    ) {
        let chunks = &mut self.chunks;
        let Some(slot) = self.slots.find_mut(probe.hash, |slot| is(chunks, *slot, probe)) else {
            let slot = self.append(probe, meta, bytes);
            self.slots.insert_unique(probe.hash, slot, |slot| slot.hash);
            return;
        };
        let old = at(chunks, *slot);
        let old_length = old.length();
        before(old);
        if old_length == row::length(probe.row, bytes) {
            row::overwrite(&mut chunks[slot.chunk as usize][slot.from as usize..], meta, bytes);
            return;
        }
        let new = append(chunks, probe, meta, bytes);
        *slot = new;
        self.bytes += row::length(probe.row, bytes);
        self.lose(old_length);
    }

    fn append(&mut self, probe: &Probe<'_>, meta: RowMeta, bytes: Option<&[u8]>) -> Slot {
        self.bytes += row::length(probe.row, bytes);
        append(&mut self.chunks, probe, meta, bytes)
    }

    /// Takes a row out; `gone` gets it.
    pub(in crate::state) fn remove(&mut self, probe: &Probe<'_>, gone: impl FnOnce(RowRef<'_>)) {
        let Ok(entry) = self.slots.find_entry(probe.hash, |slot| is(&self.chunks, *slot, probe)) else { return };
        let (slot, _) = entry.remove();
        let row = at(&self.chunks, slot);
        gone(row);
        let length = row.length();
        self.lose(length);
    }

    /// All rows in no order, each with the probe that finds it.
    pub(in crate::state) fn iter(&self) -> impl Iterator<Item = (Probe<'_>, RowRef<'_>)> {
        self.slots.iter().map(|slot| {
            let row = at(&self.chunks, *slot);
            (Probe { row: row.key(), hash: slot.hash }, row)
        })
    }

    /// Takes out the rows that are not to be kept.
    pub(in crate::state) fn retain(&mut self, mut keep: impl FnMut(RowRef<'_>) -> bool) {
        let (chunks, mut length) = (&self.chunks, 0);
        self.slots.retain(|slot| {
            let row = at(chunks, *slot);
            let kept = keep(row);
            length += if kept { 0 } else { row.length() };
            kept
        });
        if self.slots.len() < self.slots.capacity() / 4 {
            self.slots.shrink_to(self.slots.len() * 2, |slot| slot.hash);
        }
        self.lose(length);
    }

    /// So many bytes belong to no row any more; once that is most of them, the others move together.
    fn lose(&mut self, bytes: usize) {
        self.gone += bytes;
        if self.gone <= self.bytes / 2 + GONE_SLACK {
            return;
        }
        let old = std::mem::take(&mut self.chunks);
        for slot in &mut self.slots {
            let row = at(&old, *slot);
            *slot = append(&mut self.chunks, &Probe { row: row.key(), hash: slot.hash }, row.meta(), row.bytes());
        }
        self.bytes -= self.gone;
        self.gone = 0;
    }
}

fn append(chunks: &mut Vec<Vec<u8>>, probe: &Probe<'_>, meta: RowMeta, bytes: Option<&[u8]>) -> Slot {
    let length = row::length(probe.row, bytes);
    if chunks.last().is_none_or(|chunk| chunk.len() + length > CHUNK_BYTES) {
        // Why: many tables hold few rows, so the first chunk grows with them; the others are filled for sure.
        let room = if chunks.is_empty() { length } else { CHUNK_BYTES.max(length) };
        chunks.push(Vec::with_capacity(room));
    }
    let last = chunks.len() - 1;
    let from = chunks[last].len() as u32;
    row::push(&mut chunks[last], probe.row, meta, bytes);
    Slot { hash: probe.hash, chunk: last as u32, from }
}

/// The rows as a copy in allocations of their own, as far as they are wanted.
pub(in crate::state) fn copy(rows: &Hashed, wanted: impl Fn(RowRef<'_>) -> bool) -> Vec<Row> {
    rows.iter().map(|(_, row)| row).filter(|row| wanted(*row)).map(RowRef::to_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Access;

    fn probe(row: &[u8]) -> Probe<'_> {
        Probe::new(Access::Point, row)
    }

    fn meta(expiry: i64, version: u16) -> RowMeta {
        RowMeta { expiry, version }
    }

    #[test]
    fn row_gives_back_what_was_put_last_whatever_its_length_was_before() {
        let mut rows = Hashed::default();
        rows.put(&probe(b"other"), meta(0, 0), Some(b"stays"), |_| panic!("nothing was there"));
        rows.put(&probe(b"key"), meta(-5, 7), Some(b"abc"), |_| panic!("nothing was there"));
        let steps = [(1, Some(&b"xyz"[..])), (2, Some(b"longer")), (3, Some(b"")), (4, None), (5, Some(b"q"))];
        let mut last = Some(&b"abc"[..]);
        for (expiry, bytes) in steps {
            rows.put(&probe(b"key"), meta(expiry, 9), bytes, |old| assert_eq!(old.bytes(), last));
            let row = rows.find(&probe(b"key")).unwrap();
            assert_eq!((row.key(), row.meta(), row.bytes()), (&b"key"[..], meta(expiry, 9), bytes));
            last = bytes;
        }
        assert_eq!(rows.find(&probe(b"other")).unwrap().bytes(), Some(&b"stays"[..]));
    }

    #[test]
    fn space_of_rows_that_are_gone_is_given_back_and_the_others_stay() {
        let mut rows = Hashed::default();
        let key = |number: u32| number.to_be_bytes();
        for number in 0..10_000 {
            rows.put(&probe(&key(number)), meta(0, 0), Some(&[number as u8; 20]), |_| {});
        }
        // 43 bytes each: 430,000 in chunks of at most 65,536.
        assert_eq!((rows.bytes, rows.chunks.len()), (430_000, 7));
        for number in 0..9_000 {
            rows.remove(&probe(&key(number)), |row| assert_eq!(row.bytes(), Some(&[number as u8; 20][..])));
        }
        assert!(rows.bytes < 2 * 43_000 + 2 * GONE_SLACK + 43, "{} bytes are kept for 1,000 rows", rows.bytes);
        for number in 0..10_000 {
            let bytes = rows.find(&probe(&key(number))).and_then(RowRef::bytes);
            assert_eq!(bytes, (number >= 9_000).then_some(&[number as u8; 20][..]));
        }
    }
}
