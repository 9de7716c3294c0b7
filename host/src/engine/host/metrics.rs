//! The `metrics` interface: numbers an operator reports, summed over its tasks and instances, read by telemetry.

use super::Host;
use crate::engine::bindings::metrics;
use std::sync::{Mutex, PoisonError};
use wasmtime::bail;

/// Most bytes of a metric's name.
const NAME_BYTES_MAX: usize = 128;

/// What the guests of one operator report.
#[derive(Debug)]
pub struct GuestMetrics {
    max: usize,
    known: Mutex<Vec<(String, MetricValue)>>,
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricValue {
    /// A sum that only grows.
    Counter(u64),
    /// The last value set.
    Gauge(f64),
    /// What was observed: how many, their sum, least and greatest.
    Histogram {
        /// How many.
        count: u64,
        /// Their sum.
        sum: f64,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
}

impl GuestMetrics {
    /// For at most `max` metrics.
    pub fn new(max: usize) -> Self {
        Self { max, known: Mutex::default() }
    }

    /// All metrics by name, in the order they were registered.
    pub fn read(&self) -> Vec<(String, MetricValue)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn register(&self, name: String, zero: MetricValue) -> wasmtime::Result<u32> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(other, _)| *other == name) {
            if std::mem::discriminant(&known[at].1) != std::mem::discriminant(&zero) {
                bail!("metric `{name}` was registered as another kind");
            }
            return Ok(at as u32);
        }
        if known.len() == self.max {
            bail!("metric `{name}` is one more than the {} an operator may have", self.max);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            bail!("a metric's name has 1 to {NAME_BYTES_MAX} bytes");
        }
        known.push((name, zero));
        Ok(known.len() as u32 - 1)
    }

    fn change(&self, metric: u32, change: impl FnOnce(&mut MetricValue) -> bool) -> wasmtime::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(metric as usize) {
            Some((name, value)) => {
                if !change(value) {
                    bail!("metric `{name}` is of another kind than the call is for");
                }
                Ok(())
            }
            None => bail!("metric {metric} was not registered"),
        }
    }
}

const EMPTY: MetricValue = MetricValue::Histogram { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

impl metrics::Host for Host {
    fn counter(&mut self, name: String) -> wasmtime::Result<u32> {
        self.site.metrics.register(name, MetricValue::Counter(0))
    }

    fn gauge(&mut self, name: String) -> wasmtime::Result<u32> {
        self.site.metrics.register(name, MetricValue::Gauge(0.0))
    }

    fn histogram(&mut self, name: String) -> wasmtime::Result<u32> {
        self.site.metrics.register(name, EMPTY)
    }

    fn add(&mut self, metric: u32, delta: u64) -> wasmtime::Result<()> {
        self.site.metrics.change(metric, |value| match value {
            MetricValue::Counter(sum) => {
                *sum = sum.saturating_add(delta);
                true
            }
            _ => false,
        })
    }

    fn set(&mut self, metric: u32, to: f64) -> wasmtime::Result<()> {
        self.site.metrics.change(metric, |value| match value {
            MetricValue::Gauge(last) => {
                *last = to;
                true
            }
            _ => false,
        })
    }

    fn observe(&mut self, metric: u32, values: Vec<f64>) -> wasmtime::Result<()> {
        self.site.metrics.change(metric, |value| match value {
            MetricValue::Histogram { count, sum, min, max } => {
                *count += values.len() as u64;
                *sum += values.iter().sum::<f64>();
                *min = values.iter().copied().fold(*min, f64::min);
                *max = values.iter().copied().fold(*max, f64::max);
                true
            }
            _ => false,
        })
    }
}
