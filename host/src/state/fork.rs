//! A state as a fork of another: it begins with the other's rows, and costs nothing until one side is written to. Then the
//! row's value at the fork is copied first. Stands above a backend, as one itself: a job without forks has nothing of it.
//!
//! Which rows the fork has of its own, deleted ones too, is marked in a third state, one empty row each. So snapshots carry
//! all there is to it, and behind a restore the same call puts the fork back in place.

use super::layered::slice_of;
use super::{
    Access, Address, ManyVisitor, NEVER, RowKeys, RowMeta, Sizes, StateBackend, StateDeclaration, StateKind,
    StateNumber, Visitor,
};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::record::Blobs;
use dataflow::time::Timestamp;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

/// What is marks' meta.
const MARK: RowMeta = RowMeta { expiry: NEVER, version: 1 };

/// Rows of the fork's own that a scan reads ahead.
const CHUNK: usize = 64;

/// Three states of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// What was forked.
    pub from: StateNumber,
    /// The fork: a number never used before.
    pub to: StateNumber,
    /// A number never used before.
    pub marks: StateNumber,
}

/// The same states and a fork, declared as what it was forked from. Costs the same whatever the state's size; the fork stays
/// as long as the box.
pub fn forked(mut below: Box<dyn StateBackend>, fork: Fork, declaration: &StateDeclaration) -> Box<dyn StateBackend> {
    below.register(fork.to, declaration);
    let marks = StateDeclaration { name: "marks".into(), version: MARK.version, kind: StateKind::Value, ttl: None };
    below.register(fork.marks, &marks);
    Box::new(Forked { below, fork, access: declaration.access() })
}

struct Forked {
    below: Box<dyn StateBackend>,
    fork: Fork,
    access: Access,
}

impl Forked {
    fn mark_of<'a>(&self, at: Address<'a>) -> Address<'a> {
        Address { state: self.fork.marks, ..at }
    }

    /// Whether the fork's row is its own.
    fn is_own(&self, at: Address<'_>) -> bool {
        self.below.get(self.mark_of(at), &mut vec![]).is_some()
    }

    /// Before either side's row changes: what the fork has there is its own from now on.
    fn part(&mut self, at: Address<'_>) {
        if !(at.state == self.fork.from || at.state == self.fork.to) || self.is_own(at) {
            return;
        }
        if at.state == self.fork.from {
            let mut bytes = vec![];
            if let Some(meta) = self.below.get(at, &mut bytes) {
                self.below.put(Address { state: self.fork.to, ..at }, meta, &bytes);
            }
        }
        self.below.put(self.mark_of(at), MARK, &[]);
    }

    /// Visits the fork's rows in byte order.
    fn ordered(&self, group: KeyGroup, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) -> ControlFlow<()> {
        let mut own =
            Own { fork: self, group, to: range.1, from: range.0.to_vec(), rows: VecDeque::new(), ended: false };
        let mut broken = ControlFlow::Continue(());
        self.below.scan(group, self.fork.from, range, &mut |row, meta, bytes| {
            broken = (|| {
                while let Some((row, meta, bytes)) = own.next_below(Some(row)) {
                    visit(&row, meta, &bytes)?;
                }
                let own = self.is_own(Address { group, state: self.fork.from, row });
                if own { ControlFlow::Continue(()) } else { visit(row, meta, bytes) }
            })();
            broken
        });
        broken?;
        while let Some((row, meta, bytes)) = own.next_below(None) {
            visit(&row, meta, &bytes)?;
        }
        ControlFlow::Continue(())
    }

    /// Visits the fork's rows in no order.
    fn unordered(&self, group: KeyGroup, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) -> ControlFlow<()> {
        let mut broken = ControlFlow::Continue(());
        self.below.scan(group, self.fork.to, range, &mut |row, meta, bytes| {
            broken = visit(row, meta, bytes);
            broken
        });
        broken?;
        self.below.scan(group, self.fork.from, range, &mut |row, meta, bytes| {
            if !self.is_own(Address { group, state: self.fork.from, row }) {
                broken = visit(row, meta, bytes);
            }
            broken
        });
        broken
    }

    /// Visits the fork's rows slice by slice.
    fn sliced(&self, group: KeyGroup, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) -> ControlFlow<()> {
        let mut from = range.0.to_vec();
        loop {
            let first = |state| {
                let mut first: Option<Vec<u8>> = None;
                self.below.scan(group, state, (&from, range.1), &mut |row, _, _| {
                    first = Some(slice_of(row).to_vec());
                    ControlFlow::Break(())
                });
                first
            };
            let next = first(self.fork.from).into_iter().chain(first(self.fork.to)).min();
            let Some(next) = next else { return ControlFlow::Continue(()) };
            let end = super::keyed::end_of(&next);
            let to = if range.1.is_empty() || !end.is_empty() && end.as_slice() < range.1 { &end[..] } else { range.1 };
            self.unordered(group, (&from, to), visit)?;
            if to.is_empty() || to == range.1 {
                return ControlFlow::Continue(());
            }
            from = to.to_vec();
        }
    }
}

/// The fork's own rows in byte order, read a few at a time.
struct Own<'a> {
    fork: &'a Forked,
    group: KeyGroup,
    from: Vec<u8>,
    to: &'a [u8],
    rows: VecDeque<(Vec<u8>, RowMeta, Vec<u8>)>,
    ended: bool,
}

impl Own<'_> {
    /// The next row, if it lies below `limit`.
    fn next_below(&mut self, limit: Option<&[u8]>) -> Option<(Vec<u8>, RowMeta, Vec<u8>)> {
        if self.rows.is_empty() && !self.ended {
            let (rows, fork) = (&mut self.rows, self.fork.fork.to);
            self.fork.below.scan(self.group, fork, (&self.from, self.to), &mut |row, meta, bytes| {
                rows.push_back((row.to_vec(), meta, bytes.to_vec()));
                if rows.len() < CHUNK { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            self.ended = self.rows.len() < CHUNK;
            if let Some((last, ..)) = self.rows.back() {
                // The first row behind any other is that with a zero more.
                self.from = [last, &[0][..]].concat();
            }
        }
        self.rows.front().filter(|(row, ..)| limit.is_none_or(|limit| &row[..] < limit))?;
        self.rows.pop_front()
    }
}

impl StateBackend for Forked {
    fn name(&self) -> &'static str {
        self.below.name()
    }

    fn register(&mut self, state: StateNumber, declaration: &StateDeclaration) {
        self.below.register(state, declaration);
    }

    fn get(&self, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        if at.state == self.fork.to && !self.is_own(at) {
            return self.below.get(Address { state: self.fork.from, ..at }, into);
        }
        self.below.get(at, into)
    }

    fn get_many(&self, state: StateNumber, keys: &RowKeys, visit: &mut ManyVisitor<'_>) {
        if state != self.fork.to {
            return self.below.get_many(state, keys, visit);
        }
        let mut bytes = vec![];
        for index in 0..keys.len() {
            bytes.clear();
            let meta = self.get(keys.address(state, index), &mut bytes);
            visit(index, meta.map(|meta| (meta, &*bytes)));
        }
    }

    fn put(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) {
        self.part(at);
        self.below.put(at, meta, bytes);
    }

    fn delete(&mut self, at: Address<'_>) {
        self.part(at);
        self.below.delete(at);
    }

    fn scan(&self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) {
        if state != self.fork.to {
            return self.below.scan(group, state, range, visit);
        }
        // Whether the visitor broke or the rows ended is the visitor's own knowledge.
        let _ = match self.access {
            Access::Ordered => self.ordered(group, range, visit),
            Access::Sliced => self.sliced(group, range, visit),
            Access::Point => self.unordered(group, range, visit),
        };
    }

    fn delete_range(&mut self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8])) {
        if state != self.fork.to && state != self.fork.from {
            return self.below.delete_range(group, state, range);
        }
        let mut rows = Blobs::default();
        self.scan(group, state, range, &mut |row, _, _| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        rows.iter().for_each(|row| self.delete(Address { group, state, row }));
    }

    fn advance(&mut self, watermark: Timestamp, now: Timestamp) {
        self.below.advance(watermark, now);
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) {
        self.below.snapshot(checkpoint);
    }

    fn poll_snapshot(&mut self) -> anyhow::Result<Option<(CheckpointId, Vec<FileEntry>)>> {
        self.below.poll_snapshot()
    }

    fn restore(&mut self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
        self.below.restore(files, groups)
    }

    fn sizes(&self) -> Sizes {
        self.below.sizes()
    }
}
