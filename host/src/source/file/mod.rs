//! The file source: one file, a glob or a directory; plain, gzip or zstd; read to the end or followed as it grows. Each
//! file is one partition and never split. Here stand its settings and how tasks share the files.

mod compression;
mod framing;
mod listing;
mod partition;
mod reader;
mod share;

use super::format::{DecoderSettings, Format, TimeField};
use super::{Share, Source, SourceFactory};
use anyhow::{bail, ensure};
use dataflow::restart::Permanent;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest record unless the job says otherwise.
pub const RECORD_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// Longest record that can be asked for: spans of a read buffer are 32 bits.
pub const RECORD_BYTES_MAX_LIMIT: usize = 1 << 30;

/// What a job file says of a file source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A file, a pattern with `*`, `?`, `[…]` or `**`, or a directory: then all regular files directly in it whose names
    /// do not begin with a dot.
    pub path: String,
    /// A file in it or below is a partition of the name that it has from here, others of their whole path: so a job that is moved
    /// with its files goes on where it was.
    pub folder: PathBuf,
    /// How records are written.
    pub format: Format,
    /// Go on when the end is reached: files grow, and new ones appear. A file that is replaced by another of its name is
    /// read to its end, then the new one from its start; one that shrinks ends the job. A file renamed within the pattern
    /// is a new file: let logs rotate to a name outside it. Not for compressed files.
    #[serde(default)]
    pub follow: bool,
    /// A longer record is put aside, without ever being held whole.
    #[serde(default = "record_bytes_max_default")]
    pub max_record_bytes: usize,
    /// Where the event time stands; without it the arrival time is the event time, and without either it is 0.
    #[serde(default)]
    pub event_time: Option<TimeField>,
    /// Where the arrival time stands.
    #[serde(default)]
    pub arrival: Option<TimeField>,
    /// What a record, or a file, that cannot be read leads to.
    #[serde(default)]
    pub on_bad_record: OnBadRecord,
}

/// What a record that cannot be read leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBadRecord {
    /// It goes to the dead letters with file, line and reason; the job goes on.
    #[default]
    DeadLetter,
    /// The job fails.
    Fail,
}

fn record_bytes_max_default() -> usize {
    RECORD_BYTES_MAX_DEFAULT
}

/// Makes the shares of one file source.
#[derive(Debug)]
pub struct Factory {
    node: String,
    settings: Arc<Settings>,
    /// The files of a bounded source, listed once so that all tasks deal from the same deck.
    listed: Mutex<Option<Vec<PathBuf>>>,
}

impl Factory {
    /// For the source `node` of the job.
    ///
    /// # Errors
    /// The settings cannot work: no path, a bound out of range.
    pub fn new(node: &str, settings: Settings) -> anyhow::Result<Self> {
        ensure!(
            !settings.path.is_empty(),
            "`path` is empty: name a file, a pattern such as `rides/*.json`, or a directory"
        );
        ensure!(
            (1..=RECORD_BYTES_MAX_LIMIT).contains(&settings.max_record_bytes),
            "`max_record_bytes` is {}, it can be 1 to {RECORD_BYTES_MAX_LIMIT}",
            settings.max_record_bytes
        );
        settings.decoder().check()?;
        listing::check(&settings.path)?;
        Ok(Self { node: node.to_string(), settings: Arc::new(settings), listed: Mutex::default() })
    }

    fn list(&self) -> anyhow::Result<Vec<PathBuf>> {
        if self.settings.follow {
            return listing::files(&self.settings.path);
        }
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.is_none() {
            *listed = Some(listing::files(&self.settings.path)?);
        }
        Ok(listed.clone().unwrap_or_default())
    }
}

impl SourceFactory for Factory {
    /// As many as there are files; a followed pattern or directory may always get more.
    fn parallelism_max(&self) -> usize {
        match self.list() {
            Ok(_) if self.settings.follow && !listing::is_one_file(&self.settings.path) => usize::MAX,
            Ok(files) => files.len().max(1),
            // `open` will say what is wrong.
            Err(_) => 1,
        }
    }

    fn open(&self, share: Share<'_>) -> anyhow::Result<Box<dyn Source>> {
        let files = self.list()?;
        if files.is_empty() && share.positions.is_empty() && !self.settings.follow {
            bail!(Permanent(format!(
                "`{}` matches no file: a folder gives the files in it, a pattern such as `rides/*.json` those it matches, and \
                 names that begin with a dot are left out",
                self.settings.path
            )));
        }
        if share.task == 0
            && let Some(passed_over) = listing::passed_over(&self.settings.path)
        {
            tracing::warn!(source = self.node, "not all that lies in `{}` is read: {passed_over}", self.settings.path);
        }
        let shared = partition::Shared {
            node: self.node.clone(),
            settings: self.settings.clone(),
            projection: share.projection.clone(),
        };
        Ok(Box::new(share::FileShare::new(shared, files, share)?))
    }
}

impl Settings {
    fn partition_name(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).display().to_string()
    }

    fn decoder(&self) -> DecoderSettings {
        DecoderSettings { format: self.format, event_time: self.event_time.clone(), arrival: self.arrival.clone() }
    }
}

#[cfg(test)]
mod tests;
