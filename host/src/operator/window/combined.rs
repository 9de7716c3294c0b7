//! Several aggregators in one window, such as built-in aggregates beside a guest's. A row goes into all of them or into none.
//!
//! ```text
//! accumulator   per aggregator: version u16 LE · length varint · its accumulator
//! ```

use super::firing::one;
use super::{Accumulate, Accumulators, Aggregator, Bad, Finishing, Rows};
use crate::operator::TaskInfo;
use crate::telemetry::GuestMetrics;
use anyhow::{Context as _, bail};
use dataflow::checkpoint::AggregateEntry;
use dataflow::key::{push_varint, take_varint};
use dataflow::record::{Blobs, Column, Field};
use std::sync::Arc;

/// Aggregators side by side; their columns come in this order.
pub struct Combined {
    parts: Vec<Arc<dyn Aggregator>>,
}

impl Combined {
    /// One aggregator made of several.
    pub fn new(parts: Vec<Arc<dyn Aggregator>>) -> Self {
        Self { parts }
    }
}

impl Aggregator for Combined {
    fn columns(&self) -> Vec<Field> {
        self.parts.iter().flat_map(|part| part.columns()).collect()
    }

    fn entries(&self) -> Vec<AggregateEntry> {
        self.parts.iter().flat_map(|part| part.entries()).collect()
    }

    /// Of the encoding and the number of parts; each part's own version lies beside its bytes.
    fn version(&self) -> u16 {
        0x2000 | self.parts.len() as u16
    }

    fn supports_retract(&self) -> bool {
        self.parts.iter().all(|part| part.supports_retract())
    }

    fn reads(&self) -> Vec<usize> {
        self.parts.iter().flat_map(|part| part.reads()).collect()
    }

    fn reports(&self) -> Vec<Arc<GuestMetrics>> {
        self.parts.iter().flat_map(|part| part.reports()).collect()
    }

    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Accumulate>> {
        let make = |part: &Arc<dyn Aggregator>| {
            Ok(Part { logic: part.create(task)?, version: part.version(), columns: part.columns().len() })
        };
        Ok(Box::new(All { parts: self.parts.iter().map(make).collect::<anyhow::Result<_>>()? }))
    }
}

/// The aggregators of one task.
struct All {
    parts: Vec<Part>,
}

struct Part {
    logic: Box<dyn Accumulate>,
    version: u16,
    columns: usize,
}

impl All {
    /// Each part's accumulators, brought to the versions of now. Of an accumulator without bytes every part gets its blank.
    fn split(&mut self, combined: &Blobs) -> anyhow::Result<Vec<Blobs>> {
        let mut split: Vec<Blobs> = self.parts.iter().map(|_| Blobs::default()).collect();
        for mut rest in combined.iter() {
            let blank = rest.is_empty();
            for (part, into) in self.parts.iter_mut().zip(&mut split) {
                if blank {
                    into.push(part.logic.blank());
                    continue;
                }
                let (version, own) = take_part(&mut rest).context("a window's combined accumulator is cut short")?;
                if version == part.version {
                    into.push(own);
                } else {
                    into.push(part.logic.migrate(version, &one(own))?.get(0));
                }
            }
        }
        Ok(split)
    }

    fn join(&self, split: &[Blobs]) -> Blobs {
        let mut joined = Blobs::default();
        for index in 0..split.first().map_or(0, Blobs::len) {
            for (part, own) in self.parts.iter().zip(split) {
                let own = own.get(index);
                joined.bytes.extend_from_slice(&part.version.to_le_bytes());
                push_varint(&mut joined.bytes, own.len() as u64);
                joined.bytes.extend_from_slice(own);
            }
            joined.close();
        }
        joined
    }
}

/// Takes the accumulator of one aggregator off, and its version; none if the bytes end before it does.
pub(super) fn take_part<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let (version, after) = rest.split_first_chunk()?;
    *rest = after;
    let length = take_varint(rest)?;
    let (own, after) = rest.split_at_checked(length as usize)?;
    *rest = after;
    Some((u16::from_le_bytes(*version), own))
}

impl Accumulate for All {
    fn blank(&self) -> &[u8] {
        &[]
    }

    fn accumulate(&mut self, rows: &Rows<'_>, accumulators: &mut Accumulators) -> anyhow::Result<Vec<Bad>> {
        let before = self.split(&accumulators.bytes)?;
        let mut all_bad: Vec<Bad> = vec![];
        // Each round leaves out what some part refused in the round before, so there are at most as many as rows.
        loop {
            let good = |row: u32| all_bad.iter().all(|bad| bad.index != row);
            let (left, cells): (Vec<u32>, Vec<u32>) =
                rows.rows.iter().zip(rows.cells).filter(|(row, _)| good(**row)).unzip();
            if left.is_empty() {
                return Ok(all_bad);
            }
            let left = Rows { rows: &left, cells: &cells, ..*rows };
            let mut after = Vec::with_capacity(before.len());
            let mut present = accumulators.present.clone();
            let mut refused = vec![];
            for (part, bytes) in self.parts.iter_mut().zip(&before) {
                let mut own = Accumulators { present: accumulators.present.clone(), bytes: bytes.clone() };
                refused = part.logic.accumulate(&left, &mut own)?;
                if !refused.is_empty() {
                    break;
                }
                present = own.present;
                after.push(own.bytes);
            }
            if refused.is_empty() {
                // A new accumulator that took no row gets bytes here too; it is not present, so nobody writes them.
                *accumulators = Accumulators { present, bytes: self.join(&after) };
                return Ok(all_bad);
            }
            all_bad.extend(refused);
        }
    }

    fn merge(&mut self, left: &Blobs, right: &Blobs) -> anyhow::Result<Blobs> {
        let (left, right) = (self.split(left)?, self.split(right)?);
        let pairs = self.parts.iter_mut().zip(left.iter().zip(&right));
        let merged: Vec<Blobs> =
            pairs.map(|(part, (left, right))| part.logic.merge(left, right)).collect::<anyhow::Result<_>>()?;
        Ok(self.join(&merged))
    }

    fn finish(&mut self, panes: &Finishing<'_>, results: &mut [Column]) -> anyhow::Result<Vec<Bad>> {
        let split = self.split(panes.accumulators)?;
        let (mut all_bad, mut rest): (Vec<Bad>, _) = (vec![], results);
        for (part, accumulators) in self.parts.iter_mut().zip(&split) {
            let (own, after) = rest.split_at_mut(part.columns);
            rest = after;
            for bad in part.logic.finish(&Finishing { accumulators, ..*panes }, own)? {
                match all_bad.iter_mut().find(|known| known.index == bad.index) {
                    None => all_bad.push(bad),
                    Some(known) if known.is_sent => *known = bad,
                    Some(_) => {}
                }
            }
        }
        Ok(all_bad)
    }

    /// One part that knows is enough: all have seen the same rows.
    fn is_empty(&self, accumulator: &[u8]) -> bool {
        let mut rest = accumulator;
        self.parts.iter().any(|part| {
            take_part(&mut rest).is_some_and(|(version, own)| version == part.version && part.logic.is_empty(own))
        })
    }

    fn migrate(&mut self, from: u16, _old: &Blobs) -> anyhow::Result<Blobs> {
        bail!(
            "the windows in the state were computed by another list of aggregates (encoding {from:#06x}): put the job's \
             aggregates back as they were, give the operator a new name, or start over with `--fresh`"
        )
    }
}
