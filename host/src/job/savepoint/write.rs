//! Makes a savepoint of a checkpoint whose files are held meanwhile. The job runs on.

use super::FILE;
use super::rows::Writer;
use crate::checkpoint::{self, CheckpointStorage};
use crate::state::{self, Address, RowMeta};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::savepoint::{OperatorSnapshot, RowFile, Savepoint};
use dataflow::checkpoint::{Manifest, TaskSnapshot};
use dataflow::time::Timestamp;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A file of rows closes at this size, so that a savepoint is written, and read by many tasks, in pieces.
const FILE_BYTES: usize = 64 << 20;

/// How the names of its files of rows begin.
const ROWS: &str = "rows/";

/// Lies in a place as long as a savepoint is written there.
const UNFINISHED: &str = "unfinished";

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The savepoint's checksum, which names it.
    pub id: String,
    /// Rows of state.
    pub rows: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Its checkpoint.
    pub checkpoint: u64,
}

/// Takes an empty place for one savepoint, of a job or of several: it is there, can be written, and nobody else writes to it.
///
/// # Errors
/// It is not empty, or refuses.
pub fn claim(place: &dyn CheckpointStorage, job: &str) -> anyhow::Result<()> {
    let taken = place.list("").context("it cannot be read")?;
    if taken.iter().any(|name| name == UNFINISHED) {
        bail!(
            "another savepoint is being written there, or one was broken off: name another place, or delete what lies there"
        );
    }
    refuse_taken(&taken)?;
    ensure!(
        place.create(UNFINISHED, job.as_bytes()).context("it cannot be written")?,
        "another savepoint is being written there: name another place"
    );
    // Why again: another may have been written and finished between the look and the claim.
    let beside: Vec<String> = place.list("")?.into_iter().filter(|name| name != UNFINISHED).collect();
    refuse_taken(&beside).inspect_err(|_| drop_claim(place))
}

fn refuse_taken(taken: &[String]) -> anyhow::Result<()> {
    let first = taken.first().map_or("", String::as_str);
    ensure!(taken.is_empty(), "it is not empty: it holds `{first}`; name another place, nothing is overwritten");
    Ok(())
}

/// Writes what `manifest` names in `from` to the claimed place `to`.
///
/// # Errors
/// A file of the checkpoint is missing or damaged, or the place refuses.
pub fn write(
    manifest: &Manifest,
    (from, scratch): (&Arc<dyn CheckpointStorage>, &Path),
    to: &dyn CheckpointStorage,
    created_ms: Timestamp,
) -> anyhow::Result<Written> {
    let files = rows(manifest, (from, scratch), to)?;
    let mut savepoint = Savepoint {
        format: Savepoint::FORMAT.into(),
        version: Savepoint::VERSION,
        checksum: String::new(),
        job: manifest.job.clone(),
        job_revision: manifest.job_revision.clone(),
        checkpoint: manifest.checkpoint,
        created_ms,
        max_parallelism: manifest.max_parallelism,
        finished: manifest.finished,
        components: manifest.components.clone(),
        states: manifest.states.clone(),
        next_state: manifest.next_state,
        sources: manifest.sources.clone(),
        operators: operators(&manifest.tasks),
        files,
    };
    savepoint.checksum = checksum(&savepoint)?;
    let content = serde_json::to_vec_pretty(&savepoint).context("a savepoint is always JSON")?;
    to.write(FILE, &content).with_context(|| format!("`{FILE}` of the savepoint cannot be written"))?;
    drop_claim(to);
    Ok(Written {
        rows: savepoint.files.iter().map(|file| file.rows).sum(),
        bytes: content.len() as u64 + savepoint.files.iter().map(|file| file.file.length).sum::<u64>(),
        checkpoint: savepoint.checkpoint.0,
        id: savepoint.checksum,
    })
}

/// Leaves a claimed place as empty as it was: what was written of a savepoint that failed is none.
pub fn give_up(place: &dyn CheckpointStorage) {
    // Whatever else lies there by now is somebody's.
    let is_ours = |name: &String| name.starts_with(ROWS) || name == FILE;
    let files = || place.list("")?.into_iter().filter(is_ours).try_for_each(|name| place.delete(&name));
    match files().and_then(|()| place.remove_unfinished()) {
        Ok(()) => drop_claim(place),
        Err(error) => {
            tracing::warn!(
                error = format!("{error:#}"),
                "what was written of a savepoint stays: delete it, it is none"
            );
        }
    }
}

/// The last to go: as long as it lies there, nobody else writes.
fn drop_claim(place: &dyn CheckpointStorage) {
    if let Err(error) = place.delete(UNFINISHED) {
        tracing::warn!(error = format!("{error:#}"), "`{UNFINISHED}` stays in the place of a savepoint: delete it");
    }
}

/// xxh3-64 of the savepoint as compact JSON without its checksum.
fn checksum(savepoint: &Savepoint) -> anyhow::Result<String> {
    let without = Savepoint { checksum: String::new(), ..savepoint.clone() };
    let content = serde_json::to_vec(&without).context("a savepoint is always JSON")?;
    Ok(checkpoint::checksum(&content))
}

fn operators(tasks: &[TaskSnapshot]) -> BTreeMap<String, OperatorSnapshot> {
    let mut operators: BTreeMap<String, OperatorSnapshot> = BTreeMap::new();
    for task in tasks {
        for operator in &task.operators {
            let part = operators.entry(operator.clone());
            let part = part
                .and_modify(|part| part.watermark = part.watermark.min(task.watermark))
                .or_insert_with(|| OperatorSnapshot { watermark: task.watermark, ..OperatorSnapshot::default() });
            // A task may have fired already what another is in the midst of. Nothing fires twice: the state tells.
            part.firing = part.firing.max(task.firing);
            for (name, count) in &task.counters {
                if let Some((owner, counter)) = name.split_once('/').filter(|(owner, _)| owner == operator) {
                    debug_assert_eq!(owner, operator);
                    *part.counters.entry(counter.to_string()).or_default() += count;
                }
            }
        }
    }
    operators
}

/// Copies the rows, key group by key group: each lies with one task of each chain.
fn rows(
    manifest: &Manifest,
    (from, scratch): (&Arc<dyn CheckpointStorage>, &Path),
    to: &dyn CheckpointStorage,
) -> anyhow::Result<Vec<RowFile>> {
    let mut files = Files { to, file: Writer::new(), groups: None, rows: 0, done: vec![] };
    let mut tasks: Vec<&TaskSnapshot> = manifest.tasks.iter().collect();
    tasks.sort_by_key(|task| (task.chain.as_str(), task.groups));
    for task in tasks {
        let groups = task.groups.0..task.groups.1;
        let push = &mut |at: Address<'_>, meta, bytes: &[u8]| files.push(at, meta, bytes);
        state::read_snapshot(from, scratch, task, groups, push)
            .with_context(|| format!("the state of `{}` task {} cannot be read", task.chain, task.task))?;
        files.close()?;
    }
    Ok(files.done)
}

struct Files<'a> {
    to: &'a dyn CheckpointStorage,
    file: Writer,
    groups: Option<(u16, u16)>,
    rows: u64,
    done: Vec<RowFile>,
}

impl Files<'_> {
    fn push(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) -> anyhow::Result<()> {
        if self.file.len() >= FILE_BYTES {
            self.close()?;
        }
        let group = at.group.0;
        self.groups = Some(self.groups.map_or((group, group), |(first, last)| (first.min(group), last.max(group))));
        self.rows += 1;
        self.file.push(at, meta, bytes);
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let Some(groups) = self.groups.take() else { return Ok(()) };
        let name = format!("{ROWS}{:06}", self.done.len());
        let (content, file) = std::mem::replace(&mut self.file, Writer::new()).finish(name);
        let failed = || format!("`{}` of the savepoint cannot be written", file.name);
        self.to.write(&file.name, &content).with_context(failed)?;
        self.done.push(RowFile { file, groups, rows: std::mem::take(&mut self.rows) });
        Ok(())
    }
}
