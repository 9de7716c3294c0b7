//! What a batch does to windows that have not fired: its rows are sorted by phase, grouped into cells, taken in, and written
//! back. One read and one write of the state per (slice, key), however many rows.

use super::cells::Cells;
use super::firing::one;
use super::operator::WindowOperator;
use super::slices::Groups;
use super::store::Sent;
use super::{Accumulate, Accumulators, Bad, Rows};
use crate::state::StateBackend;
use dataflow::key::{KeyGroup, Keys};
use dataflow::record::{Batch, Blobs};
use dataflow::time::{START, Timestamp};
use dataflow::window::{Phase, Slice};

/// A batch on its way in. Kept between batches for its room only.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// Rows of windows that have not fired, and their cells.
    open: Vec<u32>,
    cell_of: Vec<u32>,
    cells: Cells,
    accumulators: Accumulators,
    sent: Vec<Sent>,
    /// Rows of windows that have fired and still take records.
    pub(super) late: Vec<u32>,
    /// Rows of windows that take none any more.
    pub(super) closed: Vec<u32>,
}

impl WindowOperator {
    /// Sorts the rows by what their windows do with them, and groups those that go in.
    pub(super) fn sort(&mut self, batch: &Batch, keys: &Keys, watermark: Timestamp) {
        let intake = &mut self.intake;
        intake.open.clear();
        intake.cell_of.clear();
        intake.late.clear();
        intake.closed.clear();
        intake.cells.clear(keys.distinct.len());
        // A slice that contains nothing: the first row finds its own.
        let (mut slice, mut phase) = (Slice { start: 0, end: START }, Phase::Open);
        let mut has_fired: Option<&Groups> = None;
        for (row, (&timestamp, &key)) in batch.timestamps.iter().zip(&keys.of).enumerate() {
            if !slice.contains(timestamp) {
                slice = self.windows.slice(timestamp);
                phase = self.lateness.phase(slice.end, watermark);
                has_fired = self.slices.fired.get(&slice.end);
            }
            match phase {
                // Why: after a restore to a cut within a firing, the watermark has yet to come where the window fired.
                Phase::Open
                    if has_fired.is_some_and(|fired| fired.contains(group(keys, key, self.max_parallelism))) =>
                {
                    intake.late.push(row as u32);
                }
                Phase::Open => {
                    intake.open.push(row as u32);
                    intake.cell_of.push(intake.cells.place(slice.end, key));
                }
                Phase::Late => intake.late.push(row as u32),
                Phase::Closed => intake.closed.push(row as u32),
            }
        }
    }

    /// Gets the accumulators of the cells.
    pub(super) fn load(&mut self, keys: &Keys, state: &dyn StateBackend) -> anyhow::Result<()> {
        let intake = &mut self.intake;
        intake.accumulators.clear();
        intake.sent.clear();
        let cells =
            intake.cells.list().iter().map(|cell| {
                (group(keys, cell.key, self.max_parallelism), cell.end, keys.distinct.get(cell.key as usize))
            });
        let (blank, current, mut migrated) = (self.logic.blank().to_vec(), self.store.version(), Ok(()));
        let (logic, sent_of) = (&mut *self.logic, &mut intake.sent);
        self.store.load_all(state, cells, &blank, &mut intake.accumulators, |sent, version, accumulators| {
            if version != current && migrated.is_ok() {
                migrated = migrate_last(logic, version, &mut accumulators.bytes);
            }
            sent_of.push(sent);
        });
        migrated
    }

    /// Takes the rows in; answers those that failed.
    pub(super) fn accumulate(
        &mut self,
        batch: &Batch,
        (watermark, now): (Timestamp, Timestamp),
    ) -> anyhow::Result<Vec<Bad>> {
        let intake = &mut self.intake;
        if intake.open.is_empty() {
            return Ok(vec![]);
        }
        let rows = Rows { batch, rows: &intake.open, cells: &intake.cell_of, watermark, now };
        self.logic.accumulate(&rows, &mut intake.accumulators)
    }

    /// Writes the cells back. Cannot fail.
    pub(super) fn write(&mut self, keys: &Keys, state: &mut dyn StateBackend) {
        let (intake, mut last) = (&self.intake, None);
        for (index, cell) in intake.cells.list().iter().enumerate() {
            // A new accumulator that no row went into: its rows have failed.
            if !intake.accumulators.present[index] {
                continue;
            }
            let group = group(keys, cell.key, self.max_parallelism);
            let at = (group, cell.end, keys.distinct.get(cell.key as usize));
            self.store.put(state, at, intake.accumulators.bytes.get(index), intake.sent[index]);
            if last != Some((cell.end, group)) {
                self.slices.open.entry(cell.end).or_default().insert(group);
                last = Some((cell.end, group));
            }
        }
    }
}

/// The key group of a batch's key.
#[inline]
pub(super) fn group(keys: &Keys, key: u32, max_parallelism: u16) -> KeyGroup {
    KeyGroup::of(keys.hashes[key as usize], max_parallelism)
}

/// Brings the accumulator that was loaded last to the version written now.
#[cold]
pub(super) fn migrate_last(logic: &mut dyn Accumulate, from: u16, bytes: &mut Blobs) -> anyhow::Result<()> {
    let last = bytes.len() - 1;
    let new = logic.migrate(from, &one(bytes.get(last)))?;
    bytes.ends.pop();
    bytes.bytes.truncate(bytes.ends.last().map_or(0, |&end| end as usize));
    bytes.push(new.get(0));
    Ok(())
}
