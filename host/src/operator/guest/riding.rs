//! States that ride along with a call: read before it, one value per key, and written after it, straight to the state since by
//! then nothing can fail any more.

use super::lift::Write;
use super::live::{Migrator, newer};
use crate::engine::description::Description;
use crate::state::{Address, Keyed, Now, Prefetched, Stamps, StateBackend, encode, typed};
use anyhow::Context as _;
use dataflow::key::{KeyGroup, Keys, push_varint};
use dataflow::record::Column;
use dataflow::time::Timestamp;

/// The prefetched states of one operator.
pub(super) struct Riding {
    states: Vec<Ride>,
    max_parallelism: u16,
    bytes_max: usize,
}

struct Ride {
    id: usize,
    name: String,
    state: Prefetched,
    /// Of the running call: values that were migrated while reading, by key. They are written once the call has succeeded.
    migrated: Vec<(u32, Timestamp, Column)>,
}

/// The rows of a call: their keys, none where the input is not keyed, and their times.
#[derive(Clone, Copy)]
pub(super) struct CallRows<'a> {
    pub(super) keys: Option<&'a Keys>,
    pub(super) timestamps: &'a [Timestamp],
}

/// What was read.
pub(super) enum Read {
    /// One column per state.
    All(Vec<Column>),
    /// The call must end before this row.
    CutAt(usize),
}

impl Riding {
    /// The prefetched ones of `keyed`, which are in the description's order.
    pub(super) fn new(description: &Description, keyed: &[Keyed], max_parallelism: u16, bytes_max: usize) -> Self {
        let states = description.states.iter().zip(keyed).enumerate();
        let states = states.filter(|(_, (state, _))| state.prefetch).map(|(id, (state, keyed))| Ride {
            id,
            name: state.name.clone(),
            state: Prefetched::new(*keyed, state.value_type, max_parallelism),
            migrated: vec![],
        });
        Self { states: states.collect(), max_parallelism, bytes_max }
    }

    /// Reads the value of each key of the rows.
    ///
    /// # Errors
    /// Stored values cannot be read by this component: the job cannot go on.
    pub(super) fn read(
        &mut self,
        backend: &dyn StateBackend,
        rows: CallRows<'_>,
        at: Now,
        migrator: &mut Migrator,
    ) -> anyhow::Result<Read> {
        let mut columns = Vec::with_capacity(self.states.len());
        let mut bytes = 0;
        let mut cut = None;
        for ride in &mut self.states {
            ride.migrated.clear();
            let Some(keys) = rows.keys else {
                columns.push(Column::new(ride.state.value_type));
                continue;
            };
            let mut column = Column::with_capacity(ride.state.value_type, keys.distinct.len());
            let loaded = ride.state.load(backend, keys, rows.timestamps, at, &mut column);
            let stamps = loaded.with_context(|| format!("reading state `{}`", ride.name))?;
            let ends = ride.state.cut(keys, rows.timestamps, &stamps.expiry, at);
            cut = [cut, ends].into_iter().flatten().min();
            if !stamps.outdated.is_empty() && cut.is_none() {
                ride.migrate(backend, keys, &stamps, self.max_parallelism, migrator, &mut column)?;
            }
            bytes += column.byte_size();
            columns.push(column);
        }
        if bytes > self.bytes_max && rows.timestamps.len() > 1 {
            cut = Some(cut.unwrap_or(usize::MAX).min(rows.timestamps.len() / 2));
        }
        Ok(cut.map_or(Read::All(columns), Read::CutAt))
    }

    /// Makes the writes of a call real, and what was migrated for it.
    pub(super) fn write(&mut self, backend: &mut dyn StateBackend, rows: CallRows<'_>, at: Now, writes: &[Write]) {
        let Some(keys) = rows.keys else { return };
        for ride in &mut self.states {
            let group = |key: u32| KeyGroup::of(keys.hashes[key as usize], self.max_parallelism);
            for (key, expiry, column) in ride.migrated.drain(..) {
                let row = row_of(keys, key);
                let meta = crate::state::RowMeta { expiry, version: ride.state.keyed.version };
                let mut bytes = vec![];
                encode(column.get(0), &mut bytes);
                backend.put(Address { group: group(key), state: ride.state.keyed.number, row: &row }, meta, &bytes);
            }
            for write in writes.iter().filter(|write| write.state == ride.id) {
                ride.state.write(backend, (keys, rows.timestamps), &write.rows, &write.values, at.now);
            }
        }
    }
}

impl Ride {
    /// Puts migrated values in place of those that were written under an older version.
    fn migrate(
        &mut self,
        backend: &dyn StateBackend,
        keys: &Keys,
        stamps: &Stamps,
        max_parallelism: u16,
        migrator: &mut Migrator,
        column: &mut Column,
    ) -> anyhow::Result<()> {
        let value_type = column.value_type();
        let mut whole = Column::with_capacity(value_type, column.len());
        let mut outdated = stamps.outdated.iter().peekable();
        let mut bytes = vec![];
        for key in 0..column.len() as u32 {
            let Some(&(_, version)) = outdated.next_if(|(at, _)| *at == key) else {
                whole.push_from(column, key as usize);
                continue;
            };
            if version > self.state.keyed.version {
                return Err(newer(&self.name, version, self.state.keyed.version).into());
            }
            let group = KeyGroup::of(keys.hashes[key as usize], max_parallelism);
            bytes.clear();
            backend.get(Address { group, state: self.state.keyed.number, row: &row_of(keys, key) }, &mut bytes);
            let old = typed(&bytes).with_context(|| format!("state `{}` holds a value without a type", self.name))?;
            let after = migrator.migrate_one(self.id, &self.name, version, old, value_type)?;
            whole.push_from(&after, 0);
            if after.is_present(0) {
                self.migrated.push((key, stamps.expiry[key as usize], after));
            }
        }
        *column = whole;
        Ok(())
    }
}

fn row_of(keys: &Keys, key: u32) -> Vec<u8> {
    let key = keys.distinct.get(key as usize);
    let mut row = Vec::with_capacity(key.len() + 2);
    push_varint(&mut row, key.len() as u64);
    row.extend_from_slice(key);
    row
}
