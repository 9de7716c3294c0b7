//! Values, lists, maps and the overlay under them against plain models, restored at random points.

use super::memory::MemoryBackend;
use super::{
    Address, Call, Cell, Found, Keyed, ListState, MapState, NEVER, Overlay, RowMeta, StateBackend, StateDeclaration,
    StateKind, StateNumber, Ttl, ValueState,
};
use dataflow::checkpoint::CheckpointId;
use dataflow::key::KeyGroup;
use dataflow::time::{Clock, END, START};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const KINDS: [StateKind; 3] = [StateKind::Value, StateKind::Map, StateKind::Windows];

fn declaration(number: u32, kind: StateKind, ttl: Option<Ttl>) -> StateDeclaration {
    StateDeclaration { name: format!("state {number}"), version: 3, kind, ttl }
}

/// The backend as it is after a crash right behind a checkpoint.
pub(super) fn restored(mut old: MemoryBackend, declared: &[(StateNumber, StateDeclaration)]) -> MemoryBackend {
    old.snapshot(CheckpointId(1));
    let files = loop {
        if let Some((_, files)) = old.poll_snapshot().unwrap() {
            break files;
        }
        old.options().notify.wait(None);
    };
    let mut new = MemoryBackend::for_tests_on(old.options().storage.clone(), old.options().groups.clone());
    declared.iter().for_each(|(number, declaration)| new.register(*number, declaration));
    new.restore(&files, old.options().groups.clone()).unwrap();
    new
}

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
        let mut backend = MemoryBackend::for_tests(0..1);
        backend.register(StateNumber(1), &declaration(1, KINDS[kind], None));
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
            if KINDS[kind] == StateKind::Map {
                prop_assert!(all.is_sorted());
                prop_assert!(seen(&overlay, &backend, (from, to), at_most) == all[..at_most.min(all.len())]);
            }
            let slice = |row: &(Vec<u8>, Vec<u8>)| row.0.first_chunk::<8>().copied().unwrap_or_default();
            prop_assert!(KINDS[kind] == StateKind::Value || all.is_sorted_by_key(slice));
            prop_assert!(all.len() == within.len());
            prop_assert_eq!(all.into_iter().collect::<Rows>(), within);
            for row in model.keys() {
                let mut bytes = vec![];
                prop_assert_eq!(overlay.get(&backend, at(row), &mut bytes), Some(meta));
                prop_assert_eq!(&bytes, &model[row]);
            }
        }
    }

    #[test]
    fn values_lists_and_maps_do_what_plain_collections_with_stamps_do(
        steps in prop::collection::vec((0u8..12, 0u8..3, 0i64..30, 0u8..4, 0u64..5), 1..60),
        clock in prop_oneof![Just(None), Just(Some(Clock::EventTime)), Just(Some(Clock::ProcessingTime))],
        renewed_by_reads in any::<bool>(),
    ) {
        let ttl = clock.map(|clock| Ttl { ms: 10, clock, renewed_by_reads });
        let mut subject = Subject::new(ttl);
        for (step, key, timestamp, entry, number) in steps {
            subject.step(step, key, timestamp, entry, number);
        }
    }
}

/// Items with their stamps, by key.
type Items = BTreeMap<u8, Vec<(i64, Vec<u8>)>>;

/// Entries with their stamps, by name.
type Entries = BTreeMap<Vec<u8>, (i64, Vec<u8>)>;

struct Subject {
    ttl: Option<Ttl>,
    declared: Vec<(StateNumber, StateDeclaration)>,
    backend: Option<MemoryBackend>,
    overlay: Overlay,
    value: ValueState,
    list: ListState,
    map: MapState,
    watermark: i64,
    now: i64,
    values: BTreeMap<u8, (i64, Vec<u8>)>,
    lists: Items,
    maps: BTreeMap<u8, Entries>,
    written: u8,
}

impl Subject {
    fn new(ttl: Option<Ttl>) -> Self {
        let declared: Vec<_> = [StateKind::Value, StateKind::List, StateKind::Map]
            .into_iter()
            .zip(1..)
            .map(|(kind, number)| (StateNumber(number), declaration(number, kind, ttl)))
            .collect();
        let mut backend = MemoryBackend::for_tests(0..4);
        declared.iter().for_each(|(number, declaration)| backend.register(*number, declaration));
        let keyed = |at: usize| Keyed::new(declared[at].0, &declared[at].1);
        Self {
            ttl,
            backend: Some(backend),
            overlay: Overlay::default(),
            value: ValueState::new(keyed(0)),
            list: ListState::new(keyed(1)),
            map: MapState::new(keyed(2)),
            declared,
            watermark: START,
            now: 0,
            values: BTreeMap::new(),
            lists: Items::new(),
            maps: BTreeMap::new(),
            written: 0,
        }
    }

    /// The rule as design.md says it, told once more.
    fn lives(&self, stamp: i64, timestamp: i64) -> bool {
        match self.ttl.map(|ttl| ttl.clock) {
            None => true,
            Some(Clock::EventTime) => stamp > timestamp && stamp > self.watermark,
            Some(Clock::ProcessingTime) => stamp > self.now,
        }
    }

    fn stamp(&self, timestamp: i64) -> i64 {
        match self.ttl.map(|ttl| ttl.clock) {
            None => NEVER,
            Some(Clock::EventTime) => timestamp + 10,
            Some(Clock::ProcessingTime) => self.now + 10,
        }
    }

    fn renew(&self, stamp: &mut i64, timestamp: i64) {
        if self.ttl.is_some_and(|ttl| ttl.renewed_by_reads) {
            *stamp = self.stamp(timestamp).max(*stamp);
        }
    }

    fn step(&mut self, step: u8, key: u8, timestamp: i64, entry: u8, number: u64) {
        let backend = self.backend.take().unwrap();
        let mut overlay = std::mem::take(&mut self.overlay);
        let mut call = Call { backend: &backend, overlay: &mut overlay, watermark: self.watermark, now: self.now };
        let name = vec![entry; usize::from(entry)];
        let cell_key = [b'k', key];
        let cell = Cell { group: KeyGroup(u16::from(key)), key: &cell_key[..1 + usize::from(key > 0)], timestamp };
        self.written = self.written.wrapping_add(1);
        let bytes = vec![self.written; usize::from(self.written % 3)];
        let stamp = self.stamp(timestamp);
        match step {
            0 => {
                self.value.put(&mut call, &cell, &bytes);
                self.values.insert(key, (stamp, bytes));
            }
            1 if entry == 0 => {
                self.value.clear(&mut call, &cell);
                self.values.remove(&key);
            }
            2 | 3 => {
                self.list.append(&mut call, &cell, &bytes);
                self.lists.entry(key).or_default().push((stamp, bytes));
            }
            4 if number < 3 => {
                self.list.truncate(&mut call, &cell, number);
                let mut list = self.lists.remove(&key).unwrap_or_default();
                let living: Vec<_> = (0..list.len()).filter(|&at| self.lives(list[at].0, timestamp)).collect();
                let first =
                    living.len().checked_sub(number as usize).map(|at| living.get(at).copied().unwrap_or(list.len()));
                self.lists.insert(key, list.split_off(first.unwrap_or(0)));
            }
            4 => {
                self.list.clear(&mut call, &cell);
                self.lists.remove(&key);
            }
            5 | 6 => {
                self.map.put(&mut call, &cell, &name, &bytes);
                self.maps.entry(key).or_default().insert(name.clone(), (stamp, bytes));
            }
            7 => {
                self.map.remove(&mut call, &cell, &name);
                self.maps.entry(key).or_default().remove(&name);
            }
            8 if entry == 0 => {
                self.map.clear(&mut call, &cell);
                self.maps.remove(&key);
            }
            9 => {
                self.watermark = self.watermark.max(0) + timestamp / 6;
                self.now += timestamp / 6;
            }
            _ => {}
        }
        self.check_value(&mut call, &cell, key);
        self.check_list(&mut call, &cell, key, number);
        self.check_map(&mut call, &cell, key, &name, number);
        self.end_call(backend, overlay, step);
    }

    fn end_call(&mut self, mut backend: MemoryBackend, mut overlay: Overlay, step: u8) {
        if step.is_multiple_of(2) {
            overlay.commit(&mut backend);
            backend.advance(self.watermark, self.now);
        }
        if step == 10 {
            backend = restored(backend, &self.declared);
        }
        (self.backend, self.overlay) = (Some(backend), overlay);
    }

    fn check_value(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, key: u8) {
        (call.watermark, call.now) = (self.watermark, self.now);
        let mut bytes = vec![];
        let version = self.value.get(call, cell, &mut bytes);
        let mut expected = self.values.get(&key).cloned().filter(|(stamp, _)| self.lives(*stamp, cell.timestamp));
        assert_eq!(version.map(|version| (version, &bytes)), expected.as_ref().map(|(_, bytes)| (3, bytes)));
        if let Some((stamp, bytes)) = &mut expected {
            self.renew(stamp, cell.timestamp);
            self.values.insert(key, (*stamp, std::mem::take(bytes)));
        }
    }

    fn check_list(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, key: u8, first: u64) {
        let mut list = self.lists.remove(&key).unwrap_or_default();
        let living: Vec<_> = (0..list.len()).filter(|&at| self.lives(list[at].0, cell.timestamp)).collect();
        assert_eq!(self.list.length(call, cell), living.len() as u64);
        let mut found = Found::default();
        self.list.read(call, cell, first, 2, &mut found);
        let read: Vec<_> = living.into_iter().skip(first as usize).take(2).collect();
        let expected: Vec<_> = read.iter().map(|&at| list[at].1.clone()).collect();
        assert_eq!(found.values.iter().collect::<Vec<_>>(), expected);
        assert!(found.versions.iter().all(|&version| version == 3));
        read.iter().for_each(|&at| self.renew(&mut list[at].0, cell.timestamp));
        self.lists.insert(key, list);
    }

    fn check_map(&mut self, call: &mut Call<'_>, cell: &Cell<'_>, key: u8, name: &[u8], max: u64) {
        let mut map = self.maps.remove(&key).unwrap_or_default();
        let mut bytes = vec![];
        let version = self.map.get(call, cell, name, &mut bytes);
        let living = map.get_mut(name).filter(|(stamp, _)| self.lives(*stamp, cell.timestamp));
        assert_eq!(version.map(|_| &bytes), living.as_ref().map(|(_, bytes)| bytes));
        if let Some((stamp, _)) = living {
            self.renew(stamp, cell.timestamp);
        }
        for after in [None, Some(name)] {
            let mut found = Found::default();
            self.map.scan(call, cell, after, max, &mut found);
            let behind = map.iter_mut().filter(|(entry, _)| after.is_none_or(|after| entry.as_slice() > after));
            let living = behind.filter(|(_, (stamp, _))| self.lives(*stamp, cell.timestamp)).take(max as usize);
            let mut expected = vec![];
            for (entry, (stamp, bytes)) in living {
                self.renew(stamp, cell.timestamp);
                expected.push((&entry[..], &bytes[..]));
            }
            assert_eq!(found.names.iter().zip(found.values.iter()).collect::<Vec<_>>(), expected);
        }
        self.maps.insert(key, map);
    }
}

#[test]
fn value_is_seen_while_its_stamp_lies_above_the_row_and_the_watermark() {
    let ttl = Ttl { ms: 10, clock: Clock::EventTime, renewed_by_reads: false };
    let keyed = Keyed::new(StateNumber(1), &declaration(1, StateKind::Value, Some(ttl)));
    let stamp = keyed.meta(100, 0).expiry;
    assert_eq!(stamp, 110);
    let cases = [
        (109, START, true),
        (110, START, false),
        (90, 109, true),
        (90, 110, false),
        (109, END, true),
        (110, END, false),
    ];
    for (timestamp, watermark, seen) in cases {
        assert_eq!(keyed.visible(stamp, timestamp, watermark, 1_000), seen, "{timestamp} {watermark}");
    }
    assert!(keyed.visible(NEVER, 1_000, END, 1_000));
}

#[test]
fn lists_of_a_key_and_of_a_longer_one_do_not_mix() {
    let mut backend = MemoryBackend::for_tests(0..1);
    backend.register(StateNumber(1), &declaration(1, StateKind::Map, None));
    let mut list = ListState::new(Keyed::new(StateNumber(1), &declaration(1, StateKind::Map, None)));
    let mut overlay = Overlay::default();
    let mut call = Call { backend: &backend, overlay: &mut overlay, watermark: START, now: 0 };
    let cell = |key| Cell { group: KeyGroup(0), key, timestamp: 0 };
    list.append(&mut call, &cell(b""), b"of none");
    list.append(&mut call, &cell(&[0; 8]), b"of zeros");
    list.clear(&mut call, &cell(b""));
    assert_eq!(list.length(&mut call, &cell(b"")), 0);
    assert_eq!(list.length(&mut call, &cell(&[0; 8])), 1);
    overlay.commit(&mut backend);
}
