//! Whole values as lines: a value keeps its bytes, but a line end inside it would end the record early.

use super::chosen::Chosen;
use super::given::Given;
use super::value::Printer;
use anyhow::bail;
use dataflow::record::{Batch, Change};

/// JSON values, one per line. A line end in JSON stands only between its tokens, so a space does as well. A row without a
/// value is `null`; a row taken back must be an object, and gets a field that says so.
pub(super) fn write_json(batch: &Batch, out: &mut Vec<u8>) -> anyhow::Result<()> {
    for row in 0..batch.len() {
        let value = value(batch, row).unwrap_or(b"null");
        let start = out.len();
        out.extend_from_slice(value);
        if value.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            out[start..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        }
        if batch.change(row) == Change::Retract {
            let length = out.trim_ascii_end().len();
            out.truncate(length);
            if out[start..].last() != Some(&b'}') {
                bail!("a row is taken back whose value is no JSON object: it has no place for `change`");
            }
            out.pop();
            let empty = out[start..].trim_ascii() == b"{";
            out.extend_from_slice(if empty { b"\"change\":\"retract\"}" } else { b",\"change\":\"retract\"}" });
        }
        out.push(b'\n');
    }
    Ok(())
}

/// Values of any kind, one per line; line ends inside are written as `\n` and `\r`. A row without a value is an empty line.
pub(super) fn write_lines(batch: &Batch, out: &mut Vec<u8>) -> anyhow::Result<()> {
    refuse_retractions(batch)?;
    for row in 0..batch.len() {
        let start = out.len();
        out.extend_from_slice(value(batch, row).unwrap_or_default());
        end_line(start, out);
    }
    Ok(())
}

/// One column, one value per line.
pub(super) fn write_column(
    batch: &Batch,
    chosen: &Chosen,
    printer: &mut Printer,
    out: &mut Vec<u8>,
) -> anyhow::Result<()> {
    refuse_retractions(batch)?;
    let given = Given::of(batch, [chosen]);
    for row in 0..batch.len() {
        let start = out.len();
        match given.get(row, chosen.position) {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => printer.push_plain(&batch.columns[chosen.position], row, chosen.time, out),
        }
        end_line(start, out);
    }
    Ok(())
}

fn value(batch: &Batch, row: usize) -> Option<&[u8]> {
    batch.raw.as_ref().and_then(|raw| raw.get(row))
}

fn refuse_retractions(batch: &Batch) -> anyhow::Result<()> {
    if batch.changes.contains(&Change::Retract) {
        bail!("a row is taken back, which `format: raw` cannot say: use `format: ndjson`");
    }
    Ok(())
}

fn end_line(start: usize, out: &mut Vec<u8>) {
    if out[start..].iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        let line = out.split_off(start);
        for byte in line {
            match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                _ => out.push(byte),
            }
        }
    }
    out.push(b'\n');
}
