//! `millstream run`: one job in the foreground, from its last checkpoint to its end, a signal, or a failure.

use super::progress::Progress;
use super::screen::Screen;
use super::{Failure, load, say, summary};
use anyhow::Context;
use millstream::checkpoint::Outcome;
use millstream::env::{Env, WaitPoint};
use millstream::job::definition::{Definition, SinkConnector};
use millstream::job::{self, RunOptions, RunningJob, Started};
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
    let options = RunOptions { data_dir: arguments.data_dir.clone(), fresh: arguments.fresh };
    let started = env.clock.monotonic();
    let load = |component: &_| checked.code.load(component);
    let running = match job::start(&checked.definition, &options, &load, &env)? {
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
    if let Some(checkpoint) = running.resumed {
        say(&format!("{}: goes on from checkpoint {}", checked.definition.name, checkpoint.0));
    }
    let (status, dead_letters) = (running.status.clone(), running.dead_letters.clone());
    let redraw = std::io::stderr().is_terminal() && !writes_to_terminal(&checked.definition);
    watch(&checked.definition.name, &running, &stop, &screen, redraw, &env);
    screen.clear();
    let outcome = running.wait();
    let took = env.clock.monotonic().saturating_sub(started);
    say(summary::summary(&checked.definition.name, &status, dead_letters.as_deref(), took).trim_end());
    if outcome? == Outcome::Stopped {
        say(&format!("stopped with a checkpoint; `millstream run {}` goes on from it", arguments.job.display()));
    }
    Ok(())
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
    let mut progress = Progress::new(name, &running.status, env.clock.monotonic());
    let (mut shown, mut stopping) = (env.clock.monotonic(), false);
    let pause = WaitPoint::default();
    while !running.has_ended() {
        pause.wait(Some(LOOK));
        if stop.load(Ordering::Relaxed) && !stopping {
            stopping = true;
            running.stopper().stop();
            screen.clear();
            say("stopping: a last checkpoint is taken; a second signal ends at once");
        }
        let now = env.clock.monotonic();
        if now.saturating_sub(shown) >= every {
            shown = now;
            progress.advance(&running.status, now);
            if redraw {
                screen.show(&progress.table(&running.status, env.clock.now_ms()));
            } else {
                say(&progress.line(&running.status, env.clock.now_ms()));
            }
        }
    }
}
