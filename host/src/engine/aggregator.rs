//! A live copy of an aggregator: typed calls over batches and accumulators, answers checked. The window operator keeps the
//! accumulators; nothing is remembered here.

use super::bindings::aggregator::exports::millstream::operator::aggregation::{Context, Description};
use super::bindings::aggregator::{self as bindings, AggregatorPre};
use super::bindings::types::{self, Batch};
use super::columns;
use super::fault::{Fault, FaultKind};
use super::host::{Host, Site};
use super::instance::Run;
use super::runtime::Engine;
use dataflow::record::{Blobs, Column, ValueType, Values};
use std::sync::Arc;

/// A live aggregator. Its memory is a cache: it may be dropped between any two calls.
pub struct Aggregator {
    run: Run,
    guest: bindings::Aggregator,
}

/// A call that was answered, or rows that the guest cannot take.
#[derive(Debug)]
pub enum Accumulated {
    /// All accumulators, in order.
    Done(Blobs),
    /// These rows cannot be taken, each with its reason; nothing was accumulated.
    BadRows(Vec<(u32, String)>),
}

impl Aggregator {
    pub(super) fn start(engine: &Engine, pre: &AggregatorPre<Host>, site: &Arc<Site>) -> Result<Self, Fault> {
        let mut run = Run::new(engine, site);
        let guest = run.call(|store| pre.instantiate(store))?;
        Ok(Self { run, guest })
    }

    pub(super) fn describe(&mut self) -> Result<Description, Fault> {
        let guest = self.guest.millstream_operator_aggregation();
        self.run.call(|store| guest.call_describe(store))
    }

    /// Before all else. The inner error is the guest's own.
    ///
    /// # Errors
    /// It gave no answer.
    pub fn open(&mut self, config: &str) -> Result<Result<(), String>, Fault> {
        let site = self.run.store.data().site.clone();
        let context = Context {
            config: config.into(),
            operator: site.operator.clone(),
            task: site.task,
            parallelism: site.parallelism,
        };
        let guest = self.guest.millstream_operator_aggregation();
        self.run.call(|store| guest.call_open(store, &context))
    }

    /// Puts row i of `batch` into accumulator `acc_of[i]`; one not present is new.
    ///
    /// # Errors
    /// No answer, a failure, or an answer that does not hold together.
    pub fn accumulate(&mut self, batch: &Batch, accumulators: Column, acc_of: &[u32]) -> Result<Accumulated, Fault> {
        let count = accumulators.len();
        let accumulators = columns::lower(accumulators);
        let guest = self.guest.millstream_operator_aggregation();
        let answer = self.run.call(|store| guest.call_accumulate(store, batch, &accumulators, acc_of))?;
        accumulated(answer, count, batch.timestamps.len())
    }

    /// Takes row i of `batch` out of accumulator `acc_of[i]`.
    ///
    /// # Errors
    /// As [`Self::accumulate`].
    pub fn retract(&mut self, batch: &Batch, accumulators: Column, acc_of: &[u32]) -> Result<Accumulated, Fault> {
        let count = accumulators.len();
        let accumulators = columns::lower(accumulators);
        let guest = self.guest.millstream_operator_aggregation();
        let answer = self.run.call(|store| guest.call_retract(store, batch, &accumulators, acc_of))?;
        accumulated(answer, count, batch.timestamps.len())
    }

    /// Merges pairwise.
    ///
    /// # Errors
    /// As [`Self::accumulate`].
    pub fn merge(&mut self, left: Blobs, right: Blobs) -> Result<Blobs, Fault> {
        let count = left.len();
        let (left, right) = (columns::lower_blobs(left), columns::lower_blobs(right));
        let guest = self.guest.millstream_operator_aggregation();
        let merged = self.run.call(|store| guest.call_merge(store, &left, &right))?;
        columns::checked_blobs(merged.map_err(failed)?, count).map_err(Fault::answer)
    }

    /// One result per window: key, start, end, accumulator.
    ///
    /// # Errors
    /// As [`Self::accumulate`].
    pub fn finish(
        &mut self,
        keys: Blobs,
        starts: &[i64],
        ends: &[i64],
        accumulators: Blobs,
        result_type: ValueType,
    ) -> Result<Column, Fault> {
        let (keys, accumulators) = (columns::lower_blobs(keys), columns::lower_blobs(accumulators));
        let guest = self.guest.millstream_operator_aggregation();
        let results = self.run.call(|store| guest.call_finish(store, &keys, starts, ends, &accumulators))?;
        columns::checked(results.map_err(failed)?, starts.len(), result_type).map_err(Fault::answer)
    }

    /// Brings accumulators to the declared version. A failure is one of migration.
    ///
    /// # Errors
    /// As [`Self::accumulate`].
    pub fn migrate(&mut self, from: u16, old: Blobs) -> Result<Blobs, Fault> {
        let count = old.len();
        let old = columns::lower_blobs(old);
        let guest = self.guest.millstream_operator_aggregation();
        let migrated = self.run.call(|store| guest.call_migrate(store, u32::from(from), &old))?;
        let migrated = migrated.map_err(|reason| Fault::new(FaultKind::Migration, reason))?;
        columns::checked_blobs(migrated, count).map_err(|reason| Fault::new(FaultKind::Migration, reason))
    }

    /// Bytes of its memories. Grows only.
    pub fn memory(&self) -> usize {
        self.run.store.data().limiter.memory()
    }
}

/// A column of accumulators as `accumulate` wants it: not present where an accumulator is new.
pub fn accumulators(blobs: Blobs, present: Option<Vec<bool>>) -> Column {
    Column { present, values: Values::Bytes(blobs) }
}

fn accumulated(answer: Result<types::Blobs, types::Failure>, count: usize, rows: usize) -> Result<Accumulated, Fault> {
    match answer {
        Ok(blobs) => columns::checked_blobs(blobs, count).map(Accumulated::Done).map_err(Fault::answer),
        Err(types::Failure::Failed(reason)) => Err(failed(reason)),
        Err(types::Failure::BadRows(bad)) if bad.is_empty() => Err(Fault::answer("a failure that names no row")),
        Err(types::Failure::BadRows(bad)) => match bad.iter().find(|bad| bad.row as usize >= rows) {
            Some(bad) => Err(Fault::answer(format!("bad row {} of {rows}", bad.row))),
            None => Ok(Accumulated::BadRows(bad.into_iter().map(|bad| (bad.row, bad.reason)).collect())),
        },
    }
}

fn failed(reason: String) -> Fault {
    Fault::new(FaultKind::Failed, reason)
}
