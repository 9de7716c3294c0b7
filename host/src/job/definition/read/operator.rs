//! Reads an operator of the job file.

use super::super::keys;
use super::super::problem::Problem;
use super::super::section::{Reader, Section, one_of, pointer, reference, text};
use super::super::tree::{Key, Node, Value};
use super::super::{
    Aggregate, AggregateFunction, BuiltIn, Component, Guest, Input, Limits, Logic, OnError, Operator, Pointer, Window,
    WindowKind,
};
use dataflow::record::ValueType;
use std::collections::BTreeMap;

const FUNCTIONS: [(&str, BuiltIn); 5] = [
    ("count", BuiltIn::Count),
    ("sum", BuiltIn::Sum),
    ("min", BuiltIn::Min),
    ("max", BuiltIn::Max),
    ("mean", BuiltIn::Mean),
];

pub(super) fn operator(reader: &Reader<'_>, key: &Key, node: &Node) -> Operator {
    let mut section = Section::new(reader, format!("operators.{}", key.name), node, &[&keys::OPERATOR]);
    let logic = if section.has("component") {
        section.also(&keys::COMPONENT);
        section.also(&keys::PROCESSOR);
        section.refuse_unknown(&[&keys::WINDOW_OPERATOR]);
        let keep_forever = section.optional_choice("keep", &[("forever", true)]).unwrap_or(false);
        Logic::Guest(Guest { keep_forever, ..guest(&section) })
    } else {
        section.also(&keys::WINDOW_OPERATOR);
        if section.has("window") || section.has("aggregate") {
            section.refuse_unknown(&[&keys::COMPONENT, &keys::PROCESSOR]);
            Logic::Window(window(&section))
        } else {
            let problem = Problem::at(key.place, format!("the operator `{}` does nothing", key.name));
            reader.problem(problem.hint("give it a `window` with an `aggregate`, or a `component`"));
            section.also(&keys::COMPONENT);
            section.refuse_unknown(&[]);
            Logic::Window(Window {
                kind: WindowKind::Tumbling { size_ms: 1, offset_ms: 0 },
                allowed_lateness_ms: 0,
                aggregates: vec![],
            })
        }
    };
    Operator {
        name: key.name.clone(),
        place: key.place,
        inputs: inputs(&section, key),
        logic,
        parallelism: section.optional_number("parallelism", 1..=1024).map(|number| number as usize),
    }
}

fn inputs(section: &Section<'_>, name: &Key) -> Vec<Input> {
    let key = section.pointers("key");
    let several = section.node("inputs");
    match (section.node("input"), several) {
        (Some(_), None) => {
            let from = section.optional("input", reference);
            from.into_iter().map(|from| Input { name: None, from, key: key.clone(), broadcast: false }).collect()
        }
        (None, Some(Node { value: Value::Map(entries), .. })) => {
            entries.iter().map(|(name, node)| named_input(section, name, node, &key)).collect()
        }
        (None, Some(Node { value: Value::List(nodes), .. })) if !nodes.is_empty() => {
            let references = section.optional("inputs", |node| super::super::section::one_or_more(node, reference));
            let input = |from| Input { name: None, from, key: key.clone(), broadcast: false };
            references.unwrap_or_default().into_iter().map(input).collect()
        }
        (given, several) => {
            let message = match (given, several) {
                (None, None) => format!("the operator `{}` reads nothing", name.name),
                (None, Some(_)) => "`inputs` must be a list of references, or a map of names to inputs".to_string(),
                _ => format!("the operator `{}` has both `input` and `inputs`", name.name),
            };
            let place = several.map_or(name.place, |node| node.place);
            section.reader.problem(Problem::at(place, message).hint("give it an `input`, or several `inputs`"));
            vec![]
        }
    }
}

fn named_input(section: &Section<'_>, name: &Key, node: &Node, key: &[Pointer]) -> Input {
    if let Value::Text(_) = node.value {
        let from = reference(node).expect("text is a reference");
        return Input { name: Some(name.name.clone()), from, key: key.to_vec(), broadcast: false };
    }
    let entry = Section::new(section.reader, format!("inputs.{}", name.name), node, &[&keys::INPUT]);
    entry.refuse_unknown(&[]);
    let own = entry.pointers("key");
    let broadcast = entry.boolean("broadcast");
    if broadcast && entry.has("key") {
        let message = format!("the input `{}` has a key, and is broadcast: every task gets every record", name.name);
        section.reader.problem(Problem::at(entry.place_of("key"), message).hint("leave out one of the two"));
    }
    Input {
        name: Some(name.name.clone()),
        from: entry.reference("from"),
        key: match (broadcast, entry.has("key")) {
            (true, _) => vec![],
            (false, true) => own,
            (false, false) => key.to_vec(),
        },
        broadcast,
    }
}

fn window(section: &Section<'_>) -> Window {
    let aggregates = section.named("aggregate");
    if aggregates.is_empty() && section.has("aggregate") {
        let problem = Problem::at(section.place_of("aggregate"), "the window computes nothing");
        section.reader.problem(problem.hint("e.g. `aggregate: { count: {} }`"));
    }
    let aggregates = aggregates.into_iter().map(|(key, node)| aggregate(section.reader, key, node)).collect();
    if section.node("window").is_none() {
        let problem = Problem::at(section.place, "aggregates need a `window`");
        section.reader.problem(problem.hint("e.g. `window: { tumbling: 1m }`"));
        return Window { kind: WindowKind::Tumbling { size_ms: 1, offset_ms: 0 }, allowed_lateness_ms: 0, aggregates };
    }
    let section = section.section("window", &keys::WINDOW);
    Window {
        kind: WindowKind::Tumbling {
            size_ms: section.optional("tumbling", super::super::section::positive_ms).unwrap_or(1),
            offset_ms: section.signed_span_ms("offset"),
        },
        allowed_lateness_ms: section.span_ms("allowed_lateness"),
        aggregates,
    }
}

fn aggregate(reader: &Reader<'_>, key: &Key, node: &Node) -> Aggregate {
    let function = match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            let mut section = Section::new(reader, format!("aggregate.{}", key.name), node, &[]);
            if section.has("component") {
                section.also(&keys::COMPONENT);
                section.refuse_unknown(&[&keys::AGGREGATE]);
                Some(AggregateFunction::Guest(guest(&section)))
            } else {
                section.also(&keys::AGGREGATE);
                section.refuse_unknown(&[&keys::COMPONENT]);
                built_in(&section, key)
            }
        }
        _ => short_built_in(reader, key, node),
    };
    let fallback = AggregateFunction::BuiltIn { function: BuiltIn::Count, field: None, value_type: None };
    Aggregate { name: key.name.clone(), place: key.place, function: function.unwrap_or(fallback) }
}

/// `count: {}`, `sum: /fare`: the name is the function.
fn short_built_in(reader: &Reader<'_>, key: &Key, node: &Node) -> Option<AggregateFunction> {
    let Some(&(_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == key.name) else {
        let message = format!("`{}` is no aggregate function", key.name);
        let functions = one_of(FUNCTIONS.map(|(name, _)| name));
        let hint = format!("name one of {functions}: `{}: {{ sum: /fare }}`", key.name);
        reader.problem(Problem::at(key.place, message).hint(hint));
        return None;
    };
    let field = match &node.value {
        Value::Null => None,
        Value::Map(entries) if entries.is_empty() => None,
        _ => match pointer(node) {
            Ok(field) => Some(field),
            Err(message) => {
                reader.problem(Problem::at(node.place, format!("the field of `{}`: {message}", key.name)));
                return None;
            }
        },
    };
    needs_field(reader, key, function, field, None)
}

/// `total: { sum: /fare, type: int }`.
fn built_in(section: &Section<'_>, key: &Key) -> Option<AggregateFunction> {
    let named: Vec<_> = FUNCTIONS.into_iter().filter(|(name, _)| section.has(name)).collect();
    let &[(name, function)] = named.as_slice() else {
        let message = match named.len() {
            0 => format!("the aggregate `{}` names no function", key.name),
            _ => format!("the aggregate `{}` names more than one function", key.name),
        };
        let hint = format!("give it one of {}, or a `component`", one_of(FUNCTIONS.map(|(name, _)| name)));
        section.reader.problem(Problem::at(key.place, message).hint(hint));
        return None;
    };
    let empty = section.node(name).is_some_and(|node| matches!(&node.value, Value::Map(entries) if entries.is_empty()));
    let field = if empty { None } else { section.optional(name, pointer) };
    let types = [("int", ValueType::Int), ("float", ValueType::Float), ("text", ValueType::Text)];
    let value_type = section.optional_choice("type", &types);
    if value_type == Some(ValueType::Text) && matches!(function, BuiltIn::Sum | BuiltIn::Mean) {
        let problem = Problem::at(section.place_of("type"), format!("the {name} of text is not defined"));
        section.reader.problem(problem.hint("use `type: int` or `type: float`"));
    }
    needs_field(section.reader, key, function, field, value_type)
}

fn needs_field(
    reader: &Reader<'_>,
    key: &Key,
    function: BuiltIn,
    field: Option<Pointer>,
    value_type: Option<ValueType>,
) -> Option<AggregateFunction> {
    if field.is_none() && function != BuiltIn::Count {
        let problem = Problem::at(key.place, format!("the aggregate `{}` needs a field", key.name));
        reader.problem(problem.hint("e.g. `sum: /fare`"));
        return None;
    }
    Some(AggregateFunction::BuiltIn { function, field, value_type })
}

fn guest(section: &Section<'_>) -> Guest {
    let path = section.path("component");
    let wasm = path.extension().is_some_and(|extension| extension == "wasm");
    let errors = [("dead_letter", OnError::DeadLetter), ("skip", OnError::Skip), ("fail", OnError::Fail)];
    Guest {
        component: if wasm { Component::File(path) } else { Component::Project(path) },
        place: section.place_of("component"),
        config: section.node("config").map_or_else(|| serde_json::json!({}), Node::json),
        fields: section.optional("fields", fields).unwrap_or_default(),
        on_error: section.choice("on_error", &errors),
        limits: limits(&section.section("limits", &keys::LIMITS)),
        keep_forever: false,
    }
}

fn fields(node: &Node) -> Result<BTreeMap<String, Pointer>, String> {
    let Value::Map(entries) = &node.value else {
        return Err("a map from the component's names to pointers is expected".into());
    };
    let field = |(key, node): &(Key, Node)| {
        text(node)?;
        Ok((key.name.clone(), pointer(node)?))
    };
    entries.iter().map(field).collect()
}

fn limits(section: &Section<'_>) -> Limits {
    Limits {
        memory: section.size("memory"),
        time: section.duration("time"),
        output_records: section.number("output_records", 1..=u64::MAX),
        output_bytes: section.size("output_bytes"),
    }
}
