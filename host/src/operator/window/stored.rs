//! A window's rows as one reads them who has no job, only what a checkpoint or savepoint says of the window: which row is which,
//! and what each aggregate has come to.

use super::combined::take_part;
use super::store::FIRED;
use dataflow::aggregate::{Aggregate, Aggregates};
use dataflow::checkpoint::AggregateEntry;
use dataflow::record::{Column, Value};

/// Whether a row marks that its slice has fired, and has no key.
pub fn is_mark(row: &[u8]) -> bool {
    row.get(8..) == Some(FIRED)
}

/// What an aggregate has come to.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    /// What the host would send now.
    Result(Value<'static>),
    /// The accumulator of a component, which alone can say.
    Guest(Vec<u8>),
}

/// The aggregates in a row's value, by column; none if it is not what `entries` say, or they say nothing.
pub fn aggregates<'a>(entries: &'a [AggregateEntry], version: u16, value: &[u8]) -> Option<Vec<(&'a str, Held)>> {
    let (mut accumulator, _sent) = value.split_last_chunk::<4>()?;
    // What one aggregator computes: a component its own aggregate, the host those between two components.
    let parts: Vec<_> = entries.chunk_by(|a, b| a.function.is_some() && b.function.is_some()).collect();
    let held = match parts[..] {
        [] => return None,
        [all] => part(all, version, accumulator)?,
        _ => {
            let mut held = vec![];
            for entries in parts {
                let (version, own) = take_part(&mut accumulator)?;
                held.extend(part(entries, version, own)?);
            }
            accumulator.is_empty().then_some(held)?
        }
    };
    Some(entries.iter().map(|entry| entry.column.as_str()).zip(held).collect())
}

fn part(entries: &[AggregateEntry], version: u16, bytes: &[u8]) -> Option<Vec<Held>> {
    let aggregate = |entry: &AggregateEntry| {
        Some(Aggregate { function: entry.function?, field: entry.of.map(|value_type| (0, value_type)) })
    };
    let Some(list) = entries.iter().map(aggregate).collect::<Option<Vec<_>>>() else {
        return Some(vec![Held::Guest(bytes.to_vec())]);
    };
    let fits = |it: &Aggregates| it.version() == version && it.width() == bytes.len();
    let aggregates =
        [false, true].into_iter().filter_map(|retracting| Aggregates::new(&list, retracting).ok()).find(fits)?;
    let mut results: Vec<Column> = aggregates.result_types().map(Column::new).collect();
    aggregates.finish(bytes, &mut results);
    let held = results.iter().map(|column| match column.get(0) {
        Value::Int(int) => Held::Result(Value::Int(int)),
        Value::Float(float) => Held::Result(Value::Float(float)),
        _ => Held::Result(Value::Absent),
    });
    Some(held.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow::aggregate::{Function, Rows};
    use dataflow::key::push_varint;
    use dataflow::record::{ValueType, Values};

    fn entry(column: &str, function: Option<Function>, of: Option<ValueType>) -> AggregateEntry {
        AggregateEntry { column: column.into(), function, of }
    }

    /// Aggregates of the host that have seen 1.5 and 2.5.
    fn seen(list: &[AggregateEntry], retracting: bool) -> (u16, Vec<u8>) {
        let list: Vec<Aggregate> = list
            .iter()
            .map(|it| Aggregate { function: it.function.unwrap(), field: it.of.map(|of| (0, of)) })
            .collect();
        let aggregates = Aggregates::new(&list, retracting).unwrap();
        let mut bytes = vec![0; aggregates.width()];
        let columns = [Column::all(Values::Float(vec![1.5, 2.5]))];
        aggregates.accumulate(Rows { columns: &columns, changes: &[], rows: &[0, 1], cells: &[0, 0] }, &mut bytes);
        (aggregates.version(), bytes)
    }

    /// As it lies in the state, behind it what was sent.
    fn value(accumulator: &[u8]) -> Vec<u8> {
        [accumulator, &[2, 0, 0, 0]].concat()
    }

    fn list() -> Vec<AggregateEntry> {
        let of = Some(ValueType::Float);
        vec![
            entry("/count", Some(Function::Count), None),
            entry("/sum", Some(Function::Sum), of),
            entry("/mean", Some(Function::Mean), of),
        ]
    }

    fn results() -> Vec<(&'static str, Held)> {
        vec![
            ("/count", Held::Result(Value::Int(2))),
            ("/sum", Held::Result(Value::Float(4.0))),
            ("/mean", Held::Result(Value::Float(2.0))),
        ]
    }

    #[test]
    fn aggregates_of_the_host_are_told_by_column_whether_rows_can_be_taken_back_or_not() {
        for retracting in [false, true] {
            let (version, bytes) = seen(&list(), retracting);
            assert_eq!(aggregates(&list(), version, &value(&bytes)), Some(results()));
        }
        let least = [entry("/least", Some(Function::Min), Some(ValueType::Float))];
        let (version, bytes) = seen(&least, false);
        let told = Some(vec![("/least", Held::Result(Value::Float(1.5)))]);
        assert_eq!(aggregates(&least, version, &value(&bytes)), told);
    }

    #[test]
    fn aggregates_between_those_of_components_are_found() {
        let (version, bytes) = seen(&list(), false);
        let mut accumulator = vec![];
        let parts: [(u16, &[u8]); 3] = [(version, &bytes), (7, b"{}"), (version, &bytes)];
        for (version, own) in parts {
            accumulator.extend_from_slice(&version.to_le_bytes());
            push_varint(&mut accumulator, own.len() as u64);
            accumulator.extend_from_slice(own);
        }
        let entries = [list(), vec![entry("/own", None, None)], list()].concat();
        let told = [results(), vec![("/own", Held::Guest(b"{}".to_vec()))], results()].concat();
        assert_eq!(aggregates(&entries, 0x2003, &value(&accumulator)), Some(told));
        accumulator.push(0);
        assert_eq!(aggregates(&entries, 0x2003, &value(&accumulator)), None, "more than they say");
        let alone = [entry("/own", None, None)];
        assert_eq!(aggregates(&alone, 7, &value(b"x")), Some(vec![("/own", Held::Guest(b"x".to_vec()))]));
    }

    #[test]
    fn what_is_not_as_told_is_not_guessed() {
        let (version, bytes) = seen(&list(), false);
        assert_eq!(aggregates(&[], version, &value(&bytes)), None, "nobody told");
        assert_eq!(aggregates(&list()[..2], version, &value(&bytes)), None, "other aggregates");
        assert_eq!(aggregates(&list(), version, &bytes), None, "cut short");
        assert_eq!(aggregates(&list(), version, b"abc"), None);
    }

    #[test]
    fn only_the_mark_is_no_row_of_a_key() {
        assert!(is_mark(&[0, 0, 0, 0, 0, 0, 0, 1, 0xff]));
        assert!(!is_mark(&[0, 0, 0, 0, 0, 0, 0, 1, b't', 0]) && !is_mark(&[0, 0, 0, 0, 0, 0, 0, 1]));
    }
}
