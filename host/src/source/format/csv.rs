//! CSV with a header, after RFC 4180: the first record names the fields. Quoted fields may hold commas, quotes and line
//! ends. A field is text until its column asks for more; an empty one without quotes is absent.

use super::rows::{Cell, Plan, Row};
use super::{Decoded, Decoder, Span, segments};
use anyhow::{Context, ensure};
use bytes::Bytes;
use csv_core::ReadFieldResult;
use memchr::memchr;

/// Decodes one CSV file.
pub(super) struct Csv {
    plan: Plan,
    /// Somebody wants each record as a JSON object, header to text.
    whole_values: bool,
    header: Option<Header>,
    /// Takes records with quotes apart.
    reader: csv_core::Reader,
    fields: Fields,
}

struct Header {
    /// `"name":` of each field, in JSON.
    names: Vec<String>,
    /// Which field each of the plan's pointers means.
    field_of: Vec<Option<usize>>,
}

/// The fields of one record, unquoted, end to end.
#[derive(Default)]
struct Fields {
    text: Vec<u8>,
    /// Where each field ends in `text`, and whether it stood in quotes.
    ends: Vec<(usize, bool)>,
}

impl Csv {
    pub(super) fn new(plan: Plan, whole_values: bool) -> Self {
        let reader = csv_core::ReaderBuilder::new().terminator(csv_core::Terminator::Any(b'\n')).build();
        let whole_values = whole_values || plan.wants_whole();
        Self { plan, whole_values, header: None, reader, fields: Fields::default() }
    }

    fn read_header(&mut self, record: &[u8]) -> anyhow::Result<Header> {
        let record = std::str::from_utf8(record).context("the header is not UTF-8")?;
        self.fields.split(&mut self.reader, record);
        let names: Vec<String> = (0..self.fields.ends.len()).map(|at| self.fields.get(at).0.to_string()).collect();
        ensure!(names.iter().any(|name| !name.is_empty()), "the header names no field");
        let field_of = self.plan.pointers.iter().map(|pointer| {
            let name = segments(pointer).collect::<Vec<_>>().join("_");
            names.iter().rposition(|known| !pointer.is_empty() && *known == name)
        });
        Ok(Header {
            field_of: field_of.collect(),
            names: names.iter().map(|name| format!("{}:", serde_json::Value::from(name.as_str()))).collect(),
        })
    }
}

impl Decoder for Csv {
    fn wants_header(&self) -> bool {
        self.header.is_none()
    }

    fn decode(&mut self, slab: &Bytes, mut records: &[Span]) -> anyhow::Result<Decoded> {
        if self.header.is_none()
            && let Some((first, rest)) = records.split_first()
        {
            self.header = Some(self.read_header(&slab[first.from as usize..first.to as usize])?);
            records = rest;
        }
        let mut decoded = self.plan.begin(records.len());
        decoded.keep_raw(slab, records.len());
        let Some(header) = &self.header else { return Ok(decoded) };
        let (plan, reader, fields) = (&self.plan, &mut self.reader, &mut self.fields);
        let mut objects = vec![];
        decoded.each_text(slab, records, |decoded, text, span| {
            fields.split(reader, text);
            if fields.ends.len() != header.names.len() {
                let reason =
                    format!("the record has {} fields, the header has {}", fields.ends.len(), header.names.len());
                return decoded.put_aside(span.line, reason, text.as_bytes());
            }
            let cells: Vec<Cell<'_>> = header
                .field_of
                .iter()
                .map(|field| match field.map(|field| fields.get(field)) {
                    None | Some(("", false)) => Cell::Absent,
                    Some((field, _)) => Cell::Plain(field),
                })
                .collect();
            if !self.whole_values {
                return plan.push(decoded, &cells, &[Row { whole: text, raw: (span.from, span.to), line: span.line }]);
            }
            let from = objects.len();
            fields.write_object(&header.names, &mut objects);
            let object = std::str::from_utf8(&objects[from..]).expect("an object of UTF-8 fields is UTF-8");
            let raw = (from as u32, objects.len() as u32);
            plan.push(decoded, &cells, &[Row { whole: object, raw, line: span.line }]);
        });
        if self.whole_values
            && let Some(raw) = &mut decoded.batch.raw
        {
            raw.slab = objects.into();
        }
        Ok(decoded)
    }
}

impl Fields {
    /// Most records have no quotes: they are cut at the commas. The others go through csv-core.
    fn split(&mut self, reader: &mut csv_core::Reader, record: &str) {
        self.text.clear();
        self.ends.clear();
        if memchr(b'"', record.as_bytes()).is_none() {
            self.text.extend_from_slice(record.as_bytes());
            self.ends.extend(memchr::memchr_iter(b',', record.as_bytes()).map(|comma| (comma, false)));
            self.ends.push((record.len(), false));
            // The commas stay in the text; `get` leaves them out.
            return;
        }
        reader.reset();
        self.text.resize(record.len() + 1, 0);
        let (mut input, mut length, mut quoted) = (record.as_bytes(), 0, None);
        loop {
            quoted = quoted.or_else(|| Some(*input.first()? == b'"'));
            let (result, read, written) = reader.read_field(input, &mut self.text[length..]);
            input = &input[read..];
            length += written;
            match result {
                // An empty input tells the reader that the record is over.
                ReadFieldResult::InputEmpty => {}
                ReadFieldResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadFieldResult::Field { record_end } => {
                    // One byte between fields, as in the other case.
                    self.ends.push((length, quoted.unwrap_or(false)));
                    length += 1;
                    if self.text.len() <= length {
                        self.text.resize(length + record.len() + 1, 0);
                    }
                    quoted = None;
                    if record_end {
                        break;
                    }
                }
                ReadFieldResult::End => break,
            }
        }
    }

    /// Field `at`, and whether it stood in quotes.
    fn get(&self, at: usize) -> (&str, bool) {
        let from = if at == 0 { 0 } else { self.ends[at - 1].0 + 1 };
        let (to, quoted) = self.ends[at];
        (std::str::from_utf8(&self.text[from..to]).expect("a field of a UTF-8 record is UTF-8"), quoted)
    }

    /// The record as a JSON object; numbers stay text, absent fields are left out.
    fn write_object(&self, names: &[String], object: &mut Vec<u8>) {
        object.push(b'{');
        for (at, name) in names.iter().enumerate() {
            let (field, quoted) = self.get(at);
            if field.is_empty() && !quoted {
                continue;
            }
            if object.last() != Some(&b'{') {
                object.push(b',');
            }
            object.extend_from_slice(name.as_bytes());
            serde_json::to_writer(&mut *object, field).expect("a string is always JSON");
        }
        object.push(b'}');
    }
}
