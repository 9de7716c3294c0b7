//! Map states: named entries per key, in byte order. Entries expire one by one. An entry is one row, its name behind the key.

use super::Address;
use super::keyed::{Call, Cell, Found, Keyed, end_of, row_of};

/// A map per key.
#[derive(Debug)]
pub struct MapState {
    /// The state.
    pub keyed: Keyed,
    row: Vec<u8>,
}

impl MapState {
    /// Maps of `keyed`.
    pub fn new(keyed: Keyed) -> Self {
        Self { keyed, row: vec![] }
    }

    fn find(&mut self, cell: &Cell<'_>, entry: &[u8]) {
        row_of(cell.key, &mut self.row);
        self.row.extend_from_slice(entry);
    }

    /// Appends the entry's value to `into` and tells the schema version it was written under; none if there is no entry.
    pub fn get(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, entry: &[u8], into: &mut Vec<u8>) -> Option<u16> {
        self.find(cell, entry);
        self.keyed.read(call, cell, &self.row, into)
    }

    /// Writes an entry.
    pub fn put(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, entry: &[u8], value: &[u8]) {
        self.find(cell, entry);
        self.keyed.write(call, cell, &self.row, value);
    }

    /// Removes an entry.
    pub fn remove(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, entry: &[u8]) {
        self.find(cell, entry);
        call.overlay.delete(Address { group: cell.group, state: self.keyed.number, row: &self.row });
    }

    /// Appends at most `max` entries to `found`, in byte order, from the first on or from the one behind `after`.
    pub fn scan(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, after: Option<&[u8]>, max: u64, found: &mut Found) {
        row_of(cell.key, &mut self.row);
        let (prefix, end) = (self.row.len(), end_of(&self.row));
        if let Some(after) = after {
            self.row.extend_from_slice(after);
            // The first row behind any other is that with a zero more.
            self.row.push(0);
        }
        self.keyed.scan(call, cell, (prefix, (&self.row, &end)), (0, max), found);
    }

    /// Removes all entries.
    pub fn clear(&mut self, call: &mut Call<'_>, cell: &Cell<'_>) {
        row_of(cell.key, &mut self.row);
        let end = end_of(&self.row);
        call.overlay.delete_range(call.backend, cell.group, self.keyed.number, (&self.row, &end));
    }
}
