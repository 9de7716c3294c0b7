//! What an operator takes out of a record: a struct whose fields are pointers into it.
//! `#[derive(Input)]` declares them to the host, which hands in columns, and reads a row back into the struct. Never parses.

use crate::Bad;
use crate::bindings::types::{Column, Field, ValueType};
use crate::columns::FieldColumn;

/// The fields an operator wants. Derive it: on a struct for one input, on an enum with one struct per variant for several.
///
/// `#[at("/pointer")]` says where a field is found; without, it is found under its own name at the top. The pointer addresses a JSON
/// value, a column of a built-in operator, and an Avro or Protobuf field alike, and the job may override it by the field's
/// name. A record without a field goes to the dead letters before the operator sees it; an `Option` need not be there.
/// Fields may borrow (`&'a str`, `&'a [u8]`) from the batch, which saves an allocation per record.
pub trait Input: 'static {
    /// The struct as it is handed to `on_record`: for a struct that borrows, the one with the batch's lifetime.
    type Row<'a>;

    /// Names of the inputs.
    fn inputs() -> Vec<String> {
        vec!["input".to_owned()]
    }

    /// Adds the fields, those of one input or of all.
    fn declare(fields: &mut Vec<Field>, input: Option<u32>);

    /// A row's fields.
    ///
    /// # Errors
    /// A value that does not fit its type, such as 300 for a `u8`.
    fn read<'a>(fields: &Fields<'a>, row: usize) -> Result<Self::Row<'a>, Bad>;

    /// The input and the values of a row, to feed it in a test.
    #[cfg(not(target_arch = "wasm32"))]
    fn cells(row: &Self::Row<'_>) -> (u32, Vec<Option<crate::testing::Cell>>);
}

/// No fields at all.
impl Input for () {
    type Row<'a> = ();

    fn declare(_: &mut Vec<Field>, _: Option<u32>) {}

    fn read<'a>(_: &Fields<'a>, _: usize) -> Result<(), Bad> {
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn cells((): &()) -> (u32, Vec<Option<crate::testing::Cell>>) {
        (0, Vec::new())
    }
}

/// The columns of a call's fields, in the order of declaration.
pub struct Fields<'a> {
    input: u32,
    columns: Vec<FieldColumn<'a>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(input: u32, columns: &'a [Column]) -> Self {
        Self { input, columns: columns.iter().map(FieldColumn::of).collect() }
    }

    /// The input that all rows of this call come from.
    pub fn input(&self) -> u32 {
        self.input
    }

    /// The column of a field, by its place in the struct.
    pub fn column(&self, field: usize) -> &FieldColumn<'a> {
        &self.columns[field]
    }

    /// The value of a field in a row.
    ///
    /// # Errors
    /// A value that does not fit into `T`.
    #[inline]
    pub fn get<T: FieldValue<'a>>(&self, field: usize, row: usize) -> Result<T, Bad> {
        T::read(&self.columns[field], row)
    }
}

/// What the field of an [`Input`] can be.
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
