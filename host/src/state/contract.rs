//! What every state backend must pass: random operations against a plain sorted map, with snapshots under way, restores from
//! several old tasks at other key groups, rows that expire, and forks.

use super::{
    Access, Address, Fork, RowKeys, RowMeta, StateBackend, StateDeclaration, StateKind, StateNumber, Ttl, forked,
    read_snapshot,
};
use crate::checkpoint::CheckpointStorage;
use crate::env::WaitPoint;
use dataflow::checkpoint::{CheckpointId, FileEntry, TaskSnapshot};
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

/// What is checked.
pub(crate) struct Subject<'a> {
    /// See [`Make`].
    pub(crate) make: &'a Make<'a>,
    /// Where they keep their snapshots.
    pub(crate) storage: Arc<dyn CheckpointStorage>,
}

const GROUPS: u16 = 6;

/// Forks of one sequence at most.
const FORKS: usize = 3;

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
    Put {
        state: usize,
        group: u16,
        row: Vec<u8>,
        lives: i64,
        version: u16,
        bytes: Vec<u8>,
    },
    Delete {
        state: usize,
        group: u16,
        row: Vec<u8>,
    },
    DeleteRange {
        state: usize,
        group: u16,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Get {
        state: usize,
        group: u16,
        row: Vec<u8>,
    },
    GetMany {
        state: usize,
        rows: Vec<(u16, Vec<u8>)>,
    },
    Scan {
        state: usize,
        group: u16,
        from: Vec<u8>,
        to: Vec<u8>,
        at_most: usize,
    },
    Advance {
        watermark: i64,
        now: i64,
    },
    Snapshot,
    Poll,
    Fork {
        state: usize,
    },
    /// Split the task in two at a key group, and go on with the part below or the one above.
    Split {
        at: u16,
        above: bool,
    },
    /// Go on as one task with all key groups that its predecessors had.
    Merge,
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
    let place = || (0usize..6 + FORKS, 0..GROUPS);
    let end = || prop_oneof![Just(vec![]), row()];
    prop_oneof![
        12 => (place(), row(), -5i64..30, 0u16..3, prop::collection::vec(any::<u8>(), 0..12)).prop_map(
            |((state, group), row, lives, version, bytes)| Step::Put { state, group, row, lives, version, bytes }
        ),
        4 => (place(), row()).prop_map(|((state, group), row)| Step::Delete { state, group, row }),
        1 => (place(), row(), end()).prop_map(|((state, group), from, to)| Step::DeleteRange { state, group, from, to }),
        6 => (place(), row()).prop_map(|((state, group), row)| Step::Get { state, group, row }),
        3 => (0usize..6 + FORKS, prop::collection::vec((0..GROUPS, row()), 0..12))
            .prop_map(|(state, rows)| Step::GetMany { state, rows }),
        4 => (place(), end(), end(), prop_oneof![Just(usize::MAX), 1usize..6]).prop_map(
            |((state, group), from, to, at_most)| Step::Scan { state, group, from, to, at_most }
        ),
        2 => (0i64..6, 0i64..6).prop_map(|(watermark, now)| Step::Advance { watermark, now }),
        2 => Just(Step::Snapshot),
        2 => Just(Step::Poll),
        1 => (0usize..6 + FORKS).prop_map(|state| Step::Fork { state }),
        1 => (0..GROUPS, any::<bool>()).prop_map(|(at, above)| Step::Split { at, above }),
        1 => Just(Step::Merge),
    ]
}

type Model = BTreeMap<(usize, u16, Vec<u8>), (RowMeta, Vec<u8>)>;

/// What a snapshot must give back.
#[derive(Clone)]
struct Cut {
    groups: Range<u16>,
    rows: Model,
    clocks: (i64, i64),
    declared: Vec<(StateNumber, StateDeclaration)>,
    forks: Vec<Fork>,
}

/// A snapshot that has ended.
#[derive(Clone)]
struct Durable {
    backend: &'static str,
    files: Vec<FileEntry>,
    cut: Cut,
}

struct Run<'a> {
    subject: &'a Subject<'a>,
    case: u64,
    made: u64,
    notify: Arc<WaitPoint>,
    backend: Box<dyn StateBackend>,
    now: Cut,
    checkpoint: u64,
    under_way: BTreeMap<CheckpointId, Cut>,
    durable: Option<Durable>,
    /// Snapshots of the other halves of tasks that were split, until they merge again.
    others: Vec<Durable>,
}

/// Runs `cases` random sequences.
pub(crate) fn check_state_backend(cases: u32, subject: &Subject<'_>) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let case = std::cell::Cell::new(0);
    let steps = prop::collection::vec(step(), 1..120);
    let outcome = runner.run(&steps, |steps| {
        case.set(case.get() + 1);
        let mut run = Run::new(subject, case.get());
        steps.into_iter().for_each(|step| run.step(step));
        run.check_all();
        Ok(())
    });
    outcome.unwrap();
}

impl<'a> Run<'a> {
    fn new(subject: &'a Subject<'a>, case: u64) -> Self {
        let notify = Arc::new(WaitPoint::default());
        let declared = declarations();
        let mut backend = (subject.make)(0..GROUPS, &format!("{case}-0"), notify.clone());
        declared.iter().for_each(|(number, declaration)| backend.register(*number, declaration));
        let now = Cut { groups: 0..GROUPS, rows: Model::new(), clocks: (START, START), declared, forks: vec![] };
        let (under_way, durable) = (BTreeMap::new(), None);
        Self { subject, case, made: 0, notify, backend, now, checkpoint: 0, under_way, durable, others: vec![] }
    }

    /// Steps name any state; those that are not there mean another.
    fn state(&self, state: usize) -> usize {
        state % self.now.declared.len()
    }

    /// Steps name any group; those of other tasks mean one of this task's.
    fn own(&self, group: u16) -> u16 {
        let groups = &self.now.groups;
        groups.start + group % groups.len() as u16
    }

    fn expired(&self, state: usize, meta: RowMeta) -> bool {
        is_expired(self.now.declared[state].1.ttl, self.now.clocks, meta)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put { state, group, row, lives, version, bytes } => {
                let (state, group) = (self.state(state), self.own(group));
                let clock = self.now.declared[state].1.ttl.map_or(0, |ttl| match ttl.clock {
                    Clock::EventTime => self.now.clocks.0.max(0),
                    Clock::ProcessingTime => self.now.clocks.1.max(0),
                });
                let meta = RowMeta { expiry: clock + lives, version };
                self.backend.put(self.at(state, group, &row), meta, &bytes);
                self.now.rows.insert((state, group, row), (meta, bytes));
            }
            Step::Delete { state, group, row } => {
                let (state, group) = (self.state(state), self.own(group));
                self.backend.delete(self.at(state, group, &row));
                self.now.rows.remove(&(state, group, row));
            }
            Step::DeleteRange { state, group, from, to } => {
                let (state, group) = (self.state(state), self.own(group));
                self.backend.delete_range(KeyGroup(group), self.now.declared[state].0, (&from, &to));
                let gone = |row: &[u8]| row >= &from[..] && (to.is_empty() || row < &to[..]);
                self.now.rows.retain(|at, _| (at.0, at.1) != (state, group) || !gone(&at.2));
            }
            Step::Get { state, group, row } => {
                let (state, group) = (self.state(state), self.own(group));
                self.check_get(state, group, &row);
            }
            Step::GetMany { state, rows } => self.check_get_many(self.state(state), rows),
            Step::Scan { state, group, from, to, at_most } => {
                let (state, group) = (self.state(state), self.own(group));
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
            Step::Fork { state } => self.fork(self.state(state)),
            Step::Split { at, above } => self.split(at, above),
            Step::Merge => self.merge(),
        }
    }

    fn at<'r>(&self, state: usize, group: u16, row: &'r [u8]) -> Address<'r> {
        Address { group: KeyGroup(group), state: self.now.declared[state].0, row }
    }

    fn poll(&mut self) {
        while let Some((checkpoint, files)) = self.backend.poll_snapshot().unwrap() {
            let cut = self.under_way.remove(&checkpoint).expect("a snapshot is reported once");
            let names: BTreeSet<_> = files.iter().map(|file| &file.name).collect();
            assert_eq!(names.len(), files.len(), "a file is listed once");
            self.durable = Some(Durable { backend: self.backend.name(), files, cut });
        }
    }

    fn fork(&mut self, state: usize) {
        if self.now.forks.len() == FORKS {
            return;
        }
        let number = 100 + 2 * self.now.forks.len() as u32;
        let (from, declaration) = self.now.declared[state].clone();
        let fork = Fork { from, to: StateNumber(number), marks: StateNumber(number + 1) };
        let fresh = (self.subject.make)(0..1, "none", self.notify.clone());
        let below = std::mem::replace(&mut self.backend, fresh);
        self.backend = forked(below, fork, &declaration);
        let copied: Vec<_> = self.now.rows.iter().filter(|(at, _)| at.0 == state).collect();
        let copied: Model = copied
            .into_iter()
            .map(|(at, value)| ((self.now.declared.len(), at.1, at.2.clone()), value.clone()))
            .collect();
        self.now.rows.extend(copied);
        self.now.declared.push((fork.to, declaration));
        self.now.forks.push(fork);
    }

    /// The last snapshot that ended, all others having ended too.
    fn ended(&mut self) -> Option<Durable> {
        for _ in 0..1000 {
            self.poll();
            if self.under_way.is_empty() {
                break;
            }
            self.notify.wait(Some(Duration::from_secs(1)));
        }
        assert!(self.under_way.is_empty(), "every snapshot ends");
        self.durable.take()
    }

    fn split(&mut self, at: u16, above: bool) {
        let Some(durable) = self.ended() else { return };
        self.check_read(&durable);
        let Range { start, end } = durable.cut.groups;
        let at = start + at % (end - start);
        let (mut own, mut other) = (start..at, at..end);
        if above || own.is_empty() {
            std::mem::swap(&mut own, &mut other);
        }
        // Files hold what they held: the other half's rows too.
        let mut of_other = durable.clone();
        of_other.cut.groups = other;
        self.go_on(own, &[durable]);
        self.others.push(of_other);
    }

    /// Only halves of one cut belong together.
    fn merge(&mut self) {
        let Some(durable) = self.ended() else { return };
        let own = durable.cut.groups.clone();
        let fits = |other: &Durable| {
            let groups = &other.cut.groups;
            (groups.start == own.end || groups.end == own.start) && other.cut.forks == durable.cut.forks
        };
        let Some(at) = self.others.iter().position(fits) else {
            self.go_on(own, &[durable]);
            return;
        };
        let other = self.others.remove(at);
        let groups = own.start.min(other.cut.groups.start)..own.end.max(other.cut.groups.end);
        self.go_on(groups, &[durable, other]);
    }

    fn go_on(&mut self, groups: Range<u16>, parts: &[Durable]) {
        self.made += 1;
        self.backend =
            (self.subject.make)(groups.clone(), &format!("{}-{}", self.case, self.made), self.notify.clone());
        // States may be declared before or after.
        let declared = declarations();
        let (before, after) = declared.split_at(self.made as usize % declared.len());
        before.iter().for_each(|(number, declaration)| self.backend.register(*number, declaration));
        for part in parts {
            let wanted = part.cut.groups.start.max(groups.start)..part.cut.groups.end.min(groups.end);
            self.backend.restore(&part.files, wanted).unwrap();
        }
        after.iter().for_each(|(number, declaration)| self.backend.register(*number, declaration));
        self.now = parts[0].cut.clone();
        for part in &parts[1..] {
            self.now.rows.extend(
                part.cut
                    .rows
                    .iter()
                    .filter(|(at, _)| part.cut.groups.contains(&at.1))
                    .map(|(at, value)| (at.clone(), value.clone())),
            );
            self.now.clocks.0 = self.now.clocks.0.max(part.cut.clocks.0);
            self.now.clocks.1 = self.now.clocks.1.max(part.cut.clocks.1);
        }
        self.now.rows.retain(|at, _| groups.contains(&at.1));
        self.now.groups = groups;
        for fork in self.now.forks.clone() {
            let declaration = self.now.declared.iter().find(|(number, _)| *number == fork.to).unwrap().1.clone();
            let fresh = (self.subject.make)(0..1, "none", self.notify.clone());
            let below = std::mem::replace(&mut self.backend, fresh);
            self.backend = forked(below, fork, &declaration);
        }
        self.backend.advance(self.now.clocks.0, self.now.clocks.1);
        self.durable = None;
        self.check_all();
    }

    /// A snapshot read without a task has the rows of the cut, those of forks apart, in the order of their keys.
    fn check_read(&self, durable: &Durable) {
        let cut = &durable.cut;
        let scratch = tempfile::tempdir().unwrap();
        let mut seen = vec![];
        let snapshot = TaskSnapshot {
            chain: "chain".into(),
            operators: vec![],
            task: 0,
            groups: (cut.groups.start, cut.groups.end),
            watermark: 0,
            firing: None,
            backend: durable.backend.into(),
            files: durable.files.clone(),
            counters: BTreeMap::new(),
        };
        read_snapshot(&self.subject.storage, scratch.path(), &snapshot, cut.groups.clone(), &mut |at, meta, bytes| {
            seen.push(((at.group.0, at.state.0, at.row.to_vec()), (meta, bytes.to_vec())));
            Ok(())
        })
        .unwrap();
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "rows come in the order of their keys");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "scratch files are removed");
        let number = |state: usize| cut.declared[state].0.0;
        let expired = |state: u32, meta: RowMeta| {
            let declared = cut.declared.iter().find(|(number, _)| number.0 == state);
            is_expired(declared.and_then(|declared| declared.1.ttl), cut.clocks, meta)
        };
        let seen: BTreeMap<_, _> =
            seen.into_iter().filter(|(at, (meta, _))| at.1 < 100 && !expired(at.1, *meta)).collect();
        let expected: BTreeMap<_, _> = cut
            .rows
            .iter()
            .map(|(at, value)| ((at.1, number(at.0), at.2.clone()), value.clone()))
            .filter(|(at, (meta, _))| at.1 < 100 && !expired(at.1, *meta) && cut.groups.contains(&at.0))
            .collect();
        assert_eq!(seen, expected);
    }

    fn check_get_many(&self, state: usize, rows: Vec<(u16, Vec<u8>)>) {
        let mut keys = RowKeys::default();
        for (group, row) in &rows {
            keys.push(KeyGroup(self.own(*group)), |bytes| bytes.extend_from_slice(row));
        }
        let mut next = 0;
        self.backend.get_many(self.now.declared[state].0, &keys, &mut |index, found| {
            assert_eq!(index, next, "rows come in the order in which they were asked for");
            next += 1;
            let (group, row) = &rows[index];
            let found =
                found.filter(|(meta, _)| !self.expired(state, *meta)).map(|(meta, bytes)| (meta, bytes.to_vec()));
            let expected = self.now.rows.get(&(state, self.own(*group), row.clone())).cloned();
            assert_eq!(found, expected.filter(|(meta, _)| !self.expired(state, *meta)));
        });
        assert_eq!(next, rows.len(), "every row is told of");
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
        self.backend.scan(KeyGroup(group), self.now.declared[state].0, range, &mut |row, meta, bytes| {
            seen.push((row.to_vec(), meta, bytes.to_vec()));
            if seen.len() < at_most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(seen.len() <= at_most, "a scan ends where the visitor breaks");
        let ordered =
            |length: usize| seen.is_sorted_by(|a, b| a.0[..length.min(a.0.len())] <= b.0[..length.min(b.0.len())]);
        match self.now.declared[state].1.access() {
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
        for state in 0..self.now.declared.len() {
            for group in self.now.groups.clone() {
                self.check_scan(state, group, (&[], &[]), usize::MAX);
            }
        }
        for (state, group, row) in self.now.rows.keys() {
            self.check_get(*state, *group, row);
        }
    }
}

fn is_expired(ttl: Option<Ttl>, (watermark, now): (i64, i64), meta: RowMeta) -> bool {
    match ttl.map(|ttl| ttl.clock) {
        None => false,
        Some(Clock::EventTime) => meta.expiry <= watermark,
        Some(Clock::ProcessingTime) => meta.expiry <= now,
    }
}
