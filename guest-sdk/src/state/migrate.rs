//! State written by an older version of the operator, carried over when it is first touched.

use super::StateHandle;
use super::stored::{Stored, absent, column_of, read_cell};
use crate::Bad;
use crate::bindings::types::{Column, Description, Values};
use crate::input::{append_column, len_of};

/// A value of an older version, to be converted.
pub struct Migrating<'a> {
    id: u32,
    state: &'a str,
    from_version: u32,
    old: &'a Column,
    index: usize,
    new: Option<Column>,
}

impl Migrating<'_> {
    /// The state's name: `if old.state() == "total"`.
    pub fn state(&self) -> &str {
        self.state
    }

    /// Whether it is a value of this state.
    pub fn is(&self, state: &impl StateHandle) -> bool {
        self.id == state.id()
    }

    /// The version it was written under.
    pub fn from_version(&self) -> u32 {
        self.from_version
    }

    /// Reads the old value as what it was declared then, and writes the new one as what it is declared now.
    ///
    /// # Errors
    /// The value is not an `Old`, or the new one cannot be written as JSON.
    pub fn convert<Old: Stored, New: Stored>(&mut self, convert: impl FnOnce(Old) -> New) -> Result<(), Bad> {
        if let Some(old) = read_cell::<Old>(self.old, self.index)? {
            self.new = Some(column_of([&convert(old)].into_iter())?);
        }
        Ok(())
    }

    /// Lets the value go.
    pub fn forget(&mut self) {
        self.new = None;
    }

    pub(crate) fn unsupported(&self) -> Bad {
        Bad::new(format!(
            "the operator does not know how to migrate state `{}` from version {}: implement `migrate`",
            self.state, self.from_version
        ))
    }
}

/// The host's `migrate`: converts a column value by value.
pub(crate) fn migrate(
    description: &Description,
    state: u32,
    from_version: u32,
    old: &Column,
    mut convert: impl FnMut(&mut Migrating<'_>) -> Result<(), Bad>,
) -> Result<Column, String> {
    let id = state;
    let state = description.states.get(id as usize).ok_or_else(|| format!("there is no state {state}"))?;
    let nothing = absent(state.value_type);
    let mut all: Option<Column> = None;
    for index in 0..len_of(old) {
        let mut value = Migrating { id, state: &state.name, from_version, old, index, new: None };
        if old.present.as_ref().is_none_or(|present| present[index]) {
            convert(&mut value).map_err(Bad::into_reason)?;
        }
        let cell = value.new.unwrap_or_else(|| nothing.clone());
        match &mut all {
            None => all = Some(cell),
            Some(all) => append_column(all, cell).map_err(|_| mistyped(&state.name))?,
        }
    }
    let all = all.unwrap_or_else(|| empty(nothing));
    if crate::input::value_type(&all) == state.value_type { Ok(all) } else { Err(mistyped(&state.name)) }
}

fn mistyped(state: &str) -> String {
    format!("migrating state `{state}`: the new value is of another type than the state is declared with")
}

fn empty(mut column: Column) -> Column {
    column.present = None;
    match &mut column.values {
        Values::Text(blobs) | Values::Bytes(blobs) => blobs.ends.clear(),
        Values::Int(values) => values.clear(),
        Values::Float(values) => values.clear(),
        Values::Boolean(values) => values.clear(),
    }
    column
}
