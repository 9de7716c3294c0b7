//! One output port of a node: the edges that read it. An element goes to each; only a second reader costs a copy.

use crate::dead_letter::DeadLetter;
use crate::exchange::Outbox;
use dataflow::element::{Barrier, Element};
use dataflow::record::Batch;

/// The edges of one output port.
#[derive(Default)]
pub struct Port {
    /// One outbox for each reading node.
    pub edges: Vec<Outbox>,
}

impl Port {
    /// Sends rows to every edge. Rows that lack an edge's key come back as dead letters.
    pub fn send_batch(&mut self, batch: Batch, dead: &mut Vec<DeadLetter>) {
        if batch.is_empty() {
            return;
        }
        if let Some((last, others)) = self.edges.split_last_mut() {
            others.iter_mut().for_each(|edge| edge.send_batch(batch.clone(), dead));
            last.send_batch(batch, dead);
        }
    }

    /// Sends a signal to every edge.
    pub fn send_signal(&mut self, signal: &Element) {
        self.edges.iter_mut().for_each(|edge| edge.send_signal(signal));
    }

    /// Sends a barrier past everything to every edge.
    pub fn overtake(&mut self, barrier: Barrier) {
        self.edges.iter_mut().for_each(|edge| edge.overtake(barrier));
    }

    /// Tries again what was refused; true once nothing is left.
    pub fn flush(&mut self) -> bool {
        // Every edge is tried, also behind one that is full.
        let left = self.edges.iter_mut().filter_map(|edge| (!edge.flush()).then_some(())).count();
        left == 0
    }

    /// Bytes that the channel of the slowest reader may hold: what a batch is to be a part of.
    pub fn bytes_max(&self) -> usize {
        self.edges.iter().map(Outbox::bytes_max).min().unwrap_or(usize::MAX)
    }

    /// Whether a reader is gone: the job is being taken down.
    pub fn is_closed(&self) -> bool {
        self.edges.iter().any(Outbox::is_closed)
    }
}
