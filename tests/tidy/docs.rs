//! Links in Markdown lead to files and headings that are there, and so do paths written as code: a document that names a
//! file which has moved fails the test.

use crate::Finding;
use crate::tree::{self, File};

/// Top folders: code that starts with one of them is meant as a path.
const FOLDERS: [&str; 8] = ["host/", "guest-sdk/", "wit/", "tests/", "examples/", "scripts/", "deploy/", "docs/"];

/// The rules for one file.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    if !file.path.ends_with(".md") {
        return vec![];
    }
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut broken: Vec<String> = vec![];
    for link in links(&file.text) {
        let (target, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = if target.is_empty() { file.path.clone() } else { join(folder, target) };
        if !target.is_empty() && !tree::exists(&path) {
            broken.push(format!("link to `{link}`"));
        } else if !heading.is_empty() && path.ends_with(".md") {
            let text = if target.is_empty() { file.text.clone() } else { tree::read(&path) };
            if !headings(&text).any(|known| known == heading) {
                broken.push(format!("heading `{link}`"));
            }
        }
    }
    broken.extend(paths(&file.text).filter(|path| !tree::exists(path)).map(|path| format!("path `{path}`")));
    match broken.first() {
        Some(first) => vec![Finding::new("link", &file.path, broken.len(), format!("{first} leads nowhere"))],
        None => vec![],
    }
}

/// Targets of links within the project.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets =
        text.match_indices("](").filter_map(|(at, _)| text[at + 2..].split_once(')')).map(|(target, _)| target);
    targets.filter(|target| {
        !target.contains("://") && !target.starts_with("mailto:") && !target.contains(char::is_whitespace)
    })
}

/// Inline code that is a path: one word, begins with a top folder, has no placeholder.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let inline =
        text.lines().filter(|line| !line.starts_with("```")).flat_map(|line| line.split('`').skip(1).step_by(2));
    inline
        .filter(|code| FOLDERS.iter().any(|folder| code.starts_with(folder)))
        .map(|code| code.split_whitespace().next().unwrap_or(code))
        .filter(|code| !code.contains(['<', '*', '{', '…', ':']))
}

fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Anchors as the usual viewers make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let kept = |char: &char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_');
        line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    })
}

#[test]
fn broken_links_and_paths_are_found() {
    let found = |text: &str| check(&File::new("docs/a.md", text)).first().map_or(0, |finding| finding.amount);
    assert_eq!(found("[in](../Cargo.toml) [out](https://example.org/x) `Cargo.lock` `host/Cargo.toml`\n"), 0);
    assert_eq!(found("[gone](../Cargo.tuml) `host/src/gone.rs` `host/src/<name>.rs`\n"), 2);
    assert_eq!(found("# How to add a …\n[a](#how-to-add-a-) [b](#nothing)\n"), 1);
}
