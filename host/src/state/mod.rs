//! What operators remember. The host owns all state; a backend keeps rows, the layers above give them meaning as values,
//! lists, maps, timers and windows. `mod.rs` is the contract, its siblings fulfil it.
//!
//! One layout for all backends:
//!
//! ```text
//! key    key group u16 BE · state number u32 BE · row
//! row    values, lists, maps           key length varint · key · user part
//!        timers                        two rows: by due time, by name (timers.rs)
//!        windows                       slice end i64 BE, sign flipped · key
//! value  expiry i64 BE · schema version u16 BE · bytes
//! ```

#[cfg(test)]
pub(crate) mod contract;
mod declaration;
mod keyed;
mod lists;
mod maps;
pub mod memory;
mod overlay;
mod prefetch;
mod row;
mod snapshot;
mod snapshot_file;
#[cfg(test)]
pub(crate) mod tests;
pub mod timers;
mod values;

pub use declaration::{Access, StateDeclaration, StateKind, Ttl};
pub use keyed::{Call, Cell, Found, Keyed};
pub use lists::ListState;
pub use maps::MapState;
pub use overlay::Overlay;
pub use prefetch::{Now, Prefetched, Stamps};
pub use snapshot::read_snapshot;
pub use values::{ValueState, decode, encode, push_decoded, typed};

use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Stands for (operator, state name) in stored keys; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StateNumber(pub u32);

/// The stamp of a row that never expires.
pub const NEVER: Timestamp = i64::MAX;

/// What stands beside a row's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowMeta {
    /// From this time on (on the state's clock) the row is gone; [`NEVER`] without a TTL.
    pub expiry: Timestamp,
    /// Schema version of the bytes.
    pub version: u16,
}

/// Where a row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// Key group of the row's key.
    pub group: KeyGroup,
    /// Which state.
    pub state: StateNumber,
    /// The rest of the stored key.
    pub row: &'a [u8],
}

/// Keeps one task's rows, durable at snapshots. Used by one thread.
///
/// Contract:
/// - A read MUST see the last write to its address, whatever snapshot is under way. Expiry is not the backend's business
///   when reading: it hands out stamps, and MAY drop a row once [`StateBackend::advance`] says that its stamp has passed.
/// - `snapshot` MUST be independent of the state's size in what it does before it returns.
/// - `restore` of a snapshot's files MUST give back exactly the rows that were there when `snapshot` was called, but for expired ones.
pub trait StateBackend: Send {
    /// Announces a state, before its first use.
    fn register(&mut self, state: StateNumber, declaration: &StateDeclaration);

    /// Appends the row's bytes to `into` and tells its meta; none (and nothing appended) if there is no row.
    fn get(&self, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta>;

    /// Writes a row.
    fn put(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]);

    /// Removes a row.
    fn delete(&mut self, at: Address<'_>);

    /// Visits the rows of one state and key group with `range.0 <= row < range.1` (an empty upper end is no end), in the
    /// order that the state's [`Access`] promises, until the visitor breaks.
    fn scan(&self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8]), visit: &mut Visitor<'_>);

    /// Removes the rows that a `scan` of the same range would visit.
    fn delete_range(&mut self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8]));

    /// Time has come so far: rows whose stamp lies at or below it on their state's clock may be dropped. Cheap.
    fn advance(&mut self, watermark: Timestamp, now: Timestamp);

    /// Freezes what is there now as part of `checkpoint` and returns; the files come later from [`StateBackend::poll_snapshot`].
    fn snapshot(&mut self, checkpoint: CheckpointId);

    /// The snapshot that has become durable since the last call, if any: all files needed to restore it, in order.
    ///
    /// # Errors
    /// Storage refused: the checkpoint is lost, the state is not.
    fn poll_snapshot(&mut self) -> anyhow::Result<Option<(CheckpointId, Vec<FileEntry>)>>;

    /// Loads the rows of `groups`, which are the task's own, from a snapshot's files, which may hold others. Before anything
    /// is written; once for each old task whose key groups it takes over, or once with all their files.
    ///
    /// # Errors
    /// A file is missing or damaged: which, and how.
    fn restore(&mut self, files: &[FileEntry], groups: std::ops::Range<u16>) -> anyhow::Result<()>;

    /// Rows and bytes held, about; and the bytes freed by expiry so far.
    fn sizes(&self) -> Sizes;
}

/// Called with each row: the row part of its key, its meta, its bytes.
pub type Visitor<'a> = dyn FnMut(&[u8], RowMeta, &[u8]) -> ControlFlow<()> + 'a;

/// Called with each row of a snapshot; its error ends the reading.
pub type SnapshotVisitor<'a> = dyn FnMut(Address<'_>, RowMeta, &[u8]) -> anyhow::Result<()> + 'a;

/// What a backend holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Live rows, about.
    pub rows: u64,
    /// Their bytes, about.
    pub bytes: u64,
    /// Bytes freed because they had expired.
    pub expired_bytes: u64,
}
