//! The file source: one file, a glob or a directory; plain, gzip or zstd; read to the end or followed as it grows. Each
//! file is one partition and never split. Here stands what opens the tasks' shares.

mod compression;
mod framing;
mod head;
mod listing;
mod partition;
mod reader;
mod settings; // what a job file says of it
mod share;

pub use settings::{OnBadRecord, RECORD_BYTES_MAX_DEFAULT, RECORD_BYTES_MAX_LIMIT, Settings};

use super::{Share, Source, SourceFactory};
use anyhow::{bail, ensure};
use dataflow::restart::Permanent;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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

#[cfg(test)]
mod tests;
