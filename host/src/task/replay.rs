//! Reads what a restored task is given before anything new: for the same number of tasks what lay in its own inputs, for another number
//! its share of what lay in those of all.

use super::in_flight::read_in_flight;
use crate::checkpoint::CheckpointStorage;
use anyhow::{Context, ensure};
use dataflow::checkpoint::{Manifest, TaskSnapshot};
use dataflow::element::Element;
use dataflow::graph::Flow;
use dataflow::key::KeyGroup;
use dataflow::replay::{ChannelState, Replay, ReplayPart};
use dataflow::time::START;
use std::collections::BTreeMap;

/// The tasks of a chain, and one of them.
#[derive(Debug)]
pub struct ChainShare<'a> {
    /// The chain by its first operator.
    pub chain: &'a str,
    /// All of them.
    pub operators: Vec<&'a str>,
    /// Which of its tasks.
    pub task: usize,
    /// Of how many now.
    pub parallelism: usize,
    /// Key groups of the job.
    pub max_parallelism: u16,
    /// Which of the chain's inputs every task gets whole.
    pub broadcast: Vec<bool>,
}

/// For a task of a chain.
///
/// # Errors
/// A file is missing or damaged, or its rows are not what flows into the chain now.
pub fn replay_of_chain(
    manifest: &Manifest,
    share: &ChainShare<'_>,
    flows: &[Flow],
    storage: &dyn CheckpointStorage,
) -> anyhow::Result<Replay> {
    let takes =
        |part: &&TaskSnapshot| part.operators.iter().any(|operator| share.operators.contains(&operator.as_str()));
    let tasks: Vec<&TaskSnapshot> = manifest.tasks.iter().filter(takes).collect();
    // Operators may be chained otherwise than they were: that depends on each one's parallelism.
    let same = tasks.len() == share.parallelism && tasks.iter().all(|part| part.operators == share.operators);
    let first = tasks.first().map_or(0, |part| part.task);
    let (mut parts, mut whole) = (Vec::new(), Vec::new());
    for part in tasks.into_iter().filter(|part| !same || part.task == share.task) {
        let reads = part.chain == share.chain;
        let mut channels = if reads { read(manifest, (share.chain, part.task), flows, storage)? } else { vec![] };
        if !same {
            whole.extend(reads.then(|| share.broadcast_rows(&channels)));
            channels.iter_mut().for_each(|channel| share.take_own((part.task, part.task == first), channel));
        }
        parts.push(ReplayPart { watermark: part.watermark, firing: part.firing, channels });
    }
    ensure!(
        whole.windows(2).all(|pair| pair[0] == pair[1]),
        "rows of a broadcast input were on their way to `{}` in checkpoint {}, and its {} tasks had taken different ones of them: run the \
         job with as many tasks, stop it, and change `parallelism` then",
        share.chain,
        manifest.checkpoint,
        whole.len()
    );
    Ok(Replay::new(parts))
}

/// For the one task of a sink.
///
/// # Errors
/// As [`replay_of_chain`].
pub fn replay_of_sink(
    manifest: &Manifest,
    sink: &str,
    flow: &Flow,
    storage: &dyn CheckpointStorage,
) -> anyhow::Result<Replay> {
    let channels = read(manifest, (sink, 0), std::slice::from_ref(flow), storage)?;
    Ok(Replay::new(vec![ReplayPart { watermark: START, firing: None, channels }]))
}

fn read(
    manifest: &Manifest,
    (reader, task): (&str, usize),
    flows: &[Flow],
    storage: &dyn CheckpointStorage,
) -> anyhow::Result<Vec<ChannelState>> {
    let mut channels = Vec::new();
    for part in manifest.in_flight.iter().filter(|part| part.reader == reader && part.task == task) {
        channels.extend(read_in_flight(storage, &part.file, flows).with_context(|| {
            let checkpoint = manifest.checkpoint;
            format!("what was on its way to `{reader}` task {task} cannot be restored from checkpoint {checkpoint}")
        })?);
    }
    Ok(channels)
}

impl ChainShare<'_> {
    /// How many rows of each broadcast input a task had yet to take. They lay before all tasks: where one is further than another,
    /// nobody can say what each key group has seen.
    fn broadcast_rows(&self, channels: &[ChannelState]) -> BTreeMap<usize, usize> {
        let mut rows = BTreeMap::new();
        for channel in channels.iter().filter(|channel| self.broadcast[channel.input]) {
            for element in &channel.elements {
                if let Element::Batch(batch) = element {
                    *rows.entry(channel.input).or_default() += batch.len();
                }
            }
        }
        rows
    }

    /// Leaves this task's rows in what lay before task `part`: those of its key groups, of rows without a key all or none, and what is
    /// broadcast once.
    fn take_own(&self, (part, is_first): (usize, bool), channel: &mut ChannelState) {
        if self.broadcast[channel.input] {
            channel.elements.retain(|element| is_first || !matches!(element, Element::Batch(_)));
            return;
        }
        let mine = |element: Element| {
            let Element::Batch(batch) = element else { return Some(element) };
            let rows: Vec<u32> = match &batch.keys {
                None if part % self.parallelism == self.task => return Some(Element::Batch(batch)),
                None => return None,
                Some(keys) => {
                    let owner = |key: u32| {
                        let group = KeyGroup::of(keys.hashes[key as usize], self.max_parallelism);
                        group.task(self.parallelism, self.max_parallelism)
                    };
                    (0..batch.len() as u32).filter(|&row| owner(keys.of[row as usize]) == self.task).collect()
                }
            };
            (!rows.is_empty()).then(|| Element::Batch(Box::new(batch.select(&rows))))
        };
        channel.elements = std::mem::take(&mut channel.elements).into_iter().filter_map(mine).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow::key::Keying;
    use dataflow::record::{Batch, Column, Value, ValueType};

    fn cities(count: usize, keyed: bool) -> ChannelState {
        let mut city = Column::new(ValueType::Scalar);
        (0..count).for_each(|number| {
            city.push(Value::Text(&format!("city-{number}")));
        });
        let keys = keyed.then(|| Keying::default().keys(count, &[&city]).0);
        let timestamps = (0..count as i64).collect();
        let batch = Batch { timestamps, columns: vec![city], keys, ..Batch::default() };
        let elements = vec![Element::Batch(Box::new(batch)), Element::Watermark(5)];
        ChannelState { input: 0, watermark: 0, idle: false, elements }
    }

    fn share(task: usize, broadcast: bool) -> ChainShare<'static> {
        ChainShare {
            chain: "count",
            operators: vec!["count"],
            task,
            parallelism: 3,
            max_parallelism: 128,
            broadcast: vec![broadcast],
        }
    }

    /// The rows that each of three tasks gets of what lay before task 1, and how often each is told the time.
    fn shares(keyed: bool) -> (Vec<Vec<i64>>, usize) {
        let mut told = 0;
        let rows = (0..3).map(|task| {
            let mut channel = cities(100, keyed);
            share(task, false).take_own((1, false), &mut channel);
            let rows = channel.elements.iter().filter_map(|element| match element {
                Element::Batch(batch) => Some(batch.timestamps.clone()),
                _ => {
                    told += 1;
                    None
                }
            });
            rows.flatten().collect()
        });
        (rows.collect(), told)
    }

    #[test]
    fn each_row_goes_to_the_task_that_owns_its_key_now_and_time_to_all() {
        let (rows, told) = shares(true);
        assert!(rows.iter().all(|rows| rows.len() > 10 && rows.is_sorted()));
        let mut all = rows.concat();
        all.sort_unstable();
        assert_eq!((all, told), ((0..100).collect(), 3));
    }

    #[test]
    fn rows_without_a_key_stay_together() {
        let (rows, told) = shares(false);
        assert_eq!((rows.iter().map(Vec::len).collect::<Vec<_>>(), told), (vec![0, 100, 0], 3));
    }

    #[test]
    fn rows_that_are_broadcast_come_to_every_task_once() {
        let counted = share(2, true).broadcast_rows(&[cities(100, false), cities(5, false)]);
        assert_eq!(counted, [(0, 105)].into());
        let (mut first, mut second) = (cities(100, false), cities(100, false));
        share(2, true).take_own((0, true), &mut first);
        share(2, true).take_own((1, false), &mut second);
        assert_eq!((first.elements.len(), second.elements.len()), (2, 1), "both still tell the time");
    }
}
