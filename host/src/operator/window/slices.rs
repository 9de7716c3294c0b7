//! Which slices the task holds state for, and in which key groups: a cache that makes a watermark that fires nothing cheap. Built
//! again from the state by a skip scan.

use super::store::Store;
use crate::state::StateBackend;
use dataflow::key::KeyGroup;
use dataflow::time::Timestamp;
use std::collections::BTreeMap;
use std::ops::Range;

/// Slices by end. A key group of a slice is in one of both.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Those whose panes at the window's end have not been sent.
    pub(super) open: BTreeMap<Timestamp, Groups>,
    /// Those that have fired and wait for late records; the state holds a mark for each.
    pub(super) fired: BTreeMap<Timestamp, Groups>,
}

impl Slices {
    /// What the state holds.
    pub(super) fn found(state: &dyn StateBackend, store: &Store, groups: Range<u16>) -> Self {
        let mut slices = Self::default();
        for group in groups.map(KeyGroup) {
            let mut from = Timestamp::MIN;
            while let Some(end) = store.first_slice(state, group, from) {
                let has_fired = store.has_fired(state, group, end);
                let set = if has_fired { &mut slices.fired } else { &mut slices.open };
                set.entry(end).or_default().insert(group);
                let Some(next) = end.checked_add(1) else { break };
                from = next;
            }
        }
        slices
    }

    /// The slices that are to fire at `watermark`, in time order.
    pub(super) fn due(&self, watermark: Timestamp) -> impl Iterator<Item = (Timestamp, &Groups)> {
        self.open.range(..=watermark).map(|(&end, groups)| (end, groups))
    }

    /// These groups of a slice are not open any more.
    pub(super) fn close(&mut self, end: Timestamp, groups: &Groups) {
        if let Some(open) = self.open.get_mut(&end) {
            open.remove(groups);
            if open.is_empty() {
                self.open.remove(&end);
            }
        }
    }
}

/// A set of key groups.
#[derive(Debug, Default, Clone)]
pub(super) struct Groups(Vec<u64>);

impl Groups {
    /// Adds a group; says whether it is new.
    #[inline]
    pub(super) fn insert(&mut self, group: KeyGroup) -> bool {
        let (word, bit) = (usize::from(group.0) / 64, 1 << (group.0 % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Whether a group is in it.
    pub(super) fn contains(&self, group: KeyGroup) -> bool {
        self.0.get(usize::from(group.0) / 64).is_some_and(|word| word >> (group.0 % 64) & 1 == 1)
    }

    fn remove(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word &= !other);
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many.
    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The groups, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = KeyGroup> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            (0..64u16).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| KeyGroup(word as u16 * 64 + bit))
        })
    }
}
