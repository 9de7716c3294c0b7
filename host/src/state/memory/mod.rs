//! The `memory` backend: all rows in memory, durable by the files of its snapshots.
//!
//! Three layers: `active` takes the writes, `frozen` is what a snapshot took and the background has not applied yet, `base`
//! is the rest. Reads go through them in this order. A snapshot swaps `active` for an empty one, whatever the state's
//! size; the background applies what was frozen and writes it as a delta, or the whole base where the deltas have
//! outgrown it. An active layer above its limit is frozen early, and is part of the next snapshot.

mod backend;
mod background;
mod base;
mod hashed;
mod layer;
mod scan;
mod table;
#[cfg(test)]
mod tests;

pub use backend::{ACTIVE_LIMIT_DEFAULT, MemoryBackend, MemoryOptions};
