//! Manifests and decisions of one job in a checkpoint storage. A checkpoint is first durable under a unique name, then
//! decided by creating its decision; recovery reads decisions only. Deletes what no kept manifest names.
//!
//! ```text
//! manifests/0000000003-<attempt>.json   what the checkpoint holds
//! decisions/0000000003.json             names the manifest, with length and checksum; created at most once
//! state/…                               written by the state backends, named by manifests
//! ```

use super::CheckpointStorage;
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::{CheckpointId, FileEntry, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use xxhash_rust::xxh3::xxh3_64;

/// The checkpoints of one job.
#[derive(Clone)]
pub struct Checkpoints {
    storage: Arc<dyn CheckpointStorage>,
    attempt: String,
    held: Arc<Mutex<Held>>,
}

/// A decided checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Decision {
    version: u32,
    checkpoint: CheckpointId,
    manifest: FileEntry,
}

/// Checkpoints whose files somebody holds, or held.
type Held = Vec<(CheckpointId, Weak<()>)>;

const DECISIONS: &str = "decisions/";
const MANIFESTS: &str = "manifests/";
const STATE: &str = "state/";

impl Checkpoints {
    /// `attempt` is unique to this run of the job: files of two runs never share a name.
    pub fn new(storage: Arc<dyn CheckpointStorage>, attempt: String) -> Self {
        Self { storage, attempt, held: Arc::default() }
    }

    /// Keeps the files of a checkpoint: `retain` passes over it as long as the answer is held.
    pub fn hold(&self, checkpoint: CheckpointId) -> Arc<()> {
        let hold = Arc::new(());
        self.held().push((checkpoint, Arc::downgrade(&hold)));
        hold
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest decided checkpoint, verified; none if there is none.
    ///
    /// # Errors
    /// It is damaged, of an unknown version, or cannot be read: which file, and what is wrong with it.
    pub fn latest(&self) -> anyhow::Result<Option<Manifest>> {
        let Some(name) = self.storage.list(DECISIONS)?.pop() else { return Ok(None) };
        let decision = self.decision(&name)?;
        let content = self.verified(&decision.manifest)?;
        let manifest: Manifest = serde_json::from_slice(&content)
            .with_context(|| format!("checkpoint manifest `{}` does not read as one", decision.manifest.name))?;
        ensure!(
            manifest.version == Manifest::VERSION,
            "checkpoint manifest `{}` has version {}, this program reads version {}",
            decision.manifest.name,
            manifest.version,
            Manifest::VERSION
        );
        Ok(Some(manifest))
    }

    /// A number that no checkpoint of this job has had, decided or not.
    ///
    /// # Errors
    /// The storage does not answer.
    pub fn next_id(&self) -> anyhow::Result<CheckpointId> {
        let number = |name: &String| name.rsplit('/').next()?.get(..10)?.parse::<u64>().ok();
        let mut names = self.storage.list(MANIFESTS)?;
        names.extend(self.storage.list(DECISIONS)?);
        Ok(CheckpointId(names.iter().filter_map(number).max().unwrap_or(0) + 1))
    }

    /// Makes the manifest durable.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn write(&self, manifest: &Manifest) -> anyhow::Result<FileEntry> {
        let content = serde_json::to_vec_pretty(manifest).context("a manifest is always JSON")?;
        let name = format!("{MANIFESTS}{:010}-{}.json", manifest.checkpoint.0, self.attempt);
        self.storage.write(&name, &content)?;
        Ok(FileEntry { name, length: content.len() as u64, checksum: checksum(&content) })
    }

    /// Decides a checkpoint whose manifest is durable: from now on it is the one that recovery takes.
    ///
    /// # Errors
    /// The storage refuses, or another run of the job has decided this checkpoint.
    pub fn decide(&self, checkpoint: CheckpointId, manifest: FileEntry) -> anyhow::Result<()> {
        let decision = Decision { version: Manifest::VERSION, checkpoint, manifest };
        let content = serde_json::to_vec_pretty(&decision).context("a decision is always JSON")?;
        let created = self.storage.create(&decision_name(checkpoint), &content)?;
        ensure!(created, "checkpoint {checkpoint} was decided by another run of this job; only one may run at a time");
        Ok(())
    }

    /// Keeps the newest `keep` decided checkpoints; deletes older ones, and manifests and files that none of those names.
    /// Files written for checkpoints behind the newest decided one are left alone.
    ///
    /// # Errors
    /// The storage refuses, or a kept manifest cannot be read.
    pub fn retain(&self, keep: usize) -> anyhow::Result<()> {
        let decisions = self.storage.list(DECISIONS)?;
        let newest = decisions.len().saturating_sub(keep.max(1));
        let held: Vec<String> = {
            let mut held = self.held();
            held.retain(|(_, hold)| hold.strong_count() > 0);
            held.iter().map(|(checkpoint, _)| decision_name(*checkpoint)).collect()
        };
        let is_kept = |at: usize, name: &String| at >= newest || held.contains(name);
        let (kept, old): (Vec<_>, Vec<_>) =
            decisions.into_iter().enumerate().partition(|(at, name)| is_kept(*at, name));
        let mut needed = BTreeSet::new();
        for (_, name) in &kept {
            let decision = self.decision(name)?;
            let manifest: Manifest = serde_json::from_slice(&self.verified(&decision.manifest)?)
                .with_context(|| format!("checkpoint manifest `{}` does not read as one", decision.manifest.name))?;
            needed.insert(decision.manifest.name);
            needed.extend(manifest.tasks.into_iter().flat_map(|task| task.files).map(|file| file.name));
        }
        // The decision goes first: a manifest without one is never taken.
        for (_, name) in &old {
            let dropped = self.decision(name)?;
            let files = self.named_by(&dropped.manifest)?;
            self.storage.delete(name)?;
            for file in files.iter().filter(|file| !needed.contains(*file)) {
                self.storage.delete(file)?;
            }
        }
        Ok(())
    }

    /// Deletes what a crash left behind: everything that no decided checkpoint names. Only before the job runs.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn sweep(&self) -> anyhow::Result<()> {
        let mut needed = BTreeSet::new();
        for name in self.storage.list(DECISIONS)? {
            let manifest = self.decision(&name)?.manifest;
            needed.extend(self.named_by(&manifest)?);
        }
        for prefix in [MANIFESTS, STATE] {
            for name in self.storage.list(prefix)?.iter().filter(|name| !needed.contains(*name)) {
                self.storage.delete(name)?;
            }
        }
        Ok(())
    }

    /// Deletes every checkpoint: the job starts over.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn clear(&self) -> anyhow::Result<()> {
        for prefix in [DECISIONS, MANIFESTS, STATE] {
            for name in self.storage.list(prefix)? {
                self.storage.delete(&name)?;
            }
        }
        Ok(())
    }

    /// The manifest itself and the files it names; a manifest that cannot be read names only itself.
    fn named_by(&self, manifest: &FileEntry) -> anyhow::Result<Vec<String>> {
        let mut names = vec![manifest.name.clone()];
        if let Some(content) = self.storage.read(&manifest.name)?
            && let Ok(read) = serde_json::from_slice::<Manifest>(&content)
        {
            names.extend(read.tasks.into_iter().flat_map(|task| task.files).map(|file| file.name));
        }
        Ok(names)
    }

    fn decision(&self, name: &str) -> anyhow::Result<Decision> {
        let content = self.storage.read(name)?.with_context(|| format!("checkpoint decision `{name}` is gone"))?;
        serde_json::from_slice(&content).with_context(|| format!("checkpoint decision `{name}` is damaged"))
    }

    fn verified(&self, file: &FileEntry) -> anyhow::Result<Vec<u8>> {
        let Some(content) = self.storage.read(&file.name)? else {
            bail!("checkpoint file `{}` is missing", file.name);
        };
        ensure!(
            content.len() as u64 == file.length && checksum(&content) == file.checksum,
            "checkpoint file `{}` is damaged: {} bytes with checksum {}, expected {} bytes with {}",
            file.name,
            content.len(),
            checksum(&content),
            file.length,
            file.checksum
        );
        Ok(content)
    }
}

fn decision_name(checkpoint: CheckpointId) -> String {
    format!("{DECISIONS}{:010}.json", checkpoint.0)
}

fn checksum(content: &[u8]) -> String {
    format!("{:016x}", xxh3_64(content))
}
