//! Rust source as the rules look at it: comments and the inside of strings blanked, so that a word in a sentence is no code,
//! and cut before the inline test module, where other rules hold.

/// Lines before the inline test module, and lines of it.
pub(crate) fn lines(text: &str) -> (usize, usize) {
    let before = without_tests(text).lines().count();
    (before, text.lines().count() - before)
}

/// The text up to the inline test module.
pub(crate) fn without_tests(text: &str) -> &str {
    let mut at = 0;
    while let Some(found) = text[at..].find("#[cfg(test)]\nmod ") {
        let start = at + found;
        let declaration = text[start..].lines().nth(1).unwrap_or_default();
        if declaration.ends_with('{') && (start == 0 || text[..start].ends_with('\n')) {
            return &text[..start];
        }
        at = start + 1;
    }
    text
}

/// The text with comments and the inside of strings and characters replaced by blanks, line for line.
pub(crate) fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = skipped(bytes, at);
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            let blank = |&byte: &u8| if byte == b'\n' { b'\n' } else { b' ' };
            out.extend(bytes[at..at + length].iter().map(blank));
            at += length;
        }
    }
    String::from_utf8(out).expect("only whole literals and comments were replaced, by ASCII")
}

/// Length of the comment or literal that starts at `at`; 0 if none does.
fn skipped(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => find(rest, b"*/", 2),
        [b'"', ..] => quoted(rest, b'"'),
        [b'r', b'"' | b'#', ..] if !after_word => raw(rest),
        [b'\'', b'\\', ..] => quoted(rest, b'\''),
        [b'\'', ..] => {
            // A character, unless it is a lifetime: the closing quote stands behind one character.
            let end = rest.iter().skip(2).take(4).position(|&byte| byte == b'\'').map(|position| position + 3);
            let one = |end: &usize| std::str::from_utf8(&rest[1..end - 1]).is_ok_and(|text| text.chars().count() == 1);
            end.filter(one).unwrap_or(0)
        }
        _ => 0,
    }
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0; // a raw identifier
    }
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    find(rest, &end, 2 + hashes)
}

fn find(rest: &[u8], end: &[u8], from: usize) -> usize {
    let found = rest[from..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |position| from + position + end.len())
}

/// Lines (from 1) where `word` stands in `code` as a whole: no letter, digit or `_` touches it.
pub(crate) fn places(code: &str, word: &str) -> Vec<usize> {
    let touches = |byte: Option<&u8>| byte.is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let (begins, ends) = (touches(word.as_bytes().first()), touches(word.as_bytes().last()));
    code.match_indices(word)
        .filter(|&(at, _)| {
            let before = at.checked_sub(1).and_then(|at| code.as_bytes().get(at));
            let after = code.as_bytes().get(at + word.len());
            !(begins && touches(before) || ends && touches(after))
        })
        .map(|(at, _)| code[..at].matches('\n').count() + 1)
        .collect()
}

/// The paths below our crate that the code names, as far as their first two segments: `crate::sink::file::FileSink` gives
/// (`sink`, `file`). Groups in braces are taken apart.
pub(crate) fn own_paths(code: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    for root in ["crate::", "millstream::"] {
        for (at, _) in code.match_indices(root) {
            for (first, rest) in branches(&code[at + root.len()..]) {
                let second = rest.strip_prefix("::").map(branches).unwrap_or_default();
                if second.is_empty() {
                    found.push((first.to_string(), String::new()));
                }
                found.extend(second.into_iter().map(|(second, _)| (first.to_string(), second.to_string())));
            }
        }
    }
    found
}

/// The names at the start of a path, one or those of a group, each with what follows it.
fn branches(path: &str) -> Vec<(&str, &str)> {
    let word = |text: &str| text.find(|char: char| !(char.is_alphanumeric() || char == '_')).unwrap_or(text.len());
    let Some(group) = path.strip_prefix('{') else {
        return if word(path) == 0 { vec![] } else { vec![path.split_at(word(path))] };
    };
    let mut depth = 0;
    let mut start = 0;
    let mut names = vec![];
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = group[start..at].trim();
                if word(item) > 0 {
                    names.push(item.split_at(word(item)));
                }
                start = at + 1;
                if char == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

#[test]
fn comments_and_strings_are_blanked_and_lines_kept() {
    let text = "let a = \"x // \\\" y\"; // note\nlet b = r#\"a\"b\"#; let c: &'a str = 'x'; /* z\n */ done";
    let code = blanked(text);
    assert_eq!(code.lines().count(), 3);
    assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), "let a = ; let b = ; let c: &'a str = ; done");
}

#[test]
fn inline_tests_are_cut_and_declared_test_files_are_not() {
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {\n}\n"), "a\n");
    assert_eq!(lines("a\n#[cfg(test)]\nmod tests {\n}\n"), (1, 3));
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests;\nb\n"), "a\n#[cfg(test)]\nmod tests;\nb\n");
}

#[test]
fn words_are_whole() {
    assert_eq!(places("a tokio::b\nmy_tokio::c\ntokio::d", "tokio::"), [1, 3]);
}

#[test]
fn groups_of_paths_are_taken_apart() {
    let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
    let found = own_paths("use crate::{env::Env, sink::{file::X, Sink}};\ncrate::task::run()");
    assert_eq!(found, [pair("env", "Env"), pair("sink", "file"), pair("sink", "Sink"), pair("task", "run")]);
}
