//! A window's rows in the state: their keys, their values, and the two ways they are reached, one by one and slice by slice.

use super::Accumulators;
use crate::state::{Address, NEVER, RowKeys, RowMeta, StateBackend, StateNumber};
use dataflow::key::KeyGroup;
use dataflow::time::Timestamp;
use std::ops::ControlFlow;

/// Reads and writes one window's state.
#[derive(Debug)]
pub(super) struct Store {
    /// The state's number.
    state: StateNumber,
    /// Version of the accumulators written.
    version: u16,
    rows: RowKeys,
    row: Vec<u8>,
    value: Vec<u8>,
}

/// What has been sent of one key in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sent {
    /// Panes so far: the index of the next.
    pub(super) panes: u32,
    /// The number counts the pane at the window's end. It does not in rows that were last written before that pane: firing
    /// marks the key group and leaves the rows alone.
    pub(super) counts_end: bool,
}

impl Sent {
    const BYTES: usize = 4;

    fn encode(self) -> [u8; Self::BYTES] {
        (self.panes << 1 | u32::from(self.counts_end)).to_le_bytes()
    }

    fn split(value: &[u8]) -> (&[u8], Self) {
        let (accumulator, bytes) = value.split_last_chunk().expect("a window's row ends with its bookkeeping");
        let number = u32::from_le_bytes(*bytes);
        (accumulator, Self { panes: number >> 1, counts_end: number & 1 == 1 })
    }
}

/// Stands where the key would: this key group of the slice has fired. No key begins with this byte.
pub(super) const FIRED: &[u8] = &[0xff];

/// The first 8 bytes of the rows of a slice.
fn prefix(end: Timestamp) -> [u8; 8] {
    (end as u64 ^ 1 << 63).to_be_bytes()
}

impl Store {
    pub(super) fn new(state: StateNumber, version: u16) -> Self {
        Self { state, version, rows: RowKeys::default(), row: vec![], value: vec![] }
    }

    /// Version of the accumulators written now.
    pub(super) fn version(&self) -> u16 {
        self.version
    }

    /// Whether a row's version is that of the accumulators written now.
    pub(super) fn is_current(&self, version: u16) -> bool {
        version == self.version
    }

    fn set_row(&mut self, end: Timestamp, key: &[u8]) {
        self.row.clear();
        self.row.extend_from_slice(&prefix(end));
        self.row.extend_from_slice(key);
    }

    /// Gets the accumulators of keys in slices, or `blank` where there is none: `loaded` is told, in order, what was sent of each
    /// and the version of its bytes, which were appended last.
    pub(super) fn load_all<'a>(
        &mut self,
        state: &dyn StateBackend,
        cells: impl Iterator<Item = (KeyGroup, Timestamp, &'a [u8])>,
        blank: &[u8],
        into: &mut Accumulators,
        mut loaded: impl FnMut(Sent, u16, &mut Accumulators),
    ) {
        self.rows.clear();
        for (group, end, key) in cells {
            self.rows.push(group, |row| {
                row.extend_from_slice(&prefix(end));
                row.extend_from_slice(key);
            });
        }
        state.get_many(self.state, &self.rows, &mut |_, found| {
            let (sent, version) = match found {
                Some((meta, value)) => {
                    let (accumulator, sent) = Sent::split(value);
                    into.bytes.push(accumulator);
                    (sent, meta.version)
                }
                None => {
                    into.bytes.push(blank);
                    (Sent::default(), self.version)
                }
            };
            into.present.push(found.is_some());
            loaded(sent, version, into);
        });
    }

    /// The same for one.
    pub(super) fn load(
        &mut self,
        state: &dyn StateBackend,
        cell: (KeyGroup, Timestamp, &[u8]),
        blank: &[u8],
        into: &mut Accumulators,
    ) -> (Sent, u16) {
        let mut found = (Sent::default(), self.version);
        self.load_all(state, std::iter::once(cell), blank, into, |sent, version, _| found = (sent, version));
        found
    }

    /// Writes the row of a key in a slice.
    pub(super) fn put(
        &mut self,
        state: &mut dyn StateBackend,
        (group, end, key): (KeyGroup, Timestamp, &[u8]),
        accumulator: &[u8],
        sent: Sent,
    ) {
        self.set_row(end, key);
        self.value.clear();
        self.value.extend_from_slice(accumulator);
        self.value.extend_from_slice(&sent.encode());
        let meta = RowMeta { expiry: NEVER, version: self.version };
        state.put(Address { group, state: self.state, row: &self.row }, meta, &self.value);
    }

    /// Marks that a key group of a slice has fired.
    pub(super) fn mark_fired(&mut self, state: &mut dyn StateBackend, group: KeyGroup, end: Timestamp) {
        self.set_row(end, FIRED);
        let meta = RowMeta { expiry: NEVER, version: self.version };
        state.put(Address { group, state: self.state, row: &self.row }, meta, &[]);
    }

    /// Whether a key group of a slice has fired.
    pub(super) fn has_fired(&self, state: &dyn StateBackend, group: KeyGroup, end: Timestamp) -> bool {
        let row = [&prefix(end), FIRED].concat();
        state.get(Address { group, state: self.state, row: &row }, &mut vec![]).is_some()
    }

    /// The first slice of a group that ends at `from` or later.
    pub(super) fn first_slice(&self, state: &dyn StateBackend, group: KeyGroup, from: Timestamp) -> Option<Timestamp> {
        let mut first = None;
        state.scan(group, self.state, (&prefix(from), &[]), &mut |row, _, _| {
            first = row.first_chunk().map(|bytes| (u64::from_be_bytes(*bytes) ^ 1 << 63) as Timestamp);
            ControlFlow::Break(())
        });
        first
    }

    /// Visits the rows of a slice in a group, in any order: key, accumulator, what was sent, version of the bytes.
    pub(super) fn scan(
        &self,
        state: &dyn StateBackend,
        group: KeyGroup,
        end: Timestamp,
        mut visit: impl FnMut(&[u8], &[u8], Sent, u16),
    ) {
        with_bounds(end, |bounds| {
            state.scan(group, self.state, bounds, &mut |row, meta, value| {
                if &row[8..] != FIRED {
                    let (accumulator, sent) = Sent::split(value);
                    visit(&row[8..], accumulator, sent, meta.version);
                }
                ControlFlow::Continue(())
            });
        });
    }

    /// Removes all rows of a slice in a group, and its mark.
    pub(super) fn free(&self, state: &mut dyn StateBackend, group: KeyGroup, end: Timestamp) {
        with_bounds(end, |bounds| state.delete_range(group, self.state, bounds));
    }
}

/// The range of a slice's rows; open above for the last slice there can be.
fn with_bounds(end: Timestamp, then: impl FnOnce((&[u8], &[u8]))) {
    match end.checked_add(1) {
        Some(next) => then((&prefix(end), &prefix(next))),
        None => then((&prefix(end), &[])),
    }
}
