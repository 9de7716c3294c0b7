//! What a job says about a guest, as the planner hands it over.

use super::lower::FieldSource;
use crate::engine::Limits;
use dataflow::record::Batch;
use std::sync::Arc;

/// What to do with a record that a guest fails on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Put it aside with the reason.
    #[default]
    DeadLetter,
    /// Count it and forget it.
    Skip,
    /// Fail the job.
    Fail,
}

/// Changes a batch on its way out of a port, such that it has the columns that are read downstream.
pub type Reshape = Arc<dyn Fn(Batch) -> Batch + Send + Sync>;

/// One input as the job wires it.
#[derive(Debug, Clone, Default)]
pub struct GuestInput {
    /// For each field that the description wants of this input, in its order: where it comes from.
    pub fields: Vec<FieldSource>,
    /// Rows of it may write broadcast maps.
    pub broadcast: bool,
}

/// One port as the job wires it. Ports with declared columns send those, by position, and need nothing.
#[derive(Clone, Default)]
pub struct GuestPort {
    /// Nobody reads it: what goes there is dropped.
    pub unread: bool,
    /// Takes the fields read downstream out of the bytes that the guest put out (`Batch::raw`).
    pub decode: Option<Reshape>,
    /// Picks the columns read downstream out of rows passed on; by input. Missing: they pass as they are.
    pub pass: Vec<Option<Reshape>>,
}

/// How a guest is run in a job.
#[derive(Clone)]
pub struct GuestSettings {
    /// The operator's configuration.
    pub config: serde_json::Value,
    /// Where guilty records go.
    pub on_error: OnError,
    /// What an instance may use.
    pub limits: Limits,
    /// Inputs, in the description's order.
    pub inputs: Vec<GuestInput>,
    /// Ports, in the description's order; missing ones are as the default.
    pub ports: Vec<GuestPort>,
    /// Guilty records in a row that fail the job.
    pub guilty_in_a_row: u32,
    /// Every call gets a fresh instance: shows whether a guest keeps state in its memory.
    pub replace_every_call: bool,
}

impl Default for GuestSettings {
    fn default() -> Self {
        Self {
            config: serde_json::Value::Object(serde_json::Map::new()),
            on_error: OnError::default(),
            limits: Limits::default(),
            inputs: vec![],
            ports: vec![],
            guilty_in_a_row: 100,
            replace_every_call: false,
        }
    }
}
