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
mod fork;
mod keyed;
mod layered; // what both backends share
pub(crate) mod layout;
mod lists;
mod maps;
pub mod memory;
mod overlay;
mod prefetch;
pub mod rocksdb;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;
pub mod timers;
mod values;

pub use fork::{Fork, forked};
pub use keyed::{Call, Cell, Found, Keyed};
pub use layered::StateLost;
pub use layout::{Access, Address, NEVER, RowKeys, RowMeta, StateDeclaration, StateKind, StateNumber, Ttl};
pub use lists::ListState;
pub use maps::MapState;
pub use overlay::Overlay;
pub use prefetch::{Now, Prefetched, Stamps};
pub use snapshot::read_snapshot;
pub use values::{ValueState, decode, encode, push_decoded, typed};

use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::Timestamp;
use std::ops::{ControlFlow, Range};

/// Keeps one task's rows, durable at snapshots. Used by one thread.
///
/// Contract:
/// - A read MUST see the last write to its address, whatever snapshot is under way. Expiry is not the backend's business
///   when reading: it hands out stamps, and MAY drop a row once [`StateBackend::advance`] says that its stamp has passed.
/// - `snapshot` MUST be independent of the state's size in what it does before it returns.
/// - `restore` of a snapshot's files MUST give back exactly the rows that were there when `snapshot` was called, but for expired ones.
/// - However many rows are put before the first snapshot, memory beyond what the backend keeps there anyway stays bounded: a
///   savepoint is loaded by `put`.
/// - A backend that has lost its state, as when its disk can no longer be read, ends the task: see [`StateLost`].
pub trait StateBackend: Send {
    /// What it is called in job files and manifests. Another backend does not read its files.
    fn name(&self) -> &'static str;

    /// Announces a state, before its first use.
    fn register(&mut self, state: StateNumber, declaration: &StateDeclaration);

    /// Appends the row's bytes to `into` and tells its meta; none (and nothing appended) if there is no row.
    fn get(&self, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta>;

    /// Reads many rows of one state: calls `visit` for each, in order, with its index and what `get` would tell. Where
    /// rows lie on disk, they are read together.
    fn get_many(&self, state: StateNumber, keys: &RowKeys, visit: &mut ManyVisitor<'_>) {
        let mut bytes = vec![];
        for index in 0..keys.len() {
            bytes.clear();
            let meta = self.get(keys.address(state, index), &mut bytes);
            visit(index, meta.map(|meta| (meta, &*bytes)));
        }
    }

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

    /// Loads the rows of `groups`, which are the task's own, from the files of one old task's snapshot, which may hold
    /// others. Before anything is written; once for each old task whose key groups it takes over.
    ///
    /// # Errors
    /// A file is missing or damaged: which, and how.
    fn restore(&mut self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()>;

    /// Rows and bytes held, about; and the bytes freed by expiry so far.
    fn sizes(&self) -> Sizes;
}

/// Called with each row: the row part of its key, its meta, its bytes.
pub type Visitor<'a> = dyn FnMut(&[u8], RowMeta, &[u8]) -> ControlFlow<()> + 'a;

/// Called with each row of many: its index, and its meta and bytes if it is there.
pub type ManyVisitor<'a> = dyn FnMut(usize, Option<(RowMeta, &[u8])>) + 'a;

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
