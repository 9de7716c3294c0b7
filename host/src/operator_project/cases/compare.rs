//! What came out against what was expected, as lines that say where they part.

use super::case::{Dead, Expect};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What came out of a case.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Rows by output; the main output is `main`.
    pub(super) outputs: BTreeMap<String, Vec<Json>>,
    /// Reasons of dead letters.
    pub(super) dead: Vec<String>,
    /// The values asked for by `expect.state`, in its order.
    pub(super) states: Vec<Json>,
}

/// Each difference; none: as expected.
pub(super) fn differences(expect: &Expect, outcome: &Outcome) -> Vec<String> {
    let mut lines = vec![];
    let nothing = vec![];
    let names = expect.outputs.keys().chain(outcome.outputs.keys().filter(|name| !expect.outputs.contains_key(*name)));
    for name in names {
        let expected = expect.outputs.get(name).unwrap_or(&nothing);
        rows(name, expected, outcome.outputs.get(name).unwrap_or(&nothing), &mut lines);
    }
    match &expect.dead {
        Dead::Count(count) if *count == outcome.dead.len() => {}
        Dead::Count(count) => {
            lines.push(format!("dead: expected {count} dead letters, got {}", outcome.dead.len()));
            lines.extend(outcome.dead.iter().map(|reason| format!("  {reason}")));
        }
        Dead::Reasons(reasons) => {
            for index in 0..reasons.len().max(outcome.dead.len()) {
                let (expected, got) = (reasons.get(index), outcome.dead.get(index));
                if !matches!((expected, got), (Some(expected), Some(got)) if got.contains(expected)) {
                    let show = |text: Option<&String>| text.map_or_else(|| "nothing".into(), Clone::clone);
                    lines.push(format!("dead {}: expected {}", index + 1, show(expected)));
                    lines.push(format!("dead {}: got      {}", index + 1, show(got)));
                }
            }
        }
    }
    for (expected, got) in expect.state.iter().zip(&outcome.states) {
        if !same(&expected.value, got) {
            lines.push(format!("state {} of {}: expected {}", expected.state, expected.key, expected.value));
            lines.push(format!("state {} of {}: got      {got}", expected.state, expected.key));
        }
    }
    lines
}

fn rows(name: &str, expected: &[Json], got: &[Json], lines: &mut Vec<String>) {
    for index in 0..expected.len().max(got.len()) {
        match (expected.get(index), got.get(index)) {
            (Some(expected), Some(got)) if same(expected, got) => {}
            (expected, got) => {
                let show = |row: Option<&Json>| row.map_or_else(|| "nothing".into(), Json::to_string);
                lines.push(format!("{name}, row {}: expected {}", index + 1, show(expected)));
                lines.push(format!("{name}, row {}: got      {}", index + 1, show(got)));
            }
        }
    }
}

/// Equal, where 2 and 2.0 are the same number.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || (a.as_f64() == b.as_f64() && a.is_f64() != b.is_f64()),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_difference_says_where_it_is() {
        let expect: Expect = serde_json::from_value(json!({
            "main": [{"n": 1}, {"n": 2}], "dead": ["too big"], "state": [{"state": "total", "key": "x", "value": 3}]
        }))
        .unwrap();
        let outcome = Outcome {
            outputs: [("main".into(), vec![json!({"n": 1.0})]), ("late".into(), vec![json!(5)])].into(),
            dead: vec!["it is too small".into()],
            states: vec![json!(4)],
        };
        let expected = [
            "main, row 2: expected {\"n\":2}",
            "main, row 2: got      nothing",
            "late, row 1: expected nothing",
            "late, row 1: got      5",
            "dead 1: expected too big",
            "dead 1: got      it is too small",
            "state total of \"x\": expected 3",
            "state total of \"x\": got      4",
        ];
        assert_eq!(differences(&expect, &outcome), expected);
    }

    #[test]
    fn what_is_as_expected_has_no_difference() {
        let expect: Expect = serde_json::from_value(json!({"main": [[1, "a"]], "dead": 1})).unwrap();
        let outcome = Outcome {
            outputs: [("main".into(), vec![json!([1.0, "a"])])].into(),
            dead: vec!["anything".into()],
            states: vec![],
        };
        assert_eq!(differences(&expect, &outcome), Vec::<String>::new());
    }
}
