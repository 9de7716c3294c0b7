//! The overlay against plain maps.

use super::declaration;
use crate::state::memory::MemoryBackend;
use crate::state::{Address, NEVER, Overlay, RowMeta, StateBackend, StateKind, StateNumber};
use dataflow::key::KeyGroup;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const KINDS: [StateKind; 3] = [StateKind::Value, StateKind::Map, StateKind::Windows];

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Commit,
    Discard,
}

fn row() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![(0u8..3, 0u8..5).prop_map(|(slice, key)| vec![0, 0, 0, 0, 0, 0, 0, slice, key]), Just(vec![])]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        6 => (row(), prop::collection::vec(any::<u8>(), 0..4)).prop_map(|(row, bytes)| Write::Put(row, bytes)),
        3 => row().prop_map(Write::Delete),
        1 => (row(), row()).prop_map(|(from, to)| Write::DeleteRange(from, to)),
        1 => Just(Write::Commit),
        1 => Just(Write::Discard),
    ]
}

fn at(row: &[u8]) -> Address<'_> {
    Address { group: KeyGroup(0), state: StateNumber(1), row }
}

fn seen(overlay: &Overlay, below: &dyn StateBackend, range: (&[u8], &[u8]), at_most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = vec![];
    overlay.scan(below, KeyGroup(0), StateNumber(1), range, &mut |row, _, bytes| {
        rows.push((row.to_vec(), bytes.to_vec()));
        if rows.len() < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn overlay_shows_a_calls_writes_and_makes_them_real_or_forgets_them(
        writes in prop::collection::vec(write(), 1..40), kind in 0usize..3, range in (row(), row()), at_most in 1usize..5,
    ) {
        let kind = KINDS[kind];
        let mut backend = MemoryBackend::for_tests(0..1);
        backend.register(StateNumber(1), &declaration(1, kind, None));
        let mut overlay = Overlay::default();
        let (mut real, mut model) = (Rows::new(), Rows::new());
        let meta = RowMeta { expiry: NEVER, version: 3 };
        for write in writes {
            match write {
                Write::Put(row, bytes) => {
                    overlay.put(at(&row), meta, &bytes);
                    model.insert(row, bytes);
                }
                Write::Delete(row) => {
                    overlay.delete(at(&row));
                    model.remove(&row);
                }
                Write::DeleteRange(from, to) => {
                    overlay.delete_range(&backend, KeyGroup(0), StateNumber(1), (&from, &to));
                    model.retain(|row, _| *row < from || !to.is_empty() && *row >= to);
                }
                Write::Commit => {
                    overlay.commit(&mut backend);
                    real = model.clone();
                }
                Write::Discard => {
                    overlay.discard();
                    model = real.clone();
                }
            }
            let (from, to) = &range;
            let within: Rows =
                model.iter().filter(|(row, _)| *row >= from && (to.is_empty() || *row < to)).map(|(r, b)| (r.clone(), b.clone())).collect();
            let all = seen(&overlay, &backend, (from, to), usize::MAX);
            if kind == StateKind::Map {
                prop_assert!(all.is_sorted());
                prop_assert!(seen(&overlay, &backend, (from, to), at_most) == all[..at_most.min(all.len())]);
            }
            let slice = |row: &(Vec<u8>, Vec<u8>)| row.0.first_chunk::<8>().copied().unwrap_or_default();
            prop_assert!(kind == StateKind::Value || all.is_sorted_by_key(slice));
            prop_assert!(all.len() == within.len());
            prop_assert_eq!(all.into_iter().collect::<Rows>(), within);
            for row in model.keys() {
                let mut bytes = vec![];
                prop_assert_eq!(overlay.get(&backend, at(row), &mut bytes), Some(meta));
                prop_assert_eq!(&bytes, &model[row]);
            }
        }
    }
}
