//! Values, lists and maps as plain collections, every entry with the stamp from which on it is gone.

use crate::time::{Clock, Timestamp};
use std::collections::BTreeMap;

/// How long what was written lives.
#[derive(Debug, Clone, Copy)]
pub struct Lifetime {
    /// Since it was written, ms.
    pub ms: i64,
    /// Which clock counts.
    pub clock: Clock,
    /// Reading counts as writing.
    pub renewed_by_reads: bool,
}

/// The moment at which a row is processed.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// The row's event time.
    pub row: Timestamp,
    /// The operator's watermark.
    pub watermark: Timestamp,
    /// Processing time.
    pub now: Timestamp,
}

/// Bytes and their stamp.
type Stamped = (Timestamp, Vec<u8>);

/// A value, a list and a map for each key. Nothing is ever dropped: what has expired is only not seen.
#[derive(Debug, Default)]
pub struct Kept {
    /// None: for ever.
    pub lifetime: Option<Lifetime>,
    values: BTreeMap<Vec<u8>, Stamped>,
    lists: BTreeMap<Vec<u8>, Vec<Stamped>>,
    maps: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Stamped>>,
}

impl Kept {
    /// Nothing yet.
    pub fn new(lifetime: Option<Lifetime>) -> Self {
        Self { lifetime, ..Self::default() }
    }

    fn stamp(lifetime: Option<Lifetime>, at: At) -> Timestamp {
        match lifetime {
            None => Timestamp::MAX,
            Some(Lifetime { ms, clock: Clock::EventTime, .. }) => at.row + ms,
            Some(Lifetime { ms, clock: Clock::ProcessingTime, .. }) => at.now + ms,
        }
    }

    fn lives(lifetime: Option<Lifetime>, stamp: Timestamp, at: At) -> bool {
        match lifetime.map(|lifetime| lifetime.clock) {
            None => true,
            Some(Clock::EventTime) => stamp > at.row && stamp > at.watermark,
            Some(Clock::ProcessingTime) => stamp > at.now,
        }
    }

    /// What is seen of an entry; reading may renew it.
    fn read(lifetime: Option<Lifetime>, entry: &mut Stamped, at: At) -> Vec<u8> {
        if lifetime.is_some_and(|lifetime| lifetime.renewed_by_reads) {
            entry.0 = entry.0.max(Self::stamp(lifetime, at));
        }
        entry.1.clone()
    }

    /// Sets the value.
    pub fn put_value(&mut self, key: &[u8], at: At, bytes: &[u8]) {
        self.values.insert(key.to_vec(), (Self::stamp(self.lifetime, at), bytes.to_vec()));
    }

    /// Removes the value.
    pub fn clear_value(&mut self, key: &[u8]) {
        self.values.remove(key);
    }

    /// The value.
    pub fn value(&mut self, key: &[u8], at: At) -> Option<Vec<u8>> {
        let lifetime = self.lifetime;
        let entry = self.values.get_mut(key).filter(|entry| Self::lives(lifetime, entry.0, at))?;
        Some(Self::read(lifetime, entry, at))
    }

    /// Appends to the list.
    pub fn append(&mut self, key: &[u8], at: At, bytes: &[u8]) {
        self.lists.entry(key.to_vec()).or_default().push((Self::stamp(self.lifetime, at), bytes.to_vec()));
    }

    /// Keeps the last `keep` living items, and what comes behind the first of them.
    pub fn truncate(&mut self, key: &[u8], at: At, keep: usize) {
        let lifetime = self.lifetime;
        let list = self.lists.entry(key.to_vec()).or_default();
        let living: Vec<usize> = (0..list.len()).filter(|&item| Self::lives(lifetime, list[item].0, at)).collect();
        let first = match living.len().checked_sub(keep) {
            None => 0,
            Some(gone) => living.get(gone).copied().unwrap_or(list.len()),
        };
        list.drain(..first);
    }

    /// Empties the list.
    pub fn clear_list(&mut self, key: &[u8]) {
        self.lists.remove(key);
    }

    /// Living items of the list.
    pub fn length(&self, key: &[u8], at: At) -> usize {
        let list = self.lists.get(key).into_iter().flatten();
        list.filter(|item| Self::lives(self.lifetime, item.0, at)).count()
    }

    /// At most `at_most` living items, from the one numbered `first` among them.
    pub fn items(&mut self, key: &[u8], at: At, first: usize, at_most: usize) -> Vec<Vec<u8>> {
        let lifetime = self.lifetime;
        let list = self.lists.entry(key.to_vec()).or_default().iter_mut();
        let living = list.filter(|item| Self::lives(lifetime, item.0, at)).skip(first).take(at_most);
        living.map(|item| Self::read(lifetime, item, at)).collect()
    }

    /// Sets an entry of the map.
    pub fn put_entry(&mut self, key: &[u8], at: At, name: &[u8], bytes: &[u8]) {
        let entry = (Self::stamp(self.lifetime, at), bytes.to_vec());
        self.maps.entry(key.to_vec()).or_default().insert(name.to_vec(), entry);
    }

    /// Removes an entry of the map.
    pub fn remove_entry(&mut self, key: &[u8], name: &[u8]) {
        self.maps.entry(key.to_vec()).or_default().remove(name);
    }

    /// Empties the map.
    pub fn clear_map(&mut self, key: &[u8]) {
        self.maps.remove(key);
    }

    /// An entry of the map.
    pub fn entry(&mut self, key: &[u8], at: At, name: &[u8]) -> Option<Vec<u8>> {
        let lifetime = self.lifetime;
        let map = self.maps.entry(key.to_vec()).or_default();
        let entry = map.get_mut(name).filter(|entry| Self::lives(lifetime, entry.0, at))?;
        Some(Self::read(lifetime, entry, at))
    }

    /// At most `at_most` living entries behind the name `after`, by name.
    pub fn entries(&mut self, key: &[u8], at: At, after: Option<&[u8]>, at_most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let lifetime = self.lifetime;
        let map = self.maps.entry(key.to_vec()).or_default().iter_mut();
        let behind = map.filter(|(name, _)| after.is_none_or(|after| name.as_slice() > after));
        let living = behind.filter(|(_, entry)| Self::lives(lifetime, entry.0, at)).take(at_most);
        living.map(|(name, entry)| (name.clone(), Self::read(lifetime, entry, at))).collect()
    }
}

#[test]
fn a_value_is_seen_while_its_stamp_lies_above_the_row_and_the_watermark() {
    let lifetime = Lifetime { ms: 10, clock: Clock::EventTime, renewed_by_reads: true };
    let at = |row, watermark| At { row, watermark, now: 0 };
    let mut kept = Kept::new(Some(lifetime));
    kept.put_value(b"k", at(100, 0), b"v");
    assert_eq!(kept.value(b"k", at(110, 0)), None);
    assert_eq!(kept.value(b"k", at(90, 110)), None);
    assert_eq!(kept.value(b"k", at(109, 109)), Some(b"v".to_vec())); // and now it lives until 119
    assert_eq!(kept.value(b"k", at(118, 118)), Some(b"v".to_vec()));
    assert_eq!(kept.value(b"k", at(128, 0)), None);
}
