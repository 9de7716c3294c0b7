//! What a checkpoint gives back to a job that starts: state numbers, positions, watermarks, counters, staged output. Refuses
//! a job file that no longer fits what was kept, before anything is touched.

use super::blueprint::{Blueprint, Part};
use super::run::RunOptions;
use super::savepoint::Opened;
use super::storage::States;
use crate::operator::OperatorFactory;
use crate::source::Partition;
use crate::state::{Address, Fork, RowMeta, StateBackend, StateDeclaration, StateLost, StateNumber, forked};
use crate::task::{ChainNode, TaskId};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::savepoint::{Fit, OperatorSnapshot, Savepoint, StateFit, compare};
use dataflow::checkpoint::{CheckpointId, Manifest, SourceSnapshot, Staged, StateEntry, StateKind, TaskSnapshot};
use dataflow::graph::{Node, Role};
use dataflow::replay::{Replay, ReplayPart};
use dataflow::restart::Permanent;
use dataflow::time::{START, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// What a job goes on from.
pub(super) enum Origin {
    /// It begins.
    Nothing,
    /// Its newest decided checkpoint.
    Checkpoint(Box<Manifest>),
    /// A savepoint, which may be another job's.
    Savepoint(Arc<Opened>),
}

/// What a job goes on from, fitted to what it is now.
pub(super) struct Restored {
    origin: Origin,
    /// Numbers of every state of the job, those of the origin first.
    pub(super) states: Vec<StateEntry>,
    /// The number that the next state gets.
    pub(super) next_state: u32,
}

/// An operator's states as the job declares them: operator, name, kind, version.
type Declared = Vec<(String, String, StateKind, u32)>;

fn declared(blueprint: &Blueprint) -> Declared {
    let of_node = |(node, part): (&Node, &Part)| {
        let states = if let Part::Operator(factory) = part { factory.states() } else { vec![] };
        let line = |it: StateDeclaration| (node.name.clone(), it.name, it.kind, u32::from(it.version));
        states.into_iter().map(line).collect::<Vec<_>>()
    };
    blueprint.nodes.iter().zip(&blueprint.parts).flat_map(of_node).collect()
}

impl Restored {
    /// Fits what the job goes on from to the job.
    ///
    /// # Errors
    /// The job no longer fits: what would be lost, and what to do.
    pub(super) fn new(
        origin: Origin,
        blueprint: &Blueprint,
        max_parallelism: u16,
        options: &RunOptions,
    ) -> anyhow::Result<Self> {
        let declared = declared(blueprint);
        let (fit, mut states, mut next_state) = match &origin {
            Origin::Nothing => (Ok(()), vec![], 0),
            Origin::Checkpoint(manifest) => {
                (fits(manifest, blueprint, max_parallelism), manifest.states.clone(), manifest.next_state)
            }
            Origin::Savepoint(opened) => {
                let Opened { savepoint, .. } = &**opened;
                let fit = fits_savepoint(savepoint, blueprint, &declared, max_parallelism, options.allow_dropped);
                (fit, savepoint.states.clone(), savepoint.next_state)
            }
        };
        let same_key = || if options.allow_changed_key { Ok(()) } else { refuse_other_key(&states, blueprint) };
        fit.and_then(|()| refuse_other_purpose(&states, blueprint))
            .and_then(|()| same_key())
            .map_err(|error| Permanent(format!("{error:#}")))?;
        let is_declared =
            |it: &StateEntry| declared.iter().any(|(operator, name, ..)| *operator == it.operator && *name == it.name);
        states.retain(is_declared);
        for (operator, name, kind, version) in declared {
            let factory = factory(blueprint, &operator);
            let made_for = factory.and_then(|factory| factory.made_for());
            let aggregates = factory.map_or(vec![], |factory| factory.aggregates());
            let keyed_by = keyed_by(blueprint, &operator);
            match states.iter_mut().find(|state| is_state(state, &operator, &name)) {
                Some(known) => {
                    known.version = version;
                    known.made_for = made_for;
                    known.keyed_by = keyed_by;
                    known.aggregates = aggregates;
                }
                None => {
                    let (number, forked_from) = (next_state, None);
                    states.push(StateEntry {
                        number,
                        operator,
                        name,
                        kind,
                        version,
                        forked_from,
                        made_for,
                        keyed_by,
                        aggregates,
                    });
                    next_state += 1;
                }
            }
        }
        Ok(Self { origin, states, next_state })
    }

    /// What it is.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The checkpoint that the job goes on from, if it is one.
    pub(super) fn manifest(&self) -> Option<&Manifest> {
        match &self.origin {
            Origin::Checkpoint(manifest) => Some(manifest),
            _ => None,
        }
    }

    /// Whether nothing was kept.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.origin, Origin::Nothing)
    }

    /// The checkpoint it is, or was made of.
    pub(super) fn checkpoint(&self) -> Option<CheckpointId> {
        match &self.origin {
            Origin::Nothing => None,
            Origin::Checkpoint(manifest) => Some(manifest.checkpoint),
            Origin::Savepoint(opened) => Some(opened.savepoint.checkpoint),
        }
    }

    /// The savepoint that the job was started from, now or by an earlier run.
    pub(super) fn savepoint(&self) -> Option<String> {
        match &self.origin {
            Origin::Nothing => None,
            Origin::Checkpoint(manifest) => manifest.savepoint.clone(),
            Origin::Savepoint(opened) => Some(opened.savepoint.checksum.clone()),
        }
    }

    /// The numbers of an operator's states, in the order it declares them.
    pub(super) fn numbers(&self, operator: &str, declared: &[StateDeclaration]) -> Vec<StateNumber> {
        let number = |declared: &StateDeclaration| {
            let entry = self.states.iter().find(|state| is_state(state, operator, &declared.name));
            StateNumber(entry.expect("every declared state has a number").number)
        };
        declared.iter().map(number).collect()
    }

    /// Puts the forks of an operator's states back in place.
    pub(super) fn forks(
        &self,
        operator: &str,
        declared: &[StateDeclaration],
        mut state: Box<dyn StateBackend>,
    ) -> Box<dyn StateBackend> {
        for entry in self.states.iter().filter(|entry| entry.operator == operator) {
            let declaration = declared.iter().find(|declaration| declaration.name == entry.name);
            if let Some((from, declaration)) = entry.forked_from.zip(declaration) {
                let [from, to, marks] = [from.number, entry.number, from.marks].map(StateNumber);
                state = forked(state, Fork { from, to, marks }, declaration);
            }
        }
        state
    }

    /// Where the partitions of a source go on.
    pub(super) fn positions(&self, source: &str) -> Vec<Partition> {
        let partition = |(name, position): (&String, &dataflow::checkpoint::PartitionPosition)| Partition {
            name: name.as_str().into(),
            next: position.next.clone(),
            finished: position.finished,
        };
        self.source(source).into_iter().flat_map(|snapshot| snapshot.partitions.iter().map(partition)).collect()
    }

    /// The watermarks of the partitions of a source.
    pub(super) fn watermarks(&self, source: &str) -> BTreeMap<String, Timestamp> {
        let watermark =
            |(name, position): (&String, &dataflow::checkpoint::PartitionPosition)| (name.clone(), position.watermark);
        self.source(source).into_iter().flat_map(|snapshot| snapshot.partitions.iter().map(watermark)).collect()
    }

    /// Counts on from what a source had counted.
    pub(super) fn count_source(&self, source: &str, metrics: &crate::telemetry::NodeMetrics) {
        for (name, &count) in self.source(source).into_iter().flat_map(|snapshot| &snapshot.counters) {
            metrics.restore(name, count);
        }
    }

    /// Counts on from what a sink had counted. A savepoint has nothing of sinks.
    pub(super) fn count_sink(&self, sink: &str, metrics: &crate::telemetry::NodeMetrics) {
        let kept = self.manifest().and_then(|manifest| manifest.sink_counters.get(sink));
        kept.into_iter().flatten().for_each(|(name, &count)| metrics.restore(name, count));
    }

    /// What a sink had staged for the checkpoint. A savepoint has nothing: its checkpoint was applied before it was made.
    pub(super) fn staged(&self, sink: &str) -> &[Staged] {
        match &self.origin {
            Origin::Checkpoint(manifest) => manifest.sinks.get(sink).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Where the operators of a chain stood when the savepoint was made; at the start of time without one.
    pub(super) fn stood(&self, nodes: &[ChainNode]) -> Replay {
        let Origin::Savepoint(opened) = &self.origin else { return Replay::nothing(START) };
        let own = |operator: &String| nodes.iter().any(|node| node.name == *operator);
        let parts = opened.savepoint.operators.iter().filter(|(operator, _)| own(operator)).map(|(_, part)| part);
        let part =
            |part: &OperatorSnapshot| ReplayPart { watermark: part.watermark, firing: part.firing, channels: vec![] };
        Replay::new(parts.map(part).collect())
    }

    /// Loads the rows and counters of a chain's task.
    ///
    /// # Errors
    /// A state file is missing or damaged.
    pub(super) fn restore_chain(
        &self,
        task: &TaskId,
        groups: Range<u16>,
        (state, states): (&mut dyn StateBackend, &States),
        nodes: &[ChainNode],
    ) -> anyhow::Result<()> {
        let failed = |from: &str, checkpoint: CheckpointId| {
            format!("the state of `{}` task {} cannot be restored from {from} {checkpoint}", task.node, task.task)
        };
        match &self.origin {
            Origin::Nothing => Ok(()),
            Origin::Checkpoint(manifest) => self
                .restore_checkpoint(manifest, task, groups, (state, states), nodes)
                .with_context(|| failed("checkpoint", manifest.checkpoint)),
            Origin::Savepoint(opened) => self
                .restore_savepoint(opened, task, groups, state, nodes)
                .with_context(|| failed("the savepoint of checkpoint", opened.savepoint.checkpoint)),
        }
    }

    /// The numbers of the states that the operators of a chain keep, forks too.
    fn numbers_of(&self, nodes: &[ChainNode]) -> BTreeSet<u32> {
        let own = |entry: &&StateEntry| nodes.iter().any(|node| node.name == entry.operator);
        self.states.iter().filter(own).map(|entry| entry.number).collect()
    }

    /// Takes over what tasks of these operators had, be they chained as they were or otherwise: that depends on each one's
    /// parallelism.
    fn restore_checkpoint(
        &self,
        manifest: &Manifest,
        task: &TaskId,
        groups: Range<u16>,
        (state, states): (&mut dyn StateBackend, &States),
        nodes: &[ChainNode],
    ) -> anyhow::Result<()> {
        let own = |operator: &String| nodes.iter().any(|node| node.name == *operator);
        let parts: Vec<_> = manifest.tasks.iter().filter(|part| part.operators.iter().any(own)).collect();
        let taken = |part: &TaskSnapshot| groups.start.max(part.groups.0)..groups.end.min(part.groups.1);
        let mut mixed = vec![];
        for &part in parts.iter().filter(|part| !taken(part).is_empty()) {
            ensure!(
                part.backend == state.name(),
                "it was written by the state backend `{}`, and the job now says `{}`, which does not read it: put \
                 `state.backend` back; or take a savepoint and start from that, which changes backends; or start over with \
                 `--fresh`",
                part.backend,
                state.name()
            );
            if part.operators.iter().all(own) {
                state.restore(&part.files, taken(part))?;
            } else {
                mixed.push(part);
            }
        }
        let numbers = self.numbers_of(nodes);
        for part in mixed {
            let visit = &mut |at: Address<'_>, meta, bytes: &[u8]| put_own(&numbers, state, at, meta, bytes);
            StateLost::catch(|| states.read(part, taken(part), visit))?;
        }
        // What is told is the sum over tasks: the first has it all.
        for part in parts.iter().filter(|_| task.task == 0) {
            for (name, &count) in &part.counters {
                let Some((operator, counter)) = name.split_once('/') else { continue };
                nodes.iter().filter(|node| node.name == operator).for_each(|node| node.metrics.restore(counter, count));
            }
        }
        Ok(())
    }

    fn restore_savepoint(
        &self,
        opened: &Opened,
        task: &TaskId,
        groups: Range<u16>,
        state: &mut dyn StateBackend,
        nodes: &[ChainNode],
    ) -> anyhow::Result<()> {
        let own = |operator: &str| nodes.iter().find(|node| node.name == operator);
        let numbers = self.numbers_of(nodes);
        StateLost::catch(|| opened.rows(groups, |at, meta, bytes| put_own(&numbers, state, at, meta, bytes)))?;
        for (operator, part) in opened.savepoint.operators.iter().filter(|_| task.task == 0) {
            let Some(node) = own(operator) else { continue };
            part.counters.iter().for_each(|(counter, &count)| node.metrics.restore(counter, count));
        }
        Ok(())
    }

    fn source(&self, source: &str) -> Option<&SourceSnapshot> {
        match &self.origin {
            Origin::Nothing => None,
            Origin::Checkpoint(manifest) => manifest.sources.get(source),
            Origin::Savepoint(opened) => opened.savepoint.sources.get(source),
        }
    }
}

/// What makes an operator.
fn factory<'a>(blueprint: &'a Blueprint, operator: &str) -> Option<&'a dyn OperatorFactory> {
    let at = blueprint.nodes.iter().position(|node| node.name == operator)?;
    if let Part::Operator(factory) = &blueprint.parts[at] { Some(&**factory) } else { None }
}

/// Refuses states whose operator would misread them: a window's, say, once it is another window.
fn refuse_other_purpose(states: &[StateEntry], blueprint: &Blueprint) -> anyhow::Result<()> {
    for StateEntry { operator, name, made_for: kept, .. } in states {
        let now = factory(blueprint, operator).and_then(|factory| factory.made_for());
        let (Some(kept), Some(now)) = (kept, now) else { continue };
        ensure!(
            *kept == now,
            "state `{name}` of operator `{operator}` was kept for `{kept}`, and the job now says `{now}`: what is under way would \
             come out wrong. Put that back or start over with `--fresh`; or start from a savepoint with the operator under another \
             name and `--allow-dropped`, which gives its open windows up"
        );
    }
    Ok(())
}

/// What an operator's inputs are keyed by. A broadcast input has no key.
fn keyed_by(blueprint: &Blueprint, operator: &str) -> BTreeSet<String> {
    let inputs = blueprint.nodes.iter().find(|node| node.name == operator).map_or(&[][..], |node| &node.inputs);
    inputs.iter().filter(|input| !input.broadcast).map(|input| input.key.join(", ")).collect()
}

/// Refuses states whose operator takes its keys from fields that they were not made by, in place of others: it would begin
/// anew beside them, without a word. An input more or less is no such change.
fn refuse_other_key(states: &[StateEntry], blueprint: &Blueprint) -> anyhow::Result<()> {
    for StateEntry { operator, name, keyed_by: kept, .. } in states {
        let now = keyed_by(blueprint, operator);
        let shown = |key: &String| if key.is_empty() { "no field".to_string() } else { format!("`{key}`") };
        let only_in = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).map(shown).collect::<Vec<_>>();
        let (gone, new) = (only_in(kept, &now), only_in(&now, kept));
        ensure!(
            gone.is_empty() || new.is_empty(),
            "state `{name}` of operator `{operator}` was kept by {}, and the job now has its key from {}: what is kept would not be \
             found again. Put the key back, or start over with `--fresh`; if the same values stand in other fields now, say \
             `--allow-changed-key`",
            gone.join(", "),
            new.join(", ")
        );
    }
    Ok(())
}

/// Whether it is the state that an operator declares by this name, and no fork of it.
fn is_state(entry: &StateEntry, operator: &str, name: &str) -> bool {
    entry.operator == operator && entry.name == name && entry.forked_from.is_none()
}

/// Puts a row into the state of a task if it is of one of its own states.
fn put_own(
    numbers: &BTreeSet<u32>,
    state: &mut dyn StateBackend,
    at: Address<'_>,
    meta: RowMeta,
    bytes: &[u8],
) -> anyhow::Result<()> {
    if numbers.contains(&at.state.0) {
        state.put(at, meta, bytes);
    }
    Ok(())
}

fn fits(manifest: &Manifest, blueprint: &Blueprint, max_parallelism: u16) -> anyhow::Result<()> {
    let checkpoint = manifest.checkpoint;
    ensure!(
        manifest.max_parallelism == max_parallelism,
        "`max_parallelism` is {max_parallelism}, but checkpoint {checkpoint} was taken with {}, which is fixed when a job is \
         created: put it back, or start over with `--fresh`",
        manifest.max_parallelism
    );
    let has = |name: &str, role| blueprint.nodes.iter().any(|node| node.name == name && node.role == role);
    for source in manifest.sources.keys() {
        ensure!(
            has(source, Role::Source),
            "source `{source}` is gone from the job, and with it its positions in checkpoint {checkpoint}: put it back, or start \
             over with `--fresh`"
        );
    }
    for state in &manifest.states {
        let declared = blueprint.nodes.iter().zip(&blueprint.parts).any(|(node, part)| match part {
            Part::Operator(factory) => {
                node.name == state.operator && factory.states().iter().any(|it| it.name == state.name)
            }
            _ => false,
        });
        ensure!(
            declared,
            "state `{}` of operator `{}` would be dropped: checkpoint {checkpoint} has it, the job no longer does; put it back, \
             or start over with `--fresh`",
            state.name,
            state.operator
        );
    }
    for in_flight in &manifest.in_flight {
        ensure!(
            blueprint.plan.chains.iter().any(|chain| blueprint.nodes[chain[0]].name == in_flight.reader)
                || has(&in_flight.reader, Role::Sink)
                || in_flight.reader == super::wire::DEAD_LETTERS,
            "`{}` is gone from the job or no longer read through an exchange, but checkpoint {checkpoint} has rows on their way to it: \
             run the job file as it was, stop it, and change it then; or start over with `--fresh`",
            in_flight.reader
        );
    }
    for (sink, staged) in &manifest.sinks {
        ensure!(
            has(sink, Role::Sink)
                || sink == super::wire::DEAD_LETTERS
                || staged.iter().all(|it| it.payload.0.is_null()),
            "sink `{sink}` is gone from the job, but checkpoint {checkpoint} has output for it: put it back for one run, or start \
             over with `--fresh`"
        );
    }
    Ok(())
}

/// Refuses a savepoint that the job would lose something of, unless it is to.
fn fits_savepoint(
    savepoint: &Savepoint,
    blueprint: &Blueprint,
    declared: &Declared,
    max_parallelism: u16,
    drop: bool,
) -> anyhow::Result<()> {
    ensure!(
        savepoint.max_parallelism == max_parallelism,
        "`max_parallelism` is {max_parallelism}, but the savepoint was made with {}, which is fixed when a job is created: \
         say `max_parallelism: {}`",
        savepoint.max_parallelism,
        savepoint.max_parallelism
    );
    ensure!(
        !savepoint.finished,
        "the savepoint was made when job `{}` had ended, all its windows fired: there is nothing to go on with",
        savepoint.job
    );
    let fits = compare(&savepoint.states, declared);
    let mut lost: Vec<String> = vec![];
    for StateFit { operator, name, fit } in &fits {
        match fit {
            Fit::Kept | Fit::Migrated(_) | Fit::New => {}
            Fit::Dropped => lost.push(format!("state `{name}` of operator `{operator}`")),
            Fit::Older(version) => bail!(
                "state `{name}` of operator `{operator}` holds values of version {version}, which is newer than the job's: run \
                 the newer component"
            ),
            Fit::OtherKind(kind) => bail!(
                "state `{name}` of operator `{operator}` is of kind `{kind}` in the savepoint, and of another in the job: give the new one \
                 another name"
            ),
        }
    }
    let has = |name: &str| blueprint.nodes.iter().any(|node| node.name == name && node.role == Role::Source);
    lost.extend(
        savepoint.sources.keys().filter(|name| !has(name)).map(|name| format!("the positions of source `{name}`")),
    );
    ensure!(
        drop || lost.is_empty(),
        "the savepoint holds what the job no longer has, and it would be lost: {}; put it back, or say `--allow-dropped` to \
         leave it out",
        lost.join(", ")
    );
    Ok(())
}

/// What becomes of each state of a savepoint in this job.
pub(super) fn state_fits(savepoint: &Savepoint, blueprint: &Blueprint) -> Vec<StateFit> {
    compare(&savepoint.states, &declared(blueprint))
}
