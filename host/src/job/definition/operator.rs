//! An operator as the job file has it: what it reads, by which key, and its logic: a window with aggregates, or a guest.

use super::{Place, Pointer, Reference};
use dataflow::record::ValueType;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// One entry of `operators`.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Its name in the job.
    pub name: String,
    /// Where it is written.
    pub place: Place,
    /// What it reads, at least one.
    pub inputs: Vec<Input>,
    /// What it does.
    pub logic: Logic,
    /// Tasks; none: as the job says.
    pub parallelism: Option<usize>,
}

/// One input of an operator.
#[derive(Debug, Clone)]
pub struct Input {
    /// The guest's name for it; none for `input:` and for lists, where the order counts.
    pub name: Option<String>,
    /// Whose output it is.
    pub from: Reference,
    /// The fields that make its key, in order; empty: not keyed.
    pub key: Vec<Pointer>,
    /// Every task gets every record.
    pub broadcast: bool,
}

/// What an operator does.
#[derive(Debug, Clone)]
pub enum Logic {
    /// Collects records in windows and computes aggregates of them.
    Window(Window),
    /// Calls a guest component of the world `processor`.
    Guest(Guest),
}

/// A window and what it computes.
#[derive(Debug, Clone)]
pub struct Window {
    /// Which windows a record belongs to.
    pub kind: WindowKind,
    /// A late record is accepted until the watermark reaches the window's end plus this, ms.
    pub allowed_lateness_ms: i64,
    /// What is computed, in the file's order, at least one.
    pub aggregates: Vec<Aggregate>,
}

/// Which windows a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// One: windows of `size_ms` end to end, shifted by `offset_ms` from the epoch.
    Tumbling {
        /// Length, ms, at least 1.
        size_ms: i64,
        /// Shift, ms; may be negative.
        offset_ms: i64,
    },
}

/// One aggregate of a window.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// Name of its column, without the slash.
    pub name: String,
    /// Where it is written.
    pub place: Place,
    /// What it computes.
    pub function: AggregateFunction,
}

/// What an aggregate computes.
#[derive(Debug, Clone)]
pub enum AggregateFunction {
    /// One of the host's.
    BuiltIn {
        /// Which.
        function: BuiltIn,
        /// Of which field; none only for `count`, which counts rows then.
        field: Option<Pointer>,
        /// The field's type; none: that of the declared column it comes from, else float (text for `min` and `max` is
        /// asked for with `type: text`).
        value_type: Option<ValueType>,
    },
    /// A guest component of the world `aggregator`.
    Guest(Guest),
}

/// The host's aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    /// Rows, or rows that have the field.
    Count,
    /// Sum.
    Sum,
    /// Least.
    Min,
    /// Greatest.
    Max,
    /// Arithmetic mean.
    Mean,
}

/// A guest component and how it is run.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Where its code is.
    pub component: Component,
    /// Where that is written.
    pub place: Place,
    /// Its configuration.
    pub config: serde_json::Value,
    /// Fields it gets from elsewhere than it declares, by its names.
    pub fields: BTreeMap<String, Pointer>,
    /// What happens to a record it fails on.
    pub on_error: OnError,
    /// What one instance may use.
    pub limits: Limits,
    /// States without an end are meant.
    pub keep_forever: bool,
}

/// Where a component's code is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Component {
    /// A `.wasm` file.
    File(PathBuf),
    /// An operator project's folder, built before it is run.
    Project(PathBuf),
}

/// What happens to a record that a guest fails on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// It is put aside with the reason.
    DeadLetter,
    /// It is counted and forgotten.
    Skip,
    /// The job fails.
    Fail,
}

/// What one instance may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all its memories.
    pub memory: u64,
    /// Time of one call.
    pub time: Duration,
    /// Rows that one call may put out.
    pub output_records: u64,
    /// Bytes that one call may put out.
    pub output_bytes: u64,
}
