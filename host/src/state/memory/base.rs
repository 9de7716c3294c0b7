//! Everything the task remembers but what was written last: tables by state and key group, each behind its own lock. The
//! task only reads it; the background thread alone writes, a few hundred rows at a time, so that no read waits long.

use super::layer::Layer;
use super::table::{Probe, Table};
use crate::state::{Access, RowMeta, StateDeclaration, StateNumber};
use dataflow::key::KeyGroup;
use dataflow::time::{Clock, START, Timestamp};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Rows applied under one taking of a lock.
const APPLY_ROWS: usize = 256;

/// What time it is on each clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    pub(super) watermark: Timestamp,
    pub(super) now: Timestamp,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { watermark: START, now: START }
    }
}

impl Clocks {
    /// What the stamps of a state's rows are compared with to tell whether they have expired; none without a time to live.
    pub(super) fn of(self, ttl: Option<Clock>) -> Option<Timestamp> {
        Some(match ttl? {
            Clock::EventTime => self.watermark,
            Clock::ProcessingTime => self.now,
        })
    }
}

/// The base of one task.
#[derive(Debug)]
pub(super) struct Base {
    groups: Range<u16>,
    states: RwLock<BTreeMap<StateNumber, Arc<BaseState>>>,
    /// As they stood when the layer applied last was frozen: what a snapshot drops has expired at its own time.
    clocks: Mutex<Clocks>,
    rows: AtomicU64,
    bytes: AtomicU64,
    expired: AtomicU64,
}

/// One state's tables.
#[derive(Debug)]
pub(super) struct BaseState {
    pub(super) access: Access,
    ttl: Option<Clock>,
    shards: Vec<RwLock<Table>>,
}

impl BaseState {
    fn new(access: Access, ttl: Option<Clock>, groups: usize) -> Self {
        Self { access, ttl, shards: (0..groups).map(|_| RwLock::new(Table::new(access))).collect() }
    }

    /// A key group's table to read. A lock that a panicking thread held is read all the same: a row is never half written.
    #[inline]
    pub(super) fn read(&self, group: usize) -> RwLockReadGuard<'_, Table> {
        self.shards[group].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, group: usize) -> RwLockWriteGuard<'_, Table> {
        self.shards[group].write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Base {
    pub(super) fn new(groups: Range<u16>) -> Self {
        Self {
            groups,
            states: RwLock::default(),
            clocks: Mutex::default(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            expired: AtomicU64::new(0),
        }
    }

    pub(super) fn groups(&self) -> Range<u16> {
        self.groups.clone()
    }

    /// Tables of a state as declared; rows that were restored before the declaration move over.
    pub(super) fn register(&self, state: StateNumber, declaration: &StateDeclaration) -> Arc<BaseState> {
        let (access, ttl) = (declaration.access(), declaration.ttl.map(|ttl| ttl.clock));
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = states.get(&state).filter(|known| known.access == access && known.ttl == ttl) {
            return known.clone();
        }
        let declared = Arc::new(BaseState::new(access, ttl, self.groups.len()));
        if let Some(old) = states.insert(state, declared.clone()) {
            for group in 0..self.groups.len() {
                let mut table = declared.write(group);
                for (_, row) in old.read(group).iter() {
                    table.put(&Probe::new(access, row.key()), row.meta(), row.bytes());
                }
            }
        }
        declared
    }

    /// The states in order of their numbers.
    pub(super) fn states(&self) -> Vec<(StateNumber, Arc<BaseState>)> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|(&number, state)| (number, state.clone())).collect()
    }

    /// A state nobody has declared yet keeps its rows sorted until then.
    fn state(&self, number: StateNumber) -> Arc<BaseState> {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        let undeclared = || Arc::new(BaseState::new(Access::Ordered, None, self.groups.len()));
        states.entry(number).or_insert_with(undeclared).clone()
    }

    /// Makes a layer, frozen when the clocks stood so, part of the base; drops expired rows where the writes have outgrown
    /// the rows.
    pub(super) fn apply(&self, layer: &Layer, clocks: Clocks) {
        *self.clocks.lock().unwrap_or_else(PoisonError::into_inner) = clocks;
        for (number, group, written) in layer.tables().filter(|(_, _, written)| written.entries > 0) {
            let state = self.state(number);
            // Invariant: a state is declared before it is written to, so layer and base have the same access.
            let mut rows = written.iter().peekable();
            while rows.peek().is_some() {
                self.change(&state, group, |table| {
                    for (probe, row) in rows.by_ref().take(APPLY_ROWS) {
                        match row.bytes() {
                            Some(bytes) => table.put(&probe, row.meta(), Some(bytes)),
                            None => table.remove(&probe),
                        }
                    }
                });
            }
            let grown = {
                let table = state.read(group);
                table.writes > table.entries
            };
            if grown {
                self.sweep(&state, group);
            }
        }
    }

    /// Drops the expired rows of one table.
    pub(super) fn sweep(&self, state: &BaseState, group: usize) {
        let clocks = *self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(clock) = clocks.of(state.ttl) else { return };
        let freed = self.change(state, group, |table| table.sweep(clock));
        self.count_expired(freed);
    }

    pub(super) fn count_expired(&self, bytes: u64) {
        self.expired.fetch_add(bytes, Ordering::Relaxed);
    }

    fn change<T>(&self, state: &BaseState, group: usize, act: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = state.write(group);
        let (rows, bytes) = (table.entries, table.bytes);
        let done = act(&mut table);
        self.rows.fetch_add(table.entries.wrapping_sub(rows), Ordering::Relaxed);
        self.bytes.fetch_add(table.bytes.wrapping_sub(bytes), Ordering::Relaxed);
        done
    }

    /// A row of a snapshot's file, of a key group of the task's.
    pub(super) fn load(&self, state: StateNumber, group: KeyGroup, row: &[u8], value: Option<(RowMeta, &[u8])>) {
        let state = self.state(state);
        let probe = Probe::new(state.access, row);
        self.change(&state, usize::from(group.0 - self.groups.start), |table| match value {
            Some((meta, bytes)) => table.put(&probe, meta, Some(bytes)),
            None => table.remove(&probe),
        });
    }

    /// Rows, their bytes as stored in a file, and bytes freed by expiry, about.
    pub(super) fn sizes(&self) -> (u64, u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.rows), load(&self.bytes), load(&self.expired))
    }
}

impl BaseState {
    /// Which clock its rows expire by, if they do.
    pub(super) fn ttl(&self) -> Option<Clock> {
        self.ttl
    }
}
