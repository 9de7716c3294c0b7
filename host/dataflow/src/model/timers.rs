//! Timers as a plain map from their names.

use crate::time::{END, START, Timestamp};
use std::collections::BTreeMap;

/// Named timers per key on one clock.
#[derive(Debug)]
pub struct Timers {
    reached: Timestamp,
    /// By key and tag.
    set: BTreeMap<(Vec<u8>, Vec<u8>), Set>,
}

/// A timer that is set: when it fires, what it was set for, its payload.
type Set = (Timestamp, Timestamp, Vec<u8>);

/// A timer that fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// What it was set for.
    pub due: Timestamp,
    /// Its key.
    pub key: Vec<u8>,
    /// Its tag.
    pub tag: Vec<u8>,
    /// What it was set with.
    pub payload: Vec<u8>,
}

impl Default for Timers {
    fn default() -> Self {
        Self { reached: START, set: BTreeMap::new() }
    }
}

impl Timers {
    /// Sets a timer in place of the key's one of the same tag. One for a time that was reached waits for the next advance; at the end of
    /// all time there is none.
    pub fn set(&mut self, key: &[u8], tag: &[u8], due: Timestamp, payload: &[u8]) {
        self.remove(key, tag);
        if self.reached < END {
            let fires_at = due.max(self.reached.saturating_add(1));
            self.set.insert((key.to_vec(), tag.to_vec()), (fires_at, due, payload.to_vec()));
        }
    }

    /// Removes a timer, if there is one.
    pub fn remove(&mut self, key: &[u8], tag: &[u8]) {
        self.set.remove(&(key.to_vec(), tag.to_vec()));
    }

    /// The clock moves to `to`: all timers that fire on the way, in their order.
    pub fn advance(&mut self, to: Timestamp) -> Vec<Fired> {
        self.reached = to;
        let mut due: Vec<_> = self.set.iter().filter(|(_, (fires_at, ..))| *fires_at <= to).collect();
        due.sort_by_key(|((key, tag), (fires_at, due, _))| (*fires_at, *due, key.clone(), tag.clone()));
        let fired = due.into_iter().map(|((key, tag), (_, due, payload))| Fired {
            due: *due,
            key: key.clone(),
            tag: tag.clone(),
            payload: payload.clone(),
        });
        let fired = fired.collect();
        self.set.retain(|_, (fires_at, ..)| *fires_at > to);
        fired
    }

    /// When the next one fires.
    pub fn next(&self) -> Option<Timestamp> {
        self.set.values().map(|(fires_at, ..)| *fires_at).min()
    }
}

#[test]
fn worked_example() {
    let mut timers = Timers::default();
    timers.set(b"k", b"a", 10, b"1");
    timers.set(b"k", b"b", 5, b"2");
    timers.set(b"k", b"a", 7, b"3");
    let fired = |due, tag: &[u8], payload: &[u8]| Fired {
        due,
        key: b"k".to_vec(),
        tag: tag.to_vec(),
        payload: payload.to_vec(),
    };
    assert_eq!(timers.advance(7), [fired(5, b"b", b"2"), fired(7, b"a", b"3")]);
    timers.set(b"k", b"a", 3, b"4");
    assert_eq!((timers.advance(7), timers.next()), (vec![], Some(8)));
    timers.remove(b"k", b"b");
    assert_eq!(timers.advance(8), [fired(3, b"a", b"4")]);
    timers.advance(END);
    timers.set(b"k", b"a", 3, b"5");
    assert_eq!(timers.next(), None);
}
