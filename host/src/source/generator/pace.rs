//! How many records are due by now, at so many a second of processing time. Knows nothing of event time.

use std::time::Duration;

/// A task asks again no sooner than this.
const WAIT_MIN: Duration = Duration::from_millis(2);

/// A rate, and what has been given since when.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: f64,
    since: Option<Duration>,
    given: f64,
}

impl Pace {
    pub(super) fn new(per_second: f64) -> Self {
        Self { per_second, since: None, given: 0.0 }
    }

    /// Records due at `now`, at least 1; or how long until one is. The clock starts with the first question. What was held
    /// up is made up for by at most one second's records.
    pub(super) fn due(&mut self, now: Duration) -> Result<usize, Duration> {
        let since = *self.since.get_or_insert(now);
        let earned = now.saturating_sub(since).as_secs_f64() * self.per_second;
        self.given = self.given.max(earned - self.per_second.max(1.0));
        let due = earned - self.given;
        if due >= 1.0 {
            return Ok(due as usize);
        }
        Err(Duration::from_secs_f64(((1.0 - due) / self.per_second).min(3600.0)).max(WAIT_MIN))
    }

    /// So many were given.
    pub(super) fn gave(&mut self, records: usize) {
        self.given += records as f64;
    }
}
