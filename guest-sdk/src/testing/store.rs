//! Keyed state in memory, with the host's rule of expiry: a row sees a value while its stamp lies above the row's time and
//! the watermark (or, in processing time, above the clock).

use super::cell::Cell;
use crate::Timestamp;
use crate::bindings::types::{Clock, StateDeclaration, Ttl};
use std::collections::BTreeMap;
use std::ops::Bound;

/// When a row looks at state.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    pub(super) time: Timestamp,
    pub(super) watermark: Option<Timestamp>,
    pub(super) now: Timestamp,
}

#[derive(Clone)]
struct Kept {
    cell: Cell,
    stamp: Option<Timestamp>,
}

/// All states of an operator. A value is the entry of the empty name, an item of a list that of its number.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) states: Vec<StateDeclaration>,
    kept: BTreeMap<(u32, Vec<u8>, Vec<u8>), Kept>,
}

impl Store {
    pub(super) fn new(states: Vec<StateDeclaration>) -> Self {
        Self { states, kept: BTreeMap::new() }
    }

    fn ttl(&self, state: u32) -> Option<Ttl> {
        self.states[state as usize].ttl
    }

    pub(super) fn get(&mut self, state: u32, key: &[u8], entry: &[u8], sight: Sight) -> Option<Cell> {
        let ttl = self.ttl(state);
        let kept = self.kept.get_mut(&(state, key.to_vec(), entry.to_vec()))?;
        if !visible(ttl, kept.stamp, sight) {
            return None;
        }
        if ttl.is_some_and(|ttl| ttl.renewed_by_reads) {
            kept.stamp = stamp(ttl, sight);
        }
        Some(kept.cell.clone())
    }

    /// As the host reads for itself: without renewing anything.
    pub(super) fn peek(&self, state: u32, key: &[u8], entry: &[u8], sight: Sight) -> Option<Cell> {
        let kept = self.kept.get(&(state, key.to_vec(), entry.to_vec()))?;
        visible(self.ttl(state), kept.stamp, sight).then(|| kept.cell.clone())
    }

    /// None takes the entry away.
    pub(super) fn put(&mut self, state: u32, key: &[u8], entry: &[u8], cell: Option<Cell>, sight: Sight) {
        let place = (state, key.to_vec(), entry.to_vec());
        match cell {
            Some(cell) => {
                let stamp = stamp(self.ttl(state), sight);
                self.kept.insert(place, Kept { cell, stamp });
            }
            None => {
                self.kept.remove(&place);
            }
        }
    }

    /// Takes everything away that the key has.
    pub(super) fn clear(&mut self, state: u32, key: &[u8]) {
        self.kept.retain(|(of, whose, _), _| *of != state || whose != key);
    }

    /// Takes everything away that lies before an entry, seen or not; all there is without one.
    pub(super) fn remove_before(&mut self, state: u32, key: &[u8], first_kept: Option<&[u8]>) {
        let goes = |entry: &[u8]| first_kept.is_none_or(|kept| entry < kept);
        self.kept.retain(|(of, whose, entry), _| *of != state || whose != key || !goes(entry));
    }

    /// The entries behind `after`, in byte order.
    pub(super) fn scan(&self, state: u32, key: &[u8], after: Option<&[u8]>, sight: Sight) -> Vec<(Vec<u8>, Cell)> {
        let start = (state, key.to_vec(), after.unwrap_or_default().to_vec());
        let start = if after.is_some() { Bound::Excluded(start) } else { Bound::Included(start) };
        let mine = self.kept.range((start, Bound::Unbounded));
        mine.take_while(|((of, whose, _), _)| *of == state && whose == key)
            .filter(|(_, kept)| visible(self.ttl(state), kept.stamp, sight))
            .map(|((.., entry), kept)| (entry.clone(), kept.cell.clone()))
            .collect()
    }

    /// Adds an item behind the last.
    pub(super) fn append(&mut self, state: u32, key: &[u8], cell: Cell, sight: Sight) {
        let mine = self.kept.keys().rev().find(|(of, whose, _)| *of == state && whose == key);
        let next = mine.map_or(0, |(.., number)| u64::from_be_bytes(number[..].try_into().unwrap_or_default()) + 1);
        self.put(state, key, &next.to_be_bytes(), Some(cell), sight);
    }

    /// The keys that have anything in a state.
    pub(super) fn keys(&self, state: u32) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> =
            self.kept.keys().filter(|(of, ..)| *of == state).map(|(_, key, _)| key.clone()).collect();
        keys.dedup();
        keys
    }
}

fn stamp(ttl: Option<Ttl>, sight: Sight) -> Option<Timestamp> {
    let ttl = ttl?;
    let from = if ttl.clock == Clock::EventTime { sight.time } else { sight.now };
    Some(from.saturating_add(i64::try_from(ttl.milliseconds).unwrap_or(i64::MAX)))
}

fn visible(ttl: Option<Ttl>, stamp: Option<Timestamp>, sight: Sight) -> bool {
    let (Some(ttl), Some(stamp)) = (ttl, stamp) else { return true };
    match ttl.clock {
        Clock::EventTime => stamp > sight.time && sight.watermark.is_none_or(|watermark| stamp > watermark),
        Clock::ProcessingTime => stamp > sight.now,
    }
}
