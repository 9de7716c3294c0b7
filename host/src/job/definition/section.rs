//! Reads one map of the job file: hands out typed values by key, takes defaults from the table of keys, and notes every
//! problem instead of stopping at the first. What a faulty value is replaced by only keeps the reading going: a file with
//! problems never runs.

use super::keys::{self, Group, Key};
use super::problem::{Problem, did_you_mean};
use super::tree::{Node, Value};
use super::{Place, Pointer, Reference, units};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What all sections of one file share.
pub(super) struct Reader<'a> {
    /// Relative paths start here.
    pub(super) folder: &'a Path,
    pub(super) problems: RefCell<Vec<Problem>>,
}

impl Reader<'_> {
    pub(super) fn problem(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }
}

/// One map, and the groups of keys it may have.
pub(super) struct Section<'a> {
    pub(super) reader: &'a Reader<'a>,
    pub(super) place: Place,
    path: String,
    entries: &'a [(super::tree::Key, Node)],
    groups: Vec<&'static Group>,
}

impl<'a> Section<'a> {
    /// `path` names it in errors, e.g. `sources.rides`.
    pub(super) fn new(reader: &'a Reader<'a>, path: String, node: &'a Node, groups: &[&'static Group]) -> Self {
        let entries: &[_] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            _ => {
                reader.problem(Problem::at(node.place, format!("`{path}` must be a map, not {}", node.shown())));
                &[]
            }
        };
        Self { reader, place: node.place, path, entries, groups: groups.to_vec() }
    }

    /// A group more, once its connector is known.
    pub(super) fn also(&mut self, group: &'static Group) {
        self.groups.push(group);
    }

    /// Notes every key that none of the groups has. `elsewhere`: groups of other connectors, to say where a key would fit.
    pub(super) fn refuse_unknown(&self, elsewhere: &[&'static Group]) {
        let known = || self.groups.iter().flat_map(|group| group.keys).map(|key| key.name);
        for (key, _) in self.entries.iter().filter(|(key, _)| !known().any(|name| name == key.name)) {
            let fits = elsewhere.iter().find(|group| group.keys.iter().any(|known| known.name == key.name));
            let problem = match fits {
                Some(group) => Problem::at(key.place, format!("the key `{}` does not fit `{}`", key.name, self.path))
                    .hint(format!("it belongs to {}", lower_first(group.title))),
                None => Problem::at(key.place, format!("unknown key `{}` in `{}`", key.name, self.path)).hint(
                    did_you_mean(&key.name, known())
                        .unwrap_or_else(|| format!("known keys: {}", known().collect::<Vec<_>>().join(", "))),
                ),
            };
            self.reader.problem(problem);
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key.name == name)
    }

    /// The value as written; none if it is not there.
    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    /// Where the key's value stands, else the section's own place.
    pub(super) fn place_of(&self, name: &str) -> Place {
        self.node(name).map_or(self.place, |node| node.place)
    }

    /// The map under `name`, empty if it is not there.
    pub(super) fn section(&self, name: &str, group: &'static Group) -> Section<'a> {
        let path = if self.path == "the job file" { name.to_string() } else { format!("{}.{name}", self.path) };
        let section = match self.node(name) {
            Some(node) => Section::new(self.reader, path, node, &[group]),
            None => Section { reader: self.reader, place: self.place, path, entries: &[], groups: vec![group] },
        };
        section.refuse_unknown(&[]);
        section
    }

    /// The entries of the map under `name`, each with its name, which is checked.
    pub(super) fn named(&self, name: &str) -> Vec<(&'a super::tree::Key, &'a Node)> {
        let Some(node) = self.node(name) else {
            self.missing(name);
            return vec![];
        };
        let Value::Map(entries) = &node.value else {
            self.reader.problem(Problem::at(
                node.place,
                format!("`{name}` must be a map from names to nodes, not {}", node.shown()),
            ));
            return vec![];
        };
        entries.iter().map(|(key, node)| (key, node)).collect()
    }

    fn key(&self, name: &str) -> &'static Key {
        let mut keys = self.groups.iter().flat_map(|group| group.keys);
        keys.find(|key| key.name == name).expect("the table of keys has every key that is read")
    }

    fn missing(&self, name: &str) {
        let key = self.key(name);
        if matches!(key.without, keys::WithoutIt::Required) {
            let message = format!("`{}` needs the key `{name}` ({})", self.path, key.takes);
            self.reader.problem(Problem::at(self.place, message).hint(lower_first(key.says)));
        }
    }

    /// The parsed value; without one the parsed default, or none. None also for a faulty value, which is noted.
    pub(super) fn optional<T>(&self, name: &str, parse: impl Fn(&Node) -> Result<T, String>) -> Option<T> {
        if let Some(node) = self.node(name).filter(|node| !matches!(node.value, Value::Null)) {
            return match parse(node) {
                Ok(value) => Some(value),
                Err(message) => {
                    let written = node.shown();
                    let message = format!("`{name}: {}`: {message}", written.trim_matches('`'));
                    self.reader.problem(Problem::at(node.place, message));
                    None
                }
            };
        }
        self.missing(name);
        match self.key(name).without {
            keys::WithoutIt::Is(default) => {
                Some(parse(&Node::written(default)).expect("the defaults in the table of keys are right"))
            }
            _ => None,
        }
    }

    /// As `optional`, for a key that is required or has a default.
    fn value<T>(&self, name: &str, fallback: T, parse: impl Fn(&Node) -> Result<T, String>) -> T {
        self.optional(name, parse).unwrap_or(fallback)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.value(name, String::new(), text)
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        self.value(name, false, |node| match &node.value {
            Value::Boolean(value) => Ok(*value),
            Value::Text(text) if text.value == "true" || text.value == "false" => Ok(text.value == "true"),
            _ => Err("`true` or `false` is expected".into()),
        })
    }

    pub(super) fn number(&self, name: &str, range: std::ops::RangeInclusive<u64>) -> u64 {
        self.value(name, *range.start(), |node| number(node, &range))
    }

    pub(super) fn optional_number(&self, name: &str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        self.optional(name, |node| number(node, &range))
    }

    pub(super) fn float(&self, name: &str, range: std::ops::RangeInclusive<f64>) -> f64 {
        self.value(name, 0.0, |node| {
            let value = match &node.value {
                Value::Int(value) => Some(*value as f64),
                Value::Float(value) => Some(*value),
                Value::Text(text) => text.value.parse().ok(),
                _ => None,
            };
            let value = value.filter(|value| range.contains(value));
            value.ok_or_else(|| format!("a number from {} to {} is expected", range.start(), range.end()))
        })
    }

    /// A duration that is not negative, ms.
    pub(super) fn span_ms(&self, name: &str) -> i64 {
        self.value(name, 0, span_ms)
    }

    pub(super) fn optional_span_ms(&self, name: &str) -> Option<i64> {
        self.optional(name, span_ms)
    }

    /// A duration that may be negative, ms.
    pub(super) fn signed_span_ms(&self, name: &str) -> i64 {
        self.value(name, 0, |node| units::duration_ms(&scalar(node)?))
    }

    /// A duration above zero.
    pub(super) fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(self.value(name, 1, positive_ms).unsigned_abs())
    }

    pub(super) fn size(&self, name: &str) -> u64 {
        self.value(name, 0, size)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.value(name, PathBuf::new(), |node| Ok(self.reader.folder.join(text(node)?)))
    }

    pub(super) fn optional_path(&self, name: &str) -> Option<PathBuf> {
        self.optional(name, |node| Ok(self.reader.folder.join(text(node)?)))
    }

    /// One of several words; the first stands in where the value is faulty.
    pub(super) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> T {
        self.optional_choice(name, choices).unwrap_or(choices[0].1)
    }

    pub(super) fn optional_choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.optional(name, |node| {
            let word = text(node)?;
            let found = choices.iter().find(|(choice, _)| *choice == word).map(|(_, value)| *value);
            found.ok_or_else(|| format!("{} is expected", one_of(choices.iter().map(|(choice, _)| *choice))))
        })
    }

    pub(super) fn pointer(&self, name: &str) -> Pointer {
        self.value(name, String::new(), pointer)
    }

    /// A pointer or a list of them.
    pub(super) fn pointers(&self, name: &str) -> Vec<Pointer> {
        self.optional(name, |node| one_or_more(node, pointer)).unwrap_or_default()
    }

    /// Names of columns, with or without the slash; the empty one is the whole value.
    pub(super) fn columns(&self, name: &str) -> Vec<Pointer> {
        let column = |node: &Node| {
            let name = text(node)?;
            Ok(if name.is_empty() || name.starts_with('/') { name } else { format!("/{name}") })
        };
        self.optional(name, |node| one_or_more(node, column)).unwrap_or_default()
    }

    pub(super) fn reference(&self, name: &str) -> Reference {
        let nowhere = Reference { node: String::new(), output: None, place: self.place };
        self.value(name, nowhere, reference)
    }
}

/// `a`, `b` or `c`.
pub(super) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.as_slice() {
        [] => "nothing".into(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// The string a plain value was written as.
fn scalar(node: &Node) -> Result<String, String> {
    match &node.value {
        Value::Text(text) => Ok(text.value.clone()),
        Value::Int(value) => Ok(value.to_string()),
        Value::Float(value) => Ok(value.to_string()),
        _ => Err("one value is expected".into()),
    }
}

pub(super) fn text(node: &Node) -> Result<String, String> {
    match &node.value {
        Value::Text(text) => Ok(text.value.clone()),
        Value::Int(_) | Value::Float(_) | Value::Boolean(_) => Err("text is expected: put it in quotes".into()),
        _ => Err("text is expected".into()),
    }
}

fn number(node: &Node, range: &std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let number = scalar(node).ok().and_then(|text| text.parse().ok()).filter(|number| range.contains(number));
    number.ok_or_else(|| match *range.end() {
        u64::MAX => format!("a whole number, at least {}, is expected", range.start()),
        end => format!("a whole number from {} to {end} is expected", range.start()),
    })
}

fn span_ms(node: &Node) -> Result<i64, String> {
    match units::duration_ms(&scalar(node)?)? {
        ms if ms < 0 => Err("a duration here cannot be negative".into()),
        ms => Ok(ms),
    }
}

pub(super) fn positive_ms(node: &Node) -> Result<i64, String> {
    match span_ms(node)? {
        0 => Err("a duration above zero is expected".into()),
        ms => Ok(ms),
    }
}

fn size(node: &Node) -> Result<u64, String> {
    units::size_bytes(&scalar(node)?)
}

pub(super) fn pointer(node: &Node) -> Result<Pointer, String> {
    let pointer = text(node)?;
    if pointer.is_empty() || pointer.starts_with('/') {
        Ok(pointer)
    } else {
        Err(format!("a field is addressed by a pointer: `/{}`", pointer.replace('.', "/")))
    }
}

pub(super) fn one_or_more<T>(node: &Node, parse: impl Fn(&Node) -> Result<T, String>) -> Result<Vec<T>, String> {
    match &node.value {
        Value::List(nodes) => nodes.iter().map(parse).collect(),
        _ => Ok(vec![parse(node)?]),
    }
}

pub(super) fn reference(node: &Node) -> Result<Reference, String> {
    let written = text(node)?;
    let (name, output) = match written.split_once('.') {
        Some((name, output)) => (name, Some(output.to_string())),
        None => (written.as_str(), None),
    };
    Ok(Reference { node: name.to_string(), output, place: node.place })
}
