//! Columns that the host handed in, as slices. Text is checked once for a whole column, not once a row.
//! First on the record's path in the guest; never copies.

use crate::bindings::types::{Blobs, Column, ValueType, Values};

/// One column of a batch: a value per row, of one type.
#[derive(Clone, Copy)]
pub struct FieldColumn<'a> {
    present: Option<&'a [bool]>,
    cells: Cells<'a>,
}

#[derive(Clone, Copy)]
enum Cells<'a> {
    Text(Texts<'a>),
    Bytes(&'a Blobs),
    Int(&'a [i64]),
    Float(&'a [f64]),
    Boolean(&'a [bool]),
}

/// The strings of a text column.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    ends: &'a [u32],
    all: &'a str,
}

impl<'a> Texts<'a> {
    fn of(blobs: &'a Blobs) -> Self {
        let all = std::str::from_utf8(&blobs.bytes).expect("the host hands in text that is UTF-8");
        Self { ends: &blobs.ends, all }
    }

    /// The string of a row; any string where the row has none.
    #[inline]
    pub fn get(&self, row: usize) -> &'a str {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.all[start..self.ends[row] as usize]
    }
}

/// String `index` of many.
#[inline]
pub(crate) fn blob(blobs: &Blobs, index: usize) -> &[u8] {
    let start = if index == 0 { 0 } else { blobs.ends[index - 1] as usize };
    &blobs.bytes[start..blobs.ends[index] as usize]
}

/// Adds a string behind the others.
#[inline]
pub(crate) fn push_blob(blobs: &mut Blobs, bytes: &[u8]) {
    blobs.bytes.extend_from_slice(bytes);
    blobs.ends.push(end_of(&blobs.bytes));
}

/// Where a buffer ends, as it crosses the boundary.
#[inline]
pub(crate) fn end_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a call sends less than 4 GiB")
}

pub(crate) fn no_blobs() -> Blobs {
    Blobs { ends: Vec::new(), bytes: Vec::new() }
}

impl<'a> FieldColumn<'a> {
    pub(crate) fn of(column: &'a Column) -> Self {
        let cells = match &column.values {
            Values::Text(blobs) => Cells::Text(Texts::of(blobs)),
            Values::Bytes(blobs) => Cells::Bytes(blobs),
            Values::Int(values) => Cells::Int(values),
            Values::Float(values) => Cells::Float(values),
            Values::Boolean(values) => Cells::Boolean(values),
        };
        Self { present: column.present.as_deref(), cells }
    }

    /// Whether the row has a value.
    #[inline]
    pub fn present(&self, row: usize) -> bool {
        self.present.is_none_or(|present| present[row])
    }

    /// Which rows have a value; none where all have.
    pub fn presence(&self) -> Option<&'a [bool]> {
        self.present
    }

    /// The type of the values.
    pub fn value_type(&self) -> ValueType {
        match self.cells {
            Cells::Text(_) => ValueType::Text,
            Cells::Bytes(_) => ValueType::Bytes,
            Cells::Int(_) => ValueType::Int,
            Cells::Float(_) => ValueType::Float,
            Cells::Boolean(_) => ValueType::Boolean,
        }
    }

    /// The strings of a text column. Panics if it is of another type, as do the next ones.
    #[inline]
    pub fn texts(&self) -> Texts<'a> {
        match self.cells {
            Cells::Text(texts) => texts,
            _ => self.mistaken(ValueType::Text),
        }
    }

    /// The bytes of a row; any bytes where the row has none.
    #[inline]
    pub fn bytes(&self, row: usize) -> &'a [u8] {
        match self.cells {
            Cells::Bytes(blobs) => blob(blobs, row),
            _ => self.mistaken(ValueType::Bytes),
        }
    }

    /// The integers of all rows.
    #[inline]
    pub fn ints(&self) -> &'a [i64] {
        match self.cells {
            Cells::Int(values) => values,
            _ => self.mistaken(ValueType::Int),
        }
    }

    /// The floats of all rows.
    #[inline]
    pub fn floats(&self) -> &'a [f64] {
        match self.cells {
            Cells::Float(values) => values,
            _ => self.mistaken(ValueType::Float),
        }
    }

    /// The booleans of all rows.
    #[inline]
    pub fn booleans(&self) -> &'a [bool] {
        match self.cells {
            Cells::Boolean(values) => values,
            _ => self.mistaken(ValueType::Boolean),
        }
    }

    #[cold]
    fn mistaken(&self, wanted: ValueType) -> ! {
        panic!("a column of {wanted:?} was asked for, but it is one of {:?}", self.value_type())
    }
}

/// How many values a column has.
pub(crate) fn len_of(column: &Column) -> usize {
    match &column.values {
        Values::Text(blobs) | Values::Bytes(blobs) => blobs.ends.len(),
        Values::Int(values) => values.len(),
        Values::Float(values) => values.len(),
        Values::Boolean(values) => values.len(),
    }
}

/// The type of a column's values.
pub(crate) fn value_type(column: &Column) -> ValueType {
    match &column.values {
        Values::Text(_) => ValueType::Text,
        Values::Bytes(_) => ValueType::Bytes,
        Values::Int(_) => ValueType::Int,
        Values::Float(_) => ValueType::Float,
        Values::Boolean(_) => ValueType::Boolean,
    }
}

/// Two columns are not of one type.
#[derive(Debug)]
pub(crate) struct Mismatch;

/// Adds the values of `more` behind those of `column`.
pub(crate) fn append_column(column: &mut Column, more: Column) -> Result<(), Mismatch> {
    if column.present.is_some() || more.present.is_some() {
        let (here, there) = (len_of(column), len_of(&more));
        let present = column.present.get_or_insert_with(|| vec![true; here]);
        present.extend(more.present.unwrap_or_else(|| vec![true; there]));
    }
    match (&mut column.values, more.values) {
        (Values::Text(blobs), Values::Text(more)) | (Values::Bytes(blobs), Values::Bytes(more)) => {
            (0..more.ends.len()).for_each(|index| push_blob(blobs, blob(&more, index)));
        }
        (Values::Int(values), Values::Int(more)) => values.extend(more),
        (Values::Float(values), Values::Float(more)) => values.extend(more),
        (Values::Boolean(values), Values::Boolean(more)) => values.extend(more),
        _ => return Err(Mismatch),
    }
    Ok(())
}
