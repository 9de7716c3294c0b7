//! Values, lists and maps with and without a time to live, against the reference model.

use super::declaration;
use super::owners::{Kind, Owners, kinds};
use crate::state::memory::MemoryBackend;
use crate::state::{
    Call, Cell, Found, Keyed, ListState, MapState, NEVER, Overlay, StateBackend, StateKind, StateNumber, Ttl,
    ValueState,
};
use dataflow::key::KeyGroup;
use dataflow::model::{At, Kept, Lifetime};
use dataflow::time::{Clock, END, START};
use proptest::prelude::*;

/// Key groups; keys lie in different ones.
const GROUPS: u16 = 4;

/// How long entries live in these tests, ms.
const TTL_MS: i64 = 10;

/// One thing that is done, and the row that does it.
#[derive(Debug, Clone, Copy)]
struct Step {
    act: Act,
    key: u8,
    /// Event time of the row.
    time: i64,
    /// Names a map's entry.
    entry: u8,
    /// How many, or from where.
    number: u64,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    PutValue,
    ClearValue,
    Append,
    Truncate,
    ClearList,
    PutEntry,
    RemoveEntry,
    ClearMap,
    Look,
    /// The call ends: its writes become real.
    Commit,
    /// Both clocks move.
    Advance,
    /// A restart in so many tasks.
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        3 => Just(Act::PutValue),
        1 => Just(Act::ClearValue),
        4 => Just(Act::Append),
        2 => Just(Act::Truncate),
        1 => Just(Act::ClearList),
        4 => Just(Act::PutEntry),
        2 => Just(Act::RemoveEntry),
        1 => Just(Act::ClearMap),
        2 => Just(Act::Look),
        3 => Just(Act::Commit),
        2 => Just(Act::Advance),
        2 => (1..=usize::from(GROUPS)).prop_map(Act::Restore),
    ];
    (act, 0u8..4, 0i64..30, 0u8..4, 0u64..5).prop_map(|(act, key, time, entry, number)| Step {
        act,
        key,
        time,
        entry,
        number,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_lists_and_maps_do_what_the_model_does_wherever_they_are_restored(
        steps in prop::collection::vec(step(), 1..60),
        clock in prop_oneof![Just(None), Just(Some(Clock::EventTime)), Just(Some(Clock::ProcessingTime))],
        renewed_by_reads in any::<bool>(),
    ) {
        let ttl = clock.map(|clock| Ttl { ms: TTL_MS, clock, renewed_by_reads });
        for kind in kinds() {
            let mut subject = Subject::new(kind, ttl);
            steps.iter().for_each(|step| subject.step(*step));
        }
    }
}

/// One key with which the others begin.
fn key(step: Step) -> Vec<u8> {
    if step.key == 0 { vec![b'k'] } else { vec![b'k', step.key] }
}

struct Subject {
    owners: Owners,
    /// One for each task.
    overlays: Vec<Overlay>,
    value: ValueState,
    list: ListState,
    map: MapState,
    watermark: i64,
    now: i64,
    model: Kept,
    written: u8,
}

impl Subject {
    fn new(kind: Kind, ttl: Option<Ttl>) -> Self {
        let declared = [StateKind::Value, StateKind::List, StateKind::Map].into_iter().zip(1..);
        let declared: Vec<_> = declared.map(|(kind, number)| declaration(number, kind, ttl)).collect();
        let keyed = |at: usize| Keyed::new(StateNumber(at as u32 + 1), &declared[at]);
        let (value, list, map) = (ValueState::new(keyed(0)), ListState::new(keyed(1)), MapState::new(keyed(2)));
        let lifetime = ttl.map(|Ttl { ms, clock, renewed_by_reads }| Lifetime { ms, clock, renewed_by_reads });
        Self {
            owners: Owners::new(kind, declared, GROUPS),
            overlays: vec![Overlay::default()],
            value,
            list,
            map,
            watermark: START,
            now: 0,
            model: Kept::new(lifetime),
            written: 0,
        }
    }

    fn commit(&mut self) {
        for (task, overlay) in self.overlays.iter_mut().enumerate() {
            overlay.commit(&mut **self.owners.backend(task));
        }
        self.owners.advance(self.watermark, self.now);
    }

    fn step(&mut self, step: Step) {
        match step.act {
            Act::Commit => self.commit(),
            Act::Advance => {
                self.commit();
                self.watermark = self.watermark.max(0) + step.time / 6;
                self.now += step.time / 6;
                self.owners.advance(self.watermark, self.now);
            }
            Act::Restore(tasks) => {
                self.commit();
                self.owners.restore(tasks);
                self.owners.advance(self.watermark, self.now);
                self.overlays = (0..tasks).map(|_| Overlay::default()).collect();
            }
            _ => {}
        }
        let group = KeyGroup(u16::from(step.key));
        let task = self.owners.owner(group);
        let (watermark, now) = (self.watermark, self.now);
        let overlay = &mut self.overlays[task];
        let mut call = Call { backend: &**self.owners.backend(task), overlay, watermark, now };
        let key = key(step);
        let cell = Cell { group, key: &key, timestamp: step.time };
        let at = At { row: step.time, watermark, now };
        let name = vec![step.entry; usize::from(step.entry)];
        self.written = self.written.wrapping_add(1);
        let bytes = vec![self.written; usize::from(self.written % 3)];
        let model = &mut self.model;
        match step.act {
            Act::PutValue => {
                self.value.put(&mut call, &cell, &bytes);
                model.put_value(cell.key, at, &bytes);
            }
            Act::ClearValue => {
                self.value.clear(&mut call, &cell);
                model.clear_value(cell.key);
            }
            Act::Append => {
                self.list.append(&mut call, &cell, &bytes);
                model.append(cell.key, at, &bytes);
            }
            Act::Truncate => {
                self.list.truncate(&mut call, &cell, step.number);
                model.truncate(cell.key, at, step.number as usize);
            }
            Act::ClearList => {
                self.list.clear(&mut call, &cell);
                model.clear_list(cell.key);
            }
            Act::PutEntry => {
                self.map.put(&mut call, &cell, &name, &bytes);
                model.put_entry(cell.key, at, &name, &bytes);
            }
            Act::RemoveEntry => {
                self.map.remove(&mut call, &cell, &name);
                model.remove_entry(cell.key, &name);
            }
            Act::ClearMap => {
                self.map.clear(&mut call, &cell);
                model.clear_map(cell.key);
            }
            Act::Look | Act::Commit | Act::Advance | Act::Restore(_) => {}
        }
        self.compare(step);
    }

    /// Looks at all that a row of the step sees.
    fn compare(&mut self, step: Step) {
        let group = KeyGroup(u16::from(step.key));
        let task = self.owners.owner(group);
        let (watermark, now) = (self.watermark, self.now);
        let overlay = &mut self.overlays[task];
        let mut call = Call { backend: &**self.owners.backend(task), overlay, watermark, now };
        let key = key(step);
        let cell = Cell { group, key: &key, timestamp: step.time };
        let at = At { row: step.time, watermark, now };
        let name = vec![step.entry; usize::from(step.entry)];
        let model = &mut self.model;
        // What is read is renewed, so each is read in the same order in both.
        let mut bytes = vec![];
        let version = self.value.get(&mut call, &cell, &mut bytes);
        assert_eq!(version.map(|version| (version, bytes)), model.value(cell.key, at).map(|bytes| (3, bytes)));
        assert_eq!(self.list.length(&mut call, &cell), model.length(cell.key, at) as u64);
        let mut found = Found::default();
        self.list.read(&mut call, &cell, step.number, 2, &mut found);
        let items = model.items(cell.key, at, step.number as usize, 2);
        assert_eq!(found.values.iter().collect::<Vec<_>>(), items);
        let mut bytes = vec![];
        let version = self.map.get(&mut call, &cell, &name, &mut bytes);
        assert_eq!(version.map(|version| (version, bytes)), model.entry(cell.key, at, &name).map(|bytes| (3, bytes)));
        for after in [None, Some(&name[..])] {
            let mut found = Found::default();
            self.map.scan(&mut call, &cell, after, step.number, &mut found);
            let pairs = found.names.iter().zip(found.values.iter());
            let pairs: Vec<_> = pairs.map(|(name, bytes)| (name.to_vec(), bytes.to_vec())).collect();
            assert_eq!(pairs, model.entries(cell.key, at, after, step.number as usize));
        }
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
