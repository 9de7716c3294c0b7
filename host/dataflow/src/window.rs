//! Which window a record belongs to, until when it may still come, and what a pane is called.
//!
//! Windows are made of *slices*, known by their end: state is kept per (slice, key), so that windows that overlap will
//! share it. A tumbling window is one slice. Nothing here keeps state or sends anything.

use crate::time::{END, Timestamp};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A stretch of event time: `start` belongs to it, `end` to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    /// First timestamp in it.
    pub start: Timestamp,
    /// First timestamp after it.
    pub end: Timestamp,
}

impl Slice {
    /// Whether a record with this timestamp belongs to it.
    #[inline]
    pub fn contains(self, timestamp: Timestamp) -> bool {
        self.start <= timestamp && timestamp < self.end
    }
}

/// Windows of one size, end to end, aligned to the Unix epoch plus an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tumbling {
    size: i64,
    /// In `0..size`.
    offset: i64,
}

/// Why a window cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidWindow {
    /// A window needs an extent.
    #[error("a window of {0} ms: a window's size must be at least 1 ms")]
    Size(i64),
    /// Lateness is a length of time.
    #[error("an allowed lateness of {0} ms: it must not be negative")]
    Lateness(i64),
}

impl std::fmt::Display for Tumbling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tumbling: {}ms", self.size)?;
        if self.offset == 0 { Ok(()) } else { write!(f, ", offset: {}ms", self.offset) }
    }
}

impl Tumbling {
    /// Windows of `size` ms, one of which starts at `offset` ms; the offset may be negative or longer than a window.
    ///
    /// # Errors
    /// The size is not positive.
    pub fn new(size: i64, offset: i64) -> Result<Self, InvalidWindow> {
        if size < 1 {
            return Err(InvalidWindow::Size(size));
        }
        Ok(Self { size, offset: offset.rem_euclid(size) })
    }

    /// The slice a record with this timestamp belongs to. Cut off where 64 bits end.
    #[inline]
    pub fn slice(self, timestamp: Timestamp) -> Slice {
        // Both terms lie in 0..size, so the difference cannot overflow.
        let into = timestamp.rem_euclid(self.size) - self.offset;
        let into = if into < 0 { into + self.size } else { into };
        Slice { start: timestamp.saturating_sub(into), end: timestamp.saturating_add(self.size - into) }
    }

    /// Where the window that ends at `end` starts.
    #[inline]
    pub fn start(self, end: Timestamp) -> Timestamp {
        end.saturating_sub(self.size)
    }
}

/// Whether a window still takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// W < end: a record goes in, the pane comes later.
    Open,
    /// end ≤ W < end + lateness: it has fired on time; a record goes in and makes a late pane.
    Late,
    /// end + lateness ≤ W: its state is gone; a record is too late.
    Closed,
}

/// How long after its end a window still takes records, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lateness(i64);

impl Lateness {
    /// An allowed lateness of `ms`.
    ///
    /// # Errors
    /// It is negative.
    pub fn new(ms: i64) -> Result<Self, InvalidWindow> {
        if ms < 0 { Err(InvalidWindow::Lateness(ms)) } else { Ok(Self(ms)) }
    }

    /// The watermark at which the window that ends at `end` is freed.
    #[inline]
    pub fn closes_at(self, end: Timestamp) -> Timestamp {
        end.saturating_add(self.0)
    }

    /// What becomes of a record of the window that ends at `end` while the watermark stands at `watermark`.
    #[inline]
    pub fn phase(self, end: Timestamp, watermark: Timestamp) -> Phase {
        if watermark < end {
            Phase::Open
        } else if watermark < self.closes_at(end) {
            Phase::Late
        } else {
            Phase::Closed
        }
    }
}

/// Why a pane was sent when it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Before the watermark reached the window's end.
    Early,
    /// When it did.
    OnTime,
    /// For a record that came after that.
    Late,
    /// The input ended before.
    EndOfInput,
}

impl Timing {
    /// The timing of a window that fires because the watermark came to `watermark`.
    pub fn at(watermark: Timestamp) -> Self {
        if watermark == END { Self::EndOfInput } else { Self::OnTime }
    }

    /// The name users see in `/pane/timing`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::OnTime => "on_time",
            Self::Late => "late",
            Self::EndOfInput => "end_of_input",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slice(size: i64, offset: i64, timestamp: i64) -> (i64, i64) {
        let slice = Tumbling::new(size, offset).unwrap().slice(timestamp);
        (slice.start, slice.end)
    }

    #[test]
    fn a_record_at_the_end_belongs_to_the_next_window() {
        assert_eq!(slice(60_000, 0, 59_999), (0, 60_000));
        assert_eq!(slice(60_000, 0, 60_000), (60_000, 120_000));
    }

    #[test]
    fn negative_timestamps_and_offsets_are_aligned_as_positive_ones() {
        assert_eq!(slice(60, 0, -1), (-60, 0));
        assert_eq!(slice(60, 0, -60), (-60, 0));
        assert_eq!(slice(60, 0, -61), (-120, -60));
        assert_eq!(slice(60, 15, 14), (-45, 15));
        assert_eq!(slice(60, -15, 44), (-15, 45));
        assert_eq!(slice(60, -15, 45), (45, 105));
        assert_eq!(slice(60, 615, 15), (15, 75));
    }

    #[test]
    fn windows_are_cut_off_where_64_bits_end() {
        assert_eq!(slice(1_000, 0, i64::MAX).1, i64::MAX);
        assert_eq!(slice(1_000, 0, i64::MIN).0, i64::MIN);
        assert_eq!(slice(i64::MAX, 7, -1), (7 - i64::MAX, 7));
    }

    #[test]
    fn windows_without_extent_and_negative_lateness_are_refused() {
        assert_eq!(Tumbling::new(0, 0), Err(InvalidWindow::Size(0)));
        assert_eq!(Lateness::new(-1), Err(InvalidWindow::Lateness(-1)));
    }

    #[test]
    fn a_window_takes_records_until_the_watermark_reaches_end_plus_lateness() {
        let lateness = Lateness::new(60).unwrap();
        let phases = [99, 100, 159, 160].map(|watermark| lateness.phase(100, watermark));
        assert_eq!(phases, [Phase::Open, Phase::Late, Phase::Late, Phase::Closed]);
    }

    #[test]
    fn without_lateness_a_window_closes_as_it_fires() {
        let none = Lateness::default();
        assert_eq!((none.phase(100, 99), none.phase(100, 100)), (Phase::Open, Phase::Closed));
    }

    #[test]
    fn the_end_of_input_closes_every_window_however_long_the_lateness() {
        assert_eq!(Lateness::new(i64::MAX).unwrap().phase(100, END), Phase::Closed);
        assert_eq!(Timing::at(END), Timing::EndOfInput);
    }

    proptest! {
        #[test]
        fn every_timestamp_lies_in_its_slice_and_slices_are_aligned(
            timestamp in -1_000_000_000_000_000i64..1_000_000_000_000_000, size in 1i64..10_000_000, offset in any::<i32>()
        ) {
            let slice = Tumbling::new(size, offset.into()).unwrap().slice(timestamp);
            prop_assert!(slice.contains(timestamp));
            prop_assert_eq!(slice.end - slice.start, size);
            prop_assert_eq!((slice.start - i64::from(offset)) % size, 0);
        }
    }
}
