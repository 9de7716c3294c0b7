//! What a run costs: processor time and wall time.

use anyhow::{Context as _, Result, ensure};
use millstream::env::{Clock, SystemClock};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Time on a processor, user and system.
    pub(crate) cpu: Duration,
    /// Time that passed.
    pub(crate) wall: Duration,
}

/// The unit of times in `/proc/<pid>/stat`; Linux tells programs 100 of them a second, whatever its own clock.
const TICK: Duration = Duration::from_millis(10);

/// Runs a command to its end.
///
/// # Errors
/// It does not start, or fails; then with what it wrote to standard error.
pub(crate) fn child(command: &mut Command) -> Result<Cost> {
    let clock = SystemClock::default();
    let (cpu, wall) = (process_cpu(CUTIME)?, clock.monotonic());
    let output = command.stdout(Stdio::null()).output().with_context(|| format!("starting {command:?}"))?;
    let cost = Cost { wall: clock.monotonic() - wall, cpu: process_cpu(CUTIME)? - cpu };
    ensure!(output.status.success(), "{command:?} fails: {}", String::from_utf8_lossy(&output.stderr));
    Ok(cost)
}

/// Runs a loop on this thread.
///
/// # Errors
/// As the loop's.
pub(crate) fn thread<T>(run: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
    let clock = SystemClock::default();
    let (cpu, wall) = (thread_cpu()?, clock.monotonic());
    let answer = run()?;
    Ok((answer, Cost { cpu: thread_cpu()? - cpu, wall: clock.monotonic() - wall }))
}

/// Runs something in this process, on whatever threads.
///
/// # Errors
/// As the other's.
pub(crate) fn process<T>(run: impl FnOnce() -> Result<T>) -> Result<(T, Cost)> {
    let clock = SystemClock::default();
    let (cpu, wall) = (process_cpu(UTIME)?, clock.monotonic());
    let answer = run()?;
    Ok((answer, Cost { cpu: process_cpu(UTIME)? - cpu, wall: clock.monotonic() - wall }))
}

/// Where `/proc/self/stat` has the user time, and behind it the system time, of this process and of children that were waited for.
const UTIME: usize = 11;
const CUTIME: usize = 13;

fn process_cpu(from: usize) -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("reading processor times")?;
    // The name in brackets may hold anything: fields are counted behind it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(from).take(2).map(str::parse::<u32>);
    let ticks: u32 = ticks.sum::<Result<u32, _>>().context("`/proc/self/stat` has times")?;
    Ok(TICK * ticks)
}

fn thread_cpu() -> Result<Duration> {
    // The kernel adds up a thread's time only every few milliseconds, and when the thread gives way.
    std::thread::yield_now();
    schedule(0)
}

/// How long this thread has waited for a processor so far while it could have run.
///
/// # Errors
/// The system does not tell.
pub(crate) fn waited() -> Result<Duration> {
    schedule(1)
}

fn schedule(field: usize) -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").context("reading processor times")?;
    let nanoseconds = text.split_whitespace().nth(field).unwrap_or_default();
    Ok(Duration::from_nanos(nanoseconds.parse().context("`schedstat` begins with times")?))
}
