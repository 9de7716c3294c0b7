//! One value as text: numbers as short as they can be, times in UTC, text escaped. On the hot path of every text sink.

use dataflow::key;
use dataflow::record::{Column, Value, Values};
use jiff::Timestamp;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// RFC 3339 in UTC, with milliseconds only where there are some; a time outside the years 0 to 9999 stays a number.
    #[default]
    Rfc3339,
    /// Milliseconds since 1970 UTC.
    UnixMs,
}

const DAY_MS: i64 = 86_400_000;

/// Writes values; remembers the day of the last time, since times come in runs.
#[derive(Debug)]
pub(super) struct Printer {
    times: Times,
    day: i64,
    /// `YYYY-MM-DDT` of `day`.
    date: [u8; 11],
}

impl Printer {
    pub(super) fn new(times: Times) -> Self {
        Self { times, day: 0, date: *b"1970-01-01T" }
    }

    /// The value as JSON; `null` where there is none.
    #[inline]
    pub(super) fn push_json(&mut self, column: &Column, row: usize, time: bool, out: &mut Vec<u8>) {
        if !column.is_present(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match &column.values {
            Values::Text(blobs) => push_json_text(blobs.get(row), out),
            Values::Int(ints) if time && self.times == Times::Rfc3339 => {
                let start = out.len();
                out.push(b'"');
                if self.push_time(ints[row], out) {
                    out.push(b'"');
                } else {
                    out.truncate(start);
                    push_int(ints[row], out);
                }
            }
            Values::Int(ints) => push_int(ints[row], out),
            Values::Float(floats) => push_float(floats[row], b"null", out),
            Values::Boolean(booleans) => push_boolean(booleans[row], out),
            Values::Bytes(blobs) => push_json_bytes(blobs.get(row), out),
            Values::Scalar(blobs) => match key::parts(blobs.get(row)).next().unwrap_or(Value::Absent) {
                Value::Absent => out.extend_from_slice(b"null"),
                Value::Text(text) => push_json_text(text.as_bytes(), out),
                Value::Bytes(bytes) => push_json_bytes(bytes, out),
                Value::Int(int) => push_int(int, out),
                Value::Float(float) => push_float(float, b"null", out),
                Value::Boolean(boolean) => push_boolean(boolean, out),
            },
        }
    }

    /// The value without quotes or escapes; nothing where there is none.
    pub(super) fn push_plain(&mut self, column: &Column, row: usize, time: bool, out: &mut Vec<u8>) {
        match column.get(row) {
            Value::Absent => {}
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
            Value::Bytes(bytes) => out.extend_from_slice(bytes),
            Value::Int(int) => {
                if !time || self.times == Times::UnixMs || !self.push_time(int, out) {
                    push_int(int, out);
                }
            }
            Value::Float(float) => push_float(float, b"NaN", out),
            Value::Boolean(boolean) => push_boolean(boolean, out),
        }
    }

    /// False, and nothing written, for a time that RFC 3339 has no text for.
    fn push_time(&mut self, ms: i64, out: &mut Vec<u8>) -> bool {
        let day = ms.div_euclid(DAY_MS);
        if day != self.day {
            let Some(date) = date_text(day) else { return false };
            (self.day, self.date) = (day, date);
        }
        let within = ms.rem_euclid(DAY_MS) as u64;
        let digits = |number: u64| [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        out.extend_from_slice(&self.date);
        out.extend_from_slice(&digits(within / 3_600_000));
        out.push(b':');
        out.extend_from_slice(&digits(within / 60_000 % 60));
        out.push(b':');
        out.extend_from_slice(&digits(within / 1000 % 60));
        if !within.is_multiple_of(1000) {
            out.extend_from_slice(&[b'.', b'0' + (within / 100 % 10) as u8]);
            out.extend_from_slice(&digits(within % 100));
        }
        out.push(b'Z');
        true
    }
}

/// A time as sinks write it as text; none where RFC 3339 has no text for it.
pub fn push_time(ms: i64, out: &mut Vec<u8>) -> bool {
    Printer::new(Times::Rfc3339).push_time(ms, out)
}

fn date_text(day: i64) -> Option<[u8; 11]> {
    let at = Timestamp::from_millisecond(day.checked_mul(DAY_MS)?).ok()?;
    let date = Offset::UTC.to_datetime(at);
    let year = u16::try_from(date.year()).ok()?;
    let digit = |number: u16| b'0' + (number % 10) as u8;
    let (month, of_month) = (date.month().unsigned_abs().into(), date.day().unsigned_abs().into());
    let mut text = *b"0000-00-00T";
    (text[0], text[1], text[2], text[3]) = (digit(year / 1000), digit(year / 100), digit(year / 10), digit(year));
    (text[5], text[6]) = (digit(month / 10), digit(month));
    (text[8], text[9]) = (digit(of_month / 10), digit(of_month));
    Some(text)
}

#[inline]
fn push_int(int: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(int).as_bytes());
}

/// Shortest text that reads back as the same float. What is no number is `NaN` or an infinity in CSV and has no JSON.
#[inline]
fn push_float(float: f64, not_finite: &[u8], out: &mut Vec<u8>) {
    if float.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(float).as_bytes());
    } else if not_finite == b"NaN" && float.is_infinite() {
        out.extend_from_slice(if float > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        out.extend_from_slice(not_finite);
    }
}

#[inline]
fn push_boolean(boolean: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if boolean { b"true" } else { b"false" });
}

/// A JSON string. Bytes that are not UTF-8 are replaced by U+FFFD: a file must never hold what no reader takes.
#[inline]
pub(super) fn push_json_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(_) => push_escaped(text, out),
        Err(_) => push_escaped(String::from_utf8_lossy(text).as_bytes(), out),
    }
    out.push(b'"');
}

#[inline]
fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digit = |number: u8| b"0123456789abcdef"[usize::from(number)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(&text[from..]);
}

/// Base64 with padding (RFC 4648, section 4), as a JSON string.
fn push_json_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { digit } else { b'=' });
        }
    }
    out.push(b'"');
}
