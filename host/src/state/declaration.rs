//! What an operator says about a state before it uses it: its name, how its rows are reached, when they expire.

pub use dataflow::checkpoint::StateKind;
use dataflow::time::Clock;

/// A state as its operator declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct StateDeclaration {
    /// Name, unique within the operator.
    pub name: String,
    /// Encoding version of the values.
    pub version: u16,
    /// What its rows are.
    pub kind: StateKind,
    /// When rows expire.
    pub ttl: Option<Ttl>,
}

impl StateDeclaration {
    /// How rows are reached.
    pub fn access(&self) -> Access {
        match self.kind {
            StateKind::Value => Access::Point,
            StateKind::Windows => Access::Sliced,
            _ => Access::Ordered,
        }
    }
}

/// How the rows of a state are reached; lets a backend choose its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// One row at a time; a scan may come in any order. Values.
    Point,
    /// By prefix, in byte order. Lists, maps, timers.
    Ordered,
    /// By the first 8 bytes (the slice's end) in order, then one row at a time; a scan within a slice may come in any
    /// order. Windows.
    Sliced,
}

/// Time to live of a state's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl {
    /// How long after the write, ms.
    pub ms: i64,
    /// Which clock counts it.
    pub clock: Clock,
    /// Reading counts as writing.
    pub renewed_by_reads: bool,
}
