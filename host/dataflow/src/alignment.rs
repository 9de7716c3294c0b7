//! When a task with several inputs takes its snapshot (aligned barriers: Carbone et al., "Lightweight Asynchronous
//! Snapshots for Distributed Dataflows", 2015; barriers that overtake: Chandy and Lamport, "Distributed Snapshots", 1985, as
//! Flink has them). Returns decisions; the task holds inputs, snapshots and keeps copies.

use crate::checkpoint::CheckpointId;
use crate::element::{Barrier, Cut};

/// Which inputs of one task have delivered the barrier under way.
#[derive(Debug)]
pub struct Alignment {
    current: Option<Barrier>,
    delivered: Vec<bool>,
    ended: Vec<bool>,
}

/// What the task does now.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Decision {
    /// Take nothing more from inputs that are held; go on with the others.
    Wait,
    /// All inputs have delivered: snapshot, forward the barrier, go on with all inputs.
    Snapshot(Barrier),
    /// The first barrier of a checkpoint that overtakes: snapshot and forward it at once, and copy what comes from the inputs that
    /// are [`Alignment::copies`].
    Overtake {
        /// The barrier to forward.
        barrier: Barrier,
        /// It was the last as well.
        complete: bool,
    },
    /// The last barrier of one that overtakes: nothing more is copied.
    Copied(CheckpointId),
    /// Nothing changes.
    Nothing,
}

impl Alignment {
    /// For a task with `inputs` channels.
    pub fn new(inputs: usize) -> Self {
        assert!(inputs > 0, "a task that aligns has at least one input");
        Self { current: None, delivered: vec![false; inputs], ended: vec![false; inputs] }
    }

    /// A barrier came on `input`. A barrier newer than the one under way replaces it: the older checkpoint was abandoned.
    pub fn barrier(&mut self, input: usize, barrier: Barrier) -> Decision {
        match self.current {
            Some(current) if barrier.checkpoint < current.checkpoint => return Decision::Nothing,
            Some(current) if barrier.checkpoint == current.checkpoint => {}
            _ => {
                self.current = Some(barrier);
                self.delivered.fill(false);
                self.delivered[input] = true;
                if barrier.cut == Cut::Overtaking {
                    return Decision::Overtake { barrier, complete: self.decide() != Decision::Wait };
                }
            }
        }
        self.delivered[input] = true;
        self.decide()
    }

    /// `input` ended: it counts as having delivered every later barrier.
    pub fn end(&mut self, input: usize) -> Decision {
        self.ended[input] = true;
        if self.current.is_none() { Decision::Nothing } else { self.decide() }
    }

    /// Whether `input` is held until the others have delivered.
    pub fn holds(&self, input: usize) -> bool {
        self.current.is_some_and(|barrier| barrier.cut.holds()) && self.delivered[input]
    }

    /// Whether what comes from `input` was sent before the barrier that has overtaken, and belongs to its checkpoint.
    pub fn copies(&self, input: usize) -> bool {
        self.current.is_some_and(|barrier| barrier.cut == Cut::Overtaking) && !self.delivered[input]
    }

    /// Whether every input has ended.
    pub fn all_ended(&self) -> bool {
        self.ended.iter().all(|&ended| ended)
    }

    fn decide(&mut self) -> Decision {
        let complete = self.delivered.iter().zip(&self.ended).all(|(&delivered, &ended)| delivered || ended);
        match self.current {
            Some(barrier) if complete => {
                self.current = None;
                self.delivered.fill(false);
                if barrier.cut == Cut::Overtaking {
                    Decision::Copied(barrier.checkpoint)
                } else {
                    Decision::Snapshot(barrier)
                }
            }
            _ => Decision::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(checkpoint: u64) -> Barrier {
        Barrier { checkpoint: CheckpointId(checkpoint), cut: Cut::Settled }
    }

    #[test]
    fn snapshot_comes_when_the_last_input_delivers() {
        let mut alignment = Alignment::new(2);
        assert_eq!(alignment.barrier(1, settled(1)), Decision::Wait);
        assert!(alignment.holds(1) && !alignment.holds(0));
        assert_eq!(alignment.barrier(0, settled(1)), Decision::Snapshot(settled(1)));
        assert!(!alignment.holds(1));
    }

    #[test]
    fn ended_input_counts_as_having_delivered() {
        let mut alignment = Alignment::new(2);
        assert_eq!(alignment.end(0), Decision::Nothing);
        assert_eq!(alignment.barrier(1, settled(1)), Decision::Snapshot(settled(1)));
        assert_eq!(alignment.barrier(1, settled(2)), Decision::Snapshot(settled(2)));
    }

    #[test]
    fn input_that_ends_during_alignment_completes_it() {
        let mut alignment = Alignment::new(2);
        assert_eq!(alignment.barrier(0, settled(1)), Decision::Wait);
        assert_eq!(alignment.end(1), Decision::Snapshot(settled(1)));
        assert!(!alignment.all_ended());
    }

    #[test]
    fn newer_barrier_replaces_an_abandoned_one() {
        let mut alignment = Alignment::new(2);
        alignment.barrier(0, settled(1));
        assert_eq!(alignment.barrier(1, settled(2)), Decision::Wait);
        assert!(!alignment.holds(0));
        assert_eq!(alignment.barrier(0, settled(2)), Decision::Snapshot(settled(2)));
    }

    #[test]
    fn loose_barrier_holds_no_input() {
        let mut alignment = Alignment::new(2);
        let loose = Barrier { cut: Cut::Loose, ..settled(1) };
        assert_eq!(alignment.barrier(0, loose), Decision::Wait);
        assert!(!alignment.holds(0) && !alignment.holds(1));
        assert_eq!(alignment.barrier(1, loose), Decision::Snapshot(loose));
    }

    #[test]
    fn overtaking_barrier_takes_the_snapshot_at_once_and_copies_until_the_last_has_come() {
        let mut alignment = Alignment::new(3);
        let overtaking = Barrier { cut: Cut::Overtaking, ..settled(1) };
        assert_eq!(alignment.barrier(1, overtaking), Decision::Overtake { barrier: overtaking, complete: false });
        assert!((0..3).all(|input| !alignment.holds(input)));
        assert!(alignment.copies(0) && !alignment.copies(1) && alignment.copies(2));
        assert_eq!(alignment.barrier(0, overtaking), Decision::Wait);
        assert_eq!(alignment.end(2), Decision::Copied(CheckpointId(1)));
        assert!((0..3).all(|input| !alignment.copies(input)));
    }

    #[test]
    fn overtaking_barrier_of_a_single_input_is_first_and_last() {
        let mut alignment = Alignment::new(1);
        let overtaking = Barrier { cut: Cut::Overtaking, ..settled(1) };
        assert_eq!(alignment.barrier(0, overtaking), Decision::Overtake { barrier: overtaking, complete: true });
        assert!(!alignment.copies(0));
    }
}
