//! Tumbling windows that keep every record as it came and judge each by itself.

use crate::time::{END, START, Timestamp};
use crate::window::Timing;
use std::collections::BTreeMap;

/// Tumbling windows per key.
#[derive(Debug)]
pub struct Windows<V> {
    size: i64,
    offset: i64,
    lateness: i64,
    watermark: Timestamp,
    /// By end and key: the values in the order they came, and how many panes were sent.
    windows: BTreeMap<(Timestamp, String), (Vec<V>, u32)>,
}

/// One emission of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Pane<V> {
    /// Whose.
    pub key: String,
    /// The window's first ms.
    pub start: Timestamp,
    /// Why it was sent.
    pub timing: Timing,
    /// How many panes of the window and key came before.
    pub index: u32,
    /// Every value of the window and key so far.
    pub values: Vec<V>,
}

/// What becomes of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Judged<V> {
    /// It waits for its window's end.
    Kept,
    /// Its window has fired: a late pane.
    LatePane(Pane<V>),
    /// Its window is closed.
    TooLate,
}

impl<V: Clone> Windows<V> {
    /// Of this size, shifted by `offset` from the epoch, open for `lateness` beyond their end; ms.
    pub fn new(size: i64, offset: i64, lateness: i64) -> Self {
        Self { size, offset, lateness, watermark: START, windows: BTreeMap::new() }
    }

    /// A record comes.
    pub fn record(&mut self, key: &str, at: Timestamp, value: V) -> Judged<V> {
        let end = (at - self.offset).div_euclid(self.size) * self.size + self.offset + self.size;
        if self.watermark >= end + self.lateness {
            return Judged::TooLate;
        }
        let window = (end, key.to_string());
        self.windows.entry(window.clone()).or_default().0.push(value);
        if self.watermark >= end { Judged::LatePane(self.pane(&window, Timing::Late)) } else { Judged::Kept }
    }

    /// The watermark moves to `to`: the panes of all windows that end on the way.
    pub fn advance(&mut self, to: Timestamp) -> Vec<Pane<V>> {
        let timing = if to == END { Timing::EndOfInput } else { Timing::OnTime };
        let from = std::mem::replace(&mut self.watermark, to);
        let ended: Vec<_> = self.windows.keys().filter(|(end, _)| from < *end && *end <= to).cloned().collect();
        let panes = ended.iter().map(|window| self.pane(window, timing)).collect();
        self.windows.retain(|(end, _), _| to < end.saturating_add(self.lateness));
        panes
    }

    /// Windows that are still kept, one for each key.
    pub fn kept(&self) -> usize {
        self.windows.len()
    }

    fn pane(&mut self, window: &(Timestamp, String), timing: Timing) -> Pane<V> {
        let (values, panes) = self.windows.get_mut(window).expect("a window that fires has a record");
        let (end, key) = window;
        let (index, values) = (*panes, values.clone());
        *panes += 1;
        Pane { key: key.clone(), start: end - self.size, timing, index, values }
    }
}

#[test]
fn worked_example_with_a_minute_of_lateness() {
    let mut windows = Windows::new(60, 0, 60);
    assert_eq!(windows.record("Pune", 5, 'a'), Judged::Kept);
    assert_eq!(windows.record("Pune", 60, 'b'), Judged::Kept);
    let pane = |start, timing, index, values: &str| Pane {
        key: "Pune".to_string(),
        start,
        timing,
        index,
        values: values.chars().collect(),
    };
    assert_eq!(windows.advance(75), [pane(0, Timing::OnTime, 0, "a")]);
    assert_eq!(windows.record("Pune", 59, 'c'), Judged::LatePane(pane(0, Timing::Late, 1, "ac")));
    assert_eq!(windows.kept(), 2);
    assert_eq!(windows.advance(130), [pane(60, Timing::OnTime, 0, "b")]);
    assert_eq!((windows.record("Pune", 59, 'd'), windows.kept()), (Judged::TooLate, 1));
    assert_eq!((windows.advance(END), windows.kept()), (vec![], 0));
}
