//! The task's side of a backend: writes to the active layer, reads through all of them, hands layers to the thread beside
//! it. Waits only for a thread that has fallen behind.

use super::scan::{self, Sources};
use super::thread::{Answer, Thread, Work};
use super::{Base, Clocks, Frozen, Layer, Place, Probe, RowRef, Span};
use crate::env::{FailPoints, WaitPoint};
use crate::state::{
    Access, Address, ManyVisitor, NEVER, RowKeys, RowMeta, Sizes, StateBackend, StateDeclaration, StateLost,
    StateNumber, Visitor,
};
use anyhow::anyhow;
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::{Clock, END, Timestamp};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Writes to one active table, beyond twice its rows, before its expired rows are looked for.
const SWEEP_SLACK: u64 = 64;

/// How far the layers may grow.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct Limits {
    /// Bytes at which the active layer is frozen early.
    pub(in crate::state) active: u64,
    /// Frozen layers that may wait for the thread before no more is frozen early…
    pub(in crate::state) frozen: usize,
    /// …and bytes that the active layer may have then, before the task waits.
    pub(in crate::state) active_most: u64,
}

/// Whose backend it is.
pub(in crate::state) struct Setup {
    /// Name of the task's chain.
    pub(in crate::state) chain: String,
    /// Which of the chain's tasks.
    pub(in crate::state) task: usize,
    /// Key groups the task owns.
    pub(in crate::state) groups: Range<u16>,
    pub(in crate::state) limits: Limits,
    /// Noticed when the thread has an answer.
    pub(in crate::state) notify: Arc<WaitPoint>,
    pub(in crate::state) fail_points: Arc<FailPoints>,
}

/// A backend on some base.
pub(in crate::state) struct Layered<B: Base> {
    setup: Setup,
    base: Arc<B>,
    /// By state number.
    states: Vec<Option<Declared<B::State>>>,
    active: Layer,
    /// Oldest first.
    frozen: VecDeque<Arc<Layer>>,
    /// Checkpoints whose snapshots have not ended.
    asked: VecDeque<CheckpointId>,
    /// Started with the first layer that is frozen: a task that keeps nothing has no second thread.
    thread: Option<Thread>,
    clocks: Clocks,
    ended: VecDeque<(CheckpointId, anyhow::Result<Vec<FileEntry>>)>,
}

#[derive(Clone)]
struct Declared<S> {
    access: Access,
    ttl: Option<Clock>,
    base: S,
}

impl<B: Base> Drop for Layered<B> {
    fn drop(&mut self) {
        if B::ENDS_WITH_ITS_TASK
            && let Some(thread) = self.thread.take()
        {
            thread.join();
        }
    }
}

impl<B: Base> Layered<B> {
    pub(in crate::state) fn new(setup: Setup, base: B) -> Self {
        Self {
            setup,
            base: Arc::new(base),
            states: vec![],
            active: Layer::default(),
            frozen: VecDeque::new(),
            asked: VecDeque::new(),
            thread: None,
            clocks: Clocks::default(),
            ended: VecDeque::new(),
        }
    }

    #[cfg(test)]
    pub(in crate::state) fn setup(&self) -> &Setup {
        &self.setup
    }

    #[cfg(test)]
    pub(in crate::state) fn base(&self) -> &B {
        &self.base
    }

    #[inline]
    fn state(&self, number: StateNumber) -> &Declared<B::State> {
        let state = self.states.get(number.0 as usize).and_then(Option::as_ref);
        state.expect("a state is registered before its first use")
    }

    #[inline]
    fn group(&self, group: KeyGroup) -> usize {
        let groups = &self.setup.groups;
        assert!(groups.contains(&group.0), "key group {} belongs to another task than that of {groups:?}", group.0);
        usize::from(group.0 - groups.start)
    }

    #[inline]
    fn place<'a>(&self, at: Address<'a>) -> Place<'a> {
        let probe = Probe::new(self.state(at.state).access, at.row);
        Place { state: at.state, group: at.group, index: self.group(at.group), probe }
    }

    /// The row or its tombstone in the newest layer that has it.
    #[inline]
    fn in_layers(&self, at: &Place<'_>) -> Option<RowRef<'_>> {
        let frozen = || self.frozen.iter().rev().find_map(|layer| layer_get(layer, at));
        layer_get(&self.active, at).or_else(frozen)
    }

    fn put_active(&mut self, at: &Place<'_>, meta: RowMeta, bytes: Option<&[u8]>) {
        let state = self.state(at.state);
        let (access, ttl) = (state.access, state.ttl);
        let place = (self.setup.groups.len(), at.index);
        let table = self.active.put((at.state, access), place, &at.probe, meta, bytes);
        if ttl.is_some() && table.writes > 2 * table.entries + SWEEP_SLACK {
            self.sweep_active(at.state, at.group, ttl);
        }
        if self.active.memory() > self.setup.limits.active {
            self.freeze_early();
        }
    }

    /// Drops the expired rows of an active table, so that space is freed without checkpoints too.
    fn sweep_active(&mut self, state: StateNumber, group: KeyGroup, ttl: Option<Clock>) {
        let Some(clock) = self.clocks.of(ttl) else { return };
        let (groups, at, access) = (self.setup.groups.len(), self.group(group), self.state(state).access);
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
        while self.frozen.len() >= self.setup.limits.frozen {
            if self.active.memory() < self.setup.limits.active_most {
                return;
            }
            let answer = self.thread.as_ref().and_then(|thread| thread.answers.recv().ok());
            match answer {
                Some(Answer::Refused(why)) => StateLost::unwind(anyhow!("{why}").context(format!(
                    "the state of `{}` {} grows, and what is kept in memory of it cannot be written",
                    self.setup.chain, self.setup.task
                ))),
                Some(answer) => self.take_answer(answer),
                None => StateLost::unwind(anyhow!("the thread that writes state has ended")),
            }
        }
        self.freeze(None);
    }

    fn freeze(&mut self, checkpoint: Option<CheckpointId>) {
        let layer = Arc::new(std::mem::take(&mut self.active));
        self.frozen.push_back(layer.clone());
        self.asked.extend(checkpoint);
        self.ask(Work::Freeze(Frozen { layer, clocks: self.clocks, checkpoint }));
    }

    fn ask(&mut self, work: Work) {
        if self.thread.is_none() {
            let name = format!("state-{}-{}", self.setup.chain, self.setup.task);
            let worker = |answers| self.base.clone().worker(answers);
            match Thread::start(&name, &self.setup, worker) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => return self.lost(&anyhow!(error).context("no thread for state can be started")),
            }
        }
        let gone = self.thread.as_ref().is_none_or(|thread| thread.work.send(work).is_err());
        if gone {
            self.lost(&anyhow!("the thread that writes state has ended"));
        }
    }

    /// The thread is gone: its layers stay frozen and readable, its snapshots fail.
    fn lost(&mut self, why: &anyhow::Error) {
        for checkpoint in self.asked.drain(..) {
            self.ended.push_back((checkpoint, Err(anyhow!("{why:#}"))));
        }
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.thread.as_ref().and_then(|thread| thread.answers.try_recv().ok()) {
            self.take_answer(answer);
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Applied => {
                if let Some(layer) = self.frozen.pop_front() {
                    self.ask(Work::Free(layer));
                }
            }
            Answer::Refused(why) => {
                tracing::warn!(
                    chain = self.setup.chain,
                    task = self.setup.task,
                    why,
                    "state cannot be written for now"
                );
            }
            Answer::Snapshot(checkpoint, files) => {
                self.asked.pop_front();
                self.ended.push_back((checkpoint, files));
            }
        }
    }

    /// Whether a layer below the active one, or the base, may have the row.
    fn may_be_below(&self, at: &Place<'_>) -> bool {
        let frozen = self.frozen.iter().rev().find_map(|layer| layer_get(layer, at));
        match frozen {
            Some(row) => !row.is_tombstone(),
            None => self.base.may_hold(&self.state(at.state).base, at),
        }
    }
}

#[inline]
fn layer_get<'a>(layer: &'a Layer, at: &Place<'_>) -> Option<RowRef<'a>> {
    layer.table(at.state, at.index)?.get(&at.probe)
}

impl<B: Base> StateBackend for Layered<B> {
    fn name(&self) -> &'static str {
        B::NAME
    }

    fn register(&mut self, state: StateNumber, declaration: &StateDeclaration) {
        let at = state.0 as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        let (access, ttl) = (declaration.access(), declaration.ttl.map(|ttl| ttl.clock));
        self.states[at] = Some(Declared { access, ttl, base: self.base.register(state, declaration) });
    }

    #[inline]
    fn get(&self, at: Address<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        let place = self.place(at);
        match self.in_layers(&place) {
            Some(row) => row.read(into),
            None => self.base.get(&self.state(at.state).base, &place, into),
        }
    }

    fn get_many(&self, state: StateNumber, keys: &RowKeys, visit: &mut ManyVisitor<'_>) {
        let above = |index: usize| {
            let place = self.place(keys.address(state, index));
            let row = self.in_layers(&place);
            (place, row)
        };
        self.base.get_many(&self.state(state).base, state, keys, above, visit);
    }

    #[inline]
    fn put(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) {
        self.put_active(&self.place(at), meta, Some(bytes));
    }

    fn delete(&mut self, at: Address<'_>) {
        let place = self.place(at);
        if self.may_be_below(&place) {
            self.put_active(&place, RowMeta { expiry: NEVER, version: 0 }, None);
        } else {
            self.active.remove(at.state, place.index, &place.probe);
        }
    }

    fn scan(&self, group: KeyGroup, state: StateNumber, range: (&[u8], &[u8]), visit: &mut Visitor<'_>) {
        let declared = self.state(state);
        let span = Span { state, access: declared.access, group, index: self.group(group), range };
        let layers = std::iter::once(&self.active).chain(self.frozen.iter().rev().map(|layer| &**layer));
        let newer: Vec<_> = layers.filter_map(|layer| layer.table(state, span.index)).collect();
        // Whether the visitor broke or the rows ended is the visitor's own knowledge.
        let _ = self
            .base
            .with_cursor(&declared.base, &span, |base| scan::scan(Sources { newer, base, span: &span }, visit));
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
        self.setup.fail_points.passed(|| format!("state/{}/frozen", self.setup.chain), 1);
    }

    fn poll_snapshot(&mut self) -> anyhow::Result<Option<(CheckpointId, Vec<FileEntry>)>> {
        self.take_answers();
        let Some((checkpoint, files)) = self.ended.pop_front() else { return Ok(None) };
        let failed = || {
            format!("state of `{}` {} was not stored for checkpoint {checkpoint}", self.setup.chain, self.setup.task)
        };
        files.map(|files| Some((checkpoint, files))).map_err(|error| error.context(failed()))
    }

    fn restore(&mut self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
        assert!(self.thread.is_none() && self.active.is_empty(), "state is restored before anything is written to it");
        let own = &self.setup.groups;
        assert!(
            groups.start >= own.start && groups.end <= own.end,
            "a task of key groups {own:?} restores no {groups:?}"
        );
        self.base.restore(files, groups)
    }

    fn sizes(&self) -> Sizes {
        let Sizes { rows, bytes, expired_bytes } = self.base.sizes();
        let upper = std::iter::once(self.active.sizes()).chain(self.frozen.iter().map(|layer| layer.sizes()));
        let (more_rows, more_bytes) = upper.fold((0, 0), |sum, layer| (sum.0 + layer.0, sum.1 + layer.1));
        Sizes { rows: rows + more_rows, bytes: bytes + more_bytes, expired_bytes }
    }
}
