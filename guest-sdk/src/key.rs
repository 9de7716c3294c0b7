//! The encoding of keys and of map entries, as `wit/operator.wit` defines it: tagged parts end to end.
//! Bytes sort in value order within ints, floats and booleans, and 1 is never "1".

use crate::Bad;
use std::fmt;

/// A row's key: one part for each key field of the operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

/// One part of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyPart<'a> {
    /// UTF-8 text.
    Text(&'a str),
    /// Raw bytes.
    Bytes(&'a [u8]),
    /// A 64-bit integer with sign.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// A boolean.
    Boolean(bool),
}

impl<'a> Key<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The encoded key.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The parts, in the order of the operator's key fields. Empty where the input is not keyed.
    pub fn parts(self) -> impl Iterator<Item = KeyPart<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || decode(&mut rest))
    }

    /// The first part, if it is text.
    pub fn text(self) -> Option<&'a str> {
        match self.parts().next() {
            Some(KeyPart::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The first part, if it is an integer.
    pub fn int(self) -> Option<i64> {
        match self.parts().next() {
            Some(KeyPart::Int(value)) => Some(value),
            _ => None,
        }
    }
}

/// The parts as a person would write them, with `/` between.
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.parts().enumerate() {
            if number > 0 {
                f.write_str("/")?;
            }
            match part {
                KeyPart::Text(text) => f.write_str(text)?,
                KeyPart::Bytes(bytes) => write!(f, "{}", bytes.escape_ascii())?,
                KeyPart::Int(value) => write!(f, "{value}")?,
                KeyPart::Float(value) => write!(f, "{value}")?,
                KeyPart::Boolean(value) => write!(f, "{value}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

impl KeyPart<'_> {
    /// Adds the encoded part to a key.
    pub fn encode(&self, key: &mut Vec<u8>) {
        match *self {
            KeyPart::Text(text) => tagged(key, b't', text.as_bytes()),
            KeyPart::Bytes(bytes) => tagged(key, b'b', bytes),
            KeyPart::Int(value) => {
                key.push(b'i');
                key.extend_from_slice(&(value.cast_unsigned() ^ SIGN).to_be_bytes());
            }
            KeyPart::Float(value) => {
                let bits = value.to_bits();
                let ordered = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
                key.push(b'f');
                key.extend_from_slice(&ordered.to_be_bytes());
            }
            KeyPart::Boolean(value) => key.extend_from_slice(&[b'o', u8::from(value)]),
        }
    }
}

const SIGN: u64 = 1 << 63;

fn tagged(key: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    key.push(tag);
    let mut length = bytes.len();
    while length >= 0x80 {
        key.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    key.push(length as u8);
    key.extend_from_slice(bytes);
}

/// Takes the first part off; none at the end, or where the bytes are not a key.
pub(crate) fn decode<'a>(rest: &mut &'a [u8]) -> Option<KeyPart<'a>> {
    let (&tag, after) = rest.split_first()?;
    let mut after = after;
    let part = match tag {
        b't' => KeyPart::Text(std::str::from_utf8(counted(&mut after)?).ok()?),
        b'b' => KeyPart::Bytes(counted(&mut after)?),
        b'i' => KeyPart::Int((eight(&mut after)? ^ SIGN).cast_signed()),
        b'f' => {
            let ordered = eight(&mut after)?;
            KeyPart::Float(f64::from_bits(if ordered & SIGN == 0 { !ordered } else { ordered ^ SIGN }))
        }
        b'o' => {
            let (&value, behind) = after.split_first()?;
            after = behind;
            KeyPart::Boolean(value != 0)
        }
        _ => return None,
    };
    *rest = after;
    Some(part)
}

fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0usize;
    let mut shift = 0;
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn eight(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_be_bytes(*bytes))
}

/// What can be written as parts of a key: what map entries are known by, and keys in tests.
pub trait KeyValue {
    /// Adds the value's parts.
    fn encode(&self, key: &mut Vec<u8>);
}

/// What map entries can be known by: a [`KeyValue`] that can be read back.
pub trait MapKey: KeyValue + Sized {
    /// Takes the value's parts off.
    ///
    /// # Errors
    /// The parts are of other types: the map was written by other code.
    fn decode(rest: &mut &[u8]) -> Result<Self, Bad>;
}

fn mistaken(wanted: &str, found: Option<KeyPart<'_>>) -> Bad {
    Bad::new(format!(
        "an entry known by {wanted} was expected, found {found:?}; was the map written by another version?"
    ))
}

macro_rules! key_value {
    ($($type:ty, $part:ident, |$self:ident| $encode:expr, |$value:ident| $decode:expr;)*) => { $(
        impl KeyValue for $type {
            fn encode(&self, key: &mut Vec<u8>) {
                let $self = self;
                KeyPart::$part($encode).encode(key);
            }
        }
        impl MapKey for $type {
            fn decode(rest: &mut &[u8]) -> Result<Self, Bad> {
                match decode(rest) {
                    Some(KeyPart::$part($value)) => Ok($decode),
                    found => Err(mistaken(stringify!($type), found)),
                }
            }
        }
    )* };
}

key_value! {
    String, Text, |value| value, |text| text.to_owned();
    Vec<u8>, Bytes, |value| value, |bytes| bytes.to_vec();
    i64, Int, |value| *value, |value| value;
    i32, Int, |value| i64::from(*value), |value| i32::try_from(value)?;
    u32, Int, |value| i64::from(*value), |value| u32::try_from(value)?;
    u16, Int, |value| i64::from(*value), |value| u16::try_from(value)?;
    u8, Int, |value| i64::from(*value), |value| u8::try_from(value)?;
    f64, Float, |value| *value, |value| value;
    bool, Boolean, |value| *value, |value| value;
}

impl KeyValue for str {
    fn encode(&self, key: &mut Vec<u8>) {
        KeyPart::Text(self).encode(key);
    }
}

impl KeyValue for [u8] {
    fn encode(&self, key: &mut Vec<u8>) {
        KeyPart::Bytes(self).encode(key);
    }
}

impl<T: KeyValue + ?Sized> KeyValue for &T {
    fn encode(&self, key: &mut Vec<u8>) {
        (**self).encode(key);
    }
}

macro_rules! key_tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: KeyValue),*> KeyValue for ($($name,)*) {
            fn encode(&self, key: &mut Vec<u8>) {
                $(self.$index.encode(key);)*
            }
        }
        impl<$($name: MapKey),*> MapKey for ($($name,)*) {
            fn decode(rest: &mut &[u8]) -> Result<Self, Bad> {
                Ok(($($name::decode(rest)?,)*))
            }
        }
    };
}

key_tuple!(A 0, B 1);
key_tuple!(A 0, B 1, C 2);
key_tuple!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: impl KeyValue) -> Vec<u8> {
        let mut key = Vec::new();
        value.encode(&mut key);
        key
    }

    #[test]
    fn parts_are_encoded_as_the_contract_says() {
        assert_eq!(encoded("é"), [b't', 2, 0xc3, 0xa9]);
        assert_eq!(encoded(vec![7u8]), [b'b', 1, 7]);
        assert_eq!(encoded(1i64), [b'i', 0x80, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(encoded(-1i64), [b'i', 0x7f, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(encoded(1.0), [b'f', 0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(-1.0), [b'f', 0x40, 0x0f, 255, 255, 255, 255, 255, 255]);
        assert_eq!(encoded((true, "a")), [b'o', 1, b't', 1, b'a']);
        let long = "x".repeat(300);
        assert_eq!(encoded(long.as_str())[..3], [b't', 0xac, 0x02]);
    }

    #[test]
    fn numbers_sort_by_value() {
        let ints = [i64::MIN, -2, -1, 0, 1, 300, i64::MAX].map(encoded);
        assert!(ints.is_sorted());
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 2.5, f64::INFINITY].map(encoded);
        assert!(floats.is_sorted());
    }

    #[test]
    fn a_key_reads_back_part_by_part() {
        let key = encoded(("Pune", (-7i64, 2.5), (false, vec![0u8, 255])));
        let parts: Vec<_> = Key::of(&key).parts().collect();
        let expected = [
            KeyPart::Text("Pune"),
            KeyPart::Int(-7),
            KeyPart::Float(2.5),
            KeyPart::Boolean(false),
            KeyPart::Bytes(&[0, 255]),
        ];
        assert_eq!(parts, expected);
        assert_eq!(Key::of(&key).to_string(), r"Pune/-7/2.5/false/\x00\xff");
        let mut rest = key.as_slice();
        let read = <(String, (i64, f64), (bool, Vec<u8>))>::decode(&mut rest).expect("it was written as this");
        assert_eq!(read, ("Pune".to_owned(), (-7, 2.5), (false, vec![0, 255])));
    }

    #[test]
    fn damaged_keys_end_early_and_never_panic() {
        let key = encoded(("Pune", 7i64));
        for end in 0..key.len() {
            assert!(Key::of(&key[..end]).parts().count() < 2);
        }
        assert_eq!(Key::of(&[b't', 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]).parts().count(), 0);
        assert_eq!(Key::of(b"?").parts().count(), 0);
    }
}
