//! State on demand: what a guest's `state` calls reach during one call. Reads see the call's own writes, which lie in the overlay
//! until the call has succeeded. Everything that comes in is a guest's and is checked.

use super::lift::longest;
use super::live::{Migrator, newer};
use crate::engine::bindings::types;
use crate::engine::columns::{checked, checked_blobs};
use crate::engine::description::{Description, State};
use crate::engine::host::StateCalls;
use crate::engine::{Fault, FaultKind};
use crate::state::{
    Call, Cell, Found, Keyed, ListState, MapState, Overlay, StateBackend, StateKind, ValueState, decode, encode, typed,
};
use dataflow::key::{KeyGroup, Keys};
use dataflow::record::{Blobs, Column, Value};
use dataflow::time::Timestamp;
use std::ops::Range;
use std::sync::Arc;

/// The states of an operator as its guest reaches them; kept from call to call.
pub(super) struct Session {
    description: Arc<Description>,
    stores: Vec<Store>,
    /// The task's state while a call runs, else a stand-in.
    pub(super) backend: Box<dyn StateBackend>,
    pub(super) overlay: Overlay,
    /// Keys and times of the running call's rows.
    pub(super) keys: Keys,
    pub(super) timestamps: Vec<Timestamp>,
    pub(super) watermark: Timestamp,
    pub(super) now: Timestamp,
    /// Whether the running call's input may write broadcast maps.
    pub(super) broadcast: bool,
    max_parallelism: u16,
    /// The groups of this task: a broadcast map is kept in each, so that it is there however the groups are dealt out anew.
    groups: Range<u16>,
    value_bytes_max: usize,
    migrator: Migrator,
    bytes: Vec<u8>,
}

enum Store {
    /// Rides along: not reached by calls.
    Prefetched,
    Value(ValueState),
    List(ListState),
    Map(MapState),
    Broadcast(MapState),
}

/// A value that was read: the version it was written under, and where its bytes lie.
type Seen = Option<(u16, Range<usize>)>;

fn trap(reason: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Trap, reason)
}

impl Session {
    pub(super) fn new(
        description: Arc<Description>,
        keyed: &[Keyed],
        (groups, max_parallelism): (Range<u16>, u16),
        value_bytes_max: usize,
        migrator: Migrator,
    ) -> Self {
        let stores = description.states.iter().zip(keyed).map(|(state, keyed)| match state.kind {
            StateKind::Value if state.prefetch => Store::Prefetched,
            StateKind::Value => Store::Value(ValueState::new(*keyed)),
            StateKind::List => Store::List(ListState::new(*keyed)),
            StateKind::Map => Store::Map(MapState::new(*keyed)),
            StateKind::BroadcastMap => Store::Broadcast(MapState::new(*keyed)),
            StateKind::TimersByTime | StateKind::TimersByName | StateKind::Windows => {
                unreachable!("these are the host's own, no component declares them")
            }
        });
        Self {
            stores: stores.collect(),
            description,
            backend: Box::new(super::lent::Lent),
            overlay: Overlay::default(),
            keys: Keys::default(),
            timestamps: vec![],
            watermark: 0,
            now: 0,
            broadcast: false,
            max_parallelism,
            groups,
            value_bytes_max,
            migrator,
            bytes: vec![],
        }
    }

    /// Checks a state's number and every row, and hands out what reading and writing it takes.
    fn reach(&mut self, state: u32, rows: &[u32], kinds: &[StateKind]) -> Result<Reach<'_>, Fault> {
        let Some(declared) = self.description.states.get(state as usize) else {
            return Err(trap(format!("state {state} of {}", self.description.states.len())));
        };
        let store = &mut self.stores[state as usize];
        if matches!(store, Store::Prefetched) {
            return Err(trap(format!(
                "state `{}` is prefetched: it comes with the batch and goes with the effects",
                declared.name
            )));
        }
        if !kinds.contains(&declared.kind) {
            return Err(trap(format!("state `{}` is not of the kind that this call is for", declared.name)));
        }
        if !rows.is_empty() && self.keys.of.is_empty() {
            return Err(trap(format!("state `{}` of rows that have no key", declared.name)));
        }
        if let Some(row) = rows.iter().find(|row| **row as usize >= self.keys.of.len()) {
            return Err(trap(format!("row {row} is not in this call, which has {} rows", self.keys.of.len())));
        }
        Ok(Reach {
            declared,
            id: state as usize,
            store,
            call: Call {
                backend: self.backend.as_ref(),
                overlay: &mut self.overlay,
                watermark: self.watermark,
                now: self.now,
            },
            keys: &self.keys,
            timestamps: &self.timestamps,
            max_parallelism: self.max_parallelism,
            groups: self.groups.clone(),
            value_bytes_max: self.value_bytes_max,
            migrator: &mut self.migrator,
            bytes: &mut self.bytes,
        })
    }
}

/// One state within the running call.
struct Reach<'a> {
    declared: &'a State,
    id: usize,
    store: &'a mut Store,
    call: Call<'a>,
    keys: &'a Keys,
    timestamps: &'a [Timestamp],
    max_parallelism: u16,
    groups: Range<u16>,
    value_bytes_max: usize,
    migrator: &'a mut Migrator,
    bytes: &'a mut Vec<u8>,
}

impl<'a> Reach<'a> {
    fn cell(&self, row: u32) -> Cell<'a> {
        let key = self.keys.of[row as usize] as usize;
        Cell {
            group: KeyGroup::of(self.keys.hashes[key], self.max_parallelism),
            key: self.keys.distinct.get(key),
            timestamp: self.timestamps[row as usize],
        }
    }

    /// The map's place in one of the task's groups.
    fn everywhere(&self, group: u16) -> Cell<'static> {
        // Why: it is not of a key, so it has the time of the operator: all that came before is seen.
        Cell { group: KeyGroup(group), key: &[], timestamp: self.call.watermark.max(dataflow::time::EARLIEST) }
    }

    fn values(&self, values: types::Column, rows: usize) -> Result<Column, Fault> {
        let values = checked(values, rows, self.declared.value_type)
            .map_err(|reason| trap(format!("state `{}`: {reason}", self.declared.name)))?;
        match longest(&values).filter(|&bytes| bytes > self.value_bytes_max) {
            Some(bytes) => Err(trap(format!(
                "state `{}`: a value of {bytes} bytes, more than {}",
                self.declared.name, self.value_bytes_max
            ))),
            None => Ok(values),
        }
    }

    fn entries(&self, entries: types::Blobs, rows: usize) -> Result<Blobs, Fault> {
        checked_blobs(entries, rows)
            .map_err(|reason| trap(format!("state `{}`: entries are {reason}", self.declared.name)))
    }

    /// What was read, in `self.bytes`, as a column; older values are migrated.
    fn column(&mut self, seen: &[Seen]) -> Result<Column, Fault> {
        let mut column = Column::with_capacity(self.declared.value_type, seen.len());
        for value in seen {
            match value {
                None => column.push_absent(),
                Some((version, bytes)) => {
                    let bytes = &self.bytes[bytes.clone()];
                    read(self.migrator, (self.id, self.declared), *version, bytes, &mut column)?;
                }
            }
        }
        Ok(column)
    }

    fn found(&mut self, found: &Found) -> Result<Column, Fault> {
        let mut column = Column::with_capacity(self.declared.value_type, found.versions.len());
        for (&version, bytes) in found.versions.iter().zip(found.values.iter()) {
            read(self.migrator, (self.id, self.declared), version, bytes, &mut column)?;
        }
        Ok(column)
    }
}

/// Appends one stored value to `column`, migrated if it is older.
fn read(
    migrator: &mut Migrator,
    (id, declared): (usize, &State),
    version: u16,
    bytes: &[u8],
    column: &mut Column,
) -> Result<(), Fault> {
    let name = &declared.name;
    if version > declared.version {
        return Err(newer(name, version, declared.version));
    }
    let value = if version == declared.version { decode(declared.value_type, bytes) } else { typed(bytes) };
    let Some(value) = value else {
        let reason = format!(
            "state `{name}` holds values of another type under version {version}: raise the version with the type"
        );
        return Err(Fault::new(FaultKind::Migration, reason));
    };
    if version == declared.version {
        column.push(value);
    } else {
        let after = migrator.migrate_one(id, name, version, value, declared.value_type)?;
        column.push_from(&after, 0);
    }
    Ok(())
}

const VALUE: &[StateKind] = &[StateKind::Value];
const LIST: &[StateKind] = &[StateKind::List];
const MAP: &[StateKind] = &[StateKind::Map];
const BROADCAST: &[StateKind] = &[StateKind::BroadcastMap];
const KEYED: &[StateKind] = &[StateKind::Value, StateKind::List, StateKind::Map];

/// The rule by which a store always fits: `reach` has checked the kind.
const REACHED: &str = "a state has the store of its kind";

impl StateCalls for Session {
    fn get(&mut self, state: u32, rows: &[u32]) -> Result<Column, Fault> {
        let mut at = self.reach(state, rows, VALUE)?;
        at.bytes.clear();
        let mut seen: Vec<Seen> = Vec::with_capacity(rows.len());
        for &row in rows {
            let (cell, start) = (at.cell(row), at.bytes.len());
            let Store::Value(store) = &mut *at.store else { unreachable!("{REACHED}") };
            let version = store.get(&mut at.call, &cell, at.bytes);
            seen.push(version.map(|version| (version, start..at.bytes.len())));
        }
        at.column(&seen)
    }

    fn put(&mut self, state: u32, rows: &[u32], values: types::Column) -> Result<(), Fault> {
        let mut at = self.reach(state, rows, VALUE)?;
        let values = at.values(values, rows.len())?;
        for (index, &row) in rows.iter().enumerate() {
            let cell = at.cell(row);
            let Store::Value(store) = &mut *at.store else { unreachable!("{REACHED}") };
            match values.get(index) {
                Value::Absent => store.clear(&mut at.call, &cell),
                value => {
                    at.bytes.clear();
                    encode(value, at.bytes);
                    store.put(&mut at.call, &cell, at.bytes);
                }
            }
        }
        Ok(())
    }

    fn clear(&mut self, state: u32, rows: &[u32]) -> Result<(), Fault> {
        let mut at = self.reach(state, rows, KEYED)?;
        for &row in rows {
            let cell = at.cell(row);
            match &mut *at.store {
                Store::Value(store) => store.clear(&mut at.call, &cell),
                Store::List(store) => store.clear(&mut at.call, &cell),
                Store::Map(store) => store.clear(&mut at.call, &cell),
                Store::Prefetched | Store::Broadcast(_) => unreachable!("{REACHED}"),
            }
        }
        Ok(())
    }

    fn list_append(&mut self, state: u32, rows: &[u32], items: types::Column) -> Result<(), Fault> {
        let mut at = self.reach(state, rows, LIST)?;
        let items = at.values(items, rows.len())?;
        for (index, &row) in rows.iter().enumerate() {
            let cell = at.cell(row);
            let Store::List(store) = &mut *at.store else { unreachable!("{REACHED}") };
            at.bytes.clear();
            match items.get(index) {
                Value::Absent => {
                    return Err(trap(format!("state `{}`: an item that is not present", at.declared.name)));
                }
                item => encode(item, at.bytes),
            }
            store.append(&mut at.call, &cell, at.bytes);
        }
        Ok(())
    }

    fn list_read(&mut self, state: u32, row: u32, first: u64, max: u32) -> Result<Column, Fault> {
        let mut at = self.reach(state, &[row], LIST)?;
        let (cell, mut found) = (at.cell(row), Found::default());
        let Store::List(store) = &mut *at.store else { unreachable!("{REACHED}") };
        store.read(&mut at.call, &cell, first, u64::from(max), &mut found);
        at.found(&found)
    }

    fn list_length(&mut self, state: u32, row: u32) -> Result<u64, Fault> {
        let mut at = self.reach(state, &[row], LIST)?;
        let cell = at.cell(row);
        let Store::List(store) = &mut *at.store else { unreachable!("{REACHED}") };
        Ok(store.length(&mut at.call, &cell))
    }

    fn list_truncate(&mut self, state: u32, row: u32, keep: u64) -> Result<(), Fault> {
        let mut at = self.reach(state, &[row], LIST)?;
        let cell = at.cell(row);
        let Store::List(store) = &mut *at.store else { unreachable!("{REACHED}") };
        store.truncate(&mut at.call, &cell, keep);
        Ok(())
    }

    fn map_get(&mut self, state: u32, rows: &[u32], entries: types::Blobs) -> Result<Column, Fault> {
        let mut at = self.reach(state, rows, MAP)?;
        let entries = at.entries(entries, rows.len())?;
        at.bytes.clear();
        let mut seen: Vec<Seen> = Vec::with_capacity(rows.len());
        for (&row, entry) in rows.iter().zip(entries.iter()) {
            let (cell, start) = (at.cell(row), at.bytes.len());
            let Store::Map(store) = &mut *at.store else { unreachable!("{REACHED}") };
            let version = store.get(&mut at.call, &cell, entry, at.bytes);
            seen.push(version.map(|version| (version, start..at.bytes.len())));
        }
        at.column(&seen)
    }

    fn map_put(&mut self, state: u32, rows: &[u32], entries: types::Blobs, values: types::Column) -> Result<(), Fault> {
        let mut at = self.reach(state, rows, MAP)?;
        let entries = at.entries(entries, rows.len())?;
        let values = at.values(values, rows.len())?;
        for (index, (&row, entry)) in rows.iter().zip(entries.iter()).enumerate() {
            let cell = at.cell(row);
            let Store::Map(store) = &mut *at.store else { unreachable!("{REACHED}") };
            put_entry(store, &mut at.call, &cell, entry, values.get(index), at.bytes);
        }
        Ok(())
    }

    fn map_scan(&mut self, state: u32, row: u32, after: Option<&[u8]>, max: u32) -> Result<(Blobs, Column), Fault> {
        let mut at = self.reach(state, &[row], MAP)?;
        let (cell, mut found) = (at.cell(row), Found::default());
        let Store::Map(store) = &mut *at.store else { unreachable!("{REACHED}") };
        store.scan(&mut at.call, &cell, after, u64::from(max), &mut found);
        let column = at.found(&found)?;
        Ok((found.names, column))
    }

    fn broadcast_get(&mut self, state: u32, entries: types::Blobs) -> Result<Column, Fault> {
        let mut at = self.reach(state, &[], BROADCAST)?;
        let entries = at.entries(entries.clone(), entries.ends.len())?;
        at.bytes.clear();
        let cell = at.everywhere(at.groups.start);
        let mut seen: Vec<Seen> = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            let start = at.bytes.len();
            let Store::Broadcast(store) = &mut *at.store else { unreachable!("{REACHED}") };
            let version = store.get(&mut at.call, &cell, entry, at.bytes);
            seen.push(version.map(|version| (version, start..at.bytes.len())));
        }
        at.column(&seen)
    }

    fn broadcast_put(&mut self, state: u32, entries: types::Blobs, values: types::Column) -> Result<(), Fault> {
        if !self.broadcast {
            return Err(trap("a broadcast map can be written only by rows of a broadcast input"));
        }
        let mut at = self.reach(state, &[], BROADCAST)?;
        let rows = entries.ends.len();
        let entries = at.entries(entries, rows)?;
        let values = at.values(values, rows)?;
        for group in at.groups.clone() {
            let cell = at.everywhere(group);
            for (index, entry) in entries.iter().enumerate() {
                let Store::Broadcast(store) = &mut *at.store else { unreachable!("{REACHED}") };
                put_entry(store, &mut at.call, &cell, entry, values.get(index), at.bytes);
            }
        }
        Ok(())
    }

    fn broadcast_scan(&mut self, state: u32, after: Option<&[u8]>, max: u32) -> Result<(Blobs, Column), Fault> {
        let mut at = self.reach(state, &[], BROADCAST)?;
        let (cell, mut found) = (at.everywhere(at.groups.start), Found::default());
        let Store::Broadcast(store) = &mut *at.store else { unreachable!("{REACHED}") };
        store.scan(&mut at.call, &cell, after, u64::from(max), &mut found);
        let column = at.found(&found)?;
        Ok((found.names, column))
    }
}

fn put_entry(
    store: &mut MapState,
    call: &mut Call<'_>,
    cell: &Cell<'_>,
    entry: &[u8],
    value: Value<'_>,
    bytes: &mut Vec<u8>,
) {
    match value {
        Value::Absent => store.remove(call, cell, entry),
        value => {
            bytes.clear();
            encode(value, bytes);
            store.put(call, cell, entry, bytes);
        }
    }
}
