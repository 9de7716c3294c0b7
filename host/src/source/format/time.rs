//! Times as records write them, to ms since 1970 UTC. A time that is a default value or an overflow is refused here, so
//! that it never moves a watermark.

use super::rows::Cell;
use dataflow::time::{EARLIEST, LATEST, Timestamp};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where a time stands in a record, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeField {
    /// JSON pointer.
    pub field: String,
    /// How it is written.
    pub format: TimeFormat,
}

/// How a time is written. The epoch formats take numbers and strings of digits; a fraction of a millisecond is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeFormat {
    /// Seconds since 1970 UTC.
    UnixS,
    /// Milliseconds since 1970 UTC.
    UnixMs,
    /// Microseconds since 1970 UTC.
    UnixUs,
    /// Nanoseconds since 1970 UTC.
    UnixNs,
    /// Such as `2026-08-01T09:00:05.250+05:30`.
    Rfc3339,
}

impl TimeFormat {
    fn name(self) -> &'static str {
        match self {
            Self::UnixS => "unix_s",
            Self::UnixMs => "unix_ms",
            Self::UnixUs => "unix_us",
            Self::UnixNs => "unix_ns",
            Self::Rfc3339 => "rfc3339",
        }
    }

    /// The time a cell holds, if it holds one that can be meant; else `why_not` tells.
    #[inline(always)]
    pub(super) fn read(self, cell: Cell<'_>) -> Option<Timestamp> {
        self.parse(cell).filter(|&time| (EARLIEST..=LATEST).contains(&time))
    }

    #[inline(always)]
    fn parse(self, cell: Cell<'_>) -> Option<Timestamp> {
        match (self, cell) {
            (Self::Rfc3339, Cell::Text(text) | Cell::Plain(text)) => rfc3339(text),
            (Self::Rfc3339, Cell::Escaped(quoted)) => {
                serde_json::from_str::<String>(quoted).ok().and_then(|text| rfc3339(&text))
            }
            (Self::Rfc3339, _) => None,
            (_, Cell::Number(number)) => self.epoch(number),
            (_, Cell::Text(digits) | Cell::Plain(digits)) if is_number(digits) => self.epoch(digits),
            _ => None,
        }
    }

    /// What is wrong with the cell of `field`, for a dead letter.
    #[cold]
    pub(super) fn why_not(self, field: &str, cell: Cell<'_>) -> String {
        let (name, format) = (if field.is_empty() { "the record".into() } else { format!("`{field}`") }, self.name());
        match cell {
            Cell::Absent => format!("{name} is missing: the record has no time"),
            _ if self.parse(cell).is_some() => format!(
                "{name} is {}, which as {format} lies outside the years 2 to 9998: a default value, or another unit?",
                shown(cell)
            ),
            _ => format!("{name} is {}, which is no time in the format {format}", shown(cell)),
        }
    }

    #[inline(always)]
    fn epoch(self, number: &str) -> Option<Timestamp> {
        if let Some(int) = int(number) {
            return Some(match self {
                Self::UnixS => int.saturating_mul(1000),
                Self::UnixUs => int.div_euclid(1000),
                Self::UnixNs => int.div_euclid(1_000_000),
                Self::UnixMs | Self::Rfc3339 => int,
            });
        }
        let number: f64 = number.parse().ok()?;
        let ms = match self {
            Self::UnixS => number * 1e3,
            Self::UnixUs => number / 1e3,
            Self::UnixNs => number / 1e6,
            Self::UnixMs | Self::Rfc3339 => number,
        };
        // Far outside, `as` gives the largest or smallest int, which is refused as out of range.
        ms.is_finite().then(|| ms.floor() as i64)
    }
}

/// A whole number. Most have at most 16 digits, too few to overflow, and are read in two words.
#[inline(always)]
pub(super) fn int(number: &str) -> Option<i64> {
    let digits = number.as_bytes();
    let (Some(first), Some(last)) = (digits.first_chunk(), digits.last_chunk()) else { return few_digits(number) };
    let more = digits.len() - 8;
    if more > 8 {
        return number.parse().ok();
    }
    let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    if !(are_digits(first) && are_digits(last)) {
        return number.parse().ok();
    }
    // Of the last eight, those that are not among the first eight.
    let last = u64::MAX.checked_shl(64 - more as u32 * 8).map_or(0, |those| last & those);
    Some(eight_digits(first) * TENS[more] + eight_digits(last))
}

/// At most seven.
#[inline(never)]
fn few_digits(number: &str) -> Option<i64> {
    let digit = |number: i64, byte: &u8| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'));
    let read = number.bytes().try_fold(0, |number, byte| digit(number, &byte));
    read.filter(|_| !number.is_empty()).or_else(|| number.parse().ok())
}

const TENS: [i64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

const ONES: u64 = 0x0101_0101_0101_0101;

/// Whether all eight bytes are digits.
#[inline]
fn are_digits(word: u64) -> bool {
    let high = ONES * 0xf0;
    (word & high == ONES * 0x30) && (word.wrapping_add(ONES * 6) & high == ONES * 0x30)
}

/// The number that eight digits make: pairs of neighbours are joined, three times (D. Lemire, 2018).
#[inline]
fn eight_digits(word: u64) -> i64 {
    let pairs = (word & (ONES * 0x0f)).wrapping_mul(10 << 8 | 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 << 16 | 1) >> 16;
    let eight = (fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 << 32 | 1) >> 32;
    eight as i64
}

/// `parse::<f64>` takes `inf` and `nan` too; a time is digits.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().next().is_some_and(|first| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn shown(cell: Cell<'_>) -> Cow<'static, str> {
    const SHOWN_CHARS_MAX: usize = 60;
    let short = |text: &str| -> String { text.chars().take(SHOWN_CHARS_MAX).collect() };
    match cell {
        Cell::Absent => "missing".into(),
        Cell::Text(text) => format!("`\"{}\"`", short(text)).into(),
        Cell::Escaped(text) | Cell::Number(text) | Cell::Plain(text) => format!("`{}`", short(text)).into(),
        Cell::Boolean(boolean) => format!("`{boolean}`").into(),
        Cell::Object => "an object".into(),
        Cell::Array => "an array".into(),
    }
}

/// RFC 3339 to ms; the usual shapes by hand, the rest by jiff.
#[inline]
fn rfc3339(text: &str) -> Option<Timestamp> {
    usual_rfc3339(text.as_bytes()).or_else(|| {
        let time: jiff::Timestamp = text.parse().ok()?;
        i64::try_from(time.as_nanosecond().div_euclid(1_000_000)).ok()
    })
}

/// `YYYY-MM-DDThh:mm:ss[.f…](Z|±hh:mm)` with every number in range; none for all else, right or wrong.
#[inline]
fn usual_rfc3339(text: &[u8]) -> Option<Timestamp> {
    let (date, mut rest) = text.split_at_checked(19)?;
    let number = |from: usize, to: usize| -> Option<i64> {
        date[from..to]
            .iter()
            .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
    };
    let separators = [date[4], date[7], date[13], date[16]] == *b"--::" && matches!(date[10], b'T' | b't' | b' ');
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !separators || !(1..=12).contains(&month) || !(1..=28).contains(&day) && day > month_days(year, month) {
        return None;
    }
    if day == 0 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut ms = 0;
    if let Some((b'.', fraction)) = rest.split_first() {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        ms = (0..3).fold(0, |ms, at| ms * 10 + if at < digits { i64::from(fraction[at] - b'0') } else { 0 });
        rest = &fraction[digits..];
    }
    let offset = match rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) => {
            let two = |tens: &u8, ones: &u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
            let minutes = two(h1, h2) * 60 + two(m1, m2);
            if two(h1, h2) > 23 || two(m1, m2) > 59 {
                return None;
            }
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - offset;
    Some((minutes * 60 + second) * 1000 + ms)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar; the year begins in March, so that the leap day is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_times_are_read_without_the_library() {
        // 2026-08-01 is day 20,666: 20,666 * 86,400,000 = 1,785,542,400,000.
        let nine = 1_785_542_400_000 + 9 * 3_600_000;
        assert_eq!(usual_rfc3339(b"2026-08-01T09:00:05Z"), Some(nine + 5000));
        assert_eq!(usual_rfc3339(b"2026-08-01T09:00:05.25Z"), Some(nine + 5250));
        assert_eq!(usual_rfc3339(b"2026-08-01T09:00:05.250999999Z"), Some(nine + 5250));
        assert_eq!(usual_rfc3339(b"2026-08-01T14:30:05+05:30"), Some(nine + 5000));
        assert_eq!(usual_rfc3339(b"2026-08-01 08:00:00-01:00"), Some(nine));
        assert_eq!(usual_rfc3339(b"1969-12-31T23:59:59.999Z"), Some(-1));
    }

    #[test]
    fn wrong_times_are_refused() {
        for text in [
            "",
            "yesterday",
            "2026-08-01",
            "2026-02-29T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-04-00T00:00:00Z",
            "2026-08-01T24:00:01Z",
            "2026-08-01T09:00:05",
            "2026-08-01T09:00:05.Z",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_read_as_the_library_reads_them(text in "-?[0-9]{0,20}[.e+ ]?[0-9]{0,9}") {
            prop_assert_eq!(int(&text), text.parse().ok());
        }
    }

    #[test]
    fn every_unit_gives_milliseconds() {
        let read = |format: TimeFormat, number| format.read(Cell::Number(number));
        assert_eq!(read(TimeFormat::UnixS, "1754038805"), Some(1_754_038_805_000));
        assert_eq!(read(TimeFormat::UnixS, "1754038805.25"), Some(1_754_038_805_250));
        assert_eq!(read(TimeFormat::UnixMs, "1754038805000"), Some(1_754_038_805_000));
        assert_eq!(read(TimeFormat::UnixUs, "-1"), Some(-1));
        assert_eq!(read(TimeFormat::UnixNs, "1754038805000999999"), Some(1_754_038_805_000));
        assert_eq!(TimeFormat::UnixMs.read(Cell::Text("-5")), Some(-5));
        assert_eq!(TimeFormat::Rfc3339.read(Cell::Text("0002-01-01T00:00:00Z")), Some(EARLIEST));
    }

    #[test]
    fn times_of_the_year_1_and_9999_are_refused_with_field_and_value() {
        for (format, cell) in [
            (TimeFormat::Rfc3339, Cell::Text("0001-01-01T00:00:00Z")),
            (TimeFormat::Rfc3339, Cell::Text("0001-12-31T23:59:59.999Z")),
            (TimeFormat::Rfc3339, Cell::Text("9999-12-31T23:59:59Z")),
            (TimeFormat::UnixMs, Cell::Number("-62135596800000")),
            (TimeFormat::UnixS, Cell::Number("1754038805000000")),
            (TimeFormat::UnixS, Cell::Number("9223372036854775807")),
            (TimeFormat::UnixMs, Cell::Number("1e300")),
        ] {
            assert_eq!(format.read(cell), None);
            let reason = format.why_not("/at", cell);
            assert!(reason.contains("`/at`") && reason.contains(&*shown(cell)), "{reason}");
            assert!(reason.contains("outside"), "{reason}");
        }
        for cell in [Cell::Absent, Cell::Boolean(true), Cell::Object, Cell::Text("inf"), Cell::Text("")] {
            assert_eq!(TimeFormat::UnixMs.read(cell), None);
            assert!(!TimeFormat::UnixMs.why_not("/at", cell).contains("outside"));
        }
    }

    proptest! {
        #[test]
        fn by_hand_and_by_library_agree(
            year in 1i64..9999, month in 0i64..14, day in 0i64..33, time in 0i64..100_000,
            ms in 0i64..1000, offset in -1439i64..1440,
        ) {
            let sign = if offset < 0 { '-' } else { '+' };
            let text = format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}{sign}{:02}:{:02}",
                time / 3600, time / 60 % 60, time % 60, offset.abs() / 60, offset.abs() % 60);
            let by_library = text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond());
            let by_hand = usual_rfc3339(text.as_bytes());
            prop_assert!(by_hand.is_none() || by_hand == by_library, "{text}: {by_hand:?} {by_library:?}");
            prop_assert!(by_hand.is_some() || by_library.is_none(), "{text} is usual");
        }
    }
}
