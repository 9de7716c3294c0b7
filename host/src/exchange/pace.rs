//! How much a channel may hold so that what lies in it is about a second's work for its receiver. A barrier then never queues
//! behind minutes of data. Decisions only: it is told what time it is.

use std::time::Duration;

/// Work that may lie in a channel, as time of its receiver.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// The receiver is measured over so much of its work, or over as many bytes as the channel may ever hold.
const MEASURE: Duration = Duration::from_millis(250);

/// Bytes that a channel may always hold, however slow its receiver. It begins with them: what piles up before a slow receiver was
/// measured would be in the way of the first barriers.
pub(super) const BYTES_MIN: usize = 16 << 10;

/// The receiver's rate, measured while it works on what it received, and the bound that follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    most: usize,
    bytes_max: usize,
    is_measured: bool,
    /// Since when it works on what it took last.
    since: Option<Duration>,
    last: usize,
    /// What it worked on since the last measurement, and how long.
    received: usize,
    worked: Duration,
}

impl Pace {
    /// Of a channel that may hold `most` bytes once its receiver has turned out to be fast enough.
    pub(super) fn new(most: usize) -> Self {
        let bytes_max = most.min(BYTES_MIN);
        Self { most, bytes_max, is_measured: false, since: None, received: 0, last: 0, worked: Duration::ZERO }
    }

    /// Bytes that the channel may hold.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The receiver took `bytes` at `now`, and has worked on what it took before.
    pub(super) fn took(&mut self, bytes: usize, now: Duration) {
        self.pause(now);
        (self.since, self.last) = (Some(now), bytes);
    }

    /// The receiver found nothing at `now`. As long as nothing is known of it, it may be faster than so small a channel lets it be.
    pub(super) fn ran_empty(&mut self, now: Duration) {
        self.pause(now);
        if !self.is_measured {
            self.bytes_max = self.bytes_max.saturating_mul(2).min(self.most);
        }
    }

    /// The receiver has worked on what it took, and turns to other things at `now`, which say nothing of its rate.
    pub(super) fn pause(&mut self, now: Duration) {
        let Some(since) = self.since.take() else { return };
        self.worked += now.saturating_sub(since);
        self.received += self.last;
        if self.worked < MEASURE && self.received < self.most {
            return;
        }
        let rate = self.received as f64 / self.worked.as_secs_f64();
        // Infinitely fast is as fast as can be.
        let fits = (rate * IN_FLIGHT.as_secs_f64()) as usize;
        self.bytes_max = fits.clamp(BYTES_MIN.min(self.most), self.most);
        (self.is_measured, self.worked, self.received) = (true, Duration::ZERO, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4 << 20;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A receiver that works so long on each element of so many bytes.
    fn after(pace: &mut Pace, elements: u64, bytes: usize, each: u64) -> usize {
        (0..elements).for_each(|element| pace.took(bytes, ms(element * each)));
        pace.bytes_max()
    }

    #[test]
    fn channel_holds_about_a_second_of_its_receivers_work() {
        assert_eq!(after(&mut Pace::new(MOST), 100, 10_000, 10), 1_000_000);
        assert_eq!(after(&mut Pace::new(MOST), 10, 400_000, 2_000), 200_000);
    }

    #[test]
    fn bound_begins_at_its_floor_and_stays_between_that_and_the_most() {
        assert_eq!(Pace::new(MOST).bytes_max(), BYTES_MIN);
        assert_eq!(after(&mut Pace::new(MOST), 3, 100, 60_000), BYTES_MIN);
        assert_eq!(after(&mut Pace::new(MOST), 1_000, 1 << 20, 1), MOST);
        assert_eq!(after(&mut Pace::new(100), 3, 1, 60_000), 100, "a channel that is smaller than the floor stays so");
    }

    #[test]
    fn channel_that_runs_empty_may_hold_more_until_its_receiver_is_measured() {
        let mut pace = Pace::new(MOST);
        pace.ran_empty(ms(0));
        assert_eq!(pace.bytes_max(), 2 * BYTES_MIN);
        (0..10).for_each(|_| pace.ran_empty(ms(0)));
        assert_eq!(pace.bytes_max(), MOST);
        after(&mut pace, 3, 100, 60_000);
        pace.ran_empty(ms(200_000));
        assert_eq!(pace.bytes_max(), BYTES_MIN);
        // As fast again as can be: that is seen after so many bytes, however short it took.
        (0..65).for_each(|_| pace.took(MOST / 64, ms(200_000)));
        assert_eq!(pace.bytes_max(), MOST);
    }

    #[test]
    fn time_in_which_nothing_is_taken_on_purpose_is_not_measured_and_what_was_before_is() {
        let mut pace = Pace::new(MOST);
        for element in 0..10 {
            pace.took(10_000, ms(element * 60_000));
            pace.pause(ms(element * 60_000 + 50));
        }
        assert_eq!(pace.bytes_max(), 200_000);
    }
}
