//! The logic of the example operators, as their guests have it: deduplication by TTL, the surge rule, a running count.

use super::{Fired, Logic, Row};
use crate::state::{StateDeclaration, StateKind, Ttl};
use dataflow::key;
use dataflow::record::{Change, Field, Schema, Value, ValueType};
use dataflow::time::Clock;

fn value(name: &str, ttl_ms: Option<i64>) -> StateDeclaration {
    let ttl = ttl_ms.map(|ms| Ttl { ms, clock: Clock::EventTime, renewed_by_reads: false });
    StateDeclaration { name: name.to_string(), version: 1, kind: StateKind::Value, ttl }
}

fn no_timers() -> Result<(), String> {
    Err("this operator sets no timers".to_string())
}

fn int(value: Value<'_>, name: &str) -> Result<i64, String> {
    if let Value::Int(int) = value { Ok(int) } else { Err(format!("`{name}` is not an int")) }
}

/// Lets each key pass once within an hour of event time. As `examples/rides/dedup`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dedup;

impl Dedup {
    const HOUR: i64 = 3_600_000;
}

impl Logic for Dedup {
    fn values(&self) -> Vec<StateDeclaration> {
        vec![value("seen", Some(Self::HOUR))]
    }

    fn has_timers(&self) -> bool {
        false
    }

    fn output(&self) -> Schema {
        Schema::default()
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        if row.get(0).is_none() {
            row.set(0, &[1]);
            row.pass();
        }
        Ok(())
    }

    fn on_timer(&self, _row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        no_timers()
    }
}

/// Counts the records of each key and sends the count with each.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunningCount;

impl Logic for RunningCount {
    fn values(&self) -> Vec<StateDeclaration> {
        vec![value("count", None)]
    }

    fn has_timers(&self) -> bool {
        false
    }

    fn output(&self) -> Schema {
        Schema { fields: vec![Field::new("/key", ValueType::Scalar), Field::new("/count", ValueType::Int)] }
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        let before = row.get(0).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| i64::from_le_bytes(*bytes));
        let count = before + 1;
        row.set(0, &count.to_le_bytes());
        let city = key::parts(row.keys.of_row(row.number)).next().unwrap_or(Value::Absent);
        row.emit(&[city, Value::Int(count)]);
        Ok(())
    }

    fn on_timer(&self, _row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        no_timers()
    }
}

/// Compares each pane's count with the mean of the key's windows before it. As `examples/rides/surge`.
#[derive(Debug, Clone)]
pub struct Surge {
    /// So many times the mean is a surge.
    pub threshold: f64,
    /// So many windows before are compared with, at least 1.
    pub windows: usize,
    /// Fewer are never a surge.
    pub minimum: i64,
    /// Columns of the panes: key, window start, count.
    pub columns: [usize; 3],
}

impl Surge {
    const DAY: i64 = 86_400_000;

    /// With the defaults, over panes with these columns: key, window start, count.
    pub fn new(columns: [usize; 3]) -> Self {
        Self { threshold: 3.0, windows: 5, minimum: 5, columns }
    }
}

impl Logic for Surge {
    fn values(&self) -> Vec<StateDeclaration> {
        vec![value("recent", Some(Self::DAY))]
    }

    fn has_timers(&self) -> bool {
        false
    }

    fn output(&self) -> Schema {
        let fields = [
            Field::new("/city", ValueType::Text),
            Field::new("/window_start", ValueType::Int),
            Field::new("/count", ValueType::Int),
            Field::new("/usual", ValueType::Float),
            Field::new("/ratio", ValueType::Float),
        ];
        Schema { fields: fields.into() }
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        if row.change() == Change::Retract {
            return Ok(());
        }
        let [_, start, count] = self.columns.map(|column| row.field(column));
        let (start, count) = (int(start, "/window_start")?, int(count, "/count")?);
        let mut recent = decode(row.get(0).unwrap_or_default());
        remember(&mut recent, start, count, self.windows + 1);
        let bytes: Vec<u8> =
            recent.iter().flat_map(|(start, count)| [start.to_le_bytes(), count.to_le_bytes()].concat()).collect();
        row.set(0, &bytes);
        if let Some(usual) = mean_before(&recent, start, self.windows)
            && count >= self.minimum
            && count as f64 >= self.threshold * usual
        {
            let batch = row.batch.expect("a record comes in a batch");
            let city = batch.columns[self.columns[0]].get(row.number);
            row.emit(&[
                city,
                Value::Int(start),
                Value::Int(count),
                Value::Float(usual),
                Value::Float(count as f64 / usual),
            ]);
        }
        Ok(())
    }

    fn on_timer(&self, _row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        no_timers()
    }
}

fn decode(bytes: &[u8]) -> Vec<(i64, i64)> {
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().map(|[start, count]| (i64::from_le_bytes(*start), i64::from_le_bytes(*count))).collect()
}

/// Puts a window among the others, in place of its earlier pane, and keeps the newest `keep`.
fn remember(recent: &mut Vec<(i64, i64)>, start: i64, count: i64, keep: usize) {
    match recent.binary_search_by_key(&start, |(start, _)| *start) {
        Ok(place) => recent[place].1 = count,
        Err(place) => recent.insert(place, (start, count)),
    }
    let too_many = recent.len().saturating_sub(keep);
    recent.drain(..too_many);
}

/// The mean count of the last windows before one; none if there is none.
fn mean_before(recent: &[(i64, i64)], start: i64, windows: usize) -> Option<f64> {
    let before = recent.iter().rev().filter(|(of, _)| *of < start).take(windows);
    let (sum, number) = before.fold((0, 0), |(sum, number), (_, count)| (sum + count, number + 1));
    (number > 0).then(|| sum as f64 / f64::from(number))
}
