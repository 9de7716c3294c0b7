//! From the cells of a record to a row of typed columns: what all formats share. A row is judged before any column
//! grows, so a record that is put aside leaves no trace in the batch.

use super::time::int;
use super::{Decoded, DecoderSettings, Span, TimeField};
use crate::dead_letter::{DeadLetter, VALUE_BYTES_MAX};
use crate::source::{Projection, UNKNOWN_ARRIVAL};
use bytes::Bytes;
use dataflow::key::push_part;
use dataflow::record::{Batch, Column, Fault, Raw, Value, ValueType, Values};
use dataflow::time::Timestamp;

/// What stands at one pointer of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    /// Nothing, or null.
    Absent,
    /// A string without escapes.
    Text(&'a str),
    /// A JSON string with escapes, in its quotes.
    Escaped(&'a str),
    /// A number as JSON writes it.
    Number(&'a str),
    /// True or false.
    Boolean(bool),
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A text that takes the type its column asks for.
    Plain(&'a str),
}

/// What to take out of every record: the pointers, each one once, and who wants them.
#[derive(Debug)]
pub(super) struct Plan {
    /// Pointers; cell `i` of a record belongs to pointer `i`.
    pub(super) pointers: Vec<String>,
    columns: Vec<Wanted>,
    event_time: Option<(usize, TimeField)>,
    arrival: Option<(usize, TimeField)>,
}

#[derive(Debug)]
struct Wanted {
    pointer: usize,
    value_type: ValueType,
    /// The record's own text: the empty pointer as text or bytes.
    whole: bool,
}

/// A record whose cells were found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// What the empty pointer means as text.
    pub(super) whole: &'a str,
    /// Where `raw` has its value.
    pub(super) raw: (u32, u32),
    pub(super) line: u64,
}

impl Plan {
    pub(super) fn new(settings: &DecoderSettings, projection: &Projection) -> Self {
        let mut pointers: Vec<String> = vec![];
        let mut number = |pointer: &str| {
            pointers.iter().position(|known| known == pointer).unwrap_or_else(|| {
                pointers.push(pointer.to_string());
                pointers.len() - 1
            })
        };
        let wanted = |field: &dataflow::record::Field, pointer| Wanted {
            pointer,
            value_type: field.value_type,
            whole: field.pointer.is_empty() && matches!(field.value_type, ValueType::Text | ValueType::Bytes),
        };
        let columns = projection.schema.fields.iter().map(|field| wanted(field, number(&field.pointer))).collect();
        let event_time = settings.event_time.clone().map(|time| (number(&time.field), time));
        let arrival = settings.arrival.clone().map(|time| (number(&time.field), time));
        Self { columns, event_time, arrival, pointers }
    }

    /// Whether some column is the record's own text.
    pub(super) fn wants_whole(&self) -> bool {
        self.columns.iter().any(|wanted| wanted.whole)
    }

    /// Empty output with room for `rows`.
    pub(super) fn begin(&self, rows: usize) -> Decoded {
        let mut decoded = Decoded::default();
        decoded.batch.timestamps.reserve(rows);
        decoded.places.reserve(rows);
        decoded.batch.columns =
            self.columns.iter().map(|wanted| Column::with_capacity(wanted.value_type, rows)).collect();
        if self.arrival.is_some() {
            decoded.arrivals.reserve(rows);
        }
        decoded
    }

    /// Appends rows, and a dead letter for each that has no time. `cells` has those of the first row, then of the next.
    #[inline]
    pub(super) fn push(&self, decoded: &mut Decoded, cells: &[Cell<'_>], rows: &[Row<'_>]) {
        if let Err(why_not) = self.push_times(decoded, cells, rows.len()) {
            return match rows {
                [row] => decoded.put_aside(row.line, why_not, row.whole.as_bytes()),
                _ => {
                    let each = cells.chunks(self.pointers.len()).zip(rows);
                    each.for_each(|(cells, row)| self.push(decoded, cells, std::slice::from_ref(row)));
                }
            };
        }
        let batch = &mut decoded.batch;
        self.push_columns(batch, batch.timestamps.len() - rows.len(), cells, rows);
        if let Some(spans) = &mut batch.raw {
            spans.spans.extend(rows.iter().map(|row| row.raw));
        }
        decoded.places.extend(rows.iter().map(|row| row.line));
    }

    /// Appends the times of some rows, or none of them: why one has no time.
    #[inline]
    fn push_times(&self, decoded: &mut Decoded, cells: &[Cell<'_>], rows: usize) -> Result<(), String> {
        let Decoded { batch, arrivals, .. } = decoded;
        let (arrivals_before, before) = (arrivals.len(), batch.timestamps.len());
        let read = |(pointer, time): &(usize, TimeField), to: &mut Vec<Timestamp>, or: Option<Timestamp>| {
            let TimeField { field, format } = time;
            for cell in cells.iter().skip(*pointer).step_by(self.pointers.len()) {
                let instead = || or.filter(|_| *cell == Cell::Absent);
                to.push(format.read(*cell).or_else(instead).ok_or_else(|| format.why_not(field, *cell))?);
            }
            Ok(())
        };
        // An arrival that is missing is unknown, where it is not the only time.
        let unknown = self.event_time.as_ref().map(|_| UNKNOWN_ARRIVAL);
        let mut all = self.arrival.as_ref().map_or(Ok(()), |arrival| read(arrival, arrivals, unknown));
        if all.is_ok() {
            match &self.event_time {
                Some(event_time) => all = read(event_time, &mut batch.timestamps, None),
                None if self.arrival.is_none() => batch.timestamps.resize(before + rows, 0),
                // The arrival is the event time too, unless that has a field of its own.
                None => batch.timestamps.extend_from_slice(&arrivals[arrivals_before..]),
            }
        }
        if all.is_err() {
            arrivals.truncate(arrivals_before);
            batch.timestamps.truncate(before);
        }
        debug_assert!(all.is_err() || batch.timestamps.len() == before + rows, "every row has a time");
        all
    }

    /// Appends the columns of rows, which are those from row `first` on, and a fault for each field that could not be taken.
    #[inline]
    pub(super) fn push_columns(&self, batch: &mut Batch, first: usize, cells: &[Cell<'_>], rows: &[Row<'_>]) {
        let faults = batch.faults.len();
        for (at, (wanted, column)) in self.columns.iter().zip(&mut batch.columns).enumerate() {
            let mut fault = |row: usize, found| {
                batch.faults.push(Fault { row: (first + row) as u32, column: at as u16, found });
            };
            if wanted.whole {
                for (row, whole) in rows.iter().enumerate() {
                    push(column, Cell::Text(whole.whole)).unwrap_or_else(|found| fault(row, found));
                }
                continue;
            }
            let cells = || cells.iter().skip(wanted.pointer).step_by(self.pointers.len());
            let done = push_usual(column, cells());
            for (row, cell) in cells().enumerate().skip(done) {
                push(column, *cell).unwrap_or_else(|found| fault(row, found));
            }
        }
        batch.faults[faults..].sort_by_key(|fault| (fault.row, fault.column));
    }
}

impl Decoded {
    /// Keeps rows' raw values as spans of `slab`.
    pub(super) fn keep_raw(&mut self, slab: &Bytes, rows: usize) {
        self.batch.raw = Some(Raw { slab: slab.clone(), spans: Vec::with_capacity(rows) });
    }

    /// A record that could not be read.
    #[cold]
    pub(super) fn put_aside(&mut self, line: u64, reason: impl Into<String>, value: &[u8]) {
        self.dead.push(DeadLetter {
            place: Some(line),
            reason: reason.into(),
            value: Some(value[..value.len().min(VALUE_BYTES_MAX)].to_vec()),
            ..DeadLetter::default()
        });
    }

    /// Calls `each` with the text of every record; those that are not UTF-8 are put aside. The buffer is checked once
    /// as a whole, which costs 3 ns per 100 bytes.
    #[inline]
    pub(super) fn each_text<'a>(
        &mut self,
        slab: &'a [u8],
        records: &[Span],
        mut each: impl FnMut(&mut Self, &'a str, &Span),
    ) {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let all = std::str::from_utf8(&slab[first.from as usize..last.to as usize]);
        for span in records {
            let text = match all {
                Ok(all) => &all[(span.from - first.from) as usize..(span.to - first.from) as usize],
                Err(_) => match std::str::from_utf8(&slab[span.from as usize..span.to as usize]) {
                    Ok(text) => text,
                    Err(error) => {
                        let reason = format!("not UTF-8: byte {} of the record", error.valid_up_to() + 1);
                        self.put_aside(span.line, reason, &slab[span.from as usize..span.to as usize]);
                        continue;
                    }
                },
            };
            each(self, text, span);
        }
    }
}

/// Appends the first cells, as long as they are what most records have; how many those are.
#[inline]
fn push_usual<'a>(column: &mut Column, mut cells: impl Iterator<Item = &'a Cell<'a>>) -> usize {
    let before = column.len();
    if column.present.is_none() {
        match &mut column.values {
            Values::Scalar(blobs) => {
                while let Some(Cell::Text(text)) = cells.next() {
                    push_part(&mut blobs.bytes, Value::Text(text));
                    blobs.close();
                }
            }
            Values::Text(blobs) => {
                while let Some(Cell::Text(text)) = cells.next() {
                    blobs.push(text.as_bytes());
                }
            }
            Values::Int(ints) => {
                while let Some(Cell::Number(number)) = cells.next() {
                    let Some(int) = int(number) else { break };
                    ints.push(int);
                }
            }
            Values::Bytes(_) | Values::Float(_) | Values::Boolean(_) => {}
        }
    }
    column.len() - before
}

/// Appends a cell to its column; where it does not fit, appends absent and says what was there.
fn push(column: &mut Column, cell: Cell<'_>) -> Result<(), &'static str> {
    let value = match cell {
        Cell::Absent => Ok(Value::Absent),
        Cell::Text(text) => fit_text(column, text),
        Cell::Number(number) => fit_number(column, number),
        Cell::Plain(text) => fit_plain(column, text),
        Cell::Boolean(boolean) => Ok(Value::Boolean(boolean)),
        Cell::Escaped(quoted) => {
            let Ok(text) = serde_json::from_str::<String>(quoted) else {
                column.push_absent();
                return Err("text with half a surrogate pair");
            };
            return push(column, Cell::Text(&text));
        }
        Cell::Object => Err("an object"),
        Cell::Array => Err("an array"),
    };
    match value {
        Ok(value) if column.push(value) => Ok(()),
        Ok(Value::Boolean(_)) => Err("a boolean"),
        Ok(Value::Text(_)) => Err("text"),
        Ok(_) => Err("a number"),
        Err(found) => {
            column.push_absent();
            Err(found)
        }
    }
}

#[inline]
fn fit_text<'a>(column: &Column, text: &'a str) -> Result<Value<'a>, &'static str> {
    Ok(if column.value_type() == ValueType::Bytes { Value::Bytes(text.as_bytes()) } else { Value::Text(text) })
}

/// An int column takes every number without a fraction, so 1.0 too; in a key, which has the data's own type, 1.0 is a float.
#[inline]
fn fit_number(column: &Column, number: &str) -> Result<Value<'static>, &'static str> {
    const OUT_OF_RANGE: &str = "a number out of range";
    if let Some(int) = int(number) {
        return Ok(Value::Int(int));
    }
    let float: f64 = number.parse().map_err(|_| "a number")?;
    let integral = !number.contains(['.', 'e', 'E']);
    match column.value_type() {
        _ if !float.is_finite() => Err(OUT_OF_RANGE),
        ValueType::Scalar if integral => Err(OUT_OF_RANGE),
        ValueType::Int if float.fract() != 0.0 => Err("a number with a fraction"),
        // 2^63 is the first float that no i64 reaches.
        ValueType::Int if float.abs() >= 9_223_372_036_854_775_808.0 => Err(OUT_OF_RANGE),
        ValueType::Int => Ok(Value::Int(float as i64)),
        _ => Ok(Value::Float(float)),
    }
}

fn fit_plain<'a>(column: &Column, text: &'a str) -> Result<Value<'a>, &'static str> {
    let number = || text.bytes().any(|byte| byte.is_ascii_digit()).then_some(text).ok_or("text");
    match column.value_type() {
        ValueType::Int | ValueType::Float => number()
            .and_then(|text| fit_number(column, text))
            .map_err(|found| if text.parse::<f64>().is_ok() { found } else { "text" }),
        ValueType::Boolean => text.parse().map(Value::Boolean).map_err(|_| "text"),
        _ => fit_text(column, text),
    }
}
