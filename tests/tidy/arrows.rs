//! Which folder of the host may name which (the arrows of ARCHITECTURE.md), the home of each library, and what only
//! `env.rs` may touch. The compiler guards the arrow from `host/dataflow`; these are the others.

use crate::tree::File;
use crate::{Finding, code};

/// A library and the only places that may name it.
const HOMES: [(&str, &[&str]); 16] = [
    ("wasmtime", &["host/src/engine/"]),
    ("wit_component", &["host/src/engine/", "host/src/operator_project/", "tests/src/guests.rs"]),
    ("wit_parser", &["host/src/engine/", "tests/src/guests.rs"]),
    ("rusqlite", &["host/src/sink/sqlite", "tests/"]),
    ("csv_core", &["host/src/source/"]),
    ("flate2", &["host/src/source/"]),
    ("zstd", &["host/src/source/"]),
    ("serde_saphyr", &["host/src/job/", "host/src/operator_project/cases/"]),
    ("clap", &["host/src/main.rs", "host/src/commands/"]),
    ("rdkafka", &["host/src/source/kafka", "host/src/sink/kafka"]),
    ("rocksdb", &["host/src/state/rocksdb"]),
    ("axum", &["host/src/http/"]),
    ("tokio", &["host/src/http/", "host/src/checkpoint/"]),
    ("object_store", &["host/src/checkpoint/"]),
    ("reqwest", &["host/src/checkpoint/"]),
    ("rustls", &["host/src/http/", "host/src/checkpoint/"]),
];

/// What starts jobs and builds operators; the data path knows nothing of it.
const CONTROL: [&str; 3] = ["job", "commands", "operator_project"];

/// A place, and the modules of the host that it must not name, beside those of [`CONTROL`].
const ARROWS: [(&str, &[&str]); 8] = [
    ("host/src/source/", &["exchange", "task", "operator", "engine", "state", "sink", "checkpoint"]),
    ("host/src/exchange/", &["source", "task", "operator", "engine", "state", "sink", "checkpoint"]),
    ("host/src/task/", &["engine"]),
    ("host/src/operator/", &["source", "exchange", "task", "sink", "checkpoint"]),
    ("host/src/engine/", &["source", "exchange", "task", "sink", "checkpoint"]),
    ("host/src/state/", &["source", "exchange", "task", "operator", "engine", "sink"]),
    ("host/src/sink/", &["source", "exchange", "task", "operator", "engine", "state", "checkpoint"]),
    ("host/src/checkpoint/", &["source", "exchange", "operator", "engine", "sink"]),
];

/// Seams and those who fulfil them: named only in their own folder and where a job is wired.
const FULFILLED: [(&str, &[&str]); 5] = [
    ("source", &["file", "generator", "memory", "kafka"]),
    ("operator", &["guest", "native"]),
    ("state", &["memory", "rocksdb"]),
    ("sink", &["file", "sqlite", "stdout", "memory", "kafka"]),
    ("checkpoint", &["filesystem", "memory", "s3"]),
];
const WIRING: [&str; 6] = [
    "host/src/job/blueprint.rs",
    "host/src/job/connectors.rs",
    "host/src/job/logic.rs",
    "host/src/job/storage.rs",
    "host/src/job/wire.rs",
    "host/src/operator_project/cases/run.rs",
];

/// What only `env.rs` may touch, so that tests decide what time it is and which threads run.
const OUTSIDE_WORLD: [&str; 6] =
    ["Instant::now", "SystemTime", "thread::spawn", "thread::Builder", "thread::sleep", "thread::scope"];

/// What the pure package must not touch at all.
const IMPURE: [&str; 7] =
    ["std::fs", "std::net", "std::process", "std::thread", "std::env", "std::time::Instant", "std::time::SystemTime"];

/// The rules for one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    let path = file.path.as_str();
    if !file.is_rust() || is_test(path) || !(path.starts_with("host/") || path.starts_with("tests/src/")) {
        return vec![];
    }
    let code = code::blanked(code::without_tests(&file.text));
    let mut findings = vec![];
    let mut found = |rule, lines: Vec<usize>, advice: String| {
        if let Some(first) = lines.first() {
            findings.push(Finding::new(rule, path, lines.len(), format!("line {first}: {advice}")));
        }
    };
    for (library, homes) in HOMES {
        if !homes.iter().any(|home| path.starts_with(home)) {
            // A folder of ours may have a library's name: `state::rocksdb::` is not the library.
            let others = code.replace(&format!("state::{library}::"), "").replace(&format!("super::{library}::"), "");
            let named = code::places(&others, &format!("{library}::"));
            found("home", named, format!("`{library}` is named only in {}", homes.join(" and ")));
        }
    }
    if path.starts_with("host/") && path != "host/src/env.rs" {
        for word in OUTSIDE_WORLD {
            found(
                "outside-world",
                code::places(&code, word),
                format!("`{word}` is for host/src/env.rs: take it from Env"),
            );
        }
    }
    if path.starts_with("host/dataflow/src/") {
        for word in IMPURE {
            found("pure", code::places(&code, word), format!("host/dataflow knows no `{word}`"));
        }
    }
    findings.extend(own_arrows(path, &code));
    findings
}

/// Tests may reach for whatever they need to see: `tests.rs`, contract checks, folders of tests.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("/contract.rs") || path.contains("/tests/")
}

fn own_arrows(path: &str, code: &str) -> Vec<Finding> {
    let named = code::own_paths(code);
    let mut findings = vec![];
    let mut found = |rule, count: usize, advice: String| {
        if count > 0 {
            findings.push(Finding::new(rule, path, count, advice));
        }
    };
    for (place, forbidden) in ARROWS.iter().filter(|(place, _)| path.starts_with(place)) {
        for module in forbidden.iter().chain(&CONTROL) {
            let count = named.iter().filter(|(first, _)| first == module).count();
            found("arrow", count, format!("{place} must not name `{module}`"));
        }
    }
    // Only the operator that is a guest knows the engine.
    if path.starts_with("host/src/operator/") && !path.starts_with("host/src/operator/guest") {
        let count = named.iter().filter(|(first, _)| first == "engine").count();
        found("arrow", count, "only operator/guest may name `engine`".to_string());
    }
    for (seam, fulfillers) in FULFILLED {
        if path.starts_with("host/src/") && !WIRING.contains(&path) && !path.starts_with(&format!("host/src/{seam}/")) {
            let named = |fulfiller: &&str| named.iter().any(|(first, second)| first == seam && second == *fulfiller);
            for fulfiller in fulfillers.iter().filter(|fulfiller| named(fulfiller)) {
                found(
                    "wiring",
                    1,
                    format!("only the wiring names `{seam}::{fulfiller}`: use what {seam}/mod.rs promises"),
                );
            }
        }
    }
    findings
}

#[test]
fn each_arrow_is_found() {
    let rules = |path: &str, text: &str| -> Vec<&str> {
        check(&File::new(path, text)).iter().map(|finding| finding.rule).collect()
    };
    assert_eq!(rules("host/src/task/a.rs", "use wasmtime::Engine;\n"), ["home"]);
    assert!(rules("host/src/engine/a.rs", "use wasmtime::Engine;\n").is_empty());
    assert_eq!(rules("host/src/task/a.rs", "use crate::{engine::Instance, env::Env};\n"), ["arrow"]);
    assert_eq!(rules("host/src/operator/window.rs", "use crate::engine::Instance;\n"), ["arrow"]);
    assert!(rules("host/src/operator/guest/call.rs", "use crate::engine::Instance;\n").is_empty());
    assert_eq!(rules("host/src/job/plan.rs", "use crate::sink::file::FileSink;\n"), ["wiring"]);
    assert!(rules("host/src/job/connectors.rs", "use crate::sink::file::FileSink;\n").is_empty());
    assert_eq!(rules("host/src/task/a.rs", "let t = Instant::now();\n"), ["outside-world"]);
    assert_eq!(rules("host/dataflow/src/a.rs", "use std::fs::File;\n"), ["pure"]);
    assert!(rules("host/src/task/tests.rs", "use crate::engine::Instance;\n").is_empty());
    assert!(rules("host/src/task/a.rs", "#[cfg(test)]\nmod tests {\n    use crate::engine::X;\n}\n").is_empty());
}
