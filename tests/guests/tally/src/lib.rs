//! Counts records, a batch at a time on the bare world: what benchmarks compare with the host's own `count`, without the SDK.

wit_bindgen::generate!({ path: "../../../wit", world: "aggregator" });

use exports::millstream::operator::aggregation::*;
use millstream::operator::types::Values;

struct Tally;

fn counts(blobs: &Blobs) -> Vec<i64> {
    let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or(0);
    let mut from = 0;
    blobs
        .ends
        .iter()
        .map(|&end| number(&blobs.bytes[std::mem::replace(&mut from, end as usize)..end as usize]))
        .collect()
}

fn blobs(counts: &[i64]) -> Blobs {
    let ends = (1..=counts.len() as u32).map(|count| count * 8).collect();
    Blobs { ends, bytes: counts.iter().flat_map(|count| count.to_le_bytes()).collect() }
}

fn take(accumulators: &Column, acc_of: &[u32], by: i64) -> Result<Blobs, Failure> {
    let Values::Bytes(bytes) = &accumulators.values else {
        return Err(Failure::Failed("accumulators come as a column of bytes".into()));
    };
    let mut counts = counts(bytes);
    acc_of.iter().for_each(|&accumulator| counts[accumulator as usize] += by);
    Ok(blobs(&counts))
}

impl Guest for Tally {
    fn describe() -> Description {
        Description {
            fields: vec![],
            whole_values: false,
            accumulator_version: 1,
            retracts: true,
            result_type: ValueType::Int,
            config_schema: None,
        }
    }

    fn open(_: Context) -> Result<(), String> {
        Ok(())
    }

    fn accumulate(_: Batch, accumulators: Column, acc_of: Vec<u32>) -> Result<Blobs, Failure> {
        take(&accumulators, &acc_of, 1)
    }

    fn retract(_: Batch, accumulators: Column, acc_of: Vec<u32>) -> Result<Blobs, Failure> {
        take(&accumulators, &acc_of, -1)
    }

    fn merge(left: Blobs, right: Blobs) -> Result<Blobs, String> {
        Ok(blobs(&counts(&left).iter().zip(counts(&right)).map(|(left, right)| left + right).collect::<Vec<_>>()))
    }

    fn finish(_: Blobs, _: Vec<i64>, _: Vec<i64>, accumulators: Blobs) -> Result<Column, String> {
        Ok(Column { present: None, values: Values::Int(counts(&accumulators)) })
    }

    fn migrate(from_version: u32, _: Blobs) -> Result<Blobs, String> {
        Err(format!("there never was a version {from_version}"))
    }
}

export!(Tally);
