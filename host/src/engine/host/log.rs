//! The `log` interface: lines go to the host's log with the operator's name, so many per second and no more.

use super::Host;
use crate::engine::bindings::log;
use dataflow::time::Timestamp;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use tracing::level_filters::LevelFilter;

/// Most bytes of a line.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Counts the lines of one second of processing time.
#[derive(Debug, Default)]
pub(super) struct LogBudget {
    second: AtomicI64,
    lines: AtomicU32,
}

impl LogBudget {
    /// Whether a line may still be written, and how many were left out in the second before.
    fn take(&self, now: Timestamp, max: u32) -> (bool, u32) {
        let second = now.div_euclid(1000);
        let left_out = if self.second.swap(second, Ordering::Relaxed) == second {
            0
        } else {
            self.lines.swap(0, Ordering::Relaxed).saturating_sub(max)
        };
        (self.lines.fetch_add(1, Ordering::Relaxed) < max, left_out)
    }
}

impl log::Host for Host {
    fn enabled(&mut self) -> wasmtime::Result<log::Level> {
        let least = LevelFilter::current();
        Ok(match least.into_level() {
            Some(tracing::Level::TRACE) => log::Level::Trace,
            Some(tracing::Level::DEBUG) => log::Level::Debug,
            Some(tracing::Level::INFO) => log::Level::Info,
            Some(tracing::Level::WARN) => log::Level::Warn,
            Some(tracing::Level::ERROR) | None => log::Level::Error,
        })
    }

    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let site = &self.site;
        let (kept, left_out) = site.log.take(self.now, site.limits.log_lines);
        let (operator, task) = (site.operator.as_str(), site.task);
        if left_out > 0 {
            tracing::warn!(target: "guest", operator, task, left_out, "log lines beyond the limit were dropped");
        }
        if !kept {
            return Ok(());
        }
        let line = &message[..message.floor_char_boundary(LINE_BYTES_MAX)];
        match level {
            log::Level::Trace => tracing::trace!(target: "guest", operator, task, "{line}"),
            log::Level::Debug => tracing::debug!(target: "guest", operator, task, "{line}"),
            log::Level::Info => tracing::info!(target: "guest", operator, task, "{line}"),
            log::Level::Warn => tracing::warn!(target: "guest", operator, task, "{line}"),
            log::Level::Error => tracing::error!(target: "guest", operator, task, "{line}"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_dropped_and_told_in_the_next_second() {
        let budget = LogBudget::default();
        let kept: Vec<bool> = (0..4).map(|_| budget.take(5_000, 2).0).collect();
        assert_eq!(kept, [true, true, false, false]);
        assert_eq!(budget.take(6_000, 2), (true, 2));
    }
}
