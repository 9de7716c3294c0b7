//! A table of contenders: measured in turn, round by round, so that what else the machine does hits all of them alike. A
//! contender is compared with the first one of the same round; shown are median and range over the rounds.

use super::measure::Cost;
use anyhow::Result;
use std::io::Write as _;
use std::time::Duration;

/// How a contender is compared with the first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compared {
    /// How fast: the first one's time over its own. 0.5 is half as fast.
    Speed,
    /// How dear: its time over the first one's. 2 is twice as dear.
    Time,
}

/// Someone who does the work, and what it took in each round.
struct Contender<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Cost> + 'a>,
    costs: Vec<Cost>,
}

/// Contenders for the same work.
pub(crate) struct Table<'a> {
    title: String,
    records: usize,
    compared: Compared,
    contenders: Vec<Contender<'a>>,
}

impl<'a> Table<'a> {
    /// For work on so many records.
    pub(crate) fn new(title: impl Into<String>, records: usize, compared: Compared) -> Self {
        Self { title: title.into(), records, compared, contenders: vec![] }
    }

    /// Adds a contender; the first is what the others are compared with.
    pub(crate) fn contender(&mut self, name: impl Into<String>, run: impl FnMut() -> Result<Cost> + 'a) {
        self.contenders.push(Contender { name: name.into(), run: Box::new(run), costs: vec![] });
    }

    /// Measures all of them and prints the table.
    ///
    /// # Errors
    /// A contender fails.
    pub(crate) fn measure(mut self, rounds: usize) -> Result<()> {
        for _ in 0..rounds {
            for contender in &mut self.contenders {
                let cost = (contender.run)()?;
                contender.costs.push(cost);
            }
        }
        std::io::stdout().write_all(self.text(rounds).as_bytes())?;
        Ok(())
    }

    fn text(&self, rounds: usize) -> String {
        let what = match self.compared {
            Compared::Speed => "speed beside the first",
            Compared::Time => "time beside the first",
        };
        let mut text = format!(
            "\n{}: {} records, {rounds} rounds, median (least to most)\n{:<44} {:>8} {:>12} {:>22} {:>22}\n",
            self.title, self.records, what, "M/s", "M/s of CPU", "by CPU time", "by wall time"
        );
        for contender in &self.contenders {
            let rate = |of: fn(&Cost) -> Duration| {
                let rates = contender.costs.iter().map(|cost| self.records as f64 / 1e6 / of(cost).as_secs_f64());
                spread(rates.collect()).1
            };
            text += &format!(
                "{:<44} {:>8.2} {:>12.2} {:>22} {:>22}\n",
                contender.name,
                rate(|cost| cost.wall),
                rate(|cost| cost.cpu),
                self.ratios(contender, |cost| cost.cpu),
                self.ratios(contender, |cost| cost.wall)
            );
        }
        text
    }

    fn ratios(&self, contender: &Contender<'_>, of: impl Fn(&Cost) -> Duration) -> String {
        let pairs = self.contenders[0].costs.iter().zip(&contender.costs);
        let ratios = pairs.map(|(first, own)| match self.compared {
            Compared::Speed => of(first).as_secs_f64() / of(own).as_secs_f64(),
            Compared::Time => of(own).as_secs_f64() / of(first).as_secs_f64(),
        });
        let (least, median, most) = spread(ratios.collect());
        format!("{median:.2} ({least:.2} to {most:.2})")
    }
}

/// Least, median and most.
fn spread(mut numbers: Vec<f64>) -> (f64, f64, f64) {
    numbers.sort_by(f64::total_cmp);
    (numbers[0], numbers[numbers.len() / 2], numbers[numbers.len() - 1])
}
