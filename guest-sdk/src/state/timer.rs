//! Timers: a row asks to be called again, at an event time or a processing time. The host keeps them; they are state.

use crate::bindings::types::{Clock, TimerChanges, TimerDeclaration};
use crate::declare::{Handle, Registry};
use crate::input::{no_blobs, push_blob};
use crate::{Bad, Scope, Timestamp};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// A timer of the row's key. Declare its clock: `#[event_time]` fires when the watermark reaches the time,
/// `#[processing_time]` when the clock does. Tags make several timers of it, each set and cleared by itself.
pub struct Timer {
    id: u32,
}

impl Timer {
    /// Calls `on_timer` at this time, in place of what was set before. A time already reached fires at the next advance.
    #[inline]
    pub fn set(&self, at: &Scope<'_>, time: Timestamp) {
        self.set_with(at, b"", time, b"");
    }

    /// Takes the timer back, if it is set.
    #[inline]
    pub fn clear(&self, at: &Scope<'_>) {
        self.clear_tagged(at, b"");
    }

    /// Sets the timer of this tag; timers of other tags stay as they are.
    pub fn set_tagged(&self, at: &Scope<'_>, tag: impl AsRef<[u8]>, time: Timestamp) {
        self.set_with(at, tag, time, b"");
    }

    /// Sets the timer of this tag, with bytes that come back when it fires.
    #[inline]
    pub fn set_with(&self, at: &Scope<'_>, tag: impl AsRef<[u8]>, time: Timestamp, payload: impl AsRef<[u8]>) {
        self.change(at, tag.as_ref(), Some(time), payload.as_ref());
    }

    /// Takes the timer of this tag back, if it is set.
    #[inline]
    pub fn clear_tagged(&self, at: &Scope<'_>, tag: impl AsRef<[u8]>) {
        self.change(at, tag.as_ref(), None, b"");
    }

    #[inline]
    fn change(&self, at: &Scope<'_>, tag: &[u8], time: Option<Timestamp>, payload: &[u8]) {
        let key = at.key_index();
        let keys = at.facts.keys.ends.len();
        let change = Change { row: at.number, timer: self.id, tag: tag.into(), at: time, payload: payload.into() };
        at.call.timers.borrow_mut().change(change, key, keys);
    }
}

/// How a [`Timer`] is declared.
#[doc(hidden)]
pub struct TimerOptions {
    pub clock: Clock,
}

impl Default for TimerOptions {
    fn default() -> Self {
        Self { clock: Clock::EventTime }
    }
}

impl Handle for Timer {
    type Options = TimerOptions;

    fn declare(registry: &mut Registry, name: &'static str, options: TimerOptions) -> Self {
        registry.timers.push(TimerDeclaration { name: name.to_owned(), clock: options.clock });
        Self { id: registry.timers.len() as u32 - 1 }
    }
}

/// A timer that is due.
#[derive(Clone, Copy)]
pub struct Fired<'a> {
    pub(crate) timer: u32,
    pub(crate) tag: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Fired<'a> {
    /// Whether it is this timer.
    pub fn is(&self, timer: &Timer) -> bool {
        self.timer == timer.id
    }

    /// The tag it was set with; empty without.
    pub fn tag(&self) -> &'a [u8] {
        self.tag
    }

    /// The bytes it was set with; empty without.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The payload, set with `serde_json::to_vec`.
    ///
    /// # Errors
    /// The payload is not JSON of this shape.
    pub fn payload_json<T: DeserializeOwned>(&self) -> Result<T, Bad> {
        Ok(serde_json::from_slice(self.payload)?)
    }
}

/// One change of a timer.
struct Change {
    row: u32,
    timer: u32,
    tag: Box<[u8]>,
    at: Option<Timestamp>,
    payload: Box<[u8]>,
}

/// The changes of timers in the running call: of each timer, the last.
#[derive(Default)]
pub(crate) struct Timers {
    changes: Vec<Change>,
    /// Where the last change of each timer and key without tag is, plus one; made at the first change.
    untagged: Vec<Vec<u32>>,
    tagged: BTreeMap<(u32, u32, Box<[u8]>), usize>,
}

impl Timers {
    pub(crate) fn new(timers: usize) -> Self {
        Self { untagged: vec![Vec::new(); timers], ..Self::default() }
    }

    fn change(&mut self, change: Change, key: usize, keys: usize) {
        let next = self.changes.len();
        let place = if change.tag.is_empty() {
            let places = &mut self.untagged[change.timer as usize];
            if places.is_empty() {
                places.resize(keys, 0);
            }
            if places[key] == 0 {
                places[key] = next as u32 + 1;
            }
            places[key] as usize - 1
        } else {
            *self.tagged.entry((change.timer, key as u32, change.tag.clone())).or_insert(next)
        };
        if place == next {
            self.changes.push(change);
        } else {
            self.changes[place] = change;
        }
    }

    /// Whether a row of this call has changed the timer: its firing no longer counts.
    pub(crate) fn overtakes(&self, timer: u32, key: u32, tag: &[u8]) -> bool {
        if tag.is_empty() {
            self.untagged[timer as usize].get(key as usize).is_some_and(|place| *place != 0)
        } else {
            !self.tagged.is_empty() && self.tagged.contains_key(&(timer, key, tag.into()))
        }
    }

    pub(crate) fn finish(self) -> TimerChanges {
        let count = self.changes.len();
        let mut all = TimerChanges {
            rows: Vec::with_capacity(count),
            timer_of: Vec::with_capacity(count),
            tags: no_blobs(),
            at: Vec::with_capacity(count),
            payloads: no_blobs(),
        };
        for change in self.changes {
            all.rows.push(change.row);
            all.timer_of.push(change.timer);
            all.at.push(change.at);
            push_blob(&mut all.tags, &change.tag);
            push_blob(&mut all.payloads, &change.payload);
        }
        all
    }
}
