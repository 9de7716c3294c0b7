//! Carries elements from one task to the next: in order for each sender, bounded in bytes and in time. Knows nothing about Kafka,
//! guests or what the elements mean, but for the keys that decide which task a row belongs to.
//!
//! A channel never blocks: a full one hands the element back, the task keeps it in its outbox and takes no more input
//! until it is gone. That is backpressure; it ends at the source, which stops polling.

mod channel;
mod outbox;
mod pace; // how much may wait

pub use channel::{Receiver, SendError, Sender, channel};
pub use outbox::{KeyBy, Outbox, Partitioning, key_batch};

/// Bytes a channel holds before it says full, less where that is more than its receiver takes in a second. One element more than
/// fits is let in, so that a large one passes too.
pub const CHANNEL_BYTES_MAX: usize = 4 << 20;
