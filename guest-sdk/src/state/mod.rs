//! What an operator remembers: handles of the states that the host keeps for each key.
//! A value rides along with the batch; lists, maps and large values are asked for when needed.
//!
//! | handle | keeps | costs |
//! |---|---|---|
//! | [`Value`] | one value per key | next to nothing; with `#[on_demand]` a call of the host each time |
//! | [`List`] | items in order | a call of the host each time |
//! | [`Map`] | entries by name, in order | a call of the host each time |
//! | [`Broadcast`] | entries by name, the same for all keys and tasks | a call of the host each time |
//!
//! Integers, floats, booleans, `String` and `Vec<u8>` are stored as they are; any other type that serde knows as JSON text, so that
//! `millstream state` can show it without the operator's code.

mod broadcast;
mod list;
mod map;
mod migrate;
mod prefetched;
mod stored;
mod timer;
mod value;

pub use broadcast::Broadcast;
pub use list::List;
pub use map::Map;
pub use migrate::Migrating;
pub(crate) use migrate::migrate;
pub(crate) use prefetched::Prefetched;
pub use stored::Stored;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use stored::column_of;
pub(crate) use stored::{from_bytes as decode_bytes, to_bytes as encode_bytes};
pub(crate) use timer::Timers;
pub use timer::{Fired, Timer};
pub use value::Value;

use crate::Scope;
use crate::declare::Registry;

use crate::key::{KeyValue, MapKey};

/// The handles of an operator: its struct. Derive it.
///
/// Each field is a state ([`Value`], [`List`], [`Map`], [`Broadcast`]), a [`Timer`](crate::Timer), a side output
/// ([`Side`](crate::Side)) or a metric ([`Counter`](crate::Counter), [`Gauge`](crate::Gauge),
/// [`Histogram`](crate::Histogram)), known to the host by the field's name.
///
/// | attribute | on | says |
/// |---|---|---|
/// | `#[ttl("24h")]` | states | how long a value, item or entry is kept after it was written; units ms, s, m, h, d |
/// | `#[ttl("1h", clock = "processing_time")]` | states | measured by the clock, not by the rows' timestamps |
/// | `#[ttl("1h", renewed_by_reads)]` | states | a read counts as a write |
/// | `#[version(2)]` | states | the stored values mean something else than in version 1: see [`Processor::migrate`](crate::Processor::migrate) |
/// | `#[on_demand]` | `Value` | do not hand the value in with every batch: for large or seldom used ones |
/// | `#[event_time]`, `#[processing_time]` | `Timer` | its clock |
/// | `#[name("total")]` | all | known under this name instead of the field's |
/// | `#[cache]` | any type | not a handle: starts from `Default` in every instance, and may be gone at any time |
///
/// An attribute that says nothing of a handle does not compile:
///
/// ```compile_fail,E0609
/// use millstream_sdk::prelude::*;
/// #[derive(States)]
/// struct Wrong { #[ttl("1h")] quiet: Timer }
/// ```
pub trait States: Sized {
    /// Makes the handles, in order.
    #[doc(hidden)]
    fn declare(registry: &mut Registry) -> Self;
}

/// Any handle of a state.
pub trait StateHandle {
    /// The state's id: its place among the declared ones.
    fn id(&self) -> u32;
}

impl Scope<'_> {
    /// Where the state of the row's key is among those that came with the call.
    #[inline]
    pub(crate) fn key_index(&self) -> usize {
        assert!(
            (self.key as usize) < self.facts.keys.ends.len(),
            "state and timers need a key: give the operator `key:` in the job"
        );
        self.key as usize
    }
}
