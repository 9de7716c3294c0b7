//! How a guest's call failed: what kind, in words, and where in the guest.

use wasmtime::{Trap, WasmBacktrace};

/// A call that gave no answer that can be used. The instance is to be thrown away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// What happened, for the author of the guest.
    pub reason: String,
    /// Where in the guest, where known.
    pub backtrace: Option<String>,
}

/// Kinds of faults, by what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The guest trapped: a panic, an abort, or a host call it may not make.
    Trap,
    /// It ran longer than it may.
    Time,
    /// It wanted more memory, or handed back more bytes, than it may.
    Memory,
    /// It answered, but the answer does not hold together.
    Answer,
    /// It answered that the call as a whole failed.
    Failed,
    /// Stored state cannot be brought to the declared version: the job cannot go on.
    Migration,
}

/// The error by which a host call says that state cannot be read by this component: fails the job, not the record.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct MigrationError(pub(super) String);

impl Fault {
    /// Without a backtrace.
    pub fn new(kind: FaultKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), backtrace: None }
    }

    /// An answer that does not hold together.
    pub fn answer(reason: impl Into<String>) -> Self {
        Self::new(FaultKind::Answer, reason)
    }

    /// From what wasmtime says, and what the limiter refused during the call.
    pub(super) fn of(error: &wasmtime::Error, refused: Option<String>) -> Self {
        let backtrace = error.downcast_ref::<WasmBacktrace>().map(|trace| trace.to_string().trim_end().to_string());
        let trap = error.downcast_ref::<Trap>();
        let cause = error.root_cause().to_string();
        let (kind, reason) = if let Some(MigrationError(reason)) = error.downcast_ref::<MigrationError>() {
            (FaultKind::Migration, reason.clone())
        } else if trap == Some(&Trap::Interrupt) {
            (FaultKind::Time, "ran longer than one call may".to_string())
        } else if let Some(refused) = refused {
            (FaultKind::Memory, refused)
        } else if cause.contains("fuel allocated for hostcalls") {
            (FaultKind::Memory, format!("handed over more bytes than one call may: {cause}"))
        } else if let Some(trap) = trap {
            (FaultKind::Trap, trap.to_string())
        } else {
            (FaultKind::Trap, cause)
        };
        Self { kind, reason, backtrace }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            FaultKind::Trap => "trapped",
            FaultKind::Time => "took too long",
            FaultKind::Memory => "used too much",
            FaultKind::Answer => "gave a bad answer",
            FaultKind::Failed => "failed",
            FaultKind::Migration => "cannot read its stored state",
        };
        write!(out, "the guest {kind}: {}", self.reason)
    }
}

impl std::error::Error for Fault {}
