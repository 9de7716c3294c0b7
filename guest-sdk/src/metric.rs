//! Metrics: numbers about the operator's work, added up in guest memory and reported once a call.

use crate::Scope;
use crate::declare::{Handle, NoOptions, Registry};
use crate::host;

/// A number that only grows, such as duplicates seen. Named by its field.
pub struct Counter {
    index: usize,
}

/// A number that goes up and down; the last one set in a call stands. Named by its field.
pub struct Gauge {
    index: usize,
}

/// The distribution of a number. Named by its field.
pub struct Histogram {
    index: usize,
}

impl Counter {
    /// Adds to the counter.
    #[inline]
    pub fn add(&self, at: &Scope<'_>, delta: u64) {
        if let Tally::Count(count) = &mut *at.call.metrics[self.index].borrow_mut() {
            *count += delta;
        }
    }
}

impl Gauge {
    /// Sets the gauge.
    #[inline]
    pub fn set(&self, at: &Scope<'_>, value: f64) {
        *at.call.metrics[self.index].borrow_mut() = Tally::Last(Some(value));
    }
}

impl Histogram {
    /// Adds a value to the distribution.
    #[inline]
    pub fn observe(&self, at: &Scope<'_>, value: f64) {
        if let Tally::Values(values) = &mut *at.call.metrics[self.index].borrow_mut() {
            values.push(value);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// What a metric came to in the running call.
pub(crate) enum Tally {
    Count(u64),
    Last(Option<f64>),
    Values(Vec<f64>),
}

impl MetricKind {
    pub(crate) fn tally(self) -> Tally {
        match self {
            Self::Counter => Tally::Count(0),
            Self::Gauge => Tally::Last(None),
            Self::Histogram => Tally::Values(Vec::new()),
        }
    }

    /// Registers with the host, in `open`.
    pub(crate) fn register(self, name: &str) -> u32 {
        match self {
            Self::Counter => host::metrics::counter(name),
            Self::Gauge => host::metrics::gauge(name),
            Self::Histogram => host::metrics::histogram(name),
        }
    }
}

impl Tally {
    /// Reports at the end of the call, if there is anything to report.
    pub(crate) fn report(self, metric: u32) {
        match self {
            Self::Count(0) | Self::Last(None) => {}
            Self::Count(delta) => host::metrics::add(metric, delta),
            Self::Last(Some(value)) => host::metrics::set(metric, value),
            Self::Values(values) if values.is_empty() => {}
            Self::Values(values) => host::metrics::observe(metric, &values),
        }
    }
}

macro_rules! metric_handle {
    ($($kind:ident)*) => { $(
        impl Handle for $kind {
            type Options = NoOptions;

            fn declare(registry: &mut Registry, name: &'static str, _: NoOptions) -> Self {
                registry.metrics.push((MetricKind::$kind, name));
                Self { index: registry.metrics.len() - 1 }
            }
        }
    )* };
}

metric_handle!(Counter Gauge Histogram);
