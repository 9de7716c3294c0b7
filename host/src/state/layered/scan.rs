//! One scan through all layers and the base: the newest layer that has a row decides about it.

use super::hashed::Hashed;
use super::row::{Row, RowRef};
use super::table::{Probe, Rows, Slice, Table, slice_of};
use super::{Cursor, Span};
use crate::state::{Access, Visitor};
use std::collections::{BTreeSet, btree_set};
use std::ops::{Bound, ControlFlow};

/// What a scan reads.
pub(super) struct Sources<'a, C> {
    /// Tables of the active and frozen layers, newest first.
    pub(super) newer: Vec<&'a Table>,
    pub(super) base: &'a mut C,
    pub(super) span: &'a Span<'a>,
}

/// In the order of the state's access.
pub(super) fn scan<C: Cursor>(sources: Sources<'_, C>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    match sources.span.access {
        Access::Ordered => ordered(sources, visit),
        Access::Sliced => sliced(sources, visit),
        Access::Point => unordered(sources, visit),
    }
}

/// The rows of a sorted table from `from` up to `to`. A range that ends before it begins holds nothing.
pub(in crate::state) fn range<'a>(
    rows: &'a BTreeSet<Row>,
    from: Bound<&[u8]>,
    to: &[u8],
) -> Option<btree_set::Range<'a, Row>> {
    let (Bound::Included(first) | Bound::Excluded(first)) = from else { return None };
    let end = if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) };
    (to.is_empty() || first < to).then(|| rows.range::<[u8], _>((from, end)))
}

fn ordered<C: Cursor>(sources: Sources<'_, C>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    let Sources { newer, base, span } = sources;
    let (from, to) = span.range;
    let sorted = |table: &&Table| table.entries > 0;
    let mut newer: Vec<_> = newer
        .into_iter()
        .filter(sorted)
        .filter_map(|table| if let Rows::Ordered(rows) = &table.rows { Some(rows) } else { None })
        .filter_map(|rows| range(rows, Bound::Included(from), to))
        .map(Iterator::peekable)
        .collect();
    loop {
        let mut first: Option<&Row> = None;
        for rows in &mut newer {
            if let Some(row) = rows.peek().copied()
                && first.is_none_or(|first| row.key() < first.key())
            {
                first = Some(row);
            }
        }
        let below = base.peek();
        let Some(row) = first.filter(|row| below.is_none_or(|below| row.key() <= below.0)) else {
            let Some((row, meta, bytes)) = below else { return ControlFlow::Continue(()) };
            visit(row, meta, bytes)?;
            base.advance();
            continue;
        };
        let hides = below.is_some_and(|below| row.key() == below.0);
        if let Some(bytes) = row.get().bytes() {
            visit(row.key(), row.get().meta(), bytes)?;
        }
        for rows in &mut newer {
            rows.next_if(|other| other.key() == row.key());
        }
        if hides {
            base.advance();
        }
    }
}

/// Slice by slice in order.
fn sliced<C: Cursor>(sources: Sources<'_, C>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    let Sources { newer, base, span } = sources;
    let (from, to) = span.range;
    let mut next = Bound::Included(slice_of(from));
    loop {
        let first = |table: &Table| -> Option<Slice> {
            let Rows::Sliced(slices) = &table.rows else { return None };
            slices.range((next, Bound::Unbounded)).next().map(|(slice, _)| *slice)
        };
        let above = newer.iter().filter_map(|table| first(table)).min();
        let below = base.peek().map(|(row, ..)| slice_of(row));
        let Some(slice) = above.into_iter().chain(below).min() else { return ControlFlow::Continue(()) };
        if !to.is_empty() && slice_of(to) < slice {
            return ControlFlow::Continue(());
        }
        let tables: Vec<&Hashed> = newer.iter().filter_map(|table| of_slice(table, slice)).collect();
        merge(&tables, base, |row| slice_of(row) == slice, span, visit)?;
        next = Bound::Excluded(slice);
    }
}

fn of_slice(table: &Table, slice: Slice) -> Option<&Hashed> {
    if let Rows::Sliced(slices) = &table.rows { slices.get(&slice) } else { None }
}

fn point(table: &Table) -> Option<&Hashed> {
    if let Rows::Point(rows) = &table.rows { Some(rows) } else { None }
}

/// In no order.
fn unordered<C: Cursor>(sources: Sources<'_, C>, visit: &mut Visitor<'_>) -> ControlFlow<()> {
    let Sources { newer, base, span } = sources;
    let tables: Vec<&Hashed> = newer.into_iter().filter_map(point).collect();
    merge(&tables, base, |_| true, span, visit)
}

/// The tables' rows, then those of the base that no table has, as long as they are wanted.
fn merge<C: Cursor>(
    newer: &[&Hashed],
    base: &mut C,
    wanted: impl Fn(&[u8]) -> bool,
    span: &Span<'_>,
    visit: &mut Visitor<'_>,
) -> ControlFlow<()> {
    let hidden = |row: &[u8], above: &[&Hashed]| {
        !above.is_empty() && {
            let probe = Probe::new(span.access, row);
            above.iter().any(|rows| rows.find(&probe).is_some())
        }
    };
    let mut show = |row: RowRef<'_>, above: &[&Hashed]| match row.bytes().filter(|_| span.holds(row.key())) {
        Some(bytes) if !hidden(row.key(), above) => visit(row.key(), row.meta(), bytes),
        _ => ControlFlow::Continue(()),
    };
    for (at, rows) in newer.iter().enumerate() {
        rows.iter().try_for_each(|(_, row)| show(row, &newer[..at]))?;
    }
    while let Some((row, meta, bytes)) = base.peek().filter(|(row, ..)| wanted(row)) {
        if !hidden(row, newer) {
            visit(row, meta, bytes)?;
        }
        base.advance();
    }
    ControlFlow::Continue(())
}
