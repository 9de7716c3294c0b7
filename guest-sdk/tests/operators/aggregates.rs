//! Aggregators: taken in, taken out, merged, finished.

use millstream_sdk::prelude::*;
use millstream_sdk::testing::{Aggregation, Record, json};
use millstream_sdk::{Aggregator, Origin, Window};
use serde::{Deserialize, Serialize};

#[derive(Input)]
struct Fare {
    fare: f64,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    floor: f64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Sum {
    sum: f64,
    count: i64,
}

/// The mean of the fares not below a floor.
#[derive(Default)]
struct Mean;

impl Aggregator for Mean {
    type Input = Fare;
    type Accumulator = Sum;
    type Result = Option<f64>;
    type Config = Config;
    const RETRACTS: bool = true;

    fn accumulate(&self, config: &Config, mean: &mut Sum, at: Origin, ride: Fare) -> Result<(), Bad> {
        if ride.fare.is_nan() || at.time() < 0 {
            return Err(Bad::new("no fare"));
        }
        if ride.fare >= config.floor {
            mean.sum += ride.fare;
            mean.count += 1;
        }
        Ok(())
    }

    fn retract(&self, config: &Config, mean: &mut Sum, _: Origin, ride: Fare) -> Result<(), Bad> {
        if ride.fare >= config.floor {
            mean.sum -= ride.fare;
            mean.count -= 1;
        }
        Ok(())
    }

    fn merge(&self, _: &Config, mean: &mut Sum, other: Sum) {
        mean.sum += other.sum;
        mean.count += other.count;
    }

    fn finish(&self, _: &Config, window: Window<'_>, mean: Sum) -> Result<Option<f64>, Bad> {
        assert!(window.start <= window.end);
        Ok((mean.count > 0).then(|| mean.sum / mean.count as f64))
    }
}

fn fares(fares: &[f64]) -> Vec<Record> {
    fares.iter().map(|fare| Record::json(json!({"fare": fare}))).collect()
}

#[test]
fn the_result_is_that_of_all_records() {
    let mean = Aggregation::<Mean>::new(json!({"floor": 2.0}));
    assert_eq!(mean.result(&fares(&[1.0, 2.0, 4.0])), json!(3.0));
    assert_eq!(mean.result(&[]), json!(null));
}

#[test]
fn partial_accumulators_merge_in_any_order() {
    Aggregation::<Mean>::new(json!({})).assert_merges(&fares(&[1.0, 2.0, 4.0, 8.0]));
}

#[test]
fn what_was_taken_in_can_be_taken_out() {
    let mean = Aggregation::<Mean>::new(json!({}));
    let all = mean.accumulate(&fares(&[1.0, 5.0, 6.0])).expect("all fares are good");
    let rest = mean.retract(&all, &fares(&[1.0])).expect("it was taken in");
    assert_eq!(mean.finish("Pune", 0, 10, &rest), json!(5.5));
}

#[test]
fn records_that_cannot_be_processed_are_named() {
    let mean = Aggregation::<Mean>::new(json!({}));
    let records = [Record::json(json!({"fare": 1.0})), Record::json(json!({"fare": 2.0})).at(-1)];
    assert_eq!(mean.accumulate(&records), Err(vec!["no fare".to_owned()]));
}
