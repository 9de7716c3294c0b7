//! The rules of the tree as a test: sizes, headers, arrows between folders, words, documents, dependencies. What was over a
//! limit when its rule came is listed in `ratchet.txt` with its size, which may shrink and never grow.

mod arrows; // which folder may name which, and the home of each library
mod code; // Rust source without its comments, strings and tests
mod dependencies; // each has a reason
mod docs; // links and paths in Markdown lead somewhere
mod ratchet; // what is over a limit today
mod sizes; // files, folders, headers
mod tree; // the files of the project
mod words; // what no file may say

/// Something against a rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// Name of the rule, as the ratchet file uses it.
    pub(crate) rule: &'static str,
    /// Where, from the project's root.
    pub(crate) path: String,
    /// How much: lines, entries or places.
    pub(crate) amount: usize,
    /// What is wrong and what to do.
    pub(crate) advice: String,
}

impl Finding {
    pub(crate) fn new(rule: &'static str, path: &str, amount: usize, advice: impl Into<String>) -> Self {
        Self { rule, path: path.to_string(), amount, advice: advice.into() }
    }
}

#[test]
fn tree_is_tidy() {
    let files = tree::files();
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the tree was found");
    let mut findings = sizes::folders(&files);
    for file in &files {
        findings.extend(sizes::check(file));
        findings.extend(words::check(file));
        findings.extend(arrows::check(file));
        findings.extend(docs::check(file));
        findings.extend(dependencies::check(file));
    }
    let ratchet = tree::read("tests/tidy/ratchet.txt");
    let problems = ratchet::judge(&ratchet, &findings);
    assert!(problems.is_empty(), "{} problems\n{}\n", problems.len(), problems.join("\n"));
}
