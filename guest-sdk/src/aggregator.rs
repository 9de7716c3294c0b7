//! What a window computes: accumulators that the host keeps, taken in a batch at a time.
//! All functions are pure; the host may keep partial accumulators and merge them in any order.

use crate::bindings::aggregation::Description;
use crate::bindings::types::{self, BadRow, Blobs, Column, Failure};
use crate::export::read_config;
use crate::input::{blob, end_of, no_blobs};
use crate::output::{ColumnBuilder, OutputValue};
use crate::processor::Moment;
use crate::row::{Facts, Origin};
use crate::state::{Stored, decode_bytes, encode_bytes};
use crate::{Bad, Context, Fields, Input, Key, Timestamp};
use serde::de::DeserializeOwned;

/// What a window computes over its records: `mean`, `trimmed mean`, `basket`. An operator uses it by `aggregate:` in the job.
///
/// ```
/// use millstream_sdk::prelude::*;
///
/// #[derive(Input)]
/// struct Fare { #[at("/fare")] fare: f64 }
///
/// #[derive(Default)]
/// struct Spread;
///
/// impl Aggregator for Spread {
///     type Input = Fare;
///     type Accumulator = Option<(f64, f64)>; // smallest and largest so far
///     type Result = f64;
///     type Config = ();
///
///     fn accumulate(&self, _: &(), range: &mut Self::Accumulator, _: Origin, ride: Fare) -> Result<(), Bad> {
///         let (low, high) = range.unwrap_or((ride.fare, ride.fare));
///         *range = Some((low.min(ride.fare), high.max(ride.fare)));
///         Ok(())
///     }
///
///     fn merge(&self, _: &(), range: &mut Self::Accumulator, other: Self::Accumulator) {
///         *range = match (*range, other) {
///             (Some((low, high)), Some((other_low, other_high))) => Some((low.min(other_low), high.max(other_high))),
///             (one, other) => one.or(other),
///         };
///     }
///
///     fn finish(&self, _: &(), _: Window, range: Self::Accumulator) -> Result<f64, Bad> {
///         let (low, high) = range.unwrap_or_default();
///         Ok(high - low)
///     }
/// }
///
/// millstream_sdk::export_aggregator!(Spread);
/// ```
pub trait Aggregator: Default + 'static {
    /// The fields to take out of a record.
    type Input: Input;
    /// What is kept for a window. Its default is that of no record.
    type Accumulator: Accumulator;
    /// The pane's column: text, bytes, an integer, a float or a boolean, or an `Option` of one.
    type Result: OutputValue;
    /// The aggregate's configuration, read with serde. `()` for none.
    type Config: DeserializeOwned + 'static;

    /// Raised when the meaning of stored accumulators changes: see [`Aggregator::migrate`].
    const ACCUMULATOR_VERSION: u32 = 1;
    /// Whether [`Aggregator::retract`] works. If not, a record that takes one back goes to the dead letters.
    const RETRACTS: bool = false;
    /// Hand in whole values too, for [`Origin::value`].
    const WHOLE_VALUES: bool = false;

    /// JSON Schema of the configuration.
    fn config_schema() -> Option<String> {
        None
    }

    /// Called once on every instance, before anything else.
    ///
    /// # Errors
    /// The configuration cannot be used: the job fails with this reason.
    fn open(&mut self, config: &Self::Config, context: &Context) -> Result<(), Bad> {
        let _ = (config, context);
        Ok(())
    }

    /// Takes a record in.
    ///
    /// # Errors
    /// The record cannot be processed: it goes where the job's `on_error` says.
    fn accumulate(
        &self,
        config: &Self::Config,
        accumulator: &mut Self::Accumulator,
        at: Origin<'_>,
        input: <Self::Input as Input>::Row<'_>,
    ) -> Result<(), Bad>;

    /// Takes a record out again that was taken in before.
    ///
    /// # Errors
    /// As [`Aggregator::accumulate`].
    fn retract(
        &self,
        config: &Self::Config,
        accumulator: &mut Self::Accumulator,
        at: Origin<'_>,
        input: <Self::Input as Input>::Row<'_>,
    ) -> Result<(), Bad> {
        let _ = (config, accumulator, at, input);
        Err(Bad::new("a record is taken back, but the aggregator does not implement `retract`"))
    }

    /// Takes in all that `other` has taken in. Must not depend on the order.
    fn merge(&self, config: &Self::Config, accumulator: &mut Self::Accumulator, other: Self::Accumulator);

    /// The window's result.
    ///
    /// # Errors
    /// There is no result: the firing is dead-lettered.
    fn finish(
        &self,
        config: &Self::Config,
        window: Window<'_>,
        accumulator: Self::Accumulator,
    ) -> Result<Self::Result, Bad>;

    /// An accumulator stored by an older version.
    ///
    /// # Errors
    /// It cannot be migrated: the job fails.
    fn migrate(&self, from_version: u32, old: &[u8]) -> Result<Self::Accumulator, Bad> {
        let _ = old;
        Err(Bad::new(format!(
            "the aggregator does not know accumulators of version {from_version}: implement `migrate`"
        )))
    }
}

/// A window that fires.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The key of its records.
    pub key: Key<'a>,
    /// First timestamp inside.
    pub start: Timestamp,
    /// First timestamp behind.
    pub end: Timestamp,
}

/// What an aggregator can keep: anything that serde writes. `Vec<u8>` and `String` are kept as they are, the rest as JSON.
pub trait Accumulator: Stored + Default {}

impl<T: Stored + Default> Accumulator for T {}

/// An opened aggregator.
#[doc(hidden)]
pub struct Instance<A: Aggregator> {
    aggregator: A,
    config: A::Config,
}

/// What an aggregator tells the host of itself.
#[doc(hidden)]
pub fn describe<A: Aggregator>() -> Description {
    let mut fields = Vec::new();
    A::Input::declare(&mut fields, None);
    Description {
        fields,
        whole_values: A::WHOLE_VALUES,
        accumulator_version: A::ACCUMULATOR_VERSION,
        retracts: A::RETRACTS,
        result_type: A::Result::TYPE,
        config_schema: A::config_schema(),
    }
}

#[doc(hidden)]
impl<A: Aggregator> Instance<A> {
    /// The host's `open`.
    pub fn open(context: types::Context) -> Result<Self, String> {
        crate::log::open();
        let types::Context { config, operator, task, parallelism } = context;
        let config = read_config::<A::Config>(&config)?;
        let mut aggregator = A::default();
        aggregator.open(&config, &Context { operator, task, parallelism }).map_err(Bad::into_reason)?;
        Ok(Self { aggregator, config })
    }

    /// The host's `accumulate`.
    pub fn accumulate(&self, batch: types::Batch, accumulators: &Column, acc_of: &[u32]) -> Result<Blobs, Failure> {
        take_in::<A>(batch, accumulators, acc_of, |accumulator, at, input| {
            self.aggregator.accumulate(&self.config, accumulator, at, input)
        })
    }

    /// The host's `retract`.
    pub fn retract(&self, batch: types::Batch, accumulators: &Column, acc_of: &[u32]) -> Result<Blobs, Failure> {
        take_in::<A>(batch, accumulators, acc_of, |accumulator, at, input| {
            self.aggregator.retract(&self.config, accumulator, at, input)
        })
    }

    /// The host's `merge`.
    pub fn merge(&self, left: &Blobs, right: &Blobs) -> Result<Blobs, String> {
        if left.ends.len() != right.ends.len() {
            return Err("accumulators are merged in pairs: both sides have the same number".to_owned());
        }
        let merged = (0..left.ends.len()).map(|index| {
            let mut accumulator = decode_bytes(blob(left, index))?;
            self.aggregator.merge(&self.config, &mut accumulator, decode_bytes(blob(right, index))?);
            Ok(accumulator)
        });
        encode::<A::Accumulator>(merged).map_err(Bad::into_reason)
    }

    /// The host's `finish`.
    pub fn finish(
        &self,
        keys: &Blobs,
        starts: &[Timestamp],
        ends: &[Timestamp],
        accumulators: &Blobs,
    ) -> Result<Column, String> {
        let mut column = <A::Result as OutputValue>::Column::default();
        for (index, (start, end)) in starts.iter().zip(ends).enumerate() {
            let window = Window { key: Key::of(blob(keys, index)), start: *start, end: *end };
            let result = decode_bytes(blob(accumulators, index))
                .and_then(|accumulator| self.aggregator.finish(&self.config, window, accumulator));
            result.map_err(Bad::into_reason)?.append(&mut column);
        }
        Ok(column.finish())
    }

    /// The host's `migrate`.
    pub fn migrate(&self, from_version: u32, old: &Blobs) -> Result<Blobs, String> {
        let migrated = (0..old.ends.len()).map(|index| self.aggregator.migrate(from_version, blob(old, index)));
        encode::<A::Accumulator>(migrated).map_err(Bad::into_reason)
    }
}

/// Runs each row against its accumulator, and answers all of them.
fn take_in<A: Aggregator>(
    batch: types::Batch,
    accumulators: &Column,
    acc_of: &[u32],
    mut take: impl FnMut(&mut A::Accumulator, Origin<'_>, <A::Input as Input>::Row<'_>) -> Result<(), Bad>,
) -> Result<Blobs, Failure> {
    let failed = |bad: Bad| Failure::Failed(bad.into_reason());
    let mut decoded = decode::<A::Accumulator>(accumulators).map_err(failed)?;
    let types::Batch { now, watermark, input, keys, key_of, timestamps, changes, values, fields, headers, .. } = batch;
    let facts = Facts { moment: Moment { now, watermark }, keys, key_of, timestamps, changes, values, headers };
    let fields = Fields::of(input, &fields);
    let mut refused = Vec::new();
    for (number, accumulator) in acc_of.iter().enumerate() {
        let done = A::Input::read(&fields, number)
            .and_then(|input| take(&mut decoded[*accumulator as usize], Origin::new(&facts, number), input));
        if let Err(bad) = done {
            refused.push(BadRow { row: number as u32, reason: bad.into_reason() });
        }
    }
    if !refused.is_empty() {
        return Err(Failure::BadRows(refused));
    }
    encode(decoded.into_iter().map(Ok)).map_err(failed)
}

fn decode<T: Accumulator>(column: &Column) -> Result<Vec<T>, Bad> {
    let types::Values::Bytes(blobs) = &column.values else {
        return Err(Bad::new("accumulators come as a column of bytes"));
    };
    let present = |index: usize| column.present.as_ref().is_none_or(|present| present[index]);
    let accumulator = |index| if present(index) { decode_bytes(blob(blobs, index)) } else { Ok(T::default()) };
    (0..blobs.ends.len()).map(accumulator).collect()
}

fn encode<T: Accumulator>(accumulators: impl Iterator<Item = Result<T, Bad>>) -> Result<Blobs, Bad> {
    let mut blobs = no_blobs();
    for accumulator in accumulators {
        encode_bytes(&accumulator?, &mut blobs.bytes)?;
        blobs.ends.push(end_of(&blobs.bytes));
    }
    Ok(blobs)
}
