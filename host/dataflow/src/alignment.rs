//! When a task with several inputs takes its snapshot (aligned barriers: Carbone et al., "Lightweight Asynchronous
//! Snapshots for Distributed Dataflows", 2015). Returns decisions; the task holds inputs and snapshots.

use crate::checkpoint::CheckpointId;

/// Which inputs of one task have delivered the barrier under way.
#[derive(Debug)]
pub struct Alignment {
    current: Option<CheckpointId>,
    delivered: Vec<bool>,
    ended: Vec<bool>,
}

/// What the task does now.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Decision {
    /// Take nothing more from inputs that have delivered; go on with the others.
    Wait,
    /// All inputs have delivered: snapshot, forward the barrier, go on with all inputs.
    Snapshot(CheckpointId),
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
    pub fn barrier(&mut self, input: usize, checkpoint: CheckpointId) -> Decision {
        match self.current {
            Some(current) if checkpoint < current => return Decision::Nothing,
            Some(current) if checkpoint == current => {}
            _ => {
                self.current = Some(checkpoint);
                self.delivered.fill(false);
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
        self.current.is_some() && self.delivered[input]
    }

    /// Whether every input has ended.
    pub fn all_ended(&self) -> bool {
        self.ended.iter().all(|&ended| ended)
    }

    fn decide(&mut self) -> Decision {
        let complete = self.delivered.iter().zip(&self.ended).all(|(&delivered, &ended)| delivered || ended);
        match self.current {
            Some(checkpoint) if complete => {
                self.current = None;
                self.delivered.fill(false);
                Decision::Snapshot(checkpoint)
            }
            _ => Decision::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_comes_when_the_last_input_delivers() {
        let mut alignment = Alignment::new(2);
        assert_eq!(alignment.barrier(1, CheckpointId(1)), Decision::Wait);
        assert!(alignment.holds(1) && !alignment.holds(0));
        assert_eq!(alignment.barrier(0, CheckpointId(1)), Decision::Snapshot(CheckpointId(1)));
        assert!(!alignment.holds(1));
    }

    #[test]
    fn ended_input_counts_as_having_delivered() {
        let mut alignment = Alignment::new(2);
        assert_eq!(alignment.end(0), Decision::Nothing);
        assert_eq!(alignment.barrier(1, CheckpointId(1)), Decision::Snapshot(CheckpointId(1)));
        assert_eq!(alignment.barrier(1, CheckpointId(2)), Decision::Snapshot(CheckpointId(2)));
    }

    #[test]
    fn input_that_ends_during_alignment_completes_it() {
        let mut alignment = Alignment::new(2);
        assert_eq!(alignment.barrier(0, CheckpointId(1)), Decision::Wait);
        assert_eq!(alignment.end(1), Decision::Snapshot(CheckpointId(1)));
        assert!(!alignment.all_ended());
    }

    #[test]
    fn newer_barrier_replaces_an_abandoned_one() {
        let mut alignment = Alignment::new(2);
        alignment.barrier(0, CheckpointId(1));
        assert_eq!(alignment.barrier(1, CheckpointId(2)), Decision::Wait);
        assert!(!alignment.holds(0));
        assert_eq!(alignment.barrier(0, CheckpointId(2)), Decision::Snapshot(CheckpointId(2)));
    }
}
