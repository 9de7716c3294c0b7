//! The `metrics` interface: numbers an operator reports. A call that makes no sense traps.

use super::Host;
use crate::engine::bindings::metrics;
use crate::telemetry::MetricValue;

fn registered(host: &Host, name: String, zero: MetricValue) -> wasmtime::Result<u32> {
    host.site.metrics.register(name, zero).map_err(wasmtime::Error::msg)
}

fn changed(host: &Host, metric: u32, change: impl FnOnce(&mut MetricValue) -> bool) -> wasmtime::Result<()> {
    host.site.metrics.change(metric, change).map_err(wasmtime::Error::msg)
}

const EMPTY: MetricValue = MetricValue::Histogram { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

impl metrics::Host for Host {
    fn counter(&mut self, name: String) -> wasmtime::Result<u32> {
        registered(self, name, MetricValue::Counter(0))
    }

    fn gauge(&mut self, name: String) -> wasmtime::Result<u32> {
        registered(self, name, MetricValue::Gauge(0.0))
    }

    fn histogram(&mut self, name: String) -> wasmtime::Result<u32> {
        registered(self, name, EMPTY)
    }

    fn add(&mut self, metric: u32, delta: u64) -> wasmtime::Result<()> {
        changed(self, metric, |value| match value {
            MetricValue::Counter(sum) => {
                *sum = sum.saturating_add(delta);
                true
            }
            _ => false,
        })
    }

    fn set(&mut self, metric: u32, to: f64) -> wasmtime::Result<()> {
        changed(self, metric, |value| match value {
            MetricValue::Gauge(last) => {
                *last = to;
                true
            }
            _ => false,
        })
    }

    fn observe(&mut self, metric: u32, values: Vec<f64>) -> wasmtime::Result<()> {
        changed(self, metric, |value| match value {
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
