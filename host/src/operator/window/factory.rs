//! What a window operator is made of, and its making for each task. Refuses what cannot work before anything runs.

use super::Aggregator;
use super::operator::WindowOperator;
use super::panes;
use crate::operator::{Operator, OperatorFactory, TaskInfo};
use crate::state::{StateDeclaration, StateKind};
use crate::telemetry::GuestMetrics;
use anyhow::{Context as _, bail};
use dataflow::checkpoint::AggregateEntry;
use dataflow::record::Schema;
use dataflow::window::{Lateness, Tumbling};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A window as the job has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSettings {
    /// Length of a window, ms.
    pub size_ms: i64,
    /// Where one starts, ms from the Unix epoch.
    pub offset_ms: i64,
    /// How long after its end a window takes records, ms.
    pub allowed_lateness_ms: i64,
    /// Pointers of the key fields, in order; none: one window for all records, in a single task.
    pub key: Vec<String>,
    /// Whether somebody reads port 1, to which records go that came too late.
    pub late_output: bool,
    /// Whether the input may take rows back.
    pub input_retracts: bool,
    /// Pointers of the columns that aggregates read, to name them.
    pub fields: BTreeMap<usize, String>,
}

/// Makes window operators.
pub struct WindowFactory {
    windows: Tumbling,
    lateness: Lateness,
    settings: WindowSettings,
    aggregator: Arc<dyn Aggregator>,
}

impl WindowFactory {
    /// Port 0 carries panes.
    pub const PANES: usize = 0;
    /// Port 1 carries records that came too late, untouched.
    pub const LATE: usize = 1;

    /// A window that computes what `aggregator` says.
    ///
    /// # Errors
    /// Lengths that make no window, or an aggregator that cannot undo rows behind an input that takes rows back.
    pub fn new(settings: WindowSettings, aggregator: Arc<dyn Aggregator>) -> anyhow::Result<Self> {
        let windows = Tumbling::new(settings.size_ms, settings.offset_ms)?;
        let lateness = Lateness::new(settings.allowed_lateness_ms)?;
        if settings.input_retracts && !aggregator.supports_retract() {
            bail!(
                "the window's input takes rows back, and the aggregator cannot: use aggregates that can be undone \
                 (`count`, `sum`, `mean`, or a guest with `retracts`)"
            );
        }
        Ok(Self { windows, lateness, settings, aggregator })
    }

    /// The columns whose faults put a row aside, with their pointers.
    fn reads(&self) -> Vec<(usize, String)> {
        let pointer = |column: usize| self.settings.fields.get(&column).cloned().unwrap_or_default();
        self.aggregator.reads().into_iter().map(|column| (column, pointer(column))).collect()
    }

    /// The columns of its panes.
    pub fn schema(&self) -> Schema {
        panes::schema(&self.settings.key, self.aggregator.columns())
    }
}

impl OperatorFactory for WindowFactory {
    fn states(&self) -> Vec<StateDeclaration> {
        vec![StateDeclaration {
            name: "windows".to_string(),
            version: self.aggregator.version(),
            kind: StateKind::Windows,
            ttl: None,
        }]
    }

    fn made_for(&self) -> Option<String> {
        Some(match self.aggregator.migrates() {
            true => self.windows.to_string(),
            false => format!("{}, aggregates of encoding {:#x}", self.windows, self.aggregator.version()),
        })
    }

    fn aggregates(&self) -> Vec<AggregateEntry> {
        self.aggregator.entries()
    }

    fn reports(&self) -> Vec<Arc<GuestMetrics>> {
        self.aggregator.reports()
    }

    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Operator>> {
        if self.settings.key.is_empty() && task.parallelism != 1 {
            bail!("window `{}` has no key, so it must run in one task: set `parallelism: 1` or a key", task.operator);
        }
        let logic = self
            .aggregator
            .create(task)
            .with_context(|| format!("making the aggregator of window `{}`", task.operator))?;
        let layout = panes::Layout::new(&task.operator, &self.settings.key, self.aggregator.columns());
        let operator = WindowOperator::new(
            task,
            (self.windows, self.lateness),
            (self.settings.late_output, self.aggregator.supports_retract()),
            layout,
            (logic, self.aggregator.version(), self.reads()),
        );
        Ok(Box::new(operator))
    }
}
