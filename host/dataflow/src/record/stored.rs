//! A batch as bytes, for rows that a checkpoint finds between two tasks. Keys travel along, so nothing is computed again.
//!
//! ```text
//! batch     rows varint · timestamp i64 BE × rows · parts u8 (a bit for each that follows) · part…
//! changes   0 or 1 × rows
//! columns   count varint · (type u8 · has absent u8 · 0 or 1 × rows if so · values)…
//! raw       blobs; a tombstone is told by a column of booleans before them
//! headers   row varint × count · blobs · blobs
//! keys      distinct blobs · index varint × rows; hashes are made again
//! origin    partition string · place varint × rows
//! faults    count varint · (row varint · column varint · string)…
//! blobs     count varint · string…
//! string    length varint · bytes
//! ```

use super::{Batch, Blobs, Change, Column, Fault, Headers, Origin, Raw, ValueType, Values};
use crate::key::{self, Keys, push_varint, take_varint};
use std::collections::BTreeSet;

const CHANGES: u8 = 1;
const RAW: u8 = 2;
const HEADERS: u8 = 4;
const KEYS: u8 = 8;
const ORIGIN: u8 = 16;

/// Appends a batch.
pub fn encode(batch: &Batch, to: &mut Vec<u8>) {
    push_varint(to, batch.len() as u64);
    batch.timestamps.iter().for_each(|timestamp| to.extend_from_slice(&timestamp.to_be_bytes()));
    let part = |there: bool, part: u8| if there { part } else { 0 };
    to.push(
        part(!batch.changes.is_empty(), CHANGES)
            | part(batch.raw.is_some(), RAW)
            | part(batch.headers.is_some(), HEADERS)
            | part(batch.keys.is_some(), KEYS)
            | part(batch.origin.is_some(), ORIGIN),
    );
    to.extend(batch.changes.iter().map(|&change| u8::from(change == Change::Retract)));
    push_varint(to, batch.columns.len() as u64);
    batch.columns.iter().for_each(|column| push_column(to, column));
    if let Some(raw) = &batch.raw {
        to.extend((0..batch.len()).map(|row| u8::from(raw.get(row).is_some())));
        (0..batch.len()).for_each(|row| push_string(to, raw.get(row).unwrap_or_default()));
    }
    if let Some(headers) = &batch.headers {
        push_varint(to, headers.rows.len() as u64);
        headers.rows.iter().for_each(|&row| push_varint(to, u64::from(row)));
        push_blobs(to, &headers.names);
        push_blobs(to, &headers.values);
    }
    if let Some(keys) = &batch.keys {
        push_varint(to, keys.distinct.len() as u64);
        push_blobs(to, &keys.distinct);
        keys.of.iter().for_each(|&of| push_varint(to, u64::from(of)));
    }
    if let Some(origin) = &batch.origin {
        push_string(to, origin.partition.as_bytes());
        origin.places.iter().for_each(|&place| push_varint(to, place));
    }
    push_varint(to, batch.faults.len() as u64);
    for fault in &batch.faults {
        push_varint(to, u64::from(fault.row));
        push_varint(to, u64::from(fault.column));
        push_string(to, fault.found.as_bytes());
    }
}

fn push_string(to: &mut Vec<u8>, string: &[u8]) {
    push_varint(to, string.len() as u64);
    to.extend_from_slice(string);
}

fn push_blobs(to: &mut Vec<u8>, blobs: &Blobs) {
    blobs.iter().for_each(|string| push_string(to, string));
}

fn push_column(to: &mut Vec<u8>, column: &Column) {
    to.push(match column.value_type() {
        ValueType::Text => 0,
        ValueType::Bytes => 1,
        ValueType::Int => 2,
        ValueType::Float => 3,
        ValueType::Boolean => 4,
        ValueType::Scalar => 5,
    });
    to.push(u8::from(column.present.is_some()));
    to.extend(column.present.iter().flatten().map(|&present| u8::from(present)));
    match &column.values {
        Values::Text(blobs) | Values::Bytes(blobs) | Values::Scalar(blobs) => push_blobs(to, blobs),
        Values::Int(ints) => ints.iter().for_each(|int| to.extend_from_slice(&int.to_be_bytes())),
        Values::Float(floats) => {
            floats.iter().for_each(|float| to.extend_from_slice(&float.to_bits().to_be_bytes()));
        }
        Values::Boolean(booleans) => to.extend(booleans.iter().map(|&boolean| u8::from(boolean))),
    }
}

/// Takes a batch off the front; none if the bytes are not one.
pub fn decode(from: &mut &[u8]) -> Option<Batch> {
    let rows = take_count(from)?;
    let timestamps = take_many(from, rows, |from| take_eight(from).map(|bytes| i64::from_be_bytes(*bytes)))?;
    let parts = take_byte(from)?;
    let has = |part: u8| parts & part != 0;
    let changes = if has(CHANGES) { take_many(from, rows, take_change)? } else { vec![] };
    let count = take_count(from)?;
    let columns = take_many(from, count, |from| take_column(from, rows))?;
    let raw = if has(RAW) { Some(take_raw(from, rows)?) } else { None };
    let headers = if has(HEADERS) { Some(take_headers(from)?) } else { None };
    let keys = if has(KEYS) { Some(take_keys(from, rows)?) } else { None };
    let origin = if has(ORIGIN) { Some(take_origin(from, rows)?) } else { None };
    let count = take_count(from)?;
    let mut known = BTreeSet::new();
    let faults = take_many(from, count, |from| take_fault(from, &mut known))?;
    Some(Batch { timestamps, changes, columns, raw, headers, keys, origin, faults })
}

/// So many of something: never more than there are bytes left, so that damage does not ask for all memory.
fn take_count(from: &mut &[u8]) -> Option<usize> {
    let count = usize::try_from(take_varint(from)?).ok()?;
    (count <= from.len()).then_some(count)
}

fn take_many<T>(from: &mut &[u8], count: usize, mut take: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    (0..count).map(|_| take(from)).collect()
}

fn take_byte(from: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = from.split_first()?;
    *from = rest;
    Some(byte)
}

fn take_eight<'a>(from: &mut &'a [u8]) -> Option<&'a [u8; 8]> {
    let (eight, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(eight)
}

fn take_bool(from: &mut &[u8]) -> Option<bool> {
    take_byte(from).map(|byte| byte == 1)
}

fn take_small(from: &mut &[u8]) -> Option<u32> {
    take_varint(from)?.try_into().ok()
}

fn take_change(from: &mut &[u8]) -> Option<Change> {
    take_bool(from).map(|retract| if retract { Change::Retract } else { Change::Insert })
}

fn take_string<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_count(from)?;
    let (string, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(string)
}

fn take_blobs(from: &mut &[u8], count: usize) -> Option<Blobs> {
    let mut blobs = Blobs::default();
    for _ in 0..count {
        blobs.push(take_string(from)?);
    }
    Some(blobs)
}

fn take_column(from: &mut &[u8], rows: usize) -> Option<Column> {
    let kind = take_byte(from)?;
    let present = if take_bool(from)? { Some(take_many(from, rows, take_bool)?) } else { None };
    let values = match kind {
        0 => Values::Text(take_blobs(from, rows)?),
        1 => Values::Bytes(take_blobs(from, rows)?),
        2 => Values::Int(take_many(from, rows, |from| take_eight(from).map(|bytes| i64::from_be_bytes(*bytes)))?),
        3 => {
            let float = |from: &mut &[u8]| take_eight(from).map(|bytes| f64::from_bits(u64::from_be_bytes(*bytes)));
            Values::Float(take_many(from, rows, float)?)
        }
        4 => Values::Boolean(take_many(from, rows, take_bool)?),
        5 => Values::Scalar(take_blobs(from, rows)?),
        _ => return None,
    };
    Some(Column { present, values })
}

fn take_raw(from: &mut &[u8], rows: usize) -> Option<Raw> {
    let there = take_many(from, rows, take_bool)?;
    let (mut slab, mut spans) = (Vec::new(), Vec::with_capacity(rows));
    for there in there {
        let value = take_string(from)?;
        let start = u32::try_from(slab.len()).ok()?;
        slab.extend_from_slice(value);
        spans.push(if there { (start, u32::try_from(slab.len()).ok()?) } else { Raw::TOMBSTONE });
    }
    Some(Raw { slab: slab.into(), spans })
}

fn take_headers(from: &mut &[u8]) -> Option<Headers> {
    let count = take_count(from)?;
    let rows = take_many(from, count, take_small)?;
    Some(Headers { rows, names: take_blobs(from, count)?, values: take_blobs(from, count)? })
}

fn take_keys(from: &mut &[u8], rows: usize) -> Option<Keys> {
    let count = take_count(from)?;
    let distinct = take_blobs(from, count)?;
    let of = take_many(from, rows, take_small)?;
    let hashes = distinct.iter().map(key::hash).collect();
    of.iter().all(|&of| (of as usize) < count).then_some(Keys { of, distinct, hashes })
}

fn take_origin(from: &mut &[u8], rows: usize) -> Option<Origin> {
    let partition = std::str::from_utf8(take_string(from)?).ok()?.into();
    Some(Origin { partition, places: take_many(from, rows, take_varint)? })
}

fn take_fault(from: &mut &[u8], known: &mut BTreeSet<&'static str>) -> Option<Fault> {
    let (row, column) = (take_small(from)?, take_varint(from)?.try_into().ok()?);
    let found = std::str::from_utf8(take_string(from)?).ok()?;
    let found = match known.get(found) {
        Some(known) => known,
        None => {
            // Why leaked: there are a handful of such words, and rows are read back only when a job starts.
            let word: &'static str = String::from(found).leak();
            known.insert(word);
            word
        }
    };
    Some(Fault { row, column, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Keying;
    use crate::record::Value;

    /// Three rows with everything a batch can have.
    fn full() -> Batch {
        let mut city = Column::new(ValueType::Scalar);
        [Value::Text("Pune"), Value::Int(7), Value::Text("Pune")].into_iter().for_each(|value| {
            city.push(value);
        });
        let mut name = Column::new(ValueType::Text);
        [Value::Text("a"), Value::Absent, Value::Text("")].into_iter().for_each(|value| {
            name.push(value);
        });
        let mut names = Blobs::default();
        names.push(b"trace");
        let keys = Keying::default().keys(3, &[&city]).0;
        Batch {
            timestamps: vec![1, -2, i64::MAX],
            changes: vec![Change::Insert, Change::Retract, Change::Insert],
            columns: vec![
                city,
                name,
                Column::all(Values::Int(vec![1, -1, 0])),
                Column::all(Values::Float(vec![0.5, f64::NAN, -0.0])),
                Column::all(Values::Boolean(vec![true, false, true])),
            ],
            raw: Some(Raw { slab: "xxabcd".into(), spans: vec![(2, 4), Raw::TOMBSTONE, (4, 6)] }),
            headers: Some(Headers { rows: vec![1], names: names.clone(), values: names }),
            keys: Some(keys),
            origin: Some(Origin { partition: "rides.jsonl".into(), places: vec![3, 4, 300] }),
            faults: vec![Fault { row: 1, column: 1, found: "an object" }],
        }
    }

    fn encoded(batch: &Batch) -> Vec<u8> {
        let mut bytes = vec![];
        encode(batch, &mut bytes);
        bytes
    }

    #[test]
    fn batch_comes_back_as_it_went_in() {
        for batch in [full(), full().select(&[1, 2]), Batch::default()] {
            let bytes = encoded(&batch);
            let mut rest = &bytes[..];
            let back = decode(&mut rest).expect("it is one");
            assert!(rest.is_empty());
            assert_eq!(encoded(&back), bytes);
            let raw = |batch: &Batch| -> Vec<Option<Vec<u8>>> {
                let raw = batch.raw.as_ref();
                (0..batch.len()).filter_map(|row| raw.map(|raw| raw.get(row).map(<[u8]>::to_vec))).collect()
            };
            assert_eq!(raw(&back), raw(&batch));
            assert_eq!(back.faults, batch.faults);
            let keys = |batch: &Batch| batch.keys.as_ref().map(|keys| (keys.of.clone(), keys.hashes.clone()));
            assert_eq!(keys(&back), keys(&batch));
        }
    }

    #[test]
    fn bytes_that_end_too_early_are_no_batch() {
        let bytes = encoded(&full());
        assert!((0..bytes.len()).all(|length| decode(&mut &bytes[..length]).is_none()));
    }
}
