//! Columns across the boundary: moved, never copied, when going in; checked as a whole when coming out.

use super::bindings::types;
use dataflow::record::{Blobs, Change, Column, ValueType, Values};

/// To the guest's type, by moving. A scalar column goes as bytes; callers convert it before.
pub fn lower(column: Column) -> types::Column {
    let values = match column.values {
        Values::Text(blobs) => types::Values::Text(lower_blobs(blobs)),
        Values::Bytes(blobs) | Values::Scalar(blobs) => types::Values::Bytes(lower_blobs(blobs)),
        Values::Int(ints) => types::Values::Int(ints),
        Values::Float(floats) => types::Values::Float(floats),
        Values::Boolean(booleans) => types::Values::Boolean(booleans),
    };
    types::Column { present: column.present, values }
}

/// Back from a type that this host made, by moving, unchecked.
pub fn raise(column: types::Column) -> Column {
    let values = match column.values {
        types::Values::Text(blobs) => Values::Text(raise_blobs(blobs)),
        types::Values::Bytes(blobs) => Values::Bytes(raise_blobs(blobs)),
        types::Values::Int(ints) => Values::Int(ints),
        types::Values::Float(floats) => Values::Float(floats),
        types::Values::Boolean(booleans) => Values::Boolean(booleans),
    };
    Column { present: column.present, values }
}

/// To the guest's type, by moving.
pub fn lower_blobs(blobs: Blobs) -> types::Blobs {
    types::Blobs { ends: blobs.ends, bytes: blobs.bytes }
}

/// Back from a type that this host made, by moving, unchecked.
pub fn raise_blobs(blobs: types::Blobs) -> Blobs {
    Blobs { ends: blobs.ends, bytes: blobs.bytes }
}

/// A column that a guest handed over: it must have `rows` values of `value_type`.
///
/// # Errors
/// It has not, or is not sound: how.
pub fn checked(column: types::Column, rows: usize, value_type: ValueType) -> Result<Column, String> {
    let column = raise(column);
    if column.value_type() != value_type {
        return Err(format!(
            "a column of {} where one of {} was declared",
            column.value_type().name(),
            value_type.name()
        ));
    }
    if column.len() != rows {
        return Err(format!("a column of {} values where {rows} were expected", column.len()));
    }
    if let Some(present) = &column.present
        && present.len() != rows
    {
        return Err(format!("a column whose `present` has {} entries where {rows} were expected", present.len()));
    }
    match &column.values {
        Values::Text(blobs) => {
            check_ends(blobs)?;
            check_text(blobs)?;
        }
        Values::Bytes(blobs) => check_ends(blobs)?,
        _ => {}
    }
    Ok(column)
}

/// Byte strings that a guest handed over: there must be `rows`.
///
/// # Errors
/// There are not, or they are not sound: how.
pub fn checked_blobs(blobs: types::Blobs, rows: usize) -> Result<Blobs, String> {
    let blobs = raise_blobs(blobs);
    if blobs.len() != rows {
        return Err(format!("{} byte strings where {rows} were expected", blobs.len()));
    }
    check_ends(&blobs)?;
    Ok(blobs)
}

/// Invariant: after it every `Blobs::get` is within bounds, and no byte is left over.
fn check_ends(blobs: &Blobs) -> Result<(), String> {
    let rising = blobs.ends.is_sorted();
    let last = blobs.ends.last().copied().unwrap_or(0) as usize;
    if !rising {
        return Err("byte strings whose ends fall".into());
    }
    if last != blobs.bytes.len() {
        return Err(format!("byte strings that end at {last} in {} bytes", blobs.bytes.len()));
    }
    Ok(())
}

fn check_text(blobs: &Blobs) -> Result<(), String> {
    if blobs.bytes.is_ascii() {
        return Ok(());
    }
    let text = std::str::from_utf8(&blobs.bytes).map_err(|error| format!("text that is not UTF-8: {error}"))?;
    let cut = blobs.ends.iter().position(|&end| !text.is_char_boundary(end as usize));
    cut.map_or(Ok(()), |row| Err(format!("text that is not UTF-8: value {row} ends within a character")))
}

/// Changes for the guest.
pub fn lower_changes(changes: &[Change]) -> Vec<types::Change> {
    let lower = |change: &Change| match change {
        Change::Insert => types::Change::Insert,
        Change::Retract => types::Change::Retract,
    };
    changes.iter().map(lower).collect()
}

/// Changes from the guest; empty where all are inserts.
pub fn raise_changes(changes: &[types::Change]) -> Vec<Change> {
    let raise = |change: &types::Change| match change {
        types::Change::Insert => Change::Insert,
        types::Change::Retract => Change::Retract,
    };
    changes.iter().map(raise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ends: &[u32], bytes: &[u8]) -> types::Column {
        types::Column {
            present: None,
            values: types::Values::Text(types::Blobs { ends: ends.into(), bytes: bytes.into() }),
        }
    }

    #[test]
    fn a_sound_column_comes_through() {
        let column = checked(text(&[3, 5], "für".as_bytes().get(..).unwrap_or(b"")), 2, ValueType::Text);
        assert!(column.is_err(), "the bytes are 4 long, the ends say 5");
        assert!(checked(text(&[3, 4], "für".as_bytes()), 2, ValueType::Text).is_ok());
    }

    #[test]
    fn ends_that_fall_or_pass_the_bytes_are_refused() {
        assert!(checked(text(&[3, 2], b"abc"), 2, ValueType::Text).unwrap_err().contains("ends fall"));
        assert!(checked(text(&[9], b"abc"), 1, ValueType::Text).unwrap_err().contains("end at 9"));
        assert!(checked(text(&[1], b"abc"), 1, ValueType::Text).unwrap_err().contains("end at 1"));
    }

    #[test]
    fn text_must_be_text_value_by_value() {
        assert!(checked(text(&[1], b"\xff"), 1, ValueType::Text).unwrap_err().contains("UTF-8"));
        assert!(
            checked(text(&[2, 4], "für".as_bytes()), 2, ValueType::Text).unwrap_err().contains("within a character")
        );
    }

    #[test]
    fn lengths_and_types_must_fit() {
        assert!(checked(text(&[3], b"abc"), 2, ValueType::Text).unwrap_err().contains("1 values where 2"));
        assert!(checked(text(&[3], b"abc"), 1, ValueType::Int).unwrap_err().contains("text where one of int"));
        let mut short = text(&[1, 2], b"ab");
        short.present = Some(vec![true]);
        assert!(checked(short, 2, ValueType::Text).unwrap_err().contains("`present` has 1"));
    }
}
