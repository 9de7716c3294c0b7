//! One row in one allocation: its key, its meta and its bytes, or a tombstone. What the tables of the `memory` backend and
//! of an overlay are made of. Knows nothing of states, groups or time.

use super::RowMeta;
use std::borrow::Borrow;
use std::cmp::Ordering;

/// Length of the row's key u32 · expiry i64 · version u16 · tombstone u8, all in the machine's order; then key, then bytes.
const HEADER: usize = 15;

/// Bytes of a row in a stored file beside its own: key group, state, expiry, version, and the two lengths.
const STORED: usize = 19;

/// A row or the mark that there is none any more. Compares by its key alone.
#[derive(Debug, Clone)]
pub(super) struct Row(Box<[u8]>);

impl Row {
    /// A row; without bytes a tombstone.
    pub(super) fn new(key: &[u8], meta: RowMeta, bytes: Option<&[u8]>) -> Self {
        let mut whole = Vec::with_capacity(HEADER + key.len() + bytes.map_or(0, <[u8]>::len));
        whole.extend_from_slice(&u32::try_from(key.len()).expect("a row's key is shorter than 4 GiB").to_ne_bytes());
        whole.extend_from_slice(&meta.expiry.to_ne_bytes());
        whole.extend_from_slice(&meta.version.to_ne_bytes());
        whole.push(u8::from(bytes.is_none()));
        whole.extend_from_slice(key);
        whole.extend_from_slice(bytes.unwrap_or_default());
        Self(whole.into_boxed_slice())
    }

    #[inline]
    fn key_end(&self) -> usize {
        HEADER + u32::from_ne_bytes(self.0[0..4].try_into().expect("a row has its header")) as usize
    }

    /// The row part of the stored key.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.0[HEADER..self.key_end()]
    }

    /// Stamp and version.
    #[inline]
    pub(super) fn meta(&self) -> RowMeta {
        RowMeta {
            expiry: i64::from_ne_bytes(self.0[4..12].try_into().expect("a row has its header")),
            version: u16::from_ne_bytes(self.0[12..14].try_into().expect("a row has its header")),
        }
    }

    /// Whether it marks a deleted row.
    #[inline]
    pub(super) fn is_tombstone(&self) -> bool {
        self.0[14] == 1
    }

    /// The bytes; none for a tombstone.
    #[inline]
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        (!self.is_tombstone()).then(|| &self.0[self.key_end()..])
    }

    /// Meta and bytes, none for a tombstone.
    #[inline]
    pub(super) fn read(&self, into: &mut Vec<u8>) -> Option<RowMeta> {
        into.extend_from_slice(self.bytes()?);
        Some(self.meta())
    }

    /// Writes it anew, in place if the length is the same.
    pub(super) fn set(&mut self, meta: RowMeta, bytes: Option<&[u8]>) {
        let end = self.key_end();
        let new = bytes.unwrap_or_default();
        if self.0.len() - end != new.len() {
            *self = Self::new(self.key(), meta, bytes);
            return;
        }
        self.0[4..12].copy_from_slice(&meta.expiry.to_ne_bytes());
        self.0[12..14].copy_from_slice(&meta.version.to_ne_bytes());
        self.0[14] = u8::from(bytes.is_none());
        self.0[end..].copy_from_slice(new);
    }

    /// Its bytes in a stored file, about.
    #[inline]
    pub(super) fn stored_size(&self) -> u64 {
        (self.0.len() - HEADER + STORED) as u64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_gives_back_what_it_was_made_of_whatever_its_length_was_before() {
        let meta = |expiry, version| RowMeta { expiry, version };
        let mut row = Row::new(b"key", meta(-5, 7), Some(b"abc"));
        for (expiry, bytes) in
            [(1, Some(&b"xyz"[..])), (2, Some(b"longer")), (3, Some(b"")), (4, None), (5, Some(b"q"))]
        {
            row.set(meta(expiry, 9), bytes);
            assert_eq!((row.key(), row.meta(), row.bytes()), (&b"key"[..], meta(expiry, 9), bytes));
        }
    }
}
