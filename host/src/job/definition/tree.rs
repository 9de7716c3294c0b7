//! A YAML file as a tree in which every value knows its place. References to secrets (`${env:NAME}`, `${file:path}`) are
//! replaced here; what was written stays beside the value, and only that may be shown.

use super::Place;
use super::problem::Problem;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A YAML value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Int(i64),
    Float(f64),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A string: what it stands for, and what may be shown of it.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) value: String,
    pub(super) written: String,
}

/// A key of a map.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) place: Place,
}

/// Looks up what references name: the process's environment and files, or what a test hands in.
pub trait References {
    /// The value of an environment variable.
    fn environment(&self, name: &str) -> Option<String>;

    /// The content of a file, without the line end at its end.
    ///
    /// # Errors
    /// It cannot be read.
    fn file(&self, path: &str) -> std::io::Result<String>;
}

/// Parses a file.
///
/// # Errors
/// It is not YAML, with the place where it stops being so.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.without_snippet().to_string();
        let message = message.split(" at line ").next().unwrap_or_default().trim_start_matches("error: ").to_string();
        let place = error.location().map(|location| place(&location));
        let message = message.lines().next().unwrap_or_default();
        let message = match message.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(',').next()) {
            Some(key) => format!("the key `{key}` stands twice"),
            None => format!("the file is not YAML: {message}"),
        };
        Problem { place, message, hint: None }
    })
}

/// Replaces the references in every string below `node`.
pub(super) fn resolve(node: &mut Node, references: &dyn References, problems: &mut Vec<Problem>) {
    match &mut node.value {
        Value::Text(text) => match resolve_text(&text.written, references) {
            Ok(value) => text.value = value,
            Err(message) => problems.push(Problem::at(node.place, message)),
        },
        Value::List(nodes) => nodes.iter_mut().for_each(|node| resolve(node, references, problems)),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, node)| resolve(node, references, problems)),
        _ => {}
    }
}

fn resolve_text(written: &str, references: &dyn References) -> Result<String, String> {
    let mut value = String::new();
    let mut rest = written;
    while let Some(start) = rest.find("${") {
        if let Some(before) = rest[..start].strip_suffix('$') {
            value.push_str(before);
            value.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        value.push_str(&rest[..start]);
        let end = rest[start..].find('}').ok_or("a reference starts with `${` and must end with `}`")? + start;
        let reference = &rest[start + 2..end];
        match reference.split_once(':') {
            Some(("env", name)) => value.push_str(
                &references.environment(name).ok_or_else(|| format!("the environment variable `{name}` is not set"))?,
            ),
            Some(("file", path)) => value.push_str(
                &references
                    .file(path)
                    .map_err(|error| format!("the file `{path}` cannot be read: {}", error.kind()))?,
            ),
            _ => return Err(format!("`${{{reference}}}` is no reference: use `${{env:NAME}}` or `${{file:path}}`")),
        }
        rest = &rest[end + 1..];
    }
    value.push_str(rest);
    Ok(value)
}

impl Node {
    /// A string that stands nowhere: a default from the table of keys.
    pub(super) fn written(text: &str) -> Self {
        let text = Text { value: text.to_string(), written: text.to_string() };
        Self { place: Place::default(), value: Value::Text(text) }
    }

    /// What it is, for errors: never a secret.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Boolean(value) => format!("`{value}`"),
            Value::Int(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(text) => format!("`{}`", text.written),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }

    /// The same as JSON, for a guest's configuration.
    pub(super) fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Boolean(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.value.clone().into(),
            Value::List(nodes) => nodes.iter().map(Self::json).collect(),
            Value::Map(entries) => entries.iter().map(|(key, node)| (key.name.clone(), node.json())).collect(),
        }
    }
}

fn place(location: &serde_saphyr::Location) -> Place {
    Place { line: location.line() as u32, column: location.column() as u32 }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { place: place(&spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(Text { value: value.to_string(), written: value.to_string() }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut nodes = vec![];
        while let Some(node) = seq.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = vec![];
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            entries.push((Key { place: place(&key.referenced), name: key.value }, map.next_value()?));
        }
        Ok(Value::Map(entries))
    }
}
