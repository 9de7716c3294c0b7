//! Rows as RocksDB keeps them: keys and values as bytes. Knows nothing of databases.

pub(super) use crate::state::layout::{PREFIX, address, prefix, push_key, push_value, value};
use crate::state::{Address, StateNumber};
use dataflow::key::KeyGroup;
use std::ops::Range;

/// Most bytes of a key that is put together without an allocation.
const SHORT: usize = 96;

/// Hands a row's key to `then`.
#[inline]
pub(super) fn with_key<T>(at: Address<'_>, then: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0; SHORT];
    let length = PREFIX + at.row.len();
    if let Some(key) = short.get_mut(..length) {
        key[..PREFIX].copy_from_slice(&prefix(at.group, at.state));
        key[PREFIX..].copy_from_slice(at.row);
        return then(key);
    }
    let mut long = Vec::with_capacity(length);
    push_key(at, &mut long);
    then(&long)
}

/// The first key behind all rows of a state in a group. There are at most 32,768 groups, so there is one.
pub(super) fn end_of_state(group: KeyGroup, state: StateNumber) -> Vec<u8> {
    match state.0.checked_add(1) {
        Some(next) => prefix(group, StateNumber(next)).to_vec(),
        None => end_of_groups(&(group.0..group.0 + 1)),
    }
}

/// The first key of the groups.
pub(super) fn start_of_groups(groups: &Range<u16>) -> Vec<u8> {
    groups.start.to_be_bytes().to_vec()
}

/// The first key behind the groups.
pub(super) fn end_of_groups(groups: &Range<u16>) -> Vec<u8> {
    groups.end.to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::RowMeta;

    #[test]
    fn row_is_found_again_in_its_key_and_value() {
        for row in [&b""[..], b"row", &[7; 200]] {
            let at = Address { group: KeyGroup(258), state: StateNumber(3), row };
            with_key(at, |key| {
                assert_eq!(key, [&[1, 2, 0, 0, 0, 3], row].concat());
                assert_eq!(address(key), Some(at));
            });
        }
        let (meta, mut stored) = (RowMeta { expiry: -5, version: 7 }, vec![]);
        push_value(meta, b"bytes", &mut stored);
        assert_eq!(value(&stored), Some((meta, &b"bytes"[..])));
        assert_eq!((address(&[1, 2, 3]), value(&[0; 9])), (None, None));
    }

    #[test]
    fn state_ends_where_the_next_begins() {
        assert_eq!(end_of_state(KeyGroup(1), StateNumber(255)), [0, 1, 0, 0, 1, 0]);
        assert_eq!(end_of_state(KeyGroup(1), StateNumber(u32::MAX)), [0, 2]);
    }
}
