//! Time at a source: which timestamps are taken as meant, how far each partition has come, and what the source says of it.
//! Decisions only; the source task sends.

use crate::source::UNKNOWN_ARRIVAL;
use dataflow::checkpoint::PartitionPosition;
use dataflow::record::Batch;
use dataflow::time::{END, START, Timestamp};
use dataflow::watermark::{BoundedOutOfOrderness, Merge, Merged};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// When a source tells its watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// Each record moves the watermark before the next is judged.
    PerRecord,
    /// At batch ends.
    Periodic,
    /// Once, when a bounded input has been read: nothing is late.
    AtEnd,
}

/// What becomes of a record whose timestamp is too far from its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It is put aside.
    DeadLetter,
    /// Its arrival time becomes its timestamp.
    Replace,
    /// It goes to the source's output `out_of_tolerance`.
    SideOutput,
}

/// How far a timestamp may lie from the arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerance {
    /// Most ms after the arrival; none is no limit.
    pub ahead_ms: Option<i64>,
    /// Most ms before the arrival; none is no limit.
    pub behind_ms: Option<i64>,
    /// What becomes of the others.
    pub on_excess: Excess,
}

/// What time does when no partition has anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenAllIdle {
    /// It stays.
    Hold,
    /// It follows the wall clock, less the bound.
    Advance,
}

/// A source's time, as its job says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceTimeSettings {
    /// A record's time is the clock's when it is read: nothing is late, and time passes without records too.
    pub by_clock: bool,
    /// How late a record may come after one with a larger timestamp, ms.
    pub bound_ms: i64,
    /// When the watermark is told.
    pub emit: Emit,
    /// After so long without a record a partition leaves the minimum; none is never.
    pub idle_after: Option<Duration>,
    /// What time does when all partitions are idle.
    pub when_all_idle: WhenAllIdle,
    /// Which timestamps are taken as meant.
    pub tolerance: Tolerance,
}

/// The time of one source task.
pub(super) struct SourceTime {
    settings: SourceTimeSettings,
    index: HashMap<Arc<str>, usize>,
    partitions: Vec<PartitionTime>,
    merge: Merge,
    /// The latest time that a source by the clock has come to. The clock may jump back, this does not.
    clock: Timestamp,
}

struct PartitionTime {
    bounded: BoundedOutOfOrderness,
    finished: bool,
    idle: bool,
    last_record: Duration,
}

/// The rows of a batch by what tolerance says of them.
pub(super) struct Sorted {
    pub(super) kept: Batch,
    pub(super) side: Option<Batch>,
    /// Row of `refused` and the reason.
    pub(super) dead: Vec<(usize, String)>,
    pub(super) refused: Option<Batch>,
}

impl SourceTime {
    /// Goes on from the positions of a checkpoint.
    pub(super) fn new(settings: SourceTimeSettings) -> Self {
        Self { settings, index: HashMap::new(), partitions: vec![], merge: Merge::new(0, START), clock: START }
    }

    /// Makes a partition known; `restored` is its watermark in the checkpoint, `START` where there was none.
    pub(super) fn add(&mut self, name: &Arc<str>, restored: Timestamp, finished: bool, now: Duration) {
        if let Some(&known) = self.index.get(name) {
            if finished {
                self.finish(known);
            }
            return;
        }
        let partition = self.merge.add(restored);
        self.clock = self.clock.max(restored);
        self.index.insert(name.clone(), partition);
        let bounded = BoundedOutOfOrderness::restore(self.settings.bound_ms, restored);
        self.partitions.push(PartitionTime { bounded, finished: false, idle: false, last_record: now });
        if finished {
            self.finish(partition);
        }
    }

    /// The watermark to tell at the start: the minimum of what was restored.
    pub(super) fn start(&mut self) -> Option<Timestamp> {
        let slowest = self.merge.slowest().map(|(_, watermark)| watermark)?;
        (self.settings.emit != Emit::AtEnd && slowest != START).then_some(slowest)
    }

    /// Gives the rows of a source by the clock their time.
    pub(super) fn stamp(&mut self, batch: &mut Batch, now_ms: i64) {
        if self.settings.by_clock {
            self.clock = self.clock.max(now_ms);
            batch.timestamps.fill(self.clock);
        }
    }

    /// Sorts rows by tolerance; `arrivals` is empty where the source has none. A row whose arrival is unknown is not judged.
    pub(super) fn sort(&self, mut batch: Batch, arrivals: &[Timestamp]) -> Sorted {
        let tolerance = self.settings.tolerance;
        let excess: Vec<u32> = (0..arrivals.len())
            .filter(|&row| arrivals[row] != UNKNOWN_ARRIVAL && tolerance.refuses(batch.timestamps[row], arrivals[row]))
            .map(|row| row as u32)
            .collect();
        let none = |kept| Sorted { kept, side: None, dead: vec![], refused: None };
        if excess.is_empty() || self.settings.by_clock {
            return none(batch);
        }
        if tolerance.on_excess == Excess::Replace {
            excess.iter().for_each(|&row| batch.timestamps[row as usize] = arrivals[row as usize]);
            return none(batch);
        }
        let rest: Vec<u32> = (0..batch.len() as u32).filter(|row| excess.binary_search(row).is_err()).collect();
        let (kept, out) = (batch.select(&rest), batch.select(&excess));
        if tolerance.on_excess == Excess::SideOutput {
            return Sorted { kept, side: Some(out), dead: vec![], refused: None };
        }
        let reason = |&row: &u32| {
            let away = i128::from(batch.timestamps[row as usize]) - i128::from(arrivals[row as usize]);
            let side = if away > 0 { "after" } else { "before" };
            format!(
                "timestamp {} lies {} ms {side} the arrival, out of tolerance",
                batch.timestamps[row as usize],
                away.abs()
            )
        };
        Sorted { kept, side: None, dead: excess.iter().map(reason).enumerate().collect(), refused: Some(out) }
    }

    /// Takes note of rows `from..to` of a partition; the watermark to tell now, if it moved.
    pub(super) fn observe(
        &mut self,
        partition: &Arc<str>,
        timestamps: &[Timestamp],
        now: Duration,
    ) -> Option<Timestamp> {
        let at = *self.index.get(partition).expect("a source names its partitions before it reads them");
        let known = &mut self.partitions[at];
        timestamps.iter().for_each(|&timestamp| known.bounded.observe(timestamp));
        known.last_record = now;
        let watermark = known.bounded.watermark();
        if std::mem::take(&mut known.idle) {
            self.merge.active(at);
        }
        let merged = self.merge.advance(at, watermark);
        if self.settings.by_clock {
            // No partition can give an earlier time any more.
            return (self.settings.emit != Emit::AtEnd).then_some(self.clock);
        }
        self.tell(merged)
    }

    /// A partition is read to its end.
    pub(super) fn finish_named(&mut self, name: &Arc<str>) -> Option<Timestamp> {
        let merged = self.index.get(name).copied().map_or(Merged::Unchanged, |at| self.finish(at));
        self.tell(merged)
    }

    /// A partition has not been looked at yet.
    pub(super) fn postpone(&mut self, name: &Arc<str>, now: Duration) {
        if let Some(&at) = self.index.get(name) {
            self.partitions[at].last_record = now;
        }
    }

    /// Partitions that have had nothing for long enough leave the minimum; the watermark to tell if it moved.
    pub(super) fn mark_idle(&mut self, now: Duration) -> Option<Timestamp> {
        let idle_after = self.settings.idle_after?;
        let mut moved = Merged::Unchanged;
        for (at, partition) in self.partitions.iter_mut().enumerate() {
            if !partition.finished && !partition.idle && now.saturating_sub(partition.last_record) >= idle_after {
                partition.idle = true;
                if let Merged::Advanced(watermark) = self.merge.idle(at) {
                    moved = Merged::Advanced(watermark);
                }
            }
        }
        self.tell(moved)
    }

    /// When the next partition becomes idle.
    pub(super) fn next_idle(&self, now: Duration) -> Option<Duration> {
        let idle_after = self.settings.idle_after?;
        let waiting = self.partitions.iter().filter(|partition| !partition.finished && !partition.idle);
        waiting.map(|partition| (partition.last_record + idle_after).saturating_sub(now)).min()
    }

    /// Whether all partitions are idle, and so the whole source.
    pub(super) fn all_idle(&self) -> bool {
        self.merge.all_idle()
    }

    /// Where a source stands that follows the wall clock and has nothing to read.
    pub(super) fn idle_watermark(&mut self, now_ms: i64) -> Option<Timestamp> {
        let follows = self.settings.by_clock || self.settings.when_all_idle == WhenAllIdle::Advance && self.all_idle();
        if !follows || self.settings.emit == Emit::AtEnd {
            return None;
        }
        if self.settings.by_clock {
            self.clock = self.clock.max(now_ms);
            return Some(self.clock);
        }
        Some(now_ms.saturating_sub(self.settings.bound_ms))
    }

    /// How the watermark is told.
    pub(super) fn emit(&self) -> Emit {
        self.settings.emit
    }

    /// What a checkpoint keeps of each partition.
    pub(super) fn positions(&self, partitions: Vec<crate::source::Partition>) -> BTreeMap<String, PartitionPosition> {
        let position = |partition: crate::source::Partition| {
            let own = self.index.get(&partition.name).map_or(START, |&at| self.partitions[at].bounded.watermark());
            // The clock was told while a partition had nothing, too.
            let watermark = if self.settings.by_clock { own.max(self.clock) } else { own };
            (
                partition.name.to_string(),
                PartitionPosition { next: partition.next, watermark, finished: partition.finished },
            )
        };
        partitions.into_iter().map(position).collect()
    }

    fn finish(&mut self, at: usize) -> Merged {
        self.partitions[at].finished = true;
        self.merge.finish(at)
    }

    fn tell(&self, merged: Merged) -> Option<Timestamp> {
        match merged {
            // The end is told when the source says that nothing else will come.
            Merged::Advanced(watermark) if watermark != END && self.settings.emit != Emit::AtEnd => Some(watermark),
            _ => None,
        }
    }
}

impl Tolerance {
    fn refuses(&self, timestamp: Timestamp, arrival: Timestamp) -> bool {
        let ahead = timestamp.saturating_sub(arrival);
        self.ahead_ms.is_some_and(|most| ahead > most)
            || self.behind_ms.is_some_and(|most| ahead.saturating_neg() > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn time(settings: impl FnOnce(&mut SourceTimeSettings)) -> SourceTime {
        let mut chosen = SourceTimeSettings {
            by_clock: false,
            bound_ms: 10,
            emit: Emit::Periodic,
            idle_after: Some(60 * SECOND),
            when_all_idle: WhenAllIdle::Hold,
            tolerance: Tolerance { ahead_ms: Some(100), behind_ms: None, on_excess: Excess::DeadLetter },
        };
        settings(&mut chosen);
        SourceTime::new(chosen)
    }

    fn rows(timestamps: &[i64]) -> Batch {
        Batch { timestamps: timestamps.to_vec(), ..Batch::default() }
    }

    #[test]
    fn partition_without_a_record_holds_time_until_it_is_idle() {
        let mut time = time(|_| {});
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        time.add(&a, START, false, Duration::ZERO);
        time.add(&b, START, false, Duration::ZERO);
        assert_eq!(time.observe(&a, &[100], 50 * SECOND), None);
        assert_eq!(time.mark_idle(60 * SECOND), Some(90));
        assert!(!time.all_idle());
        assert_eq!(time.mark_idle(110 * SECOND), None);
        assert!(time.all_idle());
        assert_eq!(time.observe(&a, &[200], 111 * SECOND), Some(190));
        assert!(!time.all_idle());
    }

    #[test]
    fn partition_whose_turn_has_not_come_is_not_idle() {
        let mut time = time(|_| {});
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        time.add(&a, START, false, Duration::ZERO);
        time.add(&b, START, false, Duration::ZERO);
        assert_eq!(time.observe(&a, &[100], 100 * SECOND), None);
        time.postpone(&b, 100 * SECOND);
        assert_eq!(time.mark_idle(100 * SECOND), None, "time waits for `b`");
        assert_eq!(time.mark_idle(159 * SECOND), None);
    }

    #[test]
    fn record_put_aside_never_moves_the_watermark() {
        let mut time = time(|_| {});
        let a: Arc<str> = "a".into();
        time.add(&a, START, false, Duration::ZERO);
        let sorted = time.sort(rows(&[100, 5000, 120, 9000]), &[100, 100, 100, UNKNOWN_ARRIVAL]);
        assert_eq!(sorted.kept.timestamps, [100, 120, 9000], "where the arrival is unknown nothing is judged");
        assert_eq!(sorted.refused.expect("one row is out").timestamps, [5000]);
        assert_eq!(sorted.dead[0].1, "timestamp 5000 lies 4900 ms after the arrival, out of tolerance");
        assert_eq!(time.observe(&a, &sorted.kept.timestamps[..2], SECOND), Some(110));
    }

    #[test]
    fn excess_is_replaced_by_the_arrival_or_sent_aside_as_the_job_says() {
        let replace = time(|settings| settings.tolerance.on_excess = Excess::Replace);
        assert_eq!(replace.sort(rows(&[5000]), &[7]).kept.timestamps, [7]);
        let side = time(|settings| {
            settings.tolerance = Tolerance { ahead_ms: None, behind_ms: Some(50), on_excess: Excess::SideOutput };
        });
        let sorted = side.sort(rows(&[5000, 1]), &[7, 100]);
        assert_eq!(sorted.kept.timestamps, [5000]);
        assert_eq!(sorted.side.expect("one row is out").timestamps, [1]);
    }

    #[test]
    fn nothing_is_told_before_the_end_when_the_watermark_comes_at_the_end() {
        let mut time = time(|settings| settings.emit = Emit::AtEnd);
        let a: Arc<str> = "a".into();
        time.add(&a, START, false, Duration::ZERO);
        assert_eq!(time.observe(&a, &[100], SECOND), None);
    }

    #[test]
    fn source_by_the_clock_never_waits_and_never_goes_back() {
        let mut time = time(|settings| (settings.by_clock, settings.bound_ms) = (true, 0));
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        time.add(&a, START, false, Duration::ZERO);
        time.add(&b, START, false, Duration::ZERO);
        let mut stamped = |now_ms| {
            let mut batch = rows(&[0, 0]);
            time.stamp(&mut batch, now_ms);
            let told = time.observe(&a, &batch.timestamps, SECOND);
            (batch.timestamps, told, time.idle_watermark(now_ms + 5))
        };
        assert_eq!(stamped(100), (vec![100, 100], Some(100), Some(105)), "`b` does not hold it back");
        assert_eq!(stamped(50), (vec![105, 105], Some(105), Some(105)), "the clock was put back");
        assert_eq!(time.sort(rows(&[105]), &[-1_000]).kept.timestamps, [105], "no arrival judges it");
        let position = crate::source::Partition { name: b, next: 7.into(), finished: false };
        assert_eq!(time.positions(vec![position])["b"].watermark, 105, "what was told is kept");
    }

    #[test]
    fn restored_partition_goes_on_from_its_watermark() {
        let mut time = time(|_| {});
        let a: Arc<str> = "a".into();
        time.add(&a, 90, false, Duration::ZERO);
        assert_eq!(time.start(), Some(90));
        assert_eq!(time.observe(&a, &[95], SECOND), None);
        let position = crate::source::Partition { name: a, next: 7.into(), finished: false };
        assert_eq!(time.positions(vec![position])["a"].watermark, 90);
    }

    #[test]
    fn each_ride_of_the_worked_example_moves_the_watermark_as_written() {
        let second = |minute: i64, second: i64| (minute * 60 + second) * 1000;
        // Minutes and seconds after 09:00 of r1 to r12, and the watermark after each.
        let rides =
            [(0, 5), (0, 20), (0, 40), (0, 55), (1, 10), (0, 50), (1, 30), (1, 45), (0, 58), (2, 5), (2, 20), (2, 40)];
        let after = [
            (-1, 35),
            (-1, 50),
            (0, 10),
            (0, 25),
            (0, 40),
            (0, 40),
            (1, 0),
            (1, 15),
            (1, 15),
            (1, 35),
            (1, 50),
            (2, 10),
        ];
        let mut time = time(|settings| {
            settings.bound_ms = 30_000;
            settings.emit = Emit::PerRecord;
        });
        let a: Arc<str> = "a".into();
        time.add(&a, START, false, Duration::ZERO);
        let mut watermark = START;
        for (ride, expected) in rides.into_iter().zip(after) {
            watermark = time.observe(&a, &[second(ride.0, ride.1)], SECOND).unwrap_or(watermark);
            assert_eq!(watermark, second(expected.0, expected.1), "after the ride of {ride:?}");
        }
    }
}
