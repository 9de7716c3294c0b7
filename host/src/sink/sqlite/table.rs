//! The user's table: made or checked when the sink opens, then written row by row. It never begins or ends a transaction.

use super::ledger::Ledger;
use super::statements::{Statements, quoted};
use super::{Mode, Settings};
use crate::sink::SinkInput;
use crate::sink::encode::{Chosen, Given, Times, choose, flat_names, push_time};
use crate::sink::file::OnExisting;
use anyhow::{Context, bail, ensure};
use dataflow::record::{Batch, Change, Value, ValueType};
use dataflow::restart::Permanent;
use rusqlite::types::Null;
use rusqlite::{CachedStatement, Connection};

/// A table and how rows go into it. Parameter `?n` of each statement is column n.
#[derive(Debug)]
pub(super) struct Table {
    name: String,
    sink: String,
    columns: Vec<Chosen>,
    names: Vec<String>,
    /// For each column, whether it is part of the key.
    keyed: Vec<bool>,
    times: Times,
    insert: String,
    /// None where a row cannot be taken back.
    retract: Option<String>,
}

impl Table {
    pub(super) fn new(settings: &Settings, input: &SinkInput) -> anyhow::Result<Self> {
        let sink = &input.sink;
        ensure!(!input.whole_values, "sink `{sink}` gets whole values, a table has columns: name them in `columns`");
        let columns = choose(&settings.columns, input)?;
        ensure!(!columns.is_empty(), "sink `{sink}` gets rows without columns, a table needs one");
        let names = flat_names(&columns, sink)?;
        let key = if settings.key.is_empty() { vec![] } else { choose(&settings.key, input)? };
        match settings.mode {
            Mode::Append => ensure!(key.is_empty(), "sink `{sink}` appends, so it has no use for `key`"),
            Mode::Upsert | Mode::Add => {
                ensure!(!key.is_empty(), "sink `{sink}` finds table rows by key: name its columns in `key`");
            }
        }
        for part in &key {
            if !columns.contains(part) {
                bail!("sink `{sink}` has key column `{}`, which `columns` leaves out", part.flat_name());
            }
        }
        let keyed: Vec<bool> = columns.iter().map(|column| key.contains(column)).collect();
        let statements = Statements { table: &settings.table, columns: &columns, names: &names, keyed: &keyed };
        let (insert, retract) = match settings.mode {
            Mode::Append => (statements.append(), None),
            Mode::Upsert => (statements.upsert(), Some(statements.remove())),
            Mode::Add => (statements.add(""), Some(statements.add("-"))),
        };
        let name = settings.table.clone();
        Ok(Self { name, sink: sink.clone(), columns, names, keyed, times: settings.times, insert, retract })
    }

    pub(super) fn columns(&self) -> &[Chosen] {
        &self.columns
    }

    /// Makes the table if it is not there, or anew, as `on_existing` says.
    pub(super) fn prepare(
        &self,
        database: &Connection,
        ledger: &Ledger,
        settings: &Settings,
        input: &SinkInput,
    ) -> anyhow::Result<()> {
        let name = quoted(&self.name);
        let there = database.table_exists(None, self.name.as_str())?;
        if !input.fresh {
            return if there { Ok(()) } else { Ok(database.execute_batch(&self.create())?) };
        }
        let made = there && ledger.made_target(database)?;
        match settings.on_existing {
            Some(OnExisting::Fail) if there && database.prepare(&format!("SELECT 1 FROM {name}"))?.exists(())? => {
                bail!("sink `{}` finds rows in the table: remove them, or write to another table", self.sink)
            }
            None | Some(OnExisting::Replace) if made => database.execute_batch(&format!("DROP TABLE {name}"))?,
            Some(OnExisting::Replace) if there => database.execute_batch(&format!("DELETE FROM {name}"))?,
            _ => {}
        }
        database.execute_batch(&self.create())?;
        ledger.begin(database, made || !there)?;
        Ok(())
    }

    fn create(&self) -> String {
        let mut parts = Vec::with_capacity(self.columns.len() + 1);
        for ((column, name), keyed) in self.columns.iter().zip(&self.names).zip(&self.keyed) {
            let not_null = if *keyed { " NOT NULL" } else { "" };
            parts.push(format!("{}{}{not_null}", quoted(name), self.declared(column)));
        }
        let key: Vec<String> =
            self.names.iter().zip(&self.keyed).filter(|(_, keyed)| **keyed).map(|(name, _)| quoted(name)).collect();
        if !key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        }
        format!("CREATE TABLE IF NOT EXISTS {} ({})", quoted(&self.name), parts.join(", "))
    }

    fn declared(&self, column: &Chosen) -> &'static str {
        match column.value_type {
            ValueType::Int if column.time && self.times == Times::Rfc3339 => " TEXT",
            ValueType::Text => " TEXT",
            ValueType::Int | ValueType::Boolean => " INTEGER",
            ValueType::Float => " REAL",
            ValueType::Bytes => " BLOB",
            // Why: without a declared type SQLite keeps 1 and '1' apart, as keys do.
            ValueType::Scalar => "",
        }
    }

    /// An existing table must have the columns and, where rows are found by key, that key.
    pub(super) fn check(&self, database: &Connection) -> anyhow::Result<()> {
        let mut found = database.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let there: Vec<String> =
            found.query_map([&self.name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        let missing: Vec<&str> = (self.names.iter())
            .filter(|name| !there.iter().any(|other| other.eq_ignore_ascii_case(name)))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            bail!(Permanent(format!(
                "the table has columns `{}`, but sink `{}` also writes `{}`: add them to the table, or choose others in \
                 `columns`",
                there.join("`, `"),
                self.sink,
                missing.join("`, `")
            )));
        }
        if let Err(error) = database.prepare(&self.insert) {
            return Err(error).with_context(|| {
                let key: Vec<&str> = self.key_names().collect();
                format!(
                    "the table does not take the rows of sink `{}`; to find rows by key it needs a primary key or \
                     unique index over `{}`",
                    self.sink,
                    key.join("`, `")
                )
            });
        }
        Ok(())
    }

    fn key_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().zip(&self.keyed).filter(|(_, keyed)| **keyed).map(|(name, _)| name.as_str())
    }

    /// Refuses rows that could not be applied: what is staged must not fail later.
    pub(super) fn refuse(&self, batch: &Batch) -> anyhow::Result<()> {
        if self.retract.is_none() && batch.changes.contains(&Change::Retract) {
            bail!("sink `{}` got a row that is taken back, but it appends: use `mode: upsert`", self.sink);
        }
        for ((column, name), keyed) in self.columns.iter().zip(&self.names).zip(&self.keyed) {
            let column = &batch.columns[column.position];
            if *keyed && (0..batch.len()).any(|row| !column.is_present(row)) {
                bail!(Permanent(format!(
                    "sink `{}` got a row without its key column `{name}`: leave such rows out before they come to it",
                    self.sink
                )));
            }
        }
        Ok(())
    }

    /// Writes the batch's rows in order.
    pub(super) fn write_batch(&self, database: &Connection, batch: &Batch) -> anyhow::Result<()> {
        let mut writer = self.writer(database)?;
        let given = Given::of(batch, &self.columns);
        for row in 0..batch.len() {
            let values = self.columns.iter().map(|column| match given.get(row, column.position) {
                Some(text) => Value::Text(text),
                None => batch.columns[column.position].get(row),
            });
            writer.write(batch.change(row), values)?;
        }
        Ok(())
    }

    /// Prepares the statements, for many rows.
    pub(super) fn writer<'a>(&'a self, database: &'a Connection) -> anyhow::Result<Writer<'a>> {
        let insert = database.prepare_cached(&self.insert)?;
        let retract = self.retract.as_deref().map(|sql| database.prepare_cached(sql)).transpose()?;
        Ok(Writer { table: self, insert, retract, time: vec![] })
    }
}

/// Executes rows.
pub(super) struct Writer<'a> {
    table: &'a Table,
    insert: CachedStatement<'a>,
    retract: Option<CachedStatement<'a>>,
    time: Vec<u8>,
}

impl Writer<'_> {
    pub(super) fn write<'v>(&mut self, change: Change, values: impl Iterator<Item = Value<'v>>) -> anyhow::Result<()> {
        let statement = match (change, &mut self.retract) {
            (Change::Retract, Some(retract)) => retract,
            _ => &mut self.insert,
        };
        for (at, (value, column)) in values.zip(&self.table.columns).enumerate() {
            let parameter = at + 1;
            match value {
                Value::Absent => statement.raw_bind_parameter(parameter, Null)?,
                Value::Text(text) => statement.raw_bind_parameter(parameter, text)?,
                Value::Bytes(bytes) => statement.raw_bind_parameter(parameter, bytes)?,
                Value::Float(float) => statement.raw_bind_parameter(parameter, float)?,
                Value::Boolean(boolean) => statement.raw_bind_parameter(parameter, boolean)?,
                Value::Int(int) => {
                    self.time.clear();
                    if column.time && self.table.times == Times::Rfc3339 && push_time(int, &mut self.time) {
                        statement.raw_bind_parameter(parameter, std::str::from_utf8(&self.time)?)?;
                    } else {
                        statement.raw_bind_parameter(parameter, int)?;
                    }
                }
            }
        }
        statement.raw_execute().with_context(|| format!("writing a row to table `{}`", self.table.name))?;
        Ok(())
    }
}
