//! The window operator: takes batches into accumulators, sends late panes at once and the others as the watermark reaches their
//! windows' ends, and frees what can no longer change. Nothing is written before all that can fail has succeeded.

use super::factory::WindowFactory;
use super::firing::{self, Taken};
use super::intake::Intake;
use super::late::LateCells;
use super::panes::{Layout, Panes};
use super::slices::Slices;
use super::store::Store;
use super::{Accumulate, Bad};
use crate::dead_letter::DeadLetter;
use crate::operator::{Context, Due, Emitter, Operator, TaskInfo};
use crate::state::StateBackend;
use dataflow::key::{self, KeyGroup, Keys};
use dataflow::record::{Batch, Blobs, Change};
use dataflow::time::Timestamp;
use dataflow::window::{Lateness, Phase, Timing, Tumbling};
use std::ops::Range;

/// One task's window. See the module for what it does.
pub(super) struct WindowOperator {
    name: String,
    pub(super) windows: Tumbling,
    pub(super) lateness: Lateness,
    late_output: bool,
    /// Rows can be taken out again.
    undoes: bool,
    layout: Layout,
    pub(super) logic: Box<dyn Accumulate>,
    /// Columns whose faults put a row aside, with their pointers.
    reads: Vec<(usize, String)>,
    pub(super) store: Store,
    groups: Range<u16>,
    pub(super) max_parallelism: u16,
    pub(super) slices: Slices,
    pub(super) intake: Intake,
    pub(super) late: LateCells,
    pub(super) panes: Panes,
}

impl WindowOperator {
    pub(super) fn new(
        task: &TaskInfo,
        (windows, lateness): (Tumbling, Lateness),
        (late_output, undoes): (bool, bool),
        layout: Layout,
        (logic, version, reads): (Box<dyn Accumulate>, u16, Vec<(usize, String)>),
    ) -> Self {
        Self {
            name: task.operator.clone(),
            windows,
            lateness,
            late_output,
            undoes,
            layout,
            logic,
            reads,
            store: Store::new(task.states[0], version),
            groups: KeyGroup::range(task.task, task.parallelism, task.max_parallelism),
            max_parallelism: task.max_parallelism,
            slices: Slices::default(),
            intake: Intake::default(),
            late: LateCells::default(),
            panes: Panes::default(),
        }
    }

    /// Puts rows aside whose value for an aggregate was there but could not be taken, and those that cannot be undone.
    fn without_faults(&self, batch: Batch, out: &mut Emitter) -> Batch {
        let mut bad: Vec<u32> = vec![];
        for fault in &batch.faults {
            let read = self.reads.iter().find(|(column, _)| *column == usize::from(fault.column));
            let Some((_, field)) = read.filter(|_| !bad.contains(&fault.row)) else { continue };
            bad.push(fault.row);
            let expected = batch.columns[usize::from(fault.column)].value_type().name();
            let reason =
                format!("field `{field}`, which the window aggregates, is {}: expected {expected}", fault.found);
            out.dead.push(DeadLetter::of_row(&self.name, &batch, fault.row as usize, reason));
        }
        if !self.undoes && !batch.changes.is_empty() {
            let taken_back = (0..batch.len()).filter(|&row| batch.change(row) == Change::Retract);
            for row in taken_back.filter(|row| !bad.contains(&(*row as u32))).collect::<Vec<_>>() {
                bad.push(row as u32);
                let reason = "it takes a record back, and the window's aggregates cannot undo one: `count`, `sum`, `mean` and guests \
                              with `retract` can";
                out.dead.push(DeadLetter::of_row(&self.name, &batch, row, reason.to_string()));
            }
        }
        if bad.is_empty() {
            return batch;
        }
        batch.select(&(0..batch.len() as u32).filter(|row| !bad.contains(row)).collect::<Vec<_>>())
    }

    fn bury(&self, batch: &Batch, bad: Vec<Bad>, out: &mut Emitter) {
        for bad in bad {
            let mut letter = DeadLetter::of_row(&self.name, batch, bad.index as usize, bad.reason);
            letter.component = bad.component;
            letter.backtrace = bad.backtrace;
            out.dead.push(letter);
        }
    }

    /// Counts the rows that no window takes any more, and sends them to who reads them.
    fn send_closed(&self, batch: Batch, context: &mut Context<'_>) {
        let closed = &self.intake.closed;
        context.metrics.late_records_dropped.add(closed.len() as u64);
        if self.late_output && !closed.is_empty() {
            let rows = if closed.len() == batch.len() { batch } else { batch.select(closed) };
            context.out.emit(WindowFactory::LATE, rows);
        }
    }

    /// Marks what was sent, or frees it where nothing more can come.
    fn settle(&mut self, taken: Taken, state: &mut dyn StateBackend, watermark: Timestamp) {
        for (end, groups) in taken {
            let closed = self.lateness.phase(end, watermark) == Phase::Closed;
            self.slices.close(end, &groups);
            for group in groups.iter() {
                if closed {
                    self.store.free(state, group, end);
                } else {
                    self.store.mark_fired(state, group, end);
                    self.slices.fired.entry(end).or_default().insert(group);
                }
            }
        }
        while let Some(first) = self.slices.fired.first_entry() {
            if self.lateness.phase(*first.key(), watermark) != Phase::Closed {
                break;
            }
            let (end, groups) = first.remove_entry();
            groups.iter().for_each(|group| self.store.free(state, group, end));
        }
    }

    /// Whether a watermark has anything to do.
    fn has_due(&self, watermark: Timestamp) -> bool {
        let fires = self.slices.due(watermark).next().is_some();
        let frees = |(end, _): (&Timestamp, _)| self.lateness.phase(*end, watermark) == Phase::Closed;
        fires || self.slices.fired.first_key_value().is_some_and(frees)
    }
}

impl Operator for WindowOperator {
    fn open(&mut self, context: &mut Context<'_>) -> anyhow::Result<()> {
        self.slices = Slices::found(&**context.state, &self.store, self.groups.clone());
        Ok(())
    }

    fn on_batch(&mut self, _input: usize, batch: Batch, context: &mut Context<'_>) -> anyhow::Result<()> {
        let mut out = Emitter::default();
        let is_plain = batch.faults.is_empty() && batch.changes.is_empty();
        let batch = if is_plain { batch } else { self.without_faults(batch, &mut out) };
        let synthetic = if batch.keys.is_none() { Some(unkeyed(batch.len())) } else { None };
        let keys = batch.keys.as_ref().or(synthetic.as_ref()).expect("one of both is there");
        let times = (context.watermark, context.now);

        self.sort(&batch, keys, context.watermark);
        self.load(keys, &**context.state)?;
        let bad = self.accumulate(&batch, times)?;
        self.bury(&batch, bad, &mut out);
        let has_late = !self.intake.late.is_empty();
        if has_late {
            self.panes.clear();
            let bad = self.take_late((&batch, keys), times, &**context.state)?;
            self.bury(&batch, bad, &mut out);
            let (panes, dead) = self.layout.finish(&self.panes, Timing::Late, &mut *self.logic)?;
            out.emit(WindowFactory::PANES, panes);
            out.dead.extend(dead);
        }

        // From here on nothing can fail.
        self.write(keys, &mut **context.state);
        if has_late {
            self.write_late(keys, &mut **context.state);
        }
        context.out.batches.extend(out.batches);
        context.out.dead.extend(out.dead);
        self.send_closed(batch, context);
        Ok(())
    }

    fn on_watermark(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due> {
        if !self.has_due(context.watermark) {
            return Ok(Due::Done);
        }
        let from = (&**context.state, &self.store, &self.slices);
        let time = (self.windows, context.watermark);
        let taken = firing::gather(from, time, &mut *self.logic, &mut self.panes)?;
        let (batch, dead) = self.layout.finish(&self.panes, Timing::at(context.watermark), &mut *self.logic)?;
        self.settle(taken, &mut **context.state, context.watermark);
        context.out.emit(WindowFactory::PANES, batch);
        context.out.dead.extend(dead);
        Ok(if self.has_due(context.watermark) { Due::More } else { Due::Done })
    }

    fn on_clock(&mut self, _context: &mut Context<'_>) -> anyhow::Result<Due> {
        Ok(Due::Done)
    }

    fn next_clock_timer(&self, _context: &Context<'_>) -> Option<Timestamp> {
        None
    }
}

/// The keys of rows that have none: one, without parts.
fn unkeyed(rows: usize) -> Keys {
    let mut distinct = Blobs::default();
    distinct.push(&[]);
    Keys { of: vec![0; rows], distinct, hashes: vec![key::hash(&[])] }
}
