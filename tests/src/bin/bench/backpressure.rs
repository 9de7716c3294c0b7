//! Table `backpressure`: generated rides into a sink that is made ten times slower than it could be fed, so that everything before
//! it is full. How long a checkpoint takes when its barriers wait in line, and when they overtake; what it stores; how the job
//! goes on from one. All rows come out once, or the table fails.

use super::Extent;
use anyhow::{Context as _, Result, bail, ensure};
use dataflow::checkpoint::CheckpointId;
use millstream::env::{Clock, Env, FailPoints, WaitPoint};
use millstream::job::{self, RunOptions, Started, definition};
use millstream::telemetry::CheckpointDone;
use millstream_tests::program::millstream;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Most records of a run: the sink takes its time for each.
const RECORDS_MAX: usize = 400_000;

/// How long the sink takes for a row: 50,000 rows a second, where the source makes more than 500,000.
const SLOW_AT: &str = "sink/rows/written:20";

/// How often the status is looked at.
const LOOK: Duration = Duration::from_millis(2);

pub(super) fn measure(extent: Extent) -> Result<()> {
    let records = extent.records.min(RECORDS_MAX);
    let mut text = format!(
        "\nbackpressure: {records} records, sink 10 times slower; median (least to most) of all checkpoints but the last\n\
         {:<14} {:>12} {:>26} {:>26} {:>26} {:>22}\n",
        "checkpoints", "how many", "took, ms", "of it behind data, ms", "in flight, KiB", "memory, MiB"
    );
    for mode in ["exactly_once", "unaligned"] {
        let folder = tempfile::tempdir().context("a scratch folder")?;
        let (done, memory) = run(folder.path(), mode, records)?;
        ensure!(!done.is_empty(), "no checkpoint was taken in mode `{mode}`: more records are needed");
        let of = |value: fn(&CheckpointDone) -> u128| spread(done.iter().map(value).collect());
        text += &format!(
            "{mode:<14} {:>12} {:>26} {:>26} {:>26} {:>22}\n",
            done.len(),
            of(|done| done.took.as_millis()),
            of(|done| (done.longest.travel + done.longest.alignment).as_millis()),
            of(|done| u128::from(done.in_flight_bytes >> 10)),
            spread(memory)
        );
    }
    let restored = restore(records)?;
    text += &format!(
        "restored from an unaligned checkpoint after SIGKILL: all {records} rows once; the rest took {restored} ms at full speed\n"
    );
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn job_file(mode: &str, records: usize) -> String {
    format!(
        "name: backpressure\ncheckpoint: {{ every: 200ms, mode: {mode} }}\nparallelism: 2\n\
         sources:\n  rides:\n    connector: generator\n    kind: rides\n    partitions: 2\n    records: {records}\n    \
         event_time: {{ field: /requested_at, format: unix_ms }}\n    watermark: {{ bound: 30s }}\n\
         sinks:\n  rows: {{ input: rides, connector: file, path: out, format: raw }}\n"
    )
}

/// Runs the job in this process with a slow sink; every checkpoint but the last, and the process's memory in the second half, MiB.
fn run(folder: &Path, mode: &str, records: usize) -> Result<(Vec<CheckpointDone>, Vec<u128>)> {
    let file = folder.join("job.yaml");
    fs::write(&file, job_file(mode, records))?;
    let definition = definition::load(&file)?.into_result()?;
    let env = Env { fail_points: Arc::new(FailPoints::default().slowed(SLOW_AT)), ..Env::system() };
    let options = RunOptions { data_dir: folder.join("data"), fresh: true, ..RunOptions::default() };
    let Started::Running(running) = job::start(&definition, &options, &|_| bail!("it has no component"), &env)? else {
        bail!("a fresh job is not finished")
    };
    let (pause, status) = (WaitPoint::default(), running.handle().status());
    let (mut done, mut memory, mut seen) = (vec![], vec![], None::<CheckpointId>);
    while !running.has_ended() {
        pause.wait(Some(LOOK));
        if let Some(last) = status.checkpoints().last.filter(|last| Some(last.checkpoint) != seen) {
            seen = Some(last.checkpoint);
            done.push(last);
            memory.push(memory_mib()?);
        }
    }
    running.wait()?;
    done.pop();
    Ok((done, memory.split_off(memory.len() / 2)))
}

/// Kills the program at an unaligned checkpoint and runs it again without hindrance; how long that took, ms.
fn restore(records: usize) -> Result<u128> {
    let folder = tempfile::tempdir().context("a scratch folder")?;
    let folder = folder.path();
    fs::write(folder.join("job.yaml"), job_file("unaligned", records))?;
    let command = |fail_at: &str, slow_at: &str| {
        let mut command = millstream();
        command.current_dir(folder).args(["run", "job.yaml"]);
        command.env("MILLSTREAM_FAIL_AT", fail_at).env("MILLSTREAM_SLOW_AT", slow_at);
        command
    };
    let died = command("checkpoint/decided:4", SLOW_AT).output()?;
    ensure!(!died.status.success(), "the program is killed at its fourth checkpoint: more records are needed");
    let clock = millstream::env::SystemClock::default();
    let again = command("", "").output()?;
    let took = clock.monotonic().as_millis();
    ensure!(again.status.success(), "the job goes on: {}", String::from_utf8_lossy(&again.stderr));
    let mut rows = BTreeSet::new();
    for entry in fs::read_dir(folder.join("out"))? {
        let path = entry?.path();
        // Beside the rows lies what the sink knows of them, in files that are hidden.
        if path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")) {
            for line in fs::read_to_string(&path)?.lines() {
                ensure!(rows.insert(line.to_string()), "the row `{line}` came twice");
            }
        }
    }
    ensure!(rows.len() == records, "{} rows came out of {records}", rows.len());
    Ok(took)
}

/// Memory of this process, MiB.
fn memory_mib() -> Result<u128> {
    let status = fs::read_to_string("/proc/self/status").context("reading the process's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the kernel tells the memory")?;
    let kib: u128 = line.trim().trim_end_matches(" kB").parse().context("`VmRSS` is a number of kB")?;
    Ok(kib / 1024)
}

/// Median, least and most.
fn spread(mut numbers: Vec<u128>) -> String {
    numbers.sort_unstable();
    match numbers.as_slice() {
        [] => "none".into(),
        [least, .., most] => format!("{} ({least} to {most})", numbers[numbers.len() / 2]),
        [only] => only.to_string(),
    }
}
