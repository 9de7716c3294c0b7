//! What an operator sends: rows appended straight into the columns that cross to the host.
//! Last on the record's path in the guest. A row is never an allocation of its own.

use crate::bindings::types::{self, Blobs, Body, Change, Column, Headers, OutputField, ValueType, Values};
use crate::columns::{end_of, no_blobs, push_blob};
use crate::row::Facts;
use crate::{Emission, Timestamp};
use serde::Serialize;
use std::borrow::Cow;
use std::marker::PhantomData;

/// The rows of an output. Derive it on a struct: each field is a column, which needs no encoding here and which the host writes as
/// JSON, Avro, … where it is wanted. Fields are text, bytes, integers, floats, booleans, and `Option` of these; they may
/// borrow. Outputs of whole values are [`Json`], `Vec<u8>` (bytes as they are), or `()` (records only pass).
pub trait Output: 'static {
    /// The row as it is given to `emit`: for a struct that borrows, the one with any lifetime.
    type Row<'r>;
    /// The columns being filled.
    #[doc(hidden)]
    type Columns: Default + 'static;

    /// Names and types of the columns; none for whole values.
    fn declare() -> Vec<OutputField>;
    /// Adds a row.
    #[doc(hidden)]
    fn append(row: Self::Row<'_>, columns: &mut Self::Columns);
    /// What crosses to the host.
    #[doc(hidden)]
    fn finish(columns: Self::Columns) -> Body;
}

/// Outputs without declared columns, so that a record may go on as it came.
#[diagnostic::on_unimplemented(
    message = "a record cannot pass to an output of `{Self}` rows",
    note = "an output with declared columns carries only rows of these columns: use `type Output = ()` (or `Side<()>`, or `Json<_>`) for records that pass"
)]
pub trait WholeRecords: Output {}

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
        pub struct $name($inner);

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

/// The rows of one output in the running call.
pub(crate) struct OutputBuffer<O: Output> {
    passed: Vec<u32>,
    origins: Vec<u32>,
    /// None while every row keeps the timestamp of its origin.
    timestamps: Option<Vec<Timestamp>>,
    /// Empty while all rows are inserts.
    changes: Vec<Change>,
    headers: Option<Headers>,
    columns: O::Columns,
}

impl<O: Output> OutputBuffer<O> {
    pub(crate) fn new() -> Self {
        Self {
            passed: Vec::new(),
            origins: Vec::new(),
            timestamps: None,
            changes: Vec::new(),
            headers: None,
            columns: O::Columns::default(),
        }
    }

    #[inline]
    pub(crate) fn pass(&mut self, row: u32) {
        self.passed.push(row);
    }

    #[inline]
    pub(crate) fn emit(&mut self, facts: &Facts, row: u32, emission: Emission<O::Row<'_>>) {
        let Emission { row: values, timestamp, change, headers } = emission;
        if timestamp.is_some() || self.timestamps.is_some() {
            self.stamp(facts, row, timestamp);
        }
        if change == Change::Retract || !self.changes.is_empty() {
            self.changes.resize(self.origins.len(), Change::Insert);
            self.changes.push(change);
        }
        if !headers.is_empty() {
            self.head(headers);
        }
        self.origins.push(row);
        O::append(values, &mut self.columns);
    }

    #[cold]
    fn stamp(&mut self, facts: &Facts, row: u32, timestamp: Option<Timestamp>) {
        let of_row = |row: &u32| facts.timestamps[*row as usize];
        let timestamps = self.timestamps.get_or_insert_with(|| self.origins.iter().map(of_row).collect());
        timestamps.push(timestamp.unwrap_or_else(|| of_row(&row)));
    }

    #[cold]
    fn head(&mut self, headers: Vec<(String, Vec<u8>)>) {
        let empty = || Headers { rows: Vec::new(), name: no_blobs(), value: no_blobs() };
        let all = self.headers.get_or_insert_with(empty);
        for (name, value) in headers {
            all.rows.push(self.origins.len() as u32);
            push_blob(&mut all.name, name.as_bytes());
            push_blob(&mut all.value, &value);
        }
    }

    /// What crosses to the host; none if nothing was sent.
    pub(crate) fn finish(self, port: u32) -> Option<types::Output> {
        if self.passed.is_empty() && self.origins.is_empty() {
            return None;
        }
        Some(types::Output {
            port,
            passed: self.passed,
            origins: self.origins,
            timestamps: self.timestamps,
            changes: self.changes,
            headers: self.headers,
            body: O::finish(self.columns),
        })
    }
}
