//! How much a channel may hold so that what lies in it is about a second's work for its receiver. A barrier then never queues
//! behind minutes of data. Decisions only: it is told what time it is.

use std::time::Duration;

/// Work that may lie in a channel, as time of its receiver.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// The receiver is measured over at least so long.
const MEASURE: Duration = Duration::from_millis(250);

/// Bytes that a channel may always hold, however slow its receiver. It begins with them: what piles up before a slow receiver was
/// measured would be in the way of the first barriers.
pub(super) const BYTES_MIN: usize = 16 << 10;

/// The receiver's rate, measured while there is something to receive, and the bound that follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    most: usize,
    bytes_max: usize,
    since: Option<Duration>,
    received: usize,
}

impl Pace {
    /// Of a channel that may hold `most` bytes once its receiver has turned out to be fast enough.
    pub(super) fn new(most: usize) -> Self {
        Self { most, bytes_max: most.min(BYTES_MIN), since: None, received: 0 }
    }

    /// Bytes that the channel may hold.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The receiver took `bytes` at `now`, and has then worked on what it took before. Its rate is known once that was long enough.
    pub(super) fn took(&mut self, bytes: usize, now: Duration) {
        let since = *self.since.get_or_insert(now);
        let worked = now.saturating_sub(since);
        if worked >= MEASURE {
            let rate = self.received as f64 / worked.as_secs_f64();
            let fits = (rate * IN_FLIGHT.as_secs_f64()) as usize;
            self.bytes_max = fits.clamp(BYTES_MIN.min(self.most), self.most);
            (self.since, self.received) = (Some(now), 0);
        }
        // What is taken now is worked on from now.
        self.received += bytes;
    }

    /// The receiver found nothing: it is faster than the sender, or than so small a channel lets it be.
    pub(super) fn ran_empty(&mut self) {
        self.bytes_max = self.bytes_max.saturating_mul(2).min(self.most);
        self.pause();
    }

    /// The receiver turns to other things for a while, which says nothing of its rate.
    pub(super) fn pause(&mut self) {
        (self.since, self.received) = (None, 0);
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
    fn channel_that_runs_empty_may_hold_more_again() {
        let mut pace = Pace::new(MOST);
        after(&mut pace, 3, 100, 60_000);
        pace.ran_empty();
        assert_eq!(pace.bytes_max(), 2 * BYTES_MIN);
        (0..10).for_each(|_| pace.ran_empty());
        assert_eq!(pace.bytes_max(), MOST);
    }

    #[test]
    fn time_in_which_nothing_is_taken_on_purpose_is_not_measured() {
        let mut pace = Pace::new(MOST);
        pace.took(500_000, ms(0));
        pace.pause();
        pace.took(500_000, ms(60_000));
        pace.took(500_000, ms(60_250));
        assert_eq!(pace.bytes_max(), 2_000_000);
    }
}
