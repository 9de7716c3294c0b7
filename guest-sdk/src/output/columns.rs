//! Columns being filled, one builder for each type of value.

use crate::bindings::types::{Blobs, Column, ValueType, Values};
use crate::input::{no_blobs, push_blob};
use std::borrow::Cow;

/// What the field of an output can be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a column of an output",
    note = "columns are text (String, &str), bytes (Vec<u8>, &[u8]), integers, floats, booleans, and Option of these"
)]
pub trait OutputValue {
    /// The type of the column.
    const TYPE: ValueType;
    #[doc(hidden)]
    type Column: ColumnBuilder;

    #[doc(hidden)]
    fn append(&self, column: &mut Self::Column);
}

/// A column being filled.
#[doc(hidden)]
pub trait ColumnBuilder: Default + 'static {
    fn push_absent(&mut self);
    fn finish(self) -> Column;
}

macro_rules! column_builder {
    ($($name:ident($inner:ty) = $empty:expr, |$values:ident| $absent:expr, $variant:ident;)*) => { $(
        #[doc(hidden)]
        pub struct $name(pub(super) $inner);

        impl Default for $name {
            fn default() -> Self {
                Self($empty)
            }
        }

        impl ColumnBuilder for $name {
            fn push_absent(&mut self) {
                let $values = &mut self.0;
                $absent
            }

            fn finish(self) -> Column {
                Column { present: None, values: Values::$variant(self.0) }
            }
        }
    )* };
}

column_builder! {
    TextColumn(Blobs) = no_blobs(), |blobs| push_blob(blobs, &[]), Text;
    BytesColumn(Blobs) = no_blobs(), |blobs| push_blob(blobs, &[]), Bytes;
    IntColumn(Vec<i64>) = Vec::new(), |values| values.push(0), Int;
    FloatColumn(Vec<f64>) = Vec::new(), |values| values.push(0.0), Float;
    BooleanColumn(Vec<bool>) = Vec::new(), |values| values.push(false), Boolean;
}

/// A column where rows may have no value.
#[doc(hidden)]
#[derive(Default)]
pub struct Optional<B> {
    present: Vec<bool>,
    values: B,
}

impl<B: ColumnBuilder> ColumnBuilder for Optional<B> {
    fn push_absent(&mut self) {
        self.present.push(false);
        self.values.push_absent();
    }

    fn finish(self) -> Column {
        let present = self.present.contains(&false).then_some(self.present);
        Column { present, ..self.values.finish() }
    }
}

macro_rules! output_value {
    ($($type:ty, $value_type:ident, $column:ident, |$values:ident, $self:ident| $append:expr;)*) => { $(
        impl OutputValue for $type {
            const TYPE: ValueType = ValueType::$value_type;
            type Column = $column;

            #[inline]
            fn append(&self, column: &mut $column) {
                let ($values, $self) = (&mut column.0, self);
                $append
            }
        }
    )* };
}

output_value! {
    str, Text, TextColumn, |blobs, text| push_blob(blobs, text.as_bytes());
    String, Text, TextColumn, |blobs, text| push_blob(blobs, text.as_bytes());
    Box<str>, Text, TextColumn, |blobs, text| push_blob(blobs, text.as_bytes());
    Cow<'_, str>, Text, TextColumn, |blobs, text| push_blob(blobs, text.as_bytes());
    [u8], Bytes, BytesColumn, |blobs, bytes| push_blob(blobs, bytes);
    Vec<u8>, Bytes, BytesColumn, |blobs, bytes| push_blob(blobs, bytes);
    i64, Int, IntColumn, |values, value| values.push(*value);
    i32, Int, IntColumn, |values, value| values.push(i64::from(*value));
    i16, Int, IntColumn, |values, value| values.push(i64::from(*value));
    i8, Int, IntColumn, |values, value| values.push(i64::from(*value));
    u32, Int, IntColumn, |values, value| values.push(i64::from(*value));
    u16, Int, IntColumn, |values, value| values.push(i64::from(*value));
    u8, Int, IntColumn, |values, value| values.push(i64::from(*value));
    f64, Float, FloatColumn, |values, value| values.push(*value);
    f32, Float, FloatColumn, |values, value| values.push(f64::from(*value));
    bool, Boolean, BooleanColumn, |values, value| values.push(*value);
}

impl<T: OutputValue + ?Sized> OutputValue for &T {
    const TYPE: ValueType = T::TYPE;
    type Column = T::Column;

    #[inline]
    fn append(&self, column: &mut T::Column) {
        (**self).append(column);
    }
}

impl<T: OutputValue> OutputValue for Option<T> {
    const TYPE: ValueType = T::TYPE;
    type Column = Optional<T::Column>;

    #[inline]
    fn append(&self, column: &mut Self::Column) {
        match self {
            Some(value) => {
                column.present.push(true);
                value.append(&mut column.values);
            }
            None => column.push_absent(),
        }
    }
}
