//! What a checkpoint gives back to a job that starts: state numbers, positions, watermarks, counters, staged output. Refuses
//! a job file that no longer fits what was kept, before anything is touched.

use super::blueprint::{Blueprint, Part};
use crate::source::Partition;
use crate::state::{StateBackend, StateDeclaration, StateNumber};
use crate::task::ChainNode;
use anyhow::{Context, ensure};
use dataflow::checkpoint::{Manifest, Staged, StateEntry};
use dataflow::graph::Role;
use dataflow::time::Timestamp;
use std::collections::BTreeMap;

/// What a job goes on from.
pub(super) struct Restored {
    manifest: Option<Manifest>,
    /// Numbers of every state of the job, those of the checkpoint first.
    pub(super) states: Vec<StateEntry>,
}

impl Restored {
    /// From the newest decided checkpoint, none at a fresh start.
    ///
    /// # Errors
    /// The job no longer fits the checkpoint: what would be lost, and what to do.
    pub(super) fn new(manifest: Option<Manifest>, blueprint: &Blueprint, max_parallelism: u16) -> anyhow::Result<Self> {
        let mut states = manifest.as_ref().map(|manifest| manifest.states.clone()).unwrap_or_default();
        if let Some(manifest) = &manifest {
            fits(manifest, blueprint, max_parallelism)?;
        }
        for (node, part) in blueprint.nodes.iter().zip(&blueprint.parts) {
            let Part::Operator(factory) = part else { continue };
            for declared in factory.states() {
                let known = states.iter_mut().find(|state| state.operator == node.name && state.name == declared.name);
                match known {
                    Some(known) => known.version = u32::from(declared.version),
                    None => {
                        let number = states.iter().map(|state| state.number + 1).max().unwrap_or(0);
                        let version = u32::from(declared.version);
                        states.push(StateEntry { number, operator: node.name.clone(), name: declared.name, version });
                    }
                }
            }
        }
        Ok(Self { manifest, states })
    }

    /// Whether nothing was kept.
    pub(super) fn is_fresh(&self) -> bool {
        self.manifest.is_none()
    }

    /// The numbers of an operator's states, in the order it declares them.
    pub(super) fn numbers(&self, operator: &str, declared: &[StateDeclaration]) -> Vec<StateNumber> {
        let number = |declared: &StateDeclaration| {
            let entry = self.states.iter().find(|state| state.operator == operator && state.name == declared.name);
            StateNumber(entry.expect("every declared state has a number").number)
        };
        declared.iter().map(number).collect()
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

    /// What a sink had staged for the checkpoint.
    pub(super) fn staged(&self, sink: &str) -> &[Staged] {
        self.manifest.as_ref().and_then(|manifest| manifest.sinks.get(sink)).map_or(&[], Vec::as_slice)
    }

    /// Loads the rows and counters of a chain's task; its watermark, none where the checkpoint does not have the chain.
    ///
    /// # Errors
    /// A state file is missing or damaged.
    pub(super) fn restore_chain(
        &self,
        chain: &str,
        task: usize,
        groups: std::ops::Range<u16>,
        state: &mut dyn StateBackend,
        nodes: &[ChainNode],
    ) -> anyhow::Result<Option<Timestamp>> {
        let Some(manifest) = &self.manifest else { return Ok(None) };
        let parts: Vec<_> = manifest.tasks.iter().filter(|part| part.chain == chain).collect();
        let mut files = Vec::new();
        for part in parts.iter().filter(|part| part.groups.0 < groups.end && groups.start < part.groups.1) {
            files.extend(part.files.iter().cloned());
        }
        state.restore(&files, groups).with_context(|| {
            format!("the state of `{chain}` task {task} cannot be restored from checkpoint {}", manifest.checkpoint)
        })?;
        // Counters of tasks that are no more go to the first.
        let last = parts.iter().map(|part| part.task).max().unwrap_or(0);
        for part in parts.iter().filter(|part| part.task == task || (task == 0 && part.task > last)) {
            for (name, &count) in &part.counters {
                let Some((operator, counter)) = name.rsplit_once('/') else { continue };
                nodes.iter().filter(|node| node.name == operator).for_each(|node| node.metrics.restore(counter, count));
            }
        }
        Ok(parts.iter().map(|part| part.watermark).min())
    }

    fn source(&self, source: &str) -> Option<&dataflow::checkpoint::SourceSnapshot> {
        self.manifest.as_ref()?.sources.get(source)
    }
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
