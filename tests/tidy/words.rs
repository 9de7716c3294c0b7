//! What no file may say: leftovers, blanket permissions, paths of one machine, blanks at the end of a line.

use crate::tree::File;
use crate::{Finding, code};

/// Leftovers in code, each with what to do instead.
const IN_CODE: [(&str, &str); 4] = [
    ("todo!", "build it or say in the issue that it is missing"),
    ("unimplemented!", "build it or refuse with an error"),
    ("dbg!", "take it out"),
    ("#[ignore", "a test runs or is not there"),
];

/// The rules for one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    let mut findings = vec![];
    let mut found = |rule, lines: Vec<usize>, advice: &str| {
        if let Some(first) = lines.first() {
            findings.push(Finding::new(rule, &file.path, lines.len(), format!("line {first}: {advice}")));
        }
    };
    if file.is_rust() {
        let code = code::blanked(&file.text);
        for (word, advice) in IN_CODE {
            found("leftover", code::places(&code, word), advice);
        }
        let advice = "`#[expect(…, reason = \"…\")]` says why, and notices when it is no longer needed";
        found("leftover", blanket_permissions(&code), advice);
        if matches!(file.name(), "lib.rs" | "main.rs") {
            found("leftover", code::places(&code, "#![allow"), "no permission for a whole crate");
        }
    }
    if is_prose_or_code(file) {
        // Taken apart, or this file would find itself.
        found("leftover", code::places(&file.text, concat!("FIX", "ME")), "fix it, or open an issue");
        let blanks = |line: &str| line.ends_with([' ', '\t']);
        found("blanks", lines_where(&file.text, blanks), "blanks at the end of the line");
        let unfinished = !file.text.is_empty() && !file.text.ends_with('\n');
        found("blanks", Vec::from_iter(unfinished.then(|| file.text.lines().count())), "the last line has no end");
    }
    found("machine-path", lines_where(&file.text, names_a_machine), "a path of one machine: make it relative");
    findings
}

/// Data and expected outputs are as they are.
fn is_prose_or_code(file: &File) -> bool {
    let kinds = [".rs", ".md", ".toml", ".yaml", ".yml", ".wit", ".txt"];
    kinds.iter().any(|kind| file.path.ends_with(kind)) || file.path.starts_with("scripts/")
}

fn lines_where(text: &str, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    text.lines().enumerate().filter(|(_, line)| wanted(line)).map(|(number, _)| number + 1).collect()
}

/// Generated code may be allowed what it likes, with the reason.
fn blanket_permissions(code: &str) -> Vec<usize> {
    let allows =
        code.match_indices("allow(").filter(|(at, _)| code[..*at].ends_with("#[") || code[..*at].ends_with("#!["));
    let attributes = allows.map(|(at, _)| (at, code[at..].split_once(")]").map_or("", |(attribute, _)| attribute)));
    attributes
        .filter(|(_, attribute)| !attribute.contains("reason ="))
        .map(|(at, _)| code[..at].matches('\n').count() + 1)
        .collect()
}

fn names_a_machine(line: &str) -> bool {
    let absolute = |folder: &str| {
        line.match_indices(folder).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|char| !(char.is_alphanumeric() || "_-./}*".contains(char)))
        })
    };
    absolute(concat!("/wo", "rk/")) || absolute(concat!("/ro", "ot/"))
}

#[test]
fn each_word_is_found_in_code_and_only_there() {
    let rules = |path: &str, text: &str| -> Vec<&str> {
        check(&File::new(path, text)).iter().map(|finding| finding.rule).collect()
    };
    assert_eq!(rules("a.rs", "fn a() { dbg!(1); }\n"), ["leftover"]);
    assert_eq!(rules("a.rs", "#[allow(dead_code)]\nfn a() {}\n"), ["leftover"]);
    assert!(rules("a.rs", "#[allow(dead_code, reason = \"generated\")]\nfn a() {}\n").is_empty());
    assert!(rules("a.rs", "#![allow(\n    dead_code,\n    reason = \"generated\"\n)]\n").is_empty());
    assert_eq!(rules("src/lib.rs", "#![allow(dead_code, reason = \"all\")]\n"), ["leftover"]);
    assert!(rules("a.rs", "// dbg!(1) \"todo!\"\nlet a = \"todo!\";\n").is_empty());
    assert_eq!(rules("a.md", concat!("FIX", "ME later\n")), ["leftover"]);
    assert_eq!(rules("a.md", "blank \n"), ["blanks"]);
    assert_eq!(rules("a.md", "no end"), ["blanks"]);
    assert!(rules("expected.ndjson", "blank \nno end").is_empty());
    assert_eq!(rules("a.json", concat!("see \"/ro", "ot/x\"")), ["machine-path"]);
    assert!(rules("a.json", concat!("see net/ro", "ot/x")).is_empty());
}
