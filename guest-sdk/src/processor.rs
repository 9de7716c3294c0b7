//! What an author implements: per-record logic on keyed state.
//! The host calls it a batch at a time; the SDK calls it a record at a time.

use crate::row::{Batch, Row};
use crate::state::Migrating;
use crate::{Bad, Fired, Input, Output, States, Timestamp};
use serde::de::DeserializeOwned;

/// Keyed or stateless process logic. The struct itself holds the handles of its states, timers, side outputs and
/// metrics (derive [`States`]); it is made anew in every instance, and an instance may be replaced between any two
/// calls, so everything that must be remembered belongs into state.
///
/// All that a call does becomes real when it succeeds, wholly or not at all.
pub trait Processor: States + Sized + 'static {
    /// The fields to take out of a record: see [`Input`](trait@Input). `()` for none.
    type Input: Input;
    /// The rows to send: a struct deriving [`Output`](trait@Output); [`Json`](crate::Json) or `Vec<u8>` for whole values; `()`
    /// where records only pass.
    type Output: Output;
    /// The job's `config:`, read with serde. `()` for none.
    type Config: DeserializeOwned + 'static;

    /// Hand in whole values too, for [`value`](crate::Origin::value). Fields are cheaper.
    const WHOLE_VALUES: bool = false;
    /// Hand in headers too, for [`headers`](crate::Origin::headers).
    const HEADERS: bool = false;

    /// JSON Schema of the configuration, which the host checks when the job is submitted. None: serde's errors at start.
    fn config_schema() -> Option<String> {
        None
    }

    /// Called once on every instance, before any record: check the configuration, build caches.
    ///
    /// # Errors
    /// The configuration cannot be used: the job fails with this reason.
    fn open(&mut self, config: &Self::Config, context: &Context) -> Result<(), Bad> {
        let _ = (config, context);
        Ok(())
    }

    /// One record.
    ///
    /// # Errors
    /// The record cannot be processed: it goes where the job's `on_error` says, and nothing that was done for it stays.
    fn on_record(
        &self,
        config: &Self::Config,
        at: &mut Row<'_, Self>,
        input: <Self::Input as Input>::Row<'_>,
    ) -> Result<(), Bad>;

    /// A timer is due. The row's time is what the timer was set for.
    ///
    /// # Errors
    /// The firing cannot be processed: it is dead-lettered and counts as fired.
    fn on_timer(&self, config: &Self::Config, at: &mut Row<'_, Self>, fired: Fired<'_>) -> Result<(), Bad> {
        let _ = (config, at, fired);
        Err(Bad::new("a timer is due, but the operator does not implement `on_timer`"))
    }

    /// A batch, for those who want its columns. Calls [`Processor::on_record`] for each row unless overridden.
    ///
    /// # Errors
    /// The whole batch cannot be processed: it is run again row by row. To refuse single rows, use [`Batch::refuse`].
    fn on_batch(&self, config: &Self::Config, batch: &mut Batch<'_, Self>) -> Result<(), Bad> {
        batch.each(|at, input| self.on_record(config, at, input));
        Ok(())
    }

    /// A state's value written by an older version of the operator (see `#[version(n)]`), to one of this version:
    /// `if old.is(&self.total) { return old.convert(|cents: i64| cents as f64 / 100.0); }`.
    ///
    /// # Errors
    /// The value cannot be migrated: the job fails.
    fn migrate(&self, old: &mut Migrating<'_>) -> Result<(), Bad> {
        Err(old.unsupported())
    }
}

/// Where an instance runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The operator's name in the job.
    pub operator: String,
    /// Which of the operator's tasks this is, from 0.
    pub task: u32,
    /// How many tasks the operator has.
    pub parallelism: u32,
}

/// When a call happens: the only clocks there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) watermark: Option<Timestamp>,
}
