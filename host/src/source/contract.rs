//! What every bounded source must do, as one test that each of them passes: nothing is lost, repeated or changed, however it
//! is polled, shared or opened again.

use super::{Limit, Partition, Polled, Projection, Share, Source, SourceFactory};
use dataflow::record::{Field, Schema, ValueType};
use std::collections::BTreeMap;

/// What one record became, in an order that does not depend on polls: partition, place, and all there is to say of it.
type Seen = (String, u64, String);

/// `make` gives a factory as a new process would have it, over the same records; it ends by itself. At most about 200
/// records, since it is opened again behind every one of them. Columns asked for: `/city` and the whole value.
pub(crate) fn check_source(make: &dyn Fn() -> Box<dyn SourceFactory>) {
    let all = read_shares(&*make(), 1, 1000);
    assert!(!all.is_empty(), "there is something to read");
    let parallelism_max = make().parallelism_max();
    for (parallelism, records) in [(1, 1), (1, 3), (2, 2), (3, 1000)] {
        if parallelism <= parallelism_max {
            let shared = read_shares(&*make(), parallelism, records);
            assert_eq!(shared, all, "{parallelism} tasks with {records} records a poll read the same");
        }
    }
    for records in [1, 3] {
        for stop in 0..=all.len() {
            let mut source = open(&*make(), 0, 1, &[]);
            let mut seen = read(&mut *source, records, stop);
            let positions: Vec<Partition> = source.partitions().iter().map(stored).collect();
            seen.extend(read(&mut *open(&*make(), 0, 1, &positions), records, usize::MAX));
            seen.sort();
            assert_eq!(seen, all, "opened again behind {stop} records, {records} a poll, the rest follows");
        }
    }
    // A checkpoint of one task is the start of several.
    let mut source = open(&*make(), 0, 1, &[]);
    let mut seen = read(&mut *source, 1, all.len() / 2);
    let positions = source.partitions();
    for task in 0..2.min(parallelism_max) {
        seen.extend(read(&mut *open(&*make(), task, 2.min(parallelism_max), &positions), 1000, usize::MAX));
    }
    seen.sort();
    assert_eq!(seen, all, "opened again by two tasks, the rest follows");
}

/// A position as it comes back from a manifest.
fn stored(partition: &Partition) -> Partition {
    let text = partition.next.to_string();
    Partition { next: serde_json::from_str(&text).expect("a position is JSON"), ..partition.clone() }
}

fn open(factory: &dyn SourceFactory, task: usize, parallelism: usize, positions: &[Partition]) -> Box<dyn Source> {
    let field = |pointer: &str, value_type| Field::new(pointer, value_type);
    let schema = Schema { fields: vec![field("/city", ValueType::Scalar), field("", ValueType::Text)] };
    let projection = Projection { schema, whole_values: true };
    factory.open(Share { task, parallelism, positions, projection: &projection }).expect("the source opens")
}

fn read_shares(factory: &dyn SourceFactory, parallelism: usize, records: usize) -> Vec<Seen> {
    let mut names = BTreeMap::new();
    let mut seen = vec![];
    for task in 0..parallelism {
        let mut source = open(factory, task, parallelism, &[]);
        seen.extend(read(&mut *source, records, usize::MAX));
        for partition in source.partitions() {
            assert!(partition.finished, "`{}` is finished at the end", partition.name);
            let other = names.insert(partition.name.clone(), task);
            assert_eq!(other, None, "`{}` belongs to one task", partition.name);
        }
    }
    assert!(seen.iter().all(|(name, ..)| names.contains_key(&**name)), "every partition is named");
    seen.sort();
    seen
}

/// Reads until `stop` records were seen, or the end.
fn read(source: &mut dyn Source, records: usize, stop: usize) -> Vec<Seen> {
    let mut seen: Vec<Seen> = vec![];
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    while seen.len() < stop {
        match source.poll(Limit { records, bytes: 1 << 20 }).expect("the poll succeeds") {
            Polled::Finished => break,
            Polled::Nothing(_) | Polled::Partitions => {}
            Polled::Records(polled) => {
                let batch = &polled.batch;
                assert!(batch.len() <= records, "a poll gives at most what was asked for");
                assert!(source.partitions().iter().any(|partition| partition.name == polled.partition));
                if !batch.is_empty() {
                    let origin = batch.origin.as_ref().expect("rows say where they were read");
                    assert_eq!((&origin.partition, origin.places.len()), (&polled.partition, batch.len()));
                    for row in 0..batch.len() {
                        let place = origin.places[row];
                        let before = last.insert(polled.partition.to_string(), place);
                        assert!(before.is_none_or(|before| before < place), "places ascend");
                        let values: Vec<_> = batch.columns.iter().map(|column| column.get(row)).collect();
                        let raw = batch.raw.as_ref().and_then(|raw| raw.get(row)).map(<[u8]>::escape_ascii);
                        let arrival = polled.arrivals.get(row);
                        let raw = raw.map(|raw| raw.to_string());
                        let row = format!("{} {arrival:?} {values:?} {raw:?}", batch.timestamps[row]);
                        seen.push((polled.partition.to_string(), place, row));
                    }
                }
                for letter in &polled.dead {
                    assert_eq!(
                        letter.partition.as_deref(),
                        Some(&*polled.partition),
                        "a dead letter names its partition"
                    );
                    seen.push((polled.partition.to_string(), letter.place.unwrap_or(0), letter.reason.clone()));
                }
            }
        }
    }
    seen
}
