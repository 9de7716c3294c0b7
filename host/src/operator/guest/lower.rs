//! From a batch of the stream to the batch a guest sees. Columns are moved out and, after the call, moved back: nothing is
//! copied where a field has the type it lies in.

use crate::engine::bindings::processing::Batch as GuestBatch;
use crate::engine::bindings::types;
use crate::engine::columns;
use dataflow::record::{Batch, Blobs, Column, Fault, Headers, Value, ValueType, Values};
use dataflow::time::{START, Timestamp};

/// Where a described field comes from, for one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSource {
    /// The field's name, for reasons.
    pub name: String,
    /// Column of the input's batches that has it; none: no row has it.
    pub column: Option<usize>,
    /// The type the guest wants.
    pub value_type: ValueType,
    /// A row without it is a dead letter.
    pub required: bool,
}

/// How one input's batches are handed in.
#[derive(Debug, Clone, Default)]
pub(super) struct Lowering {
    /// The input's number in the description.
    pub(super) input: u32,
    pub(super) fields: Vec<FieldSource>,
    pub(super) whole_values: bool,
    pub(super) headers: bool,
}

/// What was moved out of a batch, and where it goes back to.
pub(super) struct Lent {
    /// For each field: the column it was moved from.
    from: Vec<Option<usize>>,
}

impl Lowering {
    /// The batch as the guest sees it, without states. `batch` is left without what was moved; see [`Lowering::give_back`].
    pub(super) fn lower(&self, batch: &mut Batch, now: Timestamp, watermark: Timestamp) -> (GuestBatch, Lent) {
        let mut from = Vec::with_capacity(self.fields.len());
        let mut fields = Vec::with_capacity(self.fields.len());
        for (at, field) in self.fields.iter().enumerate() {
            let again = self.fields[at + 1..].iter().any(|other| other.column == field.column);
            let (column, moved) = match field.column {
                Some(index) if batch.columns[index].value_type() == field.value_type && !again => {
                    (std::mem::replace(&mut batch.columns[index], Column::new(ValueType::Boolean)), Some(index))
                }
                Some(index) => (converted(&batch.columns[index], field.value_type), None),
                None => (absent(field.value_type, batch.len()), None),
            };
            fields.push(columns::lower(column));
            from.push(moved);
        }
        let (keys, key_of) = match &mut batch.keys {
            Some(keys) => (std::mem::take(&mut keys.distinct), std::mem::take(&mut keys.of)),
            None => (Blobs::default(), vec![]),
        };
        let guest = GuestBatch {
            now,
            watermark: (watermark != START).then_some(watermark),
            input: self.input,
            keys: columns::lower_blobs(keys),
            key_of,
            changes: columns::lower_changes(&batch.changes),
            values: self.whole_values.then(|| whole_values(batch)),
            fields,
            headers: if self.headers { batch.headers.as_ref().map(lower_headers) } else { None },
            states: vec![],
            timestamps: std::mem::take(&mut batch.timestamps),
        };
        (guest, Lent { from })
    }

    /// Moves back what [`Lowering::lower`] moved out.
    pub(super) fn give_back(guest: GuestBatch, lent: &Lent, batch: &mut Batch) {
        batch.timestamps = guest.timestamps;
        if let Some(keys) = &mut batch.keys {
            keys.distinct = columns::raise_blobs(guest.keys);
            keys.of = guest.key_of;
        }
        for (column, from) in guest.fields.into_iter().zip(&lent.from) {
            if let Some(index) = from {
                batch.columns[*index] = columns::raise(column);
            }
        }
    }

    /// The rows whose required fields are missing or of another type, ascending, each with its reason.
    pub(super) fn lacking(&self, batch: &Batch) -> Vec<(u32, String)> {
        let mut lacking: Vec<(u32, String)> = vec![];
        if !self.may_lack(batch) {
            return lacking;
        }
        for field in self.fields.iter().filter(|field| field.required) {
            for row in 0..batch.len() {
                let Some(reason) = field.missing(batch, row) else { continue };
                if let Err(at) = lacking.binary_search_by_key(&(row as u32), |(row, _)| *row) {
                    lacking.insert(at, (row as u32, reason));
                }
            }
        }
        lacking
    }

    /// Whether some row may lack a required field: cheap, and no for nearly all batches.
    fn may_lack(&self, batch: &Batch) -> bool {
        self.fields.iter().filter(|field| field.required).any(|field| match field.column {
            Some(index) => {
                let column = &batch.columns[index];
                column.present.is_some() || column.value_type() != field.value_type
            }
            None => true,
        })
    }
}

impl FieldSource {
    fn missing(&self, batch: &Batch, row: usize) -> Option<String> {
        let value = self.column.map_or(Value::Absent, |index| batch.columns[index].get(row));
        if !matches!(value, Value::Absent) && convert(value, self.value_type) != Value::Absent {
            return None;
        }
        let (name, wanted) = (&self.name, self.value_type.name());
        let fault = batch
            .faults
            .iter()
            .find(|fault: &&Fault| fault.row as usize == row && Some(usize::from(fault.column)) == self.column);
        Some(match (fault, value) {
            (Some(fault), _) => format!("field `{name}` is {}, {wanted} is needed", fault.found),
            (None, Value::Absent) => format!("field `{name}` is missing, {wanted} is needed"),
            (None, other) => format!("field `{name}` is {}, {wanted} is needed", type_name(other)),
        })
    }
}

fn absent(value_type: ValueType, rows: usize) -> Column {
    let mut column = Column::with_capacity(value_type, rows);
    (0..rows).for_each(|_| column.push_absent());
    column
}

/// The column in another type; what cannot be converted is not present.
fn converted(column: &Column, to: ValueType) -> Column {
    if column.value_type() == to {
        return column.clone();
    }
    let mut into = Column::with_capacity(to, column.len());
    for row in 0..column.len() {
        into.push(convert(column.get(row), to));
    }
    into
}

/// The value in another type: an int is a float too, text is bytes too; all else keeps its type or is absent.
fn convert(value: Value<'_>, to: ValueType) -> Value<'_> {
    match (value, to) {
        (Value::Text(_), ValueType::Text)
        | (Value::Bytes(_), ValueType::Bytes)
        | (Value::Int(_), ValueType::Int)
        | (Value::Float(_), ValueType::Float)
        | (Value::Boolean(_), ValueType::Boolean) => value,
        (Value::Int(int), ValueType::Float) => Value::Float(int as f64),
        (Value::Text(text), ValueType::Bytes) => Value::Bytes(text.as_bytes()),
        _ => Value::Absent,
    }
}

fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::Absent => "missing",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Int(_) => "an int",
        Value::Float(_) => "a float",
        Value::Boolean(_) => "a boolean",
    }
}

fn whole_values(batch: &Batch) -> types::Column {
    let mut blobs = Blobs::with_capacity(batch.len(), 64);
    let mut present = Vec::with_capacity(batch.len());
    for row in 0..batch.len() {
        let value = batch.raw.as_ref().and_then(|raw| raw.get(row));
        blobs.push(value.unwrap_or_default());
        present.push(value.is_some());
    }
    let present = present.contains(&false).then_some(present);
    columns::lower(Column { present, values: Values::Bytes(blobs) })
}

fn lower_headers(headers: &Headers) -> types::Headers {
    types::Headers {
        rows: headers.rows.clone(),
        name: columns::lower_blobs(headers.names.clone()),
        value: columns::lower_blobs(headers.values.clone()),
    }
}
