//! A processor that does to each row what the row's field `do` says, most of it wrong. With the config `count` it is the plain
//! running count per key, a whole batch at a time; with `refuse` it does not open.

wit_bindgen::generate!({ path: "../../../wit", world: "processor" });

mod deeds;

use exports::millstream::operator::processing::{Context, Description, Guest};
use millstream::operator::types::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How the instance was opened.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// Calls of this instance so far: what a guest must not rely on.
static CALLS: AtomicU32 = AtomicU32::new(0);

pub const COUNT: u32 = 0;
pub const NOTE: u32 = 1;
pub const ITEMS: u32 = 2;
pub const TABLE: u32 = 3;
pub const RECENT: u32 = 4;
pub const ALARM: u32 = 0;
pub const TICK: u32 = 1;

struct Hostile;

fn state(name: &str, kind: StateKind, value_type: ValueType) -> StateDeclaration {
    StateDeclaration { name: name.into(), kind, value_type, version: 1, ttl: None, prefetch: false }
}

fn field(name: &str, value_type: ValueType, required: bool) -> Field {
    Field { name: name.into(), pointer: format!("/{name}"), value_type, required, input: None }
}

fn column(name: &str, value_type: ValueType) -> OutputField {
    OutputField { name: name.into(), value_type }
}

const COUNT_TYPE: ValueType = if cfg!(feature = "next") { ValueType::Float } else { ValueType::Int };
const COUNT_VERSION: u32 = if cfg!(feature = "next") { 2 } else { 1 };

impl Guest for Hostile {
    fn describe() -> Description {
        let recent = Some(Ttl { milliseconds: 1000, clock: Clock::EventTime, renewed_by_reads: false });
        Description {
            states: vec![
                StateDeclaration {
                    prefetch: true,
                    version: COUNT_VERSION,
                    ..state("count", StateKind::ValueState, COUNT_TYPE)
                },
                state("note", StateKind::ValueState, ValueType::Text),
                state("items", StateKind::ListState, ValueType::Int),
                state("table", StateKind::MapState, ValueType::Int),
                StateDeclaration {
                    prefetch: true,
                    ttl: recent,
                    ..state("recent", StateKind::ValueState, ValueType::Int)
                },
            ],
            timers: vec![
                TimerDeclaration { name: "alarm".into(), clock: Clock::EventTime },
                TimerDeclaration { name: "tick".into(), clock: Clock::ProcessingTime },
            ],
            fields: vec![field("do", ValueType::Text, true), field("amount", ValueType::Int, false)],
            whole_values: false,
            headers: false,
            inputs: vec!["in".into()],
            outputs: vec![
                OutputDeclaration {
                    name: "out".into(),
                    columns: vec![column("number", ValueType::Int), column("note", ValueType::Text)],
                },
                OutputDeclaration { name: "raw".into(), columns: vec![] },
            ],
            config_schema: Some(
                r#"{"type":"object","properties":{"do":{"enum":["count","refuse","rows","trap"]}},"additionalProperties":false}"#
                    .into(),
            ),
        }
    }

    fn open(context: Context) -> Result<(), String> {
        COUNTS.store(context.config.contains("count"), Ordering::Relaxed);
        if context.config.contains("trap") {
            panic!("does not open");
        }
        if context.config.contains("refuse") { Err("the configuration is not to my taste".into()) } else { Ok(()) }
    }

    fn on_batch(batch: Batch) -> Result<Effects, Failure> {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
        if COUNTS.load(Ordering::Relaxed) { Ok(deeds::count(batch)) } else { deeds::rows(&batch, calls) }
    }

    fn on_timers(firings: Firings) -> Result<Effects, Failure> {
        deeds::timers(&firings)
    }

    fn migrate(state: u32, from_version: u32, old: Column) -> Result<Column, String> {
        match (state, from_version, old.values) {
            (COUNT, 1, Values::Int(ints)) if ints.contains(&13) => Err("13 brings bad luck".into()),
            (COUNT, 1, Values::Int(ints)) => Ok(Column {
                present: old.present,
                values: Values::Float(ints.iter().map(|&int| int as f64 * 10.0).collect()),
            }),
            _ => Err(format!("state {state} never had a version {from_version}")),
        }
    }
}

export!(Hostile);
