//! Cases of operators, as `millstream test` runs them, each in both ways.

use super::rig::engine;
use millstream::operator_project::cases::{Way, read, run};
use millstream_tests::guests;

/// What each case of `text` finds, in both ways.
fn differences(bytes: &[u8], text: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().expect("a scratch file");
    std::fs::write(file.path(), text).expect("writable");
    let component = engine().load(bytes).expect("the component loads");
    let cases = read(file.path()).expect("the cases can be read");
    let ways = [Way::Straight, Way::Replaced];
    let runs = cases.iter().flat_map(|case| ways.map(|way| run(&component, case, way)));
    runs.flat_map(|found| found.unwrap_or_else(|error| vec![format!("{error:#}")])).collect()
}

const AMOUNTS: &str = "
- case: amounts are summed by key and window, and what is refused is put aside
  window: 1m
  steps:
    - { record: { amount: 3 }, key: a, time: 10000 }
    - { record: { amount: 4 }, key: b, time: 20000 }
    - { record: { amount: 7 }, key: a, time: 30000 }
    - { record: { amount: 5 }, key: a, time: 59999 }
    - { record: { amount: 1 }, key: a, time: 60000 }
    - { watermark: 60000 }
    - end
  expect:
    main:
      - { key: a, window_start: 0, result: 8 }
      - { key: b, window_start: 0, result: 4 }
      - { key: a, window_start: 60000, result: 1 }
    dead: [not to my taste]
";

#[test]
fn an_aggregators_cases_are_its_windows_panes() {
    assert_eq!(differences(guests::summing(), AMOUNTS), Vec::<String>::new());
    let wrong = AMOUNTS.replace("result: 8", "result: 9");
    let found = differences(guests::summing(), &wrong);
    assert_eq!(found.len(), 4, "expected and got, in both ways: {found:?}");
    assert!(found[0].starts_with("main, row 1: expected") && found[0].contains("\"result\":9"), "{found:?}");
}

#[test]
fn a_case_without_a_key_aggregates_all_records() {
    let text = AMOUNTS.replace("key: a, ", "").replace("key: b, ", "");
    let text = text.replace("result: 8", "result: 12").replace("      - { window_start: 0, result: 4 }\n", "");
    assert_eq!(differences(guests::summing(), &text), Vec::<String>::new());
}

#[test]
fn a_window_is_for_aggregators_and_each_of_them_needs_one() {
    let found = differences(guests::summing(), &AMOUNTS.replace("  window: 1m\n", ""));
    assert!(found[0].contains("give the case a `window`"), "{found:?}");
    let found = differences(guests::hostile(), AMOUNTS);
    assert!(found[0].contains("the component is a processor"), "{found:?}");
}

#[test]
fn records_without_a_key_may_write_broadcast_maps() {
    let text = "
- case: a ride above its city's limit
  steps:
    - { record: { city: Pune, limit: 10.0 }, input: limit, time: 0 }
    - { record: { id: r1, fare: 12.5 }, key: Pune, input: ride, time: 5 }
    - { record: { id: r2, fare: 9.5 }, key: Pune, input: ride, time: 6 }
    - end
  expect:
    main: [{ city: Pune, id: r1, fare: 12.5, limit: 10.0 }]
";
    assert_eq!(differences(guests::limits(), text), Vec::<String>::new());
}
