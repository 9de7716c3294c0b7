//! The outside world, handed in: clock, threads, waiting, and the fail points that tests steer. The only file that may
//! read a clock or start a thread, so that tests decide what time it is.

use dataflow::checkpoint::CheckpointMode;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a running job takes from outside. Cloned into every task.
#[derive(Clone)]
pub struct Env {
    /// Processing time.
    pub clock: Arc<dyn Clock>,
    /// Where tests make the process die; empty in production.
    pub fail_points: Arc<FailPoints>,
    /// Most records that a source puts into one batch.
    pub batch_records: usize,
    /// How long a source rests after each batch; none in production.
    pub pace: Option<Duration>,
    /// The state backend that is taken instead of the job's; none in production.
    pub state_backend: Option<String>,
    /// What checkpoints by time promise, whatever the job says.
    pub checkpoint_mode: Option<CheckpointMode>,
}

/// Most records of one batch, unless a test says otherwise.
pub const BATCH_RECORDS_MAX: usize = 4096;

impl Env {
    /// The machine's clock, and what tests say by environment variables. Those change when things happen and where
    /// they are kept, never what comes out:
    ///
    /// - `MILLSTREAM_FAIL_AT`: a fail point where the process dies
    /// - `MILLSTREAM_PANIC_AT`: a fail point where the task panics, once
    /// - `MILLSTREAM_SLOW_AT`: fail points that wait so many µs each time, as in `sink/adding/written:500`
    /// - `MILLSTREAM_BATCH_RECORDS`: most records of a source's batch
    /// - `MILLSTREAM_PACE_MS`: how long a source rests after each batch
    /// - `MILLSTREAM_STATE_BACKEND`: the state backend instead of the job's
    /// - `MILLSTREAM_CHECKPOINT_MODE`: the mode of checkpoints by time; `at_least_once` may repeat what comes out
    pub fn system() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok()).filter(|&number| number > 0);
        let fail_points = match (text("MILLSTREAM_FAIL_AT"), text("MILLSTREAM_PANIC_AT")) {
            (Some(places), _) => FailPoints::parse(&places, OnReached::Die),
            (None, Some(places)) => FailPoints::parse(&places, OnReached::Panic),
            (None, None) => FailPoints::default(),
        };
        Self {
            clock: Arc::new(SystemClock::default()),
            fail_points: Arc::new(fail_points.slowed(&text("MILLSTREAM_SLOW_AT").unwrap_or_default())),
            batch_records: number("MILLSTREAM_BATCH_RECORDS").map_or(BATCH_RECORDS_MAX, |number| number as usize),
            pace: number("MILLSTREAM_PACE_MS").map(Duration::from_millis),
            state_backend: text("MILLSTREAM_STATE_BACKEND"),
            checkpoint_mode: text("MILLSTREAM_CHECKPOINT_MODE").and_then(|name| CheckpointMode::named(&name)),
        }
    }
}

/// Tells processing time.
pub trait Clock: Send + Sync {
    /// Wall clock, ms since 1970 UTC. May jump.
    fn now_ms(&self) -> i64;
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicI64,
}

impl ManualClock {
    /// Standing at `now_ms`.
    pub fn at(now_ms: i64) -> Self {
        Self { now_ms: AtomicI64::new(now_ms) }
    }

    /// Moves it on.
    pub fn advance(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now_ms().try_into().unwrap_or(0))
    }
}

/// Starts a named thread.
///
/// # Errors
/// The system refuses another thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_string()).spawn(run)
}

/// How much less of a processor a thread beside the tasks gets where there are not enough: a third of what a task gets, so that
/// state is stored and compacted in time on a machine that has nothing to spare too.
const BESIDE_NICE: i32 = 5;

/// As `spawn`, for work that nobody waits for at the next record, such as storing state: it makes way for the tasks.
///
/// # Errors
/// The system refuses another thread.
pub fn spawn_beside<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    spawn(name, || {
        make_way();
        run()
    })
}

/// Runs this on such a thread and waits for it: threads that it starts make way too.
///
/// # Errors
/// The system refuses another thread.
pub fn beside<T: Send>(run: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    let run = || {
        make_way();
        run()
    };
    thread::scope(|scope| {
        let running = thread::Builder::new().spawn_scoped(scope, run)?;
        Ok(running.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// This thread, and those that it starts from now on, make way for the tasks.
fn make_way() {
    // Elsewhere it would be the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, BESIDE_NICE) {
        tracing::debug!(%error, "a thread does not make way for the tasks");
    }
}

/// Where one task waits, for whatever comes first: an element, room in an output, control, or a due time. A notice given
/// while the task is busy is kept, so none is lost.
#[derive(Debug, Default)]
pub struct WaitPoint {
    noticed: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl WaitPoint {
    /// Something happened: the task looks again.
    pub fn notify(&self) {
        if !self.noticed.swap(true, Ordering::SeqCst) {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.wake.notify_one();
        }
    }

    /// Returns once there was a notice since the last return, or after `at_most`.
    pub fn wait(&self, at_most: Option<Duration>) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = at_most {
            if !self.noticed.load(Ordering::SeqCst) {
                let waited = self.wake.wait_timeout_while(guard, limit, |()| !self.noticed.load(Ordering::SeqCst));
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        } else {
            while !self.noticed.load(Ordering::SeqCst) {
                guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.noticed.store(false, Ordering::SeqCst);
    }
}

/// Named places where a test makes something fail. `sink/adding/written:2,source/*/record:7` fails at the moment when every
/// place named has been passed at least so many times; `*` stands for any one part. And places where it makes
/// the process slow.
#[derive(Debug, Default)]
pub struct FailPoints {
    left: Mutex<BTreeMap<String, u64>>,
    slow: BTreeMap<String, Duration>,
    armed: bool,
    on_reached: OnReached,
}

/// What fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnReached {
    /// The process, as if killed.
    #[default]
    Die,
    /// The task that got there, once.
    Panic,
}

impl FailPoints {
    /// From the text above; what is not `place:count` is a place to be passed once.
    pub fn parse(text: &str, on_reached: OnReached) -> Self {
        let left = places(text);
        Self { armed: !left.is_empty(), left: Mutex::new(left), on_reached, ..Self::default() }
    }

    /// Waits at places, each time they are passed: `sink/adding/written:500` for 500 µs.
    pub fn slowed(mut self, text: &str) -> Self {
        self.slow = places(text).into_iter().map(|(place, us)| (place, Duration::from_micros(us))).collect();
        self.armed |= !self.slow.is_empty();
        self
    }

    /// Whether any place is named: callers skip building names otherwise.
    #[inline]
    pub fn armed(&self) -> bool {
        self.armed
    }

    /// `place` was passed `times` times.
    #[inline]
    pub fn passed(&self, place: impl FnOnce() -> String, times: u64) {
        if self.armed {
            self.count(&place(), times);
        }
    }

    fn count(&self, place: &str, times: u64) {
        if let Some((_, each)) = self.slow.iter().find(|(named, _)| is_named(place, named)) {
            WaitPoint::default().wait(Some(*each * u32::try_from(times).unwrap_or(u32::MAX)));
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut passed = false;
        for (_, count) in left.iter_mut().filter(|(named, _)| is_named(place, named)) {
            *count = count.saturating_sub(times);
            passed = true;
        }
        if passed && left.values().all(|&count| count == 0) {
            if self.on_reached == OnReached::Panic {
                left.clear();
                drop(left);
                panic!("fail point `{place}` reached");
            }
            tracing::error!(place, "fail point reached: dying here");
            // SIGKILL: nothing of the process runs any more, as when a machine loses power.
            let _ = signal_hook::low_level::raise(9);
            std::process::abort();
        }
    }
}

/// Whether a place is meant by a name that may have `*` for a part.
fn is_named(place: &str, named: &str) -> bool {
    let (mut parts, mut names) = (place.split('/'), named.split('/'));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if name == "*" || name == part => {}
            _ => return false,
        }
    }
}

/// `place:number, place:number`; without a number it is 1.
fn places(text: &str) -> BTreeMap<String, u64> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let place = |part: &str| match part.rsplit_once(':') {
        Some((place, number)) => (place.to_string(), number.parse().unwrap_or(1)),
        None => (part.to_string(), 1),
    };
    parts.map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_given_before_waiting_is_not_lost() {
        let point = WaitPoint::default();
        point.notify();
        point.wait(None);
        point.wait(Some(Duration::ZERO));
    }

    #[test]
    fn fail_points_are_read_with_their_counts() {
        let points = FailPoints::parse("sink/a/written:2, source/b/record", OnReached::Die);
        assert_eq!(*points.left.lock().unwrap(), [("sink/a/written".into(), 2), ("source/b/record".into(), 1)].into());
        let points = points.slowed("sink/a/written:500");
        assert_eq!(points.slow, [("sink/a/written".into(), Duration::from_micros(500))].into());
        assert!(!FailPoints::parse("", OnReached::Die).slowed("").armed());
    }

    #[test]
    fn star_stands_for_any_one_part() {
        assert!(is_named("sink/board/written", "sink/*/written") && is_named("a/b", "a/b"));
        assert!(!is_named("sink/board/staged", "sink/*/written"));
        assert!(!is_named("sink/written", "sink/*/written") && !is_named("sink/a/b/written", "sink/*/written"));
    }

    #[test]
    fn fail_point_that_panics_does_so_once() {
        let points = FailPoints::parse("sink/a/written:2", OnReached::Panic);
        let pass = || std::panic::catch_unwind(|| points.passed(|| "sink/a/written".into(), 1)).is_err();
        assert_eq!([pass(), pass(), pass()], [false, true, false]);
    }
}
