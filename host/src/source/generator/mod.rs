//! Made-up records: rides, pickups, payments and a changelog of regions. Record n of a partition is a pure function of
//! seed, partition and n, so a position is n and a replay gives the same record. Columns are made directly, without
//! making or parsing text; JSON is made only where somebody wants whole values.

mod columns;
mod pace;
mod random;
mod record;
mod stream;

use super::{Share, Source, SourceFactory};
use crate::env::Clock;
use anyhow::{bail, ensure};
use dataflow::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What to make; the same settings give the same records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What records.
    pub kind: Kind,
    /// Seed of all chance.
    pub seed: u64,
    /// Records per second of processing time, over all partitions; none: as fast as they are taken.
    pub rate: Option<f64>,
    /// Records in all, over all partitions; none: without end.
    pub records: Option<u64>,
    /// Partitions, each with an order of its own; dealt out to the tasks.
    pub partitions: usize,
    /// Distinct keys: cities, or cards of payments.
    pub keys: u64,
    /// Exponent of the keys' Zipf distribution; 0: all equally likely.
    pub skew: f64,
    /// When the first record arrives, in event time.
    pub start: Timestamp,
    /// Event time from one arrival to the next over all partitions, ms; may be less than one.
    pub step_ms: f64,
    /// A record's event time lies before its arrival by 0 to this much, ms, all equally likely.
    pub out_of_order_ms: i64,
    /// Share of records that come later than that, 0 to 1.
    pub stragglers: f64,
    /// How much later they come, ms, at most and beyond `out_of_order_ms`.
    pub straggle_ms: i64,
    /// Share of records that are one of the last 100 again, 0 to 1: same id, same event time, a new arrival.
    pub duplicates: f64,
}

/// What records the generator makes. Times are ms since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `ride_id`, `city`, `requested_at` (event time), `arrived_at`, `fare`, `driver`.
    #[default]
    Rides,
    /// Pickups of the rides made by the same settings, five minutes after their arrival: `ride_id`, `picked_up_at` (event
    /// time), `driver`. One ride in twenty is never picked up.
    Pickups,
    /// `payment_id`, `card`, `city`, `amount`, `paid_at` (event time), `arrived_at`. A card pays mostly in one city.
    Payments,
    /// Which region a city belongs to from when on: `city`, `region`, `changed_at` (event time). First every city once;
    /// all changes of a city are in one partition.
    #[serde(alias = "changelog")]
    Regions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kind: Kind::Rides,
            seed: 1,
            rate: None,
            records: None,
            partitions: 1,
            keys: 20,
            skew: 1.0,
            start: 1_754_038_800_000, // 2025-08-01T09:00:00Z
            step_ms: 10.0,
            out_of_order_ms: 0,
            stragglers: 0.0,
            straggle_ms: 60_000,
            duplicates: 0.0,
        }
    }
}

/// Most distinct keys: their table of chances takes 8 bytes each.
pub const KEYS_MAX: u64 = 16 << 20;

/// Makes the shares of a generator.
pub struct Factory {
    settings: Settings,
    event_time: Option<String>,
    clock: Arc<dyn Clock>,
    keys: Arc<random::Zipf>,
}

impl Factory {
    /// For these settings; `clock` is what `rate` goes by.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        ensure!(settings.partitions > 0, "a generator needs at least 1 partition");
        ensure!(
            (1..=KEYS_MAX).contains(&settings.keys),
            "a generator makes 1 to {KEYS_MAX} keys, not {}",
            settings.keys
        );
        ensure!(settings.skew >= 0.0 && settings.skew.is_finite(), "`skew` is 0 or more, not {}", settings.skew);
        ensure!(settings.rate.is_none_or(|rate| rate > 0.0), "`rate` is more than 0 records per second");
        ensure!(settings.step_ms >= 0.0 && settings.step_ms.is_finite(), "event time does not go back by itself");
        ensure!(settings.out_of_order_ms >= 0 && settings.straggle_ms >= 0, "a delay is 0 or more");
        for (name, share) in [("stragglers", settings.stragglers), ("duplicates", settings.duplicates)] {
            ensure!((0.0..=1.0).contains(&share), "`{name}` is a share from 0 to 1, not {share}");
        }
        let keys = Arc::new(random::Zipf::new(record::keys_of_a_table(&settings), settings.skew));
        Ok(Self { settings, event_time: None, clock, keys })
    }

    /// Takes event time from another field than the kind's own, such as `/arrived_at`.
    ///
    /// # Errors
    /// The records have no such field, or it is no time.
    pub fn with_event_time(mut self, pointer: &str) -> anyhow::Result<Self> {
        let fields = record::fields(self.settings.kind);
        let times: Vec<&str> = fields.iter().filter(|field| field.part.is_time()).map(|field| field.pointer).collect();
        if !times.contains(&pointer) {
            bail!("the generator's records have no time field `{pointer}`, only `{}`", times.join("`, `"));
        }
        self.event_time = Some(pointer.to_string());
        Ok(self)
    }
}

impl SourceFactory for Factory {
    fn parallelism_max(&self) -> usize {
        self.settings.partitions
    }

    fn open(&self, share: Share<'_>) -> anyhow::Result<Box<dyn Source>> {
        let made = record::Maker::new(self.settings.clone(), self.keys.clone());
        let stamped_by_arrival = self.event_time.as_deref() == Some("/arrived_at");
        Ok(Box::new(stream::Generator::open(made, stamped_by_arrival, self.clock.clone(), share)?))
    }
}

#[cfg(test)]
mod tests;
