//! A guest as what a window computes: a row or pane that it fails on is named, all others are as if that had not been.

use super::rig::engine;
use dataflow::record::{Batch, Blobs, Change, Column, ValueType, Values};
use millstream::operator::TaskInfo;
use millstream::operator::guest::{FieldSource, GuestAggregator, GuestInput, GuestSettings};
use millstream::operator::window::{Accumulate, Accumulators, Aggregator, Bad, Finishing, Rows};

fn aggregator() -> GuestAggregator {
    let component = engine().load(millstream_tests::guests::summing()).expect("the summing guest loads");
    let amount = FieldSource { name: "amount".into(), column: Some(0), value_type: ValueType::Int, required: true };
    let inputs = vec![GuestInput { fields: vec![amount], broadcast: false }];
    GuestAggregator::new("/sum", component, GuestSettings { inputs, ..GuestSettings::default() })
        .expect("it is wired as it asks")
}

fn summing() -> Box<dyn Accumulate> {
    let task = TaskInfo { operator: "sums".into(), task: 0, parallelism: 1, max_parallelism: 128, states: vec![] };
    aggregator().create(&task).expect("the summing guest opens")
}

fn blobs(sums: &[i64]) -> Blobs {
    let mut blobs = Blobs::default();
    sums.iter().for_each(|sum| blobs.push(&sum.to_le_bytes()));
    blobs
}

/// Takes amounts into the accumulators beside them; tells the sums, none where an accumulator is still new, and what was bad.
fn take(amounts: &[(i64, u32)], changes: Vec<Change>) -> (Vec<Option<i64>>, Vec<Bad>) {
    let batch = Batch {
        timestamps: vec![0; amounts.len()],
        columns: vec![Column::all(Values::Int(amounts.iter().map(|(amount, _)| *amount).collect()))],
        changes,
        ..Batch::default()
    };
    let rows: Vec<u32> = (0..amounts.len() as u32).collect();
    let cells: Vec<u32> = amounts.iter().map(|(_, cell)| *cell).collect();
    // Accumulator 0 has seen 100 before, the others are new.
    let mut into = Accumulators { present: vec![true, false, false], bytes: blobs(&[100]) };
    into.bytes.push(&[]);
    into.bytes.push(&[]);
    let rows = Rows { batch: &batch, rows: &rows, cells: &cells, watermark: 0, now: 0 };
    let bad = summing().accumulate(&rows, &mut into).expect("the job goes on");
    let sum = |cell: usize| {
        into.present[cell].then(|| i64::from_le_bytes(into.bytes.get(cell).try_into().expect("a sum has 8 bytes")))
    };
    ((0..3).map(sum).collect(), bad)
}

#[test]
fn rows_go_into_their_accumulators_and_retractions_out_of_them() {
    assert_eq!(take(&[(1, 2), (2, 0), (3, 2)], vec![]).0, [Some(102), None, Some(4)]);
    let changes = vec![Change::Insert, Change::Retract, Change::Insert];
    assert_eq!(take(&[(5, 0), (3, 0), (1, 1)], changes).0, [Some(102), Some(1), None]);
}

#[test]
fn a_row_that_an_aggregator_fails_on_is_named_and_the_others_are_taken() {
    for (amount, reason) in [(13, "the guest trapped"), (7, "not to my taste"), (17, "0 byte strings where 1")] {
        let (sums, bad) = take(&[(1, 0), (amount, 1), (2, 2), (3, 0)], vec![]);
        assert_eq!(sums, [Some(104), None, Some(2)], "{amount}");
        assert_eq!((bad.len(), bad[0].index), (1, 1), "{amount}");
        assert!(bad[0].reason.contains(reason), "{}", bad[0].reason);
        assert_eq!(bad[0].component.as_ref().map(String::len), Some(64), "its digest");
    }
}

#[test]
fn accumulators_are_merged_and_migrated_one_for_one() {
    assert_eq!(summing().merge(&blobs(&[1, 2]), &blobs(&[10, 20])).unwrap(), blobs(&[11, 22]));
    assert_eq!(summing().migrate(1, &blobs(&[3, 4])).unwrap(), blobs(&[300, 400]));
    let error = format!("{:#}", summing().migrate(9, &blobs(&[3])).unwrap_err());
    assert!(error.contains("there never was a version 9"), "{error}");
    assert_eq!((aggregator().version(), aggregator().supports_retract()), (2, true));
}

#[test]
fn a_pane_that_cannot_be_finished_is_named_and_the_others_are() {
    let (keys, times) = (blobs(&[0, 0, 0]), [0, 0, 0]);
    let accumulators = blobs(&[1, 99, 3]);
    let panes = Finishing { keys: &keys, starts: &times, ends: &times, accumulators: &accumulators };
    let mut results = [Column::new(ValueType::Int)];
    let bad = summing().finish(&panes, &mut results).unwrap();
    assert_eq!((bad.len(), bad[0].index), (1, 1));
    assert!(bad[0].reason.contains("99 cannot be said"), "{}", bad[0].reason);
    assert_eq!(
        (results[0].get(0), results[0].get(2)),
        (dataflow::record::Value::Int(1), dataflow::record::Value::Int(3))
    );
}
