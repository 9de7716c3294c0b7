//! Tests of the aggregates: values by hand, and merging against adding one by one.

use super::*;
use crate::record::{Change, Column, Value, ValueType, Values};
use proptest::prelude::*;

const INT: Option<(usize, ValueType)> = Some((0, ValueType::Int));
const FLOAT: Option<(usize, ValueType)> = Some((0, ValueType::Float));

fn over(function: Function, field: Option<(usize, ValueType)>) -> Aggregate {
    Aggregate { function, field }
}

/// One key, one column: what the aggregates say after these rows, cut into batches of `batch` rows.
fn results(
    aggregates: &Aggregates,
    rows: &[(Value<'static>, Change)],
    of: ValueType,
    batch: usize,
) -> Vec<Value<'static>> {
    let mut accumulator = vec![0; aggregates.width()];
    for rows in rows.chunks(batch) {
        take(aggregates, rows, of, &mut accumulator);
    }
    report(aggregates, &accumulator)
}

fn take(aggregates: &Aggregates, rows: &[(Value<'static>, Change)], of: ValueType, accumulator: &mut [u8]) {
    let mut column = Column::new(of);
    rows.iter().for_each(|row| assert!(column.push(row.0)));
    let changes: Vec<Change> = rows.iter().map(|row| row.1).collect();
    let numbers: Vec<u32> = (0..rows.len() as u32).collect();
    let cells = vec![0; rows.len()];
    let columns = [column];
    aggregates.accumulate(Rows { columns: &columns, changes: &changes, rows: &numbers, cells: &cells }, accumulator);
}

fn report(aggregates: &Aggregates, accumulator: &[u8]) -> Vec<Value<'static>> {
    let mut columns: Vec<Column> = aggregates.result_types().map(Column::new).collect();
    aggregates.finish(accumulator, &mut columns);
    columns
        .iter()
        .map(|column| match column.get(0) {
            Value::Int(int) => Value::Int(int),
            Value::Float(float) => Value::Float(float),
            Value::Absent => Value::Absent,
            other => panic!("a result is a number or absent, not {other:?}"),
        })
        .collect()
}

fn ints(values: &[i64]) -> Vec<(Value<'static>, Change)> {
    values.iter().map(|&value| (Value::Int(value), Change::Insert)).collect()
}

fn floats(values: &[f64]) -> Vec<(Value<'static>, Change)> {
    values.iter().map(|&value| (Value::Float(value), Change::Insert)).collect()
}

fn all(field: Option<(usize, ValueType)>) -> Aggregates {
    let list: Vec<_> = Function::ALL.iter().map(|&function| over(function, field)).collect();
    Aggregates::new(&list, false).unwrap()
}

#[test]
fn all_aggregates_of_ints_at_once() {
    let expected = [Value::Int(3), Value::Int(6), Value::Int(-5), Value::Int(7), Value::Float(2.0)];
    assert_eq!(results(&all(INT), &ints(&[4, 7, -5]), ValueType::Int, 3), expected);
}

#[test]
fn all_aggregates_of_floats_at_once() {
    let expected = [Value::Int(2), Value::Float(2.0), Value::Float(-0.5), Value::Float(2.5), Value::Float(1.0)];
    assert_eq!(results(&all(FLOAT), &floats(&[2.5, -0.5]), ValueType::Float, 1), expected);
}

#[test]
fn of_no_value_only_the_count_is_known() {
    let expected = [Value::Int(0), Value::Absent, Value::Absent, Value::Absent, Value::Absent];
    assert_eq!(results(&all(INT), &[(Value::Absent, Change::Insert)], ValueType::Int, 1), expected);
}

#[test]
fn count_without_a_field_counts_rows_and_with_one_the_rows_that_have_it() {
    let both = Aggregates::new(&[over(Function::Count, None), over(Function::Count, INT)], false).unwrap();
    let rows = [(Value::Int(1), Change::Insert), (Value::Absent, Change::Insert)];
    assert_eq!(results(&both, &rows, ValueType::Int, 2), [Value::Int(2), Value::Int(1)]);
}

#[test]
fn a_sum_of_ints_is_exact_beyond_64_bits_and_absent_where_it_ends_there() {
    let sum = Aggregates::new(&[over(Function::Sum, INT), over(Function::Mean, INT)], false).unwrap();
    let there_and_back = ints(&[i64::MAX, i64::MAX, -i64::MAX]);
    assert_eq!(results(&sum, &there_and_back, ValueType::Int, 2)[0], Value::Int(i64::MAX));
    let there = results(&sum, &ints(&[i64::MAX, i64::MAX]), ValueType::Int, 2);
    assert_eq!(there, [Value::Absent, Value::Float(i64::MAX as f64)]);
    let mut accumulator = vec![0; sum.width()];
    take(&sum, &ints(&[i64::MAX]), ValueType::Int, &mut accumulator);
    assert_eq!(sum.sums_beyond(&accumulator).count(), 0);
    take(&sum, &ints(&[1]), ValueType::Int, &mut accumulator);
    assert_eq!(sum.sums_beyond(&accumulator).collect::<Vec<_>>(), [(0, 1 << 63)]);
}

#[test]
fn a_sum_of_floats_keeps_what_rounding_would_lose() {
    let sum = Aggregates::new(&[over(Function::Sum, FLOAT)], false).unwrap();
    assert_eq!(results(&sum, &floats(&[1e100, 1.0, -1e100]), ValueType::Float, 1), [Value::Float(1.0)]);
    let tenths = floats(&[0.1; 10]);
    assert_eq!(results(&sum, &tenths, ValueType::Float, 4), [Value::Float(1.0)]);
    let beyond = results(&sum, &floats(&[f64::INFINITY, 1.0]), ValueType::Float, 2);
    assert_eq!(beyond, [Value::Float(f64::INFINITY)]);
}

#[test]
fn what_was_taken_out_leaves_no_trace() {
    let list = [over(Function::Count, None), over(Function::Sum, FLOAT), over(Function::Mean, FLOAT)];
    let aggregates = Aggregates::new(&list, true).unwrap();
    let rows = [(0.1, Change::Insert), (1e17, Change::Insert), (1e17, Change::Retract), (0.1, Change::Retract)];
    let rows: Vec<_> = rows.map(|(value, change)| (Value::Float(value), change)).to_vec();
    assert_eq!(results(&aggregates, &rows, ValueType::Float, 1), [Value::Int(0), Value::Absent, Value::Absent]);
    let mut accumulator = vec![0; aggregates.width()];
    take(&aggregates, &rows[..3], ValueType::Float, &mut accumulator);
    assert!(!aggregates.is_empty(&accumulator));
    take(&aggregates, &rows[3..], ValueType::Float, &mut accumulator);
    assert!(aggregates.is_empty(&accumulator));
}

#[test]
fn combinations_without_meaning_are_refused() {
    let refused = |aggregate, retracting| Aggregates::new(&[aggregate], retracting).err();
    assert_eq!(refused(over(Function::Sum, None), false), Some(Refused::NoField(Function::Sum)));
    assert_eq!(refused(over(Function::Min, INT), true), Some(Refused::CannotRetract(Function::Min)));
    let text = over(Function::Mean, Some((0, ValueType::Text)));
    let expected = Refused::NotNumeric { function: Function::Mean, value_type: ValueType::Text };
    assert_eq!(refused(text, false), Some(expected));
    assert_eq!(refused(over(Function::Count, Some((0, ValueType::Text))), true), None);
}

#[test]
fn accumulators_of_other_aggregates_are_told_apart() {
    let versions: std::collections::BTreeSet<u16> = Function::ALL
        .iter()
        .flat_map(|&function| [over(function, INT), over(function, FLOAT)])
        .map(|aggregate| Aggregates::new(&[aggregate], false).unwrap().version())
        .collect();
    // Both counts are the same.
    assert_eq!(versions.len(), 9);
}

/// The model: keeps every value.
fn expected(values: &[Option<i64>]) -> Vec<Value<'static>> {
    let there: Vec<i64> = values.iter().copied().flatten().collect();
    let n = there.len() as i64;
    if there.is_empty() {
        return vec![Value::Int(0), Value::Absent, Value::Absent, Value::Absent, Value::Absent];
    }
    let sum: i64 = there.iter().sum();
    vec![
        Value::Int(n),
        Value::Int(sum),
        Value::Int(*there.iter().min().unwrap()),
        Value::Int(*there.iter().max().unwrap()),
        Value::Float(sum as f64 / n as f64),
    ]
}

fn rows(values: &[Option<i64>]) -> Vec<(Value<'static>, Change)> {
    values.iter().map(|value| (value.map_or(Value::Absent, Value::Int), Change::Insert)).collect()
}

proptest! {
    #[test]
    fn aggregates_say_what_the_kept_values_say_however_batches_are_cut(
        values in prop::collection::vec(prop::option::of(-1_000_000i64..1_000_000), 1..60), batch in 1usize..9
    ) {
        prop_assert_eq!(results(&all(INT), &rows(&values), ValueType::Int, batch), expected(&values));
    }

    #[test]
    fn merging_is_taking_in_one_after_the_other(
        left in prop::collection::vec(prop::option::of(-1_000i64..1_000), 0..20),
        right in prop::collection::vec(prop::option::of(-1_000i64..1_000), 0..20)
    ) {
        let aggregates = all(INT);
        let (mut one, mut other) = (vec![0; aggregates.width()], vec![0; aggregates.width()]);
        take(&aggregates, &rows(&left), ValueType::Int, &mut one);
        take(&aggregates, &rows(&right), ValueType::Int, &mut other);
        aggregates.merge(&mut one, &other);
        prop_assert_eq!(report(&aggregates, &one), expected(&[left, right].concat()));
    }

    #[test]
    fn float_sums_are_bit_for_bit_the_same_however_batches_are_cut(
        values in prop::collection::vec(-1e12f64..1e12, 1..60), batch in 1usize..9
    ) {
        let whole = results(&all(FLOAT), &floats(&values), ValueType::Float, values.len());
        prop_assert_eq!(results(&all(FLOAT), &floats(&values), ValueType::Float, batch), whole);
    }

    #[test]
    fn retractions_undo_what_they_take_back(
        kept in prop::collection::vec(-1_000i64..1_000, 0..20), gone in prop::collection::vec(-1_000i64..1_000, 0..20)
    ) {
        let list = [over(Function::Count, INT), over(Function::Sum, INT), over(Function::Mean, INT)];
        let aggregates = Aggregates::new(&list, true).unwrap();
        let mut rows = ints(&gone);
        rows.extend(ints(&kept));
        rows.extend(gone.iter().map(|&value| (Value::Int(value), Change::Retract)));
        let model = expected(&kept.into_iter().map(Some).collect::<Vec<_>>());
        let result = results(&aggregates, &rows, ValueType::Int, 7);
        prop_assert_eq!(result, [model[0], model[1], model[4]]);
    }

    #[test]
    fn each_cell_gets_its_own_rows(values in prop::collection::vec((-1_000i64..1_000, 0u32..3), 1..40)) {
        let aggregates = all(INT);
        let columns = [Column::all(Values::Int(values.iter().map(|value| value.0).collect()))];
        let numbers: Vec<u32> = (0..values.len() as u32).collect();
        let cells: Vec<u32> = values.iter().map(|value| value.1).collect();
        let mut accumulators = vec![0; 3 * aggregates.width()];
        aggregates.accumulate(Rows { columns: &columns, changes: &[], rows: &numbers, cells: &cells }, &mut accumulators);
        for cell in 0..3u32 {
            let own: Vec<_> = values.iter().filter(|value| value.1 == cell).map(|value| Some(value.0)).collect();
            let start = cell as usize * aggregates.width();
            prop_assert_eq!(report(&aggregates, &accumulators[start..start + aggregates.width()]), expected(&own));
        }
    }
}
