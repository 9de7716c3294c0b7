//! Counts records, one by one, as a plain author writes an aggregator: what benchmarks compare with the host's own `count`.

use millstream_sdk::prelude::*;

#[derive(Default)]
struct Tally;

impl Aggregator for Tally {
    type Input = ();
    type Accumulator = i64;
    type Result = i64;
    type Config = ();

    fn accumulate(&self, (): &(), count: &mut i64, _: Origin, (): ()) -> Result<(), Bad> {
        *count += 1;
        Ok(())
    }

    fn merge(&self, (): &(), count: &mut i64, other: i64) {
        *count += other;
    }

    fn finish(&self, (): &(), _: Window, count: i64) -> Result<i64, Bad> {
        Ok(count)
    }
}

millstream_sdk::export_aggregator!(Tally);
