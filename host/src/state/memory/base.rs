//! Everything the task remembers but what was written last: tables by state and key group, each behind its own lock. The
//! task only reads it; the background thread alone writes, a few hundred rows at a time, so that no read waits long.

use super::background::{Background, Writer};
use super::cursor::Cursor;
use super::snapshot_file::read_file;
use crate::state::layered::{self, Answers, Clocks, Layer, Place, Probe, RowRef, Span, Table, Worker};
use crate::state::{
    Access, Address, ManyVisitor, RowKeys, RowMeta, Sizes, SnapshotVisitor, StateDeclaration, StateNumber,
};
use dataflow::checkpoint::FileEntry;
use dataflow::key::KeyGroup;
use dataflow::time::{Clock, Timestamp};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Rows applied under one taking of a lock.
const APPLY_ROWS: usize = 256;

/// The base of one task.
pub(in crate::state) struct Base {
    writer: Writer,
    /// Bytes of layers frozen early that may wait in memory for the next snapshot at least.
    pending_limit: u64,
    /// What it was restored from, until there is a worker.
    restored: Mutex<Restored>,
    groups: Range<u16>,
    states: RwLock<BTreeMap<StateNumber, Arc<BaseState>>>,
    /// As they stood when the layer applied last was frozen: what a snapshot drops has expired at its own time.
    clocks: Mutex<Clocks>,
    /// Layers applied: which table's turn it is.
    turn: AtomicUsize,
    rows: AtomicU64,
    bytes: AtomicU64,
    expired: AtomicU64,
}

/// What a base was restored from.
#[derive(Default)]
pub(super) struct Restored {
    /// Files that hold its rows.
    pub(super) files: Vec<FileEntry>,
    /// They hold other tasks' rows too: no snapshot may name them, since a later restore could take their old rows for
    /// those tasks' newer ones.
    pub(super) of_others: bool,
}

/// One state's tables.
#[derive(Debug)]
pub(in crate::state) struct BaseState {
    access: Access,
    ttl: Option<Clock>,
    shards: Vec<RwLock<Table>>,
}

impl BaseState {
    fn new(access: Access, ttl: Option<Clock>, groups: usize) -> Self {
        Self { access, ttl, shards: (0..groups).map(|_| RwLock::new(Table::new(access))).collect() }
    }

    /// A key group's table to read. A lock that a panicking thread held is read all the same: a row is never half written.
    #[inline]
    pub(super) fn read(&self, group: usize) -> RwLockReadGuard<'_, Table> {
        self.shards[group].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, group: usize) -> RwLockWriteGuard<'_, Table> {
        self.shards[group].write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Base {
    pub(super) fn new(groups: Range<u16>, writer: Writer, pending_limit: u64) -> Self {
        Self {
            writer,
            pending_limit,
            restored: Mutex::default(),
            groups,
            states: RwLock::default(),
            clocks: Mutex::default(),
            turn: AtomicUsize::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            expired: AtomicU64::new(0),
        }
    }

    pub(super) fn groups(&self) -> Range<u16> {
        self.groups.clone()
    }

    /// The states in order of their numbers.
    pub(super) fn states(&self) -> Vec<(StateNumber, Arc<BaseState>)> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|(&number, state)| (number, state.clone())).collect()
    }

    /// A state nobody has declared yet keeps its rows sorted until then.
    fn state(&self, number: StateNumber) -> Arc<BaseState> {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        let undeclared = || Arc::new(BaseState::new(Access::Ordered, None, self.groups.len()));
        states.entry(number).or_insert_with(undeclared).clone()
    }

    /// Makes a layer, frozen when the clocks stood so, part of the base; drops expired rows of tables that were written to, and of
    /// one more, in turn, so that a state nobody writes to becomes empty too.
    pub(super) fn apply(&self, layer: &Layer, clocks: Clocks) {
        *self.clocks.lock().unwrap_or_else(PoisonError::into_inner) = clocks;
        for (number, group, written) in layer.tables().filter(|(_, _, written)| written.entries > 0) {
            let state = self.state(number);
            // Invariant: a state is declared before it is written to, so layer and base have the same access.
            let mut rows = written.iter().peekable();
            while rows.peek().is_some() {
                self.change(&state, group, |table| {
                    for (probe, row) in rows.by_ref().take(APPLY_ROWS) {
                        match row.bytes() {
                            Some(bytes) => table.put(&probe, row.meta(), Some(bytes)),
                            None => table.remove(&probe),
                        }
                    }
                });
            }
            self.sweep(&state, group, Table::is_worth_a_sweep);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.groups.len().max(1);
        for (_, state) in self.states() {
            self.sweep(&state, turn, Table::may_have_expired);
        }
    }

    /// Drops the expired rows of one table, if `is_due` says so at the time of its clock.
    pub(super) fn sweep(&self, state: &BaseState, group: usize, is_due: impl Fn(&Table, Timestamp) -> bool) {
        let clocks = *self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(clock) = clocks.of(state.ttl).filter(|&clock| is_due(&state.read(group), clock)) else { return };
        let freed = self.change(state, group, |table| table.sweep(clock));
        layered::Base::count_expired(self, freed);
    }

    fn change<T>(&self, state: &BaseState, group: usize, act: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = state.write(group);
        let (rows, bytes) = (table.entries, table.bytes);
        let done = act(&mut table);
        self.rows.fetch_add(table.entries.wrapping_sub(rows), Ordering::Relaxed);
        self.bytes.fetch_add(table.bytes.wrapping_sub(bytes), Ordering::Relaxed);
        done
    }

    /// Reads a snapshot's files into the tables; whether they hold rows of other groups than `groups`.
    fn load_files(&self, files: &[FileEntry], groups: &Range<u16>) -> anyhow::Result<bool> {
        let mut of_others = false;
        for file in files {
            read_file(&*self.writer.storage, file, |row| {
                if groups.contains(&row.group.0) {
                    self.load(row.state, row.group, row.row, row.value);
                } else {
                    of_others = true;
                }
            })?;
        }
        Ok(of_others)
    }

    fn load(&self, state: StateNumber, group: KeyGroup, row: &[u8], value: Option<(RowMeta, &[u8])>) {
        let state = self.state(state);
        let probe = Probe::new(state.access, row);
        self.change(&state, usize::from(group.0 - self.groups.start), |table| match value {
            Some((meta, bytes)) => table.put(&probe, meta, Some(bytes)),
            None => table.remove(&probe),
        });
    }

    /// Reads a snapshot's files and visits the rows. Only on a base without declared states: their tables are sorted.
    pub(super) fn visit_files(&self, files: &[FileEntry], visit: &mut SnapshotVisitor<'_>) -> anyhow::Result<()> {
        self.load_files(files, &self.groups)?;
        for (group, index) in self.groups.clone().zip(0..) {
            for (number, state) in self.states() {
                for (_, row) in state.read(index).iter() {
                    let at = Address { group: KeyGroup(group), state: number, row: row.key() };
                    visit(at, row.meta(), row.bytes().unwrap_or_default())?;
                }
            }
        }
        Ok(())
    }

    /// What it was restored from; nothing when asked again.
    pub(super) fn take_restored(&self) -> Restored {
        std::mem::take(&mut *self.restored.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Live rows' bytes as stored in a file, about.
    pub(super) fn live_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl layered::Base for Base {
    const NAME: &'static str = super::NAME;
    const ENDS_WITH_ITS_TASK: bool = false;
    type State = Arc<BaseState>;
    type Cursor<'a> = Cursor<'a>;

    /// Tables of a state as declared; rows that were restored before the declaration move over.
    fn register(&self, state: StateNumber, declaration: &StateDeclaration) -> Arc<BaseState> {
        let (access, ttl) = (declaration.access(), declaration.ttl.map(|ttl| ttl.clock));
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = states.get(&state).filter(|known| known.access == access && known.ttl == ttl) {
            return known.clone();
        }
        let declared = Arc::new(BaseState::new(access, ttl, self.groups.len()));
        if let Some(old) = states.insert(state, declared.clone()) {
            for group in 0..self.groups.len() {
                let mut table = declared.write(group);
                for (_, row) in old.read(group).iter() {
                    table.put(&Probe::new(access, row.key()), row.meta(), row.bytes());
                }
            }
        }
        declared
    }

    #[inline]
    fn get(&self, state: &Arc<BaseState>, at: &Place<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        state.read(at.index).get(&at.probe)?.read(into)
    }

    fn get_many<'a>(
        &'a self,
        state: &Arc<BaseState>,
        _number: StateNumber,
        keys: &'a RowKeys,
        above: impl Fn(usize) -> (Place<'a>, Option<RowRef<'a>>),
        visit: &mut ManyVisitor<'_>,
    ) {
        fn tell(index: usize, row: Option<RowRef<'_>>, visit: &mut ManyVisitor<'_>) {
            visit(index, row.and_then(|row| Some((row.meta(), row.bytes()?))));
        }
        for index in 0..keys.len() {
            let (at, row) = above(index);
            if row.is_some() {
                tell(index, row, visit);
            } else {
                tell(index, state.read(at.index).get(&at.probe), visit);
            }
        }
    }

    fn may_hold(&self, state: &Arc<BaseState>, at: &Place<'_>) -> bool {
        state.read(at.index).get(&at.probe).is_some()
    }

    fn with_cursor(
        &self,
        state: &Arc<BaseState>,
        of: &Span<'_>,
        walk: impl FnOnce(&mut Cursor<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        walk(&mut Cursor::new(state, of))
    }

    fn restore(&self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
        let of_others = self.load_files(files, &groups)?;
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.files.extend_from_slice(files);
        restored.of_others |= of_others;
        Ok(())
    }

    fn worker(self: Arc<Self>, answers: Answers) -> Box<dyn Worker> {
        let (writer, pending_limit) = (self.writer.clone(), self.pending_limit);
        Box::new(Background::new(self, writer, answers, pending_limit))
    }

    fn count_expired(&self, bytes: u64) {
        self.expired.fetch_add(bytes, Ordering::Relaxed);
    }

    fn sizes(&self) -> Sizes {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Sizes { rows: load(&self.rows), bytes: load(&self.bytes), expired_bytes: load(&self.expired) }
    }
}
