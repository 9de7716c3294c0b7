//! Finds the job that a command is about, and asks it: what `savepoint`, `rescale` and `stop` have in common.

use anyhow::{Context, anyhow};
use millstream::job::control::socket::{self, Ask, Done};
use millstream::job::definition;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Running {
    /// The job: its name, or its file
    job: String,
    /// The data directory it runs with
    #[arg(long, default_value = ".millstream")]
    data_dir: PathBuf,
}

impl Running {
    /// The job's name.
    pub(super) fn name(&self) -> anyhow::Result<String> {
        let path = Path::new(&self.job);
        if !path.is_file() {
            return Ok(self.job.clone());
        }
        let definition = definition::load(path)?.definition;
        let named = definition.map(|definition| definition.name).filter(|name| !name.is_empty());
        named.ok_or_else(|| anyhow!("`{}` is no job file: it names no job", self.job))
    }

    /// Asks the job, and waits for its answer.
    pub(super) fn ask(&self, ask: Ask) -> anyhow::Result<(String, Done)> {
        let name = self.name()?;
        let done = socket::ask(&self.data_dir.join(&name), &name, ask)?;
        Ok((name, done))
    }
}

/// A place as the job sees it, which runs in another folder: whole, unless it is a URL.
pub(super) fn whole(place: &str) -> anyhow::Result<String> {
    if place.contains("://") {
        return Ok(place.to_string());
    }
    let path = std::path::absolute(place).with_context(|| format!("`{place}` names no place"))?;
    path.to_str().map(str::to_string).with_context(|| format!("`{place}` is not UTF-8"))
}
