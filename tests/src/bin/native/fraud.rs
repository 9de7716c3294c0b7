//! The fraud rules of `examples/payments/fraud` on the host's own rows.

#[path = "../../../../examples/payments/fraud/src/rules.rs"]
mod rules;

use dataflow::graph::Port;
use dataflow::key;
use dataflow::record::{Field, Schema, Value, ValueType};
use millstream::operator::native::{Fired, Logic, Row};
use millstream::state::{StateDeclaration, StateKind};
use rules::{Past, QUIET_AFTER, judge, newest};

/// Its ports.
const ALERTS: usize = 0;
const QUIET: usize = 1;

/// The tag of its timer.
const QUIET_SINCE: &[u8] = b"quiet_since";

pub(crate) struct Fraud;

fn schema(fields: &[(&str, ValueType)]) -> Schema {
    Schema { fields: fields.iter().map(|(pointer, value_type)| Field::new(*pointer, *value_type)).collect() }
}

/// What is remembered of the row's card.
fn past(row: &Row<'_>) -> Result<Vec<Past>, String> {
    row.get(0).map_or(Ok(vec![]), |bytes| serde_json::from_slice(bytes).map_err(|error| error.to_string()))
}

impl Logic for Fraud {
    fn fields(&self) -> Schema {
        schema(&[("/card", ValueType::Text), ("/amount", ValueType::Float), ("/city", ValueType::Text)])
    }

    fn values(&self) -> Vec<StateDeclaration> {
        vec![StateDeclaration { name: "past".into(), version: 1, kind: StateKind::Value, ttl: None }]
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn ports(&self) -> Vec<Port> {
        use ValueType::{Float, Int, Text};
        let alerts = schema(&[("/card", Text), ("/rule", Text), ("/amount", Float), ("/detail", Text)]);
        let quiet = schema(&[("/card", Text), ("/payments", Int), ("/sum", Float)]);
        let port = |name: &str, columns| Port { name: name.into(), columns: Some(columns), ..Port::default() };
        vec![port("", alerts), port("quiet", quiet)]
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        let (card, Value::Float(amount), Value::Text(city)) = (row.field(0), row.field(1), row.field(2)) else {
            return Err("a payment has a card, an amount and a city".to_string());
        };
        let mut past = past(row)?;
        let time = row.time();
        let findings = judge(&mut past, Past { amount, city: city.to_owned(), time });
        row.set(0, &serde_json::to_vec(&past).map_err(|error| error.to_string())?);
        row.set_timer(QUIET_SINCE, newest(&past).unwrap_or(time) + QUIET_AFTER, b"");
        for (rule, detail) in findings.iter().flatten() {
            row.emit(ALERTS, &[card, Value::Text(rule), Value::Float(amount), Value::Text(detail)]);
        }
        Ok(())
    }

    fn on_timer(&self, row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        let past = past(row)?;
        let sum = past.iter().map(|past| past.amount).sum();
        let card = key::parts(row.key()).next().unwrap_or(Value::Absent);
        row.emit(QUIET, &[card, Value::Int(past.len() as i64), Value::Float(sum)]);
        row.clear(0);
        Ok(())
    }
}
