//! How far records come out of order: which bound covers how many of them. Pure: fed with timestamps in the order of arrival.

use crate::job::definition::units::DurationText;
use dataflow::time::Timestamp;
use std::collections::BTreeMap;

/// The disorder of one source, over all its partitions.
#[derive(Debug, Default)]
pub struct Disorder {
    largest: BTreeMap<String, Timestamp>,
    /// Records by how far they lie behind the largest timestamp before them, ms, rounded up.
    behind: BTreeMap<i64, u64>,
    records: u64,
}

impl Disorder {
    /// The next record of `partition`.
    pub fn record(&mut self, partition: &str, timestamp: Timestamp) {
        if let Some(largest) = self.largest.get_mut(partition) {
            *largest = timestamp.max(*largest);
        } else {
            self.largest.insert(partition.to_string(), timestamp);
        }
        let behind = self.largest[partition].saturating_sub(timestamp);
        *self.behind.entry(rounded_up(behind)).or_default() += 1;
        self.records += 1;
    }

    /// How many records were seen.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The least bound, ms, under which at least `share` (0 to 1) of the records are in time.
    pub fn bound(&self, share: f64) -> i64 {
        let wanted = (self.records as f64 * share).ceil() as u64;
        let mut covered = 0;
        for (behind, records) in &self.behind {
            covered += records;
            if covered >= wanted {
                return *behind;
            }
        }
        0
    }

    /// What it means for a source with this bound, as lines.
    pub fn report(&self, source: &str, bound_ms: Option<i64>) -> String {
        if self.records == 0 {
            return format!("source {source}: no record to measure\n");
        }
        let covers = |share: f64| format!("{} covers {} %", DurationText(self.bound(share)), share * 100.0);
        let mut text = format!(
            "source {source}: {} records; a bound of {}, {}, {}, {} all\n",
            self.records,
            covers(0.95),
            covers(0.99),
            covers(0.999),
            DurationText(self.bound(1.0)),
        );
        let Some(bound) = bound_ms else { return text };
        let within: u64 = self.behind.range(..=bound).map(|(_, records)| records).sum();
        let late = self.records - within;
        text += &format!("  its bound of {} covers all but {late} records\n", DurationText(bound));
        let needed = self.bound(0.999);
        if bound > FAR_ABOVE * needed.max(SHORTEST_MS) {
            text += &format!(
                "  warning: the bound is far above need: every result waits {} where {} would cover 99.9 %\n",
                DurationText(bound),
                DurationText(needed)
            );
        }
        text
    }
}

/// A bound this many times above what covers 99.9 % is worth a word.
const FAR_ABOVE: i64 = 5;
/// Below this no bound is called too long.
const SHORTEST_MS: i64 = 1_000;

/// To one part in 64, so that there are few distinct values; exact below 128 ms.
fn rounded_up(ms: i64) -> i64 {
    let step = 1i64 << (63 - ms.max(1).leading_zeros()).saturating_sub(6);
    ms.saturating_add(step - 1) / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_what_records_lie_behind_the_largest_before_them() {
        let mut disorder = Disorder::default();
        // Behind: 0, 0, 30, 0, 10 in one partition, 0 in another, whose time is its own.
        for timestamp in [100, 150, 120, 200, 190] {
            disorder.record("a", timestamp);
        }
        disorder.record("b", 5);
        assert_eq!(disorder.bound(4.0 / 6.0), 0);
        assert_eq!(disorder.bound(5.0 / 6.0), 10);
        assert_eq!(disorder.bound(1.0), 30);
    }

    #[test]
    fn long_distances_are_rounded_up_by_less_than_two_percent() {
        for ms in [0, 1, 127, 128, 1_001, 59_999, 86_400_001] {
            let rounded = rounded_up(ms);
            assert!(rounded >= ms && rounded as f64 <= ms as f64 * 1.02, "{ms} became {rounded}");
        }
    }

    #[test]
    fn a_bound_far_above_need_is_flagged() {
        let mut disorder = Disorder::default();
        (0..1_000).for_each(|at| disorder.record("a", at));
        assert!(disorder.report("rides", Some(60_000)).contains("far above need"));
        assert!(!disorder.report("rides", Some(5_000)).contains("far above need"));
    }
}
