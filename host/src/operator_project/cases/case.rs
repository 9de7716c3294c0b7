//! The file of cases, as a person writes it: YAML or JSON, a list of cases.

use crate::job::definition::units::{duration_ms, time_ms};
use anyhow::{Context, anyhow, ensure};
use dataflow::time::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows, as a sentence.
    pub case: String,
    /// The operator's configuration; an empty map if left out.
    pub config: Option<Value>,
    /// Fields taken from elsewhere than the component says, by its names.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Of an aggregator: the length of its windows, ms.
    #[serde(default, rename = "window", deserialize_with = "span")]
    pub window_ms: Option<i64>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// What must have come out at the end.
    pub expect: Expect,
}

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Step {
    /// The word `end`: the input ends, and event time with it.
    End,
    /// A record comes.
    Record(Record),
    /// The watermark moves.
    Watermark(Watermark),
    /// The clock moves.
    Clock(Clock),
}

impl<'de> Deserialize<'de> for Step {
    /// By the key that says what it is, so that an error tells what is wrong with such a step.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let step = Value::deserialize(deserializer)?;
        let has = |key: &str| step.get(key).is_some();
        if step == "end" {
            return Ok(Self::End);
        }
        let read = if has("record") {
            Record::deserialize(&step).map(Self::Record)
        } else if has("watermark") {
            Watermark::deserialize(&step).map(Self::Watermark)
        } else if has("clock") {
            Clock::deserialize(&step).map(Self::Clock)
        } else {
            Err(serde::de::Error::custom(
                "a step is `end`, or it has `record` (with `time`, `key`, `input`), `watermark` or `clock`",
            ))
        };
        read.map_err(|error| serde::de::Error::custom(format!("the step {step}: {error}")))
    }
}

/// A record that comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its value: JSON, or text that stands for itself.
    pub record: Value,
    /// Its key: one part, or a list of parts; none: not keyed.
    pub key: Option<Value>,
    /// Its event time.
    #[serde(deserialize_with = "time")]
    pub time: Timestamp,
    /// The input it comes from, by the component's name; none: the first.
    pub input: Option<String>,
}

/// The watermark moves.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watermark {
    /// To here.
    #[serde(deserialize_with = "time")]
    pub watermark: Timestamp,
}

/// The clock moves.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// To here.
    #[serde(deserialize_with = "time")]
    pub clock: Timestamp,
}

/// What must have come out. Outputs that are not named must be empty.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Expect {
    /// Values of states at the end.
    #[serde(default)]
    pub state: Vec<ExpectedState>,
    /// Dead letters: how many, or a part of each one's reason, in order.
    #[serde(default)]
    pub dead: Dead,
    /// Rows by output, in order; the main output is `main`.
    #[serde(flatten)]
    pub outputs: BTreeMap<String, Vec<Value>>,
}

/// The value of a state for a key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedState {
    /// The state's name.
    pub state: String,
    /// The key: one part, or a list of parts.
    pub key: Value,
    /// Its value; null: there is none.
    pub value: Value,
}

/// Dead letters that are expected.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Dead {
    /// So many.
    Count(usize),
    /// With these words in their reasons.
    Reasons(Vec<String>),
}

impl Default for Dead {
    fn default() -> Self {
        Self::Count(0)
    }
}

/// Reads the file of cases at `path`.
///
/// # Errors
/// It cannot be read, or is no list of cases: where, and why.
pub fn read(path: &Path) -> anyhow::Result<Vec<Case>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("opening the cases {}", path.display()))?;
    let cases: Option<Vec<Case>> = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow!("{error}").context(format!("the cases {} are wrong", path.display())))?;
    let cases = cases.unwrap_or_default();
    ensure!(!cases.is_empty(), "there is no case in {}", path.display());
    Ok(cases)
}

/// A duration with its unit.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    duration_ms(&String::deserialize(deserializer)?).map(Some).map_err(serde::de::Error::custom)
}

/// RFC 3339, or milliseconds since 1970 UTC.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => time_ms(&text).map_err(serde::de::Error::custom),
        Value::Number(number) if number.is_i64() => Ok(number.as_i64().unwrap_or_default()),
        other => Err(serde::de::Error::custom(format!("`{other}` is no time: write RFC 3339, or ms since 1970 UTC"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(text: &str) -> anyhow::Result<Vec<Case>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn a_file_of_cases_says_what_happens_in_order() {
        let cases = cases(
            "- case: one\n  config: { limit: 3 }\n  window: 1m\n  steps:\n    - { record: { a: 1 }, key: [x, 2], time: 1970-01-01T00:00:01Z }\n    \
             - { watermark: 5 }\n    - { clock: 6 }\n    - end\n  expect:\n    main: [{ b: 2 }]\n    dead: [too big]\n    \
             state: [{ state: total, key: x, value: 3 }]\n",
        )
        .unwrap();
        let case = &cases[0];
        let Step::Record(record) = &case.steps[0] else { panic!("{case:?}") };
        assert_eq!((record.time, &record.record), (1_000, &serde_json::json!({"a": 1})));
        assert!(matches!(case.steps[1], Step::Watermark(Watermark { watermark: 5 })));
        assert!(matches!(case.steps[2], Step::Clock(Clock { clock: 6 })));
        assert!(matches!(case.steps[3], Step::End));
        assert_eq!(case.expect.outputs["main"], [serde_json::json!({"b": 2})]);
        assert!(matches!(&case.expect.dead, Dead::Reasons(reasons) if reasons == &["too big"]));
        assert_eq!(case.expect.state[0].value, serde_json::json!(3));
        assert_eq!(case.window_ms, Some(60_000));
    }

    #[test]
    fn a_key_that_a_case_does_not_have_is_refused() {
        let error = cases("- case: one\n  stepps: []\n  expect: {}\n").unwrap_err();
        assert!(format!("{error:#}").contains("stepps"), "{error:#}");
        let refused = |step: &str| {
            format!("{:#}", cases(&format!("- case: one\n  steps: [{step}]\n  expect: {{}}\n")).unwrap_err())
        };
        for (step, told) in [
            ("{ recrod: 1, time: 5 }", "a step is `end`, or it has `record`"),
            ("{ record: 1, time: yesterday }", "yesterday"),
            ("{ record: 1, time: 5, kye: x }", "unknown field `kye`"),
            ("{ watermark: 5, time: 5 }", "unknown field `time`"),
        ] {
            assert!(refused(step).contains(told), "{}", refused(step));
        }
        assert!(format!("{:#}", cases("[]").unwrap_err()).contains("there is no case in"));
    }

    #[test]
    fn the_cases_of_a_new_project_can_be_read() {
        let files = crate::operator_project::files("visits");
        let (_, text) = files.iter().find(|(path, _)| path == "cases/visits.yaml").unwrap();
        assert_eq!(cases(text).unwrap().len(), 3);
    }
}
