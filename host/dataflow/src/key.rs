//! Keys: their encoding, their key group, the task that owns them, and the distinct keys of a batch.
//!
//! A key is a concatenation of parts, one per key field. A part is one tag byte and its payload, so that `1` and `"1"`
//! are different keys and the bytes of one type sort as its values do:
//!
//! | tag | type | payload |
//! |---|---|---|
//! | `t` | text | length as LEB128 varint, UTF-8 |
//! | `b` | bytes | length as LEB128 varint, bytes |
//! | `i` | int | 8 bytes big-endian, sign bit flipped |
//! | `f` | float | 8 bytes big-endian, total order (sign bit flipped if positive, all bits if negative) |
//! | `o` | boolean | one byte, 0 or 1 |

use crate::record::{Blobs, Column, Value, Values};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// hash(key) % max_parallelism: the unit of state that moves between tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

/// Key groups of a job that does not say otherwise. Fixed when the job is created.
pub const MAX_PARALLELISM_DEFAULT: u16 = 128;

impl KeyGroup {
    /// The group of a key with this hash.
    #[inline]
    pub fn of(hash: u64, max_parallelism: u16) -> Self {
        Self((hash % u64::from(max_parallelism)) as u16)
    }

    /// The task that owns this group when `parallelism` tasks share `max_parallelism` groups: contiguous ranges, as in Flink.
    #[inline]
    pub fn task(self, parallelism: usize, max_parallelism: u16) -> usize {
        usize::from(self.0) * parallelism / usize::from(max_parallelism)
    }

    /// The groups that `task` owns.
    pub fn range(task: usize, parallelism: usize, max_parallelism: u16) -> std::ops::Range<u16> {
        let max = usize::from(max_parallelism);
        let first = |task: usize| (task * max).div_ceil(parallelism) as u16;
        first(task)..first(task + 1)
    }
}

/// xxh3-64 of the key's bytes.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Appends one part. `Absent` has no encoding: a row without its key is a dead letter.
#[inline]
pub fn push_part(bytes: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Absent => {}
        Value::Text(text) => push_string(bytes, b't', text.as_bytes()),
        Value::Bytes(string) => push_string(bytes, b'b', string),
        Value::Int(int) => {
            bytes.push(b'i');
            bytes.extend_from_slice(&(int as u64 ^ 1 << 63).to_be_bytes());
        }
        Value::Float(float) => {
            let bits = float.to_bits();
            let ordered = if bits >> 63 == 0 { bits ^ 1 << 63 } else { !bits };
            bytes.push(b'f');
            bytes.extend_from_slice(&ordered.to_be_bytes());
        }
        Value::Boolean(boolean) => bytes.extend_from_slice(&[b'o', u8::from(boolean)]),
    }
}

#[inline]
fn push_string(bytes: &mut Vec<u8>, tag: u8, string: &[u8]) {
    bytes.push(tag);
    push_varint(bytes, string.len() as u64);
    bytes.extend_from_slice(string);
}

/// Appends a LEB128 varint.
#[inline]
pub fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a LEB128 varint off the front; none if the bytes end before it does.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes a length as a varint, and as many bytes; none if there are fewer.
pub fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// The parts of a key. Ends early at bytes that are not one.
pub fn parts(key: &[u8]) -> impl Iterator<Item = Value<'_>> {
    let mut rest = key;
    std::iter::from_fn(move || take_part(&mut rest))
}

/// The parts of bytes that are nothing but parts, as [`push_part`] writes them; none of others.
pub fn only_parts(bytes: &[u8]) -> Option<Vec<Value<'_>>> {
    let (found, mut again): (Vec<_>, _) = (parts(bytes).collect(), vec![]);
    found.iter().for_each(|&part| push_part(&mut again, part));
    (!found.is_empty() && again == bytes).then_some(found)
}

fn take_part<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    let (&tag, after) = rest.split_first()?;
    *rest = after;
    let mut take = |length: usize| -> Option<&'a [u8]> {
        let (taken, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(taken)
    };
    match tag {
        b'i' => Some(Value::Int((u64::from_be_bytes(take(8)?.try_into().ok()?) ^ 1 << 63) as i64)),
        b'f' => {
            let ordered = u64::from_be_bytes(take(8)?.try_into().ok()?);
            Some(Value::Float(f64::from_bits(if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered })))
        }
        b'o' => Some(Value::Boolean(take(1)?[0] == 1)),
        b't' | b'b' => {
            let length = take_varint(rest)? as usize;
            let (string, after) = rest.split_at_checked(length)?;
            *rest = after;
            if tag == b't' { std::str::from_utf8(string).ok().map(Value::Text) } else { Some(Value::Bytes(string)) }
        }
        _ => None,
    }
}

/// The distinct keys of a batch, in order of first appearance, and which row has which.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// Each row's key, as an index into the other lists.
    pub of: Vec<u32>,
    /// Distinct keys, encoded.
    pub distinct: Blobs,
    /// xxh3-64 of each distinct key.
    pub hashes: Vec<u64>,
}

impl Keys {
    /// The encoded key of `row`.
    pub fn of_row(&self, row: usize) -> &[u8] {
        self.distinct.get(self.of[row] as usize)
    }

    /// Bytes it holds.
    pub fn byte_size(&self) -> usize {
        self.of.len() * 4 + self.distinct.bytes.len() + self.hashes.len() * 12
    }

    /// The keys of `rows`, ascending; keys that no row has any more are left out.
    pub fn select(&self, rows: &[u32]) -> Self {
        let mut place = vec![u32::MAX; self.distinct.len()];
        let mut chosen = Self { of: Vec::with_capacity(rows.len()), ..Self::default() };
        for &row in rows {
            let key = self.of[row as usize] as usize;
            if place[key] == u32::MAX {
                place[key] = chosen.hashes.len() as u32;
                chosen.distinct.push(self.distinct.get(key));
                chosen.hashes.push(self.hashes[key]);
            }
            chosen.of.push(place[key]);
        }
        chosen
    }
}

/// Finds the distinct keys of batch after batch; keeps its table between them.
#[derive(Debug, Default)]
pub struct Keying {
    /// Open addressing: index into the distinct keys plus one, 0 where free.
    slots: Vec<u32>,
    /// Of each distinct key.
    marks: Vec<Mark>,
    encoded: Vec<u8>,
}

/// A key in three words: a short one's own bytes, or the hash of a long one. Most keys are short, and found again without a hash
/// that is good enough for key groups and without a call that compares bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    word: u128,
    length: usize,
}

/// Bytes of a key that its mark says all of.
const SHORT: usize = 16;

/// The bits of a word that a key of so many bytes fills.
const OWN: [u128; SHORT + 1] = {
    let (mut own, mut length) = ([0; SHORT + 1], 0);
    while length < SHORT {
        own[length + 1] = own[length] << 8 | 0xff;
        length += 1;
    }
    own
};

impl Mark {
    /// Of the first `length` bytes of `ahead`, whatever lies behind them.
    #[inline(always)]
    fn of(ahead: &[u8], length: usize) -> Self {
        let word = match (ahead.first_chunk(), OWN.get(length)) {
            (_, None) => u128::from(hash(&ahead[..length])),
            (Some(first), Some(own)) => u128::from_le_bytes(*first) & own,
            (None, Some(_)) => ahead[..length].iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte)),
        };
        Self { word, length }
    }

    /// Where to look for it first in a table of 2^`bits` slots.
    #[inline(always)]
    fn slot(self, bits: u32) -> usize {
        let folded = (self.word >> 64) as u64 ^ (self.word as u64).rotate_left(29);
        // Fibonacci hashing: Knuth, The Art of Computer Programming, vol. 3, 6.4.
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }
}

impl Keying {
    /// The keys of a batch from its key columns, and the rows that have none, ascending. Those rows get key 0 in the
    /// answer: the caller takes them out (`Batch::select`).
    pub fn keys(&mut self, rows: usize, columns: &[&Column]) -> (Keys, Vec<u32>) {
        let size = (rows * 2).next_power_of_two().max(16);
        self.slots.clear();
        self.slots.resize(size, 0);
        self.marks.clear();
        let mut keys = Keys { of: Vec::with_capacity(rows), ..Keys::default() };
        let mut without = Vec::new();
        if let [Column { values: Values::Scalar(blobs), present: None }] = columns {
            for row in 0..rows {
                let span = blobs.span(row);
                let ahead = &blobs.bytes[span.start..];
                let index = find_or_insert((&mut self.slots, &mut self.marks), &mut keys, ahead, span.len());
                keys.of.push(index);
            }
            return (keys, without);
        }
        for row in 0..rows {
            if columns.iter().any(|column| !column.is_present(row)) {
                without.push(row as u32);
                keys.of.push(0);
                continue;
            }
            self.encoded.clear();
            columns.iter().for_each(|column| push_column_part(&mut self.encoded, column, row));
            let (table, length) = ((&mut self.slots[..], &mut self.marks), self.encoded.len());
            let index = find_or_insert(table, &mut keys, &self.encoded, length);
            keys.of.push(index);
        }
        (keys, without)
    }
}

#[inline]
fn push_column_part(bytes: &mut Vec<u8>, column: &Column, row: usize) {
    match &column.values {
        Values::Scalar(blobs) => bytes.extend_from_slice(blobs.get(row)),
        Values::Text(blobs) => push_string(bytes, b't', blobs.get(row)),
        _ => push_part(bytes, column.get(row)),
    }
}

/// The index of the key that the first `length` bytes of `ahead` are.
#[inline(always)]
fn find_or_insert((slots, marks): (&mut [u32], &mut Vec<Mark>), keys: &mut Keys, ahead: &[u8], length: usize) -> u32 {
    let mark = Mark::of(ahead, length);
    let mut slot = mark.slot(slots.len().trailing_zeros());
    loop {
        match slots[slot] {
            0 => {
                let key = &ahead[..length];
                keys.distinct.push(key);
                keys.hashes.push(hash(key));
                marks.push(mark);
                slots[slot] = marks.len() as u32;
                return slots[slot] - 1;
            }
            found => {
                let index = (found - 1) as usize;
                if marks[index] == mark && (length <= SHORT || keys.distinct.get(index) == &ahead[..length]) {
                    return index as u32;
                }
            }
        }
        slot = (slot + 1) & (slots.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ValueType;

    fn encoded(value: Value<'_>) -> Vec<u8> {
        let mut bytes = vec![];
        push_part(&mut bytes, value);
        bytes
    }

    #[test]
    fn parts_come_back_as_they_went_in() {
        let values =
            [Value::Text("Pune"), Value::Int(-5), Value::Float(-0.5), Value::Boolean(true), Value::Bytes(&[0, 255])];
        let key: Vec<u8> = values.iter().flat_map(|&value| encoded(value)).collect();
        assert_eq!(parts(&key).collect::<Vec<_>>(), values);
    }

    #[test]
    fn bytes_that_are_not_wholly_parts_have_none() {
        let whole = [encoded(Value::Text("Pune")), encoded(Value::Int(7)), encoded(Value::Float(f64::NAN))].concat();
        assert_eq!(only_parts(&whole).map(|parts| parts.len()), Some(3));
        // Cut short, followed by more, text, a boolean of neither kind, a length that takes more bytes than it needs.
        let longer = [&whole[..], b"?"].concat();
        for other in [&whole[..whole.len() - 1], &longer, b"", b"Pune", b"o\x02", b"t\x81\0a"] {
            assert_eq!(only_parts(other), None, "{other:?}");
        }
    }

    #[test]
    fn one_as_text_and_one_as_int_are_different_keys() {
        assert_ne!(encoded(Value::Text("1")), encoded(Value::Int(1)));
    }

    #[test]
    fn numbers_sort_as_their_bytes_do() {
        for pair in [i64::MIN, -1, 0, 1, i64::MAX].windows(2) {
            assert!(encoded(Value::Int(pair[0])) < encoded(Value::Int(pair[1])));
        }
        for pair in [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 2.5, f64::INFINITY].windows(2) {
            assert!(encoded(Value::Float(pair[0])) < encoded(Value::Float(pair[1])));
        }
    }

    #[test]
    fn every_group_belongs_to_the_task_whose_range_holds_it() {
        for parallelism in 1..=7 {
            for task in 0..parallelism {
                for group in KeyGroup::range(task, parallelism, 128) {
                    assert_eq!(KeyGroup(group).task(parallelism, 128), task);
                }
            }
            assert_eq!(KeyGroup::range(parallelism - 1, parallelism, 128).end, 128);
        }
    }

    #[test]
    fn keying_finds_distinct_keys_and_rows_without() {
        let mut city = Column::new(ValueType::Scalar);
        city.push(Value::Text("Pune"));
        city.push_absent();
        city.push(Value::Text("Mumbai"));
        city.push(Value::Text("Pune"));
        let (keys, without) = Keying::default().keys(4, &[&city]);
        assert_eq!(without, [1]);
        assert_eq!((keys.of[0], keys.of[2], keys.of[3]), (0, 1, 0));
        assert_eq!(keys.distinct.get(1), encoded(Value::Text("Mumbai")));
    }

    #[test]
    fn keying_takes_equal_bytes_for_the_same_key_and_no_others() {
        // Of all lengths, alike in front and behind, in the midst of the column and at its end.
        let texts: Vec<String> = (0..40)
            .flat_map(|length| {
                ["a", "b"].map(|text| format!("{}{text}{}", "x".repeat(length / 2), "y".repeat(length - length / 2)))
            })
            .chain(["", "\0", "\0\0"].map(String::from))
            .collect();
        let mut columns = [Column::new(ValueType::Scalar), Column::new(ValueType::Text)];
        for text in texts.iter().chain(texts.iter().rev()) {
            columns.iter_mut().for_each(|column| assert!(column.push(Value::Text(text))));
        }
        let last = texts.len() * 2 - 1;
        for columns in [&[&columns[0]][..], &[&columns[1]], &[&columns[0], &columns[1]]] {
            let (keys, without) = Keying::default().keys(last + 1, columns);
            assert_eq!((keys.hashes.len(), without.len()), (texts.len(), 0));
            assert!((0..=last).all(|row| keys.of[row] == keys.of[last - row]));
            assert!(keys.distinct.iter().zip(&keys.hashes).all(|(key, &hashed)| hash(key) == hashed));
        }
    }
}
