//! Outputs without declared columns: whole values, and records that pass.

use super::columns::{BytesColumn, ColumnBuilder};
use super::{Output, WholeRecords};
use crate::bindings::types::{Blobs, Body, Column, OutputField, Values};
use crate::input::{end_of, no_blobs, push_blob};
use serde::Serialize;
use std::marker::PhantomData;

/// Nothing of its own: records pass or do not.
impl Output for () {
    type Row<'r> = std::convert::Infallible;
    type Columns = ();

    fn declare() -> Vec<OutputField> {
        Vec::new()
    }

    fn append(row: Self::Row<'_>, (): &mut ()) {
        match row {}
    }

    fn finish((): ()) -> Body {
        Body::Bytes(BytesColumn::default().finish())
    }
}

impl WholeRecords for () {}

/// Bytes as they are.
impl Output for Vec<u8> {
    type Row<'r> = &'r [u8];
    type Columns = BytesColumn;

    fn declare() -> Vec<OutputField> {
        Vec::new()
    }

    fn append(row: &[u8], columns: &mut BytesColumn) {
        push_blob(&mut columns.0, row);
    }

    fn finish(columns: BytesColumn) -> Body {
        Body::Bytes(columns.finish())
    }
}

impl WholeRecords for Vec<u8> {}

/// A whole value as JSON text, of any type that serde can write: `type Output = Json<Summary>`, `at.emit(Json(summary))`.
pub struct Json<T>(pub T);

impl<T: Serialize + 'static> Output for Json<T> {
    type Row<'r> = Json<T>;
    type Columns = JsonColumn<T>;

    fn declare() -> Vec<OutputField> {
        Vec::new()
    }

    fn append(row: Json<T>, columns: &mut JsonColumn<T>) {
        serde_json::to_writer(&mut columns.blobs.bytes, &row.0).expect("a row sent as JSON can be written as JSON");
        columns.blobs.ends.push(end_of(&columns.blobs.bytes));
    }

    fn finish(columns: JsonColumn<T>) -> Body {
        Body::Bytes(Column { present: None, values: Values::Bytes(columns.blobs) })
    }
}

impl<T: Serialize + 'static> WholeRecords for Json<T> {}

#[doc(hidden)]
pub struct JsonColumn<T> {
    blobs: Blobs,
    rows: PhantomData<T>,
}

impl<T> Default for JsonColumn<T> {
    fn default() -> Self {
        Self { blobs: no_blobs(), rows: PhantomData }
    }
}
