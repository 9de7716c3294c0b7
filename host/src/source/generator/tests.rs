//! What the generator promises: the same records always, the asked-for disorder, columns that agree with the JSON.

use super::*;
use crate::env::ManualClock;
use crate::source::{Limit, Partition, Polled, Projection};
use dataflow::record::{Field, Schema, Value, ValueType};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LIMIT: Limit = Limit { records: 1000, bytes: 1 << 20 };

fn whole() -> Projection {
    Projection { schema: Schema::default(), whole_values: true }
}

fn open(settings: &Settings, projection: &Projection, positions: &[Partition]) -> Box<dyn Source> {
    let factory = Factory::new(settings.clone(), Arc::new(ManualClock::at(0))).unwrap();
    factory.open(Share { task: 0, parallelism: 1, positions, projection }).unwrap()
}

/// All records as (partition, JSON, timestamp, arrival), `limit` at a time, opened again from its positions at each poll
/// if `reopen`.
fn all(settings: &Settings, limit: usize, reopen: bool) -> Vec<(String, Json, i64, i64)> {
    let mut source = open(settings, &whole(), &[]);
    let mut made = vec![];
    loop {
        match source.poll(Limit { records: limit, ..LIMIT }).unwrap() {
            Polled::Records(records) => {
                for row in 0..records.batch.len() {
                    let value = records.batch.raw.as_ref().unwrap().get(row).unwrap();
                    let json = serde_json::from_slice(value).unwrap();
                    let (time, arrival) = (records.batch.timestamps[row], records.arrivals[row]);
                    made.push((records.partition.to_string(), json, time, arrival));
                }
            }
            Polled::Finished => return made,
            Polled::Partitions => {}
            Polled::Nothing(_) => panic!("there is no rate to wait for"),
        }
        if reopen {
            source = open(settings, &whole(), &source.partitions());
        }
    }
}

fn by_partition(records: Vec<(String, Json, i64, i64)>) -> BTreeMap<String, Vec<(Json, i64, i64)>> {
    let mut parted: BTreeMap<String, Vec<(Json, i64, i64)>> = BTreeMap::new();
    for (partition, json, time, arrival) in records {
        parted.entry(partition).or_default().push((json, time, arrival));
    }
    parted
}

fn rides(records: u64) -> Settings {
    Settings { records: Some(records), ..Settings::default() }
}

#[test]
fn records_depend_on_nothing_but_settings_and_position() {
    for kind in [Kind::Rides, Kind::Pickups, Kind::Payments, Kind::Regions] {
        let settings =
            Settings { kind, partitions: 3, out_of_order_ms: 500, stragglers: 0.05, duplicates: 0.05, ..rides(100) };
        let straight = by_partition(all(&settings, 1000, false));
        assert_eq!(straight.values().map(Vec::len).collect::<Vec<_>>(), [34, 33, 33]);
        assert_eq!(by_partition(all(&settings, 7, true)), straight, "{kind:?}");
        let other = Settings { seed: 2, ..settings.clone() };
        assert_ne!(by_partition(all(&other, 1000, false)), straight, "{kind:?} with another seed");
    }
}

#[test]
fn generator_keeps_the_contract_of_sources() {
    let settings = Settings { partitions: 2, duplicates: 0.1, out_of_order_ms: 50, ..rides(60) };
    let factory = || Factory::new(settings.clone(), Arc::new(ManualClock::at(0))).unwrap();
    crate::source::contract::check_source(&|| Box::new(factory()));
}

/// A position in a stored checkpoint stands for these records: a change here breaks replays of old ones.
#[test]
fn first_rides_stay_what_they_are() {
    let made = all(&Settings { skew: 0.0, ..rides(2) }, 2, false);
    assert_eq!(made[0].2, 1_754_038_800_000);
    let first: Vec<&Json> = made.iter().map(|record| &record.1).collect();
    assert_eq!(
        json!(first),
        json!([
            {"ride_id": "r0", "city": "Lucknow", "requested_at": 1_754_038_800_000_i64,
             "arrived_at": 1_754_038_800_000_i64, "fare": 36.71, "driver": "d8965"},
            {"ride_id": "r1", "city": "Bhopal", "requested_at": 1_754_038_800_010_i64,
             "arrived_at": 1_754_038_800_010_i64, "fare": 45.5, "driver": "d1405"}
        ])
    );
}

#[test]
fn columns_agree_with_the_json_of_the_same_records() {
    let field = |pointer: &str, value_type| Field::new(pointer, value_type);
    let schema = Schema {
        fields: vec![
            field("/card", ValueType::Scalar),
            field("/card", ValueType::Text),
            field("/amount", ValueType::Float),
            field("/paid_at", ValueType::Int),
            field("/arrived_at", ValueType::Scalar),
            field("", ValueType::Text),
            field("/nowhere", ValueType::Int),
            field("/city", ValueType::Int),
        ],
    };
    let settings = Settings { kind: Kind::Payments, keys: 1000, ..rides(200) };
    let mut source = open(&settings, &Projection { schema, whole_values: true }, &[]);
    let Polled::Records(records) = source.poll(LIMIT).unwrap() else { panic!("records") };
    let batch = records.batch;
    assert_eq!((batch.len(), batch.faults.len()), (200, 200));
    assert_eq!((batch.faults[3].row, batch.faults[3].column, batch.faults[3].found), (3, 7, "text"));
    for row in 0..batch.len() {
        let text = std::str::from_utf8(batch.raw.as_ref().unwrap().get(row).unwrap()).unwrap();
        let json: Json = serde_json::from_str(text).unwrap();
        let card = Value::Text(json["card"].as_str().unwrap());
        let expected = [
            card,
            card,
            Value::Float(json["amount"].as_f64().unwrap()),
            Value::Int(json["paid_at"].as_i64().unwrap()),
            Value::Int(json["arrived_at"].as_i64().unwrap()),
            Value::Text(text),
            Value::Absent,
            Value::Absent,
        ];
        assert_eq!(batch.columns.iter().map(|column| column.get(row)).collect::<Vec<_>>(), expected);
        assert_eq!(batch.timestamps[row], json["paid_at"].as_i64().unwrap());
    }
}

#[test]
fn disorder_stays_within_its_bound_and_stragglers_beyond() {
    let settings = Settings { out_of_order_ms: 400, stragglers: 0.1, straggle_ms: 5_000, ..rides(10_000) };
    let made = all(&settings, 1000, false);
    assert!(made.windows(2).all(|pair| pair[0].3 <= pair[1].3), "arrivals never go back");
    let delays: Vec<i64> = made.iter().map(|record| record.3 - record.2).collect();
    assert!(delays.iter().all(|delay| (0..=5_400).contains(delay)));
    let late = delays.iter().filter(|&&delay| delay > 400).count();
    assert!((900..1100).contains(&late), "{late} of 10,000 at a share of 0.1");
    assert_eq!(made[9_999].3 - made[0].3, 99_990, "10 ms of event time between arrivals");
}

#[test]
fn duplicates_are_rides_that_came_before_with_the_same_times() {
    let made = all(&Settings { duplicates: 0.1, ..rides(10_000) }, 1000, false);
    let mut seen: BTreeMap<String, Json> = BTreeMap::new();
    let mut again = 0;
    for (_, mut ride, _, arrival) in made {
        assert_eq!(ride["arrived_at"].take(), json!(arrival));
        let id = ride["ride_id"].as_str().unwrap().to_string();
        if let Some(first) = seen.insert(id, ride.clone()) {
            assert_eq!(first, ride);
            again += 1;
        }
    }
    assert!((800..1050).contains(&again), "{again} of 10,000 at a share of 0.1");
}

#[test]
fn keys_follow_the_skew() {
    let cities = |skew| {
        let mut counts = BTreeMap::new();
        for (_, ride, _, _) in all(&Settings { keys: 3, skew, ..rides(11_000) }, 1000, false) {
            *counts.entry(ride["city"].as_str().unwrap().to_string()).or_insert(0) += 1;
        }
        ["Mumbai", "Delhi", "Bengaluru"].map(|city| counts[city])
    };
    let near = |counts: [i32; 3], expected: [i32; 3]| {
        let close = counts.iter().zip(expected).all(|(count, expected)| (count - expected).abs() < 250);
        assert!(close, "{counts:?}, not about {expected:?}");
    };
    near(cities(1.0), [6_000, 3_000, 2_000]); // 1 : 1/2 : 1/3
    near(cities(0.0), [3_667, 3_667, 3_667]);
}

#[test]
fn pickups_are_of_rides_with_the_same_driver_five_minutes_later() {
    let partitions = Settings { partitions: 2, ..rides(80) };
    let rides: BTreeMap<String, (Json, i64)> = all(&partitions, 100, false)
        .into_iter()
        .map(|(_, ride, _, arrival)| (ride["ride_id"].as_str().unwrap().to_string(), (ride, arrival)))
        .collect();
    let pickups = all(&Settings { kind: Kind::Pickups, records: Some(76), ..partitions }, 100, false);
    let mut picked_up = BTreeSet::new();
    for (_, pickup, time, _) in pickups {
        let (ride, arrival) = &rides[pickup["ride_id"].as_str().unwrap()];
        assert_eq!((&pickup["driver"], time - arrival), (&ride["driver"], 300_000));
        picked_up.insert(pickup["ride_id"].to_string());
    }
    assert_eq!(picked_up.len(), 76, "80 rides, one in twenty is never picked up");
}

#[test]
fn changelog_tells_every_city_first_and_keeps_a_city_in_one_partition() {
    let settings = Settings { kind: Kind::Regions, partitions: 3, keys: 10, ..rides(300) };
    let mut home: BTreeMap<String, String> = BTreeMap::new();
    for (partition, records) in by_partition(all(&settings, 1000, false)) {
        let first: BTreeSet<String> = records[..4].iter().map(|record| record.0["city"].to_string()).collect();
        for (change, _, _) in records {
            assert!(first.contains(&change["city"].to_string()));
            assert_eq!(home.entry(change["city"].to_string()).or_insert(partition.clone()), &partition);
        }
    }
    assert_eq!(home.len(), 10);
}

#[test]
fn rate_goes_by_the_clock_and_makes_up_for_one_second_at_most() {
    let clock = Arc::new(ManualClock::at(5_000));
    let settings = Settings { rate: Some(100.0), ..Settings::default() };
    let factory = Factory::new(settings, clock.clone()).unwrap();
    let mut source =
        factory.open(Share { task: 0, parallelism: 1, positions: &[], projection: &Projection::default() }).unwrap();
    let mut polled = || match source.poll(LIMIT).unwrap() {
        Polled::Records(records) => Ok(records.batch.len()),
        Polled::Nothing(wait) => Err(wait),
        other => panic!("{other:?}"),
    };
    assert_eq!(polled(), Err(Duration::from_millis(10)));
    clock.advance(250);
    assert_eq!(polled(), Ok(25));
    assert_eq!(polled(), Err(Duration::from_millis(10)));
    clock.advance(60_000);
    assert_eq!(polled(), Ok(100));
    assert!(polled().is_err());
}

#[test]
fn partitions_are_dealt_to_tasks_and_their_end_is_told() {
    let factory = Factory::new(Settings { partitions: 3, ..rides(3) }, Arc::new(ManualClock::at(0))).unwrap();
    let (positions, projection) = (&[][..], &whole());
    let mut source = factory.open(Share { task: 1, parallelism: 2, positions, projection }).unwrap();
    assert_eq!(source.partitions().iter().map(|partition| &*partition.name).collect::<Vec<_>>(), ["1"]);
    assert!(matches!(source.poll(LIMIT).unwrap(), Polled::Records(_)));
    assert!(source.partitions()[0].finished);
    assert!(matches!(source.poll(LIMIT).unwrap(), Polled::Partitions));
    assert!(matches!(source.poll(LIMIT).unwrap(), Polled::Finished));
    let one = [Partition { name: "0".into(), next: json!(1), finished: false }];
    assert!(factory.open(Share { task: 0, parallelism: 1, positions: &one, projection }).is_err());
}

#[test]
fn event_time_can_be_the_arrival() {
    let settings = Settings { out_of_order_ms: 1000, ..rides(50) };
    let factory = || Factory::new(settings.clone(), Arc::new(ManualClock::at(0))).unwrap();
    assert!(factory().with_event_time("/fare").is_err());
    let factory = factory().with_event_time("/arrived_at").unwrap();
    let mut source =
        factory.open(Share { task: 0, parallelism: 1, positions: &[], projection: &Projection::default() }).unwrap();
    let Polled::Records(records) = source.poll(LIMIT).unwrap() else { panic!("records") };
    assert_eq!(records.batch.timestamps, records.arrivals);
}
