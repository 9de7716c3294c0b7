//! How far event time has come: per partition the largest timestamp so far minus a bound, and the minimum over inputs.
//! After Akidau et al., "The Dataflow Model", 2015, and Flink's bounded out-of-orderness with idleness.

use crate::time::{START, Timestamp};
use std::collections::BTreeSet;

/// The watermark of one partition under bounded out-of-orderness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedOutOfOrderness {
    bound_ms: i64,
    largest: Option<Timestamp>,
}

impl BoundedOutOfOrderness {
    /// Records may come up to `bound_ms` after one with a larger timestamp.
    pub fn new(bound_ms: i64) -> Self {
        Self { bound_ms, largest: None }
    }

    /// Goes on from a watermark that a checkpoint holds.
    pub fn restore(bound_ms: i64, watermark: Timestamp) -> Self {
        let largest = (watermark != START).then(|| watermark.saturating_add(bound_ms));
        Self { bound_ms, largest }
    }

    /// Takes note of a record.
    #[inline]
    pub fn observe(&mut self, timestamp: Timestamp) {
        if self.largest.is_none_or(|largest| timestamp > largest) {
            self.largest = Some(timestamp);
        }
    }

    /// The largest timestamp so far minus the bound; `START` before the first record.
    #[inline]
    pub fn watermark(&self) -> Timestamp {
        self.largest.map_or(START, |largest| largest.saturating_sub(self.bound_ms))
    }
}

/// What an input says about its place in the minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Active,
    Idle,
    Finished,
}

/// The minimum over inputs (partitions of a source, channels of a task). O(log n) for each change. Never goes back.
#[derive(Debug)]
pub struct Merge {
    inputs: Vec<(Timestamp, Status)>,
    active: BTreeSet<(Timestamp, usize)>,
    current: Timestamp,
}

/// What a change of one input means for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// The minimum is where it was.
    Unchanged,
    /// The minimum moved to this watermark.
    Advanced(Timestamp),
}

impl Merge {
    /// For `inputs` inputs that have said nothing yet, going on from watermark `current`.
    pub fn new(inputs: usize, current: Timestamp) -> Self {
        let mut merge = Self { inputs: vec![], active: BTreeSet::new(), current };
        (0..inputs).for_each(|_| {
            merge.add(START);
        });
        merge
    }

    /// One more input, active, standing at `watermark`; its index.
    pub fn add(&mut self, watermark: Timestamp) -> usize {
        let input = self.inputs.len();
        self.inputs.push((watermark, Status::Active));
        self.active.insert((watermark, input));
        input
    }

    /// `input` moved to `watermark`; lower than before is ignored. An idle input stays idle.
    pub fn advance(&mut self, input: usize, watermark: Timestamp) -> Merged {
        let (before, status) = self.inputs[input];
        if watermark <= before {
            return Merged::Unchanged;
        }
        self.inputs[input].0 = watermark;
        if status == Status::Active {
            self.active.remove(&(before, input));
            self.active.insert((watermark, input));
        }
        self.settle()
    }

    /// `input` has nothing and leaves the minimum.
    pub fn idle(&mut self, input: usize) -> Merged {
        self.set(input, Status::Idle)
    }

    /// `input` is back. One that stands behind the minimum does not pull it back.
    pub fn active(&mut self, input: usize) -> Merged {
        self.set(input, Status::Active)
    }

    /// `input` leaves the minimum for good. When all inputs are finished the watermark is [`crate::time::END`].
    pub fn finish(&mut self, input: usize) -> Merged {
        self.set(input, Status::Finished)
    }

    /// Where `input` stands, and whether it is idle.
    pub fn input(&self, input: usize) -> (Timestamp, bool) {
        let (watermark, status) = self.inputs[input];
        (watermark, status == Status::Idle)
    }

    /// The minimum now.
    pub fn watermark(&self) -> Timestamp {
        self.current
    }

    /// Whether no input is active but some may come back: the watermark stays.
    pub fn all_idle(&self) -> bool {
        self.active.is_empty() && !self.all_finished()
    }

    /// Whether every input is finished.
    pub fn all_finished(&self) -> bool {
        self.inputs.iter().all(|&(_, status)| status == Status::Finished)
    }

    /// The active input that stands furthest back, and where it stands: the one that holds the minimum.
    pub fn slowest(&self) -> Option<(usize, Timestamp)> {
        self.active.first().map(|&(watermark, input)| (input, watermark))
    }

    fn set(&mut self, input: usize, status: Status) -> Merged {
        let (watermark, before) = self.inputs[input];
        if before == status || before == Status::Finished {
            return Merged::Unchanged;
        }
        self.inputs[input].1 = status;
        match status {
            Status::Active => self.active.insert((watermark, input)),
            Status::Idle | Status::Finished => self.active.remove(&(watermark, input)),
        };
        self.settle()
    }

    fn settle(&mut self) -> Merged {
        let minimum = match self.active.first() {
            Some(&(watermark, _)) => watermark,
            None if self.all_finished() => crate::time::END,
            None => return Merged::Unchanged,
        };
        if minimum <= self.current {
            return Merged::Unchanged;
        }
        self.current = minimum;
        Merged::Advanced(minimum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::END;

    #[test]
    fn watermark_is_the_largest_timestamp_minus_the_bound() {
        let mut partition = BoundedOutOfOrderness::new(30);
        assert_eq!(partition.watermark(), START);
        partition.observe(100);
        partition.observe(80);
        assert_eq!(partition.watermark(), 70);
        assert_eq!(BoundedOutOfOrderness::restore(30, 70), partition);
    }

    #[test]
    fn minimum_follows_the_slowest_active_input() {
        let mut merge = Merge::new(2, START);
        assert_eq!(merge.advance(0, 10), Merged::Unchanged);
        assert_eq!(merge.advance(1, 5), Merged::Advanced(5));
        assert_eq!(merge.slowest(), Some((1, 5)));
        assert_eq!(merge.idle(1), Merged::Advanced(10));
        assert_eq!(merge.active(1), Merged::Unchanged);
        assert_eq!(merge.watermark(), 10);
        assert_eq!(merge.advance(1, 12), Merged::Unchanged);
        assert_eq!(merge.advance(0, 11), Merged::Advanced(11));
    }

    #[test]
    fn input_without_a_record_holds_time_until_it_is_idle() {
        let mut merge = Merge::new(2, START);
        merge.advance(0, 10);
        assert_eq!(merge.watermark(), START);
        assert_eq!(merge.idle(1), Merged::Advanced(10));
    }

    #[test]
    fn watermark_stays_when_all_inputs_are_idle_and_ends_when_all_are_finished() {
        let mut merge = Merge::new(2, START);
        merge.advance(0, 10);
        merge.advance(1, 7);
        merge.finish(0);
        assert_eq!(merge.watermark(), 7);
        assert_eq!(merge.idle(1), Merged::Unchanged);
        assert!(merge.all_idle());
        assert_eq!(merge.finish(1), Merged::Advanced(END));
    }
}
