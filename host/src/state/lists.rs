//! List states: items per key, in the order in which they were appended. Items expire one by one.
//!
//! A list is one row per item, its sequence number u64 BE behind the key, and one row without a user part that holds the
//! numbers of the first item and of the next one: appending and, without a time to live, the length take one look.

use super::keyed::{Call, Cell, Found, Keyed, end_of, row_of};
use super::{Address, RowMeta};
use dataflow::time::Timestamp;

/// A list per key.
#[derive(Debug)]
pub struct ListState {
    /// The state.
    pub keyed: Keyed,
    row: Vec<u8>,
}

/// Where a list begins and ends, and when its last item expires.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    next: u64,
    expiry: Timestamp,
}

impl ListState {
    /// Lists of `keyed`.
    pub fn new(keyed: Keyed) -> Self {
        Self { keyed, row: vec![] }
    }

    /// The list's span. It is there whatever the reader's time: it outlives every item, and numbers must not repeat
    /// while any of them can still be seen.
    fn span(&mut self, call: &Call<'_>, cell: &Cell<'_>) -> Span {
        row_of(cell.key, &mut self.row);
        let mut bytes = Vec::with_capacity(16);
        let at = Address { group: cell.group, state: self.keyed.number, row: &self.row };
        let meta = call.overlay.get(call.backend, at, &mut bytes);
        match (meta, bytes.split_first_chunk::<8>()) {
            (Some(meta), Some((first, next))) => Span {
                first: u64::from_be_bytes(*first),
                next: u64::from_be_bytes(next.try_into().expect("a list's span is two numbers")),
                expiry: meta.expiry,
            },
            _ => Span { first: 0, next: 0, expiry: Timestamp::MIN },
        }
    }

    fn write_span(&self, call: &mut Call<'_>, cell: &Cell<'_>, span: Span) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&span.first.to_be_bytes());
        bytes[8..].copy_from_slice(&span.next.to_be_bytes());
        let prefix = self.row.len();
        let at = Address { group: cell.group, state: self.keyed.number, row: &self.row[..prefix] };
        call.overlay.put(at, RowMeta { expiry: span.expiry, version: self.keyed.version }, &bytes);
    }

    /// The rows of the items numbered `from..to`; `self.row` holds the list's own.
    fn range(&self, from: u64, to: u64) -> (Vec<u8>, Vec<u8>) {
        let row = |number: u64| [&self.row[..], &number.to_be_bytes()].concat();
        (row(from), row(to))
    }

    /// Appends an item.
    pub fn append(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, item: &[u8]) {
        let span = self.span(call, cell);
        let expiry = span.expiry.max(self.keyed.meta(cell.timestamp, call.now).expiry);
        self.write_span(call, cell, Span { next: span.next + 1, expiry, ..span });
        self.row.extend_from_slice(&span.next.to_be_bytes());
        self.keyed.write(call, cell, &self.row, item);
    }

    /// Appends at most `max` of the items that are there, from number `first` (counted from 0) on, to `found`.
    pub fn read(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, first: u64, max: u64, found: &mut Found) {
        let span = self.span(call, cell);
        let (from, skip) = match self.keyed.ttl {
            None => (span.first.saturating_add(first).min(span.next), 0),
            Some(_) => (span.first, first),
        };
        let start = found.versions.len();
        let (from, to) = self.range(from, span.next);
        self.keyed.scan(call, cell, (self.row.len(), (&from, &to)), (skip, max), found);
        self.keep_span(call, cell, span, found.versions.len() > start);
    }

    /// Reads that renew items renew the span: it must outlive them.
    fn keep_span(&self, call: &mut Call<'_>, cell: &Cell<'_>, span: Span, read: bool) {
        if let Some(expiry) = self.keyed.renewed(span.expiry, cell.timestamp, call.now).filter(|_| read) {
            self.write_span(call, cell, Span { expiry, ..span });
        }
    }

    /// How many items are there. With a time to live it looks at each.
    pub fn length(&mut self, call: &mut Call<'_>, cell: &Cell<'_>) -> u64 {
        let span = self.span(call, cell);
        if self.keyed.ttl.is_none() { span.next - span.first } else { self.visible(call, cell, span).len() as u64 }
    }

    /// Numbers of the items that are there.
    fn visible(&self, call: &Call<'_>, cell: &Cell<'_>, span: Span) -> Vec<u64> {
        let (from, to) = self.range(span.first, span.next);
        let mut numbers = vec![];
        call.overlay.scan(call.backend, cell.group, self.keyed.number, (&from, &to), &mut |row, meta, _| {
            if self.keyed.sees(call, cell, meta)
                && let Some(number) = row.last_chunk()
            {
                numbers.push(u64::from_be_bytes(*number));
            }
            std::ops::ControlFlow::Continue(())
        });
        numbers
    }

    /// Removes all items but the last `keep_last`.
    pub fn truncate(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, keep_last: u64) {
        let span = self.span(call, cell);
        let first = match self.keyed.ttl {
            None => span.next.saturating_sub(keep_last).max(span.first),
            Some(_) => {
                let numbers = self.visible(call, cell, span);
                let dropped = usize::try_from(keep_last).ok().and_then(|kept| numbers.len().checked_sub(kept));
                // Of too few nothing is dropped, nor what only rows of other times can see.
                dropped.map_or(span.first, |dropped| numbers.get(dropped).copied().unwrap_or(span.next))
            }
        };
        if first > span.first {
            let (from, to) = self.range(span.first, first);
            call.overlay.delete_range(call.backend, cell.group, self.keyed.number, (&from, &to));
            self.write_span(call, cell, Span { first, ..span });
        }
    }

    /// Removes the list.
    pub fn clear(&mut self, call: &mut Call<'_>, cell: &Cell<'_>) {
        row_of(cell.key, &mut self.row);
        let end = end_of(&self.row);
        call.overlay.delete_range(call.backend, cell.group, self.keyed.number, (&self.row, &end));
    }
}
