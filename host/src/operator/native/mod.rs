//! Per-record logic compiled into the host: what a guest processor can do, without the guest. For tests of the host without
//! WebAssembly, and for measuring what a guest costs. Jobs name components; whoever starts a job may put such logic in the place of one.
//!
//! ```text
//! batch ─▶ values of its keys, one read each ─▶ logic, row by row ─▶ values written, timers set ─▶ ports
//!                                                    watermark ─▶ due timers ─▶ logic
//! ```

mod examples;
mod operator;
mod row;
mod values;

#[cfg(test)]
mod tests;

use crate::state::StateDeclaration;
use dataflow::graph::Port;
use dataflow::record::Schema;
use dataflow::time::Timestamp;
use std::sync::Arc;

pub use examples::{Dedup, RunningCount};
pub use operator::NativeFactory;
pub use row::Row;

/// The logic of an operator, called for one record or timer at a time.
///
/// Contract: what it remembers MUST go through the row; a record that fails MUST fail before it has set, sent or passed anything.
pub trait Logic: Send + Sync {
    /// The fields of a record that it reads, by position.
    fn fields(&self) -> Schema;

    /// Value states, all prefetched, by position.
    fn values(&self) -> Vec<StateDeclaration>;

    /// Whether it sets event-time timers.
    fn has_timers(&self) -> bool;

    /// What it puts out, the main output first. Where that has no columns, it passes records on.
    fn ports(&self) -> Vec<Port>;

    /// A record.
    ///
    /// # Errors
    /// Why the record is put aside.
    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String>;

    /// A timer that is due; its time is the row's.
    ///
    /// # Errors
    /// Why the timer is put aside; it counts as fired.
    fn on_timer(&self, row: &mut Row<'_>, fired: &Fired<'_>) -> Result<(), String>;
}

/// A timer that is due.
#[derive(Debug, Clone, Copy)]
pub struct Fired<'a> {
    /// When it was to fire.
    pub at: Timestamp,
    /// Its tag.
    pub tag: &'a [u8],
    /// What it was set with.
    pub payload: &'a [u8],
}

/// An operator of this logic over batches whose first columns are its fields.
pub fn operator(logic: impl Logic + 'static) -> NativeFactory {
    let columns = (0..logic.fields().fields.len()).collect();
    NativeFactory::new(Arc::new(logic), columns)
}
