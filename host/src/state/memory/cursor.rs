//! Walks over a table of the base: copies rows out in chunks, so that no lock is held while a visitor runs.

use super::base::BaseState;
use crate::state::layered::{self, Row, Rows, Slice, Span, copy, range, slice_of};
use crate::state::{Access, RowMeta};
use std::ops::Bound;

/// Rows copied from a sorted table at first, then twice as many each time.
const CHUNK_FIRST: usize = 16;
const CHUNK_MAX: usize = 1024;

/// See the module. A table that is hashed is copied whole, or slice by slice.
pub(in crate::state) struct Cursor<'a> {
    state: &'a BaseState,
    span: &'a Span<'a>,
    rows: std::vec::IntoIter<Row>,
    /// The last row, or its slice, that was copied.
    last: Option<Vec<u8>>,
    chunk: usize,
    ended: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(state: &'a BaseState, span: &'a Span<'a>) -> Self {
        Self { state, span, rows: vec![].into_iter(), last: None, chunk: CHUNK_FIRST, ended: false }
    }

    fn fill(&mut self) {
        let rows = match self.span.access {
            Access::Ordered => self.sorted(),
            Access::Sliced => self.slice(),
            Access::Point => {
                self.ended = true;
                let table = self.state.read(self.span.index);
                let Rows::Point(rows) = &table.rows else { return };
                copy(rows, |row| self.span.holds(row.key()))
            }
        };
        self.rows = rows.into_iter();
    }

    fn sorted(&mut self) -> Vec<Row> {
        let (from, to) = self.span.range;
        let start = self.last.as_deref().map_or(Bound::Included(from), Bound::Excluded);
        let table = self.state.read(self.span.index);
        let Rows::Ordered(rows) = &table.rows else { return vec![] };
        let rows: Vec<Row> = range(rows, start, to).into_iter().flatten().take(self.chunk).cloned().collect();
        self.ended = rows.len() < self.chunk;
        self.chunk = (self.chunk * 2).min(CHUNK_MAX);
        self.last = rows.last().map(|row| row.key().to_vec());
        rows
    }

    fn slice(&mut self) -> Vec<Row> {
        let (from, to) = self.span.range;
        let start =
            self.last.as_deref().map_or(Bound::Included(slice_of(from)), |last| Bound::Excluded(slice_of(last)));
        let table = self.state.read(self.span.index);
        let Rows::Sliced(slices) = &table.rows else { return vec![] };
        let within = |slice: &Slice| to.is_empty() || *slice <= slice_of(to);
        let next = slices.range((start, Bound::Unbounded)).next().filter(|(slice, _)| within(slice));
        let Some((slice, rows)) = next else {
            self.ended = true;
            return vec![];
        };
        self.last = Some(slice.to_vec());
        copy(rows, |row| self.span.holds(row.key()))
    }
}

impl layered::Cursor for Cursor<'_> {
    fn peek(&mut self) -> Option<(&[u8], RowMeta, &[u8])> {
        while self.rows.as_slice().is_empty() && !self.ended {
            self.fill();
        }
        let row = self.rows.as_slice().first()?.get();
        Some((row.key(), row.meta(), row.bytes()?))
    }

    fn advance(&mut self) {
        self.rows.next();
    }
}
