//! Rows as JSON objects. The text between values never changes, so it is made once; a row is its values between those texts.

use super::chosen::Chosen;
use super::given::Given;
use super::value::{Printer, push_json_text};
use anyhow::bail;
use dataflow::record::{Batch, Change, Column};

/// The fixed text of an edge's rows.
#[derive(Debug)]
pub(super) struct Plan {
    fields: Vec<Step>,
    columns: Vec<Chosen>,
    /// Closes all objects but the outermost.
    end: Vec<u8>,
}

#[derive(Debug)]
struct Step {
    /// Ends what is open, opens what is new, and names the field.
    before: Vec<u8>,
    position: usize,
    time: bool,
}

#[derive(Default)]
struct Object<'a> {
    members: Vec<(&'a str, Member<'a>)>,
}

enum Member<'a> {
    Value(&'a Chosen),
    Object(Object<'a>),
}

impl Plan {
    /// Fields in the columns' order; an object stands where its first field does.
    pub(super) fn new(columns: &[Chosen], sink: &str) -> anyhow::Result<Self> {
        let mut root = Object::default();
        for column in columns {
            if !root.insert(column, &column.path) {
                bail!(
                    "sink `{sink}` would write `/{}` both as a value and as an object: choose one in `columns`",
                    column.path.join("/")
                );
            }
        }
        let mut plan = Self { fields: Vec::with_capacity(columns.len()), columns: columns.to_vec(), end: vec![] };
        plan.end.push(b'{');
        plan.add_members(&root);
        Ok(plan)
    }

    /// `end` gathers the text since the last value; a value takes it.
    fn add_members(&mut self, object: &Object<'_>) {
        for (at, (name, member)) in object.members.iter().enumerate() {
            if at > 0 {
                self.end.push(b',');
            }
            push_json_text(name.as_bytes(), &mut self.end);
            self.end.push(b':');
            match member {
                Member::Value(column) => {
                    let before = std::mem::take(&mut self.end);
                    self.fields.push(Step { before, position: column.position, time: column.time });
                }
                Member::Object(inner) => {
                    self.end.push(b'{');
                    self.add_members(inner);
                    self.end.push(b'}');
                }
            }
        }
    }

    /// Appends the rows.
    pub(super) fn write(&self, batch: &Batch, printer: &mut Printer, out: &mut Vec<u8>) {
        let given = Given::of(batch, &self.columns);
        let columns: Vec<(&Step, &Column)> =
            self.fields.iter().map(|field| (field, &batch.columns[field.position])).collect();
        for row in 0..batch.len() {
            for &(field, column) in &columns {
                out.extend_from_slice(&field.before);
                match given.get(row, field.position) {
                    Some(text) => out.extend_from_slice(text.as_bytes()),
                    None => printer.push_json(column, row, field.time, out),
                }
            }
            out.extend_from_slice(&self.end);
            if batch.change(row) == Change::Retract {
                let comma: &[u8] = if self.fields.is_empty() { b"" } else { b"," };
                out.extend_from_slice(comma);
                out.extend_from_slice(b"\"change\":\"retract\"");
            }
            out.extend_from_slice(b"}\n");
        }
    }
}

impl<'a> Object<'a> {
    /// False where one path is the beginning of another.
    fn insert(&mut self, column: &'a Chosen, path: &'a [String]) -> bool {
        let (name, rest) = path.split_first().expect("a column has a name");
        let at = self.members.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            self.members.push((name, Member::Object(Object::default())));
            self.members.len() - 1
        });
        match &mut self.members[at].1 {
            Member::Object(inner) if !rest.is_empty() => inner.insert(column, rest),
            Member::Object(inner) if inner.members.is_empty() => {
                self.members[at].1 = Member::Value(column);
                true
            }
            _ => false,
        }
    }
}
