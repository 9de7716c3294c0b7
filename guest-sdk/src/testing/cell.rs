//! Single values, and the columns made of them: slow and plain, for tests.

use crate::bindings::types::{Column, ValueType, Values};
use crate::input::{blob, len_of, no_blobs, push_blob};
use serde_json::Value;

/// One value of a record's field or of a state.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// UTF-8 text.
    Text(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// A 64-bit integer with sign.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// A boolean.
    Boolean(bool),
}

impl Cell {
    /// The value of a column in a row.
    pub(crate) fn of(column: &Column, row: usize) -> Option<Self> {
        if column.present.as_ref().is_some_and(|present| !present[row]) {
            return None;
        }
        Some(match &column.values {
            Values::Text(blobs) => {
                let text = std::str::from_utf8(blob(blobs, row)).expect("a text column is UTF-8");
                Self::Text(text.to_owned())
            }
            Values::Bytes(blobs) => Self::Bytes(blob(blobs, row).to_vec()),
            Values::Int(values) => Self::Int(values[row]),
            Values::Float(values) => Self::Float(values[row]),
            Values::Boolean(values) => Self::Boolean(values[row]),
        })
    }

    /// The values of a column.
    pub(crate) fn all(column: &Column) -> Vec<Option<Self>> {
        (0..len_of(column)).map(|row| Self::of(column, row)).collect()
    }

    /// A column of a type.
    pub(crate) fn column(value_type: ValueType, cells: &[Option<Self>]) -> Column {
        let mut present = vec![true; cells.len()];
        let mut values = match value_type {
            ValueType::Text => Values::Text(no_blobs()),
            ValueType::Bytes => Values::Bytes(no_blobs()),
            ValueType::Int => Values::Int(Vec::new()),
            ValueType::Float => Values::Float(Vec::new()),
            ValueType::Boolean => Values::Boolean(Vec::new()),
        };
        for (cell, present) in cells.iter().zip(&mut present) {
            *present = cell.is_some();
            match (&mut values, cell) {
                (Values::Text(blobs), Some(Self::Text(text))) => push_blob(blobs, text.as_bytes()),
                (Values::Bytes(blobs), Some(Self::Bytes(bytes))) => push_blob(blobs, bytes),
                (Values::Text(blobs) | Values::Bytes(blobs), None) => push_blob(blobs, &[]),
                (Values::Int(values), Some(Self::Int(value))) => values.push(*value),
                (Values::Int(values), None) => values.push(0),
                (Values::Float(values), Some(Self::Float(value))) => values.push(*value),
                (Values::Float(values), None) => values.push(0.0),
                (Values::Boolean(values), Some(Self::Boolean(value))) => values.push(*value),
                (Values::Boolean(values), None) => values.push(false),
                (_, Some(cell)) => panic!("{cell:?} is not a value of type {value_type:?}"),
            }
        }
        Column { present: present.contains(&false).then_some(present), values }
    }

    /// The value of a JSON field, if it is of the type.
    pub(crate) fn of_json(value: &Value, value_type: ValueType) -> Option<Self> {
        match (value_type, value) {
            (ValueType::Text, Value::String(text)) => Some(Self::Text(text.clone())),
            (ValueType::Bytes, Value::String(text)) => Some(Self::Bytes(text.clone().into_bytes())),
            (ValueType::Boolean, Value::Bool(value)) => Some(Self::Boolean(*value)),
            (ValueType::Float, Value::Number(number)) => number.as_f64().map(Self::Float),
            (ValueType::Int, Value::Number(number)) => number.as_i64().map(Self::Int),
            _ => None,
        }
    }

    /// The value as JSON; stored JSON text as what it says.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Bytes(bytes) => serde_json::from_slice(bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned())),
            Self::Int(value) => Value::from(*value),
            Self::Float(value) => Value::from(*value),
            Self::Boolean(value) => Value::Bool(*value),
        }
    }
}
