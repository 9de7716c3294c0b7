//! What a job file says of a file source.

use crate::source::format::{DecoderSettings, Format, TimeField};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

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
    /// What lies in it or below is a partition of the name that it has from here, so that a job that is moved with its files goes
    /// on where it was; none: partitions are named by their whole paths.
    pub folder: Option<PathBuf>,
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

impl Settings {
    pub(super) fn partition_name(&self, path: &Path) -> String {
        let within = self.folder.as_ref().and_then(|folder| path.strip_prefix(folder).ok());
        within.unwrap_or(path).display().to_string()
    }

    /// Where a partition of this name lies.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.folder.as_ref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    }

    pub(super) fn decoder(&self) -> DecoderSettings {
        DecoderSettings { format: self.format, event_time: self.event_time.clone(), arrival: self.arrival.clone() }
    }
}
