//! A state as one call of an operator sees it: whose row it is, what time it is there, and what is visible then. Values,
//! lists, maps and timers are built on it; whoever reads below it sees rows whatever their age.
//!
//! Time to live. Event time: a row written at timestamp t is stamped t + TTL, and one who reads at timestamp r under
//! watermark W sees it while the stamp lies above both r and W. Processing time: stamped now + TTL, seen while the stamp lies
//! above now. At the end of event time, where W says nothing any more, r alone decides.

use super::{Address, NEVER, Overlay, RowMeta, StateBackend, StateDeclaration, StateNumber, Ttl};
use dataflow::key::{KeyGroup, push_varint};
use dataflow::record::Blobs;
use dataflow::time::{Clock, END, Timestamp};
use std::ops::ControlFlow;

/// What a call reads and writes state through.
pub struct Call<'a> {
    /// The task's state. Never written to during the call.
    pub backend: &'a dyn StateBackend,
    /// The call's own writes.
    pub overlay: &'a mut Overlay,
    /// The operator's watermark.
    pub watermark: Timestamp,
    /// Processing time of the call.
    pub now: Timestamp,
}

/// One key of a state, seen by a row of the call.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// Key group of the key.
    pub group: KeyGroup,
    /// The encoded key.
    pub key: &'a [u8],
    /// Event time of the row that reads or writes.
    pub timestamp: Timestamp,
}

/// What is the same for all rows of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyed {
    /// Which state.
    pub number: StateNumber,
    /// Schema version that is written.
    pub version: u16,
    /// When rows expire.
    pub ttl: Option<Ttl>,
}

impl Keyed {
    /// The state that got `number` when it was declared.
    pub fn new(number: StateNumber, declaration: &StateDeclaration) -> Self {
        Self { number, version: declaration.version, ttl: declaration.ttl }
    }

    /// The meta of a row written now.
    #[inline]
    pub fn meta(&self, timestamp: Timestamp, now: Timestamp) -> RowMeta {
        let expiry = match self.ttl {
            None => NEVER,
            Some(Ttl { ms, clock: Clock::EventTime, .. }) => timestamp.saturating_add(ms),
            Some(Ttl { ms, clock: Clock::ProcessingTime, .. }) => now.saturating_add(ms),
        };
        RowMeta { expiry, version: self.version }
    }

    /// Whether a row with this stamp is there for one who reads at `timestamp`.
    #[inline]
    pub fn visible(&self, expiry: Timestamp, timestamp: Timestamp, watermark: Timestamp, now: Timestamp) -> bool {
        if expiry == NEVER {
            return true;
        }
        match self.ttl.map(|ttl| ttl.clock) {
            None => true,
            Some(Clock::EventTime) => expiry > timestamp && (watermark == END || expiry > watermark),
            Some(Clock::ProcessingTime) => expiry > now,
        }
    }

    /// The stamp that reading gives a row, if it changes it: a read never shortens a life.
    #[inline]
    pub fn renewed(&self, expiry: Timestamp, timestamp: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let renews = self.ttl.is_some_and(|ttl| ttl.renewed_by_reads);
        let renewed = self.meta(timestamp, now).expiry;
        (renews && renewed > expiry).then_some(renewed)
    }

    pub(super) fn sees(&self, call: &Call<'_>, cell: &Cell<'_>, meta: RowMeta) -> bool {
        self.visible(meta.expiry, cell.timestamp, call.watermark, call.now)
    }

    /// Reads the visible row at `row`, renewing it if reads do. Nothing is appended if there is none.
    pub(super) fn read(&self, call: &mut Call<'_>, cell: &Cell<'_>, row: &[u8], into: &mut Vec<u8>) -> Option<u16> {
        let at = Address { group: cell.group, state: self.number, row };
        let start = into.len();
        let meta = call.overlay.get(call.backend, at, into)?;
        if !self.sees(call, cell, meta) {
            into.truncate(start);
            return None;
        }
        if let Some(expiry) = self.renewed(meta.expiry, cell.timestamp, call.now) {
            call.overlay.put(at, RowMeta { expiry, ..meta }, &into[start..]);
        }
        Some(meta.version)
    }

    pub(super) fn write(&self, call: &mut Call<'_>, cell: &Cell<'_>, row: &[u8], bytes: &[u8]) {
        let at = Address { group: cell.group, state: self.number, row };
        call.overlay.put(at, self.meta(cell.timestamp, call.now), bytes);
    }
}

/// Rows of a list or map that were read, in order.
#[derive(Debug, Default)]
pub struct Found {
    /// A map's entries; a list's sequence numbers.
    pub names: Blobs,
    /// Their values.
    pub values: Blobs,
    /// The schema version each was written under.
    pub versions: Vec<u16>,
}

impl Keyed {
    /// Appends the visible rows in `range` to `found`, without the first `skip` of them and at most `max`, and renews
    /// those it hands out if reads do. Names are what follows `prefix` bytes of the row.
    pub(super) fn scan(
        &self,
        call: &mut Call<'_>,
        cell: &Cell<'_>,
        (prefix, range): (usize, (&[u8], &[u8])),
        (mut skip, max): (u64, u64),
        found: &mut Found,
    ) {
        let start = found.versions.len();
        let mut renewed: Vec<(usize, Timestamp)> = vec![];
        if max == 0 {
            return;
        }
        call.overlay.scan(call.backend, cell.group, self.number, range, &mut |row, meta, bytes| {
            if !self.sees(call, cell, meta) {
                return ControlFlow::Continue(());
            }
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            renewed.extend(
                self.renewed(meta.expiry, cell.timestamp, call.now).map(|expiry| (found.versions.len(), expiry)),
            );
            found.names.push(&row[prefix..]);
            found.values.push(bytes);
            found.versions.push(meta.version);
            if (found.versions.len() - start) as u64 == max {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let mut row = range.0[..prefix].to_vec();
        for (at, expiry) in renewed {
            row.truncate(prefix);
            row.extend_from_slice(found.names.get(at));
            let address = Address { group: cell.group, state: self.number, row: &row };
            call.overlay.put(address, RowMeta { expiry, version: found.versions[at] }, found.values.get(at));
        }
    }
}

/// Puts the row of `key` with an empty user part into `row`: its length, and the key.
#[inline]
pub(super) fn row_of(key: &[u8], row: &mut Vec<u8>) {
    row.clear();
    push_row(key, row);
}

/// Appends the same.
#[inline]
pub(super) fn push_row(key: &[u8], row: &mut Vec<u8>) {
    push_varint(row, key.len() as u64);
    row.extend_from_slice(key);
}

/// The first row after all that begin with `prefix`; empty (no end) if there is none.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            break;
        }
        end.pop();
    }
    end
}
