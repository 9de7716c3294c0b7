//! A guest of the world `aggregator` as what a window computes. The window keeps the accumulators; a guest's failure costs the row
//! or pane it failed on, found by running them singly on a fresh instance.

use super::live::does_not_start;
use super::lower::Lowering;
use super::settings::{GuestSettings, OnError};
use crate::dead_letter::DeadLetter;
use crate::engine::aggregator::{Accumulated, accumulators};
use crate::engine::description::AggregatorDescription;
use crate::engine::host::Site;
use crate::engine::{Aggregator as Instance, Component, Fault, FaultKind};
use crate::operator::TaskInfo;
use crate::operator::window::{Accumulate, Accumulators, Aggregator, Bad, Finishing, Rows};
use crate::telemetry::GuestMetrics;
use anyhow::{Context as _, bail, ensure};
use dataflow::record::{Batch, Blobs, Change, Column, Field};
use dataflow::restart::Permanent;
use std::sync::Arc;

/// A guest aggregator as a job wants it: one column of a window's panes.
#[derive(Clone)]
pub struct GuestAggregator {
    column: String,
    component: Component,
    description: AggregatorDescription,
    settings: GuestSettings,
    metrics: Arc<GuestMetrics>,
}

impl GuestAggregator {
    /// The aggregate whose results lie in the column `column`, a pointer, of a window's panes. Of `settings`, the first input's
    /// fields say where the described fields come from.
    ///
    /// # Errors
    /// The component is no aggregator, or configuration or wiring does not fit it.
    pub fn new(column: &str, component: Component, settings: GuestSettings) -> anyhow::Result<Self> {
        let description = component.aggregator()?.clone();
        component.check_config(&settings.config).with_context(|| format!("aggregate `{column}`"))?;
        let wanted: Vec<&str> = description.fields.iter().map(|field| field.name.as_str()).collect();
        let given = settings.inputs.first().map(|input| input.fields.as_slice()).unwrap_or_default();
        let given: Vec<&str> = given.iter().map(|field| field.name.as_str()).collect();
        ensure!(wanted == given, "aggregate `{column}` wants the fields {wanted:?}, was given {given:?}");
        let metrics = Arc::new(GuestMetrics::new(settings.limits.metrics));
        Ok(Self { column: column.into(), component, description, settings, metrics })
    }

    fn lowering(&self) -> Lowering {
        let fields = self.settings.inputs.first().map(|input| input.fields.clone()).unwrap_or_default();
        Lowering { input: 0, fields, whole_values: self.description.whole_values, headers: false }
    }
}

impl Aggregator for GuestAggregator {
    fn columns(&self) -> Vec<Field> {
        vec![Field::new(&self.column, self.description.result_type)]
    }

    fn version(&self) -> u16 {
        self.description.accumulator_version
    }

    fn migrates(&self) -> bool {
        true
    }

    fn supports_retract(&self) -> bool {
        self.description.retracts
    }

    fn reads(&self) -> Vec<usize> {
        self.lowering().fields.iter().filter(|field| field.required).filter_map(|field| field.column).collect()
    }

    fn reports(&self) -> Vec<Arc<GuestMetrics>> {
        vec![self.metrics.clone()]
    }

    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Accumulate>> {
        let site = Site::new(&task.operator, task.task as u32, task.parallelism as u32, self.settings.limits.clone());
        let mut guest = Guest {
            lowering: self.lowering(),
            site: Arc::new(site.reporting_to(self.metrics.clone())),
            config: self.settings.config.to_string(),
            guilty_in_a_row: 0,
            instance: None,
            what: self.clone(),
        };
        guest.instance()?;
        Ok(Box::new(guest))
    }
}

/// The aggregator in one task.
struct Guest {
    what: GuestAggregator,
    lowering: Lowering,
    site: Arc<Site>,
    config: String,
    instance: Option<Instance>,
    guilty_in_a_row: u32,
}

/// Some rows and their accumulators, as one call takes them: all inserts, or all retractions.
#[derive(Default)]
struct Part {
    batch: Batch,
    /// Each row's number in the window's batch.
    rows: Vec<u32>,
    /// Each row's accumulator.
    cells: Vec<u32>,
    change: Change,
}

impl Guest {
    fn instance(&mut self) -> anyhow::Result<&mut Instance> {
        match &mut self.instance {
            Some(instance) => Ok(instance),
            empty => {
                let name = &self.site.operator;
                let whose = format!("the aggregator of operator `{name}`");
                let instance = self.what.component.instantiate_aggregator(&self.site);
                let mut instance = instance.map_err(|fault| does_not_start(&whose, fault))?;
                let opened = instance.open(&self.config).map_err(|fault| does_not_start(&whose, fault))?;
                let refused = |reason| Permanent(format!("{whose} does not open: {reason}"));
                opened.map_err(refused)?;
                Ok(empty.insert(instance))
            }
        }
    }

    /// Makes a call; an instance that failed, or has grown fat, is replaced before the next.
    fn call<T>(&mut self, call: impl FnOnce(&mut Instance) -> Result<T, Fault>) -> anyhow::Result<Result<T, Fault>> {
        let answer = call(self.instance()?);
        let (soft, replace) = (self.site.limits.memory_soft, self.what.settings.replace_every_call);
        let fat = self.instance.as_ref().is_some_and(|instance| instance.memory() > soft);
        if answer.is_err() || replace || fat {
            self.instance = None;
        }
        match answer {
            Err(fault) if fault.kind == FaultKind::Migration => Err(fault.into()),
            answer => Ok(answer),
        }
    }

    /// Takes the rows of `part` into their accumulators, all or none.
    fn take(&mut self, part: &mut Part, at: &Rows<'_>, into: &mut Accumulators) -> anyhow::Result<Result<(), Trouble>> {
        // Only the accumulators that take a row cross the boundary.
        let mut place = vec![u32::MAX; into.present.len()];
        let mut touched: Vec<u32> = vec![];
        let acc_of: Vec<u32> = part.cells.iter().map(|&cell| place_of(&mut place, &mut touched, cell)).collect();
        let present: Vec<bool> = touched.iter().map(|&cell| into.present[cell as usize]).collect();
        let present = present.contains(&false).then_some(present);
        let before = accumulators(into.bytes.select(&touched), present);
        let (guest, lent) = self.lowering.lower(&mut part.batch, at.now, at.watermark);
        let answer = self.call(|instance| match part.change {
            Change::Insert => instance.accumulate(&guest, before, &acc_of),
            Change::Retract => instance.retract(&guest, before, &acc_of),
        });
        Lowering::give_back(guest, &lent, &mut part.batch);
        Ok(match answer? {
            Ok(Accumulated::Done(after)) => {
                let all_in_order = place.iter().enumerate().all(|(cell, &at)| at as usize == cell);
                into.bytes = if all_in_order { after } else { replaced(&into.bytes, &place, &after) };
                touched.iter().for_each(|&cell| into.present[cell as usize] = true);
                self.guilty_in_a_row = 0;
                Ok(())
            }
            Ok(Accumulated::BadRows(bad)) => Err(Trouble::Bad(bad)),
            Err(fault) => Err(Trouble::Fault(fault)),
        })
    }

    /// Takes all rows of `part` that can be taken.
    fn take_all(
        &mut self,
        mut part: Part,
        at: &Rows<'_>,
        into: &mut Accumulators,
        bad: &mut Vec<Bad>,
    ) -> anyhow::Result<()> {
        loop {
            match self.take(&mut part, at, into)? {
                Ok(()) => return Ok(()),
                Err(Trouble::Bad(rows)) => {
                    let good: Vec<u32> = (0..part.rows.len() as u32)
                        .filter(|row| rows.iter().all(|(refused, _)| refused != row))
                        .collect();
                    for (row, reason) in rows {
                        bad.push(self.guilty(at.batch, part.rows[row as usize], reason, None)?);
                    }
                    if good.is_empty() {
                        return Ok(());
                    }
                    part = part.select(&good);
                }
                Err(Trouble::Fault(fault)) if part.rows.len() == 1 && fault.kind == FaultKind::Failed => {
                    bad.push(self.guilty(at.batch, part.rows[0], fault.to_string(), Some(fault))?);
                    return Ok(());
                }
                Err(Trouble::Fault(_)) => return self.take_singly(&part, at, into, bad),
            }
        }
    }

    fn take_singly(
        &mut self,
        part: &Part,
        at: &Rows<'_>,
        into: &mut Accumulators,
        bad: &mut Vec<Bad>,
    ) -> anyhow::Result<()> {
        for row in 0..part.rows.len() as u32 {
            let mut one = part.select(&[row]);
            match self.take(&mut one, at, into)? {
                Ok(()) => {}
                Err(Trouble::Bad(refused)) => {
                    let reason = refused.into_iter().map(|(_, reason)| reason).next().unwrap_or_default();
                    bad.push(self.guilty(at.batch, one.rows[0], reason, None)?);
                }
                Err(Trouble::Fault(fault)) => {
                    bad.push(self.guilty(at.batch, one.rows[0], fault.to_string(), Some(fault))?);
                }
            }
        }
        Ok(())
    }

    /// A row that the guest fails on.
    fn guilty(&mut self, batch: &Batch, row: u32, reason: String, fault: Option<Fault>) -> anyhow::Result<Bad> {
        let letter = DeadLetter::of_row(&self.site.operator, batch, row as usize, reason);
        self.put_aside(row, &letter, fault)
    }

    fn put_aside(&mut self, index: u32, letter: &DeadLetter, fault: Option<Fault>) -> anyhow::Result<Bad> {
        let (reason, whence) = (letter.reason.clone(), letter.whence());
        let most = self.what.settings.guilty_in_a_row;
        self.guilty_in_a_row += 1;
        let operator = &self.site.operator;
        if self.what.settings.on_error == OnError::Fail {
            bail!(Permanent(format!("the aggregator of operator `{operator}` failed{whence}: {reason}")));
        }
        if self.guilty_in_a_row >= most {
            bail!(Permanent(format!(
                "the aggregator of operator `{operator}` failed {most} times in a row, the last{whence}: {reason}"
            )));
        }
        Ok(Bad {
            index,
            reason,
            is_sent: false,
            component: Some(self.what.component.digest().to_string()),
            backtrace: fault.and_then(|fault| fault.backtrace),
        })
    }

    fn finish_some(&mut self, panes: &Finishing<'_>) -> anyhow::Result<Result<Column, Fault>> {
        let result_type = self.what.description.result_type;
        let (keys, accumulators) = (panes.keys.clone(), panes.accumulators.clone());
        self.call(|instance| instance.finish(keys, panes.starts, panes.ends, accumulators, result_type))
    }
}

enum Trouble {
    Bad(Vec<(u32, String)>),
    Fault(Fault),
}

impl Part {
    fn select(&self, rows: &[u32]) -> Self {
        let pick = |list: &[u32]| rows.iter().map(|&row| list[row as usize]).collect();
        Self { batch: self.batch.select(rows), rows: pick(&self.rows), cells: pick(&self.cells), change: self.change }
    }
}

impl Accumulate for Guest {
    fn blank(&self) -> &[u8] {
        &[]
    }

    fn accumulate(&mut self, rows: &Rows<'_>, into: &mut Accumulators) -> anyhow::Result<Vec<Bad>> {
        let mut bad = vec![];
        // Mostly all of them are meant, and a copy is cheaper than a choice.
        let all = rows.rows.len() == rows.batch.len();
        let mut part = Part {
            batch: if all { rows.batch.clone() } else { rows.batch.select(rows.rows) },
            rows: rows.rows.to_vec(),
            cells: rows.cells.to_vec(),
            change: Change::Insert,
        };
        let lacking = self.lowering.lacking(&part.batch);
        if !lacking.is_empty() {
            let whole: Vec<u32> = (0..part.rows.len() as u32)
                .filter(|row| lacking.binary_search_by_key(row, |(row, _)| *row).is_err())
                .collect();
            let lacks = |(row, reason): (u32, String)| Bad {
                index: part.rows[row as usize],
                reason,
                is_sent: false,
                component: None,
                backtrace: None,
            };
            bad.extend(lacking.into_iter().map(lacks));
            part = part.select(&whole);
        }
        let changes = std::mem::take(&mut part.batch.changes);
        // Rows go in and out in their order: one call for each run of inserts or retractions.
        let (mut from, count) = (0, part.rows.len());
        while from < count {
            let change = changes.get(from).copied().unwrap_or_default();
            let run = changes.get(from..).map_or(0, |rest| rest.iter().take_while(|&&other| other == change).count());
            let to = if changes.is_empty() { count } else { from + run };
            let to = to.min(from + self.site.limits.rows.max(1));
            let mut some = match (from, to) {
                (0, all) if all == count => std::mem::take(&mut part),
                _ => part.select(&(from as u32..to as u32).collect::<Vec<_>>()),
            };
            some.change = change;
            self.take_all(some, rows, into, &mut bad)?;
            from = to;
        }
        Ok(bad)
    }

    fn merge(&mut self, left: &Blobs, right: &Blobs) -> anyhow::Result<Blobs> {
        let merge = |instance: &mut Instance| instance.merge(left.clone(), right.clone());
        match self.call(merge)? {
            Ok(merged) => Ok(merged),
            // Why: a fault may be the instance's and not the accumulators'; a fresh one decides.
            Err(_) => Ok(self.call(merge)?.context("merging accumulators")?),
        }
    }

    fn finish(&mut self, panes: &Finishing<'_>, results: &mut [Column]) -> anyhow::Result<Vec<Bad>> {
        let mut bad = vec![];
        if let Ok(column) = self.finish_some(panes)? {
            (0..column.len()).for_each(|row| results[0].push_from(&column, row));
            return Ok(bad);
        }
        for pane in 0..panes.starts.len() {
            let at = [pane as u32];
            let one = Finishing {
                keys: &panes.keys.select(&at),
                starts: &panes.starts[pane..=pane],
                ends: &panes.ends[pane..=pane],
                accumulators: &panes.accumulators.select(&at),
            };
            match self.finish_some(&one)? {
                Ok(column) => results[0].push_from(&column, 0),
                Err(fault) => {
                    results[0].push_absent();
                    let letter = DeadLetter {
                        key: Some(panes.keys.get(pane).to_vec()),
                        timestamp: Some(panes.ends[pane].saturating_sub(1)),
                        reason: fault.to_string(),
                        ..DeadLetter::default()
                    };
                    bad.push(self.put_aside(pane as u32, &letter, Some(fault))?);
                }
            }
        }
        Ok(bad)
    }

    fn is_empty(&self, _accumulator: &[u8]) -> bool {
        // Only the guest could tell, and the world has no call for it: such a window sends its pane.
        false
    }

    fn migrate(&mut self, from: u16, old: &Blobs) -> anyhow::Result<Blobs> {
        let migrated = self.call(|instance| instance.migrate(from, old.clone()))?;
        migrated.with_context(|| format!("migrating accumulators from version {from}"))
    }
}

fn place_of(place: &mut [u32], touched: &mut Vec<u32>, cell: u32) -> u32 {
    let at = &mut place[cell as usize];
    if *at == u32::MAX {
        *at = touched.len() as u32;
        touched.push(cell);
    }
    *at
}

/// `old` with those that have a `place` replaced by the ones there in `new`.
fn replaced(old: &Blobs, place: &[u32], new: &Blobs) -> Blobs {
    let mut all = Blobs::with_capacity(old.len(), (old.bytes.len() + new.bytes.len()) / old.len().max(1) + 1);
    for (cell, &at) in place.iter().enumerate() {
        all.push(if at == u32::MAX { old.get(cell) } else { new.get(at as usize) });
    }
    all
}
