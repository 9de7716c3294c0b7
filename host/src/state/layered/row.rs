//! One row as it lies in memory: its key, its meta and its bytes, or a tombstone, end to end. What the tables of the `memory`
//! backend and of an overlay are made of. Knows nothing of states, groups or time.

use crate::state::RowMeta;
use std::borrow::Borrow;
use std::cmp::Ordering;

/// Length of the row's key u32 · length of its bytes u32 · expiry i64 · version u16 · tombstone u8, all in the machine's
/// order; then key, then bytes.
const HEADER: usize = 19;

/// Bytes of a row in a stored file beside its own: key group, state, expiry, version, and the two lengths.
const STORED: usize = 19;

/// Appends a row; without bytes a tombstone.
pub(in crate::state) fn push(into: &mut Vec<u8>, key: &[u8], meta: RowMeta, bytes: Option<&[u8]>) {
    let length = |part: &[u8]| u32::try_from(part.len()).expect("keys and values are shorter than 4 GiB").to_ne_bytes();
    into.extend_from_slice(&length(key));
    into.extend_from_slice(&length(bytes.unwrap_or_default()));
    into.extend_from_slice(&meta.expiry.to_ne_bytes());
    into.extend_from_slice(&meta.version.to_ne_bytes());
    into.push(u8::from(bytes.is_none()));
    into.extend_from_slice(key);
    into.extend_from_slice(bytes.unwrap_or_default());
}

/// Bytes that `push` appends.
#[inline]
pub(in crate::state) fn length(key: &[u8], bytes: Option<&[u8]>) -> usize {
    HEADER + key.len() + bytes.map_or(0, <[u8]>::len)
}

/// Bytes of such a row in a stored file, about.
#[inline]
pub(in crate::state) fn stored_size(key: &[u8], bytes: Option<&[u8]>) -> u64 {
    (length(key, bytes) - HEADER + STORED) as u64
}

/// Writes meta and bytes of the row that begins `whole` anew. `bytes` is as long as what was there.
pub(in crate::state) fn overwrite(whole: &mut [u8], meta: RowMeta, bytes: Option<&[u8]>) {
    let old = RowRef::first(whole);
    let (key_end, end) = (old.key_end(), old.0.len());
    whole[8..16].copy_from_slice(&meta.expiry.to_ne_bytes());
    whole[16..18].copy_from_slice(&meta.version.to_ne_bytes());
    whole[18] = u8::from(bytes.is_none());
    whole[key_end..end].copy_from_slice(bytes.unwrap_or_default());
}

/// A row, or the mark that there is none any more, where it lies.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct RowRef<'a>(&'a [u8]);

impl<'a> RowRef<'a> {
    /// The row that begins `bytes`.
    #[inline]
    pub(in crate::state) fn first(bytes: &'a [u8]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("a row has its header")) as usize;
        Self(&bytes[..HEADER + word(0) + word(4)])
    }

    #[inline]
    fn key_end(self) -> usize {
        HEADER + u32::from_ne_bytes(self.0[0..4].try_into().expect("a row has its header")) as usize
    }

    /// The row part of the stored key.
    #[inline]
    pub(in crate::state) fn key(self) -> &'a [u8] {
        &self.0[HEADER..self.key_end()]
    }

    /// Stamp and version.
    #[inline]
    pub(in crate::state) fn meta(self) -> RowMeta {
        RowMeta {
            expiry: i64::from_ne_bytes(self.0[8..16].try_into().expect("a row has its header")),
            version: u16::from_ne_bytes(self.0[16..18].try_into().expect("a row has its header")),
        }
    }

    /// Whether it marks a deleted row.
    #[inline]
    pub(in crate::state) fn is_tombstone(self) -> bool {
        self.0[18] == 1
    }

    /// The bytes; none for a tombstone.
    #[inline]
    pub(in crate::state) fn bytes(self) -> Option<&'a [u8]> {
        (!self.is_tombstone()).then(|| &self.0[self.key_end()..])
    }

    /// Meta and bytes, none for a tombstone.
    #[inline]
    pub(in crate::state) fn read(self, into: &mut Vec<u8>) -> Option<RowMeta> {
        into.extend_from_slice(self.bytes()?);
        Some(self.meta())
    }

    /// Bytes it takes in memory.
    #[inline]
    pub(in crate::state) fn length(self) -> usize {
        self.0.len()
    }

    /// Its bytes in a stored file, about.
    #[inline]
    pub(in crate::state) fn stored_size(self) -> u64 {
        (self.0.len() - HEADER + STORED) as u64
    }

    /// A copy in an allocation of its own.
    pub(in crate::state) fn to_row(self) -> Row {
        Row(self.0.into())
    }
}

/// A row in an allocation of its own. Compares by its key alone.
#[derive(Debug, Clone)]
pub(in crate::state) struct Row(Box<[u8]>);

impl Row {
    /// A row; without bytes a tombstone.
    pub(in crate::state) fn new(key: &[u8], meta: RowMeta, bytes: Option<&[u8]>) -> Self {
        let mut whole = Vec::with_capacity(length(key, bytes));
        push(&mut whole, key, meta, bytes);
        Self(whole.into_boxed_slice())
    }

    /// The row.
    #[inline]
    pub(in crate::state) fn get(&self) -> RowRef<'_> {
        RowRef(&self.0)
    }

    /// The row part of the stored key.
    #[inline]
    pub(in crate::state) fn key(&self) -> &[u8] {
        self.get().key()
    }
}

impl Borrow<[u8]> for Row {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}
