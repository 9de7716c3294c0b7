//! Records put aside with the reason they failed. They travel as rows of a hidden output to a sink of their own, which is a
//! follower of the checkpoint like any other: none is lost, none comes twice.

use dataflow::record::{Batch, Column, Field, Origin, Raw, Schema, Value, ValueType};
use serde_json::Value as Json;

/// One record, timer or window that failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeadLetter {
    /// Source or operator that put it aside.
    pub node: String,
    /// File or partition it was read from, where known.
    pub partition: Option<String>,
    /// Line or offset in it.
    pub place: Option<u64>,
    /// Encoded key, where it had one.
    pub key: Option<Vec<u8>>,
    /// Event time, where it had one.
    pub timestamp: Option<i64>,
    /// What was wrong, what was expected.
    pub reason: String,
    /// Content digest of the component that failed on it.
    pub component: Option<String>,
    /// The guest's backtrace.
    pub backtrace: Option<String>,
    /// The record's bytes; long ones are cut (see [`VALUE_BYTES_MAX`]).
    pub value: Option<Vec<u8>>,
}

/// Most bytes of a record that a dead letter keeps.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

impl DeadLetter {
    /// For row `row` of a batch: takes origin, key, time and bytes from it.
    pub fn of_row(node: &str, batch: &Batch, row: usize, reason: impl Into<String>) -> Self {
        let value = batch.raw.as_ref().and_then(|raw: &Raw| raw.get(row));
        Self {
            node: node.to_string(),
            partition: batch.origin.as_ref().map(|origin: &Origin| origin.partition.to_string()),
            place: batch.origin.as_ref().map(|origin| origin.places[row]),
            key: batch.keys.as_ref().map(|keys| keys.of_row(row).to_vec()),
            timestamp: batch.timestamps.get(row).copied(),
            reason: reason.into(),
            value: value.map(|value| value[..value.len().min(VALUE_BYTES_MAX)].to_vec()),
            ..Self::default()
        }
    }

    /// Which record it was, for an error: its file and line, or else its key and time, in brackets and behind a space.
    pub fn whence(&self) -> String {
        let key = self.key.as_deref().map(|key| format!("key `{}`", parts_text(key)));
        let time = self.timestamp.map(|ms| format!("time {}", time_text(ms)));
        let known: Vec<String> = match (&self.partition, self.place) {
            (Some(partition), Some(place)) => vec![format!("{partition}, line {place}")],
            (Some(partition), None) => vec![partition.clone()],
            (None, _) => key.into_iter().chain(time).collect(),
        };
        if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
    }

    /// With the columns of that row as its value, where it has no bytes of its own: panes and what components put out.
    pub fn with_columns(mut self, schema: &Schema, batch: &Batch, row: usize) -> Self {
        if self.value.is_none() {
            let mut value = columns_as_json(schema, batch, row).to_string().into_bytes();
            value.truncate(VALUE_BYTES_MAX);
            self.value = Some(value);
        }
        self
    }
}

/// A row's columns as JSON, nested as their pointers are; times as RFC 3339.
fn columns_as_json(schema: &Schema, batch: &Batch, row: usize) -> Json {
    let mut object = Json::Object(serde_json::Map::new());
    for (field, column) in schema.fields.iter().zip(&batch.columns) {
        let value = match column.get(row) {
            Value::Int(ms) if field.time => time_text(ms).into(),
            Value::Absent => Json::Null,
            Value::Text(text) => text.into(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
            Value::Int(int) => int.into(),
            Value::Float(float) => float.into(),
            Value::Boolean(boolean) => boolean.into(),
        };
        let mut place = &mut object;
        for step in field.pointer.split('/').skip(1) {
            if !place.is_object() {
                *place = Json::Object(serde_json::Map::new());
            }
            place = &mut place[step.replace("~1", "/").replace("~0", "~")];
        }
        *place = value;
    }
    object
}

/// The columns of dead letters.
pub fn schema() -> Schema {
    Schema {
        fields: vec![
            Field::new("/node", ValueType::Text),
            Field::new("/partition", ValueType::Text),
            Field::new("/place", ValueType::Int),
            Field::new("/key", ValueType::Scalar),
            Field::time("/timestamp"),
            Field::new("/reason", ValueType::Text),
            Field::new("/component", ValueType::Text),
            Field::new("/backtrace", ValueType::Text),
            Field::new("/value", ValueType::Text),
            Field::new("/value_bytes", ValueType::Bytes),
        ],
    }
}

/// Dead letters as a batch with the columns of [`schema`]. A value that is not UTF-8 goes to `value_bytes` instead of
/// `value`. The rows' timestamps are the records' own, or 0.
pub fn batch(letters: &[DeadLetter]) -> Batch {
    let mut columns = schema().columns(letters.len());
    for letter in letters {
        let several = letter.key.as_deref().and_then(several_parts);
        let one = letter.key.as_deref().and_then(|key| dataflow::key::parts(key).next());
        let key = several.as_deref().map(Value::Text).or(one).unwrap_or(Value::Absent);
        let text = letter.value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
        let bytes = if text.is_none() { letter.value.as_deref() } else { None };
        push(&mut columns[0], Some(Value::Text(&letter.node)));
        push(&mut columns[1], letter.partition.as_deref().map(Value::Text));
        push(&mut columns[2], letter.place.map(|place| Value::Int(place as i64)));
        push(&mut columns[3], Some(key));
        push(&mut columns[4], letter.timestamp.map(Value::Int));
        push(&mut columns[5], Some(Value::Text(&letter.reason)));
        push(&mut columns[6], letter.component.as_deref().map(Value::Text));
        push(&mut columns[7], letter.backtrace.as_deref().map(Value::Text));
        push(&mut columns[8], text.map(Value::Text));
        push(&mut columns[9], bytes.map(Value::Bytes));
    }
    Batch {
        timestamps: letters.iter().map(|letter| letter.timestamp.unwrap_or(0)).collect(),
        columns,
        ..Batch::default()
    }
}

/// The first of dead letters that were made a batch: node, record and reason.
pub fn first(letters: &Batch) -> String {
    let column = |number: usize| letters.columns[number].get(0);
    let text = |number: usize| if let Value::Text(text) = column(number) { Some(text.to_string()) } else { None };
    let int = |number: usize| if let Value::Int(int) = column(number) { Some(int) } else { None };
    let mut key = vec![];
    dataflow::key::push_part(&mut key, column(3));
    let letter = DeadLetter {
        partition: text(1),
        place: int(2).map(i64::unsigned_abs),
        key: Some(key).filter(|_| column(3) != Value::Absent),
        timestamp: int(4),
        ..DeadLetter::default()
    };
    format!("`{}`{}: {}", text(0).unwrap_or_default(), letter.whence(), text(5).unwrap_or_default())
}

fn push(column: &mut Column, value: Option<Value<'_>>) {
    column.push(value.unwrap_or(Value::Absent));
}

/// A time as RFC 3339; as its number where that has no text for it.
fn time_text(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// A key of several fields as text, such as `Pune, r2`; none for a key of one field, which keeps its type.
fn several_parts(key: &[u8]) -> Option<String> {
    (dataflow::key::parts(key).count() > 1).then(|| parts_text(key))
}

fn parts_text(key: &[u8]) -> String {
    let part = |value: Value<'_>| match value {
        Value::Text(text) => text.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float.to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Absent => String::new(),
    };
    dataflow::key::parts(key).map(part).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_told_by_its_line_or_else_by_its_key_and_time() {
        let mut key = vec![];
        dataflow::key::push_part(&mut key, Value::Text("Pune"));
        dataflow::key::push_part(&mut key, Value::Int(7));
        let timed = DeadLetter { key: Some(key), timestamp: Some(1_754_038_800_000), ..DeadLetter::default() };
        assert_eq!(timed.whence(), " (key `Pune, 7`, time 2025-08-01T09:00:00Z)");
        let read = DeadLetter { partition: Some("rides.jsonl".into()), place: Some(3), ..timed };
        assert_eq!(read.whence(), " (rides.jsonl, line 3)");
        assert_eq!(DeadLetter::default().whence(), "");
    }
}
