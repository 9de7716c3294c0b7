//! One value state during a call: the values of the batch's keys, read once, changed in place, written once. Whether a row
//! sees a value is judged row by row, so no batch needs cutting.

use crate::state::{Keyed, RowKeys, RowMeta, StateBackend};
use dataflow::key::{KeyGroup, Keys, push_varint};
use dataflow::time::Timestamp;

/// The values of a call's keys in one state.
#[derive(Debug)]
pub(super) struct Values {
    keyed: Keyed,
    max_parallelism: u16,
    slots: Vec<Slot>,
    /// Bytes of all values; one that changes its length is appended.
    bytes: Vec<u8>,
    /// Where the values lie.
    rows: RowKeys,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// None: there is no value.
    meta: Option<RowMeta>,
    from: u32,
    to: u32,
    changed: bool,
}

impl Values {
    pub(super) fn new(keyed: Keyed, max_parallelism: u16) -> Self {
        Self { keyed, max_parallelism, slots: vec![], bytes: vec![], rows: RowKeys::default() }
    }

    /// Reads the value of each distinct key.
    pub(super) fn load(&mut self, state: &dyn StateBackend, keys: &Keys) {
        self.rows.clear();
        for (key, &hash) in keys.distinct.iter().zip(&keys.hashes) {
            self.rows.push(KeyGroup::of(hash, self.max_parallelism), |row| {
                push_varint(row, key.len() as u64);
                row.extend_from_slice(key);
            });
        }
        let (slots, bytes) = (&mut self.slots, &mut self.bytes);
        slots.clear();
        bytes.clear();
        state.get_many(self.keyed.number, &self.rows, &mut |_, found| {
            let from = bytes.len() as u32;
            bytes.extend_from_slice(found.map_or(&[], |(_, value)| value));
            slots.push(Slot { meta: found.map(|(meta, _)| meta), from, to: bytes.len() as u32, changed: false });
        });
    }

    /// The value of a key as a row of this time sees it.
    pub(super) fn get(
        &self,
        key: usize,
        timestamp: Timestamp,
        (watermark, now): (Timestamp, Timestamp),
    ) -> Option<&[u8]> {
        let slot = &self.slots[key];
        let seen = slot.meta.is_some_and(|meta| self.keyed.visible(meta.expiry, timestamp, watermark, now));
        seen.then(|| &self.bytes[slot.from as usize..slot.to as usize])
    }

    /// Sets the value of a key, stamped by a row of this time.
    pub(super) fn set(&mut self, key: usize, timestamp: Timestamp, now: Timestamp, value: &[u8]) {
        let meta = Some(self.keyed.meta(timestamp, now));
        let slot = self.slots[key];
        if (slot.to - slot.from) as usize == value.len() {
            self.bytes[slot.from as usize..slot.to as usize].copy_from_slice(value);
            self.slots[key] = Slot { meta, changed: true, ..slot };
            return;
        }
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.slots[key] = Slot { meta, from, to: self.bytes.len() as u32, changed: true };
    }

    /// Removes the value of a key.
    pub(super) fn clear(&mut self, key: usize) {
        self.slots[key] = Slot { meta: None, from: 0, to: 0, changed: true };
    }

    /// Writes what was changed.
    pub(super) fn write(&mut self, state: &mut dyn StateBackend) {
        for (index, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.changed) {
            let at = self.rows.address(self.keyed.number, index);
            match slot.meta {
                Some(meta) => state.put(at, meta, &self.bytes[slot.from as usize..slot.to as usize]),
                None => state.delete(at),
            }
        }
    }
}
