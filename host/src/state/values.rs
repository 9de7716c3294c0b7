//! Value states: one value per key. And how a value of each type lies in a row.

use super::Address;
use super::keyed::{Call, Cell, Keyed, row_of};
use dataflow::record::{Column, Value, ValueType};

/// A value per key.
#[derive(Debug)]
pub struct ValueState {
    /// The state.
    pub keyed: Keyed,
    row: Vec<u8>,
}

impl ValueState {
    /// Values of `keyed`.
    pub fn new(keyed: Keyed) -> Self {
        Self { keyed, row: vec![] }
    }

    /// Appends the value's bytes to `into` and tells the schema version they were written under; none if there is no value.
    pub fn get(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, into: &mut Vec<u8>) -> Option<u16> {
        row_of(cell.key, &mut self.row);
        self.keyed.read(call, cell, &self.row, into)
    }

    /// Writes the value.
    pub fn put(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, bytes: &[u8]) {
        row_of(cell.key, &mut self.row);
        self.keyed.write(call, cell, &self.row, bytes);
    }

    /// Removes the value.
    pub fn clear(&mut self, call: &mut Call<'_>, cell: &Cell<'_>) {
        row_of(cell.key, &mut self.row);
        call.overlay.delete(Address { group: cell.group, state: self.keyed.number, row: &self.row });
    }
}

/// Appends a value's bytes, and behind them one byte for its type: text `t` and bytes `b` as they are, int `i` and float `f`
/// 8 bytes big-endian (two's complement, IEEE 754 bits), boolean `o` one byte. So what is stored can be read without its
/// operator, and under any older version. `Absent` has none.
#[inline]
pub fn encode(value: Value<'_>, into: &mut Vec<u8>) {
    let tag = match value {
        Value::Absent => return,
        Value::Text(text) => {
            into.extend_from_slice(text.as_bytes());
            b't'
        }
        Value::Bytes(bytes) => {
            into.extend_from_slice(bytes);
            b'b'
        }
        Value::Int(int) => {
            into.extend_from_slice(&int.to_be_bytes());
            b'i'
        }
        Value::Float(float) => {
            into.extend_from_slice(&float.to_bits().to_be_bytes());
            b'f'
        }
        Value::Boolean(boolean) => {
            into.push(u8::from(boolean));
            b'o'
        }
    };
    into.push(tag);
}

/// The value in these bytes, whatever its type; none if they are no encoded value.
#[inline]
pub fn typed(bytes: &[u8]) -> Option<Value<'_>> {
    let (&tag, bytes) = bytes.split_last()?;
    Some(match tag {
        b't' => Value::Text(std::str::from_utf8(bytes).ok()?),
        b'b' => Value::Bytes(bytes),
        b'i' => Value::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
        b'f' => Value::Float(f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?))),
        b'o' => Value::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        _ => return None,
    })
}

/// The value of that type in these bytes; none if they hold one of another type, as when a state's type was changed.
#[inline]
pub fn decode(value_type: ValueType, bytes: &[u8]) -> Option<Value<'_>> {
    typed(bytes).filter(|value| {
        matches!(
            (value_type, value),
            (ValueType::Text, Value::Text(_))
                | (ValueType::Bytes, Value::Bytes(_))
                | (ValueType::Int, Value::Int(_))
                | (ValueType::Float, Value::Float(_))
                | (ValueType::Boolean, Value::Boolean(_))
        )
    })
}

/// Appends the value in `bytes` to a column of its type; an absent one, and false, if there is no such value in them.
pub fn push_decoded(column: &mut Column, bytes: &[u8]) -> bool {
    match decode(column.value_type(), bytes) {
        Some(value) => column.push(value),
        None => {
            column.push_absent();
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_went_in() {
        for (value_type, value) in [
            (ValueType::Text, Value::Text("Pune")),
            (ValueType::Text, Value::Text("")),
            (ValueType::Bytes, Value::Bytes(&[0, 255])),
            (ValueType::Int, Value::Int(i64::MIN)),
            (ValueType::Float, Value::Float(-0.5)),
            (ValueType::Boolean, Value::Boolean(true)),
        ] {
            let mut bytes = vec![];
            encode(value, &mut bytes);
            assert_eq!(decode(value_type, &bytes), Some(value));
        }
    }

    #[test]
    fn bytes_of_another_type_are_no_value() {
        assert_eq!(decode(ValueType::Int, b"Pune"), None);
        assert_eq!(decode(ValueType::Boolean, &[2]), None);
        assert_eq!(decode(ValueType::Text, &[0xff]), None);
        let mut column = Column::new(ValueType::Int);
        assert!(!push_decoded(&mut column, b"Pune"));
        assert!(!column.is_present(0));
    }
}
