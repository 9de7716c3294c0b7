//! What an operator takes out of a record: a struct whose fields are pointers into it.
//! `#[derive(Input)]` declares them to the host, which hands in columns, and reads a row back into the struct. Never parses.

mod columns; // columns as slices
mod value; // what a field can be

pub use columns::{FieldColumn, Texts};
pub(crate) use columns::{append_column, blob, end_of, len_of, no_blobs, push_blob, value_type};
pub use value::{FieldValue, field};

use crate::Bad;
use crate::bindings::types::{Column, Field};

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
