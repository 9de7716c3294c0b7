//! When the next checkpoint may begin, when the one under way has taken too long, and how many may be abandoned in a row.
//! Decisions only: it is told what time it is, the coordinator acts.

use dataflow::checkpoint::CheckpointMode;
use dataflow::element::Cut;
use std::time::Duration;

/// When checkpoints are taken, how many stay, and how many may be abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// So long after the last one began; none where records count.
    pub every: Option<Duration>,
    /// Decided checkpoints that are kept.
    pub keep: usize,
    /// One that takes longer is abandoned, and the job goes on.
    pub timeout: Duration,
    /// The least time between the end of one, decided or abandoned, and the beginning of the next. The last is not held up.
    pub min_pause: Duration,
    /// So many in a row may be abandoned, and the job goes on; none: any number.
    pub tolerated_failures: Option<u64>,
    /// What they promise.
    pub mode: CheckpointMode,
}

/// Times are of the monotonic clock.
#[derive(Debug)]
pub(super) struct Schedule {
    settings: CheckpointSettings,
    began: Duration,
    ended: Option<Duration>,
    failures: u64,
}

impl Schedule {
    /// For a job that starts at `now`.
    pub(super) fn new(settings: CheckpointSettings, now: Duration) -> Self {
        Self { settings, began: now, ended: None, failures: 0 }
    }

    /// When the next begins; none where records count.
    pub(super) fn next(&self) -> Option<Duration> {
        let earliest = self.ended.map_or(Duration::ZERO, |ended| ended + self.settings.min_pause);
        self.settings.every.map(|every| (self.began + every).max(earliest))
    }

    /// When the one under way has taken too long.
    pub(super) fn deadline(&self) -> Duration {
        self.began + self.settings.timeout
    }

    /// When the last one began.
    pub(super) fn began(&self) -> Duration {
        self.began
    }

    /// How the barriers of the next cut. One that must be whole in itself is settled, such as the last, and so are those by records,
    /// which are counted to be cut exactly there.
    pub(super) fn cut(&self, whole: bool) -> Cut {
        if whole || self.settings.every.is_none() { Cut::Settled } else { self.settings.mode.cut() }
    }

    pub(super) fn begin(&mut self, now: Duration) {
        self.began = now;
    }

    /// Decided and applied.
    pub(super) fn complete(&mut self, now: Duration) {
        self.ended = Some(now);
        self.failures = 0;
    }

    /// Abandoned: how many were in a row if that is more than the job tolerates.
    pub(super) fn abandon(&mut self, now: Duration) -> Result<(), u64> {
        self.ended = Some(now);
        self.failures += 1;
        match self.settings.tolerated_failures {
            Some(tolerated) if self.failures > tolerated => Err(self.failures),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule(settings: impl FnOnce(&mut CheckpointSettings)) -> Schedule {
        let mut chosen = CheckpointSettings {
            every: Some(10 * SECOND),
            keep: 1,
            timeout: 60 * SECOND,
            min_pause: Duration::ZERO,
            tolerated_failures: None,
            mode: CheckpointMode::ExactlyOnce,
        };
        settings(&mut chosen);
        Schedule::new(chosen, 100 * SECOND)
    }

    #[test]
    fn next_begins_so_long_after_the_last_one_began() {
        let mut schedule = schedule(|_| {});
        assert_eq!(schedule.next(), Some(110 * SECOND));
        schedule.begin(112 * SECOND);
        assert_eq!(schedule.deadline(), 172 * SECOND);
        schedule.complete(115 * SECOND);
        assert_eq!(schedule.next(), Some(122 * SECOND));
    }

    #[test]
    fn pause_after_the_end_holds_up_the_next() {
        let mut schedule = schedule(|settings| settings.min_pause = 8 * SECOND);
        assert_eq!(schedule.next(), Some(110 * SECOND));
        schedule.begin(110 * SECOND);
        schedule.complete(111 * SECOND);
        assert_eq!(schedule.next(), Some(120 * SECOND));
        schedule.begin(120 * SECOND);
        assert_eq!(schedule.abandon(125 * SECOND), Ok(()));
        assert_eq!(schedule.next(), Some(133 * SECOND));
    }

    #[test]
    fn only_failures_in_a_row_count_as_many() {
        let mut schedule = schedule(|settings| settings.tolerated_failures = Some(1));
        assert_eq!(schedule.abandon(SECOND), Ok(()));
        schedule.complete(2 * SECOND);
        assert_eq!(schedule.abandon(3 * SECOND), Ok(()));
        assert_eq!(schedule.abandon(4 * SECOND), Err(2));
    }

    #[test]
    fn any_number_of_failures_is_tolerated_unless_the_job_says_otherwise() {
        let mut schedule = schedule(|_| {});
        assert!((0..1000).all(|_| schedule.abandon(SECOND).is_ok()));
    }

    #[test]
    fn barriers_cut_as_the_mode_says_but_for_the_last_and_those_by_records() {
        let unaligned = |settings: &mut CheckpointSettings| settings.mode = CheckpointMode::Unaligned;
        assert_eq!(schedule(unaligned).cut(false), Cut::Overtaking);
        assert_eq!(schedule(unaligned).cut(true), Cut::Settled);
        let by_records = schedule(|settings| *settings = CheckpointSettings { every: None, ..*settings });
        assert_eq!((by_records.cut(false), by_records.next()), (Cut::Settled, None));
    }
}
