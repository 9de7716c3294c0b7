//! Table `rides`: rides counted per city and minute, from a file to a file. Bare loops beside the `millstream` program with
//! the built-in window, and with a guest in front of it. All give the same rows, or the table fails.

use super::Extent;
use super::measure;
use super::table::{Compared, Table};
use anyhow::{Context as _, Result, ensure};
use dataflow::record::Schema;
use memchr::memmem;
use millstream::env::SystemClock;
use millstream::source::generator::{Factory, Kind, Settings};
use millstream::source::{Limit, Polled, Projection, Share, SourceFactory as _};
use millstream_tests::program::{millstream, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Rides of the run that comes before all measuring, in which components are compiled.
const WARM_UP: usize = 1000;

/// Rows: city, start of the minute, rides.
type Rows = BTreeMap<(String, i64), u64>;

/// A job that is measured.
struct Job {
    name: &'static str,
    title: &'static str,
    /// The project of the aggregator that counts; none: the built-in one.
    count: Option<&'static str>,
    /// Key and project of a guest in front of the window.
    front: Option<(&'static str, &'static str)>,
}

const JOBS: [Job; 5] = [
    Job { name: "built-in", title: "job, built-in count", count: None, front: None },
    Job { name: "tally", title: "job, count in a guest, by batch", count: Some("tests/guests/tally"), front: None },
    Job {
        name: "tally-records",
        title: "job, count in a guest, by record (SDK)",
        count: Some("tests/guests/tally-records"),
        front: None,
    },
    Job {
        name: "passing",
        title: "job, guest that passes all in front",
        count: None,
        front: Some(("/city", "tests/guests/passing")),
    },
    Job {
        name: "dedup",
        title: "job, guest that drops repeated ids in front",
        count: None,
        front: Some(("/ride_id", "examples/rides/dedup")),
    },
];

pub(super) fn measure(extent: Extent) -> Result<()> {
    let folder = tempfile::tempdir().context("a scratch folder")?;
    let folder = folder.path();
    for job in &JOBS {
        for project in [job.count, job.front.map(|(_, project)| project)].into_iter().flatten() {
            build(project, folder)?;
        }
        fs::write(folder.join(format!("{}.yaml", job.name)), job_file(job, folder))?;
    }
    write_rides(&folder.join("rides.ndjson"), WARM_UP)?;
    for job in &JOBS {
        measure::child(&mut run_job(folder, job.name))?;
    }
    write_rides(&folder.join("rides.ndjson"), extent.records)?;

    let mut table = Table::new("rides per city and minute, file to file", extent.records, Compared::Speed);
    for (kind, name) in [("search", "loop, only looks for two fields"), ("decode", "loop, decodes as the job does")] {
        table.contender(name, move || {
            let own = std::env::current_exe().context("a running program has a path")?;
            let to = folder.join(format!("{kind}.out"));
            let cost =
                measure::child(Command::new(own).args(["loop", kind]).arg(folder.join("rides.ndjson")).arg(&to))?;
            compare(folder, &to)?;
            Ok(cost)
        });
    }
    for &Job { name, title, .. } in &JOBS {
        table.contender(title, move || {
            let to = folder.join(format!("out-{name}"));
            if to.exists() {
                fs::remove_dir_all(&to)?;
            }
            let cost = measure::child(&mut run_job(folder, name))?;
            compare(folder, &to)?;
            Ok(cost)
        });
    }
    table.measure(extent.rounds)
}

/// Where the component of a project lies once it is built.
fn component(project: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{}.wasm", project.replace('/', "-")))
}

/// Builds it beforehand, as a user would who deploys it: what cargo costs is no part of the job.
fn build(project: &str, folder: &Path) -> Result<()> {
    let mut command = millstream();
    command.arg("build").arg(root().join(project)).arg("--out").arg(component(project, folder));
    measure::child(&mut command).map(|_| ())
}

fn job_file(Job { name, count, front, .. }: &Job, folder: &Path) -> String {
    let component = |project| component(project, folder).display().to_string();
    let count = count.map_or(String::new(), |project| format!("component: {}", component(project)));
    let (input, operator) = match front {
        None => ("rides", String::new()),
        Some((key, project)) => {
            ("front", format!("  front:\n    input: rides\n    key: {key}\n    component: {}\n", component(project)))
        }
    };
    format!(
        "name: {name}\ncheckpoint: {{ every: 10s }}\n\
         sources:\n  rides:\n    connector: file\n    path: rides.ndjson\n    \
         event_time: {{ field: /requested_at, format: unix_ms }}\n    watermark: {{ bound: 30s }}\n\
         operators:\n{operator}  per-minute:\n    input: {input}\n    key: /city\n    window: {{ tumbling: 1m }}\n    \
         aggregate: {{ count: {{ {count} }} }}\n\
         sinks:\n  rows: {{ input: per-minute, connector: file, path: out-{name}, times: unix_ms, \
         columns: [key, window_start, count] }}\n"
    )
}

fn run_job(folder: &Path, job: &str) -> Command {
    let mut command = millstream();
    command.current_dir(folder).args(["run", "--fresh", "--data-dir", &format!("data-{job}"), &format!("{job}.yaml")]);
    command
}

/// Writes rides as JSON lines of some 100 bytes: 20 cities, half of the rides in three of them, 6,000 rides a
/// minute, up to 5 s out of order.
fn write_rides(to: &Path, records: usize) -> Result<()> {
    let settings =
        Settings { kind: Kind::Rides, records: Some(records as u64), out_of_order_ms: 5000, ..Settings::default() };
    let factory = Factory::new(settings, Arc::new(SystemClock::default()))?;
    let projection = Projection { schema: Schema::default(), whole_values: true };
    let mut source = factory.open(Share { task: 0, parallelism: 1, positions: &[], projection: &projection })?;
    let mut file = BufWriter::new(File::create(to).with_context(|| format!("making `{}`", to.display()))?);
    loop {
        match source.poll(Limit { records: 4096, bytes: 1 << 20 })? {
            Polled::Finished => return Ok(file.flush()?),
            Polled::Nothing(_) | Polled::Partitions => {}
            Polled::Records(polled) => {
                let raw = polled.batch.raw.as_ref().context("whole values were asked for")?;
                for row in 0..polled.batch.len() {
                    let line = raw.get(row).unwrap_or_default();
                    // Without the arrival time, which nobody reads, a line has some 100 bytes.
                    let arrival = memmem::find(line, br#","arrived_at":"#).context("a ride arrives")?;
                    let behind = memmem::find(line, br#","fare":"#).context("a ride has a fare")?;
                    file.write_all(&line[..arrival])?;
                    file.write_all(&line[behind..])?;
                    file.write_all(b"\n")?;
                }
            }
        }
    }
}

/// The rows must be those of the first contender, which writes them in its first round.
fn compare(folder: &Path, to: &Path) -> Result<()> {
    let first = folder.join("search.out");
    ensure!(rows(&first)? == rows(to)?, "`{}` has other rows than `{}`", to.display(), first.display());
    Ok(())
}

fn rows(from: &Path) -> Result<Rows> {
    let mut files = vec![];
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            files.push(entry?.path());
        }
        // Beside the rows lies what the sink knows of them.
        files.retain(|file| file.extension().is_some_and(|extension| extension == "ndjson"));
    } else {
        files.push(from.to_path_buf());
    }
    let mut rows = Rows::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("reading `{}`", file.display()))?;
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).with_context(|| format!("a row in `{}`", file.display()))?;
            let city = row["key"].as_str().context("a row has a city")?.to_string();
            let start = row["window_start"].as_i64().context("a row has a minute")?;
            let rides = row["count"].as_u64().context("a row has a count")?;
            ensure!(rows.insert((city, start), rides).is_none(), "a row comes twice in `{}`", from.display());
        }
    }
    ensure!(!rows.is_empty(), "`{}` has no rows", from.display());
    Ok(rows)
}
