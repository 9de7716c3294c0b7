//! The tasks of one operator as far as its state goes: each owns a range of key groups in a backend of its own. They are made
//! anew from their snapshots as a restart does it, in as many tasks as a test likes.

use crate::checkpoint::memory::MemoryStorage;
use crate::env::WaitPoint;
use crate::state::contract::Make;
use crate::state::memory::{MemoryOptions, open as open_in_memory};
use crate::state::rocksdb::{Memory, RocksOptions, open as open_on_disk};
use crate::state::{StateBackend, StateDeclaration, StateNumber};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes what makes backends of one kind; those of one such maker share a storage.
pub(crate) type Kind = fn() -> Box<Make<'static>>;

/// The kinds of backends that a case runs on: in memory always, and one time in sixteen on disk, which takes its time.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    static CASES: AtomicU64 = AtomicU64::new(0);
    let too = CASES.fetch_add(1, Ordering::Relaxed).is_multiple_of(16);
    std::iter::once(memory as Kind).chain(too.then_some(rocksdb as Kind))
}

/// Backends of the first kind.
pub(crate) fn memory() -> Box<Make<'static>> {
    let storage = Arc::new(MemoryStorage::default());
    Box::new(move |groups, attempt, notify| {
        open_in_memory(MemoryOptions {
            storage: storage.clone(),
            chain: "test".into(),
            task: usize::from(groups.start),
            attempt: attempt.into(),
            groups,
            active_limit: 1 << 10, // so that layers below the active one are read too
            notify,
            fail_points: Arc::default(),
        })
    })
}

fn rocksdb() -> Box<Make<'static>> {
    let storage = Arc::new(MemoryStorage::default());
    let fast = Path::new("/dev/shm");
    let folder = if fast.is_dir() { tempfile::tempdir_in(fast) } else { tempfile::tempdir() }.unwrap();
    Box::new(move |groups, attempt, notify| {
        open_on_disk(RocksOptions {
            storage: storage.clone(),
            folder: folder.path().into(),
            memory: Memory::new(16 << 20, 1),
            chain: "test".into(),
            task: usize::from(groups.start),
            attempt: attempt.into(),
            groups,
            notify,
            fail_points: Arc::default(),
        })
    })
}

/// See the module.
pub(crate) struct Owners {
    make: Box<Make<'static>>,
    declared: Vec<(StateNumber, StateDeclaration)>,
    /// Key groups of the job.
    groups: u16,
    notify: Arc<WaitPoint>,
    made: u64,
    owners: Vec<(Range<u16>, Box<dyn StateBackend>)>,
}

impl Owners {
    /// One task that owns all of `groups` key groups, without rows.
    pub(crate) fn new(kind: Kind, declared: Vec<StateDeclaration>, groups: u16) -> Self {
        let declared = (1..).map(StateNumber).zip(declared).collect();
        let (make, notify, owners) = (kind(), Arc::default(), vec![]);
        let mut new = Self { make, declared, groups, notify, made: 0, owners };
        new.owners = new.empty(1);
        new
    }

    /// The numbers of the states, as they were declared.
    pub(crate) fn numbers(&self) -> Vec<StateNumber> {
        self.declared.iter().map(|(number, _)| *number).collect()
    }

    pub(crate) fn parallelism(&self) -> usize {
        self.owners.len()
    }

    /// Key groups of the job.
    pub(crate) fn groups(&self) -> u16 {
        self.groups
    }

    /// Key groups of a task.
    pub(crate) fn range(&self, task: usize) -> Range<u16> {
        self.owners[task].0.clone()
    }

    /// Which task owns a key group.
    pub(crate) fn owner(&self, group: KeyGroup) -> usize {
        group.task(self.parallelism(), self.groups)
    }

    pub(crate) fn backend(&mut self, task: usize) -> &mut Box<dyn StateBackend> {
        &mut self.owners[task].1
    }

    /// Tells every backend how far time has come.
    pub(crate) fn advance(&mut self, watermark: i64, now: i64) {
        self.owners.iter_mut().for_each(|(_, backend)| backend.advance(watermark, now));
    }

    /// Rows that are kept, counted one by one.
    pub(crate) fn rows(&self) -> u64 {
        let mut rows = 0;
        for (range, backend) in &self.owners {
            for group in range.clone() {
                for (state, _) in &self.declared {
                    backend.scan(KeyGroup(group), *state, (&[], &[]), &mut |_, _, _| {
                        rows += 1;
                        ControlFlow::Continue(())
                    });
                }
            }
        }
        rows
    }

    /// Makes all tasks anew from a checkpoint, in another number of them; at least one, at most one for each key group.
    pub(crate) fn restore(&mut self, parallelism: usize) {
        self.made += 1;
        let checkpoint = CheckpointId(self.made);
        let notify = self.notify.clone();
        let old: Vec<(Range<u16>, Vec<FileEntry>)> = self
            .owners
            .drain(..)
            .map(|(range, mut backend)| {
                backend.snapshot(checkpoint);
                loop {
                    match backend.poll_snapshot().unwrap() {
                        Some((of, files)) if of == checkpoint => break (range, files),
                        Some(_) => {}
                        None => notify.wait(None),
                    }
                }
            })
            .collect();
        self.owners = self.empty(parallelism);
        for (range, backend) in &mut self.owners {
            for (_, files) in old.iter().filter(|(old, _)| old.start < range.end && range.start < old.end) {
                backend.restore(files, range.clone()).unwrap();
            }
        }
    }

    fn empty(&self, parallelism: usize) -> Vec<(Range<u16>, Box<dyn StateBackend>)> {
        static ATTEMPT: AtomicU64 = AtomicU64::new(0);
        let owner = |task| {
            let range = KeyGroup::range(task, parallelism, self.groups);
            let attempt = ATTEMPT.fetch_add(1, Ordering::Relaxed).to_string();
            let mut backend = (self.make)(range.clone(), &attempt, self.notify.clone());
            self.declared.iter().for_each(|(number, declaration)| backend.register(*number, declaration));
            (range, backend)
        };
        (0..parallelism).map(owner).collect()
    }
}
