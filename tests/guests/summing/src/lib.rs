//! An aggregator that sums amounts. It traps on 13, refuses 7, answers one accumulator too few on 17, and cannot finish 99.

wit_bindgen::generate!({ path: "../../../wit", world: "aggregator" });

use exports::millstream::operator::aggregation::*;
use millstream::operator::types::{BadRow, Values};

struct Summing;

fn sums(blobs: &Blobs) -> Vec<i64> {
    let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or(0);
    let mut from = 0;
    blobs
        .ends
        .iter()
        .map(|&end| number(&blobs.bytes[std::mem::replace(&mut from, end as usize)..end as usize]))
        .collect()
}

fn blobs(sums: &[i64]) -> Blobs {
    let ends = (1..=sums.len() as u32).map(|count| count * 8).collect();
    Blobs { ends, bytes: sums.iter().flat_map(|sum| sum.to_le_bytes()).collect() }
}

fn take(batch: &Batch, accumulators: &Column, acc_of: &[u32], sign: i64) -> Result<Blobs, Failure> {
    let (Values::Bytes(bytes), Values::Int(amounts)) = (&accumulators.values, &batch.fields[0].values) else {
        unreachable!()
    };
    let mut sums = sums(bytes);
    let mut bad = vec![];
    for (row, &amount) in amounts.iter().enumerate() {
        match amount {
            13 => panic!("13 brings bad luck"),
            7 => bad.push(BadRow { row: row as u32, reason: "7 is not to my taste".into() }),
            17 => return Ok(blobs(&sums[1..])),
            _ => sums[acc_of[row] as usize] += sign * amount,
        }
    }
    if bad.is_empty() { Ok(blobs(&sums)) } else { Err(Failure::BadRows(bad)) }
}

impl Guest for Summing {
    fn describe() -> Description {
        let amount = Field {
            name: "amount".into(),
            pointer: "/amount".into(),
            value_type: ValueType::Int,
            required: true,
            input: None,
        };
        Description {
            fields: vec![amount],
            whole_values: false,
            accumulator_version: 2,
            retracts: true,
            result_type: ValueType::Int,
            config_schema: None,
        }
    }

    fn open(_: Context) -> Result<(), String> {
        Ok(())
    }

    fn accumulate(batch: Batch, accumulators: Column, acc_of: Vec<u32>) -> Result<Blobs, Failure> {
        take(&batch, &accumulators, &acc_of, 1)
    }

    fn retract(batch: Batch, accumulators: Column, acc_of: Vec<u32>) -> Result<Blobs, Failure> {
        take(&batch, &accumulators, &acc_of, -1)
    }

    fn merge(left: Blobs, right: Blobs) -> Result<Blobs, String> {
        Ok(blobs(&sums(&left).iter().zip(sums(&right)).map(|(left, right)| left + right).collect::<Vec<_>>()))
    }

    fn finish(_: Blobs, _: Vec<i64>, _: Vec<i64>, accumulators: Blobs) -> Result<Column, String> {
        let sums = sums(&accumulators);
        if sums.contains(&99) {
            Err("99 cannot be said".into())
        } else {
            Ok(Column { present: None, values: Values::Int(sums) })
        }
    }

    fn migrate(from_version: u32, old: Blobs) -> Result<Blobs, String> {
        match from_version {
            1 => Ok(blobs(&sums(&old).iter().map(|sum| sum * 100).collect::<Vec<_>>())),
            other => Err(format!("there never was a version {other}")),
        }
    }
}

export!(Summing);
