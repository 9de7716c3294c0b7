//! Records of a case become batches as a task would hand them in, and what comes out becomes JSON again.

use super::case::Record;
use crate::engine::description::{Output, WantedField};
use dataflow::key::{Keying, hash, parts};
use dataflow::record::{Batch, Column, Raw, Value, ValueType};
use serde_json::Value as Json;

/// The fields that a component takes of an input.
pub(super) fn fields(fields: &[WantedField], input: usize) -> impl Iterator<Item = &WantedField> {
    fields.iter().filter(move |field| field.input.is_none_or(|it| it == input))
}

/// Records of one input as a batch: a column per field at `pointers`, keys, whole values.
pub(super) fn batch(records: &[&Record], fields: &[(String, ValueType)]) -> Batch {
    let mut columns: Vec<Column> = fields.iter().map(|(_, value_type)| Column::new(*value_type)).collect();
    let mut slab = vec![];
    let mut spans = vec![];
    for record in records {
        for (column, (pointer, value_type)) in columns.iter_mut().zip(fields) {
            push(column, *value_type, record.record.pointer(pointer), &record.record);
        }
        if record.record.is_null() {
            spans.push(Raw::TOMBSTONE);
        } else {
            let from = slab.len() as u32;
            slab.extend_from_slice(whole(&record.record).as_bytes());
            spans.push((from, slab.len() as u32));
        }
    }
    let keyed = records.iter().all(|record| record.key.is_some());
    Batch {
        timestamps: records.iter().map(|record| record.time).collect(),
        columns,
        raw: Some(Raw { slab: slab.into(), spans }),
        keys: keyed.then(|| keys(records)),
        ..Batch::default()
    }
}

/// A record's value as text: JSON, and text as it stands.
fn whole(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn push(column: &mut Column, value_type: ValueType, value: Option<&Json>, record: &Json) {
    let text;
    let value = match (value_type, value) {
        (ValueType::Text | ValueType::Bytes, Some(value)) if std::ptr::eq(value, record) => {
            text = whole(record);
            if value_type == ValueType::Text { Value::Text(&text) } else { Value::Bytes(text.as_bytes()) }
        }
        (ValueType::Text, Some(Json::String(value))) => Value::Text(value),
        (ValueType::Bytes, Some(Json::String(value))) => Value::Bytes(value.as_bytes()),
        (ValueType::Int, Some(Json::Number(value))) => value.as_i64().map_or(Value::Absent, Value::Int),
        (ValueType::Float, Some(Json::Number(value))) => value.as_f64().map_or(Value::Absent, Value::Float),
        (ValueType::Boolean, Some(Json::Bool(value))) => Value::Boolean(*value),
        _ => Value::Absent,
    };
    column.push(value);
}

fn keys(records: &[&Record]) -> dataflow::key::Keys {
    let mut column = Column::new(ValueType::Bytes);
    let encoded: Vec<Vec<u8>> = records.iter().filter_map(|record| record.key.as_ref()).map(key).collect();
    for key in &encoded {
        column.push(Value::Bytes(key));
    }
    let (mut keys, _) = Keying::default().keys(records.len(), &[&column]);
    // Keying wraps each key as one part of bytes; the parts inside are the key.
    let mut distinct = dataflow::record::Blobs::default();
    for index in 0..keys.distinct.len() {
        if let Some(Value::Bytes(key)) = parts(keys.distinct.get(index)).next() {
            distinct.push(key);
            keys.hashes[index] = hash(key);
        }
    }
    keys.distinct = distinct;
    keys
}

/// The encoded key that a case writes as one part or a list of parts.
pub(super) fn key(written: &Json) -> Vec<u8> {
    let mut bytes = vec![];
    let parts = written.as_array().map_or(std::slice::from_ref(written), Vec::as_slice);
    for part in parts {
        let value = match part {
            Json::String(text) => Value::Text(text),
            Json::Bool(value) => Value::Boolean(*value),
            Json::Number(number) => match number.as_i64() {
                Some(int) => Value::Int(int),
                None => Value::Float(number.as_f64().unwrap_or_default()),
            },
            _ => Value::Absent,
        };
        dataflow::key::push_part(&mut bytes, value);
    }
    bytes
}

/// The rows of a batch that came out of `output`, as JSON.
pub(super) fn json(batch: &Batch, output: &Output) -> Vec<Json> {
    (0..batch.len()).map(|row| row_json(batch, output, row)).collect()
}

fn row_json(batch: &Batch, output: &Output, row: usize) -> Json {
    if !output.columns.is_empty() {
        let columns = output.columns.iter().zip(&batch.columns);
        return columns.map(|((name, _), column)| (name.clone(), value_json(column.get(row)))).collect();
    }
    match batch.raw.as_ref().and_then(|raw| raw.get(row)) {
        Some(bytes) => bytes_json(bytes),
        None => Json::Null,
    }
}

/// A value as JSON; bytes that hold JSON are read.
pub(super) fn value_json(value: Value<'_>) -> Json {
    match value {
        Value::Absent => Json::Null,
        Value::Text(text) => text.into(),
        Value::Bytes(bytes) => bytes_json(bytes),
        Value::Int(int) => int.into(),
        Value::Float(float) => float.into(),
        Value::Boolean(boolean) => boolean.into(),
    }
}

fn bytes_json(bytes: &[u8]) -> Json {
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(value: Json, key: Json) -> Record {
        Record { record: value, key: Some(key), time: 7, input: None }
    }

    #[test]
    fn records_become_columns_keys_and_whole_values() {
        let records = [record(json!({"a": {"b": 1}}), json!("x")), record(json!({"a": "no"}), json!(["x", 2]))];
        let batch = batch(&[&records[0], &records[1], &records[0]], &[("/a/b".into(), ValueType::Int)]);
        assert_eq!(batch.timestamps, [7, 7, 7]);
        assert_eq!((batch.columns[0].get(0), batch.columns[0].get(1)), (Value::Int(1), Value::Absent));
        let keys = batch.keys.as_ref().unwrap();
        assert_eq!((keys.of_row(0), keys.of_row(2)), (key(&json!("x")).as_slice(), keys.of_row(0)));
        assert_eq!(keys.of_row(1), key(&json!(["x", 2])));
        assert_eq!(keys.hashes[0], hash(&key(&json!("x"))));
        assert_eq!(batch.raw.as_ref().unwrap().get(0), Some(br#"{"a":{"b":1}}"#.as_slice()));
    }
}
