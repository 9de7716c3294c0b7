//! Gathers the rows of windows whose time has come: windows in time order, some thousand rows a call, whole key groups at a
//! time, so that what has fired is marked or freed by the group and not by the row. A window that fits one call comes in the
//! byte order of its keys; a larger one in runs of key groups, each in byte order.

use super::Accumulate;
use super::panes::Panes;
use super::slices::{Groups, Slices};
use super::store::{Sent, Store};
use crate::state::StateBackend;
use dataflow::record::Blobs;
use dataflow::time::Timestamp;
use dataflow::window::Tumbling;

/// Panes after which a call ends, at the boundary of a key group.
pub(super) const PANES_PER_CALL: usize = 4096;

/// Rows of one slice, as they were read.
#[derive(Debug, Default)]
pub(super) struct Run {
    groups: Groups,
    keys: Blobs,
    accumulators: Blobs,
    rows: Vec<Found>,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    index: u32,
    sent: Sent,
    version: u16,
}

/// What a call has gathered beside panes: which groups of which slices.
pub(super) type Taken = Vec<(Timestamp, Groups)>;

/// Fills `panes` with what is due at `watermark`; answers where it came from.
pub(super) fn gather(
    (state, store, slices): (&dyn StateBackend, &Store, &Slices),
    (windows, watermark): (Tumbling, Timestamp),
    logic: &mut dyn Accumulate,
    panes: &mut Panes,
) -> anyhow::Result<Taken> {
    panes.clear();
    let mut taken = Taken::new();
    for (end, groups) in slices.due(watermark) {
        let run = Run::read(state, store, end, groups);
        // Why: a window that fits one call must not be torn in two; it begins the next.
        if !taken.is_empty() && panes.len() + run.rows.len() > PANES_PER_CALL {
            break;
        }
        run.push_to(panes, (store, windows), end, logic)?;
        let whole = run.groups.len() == groups.len();
        taken.push((end, run.groups));
        if !whole || panes.len() >= PANES_PER_CALL {
            break;
        }
    }
    Ok(taken)
}

impl Run {
    /// The rows of a slice, until there are enough for a call.
    fn read(state: &dyn StateBackend, store: &Store, end: Timestamp, groups: &Groups) -> Self {
        let mut run = Self::default();
        for group in groups.iter() {
            run.groups.insert(group);
            store.scan(state, group, end, |key, accumulator, sent, version| {
                run.rows.push(Found { index: run.rows.len() as u32, sent, version });
                run.keys.push(key);
                run.accumulators.push(accumulator);
            });
            if run.rows.len() >= PANES_PER_CALL {
                break;
            }
        }
        let keys = &run.keys;
        run.rows.sort_unstable_by(|a, b| keys.get(a.index as usize).cmp(keys.get(b.index as usize)));
        run
    }

    /// Moves what is to be sent to `panes`: all but windows whose rows were all taken back.
    fn push_to(
        &self,
        panes: &mut Panes,
        (store, windows): (&Store, Tumbling),
        end: Timestamp,
        logic: &mut dyn Accumulate,
    ) -> anyhow::Result<()> {
        for found in &self.rows {
            let (key, old) = (self.keys.get(found.index as usize), self.accumulators.get(found.index as usize));
            let migrated;
            let accumulator = if store.is_current(found.version) {
                old
            } else {
                migrated = logic.migrate(found.version, &one(old))?;
                migrated.get(0)
            };
            if found.sent.panes > 0 || !logic.is_empty(accumulator) {
                panes.push(windows.start(end), end, key, accumulator, found.sent);
            }
        }
        Ok(())
    }
}

/// A list of one.
pub(super) fn one(bytes: &[u8]) -> Blobs {
    let mut blobs = Blobs::default();
    blobs.push(bytes);
    blobs
}
