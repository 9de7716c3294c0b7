//! A record to feed: value or fields, key, timestamp, headers, change.

use super::cell::Cell;
use crate::bindings::types::{Change, Description, Field};
use crate::{Input, KeyValue, Timestamp};
use serde_json::Value;

/// A record for [`Harness::send`](super::Harness::send): `Record::json(json!({"amount": 3})).key("card-1").at(1_000)`.
#[derive(Clone, Debug)]
pub struct Record {
    pub(super) value: Option<Vec<u8>>,
    pub(super) cells: Option<Vec<Option<Cell>>>,
    pub(super) input: u32,
    pub(super) key: Option<Vec<u8>>,
    pub(super) time: Timestamp,
    pub(super) change: Change,
    pub(super) headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// A record of raw bytes; if the operator has fields they must be JSON.
    pub fn bytes(value: impl Into<Vec<u8>>) -> Self {
        Self {
            value: Some(value.into()),
            cells: None,
            input: 0,
            key: None,
            time: 0,
            change: Change::Insert,
            headers: Vec::new(),
        }
    }

    /// A record whose value is JSON. The operator's fields are taken out of it as the host would.
    pub fn json(value: Value) -> Self {
        Self::bytes(value.to_string())
    }

    /// A record of which nobody reads the value.
    pub fn empty() -> Self {
        Self::bytes("{}")
    }

    /// A record without value.
    pub fn tombstone() -> Self {
        Self { value: None, ..Self::empty() }
    }

    /// A record given by its fields: `Record::fields::<Payment>(&Payment { … })`. It has no value beside them.
    pub fn fields<I: Input>(row: &I::Row<'_>) -> Self {
        let (input, cells) = I::cells(row);
        Self { cells: Some(cells), input, ..Self::empty() }
    }

    /// With a key: a value, or a tuple of them for an operator with several key fields.
    #[must_use]
    pub fn key(mut self, key: impl KeyValue) -> Self {
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        self.key = Some(bytes);
        self
    }

    /// At a timestamp, in milliseconds; 0 unless said.
    #[must_use]
    pub fn at(mut self, time: Timestamp) -> Self {
        self.time = time;
        self
    }

    /// By an input, counted from 0.
    #[must_use]
    pub fn input(mut self, input: u32) -> Self {
        self.input = input;
        self
    }

    /// Taking back a record that came before.
    #[must_use]
    pub fn retract(mut self) -> Self {
        self.change = Change::Retract;
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The values of the fields of the record's input, or why it goes to the dead letters.
    pub(super) fn taken_out(&self, description: &Description) -> Result<Vec<Option<Cell>>, String> {
        if let Some(cells) = &self.cells {
            return Ok(cells.clone());
        }
        let fields = fields_of(description, self.input);
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let value = self.value.as_deref().unwrap_or(b"null");
        let value: Value = serde_json::from_slice(value).map_err(|error| format!("the value is not JSON: {error}"))?;
        fields.iter().map(|field| take_out(&value, field)).collect()
    }
}

/// The fields of an input, in the order of declaration.
pub(super) fn fields_of(description: &Description, input: u32) -> Vec<&Field> {
    description.fields.iter().filter(|field| field.input.is_none_or(|of| of == input)).collect()
}

fn take_out(value: &Value, field: &Field) -> Result<Option<Cell>, String> {
    match value.pointer(&field.pointer) {
        None | Some(Value::Null) if field.required => Err(format!("{} is missing", field.pointer)),
        None | Some(Value::Null) => Ok(None),
        Some(found) => match Cell::of_json(found, field.value_type) {
            Some(cell) => Ok(Some(cell)),
            None => Err(format!("{} is {found}, not of type {:?}", field.pointer, field.value_type)),
        },
    }
}
