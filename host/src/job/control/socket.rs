//! Requests to a job that another process on this machine runs: over a socket in the job's folder of the data directory, one
//! line of JSON each way. Who may write to the folder may ask.

use super::Handle;
use crate::env;
use crate::job::savepoint::Written;
use crate::task::Stop;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The version of what is said over the socket. Another one is refused by name.
const VERSION: u32 = 1;

const NAME: &str = "control.sock";

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A savepoint.
    Savepoint {
        /// Its place: an absolute path, or a URL.
        to: String,
        /// Whether the job ends with it.
        stop: Option<Ending>,
    },
    /// Another parallelism.
    Rescale {
        /// The number of tasks.
        parallelism: usize,
    },
    /// A last checkpoint, then the end.
    Stop(Ending),
    /// A checkpoint, now.
    Checkpoint,
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It can go on from where it stopped.
    Suspend,
    /// Everything that waits for event time fires: it has ended for good.
    Drain,
}

impl From<Ending> for Stop {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Suspend => Self::Suspend,
            Ending::Drain => Self::Drain,
        }
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// The savepoint is there.
    Savepoint {
        /// Its name.
        id: String,
        /// The checkpoint it was made of.
        checkpoint: u64,
        /// Rows of state.
        rows: u64,
        /// Bytes of its files.
        bytes: u64,
    },
    /// The job runs with this parallelism, before and now.
    Rescaled {
        /// Before.
        from: usize,
        /// Now.
        to: usize,
    },
    /// It takes its last checkpoint.
    Stopping,
    /// It has failed and waited to start again: it ends without another checkpoint.
    Ending,
    /// This checkpoint is decided and applied.
    Checkpoint(u64),
}

#[derive(Serialize, Deserialize)]
struct Question {
    version: u32,
    ask: Ask,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    version: u32,
    /// What was done, or why not: a line for each cause.
    said: Result<Done, Vec<String>>,
}

/// Answers until it is dropped.
pub struct Listening {
    path: PathBuf,
    over: Arc<AtomicBool>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; both are for nothing if the folder is gone.
        let _ = connect(&self.path);
        let _ = std::fs::remove_file(self.path.join(NAME));
    }
}

/// Answers requests to the job in its folder `home`, each on a thread of its own.
///
/// # Errors
/// The socket cannot be made.
pub fn listen(home: &Path, handle: Handle) -> anyhow::Result<Listening> {
    let failed = || format!("the control socket `{}` cannot be made", home.join(NAME).display());
    match std::fs::remove_file(home.join(NAME)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(failed),
        // A run that was killed left it; the job's lock says that there is no other.
        _ => {}
    }
    let listener = short(home, |path| UnixListener::bind(path)).with_context(failed)?;
    let over = Arc::new(AtomicBool::new(false));
    let ended = over.clone();
    env::spawn("control", move || {
        for stream in listener.incoming() {
            if ended.load(Ordering::SeqCst) {
                return;
            }
            let handle = handle.clone();
            let served = stream.and_then(|stream| env::spawn("control-request", move || serve(&stream, &handle)));
            if let Err(error) = served {
                tracing::warn!("a request to the job could not be taken: {error}");
            }
        }
    })
    .with_context(failed)?;
    Ok(Listening { path: home.to_path_buf(), over })
}

/// Asks the job that runs in its folder `home`, and waits for the answer.
///
/// # Errors
/// No such job runs there, or it refuses: why.
pub fn ask(home: &Path, job: &str, ask: Ask) -> anyhow::Result<Done> {
    let stream = match connect(home) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => bail!(
            "job `{job}` does not run with the data directory `{}`: start it with `millstream run`, or name its \
             `--data-dir`",
            home.parent().unwrap_or(home).display()
        ),
        Err(error) => return Err(error).with_context(|| format!("job `{job}` cannot be reached")),
    };
    let mut line = serde_json::to_string(&Question { version: VERSION, ask }).context("a request is always JSON")?;
    line.push('\n');
    (&stream).write_all(line.as_bytes()).with_context(|| format!("job `{job}` cannot be asked"))?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).with_context(|| format!("job `{job}` does not answer"))?;
    ensure!(!answer.is_empty(), "job `{job}` ended before it answered; its log says why");
    let answer: Answer = serde_json::from_str(&answer)
        .with_context(|| format!("job `{job}` runs in another version of millstream, whose answer does not read"))?;
    answer.said.map_err(|causes| {
        let mut causes = causes.into_iter().rev();
        let first = anyhow::Error::msg(causes.next().unwrap_or_else(|| "it refuses".into()));
        causes.fold(first, anyhow::Error::context)
    })
}

fn serve(stream: &UnixStream, handle: &Handle) {
    let mut line = String::new();
    if BufReader::new(stream).read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let _answering = handle.answering();
    let said = answer(&line, handle).map_err(|error| error.chain().map(ToString::to_string).collect());
    if let Ok(mut text) = serde_json::to_string(&Answer { version: VERSION, said }) {
        text.push('\n');
        // Who asked may have gone away; what was asked is done.
        let mut stream = stream;
        let _ = stream.write_all(text.as_bytes());
    }
}

fn answer(line: &str, handle: &Handle) -> anyhow::Result<Done> {
    let question: serde_json::Value = serde_json::from_str(line).context("the request is not JSON")?;
    let version = question.get("version").and_then(serde_json::Value::as_u64);
    ensure!(
        version == Some(u64::from(VERSION)),
        "the job runs in another version of millstream, which reads requests of version {VERSION}"
    );
    let Question { ask, .. } = serde_json::from_value(question).context("the request does not read")?;
    Ok(match ask {
        Ask::Savepoint { to, stop } => {
            let Written { id, rows, bytes, checkpoint } = handle.savepoint(&to, stop.map(Stop::from))?;
            Done::Savepoint { id, checkpoint, rows, bytes }
        }
        Ask::Rescale { parallelism } => {
            let from = handle.parallelism();
            handle.rescale(parallelism)?;
            Done::Rescaled { from, to: parallelism }
        }
        Ask::Stop(ending) => {
            if handle.stop(ending.into()) {
                Done::Stopping
            } else {
                Done::Ending
            }
        }
        Ask::Checkpoint => Done::Checkpoint(handle.checkpoint()?.0),
    })
}

fn connect(home: &Path) -> std::io::Result<UnixStream> {
    short(home, |path| UnixStream::connect(path))
}

/// Calls with a path of the socket that is short: the system takes no more than about a hundred characters, so the folder is
/// named by an open file of this process.
fn short<T>(home: &Path, call: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let folder = File::open(home)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    if path.exists() { call(&path.join(NAME)) } else { call(&home.join(NAME)) }
}
