//! Which checkpoint a job goes on from: the newest that is whole. Falls back to an earlier one only where nothing is promised
//! that this would break, or where the user says so.

use super::definition::Definition;
use crate::checkpoint::{Checkpoints, Damaged};
use anyhow::{Context, bail};
use dataflow::checkpoint::{CheckpointId, Manifest};

/// Gives `make` the newest checkpoint, none if there has never been one, and the one before as long as what it reads is damaged.
/// What it has made, and what was damaged, for the user to hear. `make` restores all state, and thereby verifies it, before it
/// does anything that cannot be taken back. `repeat_output`: the user accepts that exactly-once sinks get rows again.
///
/// # Errors
/// A checkpoint is damaged and the one before may not be taken; a format has a version that is not known; the storage does not
/// answer; `make` fails for another reason.
pub(super) fn recover<T>(
    checkpoints: &Checkpoints,
    definition: &Definition,
    repeat_output: bool,
    mut make: impl FnMut(Option<Manifest>) -> anyhow::Result<T>,
) -> anyhow::Result<(T, Option<String>)> {
    let mut candidates = Candidates::new(checkpoints, definition, repeat_output)?;
    loop {
        let newest = candidates.newest().context("the last checkpoint cannot be read")?;
        match make(newest) {
            Ok(made) => return Ok((made, candidates.told())),
            Err(error) => candidates.fall_back(error)?,
        }
    }
}

/// Decided checkpoints, from the newest on.
struct Candidates<'a> {
    checkpoints: &'a Checkpoints,
    /// Not yet tried, the newest last.
    left: Vec<CheckpointId>,
    trying: Option<CheckpointId>,
    /// Damaged ones, the newest first, each with what is wrong.
    damaged: Vec<(CheckpointId, String)>,
    /// Sinks that are exactly once: their rows would come twice.
    exact: Vec<&'a str>,
    repeat_output: bool,
}

impl<'a> Candidates<'a> {
    fn new(checkpoints: &'a Checkpoints, definition: &'a Definition, repeat_output: bool) -> anyhow::Result<Self> {
        let mut left = checkpoints.decided()?;
        left.reverse();
        let exact = definition.exact_sinks().collect();
        Ok(Self { checkpoints, left, trying: None, damaged: vec![], exact, repeat_output })
    }

    /// The newest checkpoint not found damaged, its manifest verified; none if there has never been one.
    fn newest(&mut self) -> anyhow::Result<Option<Manifest>> {
        while let Some(checkpoint) = self.left.pop() {
            self.trying = Some(checkpoint);
            match self.checkpoints.manifest(checkpoint) {
                Ok(None) => {} // a number that was only claimed
                Ok(manifest) => return Ok(manifest),
                Err(error) => self.fall_back(error)?,
            }
        }
        match self.damaged.first() {
            None => Ok(None),
            Some((newest, problem)) => bail!(
                "checkpoint {newest} cannot be restored ({problem}), and no earlier one is left: put the file back, or start over \
                 with `--fresh`"
            ),
        }
    }

    /// Restoring the newest ended with `error`. Returns if the one before may be tried.
    fn fall_back(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let problem = error.downcast_ref::<Damaged>().map(ToString::to_string);
        let (Some(problem), Some(checkpoint)) = (problem, self.trying) else { return Err(error) };
        if !self.exact.is_empty() && !self.repeat_output {
            return Err(error.context(format!(
                "checkpoint {checkpoint} cannot be restored, and the one before would repeat output: rows of checkpoint \
                 {checkpoint} could come to {} a second time. Put the file back, accept that with `--repeat-output`, or start over \
                 with `--fresh`",
                self.exact_sinks()
            )));
        }
        tracing::warn!("checkpoint {checkpoint} cannot be restored, so the one before is tried: {problem}");
        self.damaged.push((checkpoint, problem));
        Ok(())
    }

    fn exact_sinks(&self) -> String {
        self.exact.iter().map(|sink| format!("`{sink}`")).collect::<Vec<_>>().join(", ")
    }

    fn told(&self) -> Option<String> {
        let ((newest, _), (oldest, _)) = (self.damaged.first()?, self.damaged.last()?);
        let which =
            if newest == oldest { format!("checkpoint {newest}") } else { format!("checkpoints {oldest} to {newest}") };
        let repeated = match self.exact_sinks() {
            none if none.is_empty() => none,
            sinks => format!(", so its rows may come to {sinks} a second time"),
        };
        let problems: Vec<&str> = self.damaged.iter().map(|(_, problem)| problem.as_str()).collect();
        Some(format!("{which} cannot be restored{repeated}: {}", problems.join("; ")))
    }
}
