//! Write Millstream operators in Rust.
//!
//! An operator is ordinary per-record code. What it takes out of a record, what it sends, and what it remembers are plain structs:
//!
//! ```
//! use millstream_sdk::prelude::*;
//! use serde::Deserialize;
//!
//! #[derive(Input)]
//! struct Payment<'a> { #[at("/card")] card: &'a str, #[at("/amount")] amount: f64 } // the fields to take out
//!
//! #[derive(Output)]
//! struct Alert<'a> { card: &'a str, total: f64 } // the columns to send
//!
//! #[derive(States)]
//! struct Fraud { #[ttl("24h")] total: Value<f64>, #[event_time] quiet: Timer } // what is kept for each key
//!
//! #[derive(Deserialize)]
//! struct Limits { day: f64 }
//!
//! impl Processor for Fraud {
//!     type Input = Payment<'static>;
//!     type Output = Alert<'static>;
//!     type Config = Limits;
//!
//!     fn on_record(&self, limits: &Limits, at: &mut Row<Self>, payment: Payment) -> Result<(), Bad> {
//!         let total = self.total.get(at)?.unwrap_or(0.0) + payment.amount;
//!         self.total.set(at, total);
//!         self.quiet.set(at, at.time() + 10 * MINUTE);
//!         if total > limits.day {
//!             at.emit(Alert { card: payment.card, total });
//!         }
//!         Ok(())
//!     }
//!
//!     fn on_timer(&self, _: &Limits, at: &mut Row<Self>, _: Fired) -> Result<(), Bad> {
//!         self.total.clear(at);
//!         Ok(())
//!     }
//! }
//!
//! millstream_sdk::export!(Fraud);
//! ```
//!
//! Build it as a `cdylib` for `wasm32-unknown-unknown`, by `millstream build`. [`testing::Harness`] runs it in a plain
//! `cargo test`. Whatever must be remembered belongs into state: the instance may be replaced between any two calls.

// Derives and generated code name the SDK by its crate name, here as in an author's crate.
extern crate self as millstream_sdk;

// The record's path: in, through the processor, out.
mod input;
mod key;
mod output;
mod processor;
mod row;

// What a row can reach, and what becomes of it.
mod bad;
pub mod log;
mod metric;
pub mod state;

// What a window computes.
mod aggregator;

// How the host sees it.
mod call;
#[doc(hidden)]
pub mod declare;
mod host;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use aggregator::{Accumulator, Aggregator, Window};
pub use bad::Bad;
pub use host::bindings::types::{Change, Clock, ValueType};
#[doc(hidden)]
pub use host::{bindings, export};
#[doc(hidden)]
pub use input::field as input_field;
pub use input::{FieldColumn, FieldValue, Fields, Input, Texts};
pub use key::{Key, KeyPart, KeyValue, MapKey};
pub use metric::{Counter, Gauge, Histogram};
pub use millstream_sdk_derive::{Input, Output, States};
#[doc(hidden)]
pub use output::ColumnBuilder;
pub use output::{Emission, Json, Output, OutputValue, Side, WholeRecords};
pub use processor::{Context, Processor};
pub use row::{Batch, Origin, Row, Scope};
pub use state::{Fired, States, Timer};
#[doc(hidden)]
pub use wit_bindgen;

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Timestamp = i64;

/// One second, in milliseconds; a [`Timestamp`] plus `10 * SECOND` lies ten seconds later.
pub const SECOND: i64 = 1_000;
/// One minute, in milliseconds.
pub const MINUTE: i64 = 60 * SECOND;
/// One hour, in milliseconds.
pub const HOUR: i64 = 60 * MINUTE;
/// One day of 24 hours, in milliseconds.
pub const DAY: i64 = 24 * HOUR;

/// What most operators need.
pub mod prelude {
    pub use crate::state::{Broadcast, List, Map, Value};
    pub use crate::{
        Aggregator, Bad, Change, Context, Counter, DAY, Emission, Fired, Gauge, HOUR, Histogram, Input, Json, MINUTE,
        Origin, Output, Processor, Row, SECOND, Side, States, Timer, Timestamp, Window,
    };
}
