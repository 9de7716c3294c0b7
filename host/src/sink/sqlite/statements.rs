//! The text of the statements that a row becomes. Parameter `?n` of each is column n, so that all are bound alike.

use crate::sink::encode::Chosen;
use dataflow::record::ValueType;

/// Makes the statements' text.
pub(super) struct Statements<'a> {
    pub(super) table: &'a str,
    pub(super) columns: &'a [Chosen],
    pub(super) names: &'a [String],
    /// For each column, whether it is part of the key.
    pub(super) keyed: &'a [bool],
}

/// Whether a column's values are added.
#[derive(PartialEq, Eq)]
enum Summed {
    Always,
    /// Those that are numbers: a column of a source has values of any type.
    Numbers,
    Never,
}

impl Statements<'_> {
    /// Every row is new.
    pub(super) fn append(&self) -> String {
        self.insert_with(|at| format!("?{at}"))
    }

    /// The row with the same key is replaced.
    pub(super) fn upsert(&self) -> String {
        self.on_conflict(&self.append(), |_, name| format!("{name} = excluded.{name}"))
    }

    /// Numbers are added to the row with the same key; `sign` before each number: `-` to subtract.
    pub(super) fn add(&self, sign: &'static str) -> String {
        let insert = self.insert_with(|parameter| match self.summed(parameter - 1) {
            Summed::Always => format!("{sign}?{parameter}"),
            // A sign before a text would make a number of it.
            Summed::Numbers if !sign.is_empty() => format!(
                "CASE WHEN typeof(?{parameter}) IN ('integer', 'real') THEN {sign}?{parameter} ELSE ?{parameter} END"
            ),
            Summed::Numbers | Summed::Never => format!("?{parameter}"),
        });
        let table = quoted(self.table);
        self.on_conflict(&insert, |at, name| match self.summed(at) {
            Summed::Always => format!("{name} = coalesce({table}.{name}, 0) + coalesce(excluded.{name}, 0)"),
            // What is no number never takes the place of a sum.
            Summed::Numbers => format!(
                "{name} = CASE WHEN typeof({table}.{name}) NOT IN ('integer', 'real') THEN coalesce(excluded.{name}, \
                 {table}.{name}) WHEN typeof(excluded.{name}) IN ('integer', 'real') THEN {table}.{name} + excluded.{name} \
                 ELSE {table}.{name} END"
            ),
            Summed::Never => format!("{name} = excluded.{name}"),
        })
    }

    /// Removes the row that equals all columns.
    pub(super) fn remove(&self) -> String {
        let equal: Vec<String> =
            self.names.iter().enumerate().map(|(at, name)| format!("{} IS ?{}", quoted(name), at + 1)).collect();
        format!("DELETE FROM {} WHERE {}", quoted(self.table), equal.join(" AND "))
    }

    fn summed(&self, at: usize) -> Summed {
        let column = &self.columns[at];
        if column.time || self.keyed[at] || column.path[0] == "pane" {
            return Summed::Never;
        }
        match column.value_type {
            ValueType::Int | ValueType::Float => Summed::Always,
            ValueType::Scalar => Summed::Numbers,
            ValueType::Text | ValueType::Bytes | ValueType::Boolean => Summed::Never,
        }
    }

    /// `value` is given the parameter's number, from 1.
    fn insert_with(&self, value: impl Fn(usize) -> String) -> String {
        let names: Vec<String> = self.names.iter().map(|name| quoted(name)).collect();
        let values: Vec<String> = (1..=names.len()).map(value).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", quoted(self.table), names.join(", "), values.join(", "))
    }

    fn on_conflict(&self, insert: &str, set: impl Fn(usize, &str) -> String) -> String {
        let pick = |keyed: bool| (0..self.names.len()).filter(move |&at| self.keyed[at] == keyed);
        let key: Vec<String> = pick(true).map(|at| quoted(&self.names[at])).collect();
        let sets: Vec<String> = pick(false).map(|at| set(at, &quoted(&self.names[at]))).collect();
        let action = if sets.is_empty() { "NOTHING".into() } else { format!("UPDATE SET {}", sets.join(", ")) };
        format!("{insert} ON CONFLICT ({}) DO {action}", key.join(", "))
    }
}

/// A name as SQL writes it, whatever stands in it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
