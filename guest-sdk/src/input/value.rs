//! What the field of an input can be, and how it is read from its column.

use super::columns::FieldColumn;
use crate::Bad;
use crate::bindings::types::{Field, ValueType};

/// What the field of an [`Input`](trait@crate::Input) can be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken out of a record",
    note = "fields are text (String, &str), bytes (Vec<u8>, &[u8]), integers, floats, booleans, and Option of these"
)]
pub trait FieldValue<'a>: Sized {
    /// The type of column asked of the host.
    const TYPE: ValueType;
    /// Whether a record without it goes to the dead letters.
    const REQUIRED: bool = true;

    /// The value in a row that has one.
    ///
    /// # Errors
    /// The value does not fit.
    fn read(column: &FieldColumn<'a>, row: usize) -> Result<Self, Bad>;

    /// The value as a cell of a test's record.
    #[cfg(not(target_arch = "wasm32"))]
    fn cell(&self) -> Option<crate::testing::Cell>;
}

/// A field's declaration, for the derive.
#[doc(hidden)]
pub fn field<'a, T: FieldValue<'a>>(name: &str, pointer: &str, input: Option<u32>) -> Field {
    Field { name: name.to_owned(), pointer: pointer.to_owned(), value_type: T::TYPE, required: T::REQUIRED, input }
}

/// Implements [`FieldValue`] for a type that a cell of the column turns into without fail.
macro_rules! field_value {
    ($life:lifetime, $($type:ty, $value_type:ident, |$column:ident, $row:ident| $read:expr, |$self:ident| $cell:expr;)*) => { $(
        impl<$life> FieldValue<$life> for $type {
            const TYPE: ValueType = ValueType::$value_type;

            #[inline]
            fn read($column: &FieldColumn<$life>, $row: usize) -> Result<Self, Bad> {
                Ok($read)
            }

            #[cfg(not(target_arch = "wasm32"))]
            fn cell(&self) -> Option<crate::testing::Cell> {
                let $self = self;
                Some(crate::testing::Cell::$value_type($cell))
            }
        }
    )* };
}

field_value! { 'a,
    &'a str, Text, |column, row| column.texts().get(row), |value| (*value).to_owned();
    String, Text, |column, row| column.texts().get(row).to_owned(), |value| value.clone();
    Box<str>, Text, |column, row| column.texts().get(row).into(), |value| value.to_string();
    &'a [u8], Bytes, |column, row| column.bytes(row), |value| value.to_vec();
    Vec<u8>, Bytes, |column, row| column.bytes(row).to_vec(), |value| value.clone();
    i64, Int, |column, row| column.ints()[row], |value| *value;
    f64, Float, |column, row| column.floats()[row], |value| *value;
    f32, Float, |column, row| column.floats()[row] as f32, |value| f64::from(*value);
    bool, Boolean, |column, row| column.booleans()[row], |value| *value;
}

/// Implements [`FieldValue`] for integers narrower than the column's.
macro_rules! narrow_int {
    ($($type:ty),*) => { $(
        impl<'a> FieldValue<'a> for $type {
            const TYPE: ValueType = ValueType::Int;

            #[inline]
            fn read(column: &FieldColumn<'a>, row: usize) -> Result<Self, Bad> {
                let value = column.ints()[row];
                <$type>::try_from(value)
                    .map_err(|_| Bad::new(format!("{value} does not fit into {}", stringify!($type))))
            }

            #[cfg(not(target_arch = "wasm32"))]
            fn cell(&self) -> Option<crate::testing::Cell> {
                Some(crate::testing::Cell::Int(i64::try_from(*self).expect("a test's integers fit into 64 bits with sign")))
            }
        }
    )* };
}

narrow_int!(i8, i16, i32, u8, u16, u32, u64);

impl<'a, T: FieldValue<'a>> FieldValue<'a> for Option<T> {
    const TYPE: ValueType = T::TYPE;
    const REQUIRED: bool = false;

    #[inline]
    fn read(column: &FieldColumn<'a>, row: usize) -> Result<Self, Bad> {
        if column.present(row) { T::read(column, row).map(Some) } else { Ok(None) }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn cell(&self) -> Option<crate::testing::Cell> {
        self.as_ref().and_then(T::cell)
    }
}
