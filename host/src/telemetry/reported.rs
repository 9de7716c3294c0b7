//! What the guests of an operator report of themselves: counters, gauges and histograms, summed over its tasks and instances.

use std::fmt;
use std::sync::{Mutex, PoisonError};

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

impl fmt::Display for MetricValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Counter(sum) => write!(formatter, "{sum}"),
            Self::Gauge(last) => write!(formatter, "{last}"),
            Self::Histogram { count: 0, .. } => write!(formatter, "nothing observed"),
            Self::Histogram { count, sum, min, max } => {
                write!(formatter, "{count} observed, mean {:.3}, from {min} to {max}", sum / count as f64)
            }
        }
    }
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

    /// The number of a metric, which begins as `zero` unless it is known.
    ///
    /// # Errors
    /// It is known as another kind, is one too many, or has no proper name.
    pub fn register(&self, name: String, zero: MetricValue) -> Result<u32, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(other, _)| *other == name) {
            if std::mem::discriminant(&known[at].1) != std::mem::discriminant(&zero) {
                return Err(format!("metric `{name}` was registered as another kind"));
            }
            return Ok(at as u32);
        }
        if known.len() == self.max {
            return Err(format!("metric `{name}` is one more than the {} an operator may have", self.max));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a metric's name has 1 to {NAME_BYTES_MAX} bytes"));
        }
        known.push((name, zero));
        Ok(known.len() as u32 - 1)
    }

    /// Changes a metric; `change` says whether it is of the kind.
    ///
    /// # Errors
    /// There is no such metric, or it is of another kind.
    pub fn change(&self, metric: u32, change: impl FnOnce(&mut MetricValue) -> bool) -> Result<(), String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(metric as usize) {
            Some((name, value)) => {
                if !change(value) {
                    return Err(format!("metric `{name}` is of another kind than the call is for"));
                }
                Ok(())
            }
            None => Err(format!("metric {metric} was not registered")),
        }
    }
}

#[test]
fn metrics_are_summed_and_shown_by_their_kind() {
    let metrics = GuestMetrics::new(3);
    let counter = metrics.register("seen".into(), MetricValue::Counter(0)).unwrap();
    let times =
        metrics.register("ms".into(), MetricValue::Histogram { count: 3, sum: 7.0, min: 1.0, max: 4.5 }).unwrap();
    assert_eq!((counter, times, metrics.register("seen".into(), MetricValue::Counter(0))), (0, 1, Ok(0)));
    let add = |value: &mut MetricValue| {
        if let MetricValue::Counter(sum) = value {
            *sum += 5;
        }
        matches!(value, MetricValue::Counter(_))
    };
    metrics.change(counter, add).unwrap();
    assert!(metrics.change(times, add).is_err());
    assert!(metrics.register("seen".into(), MetricValue::Gauge(0.0)).is_err());
    let shown: Vec<String> = metrics.read().iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(shown, ["seen 5", "ms 3 observed, mean 2.333, from 1 to 4.5"]);
}
