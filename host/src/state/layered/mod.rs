//! What both backends share: three layers. `active` takes the writes; `frozen` is what a barrier took; the base is the
//! rest. Reads go through them in this order. A barrier swaps `active` for an empty one, whatever the state's size: that is
//! the whole synchronous part of a snapshot. A thread beside the task applies what was frozen to the base and makes the
//! snapshot durable. An active layer above its limit is frozen early, and is part of the next snapshot.

mod backend;
mod clocks;
mod hashed;
mod layer;
mod lost;
pub(super) mod row;
mod scan;
mod table;
mod thread;

pub(super) use backend::{Layered, Limits, Setup};
pub(super) use clocks::Clocks;
pub(super) use hashed::copy;
pub(super) use layer::Layer;
pub use lost::StateLost;
pub(super) use row::{Row, RowRef};
pub(super) use scan::range;
pub(super) use table::{Probe, Rows, Slice, Table, slice_of};
pub(super) use thread::{Answers, Frozen, Worker};

use super::{Access, ManyVisitor, RowKeys, RowMeta, Sizes, StateDeclaration, StateNumber};
use dataflow::checkpoint::FileEntry;
use dataflow::key::KeyGroup;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Where the rows lie that no layer holds. The task reads it, and its [`Worker`] alone writes.
pub(super) trait Base: Send + Sync + Sized + 'static {
    /// As `StateBackend::name`.
    const NAME: &'static str;

    /// Whether a task waits for its thread when it ends: for one that uses what the process takes down at its end, and that never waits
    /// for a network.
    const ENDS_WITH_ITS_TASK: bool;

    /// What it keeps of each state for the task to reach its rows by.
    type State: Clone + Send;

    /// Walks over rows.
    type Cursor<'a>: Cursor;

    /// As `StateBackend::register`.
    fn register(&self, state: StateNumber, declaration: &StateDeclaration) -> Self::State;

    /// As `StateBackend::get`.
    fn get(&self, state: &Self::State, at: &Place<'_>, into: &mut Vec<u8>) -> Option<RowMeta>;

    /// As `StateBackend::get_many`, of rows that `above` does not find in a layer.
    fn get_many<'a>(
        &'a self,
        state: &Self::State,
        number: StateNumber,
        keys: &'a RowKeys,
        above: impl Fn(usize) -> (Place<'a>, Option<RowRef<'a>>),
        visit: &mut ManyVisitor<'_>,
    );

    /// Whether it may hold the row; a yes may be wrong.
    fn may_hold(&self, state: &Self::State, at: &Place<'_>) -> bool;

    /// Hands `walk` a cursor over the rows in the range, in the order of the state's access.
    fn with_cursor(
        &self,
        state: &Self::State,
        of: &Span<'_>,
        walk: impl FnOnce(&mut Self::Cursor<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// As `StateBackend::restore`.
    fn restore(&self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()>;

    /// What applies layers to it. Called once.
    fn worker(self: Arc<Self>, answers: Answers) -> Box<dyn Worker>;

    /// So many bytes were freed above it because they had expired.
    fn count_expired(&self, bytes: u64);

    /// As `StateBackend::sizes`.
    fn sizes(&self) -> Sizes;
}

/// Where a row lies, and how tables find it.
pub(super) struct Place<'a> {
    pub(super) state: StateNumber,
    pub(super) group: KeyGroup,
    /// The key group counted from the task's first.
    pub(super) index: usize,
    pub(super) probe: Probe<'a>,
}

/// A range of rows of one state and key group: from, inclusive, to, exclusive; an empty end is none.
pub(super) struct Span<'a> {
    pub(super) state: StateNumber,
    pub(super) access: Access,
    pub(super) group: KeyGroup,
    /// The key group counted from the task's first.
    pub(super) index: usize,
    pub(super) range: (&'a [u8], &'a [u8]),
}

impl Span<'_> {
    pub(super) fn holds(&self, row: &[u8]) -> bool {
        row >= self.range.0 && (self.range.1.is_empty() || row < self.range.1)
    }
}

/// Stands at a row of the base, or behind the last.
pub(super) trait Cursor {
    /// The row: its key, meta and bytes.
    fn peek(&mut self) -> Option<(&[u8], RowMeta, &[u8])>;

    /// Goes on to the next. Only after `peek` has shown one.
    fn advance(&mut self);
}
