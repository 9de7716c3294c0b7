//! What every state backend must pass: random operations against a plain sorted map, with snapshots under way, restores at
//! other key groups, and rows that expire.

use super::{Access, Address, RowMeta, StateBackend, StateDeclaration, StateKind, StateNumber, Ttl};
use crate::env::WaitPoint;
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::{Clock, START};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

/// Makes a backend that owns these key groups; all that one function makes share a storage. The text differs each time.
pub(crate) type Make<'a> = dyn Fn(Range<u16>, &str, Arc<WaitPoint>) -> Box<dyn StateBackend> + 'a;

const GROUPS: u16 = 6;

/// Three accesses without a time to live, three with one.
fn declarations() -> Vec<(StateNumber, StateDeclaration)> {
    let ttl = |clock| Some(Ttl { ms: 10, clock, renewed_by_reads: false });
    let declare = |number, kind, ttl| {
        (StateNumber(number), StateDeclaration { name: format!("state {number}"), version: 1, kind, ttl })
    };
    vec![
        declare(1, StateKind::Value, None),
        declare(2, StateKind::Map, None),
        declare(4, StateKind::Windows, None),
        declare(5, StateKind::Value, ttl(Clock::EventTime)),
        declare(6, StateKind::Map, ttl(Clock::ProcessingTime)),
        declare(9, StateKind::Windows, ttl(Clock::EventTime)),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Put { state: usize, group: u16, row: Vec<u8>, lives: i64, version: u16, bytes: Vec<u8> },
    Delete { state: usize, group: u16, row: Vec<u8> },
    DeleteRange { state: usize, group: u16, from: Vec<u8>, to: Vec<u8> },
    Get { state: usize, group: u16, row: Vec<u8> },
    Scan { state: usize, group: u16, from: Vec<u8>, to: Vec<u8>, at_most: usize },
    Advance { watermark: i64, now: i64 },
    Snapshot,
    Poll,
    Restore { from: u16, to: u16 },
}

fn row() -> impl Strategy<Value = Vec<u8>> {
    // Few rows, so that steps meet: two slices, and rows shorter than a slice.
    prop_oneof![
        4 => (0u8..3, 0u8..4).prop_map(|(slice, key)| vec![0, 0, 0, 0, 0, 0, 0, slice, key]),
        1 => prop::collection::vec(0u8..2, 0..3),
        1 => (0u8..60).prop_map(|key| vec![0, 0, 0, 0, 0, 0, 0, 1, 9, key]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0usize..6, 0..GROUPS);
    let end = || prop_oneof![Just(vec![]), row()];
    prop_oneof![
        12 => (place(), row(), -5i64..30, 0u16..3, prop::collection::vec(any::<u8>(), 0..12)).prop_map(
            |((state, group), row, lives, version, bytes)| Step::Put { state, group, row, lives, version, bytes }
        ),
        4 => (place(), row()).prop_map(|((state, group), row)| Step::Delete { state, group, row }),
        1 => (place(), row(), end()).prop_map(|((state, group), from, to)| Step::DeleteRange { state, group, from, to }),
        6 => (place(), row()).prop_map(|((state, group), row)| Step::Get { state, group, row }),
        4 => (place(), end(), end(), prop_oneof![Just(usize::MAX), 1usize..6]).prop_map(
            |((state, group), from, to, at_most)| Step::Scan { state, group, from, to, at_most }
        ),
        2 => (0i64..6, 0i64..6).prop_map(|(watermark, now)| Step::Advance { watermark, now }),
        2 => Just(Step::Snapshot),
        2 => Just(Step::Poll),
        1 => (0..GROUPS, 0..=GROUPS).prop_map(|(from, to)| Step::Restore { from, to }),
    ]
}

type Model = BTreeMap<(usize, u16, Vec<u8>), (RowMeta, Vec<u8>)>;

/// What a snapshot must give back.
#[derive(Clone)]
struct Cut {
    groups: Range<u16>,
    rows: Model,
    clocks: (i64, i64),
}

struct Run<'a> {
    make: &'a Make<'a>,
    case: u64,
    made: u64,
    notify: Arc<WaitPoint>,
    backend: Box<dyn StateBackend>,
    now: Cut,
    checkpoint: u64,
    under_way: BTreeMap<CheckpointId, Cut>,
    durable: Option<(Vec<FileEntry>, Cut)>,
    declared: Vec<(StateNumber, StateDeclaration)>,
}

/// Runs `cases` random sequences.
pub(crate) fn check_state_backend(cases: u32, make: &Make<'_>) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let case = std::cell::Cell::new(0);
    let steps = prop::collection::vec(step(), 1..120);
    let outcome = runner.run(&steps, |steps| {
        case.set(case.get() + 1);
        let mut run = Run::new(make, case.get());
        steps.into_iter().for_each(|step| run.step(step));
        run.check_all();
        Ok(())
    });
    outcome.unwrap();
}

impl<'a> Run<'a> {
    fn new(make: &'a Make<'a>, case: u64) -> Self {
        let notify = Arc::new(WaitPoint::default());
        let declared = declarations();
        let mut backend = make(0..GROUPS, &format!("{case}-0"), notify.clone());
        declared.iter().for_each(|(number, declaration)| backend.register(*number, declaration));
        let now = Cut { groups: 0..GROUPS, rows: Model::new(), clocks: (START, START) };
        let (under_way, durable) = (BTreeMap::new(), None);
        Self { make, case, made: 0, notify, backend, now, checkpoint: 0, under_way, durable, declared }
    }

    /// Steps name any group; those of other tasks mean one of this task's.
    fn own(&self, group: u16) -> u16 {
        let groups = &self.now.groups;
        groups.start + group % groups.len() as u16
    }

    fn expired(&self, state: usize, meta: RowMeta) -> bool {
        match self.declared[state].1.ttl.map(|ttl| ttl.clock) {
            None => false,
            Some(Clock::EventTime) => meta.expiry <= self.now.clocks.0,
            Some(Clock::ProcessingTime) => meta.expiry <= self.now.clocks.1,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put { state, group, row, lives, version, bytes } => {
                let group = self.own(group);
                let clock = self.declared[state].1.ttl.map_or(0, |ttl| match ttl.clock {
                    Clock::EventTime => self.now.clocks.0.max(0),
                    Clock::ProcessingTime => self.now.clocks.1.max(0),
                });
                let meta = RowMeta { expiry: clock + lives, version };
                self.backend.put(self.at(state, group, &row), meta, &bytes);
                self.now.rows.insert((state, group, row), (meta, bytes));
            }
            Step::Delete { state, group, row } => {
                let group = self.own(group);
                self.backend.delete(self.at(state, group, &row));
                self.now.rows.remove(&(state, group, row));
            }
            Step::DeleteRange { state, group, from, to } => {
                let group = self.own(group);
                self.backend.delete_range(KeyGroup(group), self.declared[state].0, (&from, &to));
                let gone = |row: &[u8]| row >= &from[..] && (to.is_empty() || row < &to[..]);
                self.now.rows.retain(|at, _| (at.0, at.1) != (state, group) || !gone(&at.2));
            }
            Step::Get { state, group, row } => {
                let group = self.own(group);
                self.check_get(state, group, &row);
            }
            Step::Scan { state, group, from, to, at_most } => {
                let group = self.own(group);
                self.check_scan(state, group, (&from, &to), at_most);
            }
            Step::Advance { watermark, now } => {
                self.now.clocks.0 = self.now.clocks.0.max(0) + watermark;
                self.now.clocks.1 = self.now.clocks.1.max(0) + now;
                self.backend.advance(self.now.clocks.0, self.now.clocks.1);
            }
            Step::Snapshot => {
                self.checkpoint += 1;
                self.backend.snapshot(CheckpointId(self.checkpoint));
                self.under_way.insert(CheckpointId(self.checkpoint), self.now.clone());
            }
            Step::Poll => self.poll(),
            Step::Restore { from, to } => self.restore(from, to),
        }
    }

    fn at<'r>(&self, state: usize, group: u16, row: &'r [u8]) -> Address<'r> {
        Address { group: KeyGroup(group), state: self.declared[state].0, row }
    }

    fn poll(&mut self) {
        while let Some((checkpoint, files)) = self.backend.poll_snapshot().unwrap() {
            let cut = self.under_way.remove(&checkpoint).expect("a snapshot is reported once");
            let names: BTreeSet<_> = files.iter().map(|file| &file.name).collect();
            assert_eq!(names.len(), files.len(), "a file is listed once");
            self.durable = Some((files, cut));
        }
    }

    fn restore(&mut self, from: u16, to: u16) {
        for _ in 0..1000 {
            self.poll();
            if self.under_way.is_empty() {
                break;
            }
            self.notify.wait(Some(Duration::from_secs(1)));
        }
        assert!(self.under_way.is_empty(), "every snapshot ends");
        let Some((files, cut)) = self.durable.clone() else { return };
        let old = cut.groups.clone();
        let start = old.start + from % old.len() as u16;
        let groups = start..to.clamp(start + 1, old.end);
        self.made += 1;
        self.backend = (self.make)(groups.clone(), &format!("{}-{}", self.case, self.made), self.notify.clone());
        // States may be declared before or after.
        let (before, after) = self.declared.split_at(self.made as usize % self.declared.len());
        before.iter().for_each(|(number, declaration)| self.backend.register(*number, declaration));
        self.backend.restore(&files, groups.clone()).unwrap();
        after.iter().for_each(|(number, declaration)| self.backend.register(*number, declaration));
        self.now = cut;
        self.now.rows.retain(|at, _| groups.contains(&at.1));
        self.now.groups = groups;
        self.backend.advance(self.now.clocks.0, self.now.clocks.1);
        self.durable = None;
        self.check_all();
    }

    fn check_get(&self, state: usize, group: u16, row: &[u8]) {
        let mut bytes = vec![7];
        let found = self.backend.get(self.at(state, group, row), &mut bytes);
        assert!(found.is_some() || bytes == [7], "nothing is appended where there is no row");
        let found = found.filter(|&meta| !self.expired(state, meta)).map(|meta| (meta, bytes[1..].to_vec()));
        let expected = self.now.rows.get(&(state, group, row.to_vec())).cloned();
        assert_eq!(found, expected.filter(|(meta, _)| !self.expired(state, *meta)));
    }

    fn check_scan(&self, state: usize, group: u16, range: (&[u8], &[u8]), at_most: usize) {
        let mut seen: Vec<(Vec<u8>, RowMeta, Vec<u8>)> = vec![];
        self.backend.scan(KeyGroup(group), self.declared[state].0, range, &mut |row, meta, bytes| {
            seen.push((row.to_vec(), meta, bytes.to_vec()));
            if seen.len() < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(seen.len() <= at_most, "a scan ends where the visitor breaks");
        let ordered =
            |length: usize| seen.is_sorted_by(|a, b| a.0[..length.min(a.0.len())] <= b.0[..length.min(b.0.len())]);
        match self.declared[state].1.access() {
            Access::Point => {}
            Access::Ordered => assert!(ordered(usize::MAX), "rows come in byte order"),
            Access::Sliced => assert!(seen.iter().any(|row| row.0.len() < 8) || ordered(8), "slices come in order"),
        }
        let within = |row: &[u8]| row >= range.0 && (range.1.is_empty() || row < range.1);
        let of_model =
            self.now.rows.range((state, group, vec![])..).take_while(|(at, _)| (at.0, at.1) == (state, group));
        let expected: BTreeMap<_, _> = of_model
            .filter(|(at, (meta, _))| within(&at.2) && !self.expired(state, *meta))
            .map(|(at, value)| (at.2.clone(), value.clone()))
            .collect();
        let ended = seen.len() < at_most;
        let rows = seen.len();
        let seen: BTreeMap<_, _> = seen.into_iter().map(|(row, meta, bytes)| (row, (meta, bytes))).collect();
        assert_eq!(seen.len(), rows, "a scan visits a row once");
        let seen: BTreeMap<_, _> = seen.into_iter().filter(|(_, (meta, _))| !self.expired(state, *meta)).collect();
        assert!(seen.iter().all(|(row, value)| expected.get(row) == Some(value)), "{seen:?} are of {expected:?}");
        assert!(!ended || seen.len() == expected.len(), "{seen:?} are all of {expected:?}");
    }

    fn check_all(&self) {
        for state in 0..self.declared.len() {
            for group in self.now.groups.clone() {
                self.check_scan(state, group, (&[], &[]), usize::MAX);
            }
        }
        for (state, group, row) in self.now.rows.keys() {
            self.check_get(*state, *group, row);
        }
    }
}
