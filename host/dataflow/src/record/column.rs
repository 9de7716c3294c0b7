//! Typed columns. The shapes are those of `wit/operator.wit`, so a column crosses to a guest as it lies here.

use crate::key;
use serde::{Deserialize, Serialize};
use std::mem::size_of;
use std::ops::Range;

/// Byte strings end to end: string `i` is `bytes[ends[i - 1]..ends[i]]`, from 0 for `i = 0`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blobs {
    /// Where each string ends in `bytes`; never falls.
    pub ends: Vec<u32>,
    /// The strings, without gaps.
    pub bytes: Vec<u8>,
}

impl Blobs {
    /// Room for `rows` strings of about `bytes_each` bytes.
    pub fn with_capacity(rows: usize, bytes_each: usize) -> Self {
        Self { ends: Vec::with_capacity(rows), bytes: Vec::with_capacity(rows * bytes_each) }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends a string. A batch never holds 4 GiB: batches close long before.
    #[inline]
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.close();
    }

    /// Ends the string whose bytes were appended to `bytes` directly.
    #[inline]
    pub fn close(&mut self) {
        self.ends.push(u32::try_from(self.bytes.len()).expect("a column of a batch stays below 4 GiB"));
    }

    /// String `row`.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.span(row)]
    }

    /// Where string `row` lies in `bytes`.
    #[inline]
    pub fn span(&self, row: usize) -> Range<usize> {
        let from = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        from..self.ends[row] as usize
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// The strings at `rows`, in that order.
    pub fn select(&self, rows: &[u32]) -> Self {
        let mut chosen = Self::with_capacity(rows.len(), self.bytes.len() / self.len().max(1) + 1);
        rows.iter().for_each(|&row| chosen.push(self.get(row as usize)));
        chosen
    }
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueType {
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
    /// 64-bit signed.
    Int,
    /// 64-bit IEEE 754.
    Float,
    /// True or false.
    Boolean,
    /// Any of the above, each value in the encoding of one part of a key (see [`crate::key`]). Only inside the host:
    /// key fields have it, since their type is the data's own.
    Scalar,
}

impl ValueType {
    /// The name users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Int => "int",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Scalar => "text, int, float or boolean",
        }
    }
}

/// A named, typed column of an edge. A pointer such as `/city` addresses it: a name is a JSON pointer, with its slash,
/// where the column was taken out of a record; built-in operators and guests name theirs `/key`, `/count` the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// JSON pointer; the empty pointer is the whole value.
    pub pointer: String,
    /// What the column holds.
    pub value_type: ValueType,
    /// An int column of times, ms since 1970 UTC: sinks write it as a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time: bool,
}

impl Field {
    /// A column that is no time.
    pub fn new(pointer: impl Into<String>, value_type: ValueType) -> Self {
        Self { pointer: pointer.into(), value_type, time: false }
    }

    /// An int column of times.
    pub fn time(pointer: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), value_type: ValueType::Int, time: true }
    }
}

/// The columns that flow over one edge, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Columns by position.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Position of the column with this pointer and type.
    pub fn position(&self, pointer: &str, value_type: ValueType) -> Option<usize> {
        self.fields.iter().position(|field| field.pointer == pointer && field.value_type == value_type)
    }

    /// Position of the first column with this pointer, whatever its type.
    pub fn find(&self, pointer: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.pointer == pointer)
    }

    /// An empty batch column for each field.
    pub fn columns(&self, rows: usize) -> Vec<Column> {
        self.fields.iter().map(|field| Column::with_capacity(field.value_type, rows)).collect()
    }
}

/// The values of a column, one per row.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// UTF-8 strings.
    Text(Blobs),
    /// Byte strings.
    Bytes(Blobs),
    /// Integers.
    Int(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Booleans.
    Boolean(Vec<bool>),
    /// Key parts.
    Scalar(Blobs),
}

/// One value per row; a row that is not present holds any value.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// None where every row has a value.
    pub present: Option<Vec<bool>>,
    /// The values.
    pub values: Values,
}

/// One value of a column, borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// The row has none.
    Absent,
    /// UTF-8.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Integer.
    Int(i64),
    /// Float.
    Float(f64),
    /// Boolean.
    Boolean(bool),
}

impl Column {
    /// An empty column.
    pub fn new(value_type: ValueType) -> Self {
        Self::with_capacity(value_type, 0)
    }

    /// An empty column with room for `rows`.
    pub fn with_capacity(value_type: ValueType, rows: usize) -> Self {
        let blobs = || Blobs::with_capacity(rows, 8);
        let values = match value_type {
            ValueType::Text => Values::Text(blobs()),
            ValueType::Bytes => Values::Bytes(blobs()),
            ValueType::Int => Values::Int(Vec::with_capacity(rows)),
            ValueType::Float => Values::Float(Vec::with_capacity(rows)),
            ValueType::Boolean => Values::Boolean(Vec::with_capacity(rows)),
            ValueType::Scalar => Values::Scalar(blobs()),
        };
        Self { present: None, values }
    }

    /// A column in which every row is present.
    pub fn all(values: Values) -> Self {
        Self { present: None, values }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Text(blobs) | Values::Bytes(blobs) | Values::Scalar(blobs) => blobs.len(),
            Values::Int(ints) => ints.len(),
            Values::Float(floats) => floats.len(),
            Values::Boolean(booleans) => booleans.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the column holds.
    pub fn value_type(&self) -> ValueType {
        match self.values {
            Values::Text(_) => ValueType::Text,
            Values::Bytes(_) => ValueType::Bytes,
            Values::Int(_) => ValueType::Int,
            Values::Float(_) => ValueType::Float,
            Values::Boolean(_) => ValueType::Boolean,
            Values::Scalar(_) => ValueType::Scalar,
        }
    }

    /// Whether `row` has a value.
    #[inline]
    pub fn is_present(&self, row: usize) -> bool {
        self.present.as_ref().is_none_or(|present| present[row])
    }

    /// The value of `row`; a scalar comes out as what it holds.
    pub fn get(&self, row: usize) -> Value<'_> {
        if !self.is_present(row) {
            return Value::Absent;
        }
        match &self.values {
            Values::Text(blobs) => match std::str::from_utf8(blobs.get(row)) {
                Ok(text) => Value::Text(text),
                Err(_) => Value::Bytes(blobs.get(row)),
            },
            Values::Bytes(blobs) => Value::Bytes(blobs.get(row)),
            Values::Int(ints) => Value::Int(ints[row]),
            Values::Float(floats) => Value::Float(floats[row]),
            Values::Boolean(booleans) => Value::Boolean(booleans[row]),
            Values::Scalar(blobs) => key::parts(blobs.get(row)).next().unwrap_or(Value::Absent),
        }
    }

    /// Appends a value. One of another type than the column's (an int into a float column aside) becomes absent, and
    /// the answer is false.
    #[inline]
    pub fn push(&mut self, value: Value<'_>) -> bool {
        let fits = match (&mut self.values, value) {
            (Values::Text(blobs), Value::Text(text)) => {
                blobs.push(text.as_bytes());
                true
            }
            (Values::Bytes(blobs), Value::Bytes(bytes)) => {
                blobs.push(bytes);
                true
            }
            (Values::Int(ints), Value::Int(int)) => {
                ints.push(int);
                true
            }
            (Values::Float(floats), Value::Float(float)) => {
                floats.push(float);
                true
            }
            (Values::Float(floats), Value::Int(int)) => {
                floats.push(int as f64);
                true
            }
            (Values::Boolean(booleans), Value::Boolean(boolean)) => {
                booleans.push(boolean);
                true
            }
            (Values::Scalar(blobs), value) if value != Value::Absent => {
                key::push_part(&mut blobs.bytes, value);
                blobs.close();
                true
            }
            _ => {
                self.push_absent();
                return value == Value::Absent;
            }
        };
        if let Some(present) = &mut self.present {
            present.push(true);
        }
        fits
    }

    /// Appends a row without a value.
    pub fn push_absent(&mut self) {
        let rows = self.len();
        self.present.get_or_insert_with(|| vec![true; rows]).push(false);
        match &mut self.values {
            Values::Text(blobs) | Values::Bytes(blobs) | Values::Scalar(blobs) => blobs.close(),
            Values::Int(ints) => ints.push(0),
            Values::Float(floats) => floats.push(0.0),
            Values::Boolean(booleans) => booleans.push(false),
        }
    }

    /// The rows `rows`, in that order.
    pub fn select(&self, rows: &[u32]) -> Self {
        let values = match &self.values {
            Values::Text(blobs) => Values::Text(blobs.select(rows)),
            Values::Bytes(blobs) => Values::Bytes(blobs.select(rows)),
            Values::Scalar(blobs) => Values::Scalar(blobs.select(rows)),
            Values::Int(ints) => Values::Int(rows.iter().map(|&row| ints[row as usize]).collect()),
            Values::Float(floats) => Values::Float(rows.iter().map(|&row| floats[row as usize]).collect()),
            Values::Boolean(booleans) => Values::Boolean(rows.iter().map(|&row| booleans[row as usize]).collect()),
        };
        let present = self.present.as_ref().map(|present| rows.iter().map(|&row| present[row as usize]).collect());
        Self { present, values }
    }

    /// Appends row `row` of `from`, which has this column's type.
    pub fn push_from(&mut self, from: &Self, row: usize) {
        match (&mut self.values, &from.values) {
            (Values::Text(to), Values::Text(blobs))
            | (Values::Bytes(to), Values::Bytes(blobs))
            | (Values::Scalar(to), Values::Scalar(blobs))
                if from.is_present(row) =>
            {
                to.push(blobs.get(row));
                if let Some(present) = &mut self.present {
                    present.push(true);
                }
            }
            _ => {
                self.push(from.get(row));
            }
        }
    }

    /// Bytes it holds, for bounds on channels.
    pub fn byte_size(&self) -> usize {
        let values = match &self.values {
            Values::Text(blobs) | Values::Bytes(blobs) | Values::Scalar(blobs) => blobs.bytes.len() + blobs.len() * 4,
            Values::Int(_) | Values::Float(_) => self.len() * size_of::<i64>(),
            Values::Boolean(_) => self.len(),
        };
        values + self.present.as_ref().map_or(0, Vec::len)
    }
}
