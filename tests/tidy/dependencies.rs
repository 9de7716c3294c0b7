//! A dependency stands once in the workspace's Cargo.toml, with its reason on its line or the line above; packages take it
//! from there. The pure package has a short list of its own.

use crate::Finding;
use crate::tree::File;

/// All that the rules of the stream may stand on.
const PURE: [&str; 5] = ["bytes", "serde", "serde_json", "thiserror", "xxhash-rust"];

/// The rules for one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    if file.name() != "Cargo.toml" {
        return vec![];
    }
    let mut findings = vec![];
    let mut section = "";
    let mut above = "";
    for line in file.text.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let in_section = section.ends_with("dependencies]") && line.contains('=') && !line.starts_with(['#', '[', ' ']);
        if in_section {
            let name = line.split(['.', ' ', '=']).next().unwrap_or(line);
            let shared = line.contains("workspace = true") || line.contains("path = ");
            if !shared && !line.contains("# ") && !above.starts_with("# ") {
                let advice = format!("`{name}` has no reason: a comment on its line or the line above");
                findings.push(Finding::new("reason", &file.path, 1, advice));
            }
            let pure = file.path == "host/dataflow/Cargo.toml" && section == "[dependencies]";
            if pure && !PURE.contains(&name) {
                findings.push(Finding::new(
                    "pure",
                    &file.path,
                    1,
                    format!("host/dataflow must not depend on `{name}`"),
                ));
            }
        }
        above = line;
    }
    findings
}

#[test]
fn dependency_without_a_reason_is_found() {
    let rules = |path: &str, text: &str| -> Vec<&str> {
        check(&File::new(path, text)).iter().map(|finding| finding.rule).collect()
    };
    assert_eq!(rules("Cargo.toml", "[workspace.dependencies]\na = \"1\"\n"), ["reason"]);
    assert!(rules("Cargo.toml", "[workspace.dependencies]\na = \"1\" # reads a\n# reads b\nb = \"1\"\n").is_empty());
    assert!(rules("host/Cargo.toml", "[dependencies]\na.workspace = true\n").is_empty());
    assert_eq!(rules("host/dataflow/Cargo.toml", "[dependencies]\ntokio.workspace = true\n"), ["pure"]);
}
