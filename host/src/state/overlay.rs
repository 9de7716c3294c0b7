//! What one call writes, kept apart from the state until the call succeeds: `commit` makes it real, `discard` forgets it.
//! Reads through the overlay see the call's earlier writes. Nothing here is ever part of a snapshot.

use super::layered::Row;
use super::{Address, NEVER, RowMeta, StateBackend, StateNumber, Visitor};
use dataflow::key::KeyGroup;
use dataflow::record::Blobs;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

/// One call's writes over a backend. Kept from call to call, for its buffers.
#[derive(Debug, Default)]
pub struct Overlay {
    /// Sorted whatever the state's access: sorted by bytes is sorted by slices too, and is as good as any order.
    tables: HashMap<(StateNumber, KeyGroup), BTreeSet<Row>>,
    /// Tables that hold rows, in the order of their first write.
    written: Vec<(StateNumber, KeyGroup)>,
    bytes: u64,
}

impl Overlay {
    fn table(&self, group: KeyGroup, state: StateNumber) -> Option<&BTreeSet<Row>> {
        if self.written.is_empty() {
            return None;
        }
        self.tables.get(&(state, group)).filter(|table| !table.is_empty())
    }

    fn insert(&mut self, at: Address<'_>, meta: RowMeta, bytes: Option<&[u8]>) {
        let place = (at.state, at.group);
        let table = self.tables.entry(place).or_default();
        if table.is_empty() {
            self.written.push(place);
        }
        self.bytes += (at.row.len() + bytes.map_or(0, <[u8]>::len)) as u64;
        table.replace(Row::new(at.row, meta, bytes));
    }

    /// As [`StateBackend::get`].
    pub fn get(&self, below: &dyn StateBackend, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        match self.table(at.group, at.state).and_then(|table| table.get(at.row)) {
            Some(row) => row.get().read(into),
            None => below.get(at, into),
        }
    }

    /// As [`StateBackend::put`].
    pub fn put(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) {
        self.insert(at, meta, Some(bytes));
    }

    /// As [`StateBackend::delete`].
    pub fn delete(&mut self, at: Address<'_>) {
        self.insert(at, RowMeta { expiry: NEVER, version: 0 }, None);
    }

    /// As [`StateBackend::scan`].
    pub fn scan(
        &self,
        below: &dyn StateBackend,
        group: KeyGroup,
        state: StateNumber,
        range: (&[u8], &[u8]),
        visit: &mut Visitor<'_>,
    ) {
        let Some(table) = self.table(group, state) else { return below.scan(group, state, range, visit) };
        let (from, to) = range;
        if !to.is_empty() && from >= to {
            return;
        }
        let end = if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) };
        let mut own = table.range::<[u8], _>((Bound::Included(from), end)).peekable();
        let mut broken = false;
        let show = |row: &Row, visit: &mut Visitor<'_>| match row.get().bytes() {
            Some(bytes) => visit(row.key(), row.get().meta(), bytes),
            None => ControlFlow::Continue(()),
        };
        below.scan(group, state, range, &mut |key, meta, bytes| {
            let mut step = || -> ControlFlow<()> {
                while let Some(row) = own.next_if(|row| row.key() < key) {
                    show(row, visit)?;
                }
                if table.contains(key) { ControlFlow::Continue(()) } else { visit(key, meta, bytes) }
            };
            let flow = step();
            broken = flow.is_break();
            flow
        });
        if !broken {
            // The rows end here, whether the visitor breaks or not.
            let _ = own.try_for_each(|row| show(row, visit));
        }
    }

    /// As [`StateBackend::delete_range`].
    pub fn delete_range(
        &mut self,
        below: &dyn StateBackend,
        group: KeyGroup,
        state: StateNumber,
        range: (&[u8], &[u8]),
    ) {
        let mut rows = Blobs::default();
        self.scan(below, group, state, range, &mut |row, _, _| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        rows.iter().for_each(|row| self.delete(Address { group, state, row }));
    }

    /// Bytes of keys and values written since the last commit or discard, overwritten ones counted again.
    pub fn bytes_written(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The call succeeded: its writes become real.
    pub fn commit(&mut self, into: &mut dyn StateBackend) {
        for &(state, group) in &self.written {
            let Some(table) = self.tables.get_mut(&(state, group)) else { continue };
            for row in table.iter().map(Row::get) {
                let at = Address { group, state, row: row.key() };
                match row.bytes() {
                    Some(bytes) => into.put(at, row.meta(), bytes),
                    None => into.delete(at),
                }
            }
            table.clear();
        }
        self.written.clear();
        self.bytes = 0;
    }

    /// The call failed: its writes vanish.
    pub fn discard(&mut self) {
        for place in self.written.drain(..) {
            if let Some(table) = self.tables.get_mut(&place) {
                table.clear();
            }
        }
        self.bytes = 0;
    }
}
