//! The process's engine: wasmtime's settings, what guests may import, the ticker and the cache. One per process; cloning shares it.

use super::cache::Cache;
use super::host::Host;
use super::ticker::{Calling, TICK, Ticker};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

/// What an engine is made with.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Where compiled components are kept; none: nowhere.
    pub cache: Option<PathBuf>,
    /// Largest component taken, bytes.
    pub component_bytes: usize,
    /// Instances that can live at the same time in the process.
    pub instances: u32,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self { cache: None, component_bytes: 64 << 20, instances: 4096 }
    }
}

/// Compiles and instantiates components.
#[derive(Clone)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) wasmtime: wasmtime::Engine,
    pub(super) processors: Linker<Host>,
    pub(super) aggregators: Linker<Host>,
    pub(super) cache: Option<Cache>,
    pub(super) component_bytes: usize,
    ticker: Ticker,
}

impl Engine {
    /// An engine with its ticker thread.
    ///
    /// # Errors
    /// The machine refuses the address space or the thread.
    pub fn new(settings: EngineSettings) -> anyhow::Result<Self> {
        let wasmtime = wasmtime::Engine::new(&pooled(settings.instances)).or_else(|error| {
            tracing::warn!(%error, "no address space for a pool of instances, allocating each by itself");
            wasmtime::Engine::new(&config())
        })?;
        let ticker = Ticker::start(wasmtime.clone())?;
        let shared = Shared {
            processors: super::host::processor_linker(&wasmtime)?,
            aggregators: super::host::aggregator_linker(&wasmtime)?,
            cache: settings.cache.map(|directory| Cache::new(directory, &wasmtime)),
            component_bytes: settings.component_bytes,
            wasmtime,
            ticker,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// While the answer lives, deadlines count.
    #[inline]
    pub(super) fn calling(&self) -> Calling {
        self.shared.ticker.call()
    }
}

/// Ticks after which a call that may run for `time` is stopped; the tick under way does not count.
pub(super) fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX / 2) + 1
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // Why: with it every call costs three to four times as much, and no guest here is async.
        .concurrency_support(false)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed);
    config
}

fn pooled(instances: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    // A component is a few core instances (its code and adapters) around one memory.
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(4))
        .total_memories(instances)
        .total_tables(instances.saturating_mul(4))
        .max_tables_per_module(4)
        .max_unused_warm_slots(16);
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
