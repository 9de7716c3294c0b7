//! What is over a limit today. An entry allows exactly the size it names: more fails, and so does less, until the number is
//! lowered. So the list can only shrink, and a new excess needs a line that a reviewer sees.

use crate::Finding;
use std::collections::BTreeMap;

/// What to tell the developer; empty if all is well. Lines of `ratchet` read `rule path amount`; `#` starts a comment.
pub(crate) fn judge(ratchet: &str, findings: &[Finding]) -> Vec<String> {
    let mut problems = vec![];
    let mut allowed = BTreeMap::new();
    for line in ratchet.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [rule, path, amount] if amount.parse::<usize>().is_ok() => {
                allowed.insert((rule, path), amount.parse::<usize>().unwrap_or(0));
            }
            _ => problems.push(format!("tests/tidy/ratchet.txt: `{line}` is not `rule path amount`")),
        }
    }
    for ((rule, path), (amount, advice)) in summed(findings) {
        match allowed.remove(&(rule, path)) {
            None => problems.push(format!("{path}: {rule}: {advice}")),
            Some(limit) if amount > limit => {
                problems.push(format!("{path}: {rule}: grew from {limit} to {amount}: {advice}"));
            }
            Some(limit) if amount < limit => {
                problems
                    .push(format!("{path}: {rule}: lower it to {amount} in tests/tidy/ratchet.txt, {limit} is past"));
            }
            Some(_) => {}
        }
    }
    for (rule, path) in allowed.keys() {
        problems
            .push(format!("{path}: {rule}: nothing is over the limit, take its line out of tests/tidy/ratchet.txt"));
    }
    problems
}

/// One amount for each rule and path, with all its advice.
fn summed(findings: &[Finding]) -> BTreeMap<(&str, &str), (usize, String)> {
    let mut sums: BTreeMap<_, (usize, String)> = BTreeMap::new();
    for Finding { rule, path, amount, advice } in findings {
        let sum = sums.entry((*rule, path.as_str())).or_default();
        let separator = if sum.1.is_empty() { "" } else { "; " };
        *sum = (sum.0 + amount, format!("{}{separator}{advice}", sum.1));
    }
    sums
}

#[test]
fn excess_may_shrink_and_never_grow() {
    let found = |amount| [Finding::new("length", "a.rs", amount, "split it")];
    assert_eq!(judge("", &found(700)), ["a.rs: length: split it"]);
    assert!(judge("# known\nlength a.rs 700\n", &found(700)).is_empty());
    assert_eq!(judge("length a.rs 700", &found(701)), ["a.rs: length: grew from 700 to 701: split it"]);
    assert!(judge("length a.rs 700", &found(690))[0].contains("lower it to 690"));
    assert!(judge("length a.rs 700", &[])[0].contains("take its line out"));
    let twice = [Finding::new("reason", "a.toml", 1, "say why x"), Finding::new("reason", "a.toml", 1, "say why y")];
    assert!(judge("reason a.toml 2", &twice).is_empty());
    assert_eq!(judge("", &twice), ["a.toml: reason: say why x; say why y"]);
    assert!(judge("length a.rs", &[])[0].contains("is not `rule path amount`"));
}
