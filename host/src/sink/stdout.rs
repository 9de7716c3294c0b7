//! Rows go to standard output, at least once: after a crash those since the last checkpoint come again. Each batch is
//! flushed at once, so that a person sees rows when they are made.

use super::encode::{self, Encoder};
use super::{Sink, SinkFactory, SinkInput};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use dataflow::restart::Permanent;
use std::io::{ErrorKind, Write};

/// Opens the sink that writes to standard output.
#[derive(Debug, Clone, Default)]
pub struct Factory {
    /// How rows become text.
    pub rows: encode::Settings,
}

impl SinkFactory for Factory {
    fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(Lines::new(std::io::stdout(), &self.rows, input)?))
    }
}

/// Writes rows to a stream that cannot take anything back.
struct Lines<W> {
    to: W,
    encoder: Encoder,
    buffer: Vec<u8>,
    applied: Option<CheckpointId>,
}

impl<W: Write> Lines<W> {
    fn new(to: W, rows: &encode::Settings, input: &SinkInput) -> anyhow::Result<Self> {
        let encoder = Encoder::new(rows, input)?;
        let buffer = encoder.header().to_vec();
        Ok(Self { to, encoder, buffer, applied: None })
    }
}

impl<W: Write + Send> Sink for Lines<W> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        self.encoder.write(batch, &mut self.buffer)?;
        let written = self.to.write_all(&self.buffer).and_then(|()| self.to.flush());
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            bail!(Permanent("nobody reads the standard output any more".into()));
        }
        written.context("writing rows to standard output")?;
        self.buffer.clear();
        Ok(())
    }

    fn stage(&mut self, _checkpoint: CheckpointId) -> anyhow::Result<Payload> {
        Ok(Payload::default())
    }

    fn apply(&mut self, checkpoint: CheckpointId, _payload: &Payload) -> anyhow::Result<()> {
        self.applied = self.applied.max(Some(checkpoint));
        Ok(())
    }

    /// Of this run only: a stream does not tell what an earlier one wrote.
    fn applied(&mut self) -> anyhow::Result<Option<CheckpointId>> {
        Ok(self.applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::contract::{self, Target};
    use std::sync::{Arc, Mutex};

    /// A terminal that outlives the process.
    #[derive(Clone, Default)]
    struct Terminal {
        shown: Arc<Mutex<Vec<u8>>>,
        format: encode::Format,
    }

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.shown.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl SinkFactory for Terminal {
        fn open(&self, input: &SinkInput) -> anyhow::Result<Box<dyn Sink>> {
            let rows = encode::Settings { format: self.format, ..encode::Settings::default() };
            Ok(Box::new(Lines::new(self.clone(), &rows, input)?))
        }
    }

    impl Target for Terminal {
        fn factory(&self) -> Box<dyn SinkFactory> {
            Box::new(self.clone())
        }

        fn visible(&self) -> Vec<String> {
            let shown = self.shown.lock().unwrap();
            String::from_utf8(shown.clone()).unwrap().lines().map(str::to_string).collect()
        }
    }

    #[test]
    fn stdout_shows_rows_at_once_and_repeats_them_after_a_crash() {
        contract::check_at_once(Terminal::default, false);
    }

    #[test]
    fn csv_on_stdout_has_one_header() {
        let terminal = Terminal { format: encode::Format::Csv, ..Terminal::default() };
        let mut sink = terminal.open(&contract::input(true)).unwrap();
        sink.write(&contract::batch(1..2)).unwrap();
        sink.stage(CheckpointId(1)).unwrap();
        sink.write(&contract::batch(2..3)).unwrap();
        assert_eq!(terminal.visible(), ["city,n", "city-1,1", "city-2,2"]);
    }
}
