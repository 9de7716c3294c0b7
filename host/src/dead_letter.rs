//! Records put aside with the reason they failed. They travel as rows of a hidden output to a sink of their own, which is a
//! follower of the checkpoint like any other: none is lost, none comes twice.

use dataflow::record::{Batch, Column, Field, Origin, Raw, Schema, Value, ValueType};

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

fn push(column: &mut Column, value: Option<Value<'_>>) {
    column.push(value.unwrap_or(Value::Absent));
}

/// A key of several fields as text, such as `Pune, r2`; none for a key of one field, which keeps its type.
fn several_parts(key: &[u8]) -> Option<String> {
    let part = |value: Value<'_>| match value {
        Value::Text(text) => text.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float.to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Absent => String::new(),
    };
    let parts: Vec<String> = dataflow::key::parts(key).map(part).collect();
    (parts.len() > 1).then(|| parts.join(", "))
}
