//! How a Rust type is stored: scalars and strings as typed cells, everything else as JSON text.
//! The choice is made by type at compile time: the comparisons of `TypeId` below fold away.

use crate::Bad;
use crate::bindings::types::{Column, ValueType, Values};
use crate::input::{blob, end_of, no_blobs, push_blob};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, TypeId};

/// What a state can keep: any type of its own that serde can write and read.
pub trait Stored: Serialize + DeserializeOwned + Clone + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + 'static> Stored for T {}

/// How a type is stored.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    Int,
    Float,
    Boolean,
    Text,
    Bytes,
    Json,
}

impl Shape {
    #[inline]
    pub(crate) fn of<T: 'static>() -> Self {
        if is::<T, f64>() || is::<T, f32>() {
            Self::Float
        } else if is::<T, bool>() {
            Self::Boolean
        } else if is::<T, String>() {
            Self::Text
        } else if is::<T, Vec<u8>>() {
            Self::Bytes
        } else if is_int::<T>() {
            Self::Int
        } else {
            Self::Json
        }
    }

    pub(crate) fn value_type(self) -> ValueType {
        match self {
            Self::Int => ValueType::Int,
            Self::Float => ValueType::Float,
            Self::Boolean => ValueType::Boolean,
            Self::Text | Self::Json => ValueType::Text,
            Self::Bytes => ValueType::Bytes,
        }
    }
}

#[inline]
fn is<T: 'static, U: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<U>()
}

/// The value, if the two types are the same.
#[inline]
fn cast<T: 'static, U: 'static>(value: T) -> Option<U> {
    let mut value = Some(value);
    (&mut value as &mut dyn Any).downcast_mut::<Option<U>>().and_then(Option::take)
}

macro_rules! ints {
    ($($int:ty),*) => {
        #[inline]
        fn is_int<T: 'static>() -> bool {
            false $(|| is::<T, $int>())*
        }

        /// The integer behind `T`, which is one.
        #[inline]
        pub(crate) fn to_int<T: 'static>(value: &T) -> i64 {
            let value = value as &dyn Any;
            $(if let Some(value) = value.downcast_ref::<$int>() {
                return i64::from(*value);
            })*
            unreachable!("only integers are stored as integers")
        }

        /// `T`, which is an integer, of a stored one.
        #[inline]
        pub(crate) fn from_int<T: 'static>(value: i64) -> Result<T, Bad> {
            $(if is::<T, $int>() {
                return <$int>::try_from(value).ok().and_then(cast).ok_or_else(|| too_large(value, stringify!($int)));
            })*
            unreachable!("only integers are stored as integers")
        }
    };
}

ints!(i64, i32, i16, i8, u32, u16, u8);

#[cold]
fn too_large(value: i64, wanted: &str) -> Bad {
    Bad::new(format!("the stored {value} does not fit into {wanted}; was it written by another version?"))
}

#[inline]
pub(crate) fn to_float<T: 'static>(value: &T) -> f64 {
    let value = value as &dyn Any;
    value
        .downcast_ref::<f64>()
        .copied()
        .or_else(|| value.downcast_ref::<f32>().map(|value| f64::from(*value)))
        .expect("only floats are stored as floats")
}

#[inline]
pub(crate) fn from_float<T: 'static>(value: f64) -> T {
    cast(value).or_else(|| cast(value as f32)).expect("only floats are stored as floats")
}

#[inline]
pub(crate) fn to_boolean<T: 'static>(value: &T) -> bool {
    *(value as &dyn Any).downcast_ref::<bool>().expect("only booleans are stored as booleans")
}

#[inline]
pub(crate) fn from_boolean<T: 'static>(value: bool) -> T {
    cast(value).expect("only booleans are stored as booleans")
}

/// `T`, which is text, bytes or JSON, of stored bytes.
pub(crate) fn from_bytes<T: Stored>(bytes: &[u8]) -> Result<T, Bad> {
    match Shape::of::<T>() {
        Shape::Text => Ok(cast(std::str::from_utf8(bytes)?.to_owned()).expect("only strings are stored as text")),
        Shape::Bytes => Ok(cast(bytes.to_vec()).expect("only bytes are stored as bytes")),
        _ => serde_json::from_slice(bytes).map_err(|error| Bad::from(error).within("reading a stored value")),
    }
}

/// Adds the bytes of `T`, which is text, bytes or JSON.
pub(crate) fn to_bytes<T: Stored>(value: &T, bytes: &mut Vec<u8>) -> Result<(), Bad> {
    let any = value as &dyn Any;
    if let Some(text) = any.downcast_ref::<String>() {
        bytes.extend_from_slice(text.as_bytes());
    } else if let Some(raw) = any.downcast_ref::<Vec<u8>>() {
        bytes.extend_from_slice(raw);
    } else {
        let start = bytes.len();
        if let Err(error) = serde_json::to_writer(&mut *bytes, value) {
            bytes.truncate(start);
            return Err(Bad::from(error).within("writing a value to state"));
        }
    }
    Ok(())
}

/// A cell of a column, as `T`.
pub(crate) fn read_cell<T: Stored>(column: &Column, index: usize) -> Result<Option<T>, Bad> {
    if column.present.as_ref().is_some_and(|present| !present[index]) {
        return Ok(None);
    }
    match (&column.values, Shape::of::<T>()) {
        (Values::Int(values), Shape::Int) => from_int(values[index]).map(Some),
        (Values::Float(values), Shape::Float) => Ok(Some(from_float(values[index]))),
        (Values::Boolean(values), Shape::Boolean) => Ok(Some(from_boolean(values[index]))),
        (Values::Text(blobs), Shape::Text | Shape::Json) | (Values::Bytes(blobs), Shape::Bytes) => {
            from_bytes(blob(blobs, index)).map(Some)
        }
        _ => Err(Bad::new(format!("the stored value is not a {}", std::any::type_name::<T>()))),
    }
}

/// A column of values of `T`.
pub(crate) fn column_of<'a, T: Stored>(values: impl ExactSizeIterator<Item = &'a T>) -> Result<Column, Bad> {
    let shape = Shape::of::<T>();
    let values = match shape {
        Shape::Int => Values::Int(values.map(to_int).collect()),
        Shape::Float => Values::Float(values.map(to_float).collect()),
        Shape::Boolean => Values::Boolean(values.map(to_boolean).collect()),
        Shape::Text | Shape::Bytes | Shape::Json => {
            let mut blobs = no_blobs();
            for value in values {
                to_bytes::<T>(value, &mut blobs.bytes)?;
                blobs.ends.push(end_of(&blobs.bytes));
            }
            if shape == Shape::Bytes { Values::Bytes(blobs) } else { Values::Text(blobs) }
        }
    };
    Ok(Column { present: None, values })
}

/// A column of one absent value.
pub(crate) fn absent(value_type: ValueType) -> Column {
    let empty = || {
        let mut blobs = no_blobs();
        push_blob(&mut blobs, &[]);
        blobs
    };
    let values = match value_type {
        ValueType::Int => Values::Int(vec![0]),
        ValueType::Float => Values::Float(vec![0.0]),
        ValueType::Boolean => Values::Boolean(vec![false]),
        ValueType::Text => Values::Text(empty()),
        ValueType::Bytes => Values::Bytes(empty()),
    };
    Column { present: Some(vec![false]), values }
}
