//! Gathers the rows of windows whose time has come: windows in time order, keys in byte order, some thousand a call. A window of
//! very many keys is read some groups of keys at a time, each run in byte order, so that memory stays bounded.

use super::Accumulate;
use super::panes::Panes;
use super::slices::Groups;
use super::store::{Sent, Store};
use crate::state::StateBackend;
use dataflow::key::KeyGroup;
use dataflow::record::Blobs;
use dataflow::time::Timestamp;
use dataflow::window::Tumbling;

/// Rows read before they are sorted, at key group boundaries.
const RUN_ROWS: usize = 256 * 1024;

/// A slice that is being fired. A cache: what has been sent is marked in the state or gone from it.
#[derive(Debug, Default)]
pub(super) struct Firing {
    slice: Option<Timestamp>,
    /// Key groups still to be read, last first.
    groups: Vec<KeyGroup>,
    keys: Blobs,
    accumulators: Blobs,
    rows: Vec<Found>,
    /// How many of `rows` have been handed out.
    done: usize,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    index: u32,
    group: KeyGroup,
    sent: Sent,
    version: u16,
}

impl Firing {
    /// The slice under way.
    pub(super) fn slice(&self) -> Option<Timestamp> {
        self.slice
    }

    /// Begins with a slice.
    pub(super) fn begin(&mut self, end: Timestamp, groups: &Groups) {
        self.slice = Some(end);
        self.groups = groups.iter().collect();
        self.groups.reverse();
        self.forget_run();
    }

    /// Forgets what is under way; the next firing begins with the slice again.
    pub(super) fn stop(&mut self) {
        if self.slice.take().is_some() {
            self.forget_run();
        }
    }

    fn forget_run(&mut self) {
        self.keys = Blobs::default();
        self.accumulators = Blobs::default();
        self.rows.clear();
        self.done = 0;
    }

    /// Moves rows of the slice to `panes` until there are `limit`; answers the slice once it has no more.
    pub(super) fn pull(
        &mut self,
        (state, store, windows): (&dyn StateBackend, &Store, Tumbling),
        logic: &mut dyn Accumulate,
        limit: usize,
        panes: &mut Panes,
    ) -> anyhow::Result<Option<Timestamp>> {
        let end = self.slice.expect("a slice is pulled from after it has begun");
        while panes.len() < limit {
            let Some(&found) = self.rows.get(self.done) else {
                if self.groups.is_empty() {
                    self.stop();
                    return Ok(Some(end));
                }
                self.read_run(state, store, end);
                continue;
            };
            self.done += 1;
            let (key, old) = (self.keys.get(found.index as usize), self.accumulators.get(found.index as usize));
            let at = (found.group, end, key);
            let migrated;
            let accumulator = if store.is_current(found.version) {
                old
            } else {
                migrated = logic.migrate(found.version, &one(old))?;
                migrated.get(0)
            };
            if found.sent.panes > 0 || !logic.is_empty(accumulator) {
                panes.push(windows, at, accumulator, found.sent);
            }
        }
        let whole = self.done == self.rows.len() && self.groups.is_empty();
        if whole {
            self.stop();
        }
        Ok(whole.then_some(end))
    }

    fn read_run(&mut self, state: &dyn StateBackend, store: &Store, end: Timestamp) {
        self.forget_run();
        while self.rows.len() < RUN_ROWS
            && let Some(group) = self.groups.pop()
        {
            store.scan(state, group, end, |key, accumulator, sent, version| {
                if !sent.at_end {
                    self.rows.push(Found { index: self.rows.len() as u32, group, sent, version });
                    self.keys.push(key);
                    self.accumulators.push(accumulator);
                }
            });
        }
        let keys = &self.keys;
        self.rows.sort_unstable_by(|a, b| keys.get(a.index as usize).cmp(keys.get(b.index as usize)));
    }
}

/// A list of one.
pub(super) fn one(bytes: &[u8]) -> Blobs {
    let mut blobs = Blobs::default();
    blobs.push(bytes);
    blobs
}
