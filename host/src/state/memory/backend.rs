//! The task's side of the `memory` backend: writes to the active layer, reads through all of them, hands layers to the
//! background. Never waits but for a background that has fallen several layers behind.

use super::background::{Applied, Background, Work, Writer};
use super::base::{Base, BaseState, Clocks};
use super::layer::Layer;
use super::scan::{self, Sources};
use super::table::Probe;
use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::memory::MemoryStorage;
use crate::env::{self, WaitPoint};
use crate::state::snapshot_file::read_file;
use crate::state::{Access, Address, NEVER, RowMeta, Sizes, StateBackend, StateDeclaration, StateNumber, Visitor};
use anyhow::anyhow;
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::{Clock, END, Timestamp};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes at which the active layer is frozen early, unless told otherwise.
pub const ACTIVE_LIMIT_DEFAULT: u64 = 64 << 20;

/// Frozen layers that may wait for the background; with more, the task waits for it.
const FROZEN_MAX: usize = 4;

/// Writes to one active table, beyond twice its rows, before its expired rows are looked for.
const SWEEP_SLACK: u64 = 64;

/// What a `memory` backend is made with.
pub struct MemoryOptions {
    /// Where snapshots go.
    pub storage: Arc<dyn CheckpointStorage>,
    /// Name of the task's chain, for file names.
    pub chain: String,
    /// Which of the chain's tasks.
    pub task: usize,
    /// Names this run of the job, differently from all earlier ones: files that an older manifest names are never overwritten.
    pub attempt: String,
    /// Key groups the task owns.
    pub groups: Range<u16>,
    /// See [`ACTIVE_LIMIT_DEFAULT`].
    pub active_limit: u64,
    /// Noticed when a snapshot is ready.
    pub notify: Arc<WaitPoint>,
}

/// See the module.
pub struct MemoryBackend {
    options: MemoryOptions,
    base: Arc<Base>,
    /// By state number.
    states: Vec<Option<Arc<BaseState>>>,
    active: Layer,
    /// Oldest first.
    frozen: VecDeque<Arc<Layer>>,
    /// The checkpoints, if any, that the layers in `frozen` were frozen for.
    asked: VecDeque<Option<CheckpointId>>,
    /// Started with the first layer: a task that keeps nothing has no second thread.
    thread: Option<Thread>,
    clocks: Clocks,
    /// Files that the base was restored from, and whether they hold other tasks' rows.
    restored: (Vec<FileEntry>, bool),
    ready: VecDeque<(CheckpointId, anyhow::Result<Vec<FileEntry>>)>,
}

struct Thread {
    work: Sender<Work>,
    answers: Receiver<Applied>,
}

impl MemoryBackend {
    /// Without rows.
    pub fn new(options: MemoryOptions) -> Self {
        Self {
            base: Arc::new(Base::new(options.groups.clone())),
            options,
            states: vec![],
            active: Layer::default(),
            frozen: VecDeque::new(),
            asked: VecDeque::new(),
            thread: None,
            clocks: Clocks::default(),
            restored: (vec![], false),
            ready: VecDeque::new(),
        }
    }

    /// One for tests of what stands above it: owns `groups`, and its snapshots vanish with it.
    pub fn for_tests(groups: Range<u16>) -> Self {
        static ATTEMPT: AtomicU64 = AtomicU64::new(0);
        Self::new(MemoryOptions {
            storage: Arc::new(MemoryStorage::default()),
            chain: "test".into(),
            task: 0,
            attempt: ATTEMPT.fetch_add(1, Ordering::Relaxed).to_string(),
            groups,
            active_limit: ACTIVE_LIMIT_DEFAULT,
            notify: Arc::default(),
        })
    }

    #[cfg(test)]
    pub(in crate::state) fn options(&self) -> &MemoryOptions {
        &self.options
    }

    #[inline]
    fn state(&self, number: StateNumber) -> &Arc<BaseState> {
        let state = self.states.get(number.0 as usize).and_then(Option::as_ref);
        state.expect("a state is registered before its first use")
    }

    #[inline]
    fn group(&self, group: KeyGroup) -> usize {
        let groups = &self.options.groups;
        assert!(groups.contains(&group.0), "key group {} belongs to another task than that of {groups:?}", group.0);
        usize::from(group.0 - groups.start)
    }

    fn put_active(&mut self, at: Address<'_>, probe: &Probe<'_>, meta: RowMeta, bytes: Option<&[u8]>) {
        let group = self.group(at.group);
        let state = self.state(at.state);
        let (access, ttl) = (state.access, state.ttl());
        let place = (self.options.groups.len(), group);
        let table = self.active.put((at.state, access), place, probe, meta, bytes);
        if ttl.is_some() && table.writes > 2 * table.entries + SWEEP_SLACK {
            self.sweep_active(at.state, at.group, ttl);
        }
        if self.active.memory() > self.options.active_limit {
            self.freeze_early();
        }
    }

    /// Drops the expired rows of an active table, so that space is freed without checkpoints too.
    fn sweep_active(&mut self, state: StateNumber, group: KeyGroup, ttl: Option<Clock>) {
        let Some(clock) = self.clocks.of(ttl) else { return };
        let (groups, at, access) = (self.options.groups.len(), self.group(group), self.state(state).access);
        let table = self.active.table_mut(state, access, groups, at);
        table.writes = 0;
        let rows: Vec<_> = table
            .iter()
            .filter(|(_, row)| !row.is_tombstone() && row.meta().expiry <= clock)
            .map(|(_, row)| (row.key().to_vec(), row.stored_size()))
            .collect();
        for (row, bytes) in rows {
            self.base.count_expired(bytes);
            self.delete(Address { group, state, row: &row });
        }
    }

    fn freeze_early(&mut self) {
        self.take_answers();
        while self.frozen.len() >= FROZEN_MAX {
            if self.active.memory() < self.options.active_limit * FROZEN_MAX as u64 {
                return;
            }
            let answer = self.thread.as_ref().and_then(|thread| thread.answers.recv().ok());
            self.take_answer(answer.expect("the thread that applies frozen state lives as long as its task"));
        }
        self.freeze(None);
    }

    fn freeze(&mut self, checkpoint: Option<CheckpointId>) {
        let layer = Arc::new(std::mem::take(&mut self.active));
        self.frozen.push_back(layer.clone());
        self.asked.push_back(checkpoint);
        self.ask(Work::Freeze { layer, clocks: self.clocks, checkpoint });
    }

    fn ask(&mut self, work: Work) {
        if self.thread.is_none() {
            match self.start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => return self.lost(&anyhow!(error).context("no thread for state can be started")),
            }
        }
        let gone = self.thread.as_ref().is_none_or(|thread| thread.work.send(work).is_err());
        if gone {
            self.lost(&anyhow!("the thread that writes state has ended"));
        }
    }

    /// The background is gone: its layers stay frozen and readable, its snapshots fail.
    fn lost(&mut self, why: &anyhow::Error) {
        for checkpoint in self.asked.drain(..).flatten() {
            self.ready.push_back((checkpoint, Err(anyhow!("{why:#}"))));
        }
    }

    fn start(&mut self) -> std::io::Result<Thread> {
        let (work, inbox) = channel();
        let (outbox, answers) = channel();
        let MemoryOptions { chain, task, .. } = &self.options;
        let writer = Writer {
            storage: self.options.storage.clone(),
            prefix: format!("state/{chain}-{task}"),
            attempt: self.options.attempt.clone(),
        };
        let (base, notify) = (self.base.clone(), self.options.notify.clone());
        let background = Background::new(base, writer, notify, self.options.active_limit);
        env::spawn(&format!("state-{chain}-{task}"), move || background.run(&inbox, &outbox))?;
        // The receiver was moved into the thread that lives: the first message always arrives.
        let (files, others) = std::mem::take(&mut self.restored);
        let _ = work.send(if others { Work::RestoredFromOthers } else { Work::Restored(files) });
        Ok(Thread { work, answers })
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.thread.as_ref().and_then(|thread| thread.answers.try_recv().ok()) {
            self.take_answer(answer);
        }
    }

    fn take_answer(&mut self, answer: Applied) {
        self.asked.pop_front();
        self.ready.extend(answer.snapshot);
        if let Some(layer) = self.frozen.pop_front() {
            self.ask(Work::Free(layer));
        }
    }

    /// Whether a layer below the active one has the row.
    fn below(&self, state: &BaseState, at: Address<'_>, probe: &Probe<'_>) -> bool {
        let group = self.group(at.group);
        for layer in self.frozen.iter().rev() {
            if let Some(row) = layer.table(at.state, group).and_then(|table| table.get(probe)) {
                return !row.is_tombstone();
            }
        }
        state.read(group).get(probe).is_some()
    }
}

impl StateBackend for MemoryBackend {
    fn register(&mut self, state: StateNumber, declaration: &StateDeclaration) {
        let at = state.0 as usize;
        if self.states.len() <= at {
            self.states.resize(at + 1, None);
        }
        self.states[at] = Some(self.base.register(state, declaration));
    }

    #[inline]
    fn get(&self, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        let (state, group) = (self.state(at.state), self.group(at.group));
        let probe = Probe::new(state.access, at.row);
        for layer in std::iter::once(&self.active).chain(self.frozen.iter().rev().map(|layer| &**layer)) {
            if let Some(row) = layer.table(at.state, group).and_then(|table| table.get(&probe)) {
                return row.read(into);
            }
        }
        state.read(group).get(&probe)?.read(into)
    }

    #[inline]
    fn put(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) {
        let probe = Probe::new(self.state(at.state).access, at.row);
        self.put_active(at, &probe, meta, Some(bytes));
    }

    fn delete(&mut self, at: Address<'_>) {
        let state = self.state(at.state);
        let probe = Probe::new(state.access, at.row);
        if self.below(state, at, &probe) {
            self.put_active(at, &probe, RowMeta { expiry: NEVER, version: 0 }, None);
        } else {
            self.active.remove(at.state, self.group(at.group), &probe);
        }
    }

    fn scan(&self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) {
        let at = self.group(group);
        let base = self.state(state);
        let layers = std::iter::once(&self.active).chain(self.frozen.iter().rev().map(|layer| &**layer));
        let sources =
            Sources { newer: layers.filter_map(|layer| layer.table(state, at)).collect(), base, group: at, range };
        // Whether the visitor broke or the rows ended is the visitor's own knowledge.
        let _: ControlFlow<()> = match base.access {
            Access::Ordered => scan::ordered(&sources, visit),
            Access::Sliced => scan::sliced(&sources, visit),
            Access::Point => scan::unordered(&sources, visit),
        };
    }

    fn delete_range(&mut self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8])) {
        let mut rows = dataflow::record::Blobs::default();
        self.scan(group, state, range, &mut |row, _, _| {
            rows.push(row);
            ControlFlow::Continue(())
        });
        for row in rows.iter() {
            self.delete(Address { group, state, row });
        }
    }

    fn advance(&mut self, watermark: Timestamp, now: Timestamp) {
        // The end of event time expires nothing: timers that fire then see what was valid at their own time.
        let watermark = if watermark == END { self.clocks.watermark } else { watermark };
        self.clocks = Clocks { watermark, now };
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) {
        self.take_answers();
        self.freeze(Some(checkpoint));
    }

    fn poll_snapshot(&mut self) -> anyhow::Result<Option<(CheckpointId, Vec<FileEntry>)>> {
        self.take_answers();
        let Some((checkpoint, files)) = self.ready.pop_front() else { return Ok(None) };
        let failed = || {
            format!(
                "state of `{}` {} was not stored for checkpoint {checkpoint}",
                self.options.chain, self.options.task
            )
        };
        files.map(|files| Some((checkpoint, files))).map_err(|error| error.context(failed()))
    }

    fn restore(&mut self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
        assert!(self.thread.is_none() && self.active.is_empty(), "state is restored before anything is written to it");
        let own = &self.options.groups;
        assert!(
            groups.start >= own.start && groups.end <= own.end,
            "a task of key groups {own:?} restores no {groups:?}"
        );
        for file in files {
            read_file(&*self.options.storage, file, |row| {
                if groups.contains(&row.group.0) {
                    self.base.load(row.state, row.group, row.row, row.value);
                } else {
                    self.restored.1 = true;
                }
            })?;
        }
        self.restored.0.extend_from_slice(files);
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        let (rows, bytes, expired_bytes) = self.base.sizes();
        let upper = std::iter::once(self.active.sizes()).chain(self.frozen.iter().map(|layer| layer.sizes()));
        let (more_rows, more_bytes) = upper.fold((0, 0), |sum, layer| (sum.0 + layer.0, sum.1 + layer.1));
        Sizes { rows: rows + more_rows, bytes: bytes + more_bytes, expired_bytes }
    }
}
