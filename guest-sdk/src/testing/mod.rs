//! Runs an operator in a plain `cargo test`, without wasm: feed records, move time, look at what came out.
//! Takes the host's place and keeps its rules for state, expiry, timers and failures; the code per call is the same as in wasm.
//!
//! ```
//! use millstream_sdk::prelude::*;
//! use millstream_sdk::testing::{Harness, Record, json};
//!
//! #[derive(States)]
//! struct Count { #[ttl("1h")] seen: Value<i64> }
//!
//! #[derive(Output)]
//! struct Seen { times: i64 }
//!
//! impl Processor for Count {
//!     type Input = ();
//!     type Output = Seen;
//!     type Config = ();
//!     fn on_record(&self, _: &(), at: &mut Row<Self>, _: ()) -> Result<(), Bad> {
//!         let times = self.seen.get(at)?.unwrap_or(0) + 1;
//!         self.seen.set(at, times);
//!         at.emit(Seen { times });
//!         Ok(())
//!     }
//! }
//!
//! let mut count = Harness::<Count>::new(json!({}));
//! count.send(Record::empty().key("Pune").at(0));
//! count.send(Record::empty().key("Pune").at(1_000));
//! assert_eq!(count.rows("main"), [json!({"times": 1}), json!({"times": 2})]);
//! assert_eq!(count.state("seen", "Pune"), Some(json!(2)));
//! count.advance_watermark(HOUR + 1_000);
//! assert_eq!(count.state("seen", "Pune"), None);
//! ```

mod aggregation;
mod cell;
mod harness;
pub(crate) mod imports;
mod record;
mod run;
mod store;
mod world;

pub use aggregation::Aggregation;
pub use cell::Cell;
pub use harness::{Dead, Harness, PendingTimer, Sent};
pub use record::Record;
pub use serde_json::{Value as JsonValue, json};
