//! The rule itself, apart from how a pane comes in and an alert goes out.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    threshold: f64,
    windows: usize,
    minimum: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self { threshold: 3.0, windows: 5, minimum: 5 }
    }
}

impl Config {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.windows {
            0 => Err("`windows` must be at least 1: there is nothing to compare with otherwise"),
            _ => Ok(()),
        }
    }

    /// Takes a pane among the newest windows of its city, `recent` (start and count, in order): the count that is usual, if the pane's
    /// is a surge.
    pub(crate) fn judge(&self, recent: &mut Vec<(i64, i64)>, start: i64, count: i64) -> Option<f64> {
        remember(recent, start, count, self.windows + 1);
        let usual = mean_before(recent, start, self.windows)?;
        (count >= self.minimum && count as f64 >= self.threshold * usual).then_some(usual)
    }
}

/// Puts a window among the others, in place of its earlier pane, and keeps the newest `keep`.
fn remember(recent: &mut Vec<(i64, i64)>, start: i64, count: i64, keep: usize) {
    match recent.binary_search_by_key(&start, |(start, _)| *start) {
        Ok(place) => recent[place].1 = count,
        Err(place) => recent.insert(place, (start, count)),
    }
    let too_many = recent.len().saturating_sub(keep);
    recent.drain(..too_many);
}

/// The mean count of the last windows before one; none if there is none.
fn mean_before(recent: &[(i64, i64)], start: i64, windows: usize) -> Option<f64> {
    let before = recent.iter().rev().filter(|(of, _)| *of < start).take(windows);
    let (sum, number) = before.fold((0, 0), |(sum, number), (_, count)| (sum + count, number + 1));
    (number > 0).then(|| sum as f64 / f64::from(number))
}
