//! The surge rule of `examples/rides/surge` on the host's own rows.

#[path = "../../../../examples/rides/surge/src/rule.rs"]
mod rule;

use anyhow::{Context as _, Result};
use dataflow::graph::Port;
use dataflow::record::{Change, Field, Schema, Value, ValueType};
use dataflow::time::Clock;
use millstream::operator::native::{Fired, Logic, Row};
use millstream::state::{StateDeclaration, StateKind, Ttl};
use rule::Config;
use serde_json::Value as Json;

const DAY_MS: i64 = 86_400_000;

pub(crate) struct Surge {
    config: Config,
}

impl Surge {
    pub(crate) fn new(config: &Json) -> Result<Self> {
        let config: Config = serde_json::from_value(config.clone()).context("the configuration does not fit")?;
        config.check().map_err(anyhow::Error::msg)?;
        Ok(Self { config })
    }
}

impl Logic for Surge {
    fn fields(&self) -> Schema {
        let fields = [("/key", ValueType::Text), ("/window_start", ValueType::Int), ("/count", ValueType::Int)];
        Schema { fields: fields.map(|(pointer, value_type)| Field::new(pointer, value_type)).into() }
    }

    fn values(&self) -> Vec<StateDeclaration> {
        let ttl = Some(Ttl { ms: DAY_MS, clock: Clock::EventTime, renewed_by_reads: false });
        vec![StateDeclaration { name: "recent".into(), version: 1, kind: StateKind::Value, ttl }]
    }

    fn has_timers(&self) -> bool {
        false
    }

    fn ports(&self) -> Vec<Port> {
        let fields = [
            ("/city", ValueType::Text),
            ("/window_start", ValueType::Int),
            ("/count", ValueType::Int),
            ("/usual", ValueType::Float),
            ("/ratio", ValueType::Float),
        ];
        let fields = fields.map(|(pointer, value_type)| Field::new(pointer, value_type)).into();
        vec![Port { columns: Some(Schema { fields }), ..Port::default() }]
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        if row.change() == Change::Retract {
            return Ok(());
        }
        let (city, Value::Int(start), Value::Int(count)) = (row.field(0), row.field(1), row.field(2)) else {
            return Err("a pane has a window and a count".to_string());
        };
        let mut recent: Vec<(i64, i64)> = match row.get(0) {
            Some(bytes) => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
            None => vec![],
        };
        let usual = self.config.judge(&mut recent, start, count);
        row.set(0, &serde_json::to_vec(&recent).map_err(|error| error.to_string())?);
        if let Some(usual) = usual {
            let ratio = Value::Float(count as f64 / usual);
            row.emit(0, &[city, Value::Int(start), Value::Int(count), Value::Float(usual), ratio]);
        }
        Ok(())
    }

    fn on_timer(&self, _row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        Err("this operator sets no timers".to_string())
    }
}
