//! What a file sink remembers beside its target: whose output it is, and how far it has been applied.

use super::{OnExisting, Settings};
use crate::sink::SinkInput;
use anyhow::{Context, bail};
use dataflow::checkpoint::CheckpointId;
use dataflow::restart::Permanent;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The marker file, JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marker {
    /// Version of this format; see [`Marker::VERSION`].
    pub(super) version: u32,
    pub(super) job: String,
    pub(super) sink: String,
    /// The highest checkpoint applied.
    pub(super) checkpoint: Option<CheckpointId>,
    /// In a directory: added to a checkpoint's number to name its file, so that names go on behind those of earlier runs.
    pub(super) base: u64,
    /// Of a single file: its length once `checkpoint` was applied.
    pub(super) length: u64,
}

impl Marker {
    /// The version this program writes. It reads no other.
    const VERSION: u32 = 1;

    /// Before any checkpoint.
    pub(super) fn new(input: &SinkInput) -> Self {
        let (job, sink) = (input.job.clone(), input.sink.clone());
        Self { version: Self::VERSION, job, sink, checkpoint: None, base: 0, length: 0 }
    }

    /// The marker at `path`, none if there is no file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let failed = || format!("reading `{}`, where a file sink keeps what it has applied", path.display());
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(failed)?,
        };
        let marker: Self = serde_json::from_slice(&bytes).with_context(failed)?;
        if marker.version != Self::VERSION {
            bail!("`{}` has version {}, this program knows {}", path.display(), marker.version, Self::VERSION);
        }
        Ok(Some(marker))
    }

    /// Puts it at `path`, durably: a crash leaves the old one or this one.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let failed = || format!("writing `{}`, where a file sink keeps what it has applied", path.display());
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let bytes = serde_json::to_vec(self).with_context(failed)?;
        let mut file = File::create(&beside).with_context(failed)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).with_context(failed)?;
        fs::rename(&beside, path).with_context(failed)?;
        sync_folder(path.parent().unwrap_or(Path::new(".")))
    }

    fn is_of(&self, input: &SinkInput) -> bool {
        self.job == input.job && self.sink == input.sink
    }
}

/// What to do with output that is there when this sink did not write it in the run that goes on.
pub(super) fn judge(
    marker: Option<&Marker>,
    settings: &Settings,
    input: &SinkInput,
    found: &Path,
) -> anyhow::Result<OnExisting> {
    let (path, sink) = (found.display(), &input.sink);
    let says = "remove it, or write somewhere else";
    match (settings.on_existing, marker) {
        (Some(OnExisting::Fail), _) => {
            bail!(Permanent(format!("sink `{sink}` finds `{path}` from an earlier run: {says}")))
        }
        (Some(chosen), _) => Ok(chosen),
        (None, Some(marker)) if marker.is_of(input) => Ok(OnExisting::Replace),
        (None, Some(marker)) => {
            bail!(Permanent(format!(
                "sink `{sink}` finds `{path}`, which sink `{}` of job `{}` wrote: {says}",
                marker.sink, marker.job
            )))
        }
        (None, None) => bail!(Permanent(format!("sink `{sink}` finds `{path}`, which it has not written: {says}"))),
    }
}

/// The marker of a run that goes on, none if this one begins anew.
///
/// # Errors
/// The target belongs to someone else.
pub(super) fn of_this_run(path: &Path, input: &SinkInput) -> anyhow::Result<Option<Marker>> {
    match Marker::read(path)? {
        Some(marker) if !input.fresh && marker.is_of(input) => Ok(Some(marker)),
        Some(marker) if !input.fresh => bail!(Permanent(format!(
            "sink `{}` of job `{}` would go on where sink `{}` of job `{}` writes, says `{}`: write somewhere else",
            input.sink,
            input.job,
            marker.sink,
            marker.job,
            path.display()
        ))),
        _ => Ok(None),
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> anyhow::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .with_context(|| format!("making the names in `{}` durable", folder.display()))
}
