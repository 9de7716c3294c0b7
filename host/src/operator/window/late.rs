//! Late records that are still accepted: each goes into the window it missed and makes a pane of its own, so that what is sent
//! does not depend on where batches were cut.

use super::cells::Cells;
use super::intake::{group, migrate_last};
use super::operator::WindowOperator;
use super::store::Sent;
use super::{Accumulators, Bad, Rows};
use crate::state::StateBackend;
use dataflow::key::Keys;
use dataflow::record::Batch;
use dataflow::time::Timestamp;

/// The (slice, key) pairs that late rows of a batch go into.
#[derive(Debug, Default)]
pub(super) struct LateCells {
    cells: Cells,
    /// One accumulator each.
    loaded: Vec<(Accumulators, Sent)>,
}

impl WindowOperator {
    /// Takes the late rows in one by one and adds a pane to `panes` for each; answers the rows that failed. Writes nothing.
    pub(super) fn take_late(
        &mut self,
        (batch, keys): (&Batch, &Keys),
        (watermark, now): (Timestamp, Timestamp),
        state: &dyn StateBackend,
    ) -> anyhow::Result<Vec<Bad>> {
        self.late.cells.clear(self.intake.late.len());
        self.late.loaded.clear();
        let mut all_bad = vec![];
        for &row in &self.intake.late {
            let slice = self.windows.slice(batch.timestamps[row as usize]);
            let key = keys.of[row as usize];
            let at = (group(keys, key, self.max_parallelism), slice.end, keys.distinct.get(key as usize));
            let cell = self.late.cells.place(slice.end, key) as usize;
            if cell == self.late.loaded.len() {
                let mut accumulators = Accumulators::default();
                let (mut sent, version) = self.store.load(state, at, self.logic.blank(), &mut accumulators);
                if !self.store.is_current(version) {
                    migrate_last(&mut *self.logic, version, &mut accumulators.bytes)?;
                }
                let was_there = accumulators.present[0] && !sent.counts_end;
                if was_there && (sent.panes > 0 || !self.logic.is_empty(accumulators.bytes.get(0))) {
                    sent.panes += 1;
                }
                sent.counts_end = true;
                self.late.loaded.push((accumulators, sent));
            }
            let (accumulators, sent) = &mut self.late.loaded[cell];
            let rows = Rows { batch, rows: &[row], cells: &[0], watermark, now };
            let bad = self.logic.accumulate(&rows, accumulators)?;
            let accumulator = accumulators.bytes.get(0);
            if bad.is_empty() && (sent.panes > 0 || !self.logic.is_empty(accumulator)) {
                self.panes.push(slice.start, slice.end, at.2, accumulator, *sent);
                sent.panes += 1;
            }
            all_bad.extend(bad);
        }
        Ok(all_bad)
    }

    /// Writes what late rows went into. Cannot fail.
    pub(super) fn write_late(&mut self, keys: &Keys, state: &mut dyn StateBackend) {
        for (cell, (accumulators, sent)) in self.late.cells.list().iter().zip(&self.late.loaded) {
            if accumulators.present[0] {
                let group = group(keys, cell.key, self.max_parallelism);
                let at = (group, cell.end, keys.distinct.get(cell.key as usize));
                self.store.put(state, at, accumulators.bytes.get(0), *sent);
                if self.slices.fired.entry(cell.end).or_default().insert(group) {
                    self.store.mark_fired(state, group, cell.end);
                }
            }
        }
    }
}
