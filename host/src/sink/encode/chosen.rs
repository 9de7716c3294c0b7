//! Which columns of an edge a sink writes, and under which names: pointers nest in JSON and are joined by `_` elsewhere.

use crate::sink::SinkInput;
use anyhow::bail;
use dataflow::record::{Schema, ValueType};

/// A column that a sink writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its place in a batch.
    pub position: usize,
    /// The steps of its pointer; the whole value is called `value`.
    pub path: Vec<String>,
    /// It is the whole value, not a part of it.
    pub whole: bool,
    /// What it holds.
    pub value_type: ValueType,
    /// Ints that are written as times.
    pub time: bool,
}

impl Chosen {
    fn of(schema: &Schema, position: usize) -> Self {
        let field = &schema.fields[position];
        let path = match field.pointer.strip_prefix('/').unwrap_or(&field.pointer) {
            "" if field.pointer.is_empty() => vec!["value".to_string()],
            pointer => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
        };
        Self { position, path, whole: field.pointer.is_empty(), value_type: field.value_type, time: field.time }
    }

    /// The name where names do not nest.
    pub fn flat_name(&self) -> String {
        self.path.join("_")
    }

    fn is_called(&self, schema: &Schema, name: &str) -> bool {
        let pointer = &schema.fields[self.position].pointer;
        pointer == name || self.flat_name() == name.trim_start_matches('/').replace('/', "_")
    }
}

/// The columns called `names`, by pointer or flat name, in that order; all where no name is given. A pointer that comes
/// with several types is written once, with the type that holds all of them if there is one.
///
/// # Errors
/// A name that no column has.
pub fn choose(names: &[String], input: &SinkInput) -> anyhow::Result<Vec<Chosen>> {
    let all = distinct(&input.schema);
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::with_capacity(names.len());
    for name in names {
        match all.iter().find(|column| column.is_called(&input.schema, name)) {
            Some(column) => chosen.push(column.clone()),
            None => {
                let known: Vec<String> = all.iter().map(Chosen::flat_name).collect();
                bail!("sink `{}` has no column `{name}` to write, only `{}`", input.sink, known.join("`, `"));
            }
        }
    }
    Ok(chosen)
}

fn distinct(schema: &Schema) -> Vec<Chosen> {
    let mut chosen: Vec<Chosen> = Vec::with_capacity(schema.fields.len());
    for position in 0..schema.fields.len() {
        let column = Chosen::of(schema, position);
        match chosen.iter_mut().find(|other| other.path == column.path) {
            None => chosen.push(column),
            Some(other) if column.value_type == ValueType::Scalar => *other = column,
            Some(_) => {}
        }
    }
    chosen
}

/// The flat names, each once.
///
/// # Errors
/// Two columns have the same.
pub(in crate::sink) fn flat_names(columns: &[Chosen], sink: &str) -> anyhow::Result<Vec<String>> {
    let names: Vec<String> = columns.iter().map(Chosen::flat_name).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            bail!("sink `{sink}` would write two columns as `{name}`: choose one in `columns`");
        }
    }
    Ok(names)
}
