//! What a guest may call: one file per imported interface. Nothing else is linked.

mod log;
mod metrics;
mod state;

pub use state::StateCalls;

use super::bindings::{self, aggregator, processor};
use super::limits::{Limiter, Limits};
use crate::telemetry::GuestMetrics;
use dataflow::time::Timestamp;
use log::LogBudget;
use std::sync::Arc;
use wasmtime::component::{HasSelf, Linker};

/// Where instances run: one operator in one task. Outlives instances.
#[derive(Debug)]
pub struct Site {
    /// The operator's name in the job.
    pub operator: String,
    /// Which task.
    pub task: u32,
    /// Of how many.
    pub parallelism: u32,
    /// What an instance may use.
    pub limits: Limits,
    /// What the operator's guests report; shared by its tasks.
    pub metrics: Arc<GuestMetrics>,
    log: LogBudget,
}

impl Site {
    /// A site with metrics of its own.
    pub fn new(operator: &str, task: u32, parallelism: u32, limits: Limits) -> Self {
        Self {
            operator: operator.into(),
            task,
            parallelism,
            metrics: Arc::new(GuestMetrics::new(limits.metrics)),
            limits,
            log: LogBudget::default(),
        }
    }

    /// The same, reporting to `metrics`.
    #[must_use]
    pub fn reporting_to(self, metrics: Arc<GuestMetrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Where components are described.
    pub(super) fn nowhere() -> Arc<Self> {
        Arc::new(Self::new("describe", 0, 1, Limits::default()))
    }
}

/// What an instance's store holds.
pub struct Host {
    pub(super) site: Arc<Site>,
    pub(super) limiter: Limiter,
    /// Processing time of the running call.
    pub(super) now: Timestamp,
    /// The state of the running call's rows; none outside calls and for guests without states.
    pub(super) state: Option<Box<dyn StateCalls>>,
}

impl Host {
    pub(super) fn new(site: Arc<Site>) -> Self {
        Self { limiter: Limiter::new(&site.limits), site, now: 0, state: None }
    }
}

impl bindings::types::Host for Host {}

pub(super) fn processor_linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    processor::Processor::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host)?;
    Ok(linker)
}

pub(super) fn aggregator_linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    aggregator::Aggregator::add_to_linker::<_, HasSelf<Host>>(&mut linker, |host| host)?;
    Ok(linker)
}
