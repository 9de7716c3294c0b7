//! How large files and folders may be, what they may be called, and that each file says what it is.

use crate::tree::File;
use crate::{Finding, code};
use std::collections::{BTreeMap, BTreeSet};

/// Lines of a file without its inline tests.
const FILE_LINES_MAX: usize = 600;
/// Lines of a `mod.rs` or `lib.rs`: contracts and module lists, never logic.
const MODULE_LINES_MAX: usize = 150;
/// Lines of a program's `main.rs`.
const MAIN_LINES_MAX: usize = 100;
/// Lines of an inline test module; longer ones move to `tests.rs` beside the file.
const INLINE_TEST_LINES_MAX: usize = 150;
/// `use` lines of a file: with more it knows too much.
const USE_LINES_MAX: usize = 20;
/// Entries of a source folder.
const FOLDER_ENTRIES_MAX: usize = 16;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "helpers", "misc", "manager", "types"];

/// The rules for one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return vec![];
    }
    let mut findings = vec![];
    let mut over = |rule, amount: usize, limit: usize, advice: &str| {
        if amount > limit {
            let advice = format!("{amount} {advice} (at most {limit})");
            findings.push(Finding::new(rule, &file.path, amount, advice));
        }
    };
    let (lines, test_lines) = code::lines(&file.text);
    let limit = match file.name() {
        "mod.rs" | "lib.rs" => MODULE_LINES_MAX,
        "main.rs" => MAIN_LINES_MAX,
        _ => FILE_LINES_MAX,
    };
    over("length", lines, limit, "lines without tests: split it by what it does");
    over("inline-tests", test_lines, INLINE_TEST_LINES_MAX, "lines of inline tests: move them to tests.rs beside it");
    let used = code::without_tests(&file.text).lines().filter(|line| is_use(line)).count();
    over("uses", used, USE_LINES_MAX, "`use` lines: the file knows too much");
    let header: String = file.text.lines().take_while(|line| line.starts_with("//!")).collect();
    let header = header.trim_start_matches(['/', '!', ' ']);
    let missing = header.is_empty() || header.starts_with("Placeholder");
    over("header", missing.into(), 0, "header missing: `//!` says what the file is and where it stands");
    let stem = file.name().trim_end_matches(".rs");
    over("name", EMPTY_NAMES.contains(&stem).into(), 0, "name that says nothing: name what it is for");
    findings
}

fn is_use(line: &str) -> bool {
    ["use ", "pub use ", "pub(crate) use "].iter().any(|start| line.starts_with(start))
}

/// The rules for folders of source.
pub(crate) fn folders(files: &[File]) -> Vec<Finding> {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let mut rest = file.path.as_str();
        while let Some((folder, entry)) = rest.rsplit_once('/') {
            entries.entry(folder).or_default().insert(entry);
            rest = folder;
        }
    }
    let mut findings = vec![];
    for (folder, entries) in entries {
        if entries.len() > FOLDER_ENTRIES_MAX {
            let advice =
                format!("{} entries: group what belongs together (at most {FOLDER_ENTRIES_MAX})", entries.len());
            findings.push(Finding::new("entries", folder, entries.len(), advice));
        }
        if EMPTY_NAMES.contains(&folder.rsplit('/').next().unwrap_or(folder)) {
            findings.push(Finding::new("name", folder, 1, "name that says nothing: name what it is for"));
        }
    }
    findings
}

#[test]
fn each_limit_is_found() {
    let header = "//! What this file is, in a sentence.\n";
    let rules = |path: &str, text: String| -> Vec<&str> {
        check(&File::new(path, &text)).iter().map(|finding| finding.rule).collect()
    };
    assert!(rules("host/src/a.rs", format!("{header}{}", "x\n".repeat(599))).is_empty());
    assert_eq!(rules("host/src/a.rs", format!("{header}{}", "x\n".repeat(600))), ["length"]);
    assert_eq!(rules("host/src/a/mod.rs", format!("{header}{}", "x\n".repeat(150))), ["length"]);
    assert_eq!(rules("host/src/main.rs", format!("{header}{}", "x\n".repeat(100))), ["length"]);
    assert_eq!(rules("host/src/a.rs", format!("{header}{}", "use a::b;\n".repeat(21))), ["uses"]);
    let tests = format!("{header}#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(148));
    assert_eq!(rules("host/src/a.rs", tests), ["inline-tests"]);
    assert_eq!(rules("host/src/a.rs", "fn a() {}\n".to_string()), ["header"]);
    assert_eq!(rules("host/src/a.rs", "//! Placeholder.\n".to_string()), ["header"]);
    assert_eq!(rules("host/src/utils.rs", header.to_string()), ["name"]);
}

#[test]
fn full_folder_is_found() {
    let files: Vec<File> = (0..17).map(|number| File::new(&format!("host/src/f{number}.rs"), "")).collect();
    let found = folders(&files);
    assert_eq!((found.len(), found[0].path.as_str(), found[0].amount), (1, "host/src", 17));
    assert!(folders(&files[1..]).is_empty());
}
