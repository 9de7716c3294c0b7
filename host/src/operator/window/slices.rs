//! Which slices the task holds state for, and in which key groups: a cache that makes a watermark that fires nothing cheap. Built
//! again from the state by a skip scan.

use super::store::Store;
use crate::state::StateBackend;
use dataflow::key::KeyGroup;
use dataflow::time::Timestamp;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// Slices by end.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Those the watermark has not reached.
    pub(super) open: BTreeMap<Timestamp, Groups>,
    /// Those that have fired and wait for late records.
    pub(super) fired: BTreeMap<Timestamp, Groups>,
}

impl Slices {
    /// What the state holds, while the watermark stands at `watermark`.
    pub(super) fn found(state: &dyn StateBackend, store: &Store, groups: Range<u16>, watermark: Timestamp) -> Self {
        let mut slices = Self::default();
        for group in groups.map(KeyGroup) {
            let mut from = Timestamp::MIN;
            while let Some(end) = store.first_slice(state, group, from) {
                let set = if end <= watermark { &mut slices.fired } else { &mut slices.open };
                set.entry(end).or_default().insert(group);
                let Some(next) = end.checked_add(1) else { break };
                from = next;
            }
        }
        slices
    }

    /// The first slice after `after` that is to fire at `watermark`.
    pub(super) fn due(&self, after: Option<Timestamp>, watermark: Timestamp) -> Option<(Timestamp, &Groups)> {
        let (from, to) = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Included(watermark));
        if after.is_some_and(|after| after >= watermark) {
            return None;
        }
        self.open.range((from, to)).next().map(|(&end, groups)| (end, groups))
    }
}

/// A set of key groups.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Groups(Vec<u64>);

impl Groups {
    /// Adds a group.
    #[inline]
    pub(super) fn insert(&mut self, group: KeyGroup) {
        let word = usize::from(group.0) / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (group.0 % 64);
    }

    /// The groups, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = KeyGroup> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            (0..64u16).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| KeyGroup(word as u16 * 64 + bit))
        })
    }
}
