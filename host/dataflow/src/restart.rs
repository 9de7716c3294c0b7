//! When a failed job starts again, and when it gives up. Pure.

use std::time::Duration;

/// How often, and after how long, a job that failed starts again from its last checkpoint. The delay doubles with each
/// failure in a row, as Flink's exponential-delay strategy has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Restarts in a row, without a checkpoint in between, before the job gives up; 0: never starts again.
    pub attempts: u32,
    /// Before the first of them.
    pub delay: Duration,
    /// No delay is longer.
    pub max_delay: Duration,
}

/// A restart that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// Which in a row, from 1.
    pub attempt: u32,
    /// After so long.
    pub delay: Duration,
}

/// Counts the failures of one job.
#[derive(Debug, Clone)]
pub struct Restarts {
    policy: RestartPolicy,
    in_a_row: u32,
}

impl Restarts {
    /// Of a job that has not failed yet.
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, in_a_row: 0 }
    }

    /// The job failed; `progressed`: it had decided a checkpoint since its last start. None: give up.
    pub fn failed(&mut self, progressed: bool) -> Option<Restart> {
        if progressed {
            self.in_a_row = 0;
        }
        if self.in_a_row == self.policy.attempts {
            return None;
        }
        let doubled = 2u32.saturating_pow(self.in_a_row);
        let delay = self.policy.delay.saturating_mul(doubled).min(self.policy.max_delay);
        self.in_a_row += 1;
        Some(Restart { attempt: self.in_a_row, delay })
    }

    /// How many restarts in a row there may be.
    pub fn attempts(&self) -> u32 {
        self.policy.attempts
    }
}

/// An error that comes again however often the job starts: the same records lead to it. The job is not started again.
#[derive(Debug)]
pub struct Permanent(pub String);

impl std::fmt::Display for Permanent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Permanent {}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RestartPolicy =
        RestartPolicy { attempts: 4, delay: Duration::from_secs(1), max_delay: Duration::from_secs(5) };

    fn delays(restarts: &mut Restarts) -> Vec<u64> {
        std::iter::from_fn(|| restarts.failed(false)).map(|restart| restart.delay.as_secs()).collect()
    }

    #[test]
    fn delay_doubles_up_to_its_limit_and_then_the_job_gives_up() {
        assert_eq!(delays(&mut Restarts::new(POLICY)), [1, 2, 4, 5]);
    }

    #[test]
    fn a_decided_checkpoint_makes_the_count_begin_anew() {
        let mut restarts = Restarts::new(POLICY);
        delays(&mut restarts);
        assert_eq!(restarts.failed(true), Some(Restart { attempt: 1, delay: Duration::from_secs(1) }));
        assert_eq!(delays(&mut restarts), [2, 4, 5]);
    }

    #[test]
    fn without_attempts_the_first_failure_is_the_last() {
        assert_eq!(Restarts::new(RestartPolicy { attempts: 0, ..POLICY }).failed(true), None);
    }
}
