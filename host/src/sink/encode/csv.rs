//! Rows as CSV, RFC 4180 but for its line ends, which are `\n`. A field is quoted only where it must be.

use super::chosen::{Chosen, flat_names};
use super::given::Given;
use super::value::Printer;
use anyhow::bail;
use dataflow::record::{Batch, Change};

/// The columns of an edge and their header.
#[derive(Debug)]
pub(super) struct Plan {
    columns: Vec<Chosen>,
    header: Vec<u8>,
    sink: String,
}

impl Plan {
    /// For these columns.
    pub(super) fn new(columns: Vec<Chosen>, sink: &str) -> anyhow::Result<Self> {
        let mut header = vec![];
        for (at, name) in flat_names(&columns, sink)?.iter().enumerate() {
            if at > 0 {
                header.push(b',');
            }
            header.extend_from_slice(name.as_bytes());
            quote_from(header.len() - name.len(), &mut header);
        }
        header.push(b'\n');
        Ok(Self { columns, header, sink: sink.to_string() })
    }

    /// The header with its line end.
    pub(super) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Appends the rows.
    pub(super) fn write(&self, batch: &Batch, printer: &mut Printer, out: &mut Vec<u8>) -> anyhow::Result<()> {
        if batch.changes.contains(&Change::Retract) {
            bail!("sink `{}` got a row that is taken back, which CSV cannot say: use `format: ndjson`", self.sink);
        }
        let given = Given::of(batch, &self.columns);
        for row in 0..batch.len() {
            for (at, chosen) in self.columns.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                let column = &batch.columns[chosen.position];
                let start = out.len();
                match given.get(row, chosen.position) {
                    Some(text) => out.extend_from_slice(text.as_bytes()),
                    None if !column.is_present(row) => continue,
                    None => printer.push_plain(column, row, chosen.time, out),
                }
                quote_from(start, out);
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

/// Quotes the field that begins at `start`, where it must be: an empty text must, or it would read as absent.
fn quote_from(start: usize, out: &mut Vec<u8>) {
    let field = &out[start..];
    let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !field.is_empty() && !field.iter().any(special) {
        return;
    }
    let quoted: Vec<u8> =
        field.iter().flat_map(|&byte| [byte; 2].into_iter().take(1 + usize::from(byte == b'"'))).collect();
    out.truncate(start);
    out.push(b'"');
    out.extend_from_slice(&quoted);
    out.push(b'"');
}
