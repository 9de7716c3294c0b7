//! Durations, sizes and times as people write them: `30s`, `1h30m`, `64MiB`, `2024-05-01T09:00:00Z`. A bare number is
//! refused: it has no unit.

use dataflow::time::Timestamp;
use std::fmt;

const DURATION_UNITS: [(&str, i64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Milliseconds of `1h30m`, `200ms`, `-30m`.
///
/// # Errors
/// What is wrong with it, and an example of what is right.
pub fn duration_ms(text: &str) -> Result<i64, String> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut sum = 0i64;
    if rest.is_empty() {
        return Err("a duration is a number with a unit, e.g. `30s`".into());
    }
    while !rest.is_empty() {
        let (number, unit, after) =
            take_part(rest).ok_or("a duration is a number with a unit, e.g. `30s` or `1h30m`")?;
        if unit.is_empty() {
            return Err("a duration needs a unit, e.g. `30s`".into());
        }
        let factor = DURATION_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let factor = factor.ok_or_else(|| format!("`{unit}` is no unit of time: use ms, s, m, h or d"))?;
        let part = i64::try_from(number).ok().and_then(|number| number.checked_mul(factor));
        sum = part.and_then(|part| sum.checked_add(part)).ok_or("the duration is longer than 292 million years")?;
        rest = after;
    }
    Ok(sign * sum)
}

/// Bytes of `64MiB`, `512KB`.
///
/// # Errors
/// What is wrong with it, and an example of what is right.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let (number, unit, rest) = take_part(text).ok_or("a size is a number with a unit, e.g. `64MiB`")?;
    if unit.is_empty() {
        return Err("a size needs a unit, e.g. `64MiB`".into());
    }
    let factor = SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    match factor {
        Some(factor) if rest.is_empty() => {
            number.checked_mul(factor).ok_or_else(|| "the size is more than 16 EiB".to_string())
        }
        _ => Err(format!("`{unit}{rest}` is no unit of size: use B, KB, MB, GB, KiB, MiB or GiB")),
    }
}

/// Number, unit and what follows; the unit is letters.
fn take_part(text: &str) -> Option<(u64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..digits].parse().ok()?;
    let rest = &text[digits..];
    let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    Some((number, &rest[..letters], &rest[letters..]))
}

/// Milliseconds since 1970 of an RFC 3339 time.
///
/// # Errors
/// What is right instead.
pub fn time_ms(text: &str) -> Result<Timestamp, String> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(jiff::Timestamp::as_millisecond)
        .map_err(|_| "a time is written as in RFC 3339, e.g. `2024-05-01T09:00:00Z`".to_string())
}

/// Prints milliseconds as they are written in a job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationText(pub i64);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let mut rest = self.0.unsigned_abs();
        for (unit, factor) in DURATION_UNITS.iter().rev() {
            let count = rest / factor.unsigned_abs();
            rest %= factor.unsigned_abs();
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

/// Prints bytes as they are written in a job file: the largest unit that divides them, or two digits of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeText(pub u64);

impl fmt::Display for SizeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
            if self.0 >= factor {
                return write!(f, "{:.1}{unit}", self.0 as f64 / factor as f64);
            }
        }
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        assert_eq!(duration_ms("30s"), Ok(30_000));
        assert_eq!(duration_ms("1h30m"), Ok(5_400_000));
        assert_eq!(duration_ms("200ms"), Ok(200));
        assert_eq!(duration_ms("7d"), Ok(604_800_000));
        assert_eq!(duration_ms("-30m"), Ok(-1_800_000));
    }

    #[test]
    fn a_duration_without_unit_is_refused_with_an_example() {
        assert_eq!(duration_ms("30"), Err("a duration needs a unit, e.g. `30s`".into()));
        assert_eq!(duration_ms("1h30"), Err("a duration needs a unit, e.g. `30s`".into()));
        assert_eq!(duration_ms("3w"), Err("`w` is no unit of time: use ms, s, m, h or d".into()));
        assert!(duration_ms("soon").is_err());
        assert!(duration_ms("").is_err());
        assert!(duration_ms("1.5s").is_err());
        assert!(duration_ms("99999999999999999d").is_err());
    }

    #[test]
    fn sizes_count_in_thousands_or_in_powers_of_two() {
        assert_eq!(size_bytes("512KB"), Ok(512_000));
        assert_eq!(size_bytes("64MiB"), Ok(67_108_864));
        assert_eq!(size_bytes("64"), Err("a size needs a unit, e.g. `64MiB`".into()));
        assert!(size_bytes("64mb").is_err());
        assert!(size_bytes("99999999999GiB").is_err());
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same() {
        for ms in [0, 1, 999, 61_000, 5_400_000, -90_000, 604_800_001] {
            assert_eq!(duration_ms(&DurationText(ms).to_string()), Ok(ms));
        }
        assert_eq!(SizeText(67_108_864).to_string(), "64MiB");
        assert_eq!(SizeText(1_500).to_string(), "1.5KiB");
    }
}
