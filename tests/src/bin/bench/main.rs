//! `bench TABLE --records N --rounds N`: measures contenders on the same data in one run, interleaved over the rounds, and
//! prints what they cost beside each other. Ratios of one run compare across machines, records per second do not. What is
//! measured and why is in docs/benchmarks.md; `scripts/bench` builds and calls this.

mod backpressure; // table `backpressure`: checkpoints before a slow sink
mod bare; // the loops a job is compared with
mod guest; // table `guest`: an operator in the host and as a component
mod measure; // what a run costs
mod rides; // table `rides`: a whole job
mod state; // table `state`: either backend, and what a large state costs
mod table; // rounds and their ratios

use anyhow::{Context as _, Result, bail};
use std::path::Path;

const TABLES: &str = "`rides`, `guest`, `backpressure` and `state`";

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Extent {
    records: usize,
    rounds: usize,
    /// Bytes of rows in the state whose size is measured.
    state_bytes: u64,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        // What `rides` runs as a process of its own, so that it is measured like a job.
        ["loop", kind, from, to] => bare::run(kind, Path::new(from), Path::new(to)),
        [table, ref options @ ..] => {
            let extent = extent(options)?;
            match table {
                "rides" => rides::measure(extent),
                "guest" => guest::measure(extent),
                "backpressure" => backpressure::measure(extent),
                "state" => state::measure(extent),
                _ => bail!("no table `{table}`: there are {TABLES}"),
            }
        }
        [] => bail!("name a table: {TABLES}"),
    }
}

fn extent(options: &[&str]) -> Result<Extent> {
    let mut extent = Extent { records: 5_000_000, rounds: 5, state_bytes: 1_000_000_000 };
    for pair in options.chunks(2) {
        let [name, number] = pair else { bail!("`{}` needs a number", pair[0]) };
        let number: usize = number.parse().with_context(|| format!("`{name}` needs a number, not `{number}`"))?;
        match *name {
            "--records" => extent.records = number.max(1),
            "--rounds" => extent.rounds = number.max(1),
            "--state-bytes" => extent.state_bytes = number as u64,
            other => bail!("no option `{other}`: there are `--records`, `--rounds` and `--state-bytes`"),
        }
    }
    Ok(extent)
}
