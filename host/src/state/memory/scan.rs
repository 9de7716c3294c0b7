//! One scan through all layers of a table: the newest layer that has a row decides about it. The base is copied out in
//! chunks, so that no lock is held while a visitor runs.

use super::base::BaseState;
use super::hashed::{Hashed, copy};
use super::table::{Probe, Rows, Slice, Table, slice_of};
use crate::state::Visitor;
use crate::state::row::{Row, RowRef};
use std::collections::{BTreeSet, btree_set};
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};

/// Rows copied from the base at first, then twice as many each time.
const CHUNK_FIRST: usize = 16;
const CHUNK_MAX: usize = 1024;

/// What a scan reads.
pub(super) struct Sources<'a> {
    /// Tables of the active and frozen layers, newest first.
    pub(super) newer: Vec<&'a Table>,
    pub(super) base: &'a BaseState,
    pub(super) group: usize,
    /// From, inclusive, to, exclusive; an empty end is none.
    pub(super) range: (&'a [u8], &'a [u8]),
}

fn within(row: &[u8], (from, to): (&[u8], &[u8])) -> bool {
    row >= from && (to.is_empty() || row < to)
}

/// The rows of a sorted table from `from` up to `to`. A range that ends before it begins holds nothing.
fn range<'a>(rows: &'a BTreeSet<Row>, from: Bound<&[u8]>, to: &[u8]) -> Option<btree_set::Range<'a, Row>> {
    let (Bound::Included(first) | Bound::Excluded(first)) = from else { return None };
    let end = if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) };
    (to.is_empty() || first < to).then(|| rows.range::<[u8], _>((from, end)))
}

/// A sorted table's part of a merge.
enum Sorted<'a> {
    Newer(Peekable<btree_set::Range<'a, Row>>),
    Base(BaseCursor<'a>),
}

/// Reads the base chunk by chunk.
struct BaseCursor<'a> {
    sources: &'a Sources<'a>,
    rows: std::vec::IntoIter<Row>,
    last: Vec<u8>,
    chunk: usize,
    ended: bool,
}

impl BaseCursor<'_> {
    fn peek(&mut self) -> Option<&Row> {
        if self.rows.as_slice().is_empty() && !self.ended {
            self.fill();
        }
        self.rows.as_slice().first()
    }

    fn fill(&mut self) {
        let (from, to) = self.sources.range;
        let start = if self.chunk == CHUNK_FIRST { Bound::Included(from) } else { Bound::Excluded(&*self.last) };
        let table = self.sources.base.read(self.sources.group);
        let Rows::Ordered(rows) = &table.rows else { return };
        let rows: Vec<Row> = range(rows, start, to).into_iter().flatten().take(self.chunk).cloned().collect();
        self.ended = rows.len() < self.chunk;
        self.chunk = (self.chunk * 2).min(CHUNK_MAX);
        if let Some(row) = rows.last() {
            self.last.clear();
            self.last.extend_from_slice(row.key());
        }
        self.rows = rows.into_iter();
    }
}

impl Sorted<'_> {
    fn peek(&mut self) -> Option<&Row> {
        match self {
            Self::Newer(rows) => rows.peek().copied(),
            Self::Base(cursor) => cursor.peek(),
        }
    }

    fn advance(&mut self) {
        match self {
            Self::Newer(rows) => drop(rows.next()),
            Self::Base(cursor) => drop(cursor.rows.next()),
        }
    }
}

/// In byte order.
pub(super) fn ordered(sources: &Sources<'_>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    let mut merged: Vec<Sorted<'_>> = Vec::with_capacity(sources.newer.len() + 1);
    for table in sources.newer.iter().filter(|table| table.entries > 0) {
        if let Rows::Ordered(rows) = &table.rows {
            let (from, to) = sources.range;
            merged.extend(range(rows, Bound::Included(from), to).map(|rows| Sorted::Newer(rows.peekable())));
        }
    }
    let rows = vec![].into_iter();
    merged.push(Sorted::Base(BaseCursor { sources, rows, last: vec![], chunk: CHUNK_FIRST, ended: false }));
    let mut key = Vec::new();
    loop {
        let mut first: Option<usize> = None;
        key.clear();
        for (at, source) in merged.iter_mut().enumerate() {
            if let Some(row) = source.peek()
                && (first.is_none() || row.key() < key.as_slice())
            {
                first = Some(at);
                key.clear();
                key.extend_from_slice(row.key());
            }
        }
        let Some(first) = first else { return ControlFlow::Continue(()) };
        if let Some(row) = merged[first].peek()
            && let Some(bytes) = row.get().bytes()
        {
            visit(row.key(), row.get().meta(), bytes)?;
        }
        for source in &mut merged[first..] {
            if source.peek().is_some_and(|row| row.key() == key) {
                source.advance();
            }
        }
    }
}

/// Slice by slice in order.
pub(super) fn sliced(sources: &Sources<'_>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    let (from, to) = sources.range;
    let mut next = Bound::Included(slice_of(from));
    loop {
        let first = |table: &Table| -> Option<Slice> {
            let Rows::Sliced(slices) = &table.rows else { return None };
            slices.range((next, Bound::Unbounded)).next().map(|(slice, _)| *slice)
        };
        let newer = sources.newer.iter().filter_map(|table| first(table)).min();
        let base = sources.base.read(sources.group);
        let Some(slice) = newer.into_iter().chain(first(&base)).min() else { return ControlFlow::Continue(()) };
        if !to.is_empty() && slice_of(to) < slice {
            return ControlFlow::Continue(());
        }
        let rows =
            of_slice(&base, slice).map_or_else(Vec::new, |rows| copy(rows, |row| within(row.key(), sources.range)));
        drop(base);
        let newer: Vec<_> = sources.newer.iter().filter_map(|table| of_slice(table, slice)).collect();
        merge(&newer, &rows, sources, visit)?;
        next = Bound::Excluded(slice);
    }
}

fn of_slice(table: &Table, slice: Slice) -> Option<&Hashed> {
    if let Rows::Sliced(slices) = &table.rows { slices.get(&slice) } else { None }
}

/// In no order.
pub(super) fn unordered(sources: &Sources<'_>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    fn point(table: &Table) -> Option<&Hashed> {
        if let Rows::Point(rows) = &table.rows { Some(rows) } else { None }
    }
    let newer: Vec<_> = sources.newer.iter().filter_map(|table| point(table)).collect();
    let rows = point(&sources.base.read(sources.group))
        .map_or_else(Vec::new, |rows| copy(rows, |row| within(row.key(), sources.range)));
    merge(&newer, &rows, sources, visit)
}

fn merge(newer: &[&Hashed], base: &[Row], sources: &Sources<'_>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    let mut show = |row: RowRef<'_>, above: &[&Hashed]| {
        let Some(bytes) = row.bytes().filter(|_| within(row.key(), sources.range)) else {
            return ControlFlow::Continue(());
        };
        let hidden = !above.is_empty() && {
            let probe = Probe::new(sources.base.access, row.key());
            above.iter().any(|rows| rows.find(&probe).is_some())
        };
        if hidden { ControlFlow::Continue(()) } else { visit(row.key(), row.meta(), bytes) }
    };
    for (at, rows) in newer.iter().enumerate() {
        rows.iter().try_for_each(|(_, row)| show(row, &newer[..at]))?;
    }
    base.iter().try_for_each(|row| show(row.get(), newer))
}
