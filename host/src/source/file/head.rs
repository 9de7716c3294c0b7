//! The first bytes of a file, which tell it from another that has got its name: so much as was read of them, as a checkpoint keeps it.

use serde::{Deserialize, Serialize};

/// Most bytes that are looked at. Files that are told apart differ in their first line as a rule: it has a time or an id.
pub(super) const HEAD_BYTES: usize = 1 << 10;

/// What a checkpoint knows of a file's first bytes, decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// How many.
    pub(super) bytes: usize,
    /// Their xxh3-64.
    checksum: u64,
}

impl Head {
    /// Of these first bytes; nothing is known of none.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        (!head.is_empty()).then(|| Self { bytes: head.len(), checksum: dataflow::key::hash(head) })
    }
}
