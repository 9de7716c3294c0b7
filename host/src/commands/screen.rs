//! Standard error as a terminal: a few lines that are redrawn in place, and log lines that scroll above them.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// Shared by whoever writes to it.
#[derive(Clone, Debug)]
pub(super) struct Screen(Arc<Mutex<Shown>>);

#[derive(Debug)]
struct Shown {
    lines: usize,
    width: usize,
}

impl Screen {
    pub(super) fn new() -> Self {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Self(Arc::new(Mutex::new(Shown { lines: 0, width: columns.unwrap_or(120) })))
    }

    /// Replaces what is shown.
    pub(super) fn show(&self, lines: &[String]) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = shown.erase();
        for line in lines {
            // A line that wraps would leave its rest behind.
            text.extend(line.chars().take(shown.width.saturating_sub(1)));
            text.push('\n');
        }
        shown.lines = lines.len();
        // A terminal that is gone is no reason to end the job.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Takes away what is shown.
    pub(super) fn clear(&self) {
        self.show(&[]);
    }
}

impl Shown {
    /// Codes that go up to the first line shown and clear from there.
    fn erase(&self) -> String {
        if self.lines == 0 { String::new() } else { format!("\x1b[{}A\x1b[J", self.lines) }
    }
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogLine;

    fn make_writer(&'a self) -> LogLine {
        if std::io::stderr().is_terminal() {
            self.clear();
        }
        LogLine
    }
}

/// Writes a log line where the redrawn lines were; they come back below it.
pub(super) struct LogLine;

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::stderr().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
