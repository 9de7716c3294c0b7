//! What time it is on each clock, for telling which rows have expired.

use dataflow::time::{Clock, START, Timestamp};

/// Watermark and processing time.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct Clocks {
    pub(in crate::state) watermark: Timestamp,
    pub(in crate::state) now: Timestamp,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { watermark: START, now: START }
    }
}

impl Clocks {
    /// What the stamps of a state's rows are compared with to tell whether they have expired; none without a time to live.
    pub(in crate::state) fn of(self, ttl: Option<Clock>) -> Option<Timestamp> {
        Some(match ttl? {
            Clock::EventTime => self.watermark,
            Clock::ProcessingTime => self.now,
        })
    }
}
