//! What was written since the last freeze: the `active` layer while the task writes to it, `frozen` once a snapshot took it.
//! A frozen layer never changes; the background applies it to the base. A deleted row is a tombstone here.

use super::table::{Probe, Table};
use crate::state::{Access, RowMeta, StateNumber};

/// Memory a row takes beside its bytes: slot, and room not used yet.
const ROW_OVERHEAD: u64 = 32;

/// Tables by state number and key group, the group counted from the task's first.
#[derive(Debug, Default)]
pub(in crate::state) struct Layer {
    states: Vec<Option<Vec<Table>>>,
    memory: u64,
}

impl Layer {
    #[inline]
    pub(in crate::state) fn table(&self, state: StateNumber, group: usize) -> Option<&Table> {
        Some(&self.states.get(state.0 as usize)?.as_ref()?[group])
    }

    #[inline]
    pub(in crate::state) fn table_mut(
        &mut self,
        state: StateNumber,
        access: Access,
        groups: usize,
        group: usize,
    ) -> &mut Table {
        let at = state.0 as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        let tables = self.states[at].get_or_insert_with(|| (0..groups).map(|_| Table::new(access)).collect());
        &mut tables[group]
    }

    /// Writes a row (a tombstone without bytes) of a table got by `table_mut`'s arguments.
    #[inline]
    pub(in crate::state) fn put(
        &mut self,
        (state, access): (StateNumber, Access),
        (groups, group): (usize, usize),
        probe: &Probe<'_>,
        meta: RowMeta,
        bytes: Option<&[u8]>,
    ) -> &Table {
        let table = self.table_mut(state, access, groups, group);
        let before = weight(table);
        table.put(probe, meta, bytes);
        let after = weight(table);
        self.memory = self.memory + after - before;
        self.table(state, group).expect("the table was just written to")
    }

    pub(in crate::state) fn remove(&mut self, state: StateNumber, group: usize, probe: &Probe<'_>) {
        if let Some(Some(tables)) = self.states.get_mut(state.0 as usize) {
            let before = weight(&tables[group]);
            tables[group].remove(probe);
            self.memory = self.memory + weight(&tables[group]) - before;
        }
    }

    /// Memory it takes, about.
    pub(in crate::state) fn memory(&self) -> u64 {
        self.memory
    }

    pub(in crate::state) fn is_empty(&self) -> bool {
        self.tables().all(|(_, _, table)| table.entries == 0)
    }

    /// All tables, by state and group.
    pub(in crate::state) fn tables(&self) -> impl Iterator<Item = (StateNumber, usize, &Table)> {
        self.states.iter().enumerate().flat_map(|(state, tables)| {
            tables.iter().flatten().enumerate().map(move |(group, table)| (StateNumber(state as u32), group, table))
        })
    }

    /// Live rows and bytes as stored in a file, about.
    pub(in crate::state) fn sizes(&self) -> (u64, u64) {
        self.tables().fold((0, 0), |(rows, bytes), (_, _, table)| (rows + table.live, bytes + table.bytes))
    }
}

fn weight(table: &Table) -> u64 {
    table.bytes + table.entries * ROW_OVERHEAD
}
