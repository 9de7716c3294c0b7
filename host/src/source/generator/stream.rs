//! One task's share of a generator: its partitions in turn, each from its position on.

use super::columns::{Asked, json};
use super::pace::Pace;
use super::random::Draws;
use super::record::{Maker, Record};
use crate::env::Clock;
use crate::source::{self, Limit, Polled, Records, Share, Source};
use anyhow::{Context, ensure};
use dataflow::record::{Batch, Origin};
use std::sync::Arc;

/// A record as JSON takes about so many bytes.
const JSON_BYTES: usize = 130;

/// Gives records of some partitions.
pub(super) struct Generator {
    maker: Maker,
    asked: Vec<Asked>,
    whole_values: bool,
    /// Event times in the batches are the arrival times.
    stamped_by_arrival: bool,
    clock: Arc<dyn Clock>,
    pace: Option<Pace>,
    partitions: Vec<Partition>,
    /// Whose turn it is.
    turn: usize,
    records: Vec<Record>,
}

struct Partition {
    name: Arc<str>,
    number: u64,
    stream: Draws,
    next: u64,
    count: u64,
    /// Its end has been told.
    told: bool,
}

impl Partition {
    fn finished(&self) -> bool {
        self.next >= self.count
    }
}

impl Generator {
    pub(super) fn open(
        maker: Maker,
        stamped_by_arrival: bool,
        clock: Arc<dyn Clock>,
        share: Share<'_>,
    ) -> anyhow::Result<Self> {
        let all = maker.settings.partitions;
        ensure!(
            share.positions.is_empty() || share.positions.len() == all,
            "the checkpoint has {} partitions of the generator, the job file says {all}: records would be others; \
             start with `--fresh`",
            share.positions.len()
        );
        let mut partitions = Vec::new();
        for number in (share.task..all).step_by(share.parallelism) {
            let (name, number): (Arc<str>, u64) = (number.to_string().into(), number as u64);
            let position = share.positions.iter().find(|position| position.name == name);
            ensure!(position.is_some() || share.positions.is_empty(), "the checkpoint has no partition `{name}`");
            let next = match position {
                None => 0,
                Some(position) => position
                    .next
                    .as_u64()
                    .with_context(|| format!("position `{}` of partition `{name}` is no number", position.next))?,
            };
            let (stream, count) = (maker.stream(number), maker.count(number));
            partitions.push(Partition { name, number, stream, next, count, told: next >= count });
        }
        let kind = maker.settings.kind;
        let fields = &share.projection.schema.fields;
        let asked = fields.iter().map(|field| Asked::new(kind, &field.pointer, field.value_type)).collect();
        let of_all = partitions.len() as f64 / all as f64;
        let pace = maker.settings.rate.filter(|_| !partitions.is_empty()).map(|rate| Pace::new(rate * of_all));
        let whole_values = share.projection.whole_values;
        Ok(Self { maker, asked, whole_values, stamped_by_arrival, clock, pace, partitions, turn: 0, records: vec![] })
    }

    /// The next `rows` records of partition `at`.
    fn give(&mut self, at: usize, rows: usize) -> Records {
        let partition = &mut self.partitions[at];
        let (number, from) = (partition.number, partition.next);
        let to = from + rows as u64;
        partition.next = to;
        self.records.clear();
        let (maker, stream) = (&self.maker, partition.stream);
        self.records.extend((from..to).map(|n| maker.record(stream, number, n)));
        let records = &self.records;
        let wants_json = self.whole_values || self.asked.iter().any(|asked| asked.needs_json());
        let raw = wants_json.then(|| json(maker, number, records));
        let mut faults = vec![];
        let columns = (self.asked.iter().zip(0..))
            .map(|(asked, column)| asked.column((maker, number), records, raw.as_ref(), (column, &mut faults)))
            .collect();
        faults.sort_by_key(|fault| fault.row);
        let arrivals: Vec<i64> = records.iter().map(|record| record.arrival).collect();
        let timestamps = if self.stamped_by_arrival {
            arrivals.clone()
        } else {
            records.iter().map(|record| record.event_time).collect()
        };
        let bytes = raw.as_ref().map_or(0, |raw| raw.slab.len() as u64);
        let origin = Origin { partition: partition.name.clone(), places: (from..to).collect() };
        let raw = raw.filter(|_| self.whole_values);
        let batch = Batch { timestamps, columns, raw, origin: Some(origin), faults, ..Batch::default() };
        Records { partition: partition.name.clone(), batch, arrivals, dead: vec![], bytes }
    }
}

impl Source for Generator {
    fn poll(&mut self, limit: Limit) -> anyhow::Result<Polled> {
        if let Some(ended) = self.partitions.iter_mut().find(|partition| partition.finished() && !partition.told) {
            ended.told = true;
            return Ok(Polled::Partitions);
        }
        let count = self.partitions.len();
        let Some(at) = (0..count).map(|step| (self.turn + step) % count).find(|&at| !self.partitions[at].finished())
        else {
            return Ok(Polled::Finished);
        };
        let mut rows = limit.records.min(limit.bytes / JSON_BYTES);
        if let Some(pace) = &mut self.pace {
            match pace.due(self.clock.monotonic()) {
                Ok(due) => rows = rows.min(due),
                Err(wait) => return Ok(Polled::Nothing(wait)),
            }
        }
        let left = self.partitions[at].count - self.partitions[at].next;
        let rows = rows.max(1).min(usize::try_from(left).unwrap_or(usize::MAX));
        if let Some(pace) = &mut self.pace {
            pace.gave(rows);
        }
        self.turn = (at + 1) % count;
        Ok(Polled::Records(Box::new(self.give(at, rows))))
    }

    fn partitions(&self) -> Vec<source::Partition> {
        let position = |partition: &Partition| source::Partition {
            name: partition.name.clone(),
            next: partition.next.into(),
            finished: partition.finished(),
        };
        self.partitions.iter().map(position).collect()
    }
}
