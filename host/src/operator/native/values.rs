//! One value state during a call: the values of the batch's keys, read once, changed in place, written once. Whether a row
//! sees a value is judged row by row, so no batch needs cutting.

use crate::state::{Address, Keyed, RowMeta, StateBackend};
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
    row: Vec<u8>,
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
        Self { keyed, max_parallelism, slots: vec![], bytes: vec![], row: vec![] }
    }

    fn set_row(&mut self, key: &[u8]) {
        self.row.clear();
        push_varint(&mut self.row, key.len() as u64);
        self.row.extend_from_slice(key);
    }

    /// Reads the value of each distinct key.
    pub(super) fn load(&mut self, state: &dyn StateBackend, keys: &Keys) {
        self.slots.clear();
        self.bytes.clear();
        for (index, &hash) in keys.hashes.iter().enumerate() {
            self.set_row(keys.distinct.get(index));
            let from = self.bytes.len() as u32;
            let group = KeyGroup::of(hash, self.max_parallelism);
            let at = Address { group, state: self.keyed.number, row: &self.row };
            let meta = state.get(at, &mut self.bytes);
            self.slots.push(Slot { meta, from, to: self.bytes.len() as u32, changed: false });
        }
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
    pub(super) fn write(&mut self, state: &mut dyn StateBackend, keys: &Keys) {
        for (index, &hash) in keys.hashes.iter().enumerate() {
            let slot = self.slots[index];
            if !slot.changed {
                continue;
            }
            self.set_row(keys.distinct.get(index));
            let group = KeyGroup::of(hash, self.max_parallelism);
            let at = Address { group, state: self.keyed.number, row: &self.row };
            match slot.meta {
                Some(meta) => state.put(at, meta, &self.bytes[slot.from as usize..slot.to as usize]),
                None => state.delete(at),
            }
        }
    }
}
