//! The `state` interface: hands each call on to whoever keeps the state of the running call's rows. What it refuses traps.

use super::Host;
use crate::engine::bindings::{state, types};
use crate::engine::columns;
use crate::engine::fault::{Fault, FaultKind, MigrationError};
use dataflow::record::{Blobs, Column};
use std::any::Any;
use wasmtime::Error;

/// State as a guest reaches it during one call. `operator::guest` implements it over the call's overlay.
///
/// Contract: every number and column comes from the guest. An implementation MUST check rows, state ids, kinds, lengths and
/// types, and answer what is wrong with a [`Fault`], which ends the call.
pub trait StateCalls: Any + Send {
    /// One value per row.
    fn get(&mut self, state: u32, rows: &[u32]) -> Result<Column, Fault>;
    /// Writes; a value not present clears.
    fn put(&mut self, state: u32, rows: &[u32], values: types::Column) -> Result<(), Fault>;
    /// Removes all that the rows' keys have in the state.
    fn clear(&mut self, state: u32, rows: &[u32]) -> Result<(), Fault>;
    /// Appends items.
    fn list_append(&mut self, state: u32, rows: &[u32], items: types::Column) -> Result<(), Fault>;
    /// Items from `first` on.
    fn list_read(&mut self, state: u32, row: u32, first: u64, max: u32) -> Result<Column, Fault>;
    /// How many there are.
    fn list_length(&mut self, state: u32, row: u32) -> Result<u64, Fault>;
    /// Keeps the newest.
    fn list_truncate(&mut self, state: u32, row: u32, keep: u64) -> Result<(), Fault>;
    /// One entry per row.
    fn map_get(&mut self, state: u32, rows: &[u32], entries: types::Blobs) -> Result<Column, Fault>;
    /// Writes entries; a value not present removes.
    fn map_put(&mut self, state: u32, rows: &[u32], entries: types::Blobs, values: types::Column) -> Result<(), Fault>;
    /// Entries after `after`, in byte order.
    fn map_scan(&mut self, state: u32, row: u32, after: Option<&[u8]>, max: u32) -> Result<(Blobs, Column), Fault>;
    /// Entries of a broadcast map.
    fn broadcast_get(&mut self, state: u32, entries: types::Blobs) -> Result<Column, Fault>;
    /// Writes entries of a broadcast map.
    fn broadcast_put(&mut self, state: u32, entries: types::Blobs, values: types::Column) -> Result<(), Fault>;
    /// Entries of a broadcast map after `after`, in byte order.
    fn broadcast_scan(&mut self, state: u32, after: Option<&[u8]>, max: u32) -> Result<(Blobs, Column), Fault>;
}

impl Host {
    fn state(&mut self) -> wasmtime::Result<&mut dyn StateCalls> {
        match &mut self.state {
            Some(state) => Ok(state.as_mut()),
            None => Err(Error::msg("state can be reached only while a batch or timers are being processed")),
        }
    }
}

fn trap(fault: Fault) -> Error {
    match fault.kind {
        FaultKind::Migration => Error::new(MigrationError(fault.reason)),
        _ => Error::msg(fault.reason),
    }
}

fn scanned((names, column): (Blobs, Column)) -> (types::Blobs, types::Column) {
    (columns::lower_blobs(names), columns::lower(column))
}

impl state::Host for Host {
    fn get(&mut self, state: u32, rows: Vec<u32>) -> wasmtime::Result<types::Column> {
        self.state()?.get(state, &rows).map(columns::lower).map_err(trap)
    }

    fn put(&mut self, state: u32, rows: Vec<u32>, values: types::Column) -> wasmtime::Result<()> {
        self.state()?.put(state, &rows, values).map_err(trap)
    }

    fn clear(&mut self, state: u32, rows: Vec<u32>) -> wasmtime::Result<()> {
        self.state()?.clear(state, &rows).map_err(trap)
    }

    fn list_append(&mut self, state: u32, rows: Vec<u32>, items: types::Column) -> wasmtime::Result<()> {
        self.state()?.list_append(state, &rows, items).map_err(trap)
    }

    fn list_read(&mut self, state: u32, row: u32, first: u64, max_items: u32) -> wasmtime::Result<types::Column> {
        self.state()?.list_read(state, row, first, max_items).map(columns::lower).map_err(trap)
    }

    fn list_length(&mut self, state: u32, row: u32) -> wasmtime::Result<u64> {
        self.state()?.list_length(state, row).map_err(trap)
    }

    fn list_truncate(&mut self, state: u32, row: u32, keep_last: u64) -> wasmtime::Result<()> {
        self.state()?.list_truncate(state, row, keep_last).map_err(trap)
    }

    fn map_get(&mut self, state: u32, rows: Vec<u32>, entries: types::Blobs) -> wasmtime::Result<types::Column> {
        self.state()?.map_get(state, &rows, entries).map(columns::lower).map_err(trap)
    }

    fn map_put(
        &mut self,
        state: u32,
        rows: Vec<u32>,
        entries: types::Blobs,
        values: types::Column,
    ) -> wasmtime::Result<()> {
        self.state()?.map_put(state, &rows, entries, values).map_err(trap)
    }

    fn map_scan(
        &mut self,
        state: u32,
        row: u32,
        after: Option<Vec<u8>>,
        max_items: u32,
    ) -> wasmtime::Result<(types::Blobs, types::Column)> {
        self.state()?.map_scan(state, row, after.as_deref(), max_items).map(scanned).map_err(trap)
    }

    fn broadcast_get(&mut self, state: u32, entries: types::Blobs) -> wasmtime::Result<types::Column> {
        self.state()?.broadcast_get(state, entries).map(columns::lower).map_err(trap)
    }

    fn broadcast_put(&mut self, state: u32, entries: types::Blobs, values: types::Column) -> wasmtime::Result<()> {
        self.state()?.broadcast_put(state, entries, values).map_err(trap)
    }

    fn broadcast_scan(
        &mut self,
        state: u32,
        after: Option<Vec<u8>>,
        max_items: u32,
    ) -> wasmtime::Result<(types::Blobs, types::Column)> {
        self.state()?.broadcast_scan(state, after.as_deref(), max_items).map(scanned).map_err(trap)
    }
}
