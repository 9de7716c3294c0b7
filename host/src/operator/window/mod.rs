//! Windows: collects keyed records by event time, computes, and sends a pane per key when a window's time has come.
//!
//! ```text
//! batch ─▶ sort rows by phase ─▶ cells: one per (slice end, key) ─▶ accumulate ─▶ state
//!             │ late ─▶ accumulate ─▶ late pane                                    │
//!             └ closed ─▶ port 1, counted                  watermark ─▶ firing ─▶ panes, port 0 ─▶ free
//!
//! row     slice end i64 BE, sign flipped · key
//!         slice end · 0xff, empty: the mark that this key group of the slice has fired
//! value   accumulator · bookkeeping u32 LE (panes sent · 2, + 1 if that counts the pane at the window's end)
//! ```
//!
//! Invariant: everything is in the state. What the operator holds beside it is scratch space or is built again by `open`.

mod accumulate;
mod built_in;
mod cells;
mod combined;
mod factory;
mod firing;
mod intake;
mod late;
mod operator;
mod panes;
mod slices;
pub mod stored; // its rows without the job
mod store;

#[cfg(test)]
mod tests;

pub use accumulate::{Accumulate, Accumulators, Aggregator, Bad, Finishing, Rows};
pub use built_in::BuiltIn;
pub use combined::Combined;
pub use factory::{WindowFactory, WindowSettings};
