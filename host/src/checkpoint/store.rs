//! Manifests and decisions of one job in a checkpoint storage. A checkpoint is first durable under a unique name, then
//! decided by creating its decision; recovery reads decisions only. Deletes what no kept manifest names.
//!
//! ```text
//! manifests/0000000003-<attempt>.json   what the checkpoint holds
//! decisions/0000000003.json             names the manifest, with length and checksum; created at most once
//! state/…                               written by the state backends, named by manifests
//! ```
//!
//! A run creates decisions without a gap: a number it gave up is created too, naming no manifest, before the next one. So a run
//! that starts takes the job over by creating the next number in the same way, a *claim*: an earlier run that still lives finds it
//! taken and ends, and what it left can be swept away. This is needed where no lock stands between two runs.

use super::CheckpointStorage;
use super::verify::{Damaged, entry, read_verified, read_versioned};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::{CheckpointId, FileEntry, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The checkpoints of one job.
pub struct Checkpoints {
    storage: Arc<dyn CheckpointStorage>,
    attempt: String,
    /// The highest number that this run knows to be taken: by itself, or before it began.
    taken: AtomicU64,
    held: Mutex<Held>,
}

/// What is decided under a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    /// Version of this format; see [`Decision::VERSION`].
    version: u32,
    checkpoint: CheckpointId,
    /// The run that decided.
    run: String,
    /// None: the run has only taken the number, so that no other decides it.
    manifest: Option<FileEntry>,
}

impl Decision {
    /// The version this program writes. It reads no other.
    const VERSION: u32 = 1;
}

/// Another run of the same job has the number: it has taken over.
#[derive(Debug, thiserror::Error)]
#[error(
    "checkpoint {checkpoint} was decided by another run of this job (`{run}`), started later or elsewhere with the same storage: \
     only one may run at a time, and this one ends"
)]
pub struct DecidedElsewhere {
    checkpoint: CheckpointId,
    run: String,
}

/// Checkpoints whose files somebody holds, or held.
type Held = Vec<(CheckpointId, Weak<()>)>;

const DECISIONS: &str = "decisions/";
const MANIFESTS: &str = "manifests/";
const STATE: &str = "state/";

/// So many other runs may claim a number first, one after the other, before a start gives up.
const CLAIMS_MAX: usize = 16;

impl Checkpoints {
    /// `attempt` is unique to this run of the job: files of two runs never share a name.
    pub fn new(storage: Arc<dyn CheckpointStorage>, attempt: String) -> Self {
        Self { storage, attempt, taken: AtomicU64::new(0), held: Mutex::default() }
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

    /// Numbers that were decided or claimed, the newest first.
    ///
    /// # Errors
    /// The storage does not answer.
    pub fn decided(&self) -> anyhow::Result<Vec<CheckpointId>> {
        let mut numbers: Vec<CheckpointId> =
            self.storage.list(DECISIONS)?.iter().filter_map(|name| number(name)).collect();
        numbers.sort_by(|a, b| b.cmp(a));
        Ok(numbers)
    }

    /// The newest decided checkpoint, verified; none if there is none.
    ///
    /// # Errors
    /// As [`Checkpoints::manifest`].
    pub fn latest(&self) -> anyhow::Result<Option<Manifest>> {
        for checkpoint in self.decided()? {
            if let Some(manifest) = self.manifest(checkpoint)? {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// The manifest of a decided checkpoint, verified; none where the number was only claimed.
    ///
    /// # Errors
    /// [`Damaged`]: its decision or manifest is. Any other: a version that is not known, or the storage does not answer.
    pub fn manifest(&self, checkpoint: CheckpointId) -> anyhow::Result<Option<Manifest>> {
        Ok(self.named(checkpoint)?.map(|(_, manifest)| manifest))
    }

    /// Makes sure that no earlier run can decide a checkpoint any more, by taking the next number; which it was.
    ///
    /// # Errors
    /// The storage does not answer, or other runs keep taking numbers.
    pub fn claim(&self) -> anyhow::Result<CheckpointId> {
        for _ in 0..CLAIMS_MAX {
            let next = CheckpointId(self.newest()? + 1);
            // An earlier run may have passed over the number meanwhile, see `first_id`.
            if self.create(next, None)? && self.newest()? == next.0 {
                self.taken.store(next.0, Ordering::SeqCst);
                return Ok(next);
            }
        }
        bail!("other runs of this job decide checkpoints in the same storage; only one may run at a time")
    }

    fn newest(&self) -> anyhow::Result<u64> {
        Ok(self.decided()?.first().map_or(0, |newest| newest.0))
    }

    /// The job does not run after all.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn give_back(&self, claimed: Option<CheckpointId>) -> anyhow::Result<()> {
        claimed.map_or(Ok(()), |claimed| self.storage.delete(&decision_name(claimed)))
    }

    /// The number of this run's first checkpoint: no checkpoint of the job has had it, decided or not, and it is above `floor`.
    /// Where nothing was claimed, a lock keeps other runs away.
    ///
    /// # Errors
    /// The storage does not answer. [`DecidedElsewhere`]: a later run has taken over already.
    pub fn first_id(&self, floor: Option<CheckpointId>) -> anyhow::Result<CheckpointId> {
        let manifests = self.storage.list(MANIFESTS)?;
        let manifests = manifests.iter().filter_map(|name| number(name)).max();
        let last = self.newest()?.max(manifests.max(floor).map_or(0, |highest| highest.0));
        let claimed = self.taken.load(Ordering::SeqCst);
        if claimed > 0 && last > claimed {
            // The next claim must come behind the numbers that are passed over, and one that has not is seen now.
            self.take(CheckpointId(last), None)?;
            if let Some(between) = self.decided()?.into_iter().find(|number| (claimed + 1..last).contains(&number.0)) {
                return Err(DecidedElsewhere { checkpoint: between, run: self.decision(between)?.run }.into());
            }
        }
        self.taken.store(last, Ordering::SeqCst);
        Ok(CheckpointId(last + 1))
    }

    /// Makes the manifest durable.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn write(&self, manifest: &Manifest) -> anyhow::Result<FileEntry> {
        let content = serde_json::to_vec_pretty(manifest).context("a manifest is always JSON")?;
        let name = format!("{MANIFESTS}{:010}-{}.json", manifest.checkpoint.0, self.attempt);
        self.storage.write(&name, &content)?;
        Ok(entry(name, &content))
    }

    /// Decides a checkpoint whose manifest is durable: from now on it is the one that recovery takes.
    ///
    /// # Errors
    /// [`DecidedElsewhere`]. Any other: the storage refuses, and it is not known whether the checkpoint is decided.
    pub fn decide(&self, checkpoint: CheckpointId, manifest: FileEntry) -> anyhow::Result<()> {
        for given_up in self.taken.load(Ordering::SeqCst) + 1..checkpoint.0 {
            self.take(CheckpointId(given_up), None)?;
        }
        self.take(checkpoint, Some(manifest))
    }

    fn take(&self, checkpoint: CheckpointId, manifest: Option<FileEntry>) -> anyhow::Result<()> {
        if !self.create(checkpoint, manifest)? {
            let run = self.decision(checkpoint)?.run;
            // Ours is one whose creation was not answered.
            if run != self.attempt {
                return Err(DecidedElsewhere { checkpoint, run }.into());
            }
        }
        self.taken.store(checkpoint.0, Ordering::SeqCst);
        Ok(())
    }

    /// Keeps the newest `keep` decided checkpoints; deletes older ones, and manifests and files that none of those names.
    /// Files written for checkpoints behind the newest decided one are left alone. A damaged one does not count.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn retain(&self, keep: usize) -> anyhow::Result<()> {
        let mut needed = BTreeSet::new();
        let mut kept = 0;
        let mut old = vec![];
        let held: Vec<CheckpointId> = {
            let mut held = self.held();
            held.retain(|(_, hold)| hold.strong_count() > 0);
            held.iter().map(|&(checkpoint, _)| checkpoint).collect()
        };
        for checkpoint in self.decided()? {
            if kept >= keep.max(1) && !held.contains(&checkpoint) {
                old.push(checkpoint);
                continue;
            }
            match self.files(checkpoint) {
                Ok(files) if files.is_empty() => {} // a claim: its number keeps its place
                Ok(files) => {
                    kept += 1;
                    needed.extend(files);
                }
                Err(error) if kept > 0 && error.is::<Damaged>() => old.push(checkpoint),
                Err(error) => return Err(error),
            }
        }
        for checkpoint in old {
            let files = self.files_if_whole(checkpoint)?;
            // The decision goes first: a manifest without one is never taken.
            self.storage.delete(&decision_name(checkpoint))?;
            for file in files.unwrap_or_default().difference(&needed) {
                self.storage.delete(file)?;
            }
        }
        Ok(())
    }

    /// Deletes what a crash left behind: everything that no decided checkpoint names. Only before the job runs. Where one is
    /// damaged, nothing is deleted: somebody may want to mend it.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn sweep(&self) -> anyhow::Result<()> {
        self.storage.remove_unfinished()?;
        let mut needed = BTreeSet::new();
        for checkpoint in self.decided()? {
            match self.files_if_whole(checkpoint)? {
                Some(files) => needed.extend(files),
                None => return Ok(()),
            }
        }
        for prefix in [MANIFESTS, STATE] {
            for name in self.storage.list(prefix)?.iter().filter(|name| !needed.contains(*name)) {
                self.storage.delete(name)?;
            }
        }
        Ok(())
    }

    /// Deletes every checkpoint, but for a number claimed: the job starts over.
    ///
    /// # Errors
    /// The storage refuses.
    pub fn clear(&self, claimed: Option<CheckpointId>) -> anyhow::Result<()> {
        let claim = claimed.map(decision_name);
        for prefix in [DECISIONS, MANIFESTS, STATE] {
            for name in self.storage.list(prefix)?.iter().filter(|name| Some(*name) != claim.as_ref()) {
                self.storage.delete(name)?;
            }
        }
        Ok(())
    }

    /// Deletes what lay in inputs for a checkpoint that was given up; what cannot be deleted goes with the next start.
    pub(super) fn discard(&self, files: impl IntoIterator<Item = FileEntry>) {
        for file in files {
            if let Err(error) = self.storage.delete(&file.name) {
                tracing::warn!(file = file.name, "a file that no checkpoint names cannot be deleted: {error:#}");
            }
        }
    }

    fn named(&self, checkpoint: CheckpointId) -> anyhow::Result<Option<(FileEntry, Manifest)>> {
        let Some(file) = self.decision(checkpoint)?.manifest else { return Ok(None) };
        let content = read_verified(&*self.storage, &file)?;
        let manifest = read_versioned(("checkpoint manifest", &file.name), &content, Manifest::VERSION)?;
        Ok(Some((file, manifest)))
    }

    /// The manifest of a checkpoint and the files it names; nothing where the number was only claimed.
    fn files(&self, checkpoint: CheckpointId) -> anyhow::Result<BTreeSet<String>> {
        let Some((file, manifest)) = self.named(checkpoint)? else { return Ok(BTreeSet::new()) };
        let files = manifest.files().map(|file| file.name.clone());
        Ok(files.chain([file.name]).collect())
    }

    /// None where it is damaged.
    fn files_if_whole(&self, checkpoint: CheckpointId) -> anyhow::Result<Option<BTreeSet<String>>> {
        match self.files(checkpoint) {
            Ok(files) => Ok(Some(files)),
            Err(error) if error.is::<Damaged>() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, checkpoint: CheckpointId, manifest: Option<FileEntry>) -> anyhow::Result<bool> {
        let decision = Decision { version: Decision::VERSION, checkpoint, run: self.attempt.clone(), manifest };
        let content = serde_json::to_vec_pretty(&decision).context("a decision is always JSON")?;
        self.storage.create(&decision_name(checkpoint), &content)
    }

    fn decision(&self, checkpoint: CheckpointId) -> anyhow::Result<Decision> {
        let name = decision_name(checkpoint);
        let damaged = |problem: String| Damaged { file: name.clone(), problem };
        let content = self.storage.read(&name)?.ok_or_else(|| damaged("is gone".to_string()))?;
        let decision: Decision = read_versioned(("checkpoint decision", &name), &content, Decision::VERSION)?;
        ensure!(
            decision.checkpoint == checkpoint,
            damaged(format!("is damaged: it speaks of checkpoint {}", decision.checkpoint))
        );
        Ok(decision)
    }
}

fn decision_name(checkpoint: CheckpointId) -> String {
    format!("{DECISIONS}{:010}.json", checkpoint.0)
}

/// The checkpoint of a manifest or decision; none if the file is no such thing.
fn number(name: &str) -> Option<CheckpointId> {
    name.rsplit('/').next()?.get(..10)?.parse().ok().map(CheckpointId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::memory::MemoryStorage;
    use std::collections::BTreeMap;

    fn run(storage: &Arc<MemoryStorage>, name: &str) -> Checkpoints {
        Checkpoints::new(storage.clone(), name.into())
    }

    fn manifest(checkpoint: u64) -> Manifest {
        Manifest {
            version: Manifest::VERSION,
            checkpoint: CheckpointId(checkpoint),
            job: "job".into(),
            job_revision: String::new(),
            max_parallelism: 128,
            finished: false,
            components: BTreeMap::new(),
            states: vec![],
            next_state: 0,
            savepoint: None,
            sources: BTreeMap::new(),
            tasks: vec![],
            in_flight: vec![],
            sinks: BTreeMap::new(),
            sink_counters: BTreeMap::new(),
        }
    }

    fn decide(run: &Checkpoints, checkpoint: u64) -> anyhow::Result<()> {
        let written = run.write(&manifest(checkpoint))?;
        run.decide(CheckpointId(checkpoint), written)
    }

    fn numbers(run: &Checkpoints) -> Vec<u64> {
        run.decided().unwrap().iter().map(|checkpoint| checkpoint.0).collect()
    }

    #[test]
    fn run_that_was_taken_over_cannot_decide_even_if_it_gives_a_number_up() {
        for next in [2, 3] {
            let storage = Arc::new(MemoryStorage::default());
            let earlier = run(&storage, "earlier");
            assert_eq!(earlier.first_id(None).unwrap(), CheckpointId(1));
            decide(&earlier, 1).unwrap();
            let written = earlier.write(&manifest(next)).unwrap();
            let later = run(&storage, "later");
            assert_eq!(later.claim().unwrap(), CheckpointId(2));
            assert_eq!(later.latest().unwrap().unwrap().checkpoint, CheckpointId(1));
            later.sweep().unwrap();
            let error = earlier.decide(CheckpointId(next), written).unwrap_err();
            assert!(error.is::<DecidedElsewhere>() && error.to_string().contains("`later`"), "{error:#}");
            decide(&later, later.first_id(None).unwrap().0).unwrap();
            assert_eq!(later.latest().unwrap().unwrap().checkpoint, CheckpointId(3));
        }
    }

    #[test]
    fn run_that_passes_over_numbers_notices_who_took_one_of_them() {
        let storage = Arc::new(MemoryStorage::default());
        let (earlier, later) = (run(&storage, "earlier"), run(&storage, "later"));
        assert_eq!(earlier.claim().unwrap(), CheckpointId(1));
        assert_eq!(later.claim().unwrap(), CheckpointId(2));
        let error = earlier.first_id(Some(CheckpointId(9))).unwrap_err();
        assert!(error.is::<DecidedElsewhere>(), "{error:#}");
        assert_eq!(run(&storage, "last").claim().unwrap(), CheckpointId(10));
    }

    #[test]
    fn number_whose_decision_was_not_answered_is_found_to_be_ours() {
        let storage = Arc::new(MemoryStorage::default());
        let job = run(&storage, "a");
        job.first_id(None).unwrap();
        decide(&job, 1).unwrap();
        decide(&job, 1).unwrap();
        decide(&job, 4).unwrap();
        assert_eq!(numbers(&job), [4, 3, 2, 1]);
        assert_eq!(job.latest().unwrap().unwrap().checkpoint, CheckpointId(4));
    }

    #[test]
    fn what_is_kept_counts_whole_checkpoints_and_not_claims_or_damaged_ones() {
        let storage = Arc::new(MemoryStorage::default());
        let job = run(&storage, "a");
        job.first_id(None).unwrap();
        (1..=3).for_each(|checkpoint| decide(&job, checkpoint).unwrap());
        storage.write("manifests/0000000002-a.json", b"{}").unwrap();
        job.claim().unwrap();
        decide(&job, 5).unwrap();
        job.retain(3).unwrap();
        assert_eq!(numbers(&job), [5, 4, 3, 1]);
        job.retain(1).unwrap();
        assert_eq!(numbers(&job), [5]);
        assert_eq!(storage.list("manifests/").unwrap(), ["manifests/0000000002-a.json", "manifests/0000000005-a.json"]);
    }

    #[test]
    fn damage_is_told_from_a_version_that_is_not_known() {
        let storage = Arc::new(MemoryStorage::default());
        let job = run(&storage, "a");
        job.first_id(None).unwrap();
        let newer = Manifest { version: 9, ..manifest(1) };
        let written = job.write(&newer).unwrap();
        job.decide(CheckpointId(1), written).unwrap();
        let error = job.latest().unwrap_err();
        assert!(
            !error.is::<Damaged>() && error.to_string().contains("format version 9, this program reads 2"),
            "{error:#}"
        );
        let name = "decisions/0000000001.json";
        storage.write(name, br#"{"version": 7, "what": "is this"}"#).unwrap();
        let error = job.latest().unwrap_err();
        assert!(!error.is::<Damaged>() && error.to_string().contains("has format version 7"), "{error:#}");
        storage.write(name, b"{").unwrap();
        let error = job.latest().unwrap_err();
        assert!(error.is::<Damaged>() && error.to_string().contains(name), "{error:#}");
    }

    #[test]
    fn nothing_is_swept_away_beside_a_damaged_checkpoint() {
        let storage = Arc::new(MemoryStorage::default());
        let job = run(&storage, "a");
        job.first_id(None).unwrap();
        decide(&job, 1).unwrap();
        storage.write("state/left-behind", b"").unwrap();
        let whole = storage.read("manifests/0000000001-a.json").unwrap().unwrap();
        storage.delete("manifests/0000000001-a.json").unwrap();
        job.sweep().unwrap();
        assert_eq!(storage.list("state/").unwrap().len(), 1);
        storage.write("manifests/0000000001-a.json", &whole).unwrap();
        job.sweep().unwrap();
        assert_eq!(storage.list("").unwrap().len(), 2);
    }
}
