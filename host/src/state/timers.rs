//! Named timers per key, with a payload, on one clock. They are state: two rows each, so that they are found by time and by
//! name.
//!
//! ```text
//! by time   fires at i64 BE, sign flipped · due i64 BE, sign flipped · key · timer number u32 BE · tag · key length u32 BE
//!           value: payload
//! by name   key length varint · key · timer number u32 BE · tag
//!           value: fires at i64 BE · due i64 BE
//! ```
//!
//! A timer fires at its due time; but one that is set for a time its clock has reached already, as a firing timer may set
//! one, fires at the first moment after: it waits for the next advance, so no timer can keep the records from coming. The
//! rule lies in the row itself, so it holds after a restore too. What fires at one moment fires in order of due time, key,
//! number and tag.

use super::keyed::{Call, Cell, row_of};
use super::{Address, NEVER, RowMeta, StateBackend, StateDeclaration, StateKind, StateNumber};
use dataflow::key::KeyGroup;
use dataflow::record::Blobs;
use dataflow::time::{Clock, END, START, Timestamp};
use hashbrown::HashSet;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::{ControlFlow, Range};

/// Rows of a key group read at first when looking for due timers, then twice as many each time.
const CHUNK_FIRST: usize = 4;
const CHUNK_MAX: usize = 256;

/// Version of the rows above.
const VERSION: u16 = 1;

const META: RowMeta = RowMeta { expiry: NEVER, version: VERSION };

/// How far a clock has come. At the end of input no clock goes on: all that was due some day is due now, and a timer set
/// then is never due.
pub fn reached(clock: Clock, watermark: Timestamp, now: Timestamp) -> Timestamp {
    match clock {
        Clock::EventTime => watermark,
        Clock::ProcessingTime if watermark == END => END,
        Clock::ProcessingTime => now,
    }
}

/// Timers of one operator in one task, on one clock.
#[derive(Debug)]
pub struct Timers {
    clock: Clock,
    by_time: StateNumber,
    by_name: StateNumber,
    groups: Range<u16>,
    /// No timer of the group fires earlier. A cache.
    earliest: Vec<Timestamp>,
    row: Vec<u8>,
    stored: Vec<u8>,
}

/// Timers that are due, in the order in which they fire. No key twice: what one firing changes, the key's next one sees.
#[derive(Debug, Default)]
pub struct Firings {
    /// Key groups.
    pub groups: Vec<KeyGroup>,
    /// Encoded keys.
    pub keys: Blobs,
    /// Timer numbers.
    pub timers: Vec<u32>,
    /// When they were due.
    pub at: Vec<Timestamp>,
    /// Tags.
    pub tags: Blobs,
    /// Payloads.
    pub payloads: Blobs,
    fires_at: Vec<Timestamp>,
}

impl Firings {
    /// How many.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The key, at the time for which the timer was set.
    pub fn cell(&self, firing: usize) -> Cell<'_> {
        Cell { group: self.groups[firing], key: self.keys.get(firing), timestamp: self.at[firing] }
    }
}

/// The states that timers on `clock` need, in the order in which [`Timers::new`] takes their numbers.
pub fn declarations(clock: Clock) -> [StateDeclaration; 2] {
    let clock = match clock {
        Clock::EventTime => "event",
        Clock::ProcessingTime => "processing",
    };
    [("time", StateKind::TimersByTime), ("name", StateKind::TimersByName)].map(|(by, kind)| StateDeclaration {
        name: format!("timers/{clock}/{by}"),
        version: VERSION,
        kind,
        ttl: None,
    })
}

impl Timers {
    /// Timers in the states numbered `states`, of the key groups that the task owns. [`Timers::open`] follows.
    pub fn new(clock: Clock, [by_time, by_name]: [StateNumber; 2], groups: Range<u16>) -> Self {
        let earliest = vec![START; groups.len()];
        Self { clock, by_time, by_name, groups, earliest, row: vec![], stored: vec![] }
    }

    /// Looks at fresh or restored state.
    pub fn open(&mut self, state: &dyn StateBackend) {
        for (group, earliest) in self.groups.clone().zip(&mut self.earliest) {
            let mut first = Cursor::new(KeyGroup(group), self.by_time, START);
            *earliest = first.peek(state).map_or(END, |row| fires_at(&row.0));
        }
    }

    fn reached(&self, call: &Call<'_>) -> Timestamp {
        reached(self.clock, call.watermark, call.now)
    }

    fn name(&mut self, key: &[u8], timer: u32, tag: &[u8]) {
        row_of(key, &mut self.row);
        self.row.extend_from_slice(&timer.to_be_bytes());
        self.row.extend_from_slice(tag);
    }

    /// Sets a timer of the cell's key for `at`, in place of one of the same number and tag. One set at the end of event time
    /// never fires: nothing comes after.
    pub fn set(
        &mut self,
        call: &mut Call<'_>,
        cell: &Cell<'_>,
        (timer, tag): (u32, &[u8]),
        at: Timestamp,
        payload: &[u8],
    ) {
        self.remove(call, cell, (timer, tag));
        let reached = self.reached(call);
        let fires_at = if at > reached { at } else { reached.saturating_add(1) };
        if reached == END {
            return;
        }
        self.stored.clear();
        self.stored.extend_from_slice(&fires_at.to_be_bytes());
        self.stored.extend_from_slice(&at.to_be_bytes());
        self.name(cell.key, timer, tag);
        call.overlay.put(Address { group: cell.group, state: self.by_name, row: &self.row }, META, &self.stored);
        time_row((fires_at, at), cell.key, (timer, tag), &mut self.row);
        call.overlay.put(Address { group: cell.group, state: self.by_time, row: &self.row }, META, payload);
        let earliest = &mut self.earliest[usize::from(cell.group.0 - self.groups.start)];
        *earliest = fires_at.min(*earliest);
    }

    /// Removes a timer of the cell's key; nothing happens if there is none of that number and tag.
    pub fn remove(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, (timer, tag): (u32, &[u8])) {
        self.name(cell.key, timer, tag);
        self.stored.clear();
        let name = Address { group: cell.group, state: self.by_name, row: &self.row };
        if call.overlay.get(call.backend, name, &mut self.stored).is_none() {
            return;
        }
        call.overlay.delete(name);
        let time = |at: usize| {
            let bytes = self.stored[at..].first_chunk().expect("a timer's name tells two times");
            i64::from_be_bytes(*bytes)
        };
        time_row((time(0), time(8)), cell.key, (timer, tag), &mut self.row);
        call.overlay.delete(Address { group: cell.group, state: self.by_time, row: &self.row });
    }

    /// Appends the timers that are due when the clock has come to `up_to`, at most `limit` and no key twice, to `firings`;
    /// says whether more are due. They stay until [`Timers::fired`]; the call's overlay is empty.
    pub fn due(&mut self, state: &dyn StateBackend, up_to: Timestamp, limit: usize, firings: &mut Firings) -> bool {
        let mut cursors: Vec<Cursor> = vec![];
        let mut heads = BinaryHeap::new();
        for (group, earliest) in self.groups.clone().zip(&mut self.earliest) {
            if *earliest > up_to || *earliest == END && up_to != END {
                continue;
            }
            let mut cursor = Cursor::new(KeyGroup(group), self.by_time, *earliest);
            *earliest = cursor.peek(state).map_or(END, |row| fires_at(&row.0));
            if let Some(row) = cursor.next_due(state, up_to) {
                heads.push(Reverse((row, cursors.len())));
                cursors.push(cursor);
            }
        }
        let mut keys: HashSet<Vec<u8>> = HashSet::new();
        while let Some(Reverse(((row, payload), at))) = heads.pop() {
            let time = TimeRow::of(&row);
            if firings.len() >= limit || !keys.insert(time.key.to_vec()) {
                return true;
            }
            firings.groups.push(cursors[at].group);
            firings.keys.push(time.key);
            firings.timers.push(time.timer);
            firings.at.push(time.due);
            firings.tags.push(time.tag);
            firings.payloads.push(&payload);
            firings.fires_at.push(fires_at(&row));
            if let Some(next) = cursors[at].next_due(state, up_to) {
                heads.push(Reverse((next, at)));
            }
        }
        false
    }

    /// A timer has fired, or is put aside: it is no more. Comes before what the firing itself sets.
    pub fn fired(&mut self, call: &mut Call<'_>, firings: &Firings, firing: usize) {
        let (group, key) = (firings.groups[firing], firings.keys.get(firing));
        let name = (firings.timers[firing], firings.tags.get(firing));
        self.name(key, name.0, name.1);
        call.overlay.delete(Address { group, state: self.by_name, row: &self.row });
        time_row((firings.fires_at[firing], firings.at[firing]), key, name, &mut self.row);
        call.overlay.delete(Address { group, state: self.by_time, row: &self.row });
    }

    /// No timer fires before this time; none if there is no timer. It may be too early: looking for due timers then finds
    /// none, and corrects it.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.earliest.iter().copied().min().filter(|&earliest| earliest != END)
    }
}

fn flipped(time: Timestamp) -> [u8; 8] {
    (time as u64 ^ 1 << 63).to_be_bytes()
}

fn unflipped(bytes: &[u8]) -> Timestamp {
    let bytes = bytes.first_chunk().expect("a timer's row by time begins with two times");
    (u64::from_be_bytes(*bytes) ^ 1 << 63) as i64
}

fn fires_at(row: &[u8]) -> Timestamp {
    unflipped(row)
}

fn time_row(times: (Timestamp, Timestamp), key: &[u8], (timer, tag): (u32, &[u8]), row: &mut Vec<u8>) {
    row.clear();
    row.extend_from_slice(&flipped(times.0));
    row.extend_from_slice(&flipped(times.1));
    row.extend_from_slice(key);
    row.extend_from_slice(&timer.to_be_bytes());
    row.extend_from_slice(tag);
    row.extend_from_slice(&(key.len() as u32).to_be_bytes());
}

/// A row by time, taken apart.
struct TimeRow<'a> {
    due: Timestamp,
    key: &'a [u8],
    timer: u32,
    tag: &'a [u8],
}

impl<'a> TimeRow<'a> {
    fn of(row: &'a [u8]) -> Self {
        let number = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().expect("a timer's row by time is whole"));
        let (times, rest) = row.split_at(16);
        let (rest, length) = rest.split_at(rest.len() - 4);
        let (key, rest) = rest.split_at(number(length) as usize);
        Self { due: unflipped(&times[8..]), key, timer: number(rest), tag: &rest[4..] }
    }
}

/// Reads one key group's rows by time, a few at a time.
struct Cursor {
    group: KeyGroup,
    state: StateNumber,
    rows: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// First row that was not read yet.
    from: Vec<u8>,
    chunk: usize,
    ended: bool,
}

impl Cursor {
    /// Of rows that fire at `earliest` or later. Those that have fired are gone, but a backend may have to pass over what is
    /// left of them.
    fn new(group: KeyGroup, state: StateNumber, earliest: Timestamp) -> Self {
        let from = flipped(earliest).to_vec();
        Self { group, state, rows: VecDeque::new(), from, chunk: CHUNK_FIRST, ended: false }
    }

    fn peek(&mut self, state: &dyn StateBackend) -> Option<&(Vec<u8>, Vec<u8>)> {
        if self.rows.is_empty() && !self.ended {
            let (rows, chunk) = (&mut self.rows, self.chunk);
            state.scan(self.group, self.state, (&self.from, &[]), &mut |row, _, payload| {
                rows.push_back((row.to_vec(), payload.to_vec()));
                if rows.len() < chunk { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            self.ended = self.rows.len() < self.chunk;
            self.chunk = (self.chunk * 2).min(CHUNK_MAX);
            if let Some((last, _)) = self.rows.back() {
                self.from.clear();
                self.from.extend_from_slice(last);
                self.from.push(0);
            }
        }
        self.rows.front()
    }

    fn next_due(&mut self, state: &dyn StateBackend, up_to: Timestamp) -> Option<(Vec<u8>, Vec<u8>)> {
        self.peek(state).filter(|row| fires_at(&row.0) <= up_to)?;
        self.rows.pop_front()
    }
}
