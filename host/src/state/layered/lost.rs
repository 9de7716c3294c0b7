//! How a task ends whose state is lost.

/// The state is lost to the task: what its thread unwinds with. Reads and writes have no errors of their own, since nobody
/// could go on behind one; whoever runs the task catches it, and the job goes on from its last checkpoint.
#[derive(Debug)]
pub struct StateLost(pub anyhow::Error);

impl StateLost {
    /// Runs what uses state; its loss becomes an error.
    ///
    /// # Errors
    /// The state is lost: why. Or what `run` says.
    pub fn catch<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(outcome) => outcome,
            Err(panic) => match panic.downcast::<Self>() {
                Ok(lost) => Err(lost.0),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }

    pub(in crate::state) fn unwind(why: anyhow::Error) -> ! {
        // Why: not `panic!`, which would tell the user of a bug where there is a broken disk.
        std::panic::resume_unwind(Box::new(Self(why)))
    }
}
