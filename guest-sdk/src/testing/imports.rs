//! The functions an operator imports, answered from memory. Same names and signatures as the generated ones.

use super::world::{World, with_current};

fn current<R>(look: impl FnOnce(&mut World) -> R) -> R {
    with_current(look).expect("state is reached only while the harness runs a call")
}

pub(crate) mod state {
    use super::current;
    use crate::bindings::types::{Blobs, Column, StateKind};
    use crate::input::{blob, no_blobs, push_blob};
    use crate::testing::cell::Cell;
    use crate::testing::world::World;

    fn check(world: &World, state: u32, kind: StateKind) {
        let declared = &world.store.states[state as usize];
        assert_eq!(declared.kind, kind, "state `{}` is of another kind", declared.name);
        assert!(!declared.prefetch, "state `{}` is prefetched: it comes with the batch", declared.name);
    }

    fn column(world: &World, state: u32, cells: &[Option<Cell>]) -> Column {
        Cell::column(world.store.states[state as usize].value_type, cells)
    }

    pub(crate) fn get(state: u32, rows: &[u32]) -> Column {
        current(|world| {
            check(world, state, StateKind::ValueState);
            let cells: Vec<_> = rows
                .iter()
                .map(|row| {
                    let (key, sight) = world.row(*row);
                    world.store.get(state, &key, b"", sight)
                })
                .collect();
            column(world, state, &cells)
        })
    }

    pub(crate) fn put(state: u32, rows: &[u32], values: &Column) {
        current(|world| {
            check(world, state, StateKind::ValueState);
            for (row, cell) in rows.iter().zip(Cell::all(values)) {
                let (key, sight) = world.row(*row);
                world.store.put(state, &key, b"", cell, sight);
            }
        });
    }

    pub(crate) fn clear(state: u32, rows: &[u32]) {
        current(|world| {
            for row in rows {
                let (key, _) = world.row(*row);
                world.store.clear(state, &key);
            }
        });
    }

    pub(crate) fn list_append(state: u32, rows: &[u32], items: &Column) {
        current(|world| {
            check(world, state, StateKind::ListState);
            for (row, cell) in rows.iter().zip(Cell::all(items)) {
                let (key, sight) = world.row(*row);
                world.store.append(state, &key, cell.expect("an item has a value"), sight);
            }
        });
    }

    pub(crate) fn list_read(state: u32, row: u32, first: u64, max_items: u32) -> Column {
        current(|world| {
            check(world, state, StateKind::ListState);
            let (key, sight) = world.row(row);
            let items = world.store.scan(state, &key, None, sight).into_iter();
            let page: Vec<_> =
                items.skip(first as usize).take(max_items as usize).map(|(_, cell)| Some(cell)).collect();
            column(world, state, &page)
        })
    }

    pub(crate) fn list_length(state: u32, row: u32) -> u64 {
        current(|world| {
            check(world, state, StateKind::ListState);
            let (key, sight) = world.row(row);
            world.store.scan(state, &key, None, sight).len() as u64
        })
    }

    pub(crate) fn list_truncate(state: u32, row: u32, keep_last: u64) {
        current(|world| {
            check(world, state, StateKind::ListState);
            let (key, sight) = world.row(row);
            let items = world.store.scan(state, &key, None, sight);
            let kept = items.len().saturating_sub(keep_last as usize);
            let first_kept = items.get(kept).map(|(number, _)| number.as_slice());
            world.store.remove_before(state, &key, first_kept);
        });
    }

    pub(crate) fn map_get(state: u32, rows: &[u32], entries: &Blobs) -> Column {
        current(|world| {
            check(world, state, StateKind::MapState);
            let mut cells = Vec::new();
            for (index, row) in rows.iter().enumerate() {
                let (key, sight) = world.row(*row);
                cells.push(world.store.get(state, &key, blob(entries, index), sight));
            }
            column(world, state, &cells)
        })
    }

    pub(crate) fn map_put(state: u32, rows: &[u32], entries: &Blobs, values: &Column) {
        current(|world| {
            check(world, state, StateKind::MapState);
            for (index, (row, cell)) in rows.iter().zip(Cell::all(values)).enumerate() {
                let (key, sight) = world.row(*row);
                world.store.put(state, &key, blob(entries, index), cell, sight);
            }
        });
    }

    pub(crate) fn map_scan(state: u32, row: u32, after: Option<&[u8]>, max_items: u32) -> (Blobs, Column) {
        current(|world| {
            check(world, state, StateKind::MapState);
            let (key, sight) = world.row(row);
            let page = world.store.scan(state, &key, after, sight);
            answer(world, state, page, max_items)
        })
    }

    fn answer(world: &World, state: u32, page: Vec<(Vec<u8>, Cell)>, max_items: u32) -> (Blobs, Column) {
        let mut entries = no_blobs();
        let mut cells = Vec::new();
        for (entry, cell) in page.into_iter().take(max_items as usize) {
            push_blob(&mut entries, &entry);
            cells.push(Some(cell));
        }
        (entries, column(world, state, &cells))
    }

    pub(crate) fn broadcast_get(state: u32, entries: &Blobs) -> Column {
        current(|world| {
            check(world, state, StateKind::BroadcastMap);
            let sight = world.sight(world.now);
            let cells: Vec<_> =
                (0..entries.ends.len()).map(|index| world.store.get(state, b"", blob(entries, index), sight)).collect();
            column(world, state, &cells)
        })
    }

    pub(crate) fn broadcast_put(state: u32, entries: &Blobs, values: &Column) {
        current(|world| {
            check(world, state, StateKind::BroadcastMap);
            assert!(world.broadcast, "a broadcast map is written only by rows of a broadcast input");
            let sight = world.sight(world.now);
            for (index, cell) in Cell::all(values).into_iter().enumerate() {
                world.store.put(state, b"", blob(entries, index), cell, sight);
            }
        });
    }

    pub(crate) fn broadcast_scan(state: u32, after: Option<&[u8]>, max_items: u32) -> (Blobs, Column) {
        current(|world| {
            check(world, state, StateKind::BroadcastMap);
            let page = world.store.scan(state, b"", after, world.sight(world.now));
            answer(world, state, page, max_items)
        })
    }
}

pub(crate) mod log {
    use crate::log::Level;
    use crate::testing::world::with_current;

    pub(crate) fn enabled() -> Level {
        Level::Trace
    }

    pub(crate) fn write(level: Level, line: &str) {
        let _ = with_current(|world| world.lines.push((level, line.to_owned())));
    }
}

pub(crate) mod metrics {
    use super::current;

    pub(crate) fn counter(name: &str) -> u32 {
        current(|world| world.metric(name))
    }

    pub(crate) fn gauge(name: &str) -> u32 {
        current(|world| world.metric(name))
    }

    pub(crate) fn histogram(name: &str) -> u32 {
        current(|world| world.metric(name))
    }

    pub(crate) fn add(metric: u32, delta: u64) {
        current(|world| world.metrics[metric as usize].1 += delta as f64);
    }

    pub(crate) fn set(metric: u32, value: f64) {
        current(|world| world.metrics[metric as usize].1 = value);
    }

    pub(crate) fn observe(metric: u32, values: &[f64]) {
        current(|world| world.metrics[metric as usize].2.extend_from_slice(values));
    }
}
