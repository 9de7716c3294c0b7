//! Records become a batch, column by column, each in a loop over one type. JSON is made beside them on request.

use super::Kind;
use super::record::{Maker, Part, Record, fields};
use bytes::Bytes;
use dataflow::record::{Blobs, Column, Fault, Raw, Value, ValueType, Values};

/// One column asked of the generator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    value_type: ValueType,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Field(Part),
    /// The whole value, as text.
    Whole,
    /// The records have no such field.
    Nothing,
}

impl Asked {
    pub(super) fn new(kind: Kind, pointer: &str, value_type: ValueType) -> Self {
        let found = fields(kind).iter().find(|field| field.pointer == pointer);
        let what = match found {
            Some(field) => What::Field(field.part),
            None if pointer.is_empty() => What::Whole,
            None => What::Nothing,
        };
        Self { value_type, what }
    }

    pub(super) fn needs_json(self) -> bool {
        matches!(self.what, What::Whole)
    }

    /// The column for these records; `json` where a column asked for it. Faults go to `faults` with this column's number.
    pub(super) fn column(
        self,
        (maker, partition): (&Maker, u64),
        records: &[Record],
        json: Option<&Raw>,
        (number, faults): (u16, &mut Vec<Fault>),
    ) -> Column {
        let text = |push: &dyn Fn(usize, &mut Vec<u8>), found| match self.value_type {
            ValueType::Text => Some(Values::Text(blobs(records.len(), push))),
            ValueType::Bytes => Some(Values::Bytes(blobs(records.len(), push))),
            ValueType::Scalar => Some(Values::Scalar(scalars(records.len(), push))),
            _ => found,
        };
        let (values, found) = match self.what {
            What::Nothing => return absent(self.value_type, records.len()),
            What::Whole => {
                let value = |row: usize| json.and_then(|json| json.get(row)).unwrap_or_default();
                let column = match self.value_type {
                    ValueType::Scalar => Some(whole_scalars(records.len(), value)),
                    _ => text(&|row, out| out.extend_from_slice(value(row)), None),
                };
                (column, "an object")
            }
            What::Field(part @ (Part::EventTime | Part::Arrival)) => {
                let time = |record: &Record| if part == Part::Arrival { record.arrival } else { record.event_time };
                (ints(self.value_type, records, time), "a number")
            }
            What::Field(part @ (Part::Fare | Part::Amount)) => {
                let found = if self.value_type == ValueType::Int { "a number with a fraction" } else { "a number" };
                (floats(self.value_type, records, |record| maker.float(part, record)), found)
            }
            What::Field(part) => (text(&|row, out| maker.push_text(part, partition, &records[row], out), None), "text"),
        };
        values.map(Column::all).unwrap_or_else(|| {
            faults.extend((0..records.len() as u32).map(|row| Fault { row, column: number, found }));
            absent(self.value_type, records.len())
        })
    }
}

fn absent(value_type: ValueType, rows: usize) -> Column {
    let mut column = Column::with_capacity(value_type, rows);
    (0..rows).for_each(|_| column.push_absent());
    column
}

fn blobs(rows: usize, push: impl Fn(usize, &mut Vec<u8>)) -> Blobs {
    let mut blobs = Blobs::with_capacity(rows, 12);
    for row in 0..rows {
        push(row, &mut blobs.bytes);
        blobs.close();
    }
    blobs
}

/// Key parts of texts shorter than 128 bytes: tag, one byte of length, text.
fn scalars(rows: usize, push: impl Fn(usize, &mut Vec<u8>)) -> Blobs {
    blobs(rows, |row, out| {
        out.extend_from_slice(b"t\0");
        let start = out.len();
        push(row, out);
        out[start - 1] = (out.len() - start) as u8;
    })
}

fn whole_scalars<'a>(rows: usize, value: impl Fn(usize) -> &'a [u8]) -> Values {
    let mut column = Column::with_capacity(ValueType::Scalar, rows);
    for row in 0..rows {
        column.push(Value::Text(std::str::from_utf8(value(row)).unwrap_or_default()));
    }
    column.values
}

fn ints(value_type: ValueType, records: &[Record], value: impl Fn(&Record) -> i64) -> Option<Values> {
    match value_type {
        ValueType::Int => Some(Values::Int(records.iter().map(value).collect())),
        ValueType::Float => Some(Values::Float(records.iter().map(|record| value(record) as f64).collect())),
        ValueType::Scalar => {
            let mut column = Column::with_capacity(ValueType::Scalar, records.len());
            records.iter().for_each(|record| _ = column.push(Value::Int(value(record))));
            Some(column.values)
        }
        _ => None,
    }
}

fn floats(value_type: ValueType, records: &[Record], value: impl Fn(&Record) -> f64) -> Option<Values> {
    match value_type {
        ValueType::Float => Some(Values::Float(records.iter().map(value).collect())),
        ValueType::Scalar => {
            let mut column = Column::with_capacity(ValueType::Scalar, records.len());
            records.iter().for_each(|record| _ = column.push(Value::Float(value(record))));
            Some(column.values)
        }
        _ => None,
    }
}

/// The records as JSON objects.
pub(super) fn json(maker: &Maker, partition: u64, records: &[Record]) -> Raw {
    let mut slab = Vec::with_capacity(records.len() * 128);
    let mut spans = Vec::with_capacity(records.len());
    let before: Vec<(String, Part)> = fields(maker.settings.kind)
        .iter()
        .enumerate()
        .map(|(at, field)| (format!("{}\"{}\":", if at == 0 { '{' } else { ',' }, &field.pointer[1..]), field.part))
        .collect();
    for record in records {
        let from = slab.len() as u32;
        for (before, part) in &before {
            slab.extend_from_slice(before.as_bytes());
            match part {
                Part::EventTime => slab.extend_from_slice(itoa::Buffer::new().format(record.event_time).as_bytes()),
                Part::Arrival => slab.extend_from_slice(itoa::Buffer::new().format(record.arrival).as_bytes()),
                Part::Fare | Part::Amount => {
                    let mut buffer = zmij::Buffer::new();
                    slab.extend_from_slice(buffer.format_finite(maker.float(*part, record)).as_bytes());
                }
                _ => {
                    slab.push(b'"');
                    maker.push_text(*part, partition, record, &mut slab);
                    slab.push(b'"');
                }
            }
        }
        slab.push(b'}');
        spans.push((from, slab.len() as u32));
    }
    Raw { slab: Bytes::from(slab), spans }
}
