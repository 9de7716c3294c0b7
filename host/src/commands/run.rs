//! `millstream run`: one job in the foreground, from its last checkpoint to its end, a signal, or a failure.

use super::progress::Progress;
use super::screen::Screen;
use super::{Failure, load, say, summary};
use anyhow::Context;
use dataflow::checkpoint::CheckpointMode;
use dataflow::checkpoint::savepoint::{Fit, StateFit};
use dataflow::restart::Permanent;
use millstream::checkpoint::{Location, Outcome};
use millstream::env::{Env, WaitPoint};
use millstream::job::control::socket;
use millstream::job::definition::{Definition, SinkConnector};
use millstream::job::{self, Code, Resumed, RunOptions, RunningJob, Started};
use millstream::task::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The job file
    job: PathBuf,
    /// Where checkpoints, dead letters and compiled components are kept
    #[arg(long, default_value = ".millstream")]
    data_dir: PathBuf,
    /// Start over: forget earlier checkpoints
    #[arg(long)]
    fresh: bool,
    /// Start from this savepoint: a folder or a URL. A job that has come further already goes on from its own checkpoint
    #[arg(long)]
    from: Option<String>,
    /// With --from: leave out what the savepoint holds and the job no longer has
    #[arg(long, requires = "from")]
    allow_dropped: bool,
    /// Go on with operators that are keyed by other fields than before: the same values stand in other fields now
    #[arg(long)]
    allow_changed_key: bool,
    /// Where checkpoints are kept instead: a folder, or `s3://bucket/prefix` with the usual AWS_… variables
    /// [default: MILLSTREAM_CHECKPOINT_STORAGE, or the data directory]
    #[arg(long, value_name = "URL")]
    checkpoint_storage: Option<String>,
    /// If the last checkpoint is damaged, go on from the one before; with --from, start from a savepoint that is older than what
    /// the sinks show: exactly-once sinks get rows again
    #[arg(long)]
    repeat_output: bool,
    /// How much is logged: off, error, warn, info, debug or trace
    #[arg(long, default_value = "warn")]
    log: LevelFilter,
}

/// How often the progress on a terminal is redrawn.
const REDRAW: Duration = Duration::from_millis(500);
/// How often a line of progress is written elsewhere.
const LINE: Duration = Duration::from_secs(10);
/// How often signals and the job's end are looked for.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = stop_on_signals().context("signals cannot be watched")?;
    let screen = Screen::new();
    tracing_subscriber::fmt()
        .with_max_level(arguments.log)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(screen.clone())
        .init();
    let checked = load::load(&arguments.job, &arguments.data_dir)?;
    let env = Env::system();
    let options = RunOptions {
        data_dir: arguments.data_dir.clone(),
        fresh: arguments.fresh,
        from: arguments.from.clone(),
        allow_dropped: arguments.allow_dropped,
        allow_changed_key: arguments.allow_changed_key,
        checkpoint_storage: checkpoint_storage(arguments).map_err(Failure::Unfit)?,
        repeat_output: arguments.repeat_output,
    };
    let started = env.clock.monotonic();
    let load = |component: &_| checked.code.load(component).map(Code::Component);
    let running = match job::start(&checked.definition, &options, &load, &env).map_err(refused)? {
        Started::Running(running) => running,
        Started::AlreadyFinished(checkpoint) => {
            let name = &checked.definition.name;
            say(&format!(
                "{name}: its input was read to its end by an earlier run (checkpoint {}); `--fresh` starts over",
                checkpoint.0
            ));
            return Ok(());
        }
    };
    let name = &checked.definition.name;
    if let Some(damaged) = &running.damaged {
        say(&format!("{name}: {damaged}"));
    }
    match &running.resumed {
        Resumed::Nothing => {}
        Resumed::Checkpoint(checkpoint) => say(&format!("{name}: goes on from checkpoint {checkpoint}")),
        Resumed::Savepoint(states) => {
            say(&format!("{name}: starts from savepoint {}", arguments.from.as_deref().unwrap_or_default()));
            states.iter().for_each(|state| say(&format!("  {}", fit(state))));
        }
    }
    let (handle, dead_letters) = (running.handle(), running.dead_letters.clone());
    let listening = socket::listen(&arguments.data_dir.join(name), handle.clone());
    if let Err(error) = &listening {
        say(&format!("{name}: `savepoint`, `rescale` and `stop` cannot reach this run: {error:#}"));
    }
    if checked.definition.checkpoint.mode == CheckpointMode::AtLeastOnce {
        let name = &checked.definition.name;
        say(&format!(
            "{name}: checkpoints are at least once: after a crash some records count twice, and rows come again"
        ));
    }
    let redraw = std::io::stderr().is_terminal() && !writes_to_terminal(&checked.definition);
    watch(name, &running, &stop, &screen, redraw, &env);
    screen.clear();
    let outcome = running.wait();
    let took = env.clock.monotonic().saturating_sub(started);
    say(summary::summary(name, &handle.status(), dead_letters.as_deref(), took).trim_end());
    if outcome? == Outcome::Stopped {
        say(&format!("stopped with a checkpoint; `millstream run {}` goes on from it", arguments.job.display()));
    }
    Ok(())
}

/// A start that would fail again as it is was refused: nothing ran.
fn refused(error: anyhow::Error) -> Failure {
    if error.is::<Permanent>() { Failure::Unfit(error) } else { Failure::Failed(error) }
}

/// As the arguments say, or else the environment; none: the data directory.
fn checkpoint_storage(arguments: &Arguments) -> anyhow::Result<Option<Location>> {
    match (&arguments.checkpoint_storage, std::env::var("MILLSTREAM_CHECKPOINT_STORAGE")) {
        // Why: read here and not by clap, which would show a URL with credentials.
        (Some(text), _) => text.parse().map(Some).context("`--checkpoint-storage` is refused"),
        (None, Ok(text)) if !text.is_empty() => {
            text.parse().map(Some).context("the environment variable MILLSTREAM_CHECKPOINT_STORAGE is refused")
        }
        (None, _) => Ok(None),
    }
}

/// What becomes of a savepoint's state.
fn fit(state: &StateFit) -> String {
    let StateFit { operator, name, fit } = state;
    let what = match fit {
        Fit::Kept => "kept".to_string(),
        Fit::Migrated(version) => format!("migrated from version {version}, each value when it is first touched"),
        Fit::New => "new".to_string(),
        Fit::Dropped => "dropped".to_string(),
        // The job would not have started.
        Fit::Older(_) | Fit::OtherKind(_) => "not readable".to_string(),
    };
    format!("{operator}/{name}: {what}")
}

/// Becomes true at the first SIGINT or SIGTERM; the second ends the process at once.
fn stop_on_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order counts: at the first signal `stop` is not yet set.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Rows on the same terminal would be torn by lines that are redrawn.
fn writes_to_terminal(definition: &Definition) -> bool {
    let stdout = definition.sinks.iter().any(|sink| matches!(sink.connector, SinkConnector::Stdout(_)));
    stdout && std::io::stdout().is_terminal()
}

/// Shows progress and passes on the wish to stop, until the job has ended.
fn watch(name: &str, running: &RunningJob, stop: &AtomicBool, screen: &Screen, redraw: bool, env: &Env) {
    let every = if redraw { REDRAW } else { LINE };
    let handle = running.handle();
    let mut progress = Progress::new(name, &handle.status(), env.clock.monotonic());
    let (mut shown, mut stopping) = (env.clock.monotonic(), false);
    let pause = WaitPoint::default();
    while !running.has_ended() {
        pause.wait(Some(LOOK));
        if stop.load(Ordering::Relaxed) && !stopping {
            stopping = true;
            let runs = handle.stop(Stop::Suspend);
            screen.clear();
            say(match runs {
                true => "stopping: a last checkpoint is taken; a second signal ends at once",
                false => {
                    "stopping: the job had failed and waited to start again; it ends with the checkpoint that it had"
                }
            });
        }
        let now = env.clock.monotonic();
        if now.saturating_sub(shown) >= every {
            shown = now;
            let status = handle.status();
            progress.advance(&status, now);
            if redraw {
                screen.show(&progress.table(&status, env.clock.now_ms()));
            } else {
                say(&progress.line(&status, env.clock.now_ms()));
            }
        }
    }
}
