//! Windows against a model that keeps every record and judges them singly.

use super::harness::{Fed, count_and_sum, settings};
use crate::operator::Due;
use dataflow::time::{END, START};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const SIZE: i64 = 60_000;

/// What happens to a window.
#[derive(Debug, Clone)]
enum Step {
    /// Records of (key, timestamp, value) that come before the next watermark.
    Records(Vec<(usize, i64, i64)>),
    /// The watermark moves by so much.
    Advance(i64),
}

/// The model: per window and key every value, and how many panes were sent.
#[derive(Default)]
struct Model {
    windows: BTreeMap<(i64, &'static str), (Vec<i64>, u32)>,
    sent: Vec<String>,
    dropped: u64,
}

impl Model {
    fn pane(&mut self, end: i64, key: &'static str, timing: &str) {
        let (values, panes) = self.windows.get_mut(&(end, key)).unwrap();
        let sum: i64 = values.iter().sum();
        self.sent.push(format!("{key} {} {timing} {panes} {} {sum}", (end - SIZE) / SIZE, values.len()));
        *panes += 1;
    }

    fn record(&mut self, (key, at, value): (usize, i64, i64), lateness: i64, watermark: i64) {
        let end = (at.div_euclid(SIZE) + 1) * SIZE;
        if watermark >= end + lateness {
            self.dropped += 1;
            return;
        }
        self.windows.entry((end, KEYS[key])).or_default().0.push(value);
        if watermark >= end {
            self.pane(end, KEYS[key], "late");
        }
    }

    fn advance(&mut self, from: i64, to: i64) {
        let due: Vec<_> = self.windows.keys().copied().filter(|(end, _)| from < *end && *end <= to).collect();
        for (end, key) in due {
            self.pane(end, key, if to == END { "end_of_input" } else { "on_time" });
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec((0..KEYS.len(), -200_000i64..400_000, -9i64..9), 1..8).prop_map(Step::Records),
        (1i64..120_000).prop_map(Step::Advance),
    ]
}

proptest! {
    #[test]
    fn windows_send_what_the_model_sends_wherever_batches_are_cut_and_operators_made_anew(
        steps in prop::collection::vec(step(), 1..24),
        lateness in prop_oneof![Just(0i64), Just(1), Just(30_000), Just(90_000)],
        cut in 1usize..5,
        restarts in prop::collection::vec(any::<bool>(), 24),
    ) {
        let mut fed = Fed::new(settings(lateness), count_and_sum(false));
        let mut model = Model::default();
        let mut watermark = START;
        for (step, restart) in steps.iter().chain([&Step::Advance(i64::MAX)]).zip(restarts.iter().cycle()) {
            if *restart {
                fed.restart();
            }
            match step {
                Step::Records(records) => {
                    for batch in records.chunks(cut) {
                        let rows: Vec<_> = batch.iter().map(|&(key, at, value)| (KEYS[key], at, value)).collect();
                        fed.feed(&rows);
                    }
                    records.iter().for_each(|&record| model.record(record, lateness, watermark));
                }
                Step::Advance(by) => {
                    let from = watermark.max(-200_000);
                    let to = from.saturating_add(*by);
                    let to = if *by == i64::MAX { END } else { to };
                    fed.advance(to);
                    model.advance(watermark, to);
                    watermark = to;
                }
            }
        }
        prop_assert_eq!(fed.panes(), model.sent);
        prop_assert_eq!(fed.metrics.late_records_dropped.get(), model.dropped);
        prop_assert_eq!(fed.rows_kept(), 0);
    }
}

#[test]
fn a_big_window_fires_in_slices_and_a_restart_between_them_repeats_and_loses_nothing() {
    let names: Vec<String> = (0..10_000).map(|number| format!("key-{number:05}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), 0, 1)).collect();
    for lateness in [0, SIZE] {
        let mut fed = Fed::new(settings(lateness), count_and_sum(false));
        rows.chunks(4096).for_each(|rows| fed.feed(rows));
        let mut slices = 0;
        let mut panes = vec![];
        while fed.fire_some(SIZE) == Due::More {
            slices += 1;
            panes.extend(fed.panes());
            fed.restart();
        }
        panes.extend(fed.panes());
        panes.sort_unstable();
        let expected: Vec<String> = names.iter().map(|name| format!("{name} 0 on_time 0 1 1")).collect();
        assert_eq!(panes, expected);
        assert_eq!(slices, 2);
        fed.advance(2 * SIZE);
        assert_eq!(fed.rows_kept(), 0);
    }
}

#[test]
fn a_window_that_fits_one_call_is_not_torn_and_comes_in_byte_order() {
    let names: Vec<String> = (0..3_000).map(|number| format!("key-{number:05}")).collect();
    let rows: Vec<_> = names.iter().flat_map(|name| [(name.as_str(), 0, 1), (name.as_str(), SIZE, 1)]).collect();
    let mut fed = Fed::new(settings(0), count_and_sum(false));
    fed.feed(&rows);
    for window in [0, 1] {
        let more = fed.fire_some(END) == Due::More;
        let expected: Vec<String> = names.iter().map(|name| format!("{name} {window} end_of_input 0 1 1")).collect();
        assert_eq!((fed.panes(), more), (expected, window == 0));
    }
}
