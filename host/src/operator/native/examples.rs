//! The smallest logics with state, which have guests that do the same: deduplication by TTL and a running count.

use super::{Fired, Logic, Row};
use crate::state::{StateDeclaration, StateKind, Ttl};
use dataflow::graph::Port;
use dataflow::key;
use dataflow::record::{Field, Schema, Value, ValueType};
use dataflow::time::Clock;

fn value(name: &str, ttl_ms: Option<i64>) -> StateDeclaration {
    let ttl = ttl_ms.map(|ms| Ttl { ms, clock: Clock::EventTime, renewed_by_reads: false });
    StateDeclaration { name: name.to_string(), version: 1, kind: StateKind::Value, ttl }
}

fn no_timers() -> Result<(), String> {
    Err("this operator sets no timers".to_string())
}

/// Lets each key pass once within an hour of event time. As `examples/rides/dedup`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dedup;

impl Dedup {
    const HOUR: i64 = 3_600_000;
}

impl Logic for Dedup {
    fn fields(&self) -> Schema {
        Schema::default()
    }

    fn values(&self) -> Vec<StateDeclaration> {
        vec![value("seen", Some(Self::HOUR))]
    }

    fn has_timers(&self) -> bool {
        false
    }

    fn ports(&self) -> Vec<Port> {
        vec![Port::default()]
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
    fn fields(&self) -> Schema {
        Schema::default()
    }

    fn values(&self) -> Vec<StateDeclaration> {
        vec![value("count", None)]
    }

    fn has_timers(&self) -> bool {
        false
    }

    fn ports(&self) -> Vec<Port> {
        let fields = vec![Field::new("/key", ValueType::Scalar), Field::new("/count", ValueType::Int)];
        vec![Port { columns: Some(Schema { fields }), ..Port::default() }]
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        let before = row.get(0).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| i64::from_le_bytes(*bytes));
        let count = before + 1;
        row.set(0, &count.to_le_bytes());
        let city = key::parts(row.key()).next().unwrap_or(Value::Absent);
        row.emit(0, &[city, Value::Int(count)]);
        Ok(())
    }

    fn on_timer(&self, _row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        no_timers()
    }
}
