//! Frees the space of expired rows: RocksDB shows each row it compacts to a filter, which drops those whose stamp has passed
//! on their state's clock. Until then they only lie there; who reads judges the stamp.

use super::stored;
use crate::state::layered::Clocks;
use crate::state::{StateDeclaration, StateNumber};
use dataflow::time::{Clock, START};
use rocksdb::CompactionDecision;
use rocksdb::compaction_filter::CompactionFilter;
use rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What the filters of one database share with its task.
#[derive(Debug)]
pub(super) struct Expiry {
    watermark: AtomicI64,
    now: AtomicI64,
    freed: AtomicU64,
    /// Clocks of the states with a time to live.
    states: RwLock<BTreeMap<StateNumber, Clock>>,
}

impl Default for Expiry {
    fn default() -> Self {
        let (watermark, now) = (AtomicI64::new(START), AtomicI64::new(START));
        Self { watermark, now, freed: AtomicU64::new(0), states: RwLock::default() }
    }
}

impl Expiry {
    /// Whether rows of any state expire, with this one.
    pub(super) fn register(&self, state: StateNumber, declaration: &StateDeclaration) -> bool {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        match declaration.ttl {
            Some(ttl) => states.insert(state, ttl.clock),
            None => states.remove(&state),
        };
        !states.is_empty()
    }

    /// As the clocks stood when the layer applied next was frozen: what a snapshot drops has expired at its own time.
    pub(super) fn set(&self, clocks: Clocks) {
        self.watermark.store(clocks.watermark, Ordering::Relaxed);
        self.now.store(clocks.now, Ordering::Relaxed);
    }

    fn clocks(&self) -> Clocks {
        Clocks { watermark: self.watermark.load(Ordering::Relaxed), now: self.now.load(Ordering::Relaxed) }
    }

    pub(super) fn count(&self, bytes: u64) {
        self.freed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes freed so far.
    pub(super) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// What tells now which rows have expired.
    pub(super) fn judge(self: &Arc<Self>) -> Judge {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner).clone();
        Judge { expiry: self.clone(), states }
    }
}

/// Tells which rows have expired.
pub(super) struct Judge {
    expiry: Arc<Expiry>,
    states: BTreeMap<StateNumber, Clock>,
}

impl Judge {
    /// Whether a row with this stamp is gone.
    #[inline]
    pub(super) fn is_gone(&self, state: StateNumber, stamp: i64) -> bool {
        if self.states.is_empty() {
            return false;
        }
        self.expiry.clocks().of(self.states.get(&state).copied()).is_some_and(|clock| stamp <= clock)
    }
}

/// Makes a filter for each compaction.
pub(super) struct Filters(pub(super) Arc<Expiry>);

impl CompactionFilterFactory for Filters {
    type Filter = Judge;

    fn create(&mut self, _context: CompactionFilterContext) -> Judge {
        self.0.judge()
    }

    fn name(&self) -> &CStr {
        c"expired rows"
    }
}

impl CompactionFilter for Judge {
    fn filter(&mut self, _level: u32, key: &[u8], stored: &[u8]) -> CompactionDecision {
        let row = stored::address(key).zip(stored::value(stored));
        let gone = row.is_some_and(|(at, (meta, _))| self.is_gone(at.state, meta.expiry));
        if gone {
            self.expiry.count((key.len() + stored.len()) as u64);
            return CompactionDecision::Remove;
        }
        CompactionDecision::Keep
    }

    fn name(&self) -> &CStr {
        c"expired rows"
    }
}
