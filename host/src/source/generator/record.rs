//! What record n of a partition is: its id, its times, and the value of each of its fields.

use super::random::{Draws, Zipf, threshold};
use super::{Kind, Settings};
use dataflow::time::Timestamp;
use std::sync::Arc;

/// A field of a kind of record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) pointer: &'static str,
    pub(super) part: Part,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// `r` and a number: a ride.
    RideId,
    /// `p` and a number: a payment.
    PaymentId,
    /// `c` and a number: a card, a key.
    Card,
    /// A city that is a key.
    City,
    /// The city a card pays in.
    PlaceOfPayment,
    /// `d` and a number: a ride's driver.
    Driver,
    /// A region.
    Region,
    /// A fare, 3.00 to 49.99.
    Fare,
    /// An amount, mostly small, one in a hundred from 1,000 to 9,999.99.
    Amount,
    /// Event time.
    EventTime,
    /// Arrival time.
    Arrival,
}

impl Part {
    pub(super) fn is_time(self) -> bool {
        matches!(self, Self::EventTime | Self::Arrival)
    }
}

/// The fields of a kind, in the order of its JSON.
pub(super) fn fields(kind: Kind) -> &'static [Field] {
    const fn field(pointer: &'static str, part: Part) -> Field {
        Field { pointer, part }
    }
    const RIDES: &[Field] = &[
        field("/ride_id", Part::RideId),
        field("/city", Part::City),
        field("/requested_at", Part::EventTime),
        field("/arrived_at", Part::Arrival),
        field("/fare", Part::Fare),
        field("/driver", Part::Driver),
    ];
    const PICKUPS: &[Field] =
        &[field("/ride_id", Part::RideId), field("/picked_up_at", Part::EventTime), field("/driver", Part::Driver)];
    const PAYMENTS: &[Field] = &[
        field("/payment_id", Part::PaymentId),
        field("/card", Part::Card),
        field("/city", Part::PlaceOfPayment),
        field("/amount", Part::Amount),
        field("/paid_at", Part::EventTime),
        field("/arrived_at", Part::Arrival),
    ];
    const REGIONS: &[Field] =
        &[field("/city", Part::City), field("/region", Part::Region), field("/changed_at", Part::EventTime)];
    match kind {
        Kind::Rides => RIDES,
        Kind::Pickups => PICKUPS,
        Kind::Payments => PAYMENTS,
        Kind::Regions => REGIONS,
    }
}

#[rustfmt::skip] // forty lines would say no more
const CITIES: [&str; 40] = [
    "Mumbai", "Delhi", "Bengaluru", "Hyderabad", "Ahmedabad", "Chennai", "Kolkata", "Surat", "Pune", "Jaipur",
    "Lucknow", "Kanpur", "Nagpur", "Indore", "Thane", "Bhopal", "Patna", "Vadodara", "Ghaziabad", "Ludhiana",
    "Agra", "Nashik", "Faridabad", "Meerut", "Rajkot", "Varanasi", "Srinagar", "Amritsar", "Ranchi", "Howrah",
    "Coimbatore", "Vijayawada", "Jodhpur", "Madurai", "Raipur", "Kota", "Guwahati", "Solapur", "Mysuru", "Salem",
];

const REGIONS: [&str; 5] = ["north", "east", "south", "west", "central"];

const DRIVERS: u64 = 10_000;

/// Pickups arrive so long after their rides.
const PICKUP_AFTER_MS: i64 = 5 * 60_000;

/// What the draws of a record are for.
mod purpose {
    pub(super) const DUPLICATE: u64 = 0;
    pub(super) const DUPLICATE_OF: u64 = 1;
    pub(super) const STRAGGLER: u64 = 2;
    pub(super) const DELAY: u64 = 3;
    pub(super) const KEY: u64 = 4;
    pub(super) const DRIVER: u64 = 5;
    pub(super) const MONEY: u64 = 6;
    pub(super) const AWAY: u64 = 7;
    pub(super) const REGION: u64 = 8;
}

/// How far back a duplicate goes.
const DUPLICATE_BACK_MAX: u64 = 100;

/// One record, enough to make any of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Number over all partitions of what it tells of; a duplicate has its original's.
    id: u64,
    /// Number of that within its partition.
    item: u64,
    draws: Draws,
    pub(super) arrival: Timestamp,
    pub(super) event_time: Timestamp,
}

/// Makes records.
#[derive(Debug, Clone)]
pub(super) struct Maker {
    pub(super) settings: Settings,
    keys: Arc<Zipf>,
    duplicate_below: u64,
    straggler_below: u64,
}

/// Keys among which one draw chooses: of a changelog those of one partition.
pub(super) fn keys_of_a_table(settings: &Settings) -> u64 {
    match settings.kind {
        Kind::Regions => settings.keys.div_ceil(settings.partitions as u64),
        _ => settings.keys,
    }
}

impl Maker {
    pub(super) fn new(settings: Settings, keys: Arc<Zipf>) -> Self {
        let (duplicate_below, straggler_below) = (threshold(settings.duplicates), threshold(settings.stragglers));
        Self { settings, keys, duplicate_below, straggler_below }
    }

    /// How many records a partition has in all.
    pub(super) fn count(&self, partition: u64) -> u64 {
        let partitions = self.settings.partitions as u64;
        self.settings.records.map_or(u64::MAX, |all| all / partitions + u64::from(partition < all % partitions))
    }

    /// The draws of a partition. Pickups share those of their rides.
    pub(super) fn stream(&self, partition: u64) -> Draws {
        let kind = match self.settings.kind {
            Kind::Rides | Kind::Pickups => 0,
            Kind::Payments => 1,
            Kind::Regions => 2,
        };
        Draws::of_stream(self.settings.seed ^ (kind << 56), partition)
    }

    /// Record `n` of a partition.
    #[inline]
    pub(super) fn record(&self, stream: Draws, partition: u64, n: u64) -> Record {
        let own = stream.of_item(n);
        let mut item = n;
        if n > 0 && own.bits(purpose::DUPLICATE) < self.duplicate_below {
            item = n - 1 - own.below(purpose::DUPLICATE_OF, n.min(DUPLICATE_BACK_MAX));
        }
        let arrival = self.arrival(partition, n);
        let first_arrival = if item == n { arrival } else { self.arrival(partition, item) };
        let of_item = if item == n { own } else { stream.of_item(item) };
        let event_time = first_arrival - self.delay(of_item);
        // Why: the item's number over all partitions is the ride's, so that pickups find their rides.
        let told_of = if self.settings.kind == Kind::Pickups { ride_of_pickup(item) } else { item };
        let draws = if told_of == item { of_item } else { stream.of_item(told_of) };
        Record { id: self.number(partition, told_of), item, draws, arrival, event_time }
    }

    #[inline]
    fn number(&self, partition: u64, item: u64) -> u64 {
        item.wrapping_mul(self.settings.partitions as u64).wrapping_add(partition)
    }

    #[inline]
    fn arrival(&self, partition: u64, n: u64) -> Timestamp {
        let (n, after) = match self.settings.kind {
            Kind::Pickups => (ride_of_pickup(n), PICKUP_AFTER_MS),
            _ => (n, 0),
        };
        let passed = self.number(partition, n) as f64 * self.settings.step_ms;
        self.settings.start.saturating_add(passed as i64).saturating_add(after)
    }

    #[inline]
    fn delay(&self, draws: Draws) -> i64 {
        let Settings { out_of_order_ms, straggle_ms, .. } = self.settings;
        if self.straggler_below > 0 && draws.bits(purpose::STRAGGLER) < self.straggler_below {
            return out_of_order_ms + (draws.bits(purpose::DELAY) % (straggle_ms.max(1) as u64)) as i64 + 1;
        }
        if out_of_order_ms == 0 { 0 } else { (draws.bits(purpose::DELAY) % (out_of_order_ms as u64 + 1)) as i64 }
    }

    #[inline]
    fn key(&self, partition: u64, record: &Record) -> u64 {
        if self.settings.kind != Kind::Regions {
            return self.keys.draw(record.draws.bits(purpose::KEY));
        }
        let all = keys_of_a_table(&self.settings);
        let local = if record.item < all { record.item } else { self.keys.draw(record.draws.bits(purpose::KEY)) };
        let key = local * self.settings.partitions as u64 + partition;
        if key < self.settings.keys { key } else { partition % self.settings.keys }
    }

    /// Appends a field that is text. Never longer than 127 bytes, never in need of escapes.
    #[inline]
    pub(super) fn push_text(&self, part: Part, partition: u64, record: &Record, out: &mut Vec<u8>) {
        let draws = record.draws;
        match part {
            Part::City => push_city(self.key(partition, record), out),
            Part::RideId => push_numbered(b'r', record.id, out),
            Part::PaymentId => push_numbered(b'p', record.id, out),
            Part::Card => push_numbered(b'c', self.key(partition, record), out),
            Part::Driver => push_numbered(b'd', draws.below(purpose::DRIVER, DRIVERS), out),
            Part::PlaceOfPayment => {
                let home = Draws::of_stream(0, self.key(partition, record)).below(0, CITIES.len() as u64);
                let away = draws.below(purpose::AWAY, 10 * CITIES.len() as u64);
                push_city(if away < CITIES.len() as u64 { away } else { home }, out);
            }
            Part::Region => {
                let first = record.item < keys_of_a_table(&self.settings);
                let among = REGIONS.len() as u64;
                let region =
                    if first { self.key(partition, record) % among } else { draws.below(purpose::REGION, among) };
                out.extend_from_slice(REGIONS[region as usize].as_bytes());
            }
            Part::Fare | Part::Amount | Part::EventTime | Part::Arrival => {}
        }
    }

    /// The value of a field that is a float, in whole cents.
    #[inline]
    pub(super) fn float(&self, part: Part, record: &Record) -> f64 {
        let cents = match part {
            Part::Fare => 300 + record.draws.below(purpose::MONEY, 4_700),
            _ => {
                let bits = record.draws.bits(purpose::MONEY);
                match bits % 100 {
                    0 => 100_000 + (bits >> 32) % 900_000,
                    1..10 => 10_000 + (bits >> 32) % 90_000,
                    _ => 100 + (bits >> 32) % 9_900,
                }
            }
        };
        cents as f64 / 100.0
    }
}

/// Rides 19, 39, 59, … are never picked up.
#[inline]
fn ride_of_pickup(n: u64) -> u64 {
    n + n / 19
}

#[inline]
fn push_numbered(letter: u8, number: u64, out: &mut Vec<u8>) {
    out.push(letter);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Beyond the cities that have a name of their own, names come again with a number.
#[inline]
fn push_city(key: u64, out: &mut Vec<u8>) {
    let named = CITIES.len() as u64;
    out.extend_from_slice(CITIES[(key % named) as usize].as_bytes());
    if key >= named {
        out.push(b'-');
        out.extend_from_slice(itoa::Buffer::new().format(key / named + 1).as_bytes());
    }
}
