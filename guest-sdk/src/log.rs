//! Lines for the operator's log: `millstream_sdk::info!("card {} is quiet", at.key())`.
//! The level is asked once, in `open`; a line below it is not even formatted.

use crate::host;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

pub use crate::bindings::log::Level;

static LEAST: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Whether lines of this level are kept.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 >= LEAST.load(Ordering::Relaxed)
}

/// Writes a line. The macros are shorter.
pub fn write(level: Level, line: fmt::Arguments<'_>) {
    if enabled(level) {
        host::log::write(level, &line.to_string());
    }
}

/// Learns the level. A panic is written to the log before it becomes a trap.
pub(crate) fn open() {
    LEAST.store(host::log::enabled() as u8, Ordering::Relaxed);
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| host::log::write(Level::Error, &panic.to_string())));
}

/// Writes a line at level trace.
#[macro_export]
macro_rules! trace {
    ($($line:tt)*) => { $crate::log::write($crate::log::Level::Trace, ::std::format_args!($($line)*)) };
}

/// Writes a line at level debug.
#[macro_export]
macro_rules! debug {
    ($($line:tt)*) => { $crate::log::write($crate::log::Level::Debug, ::std::format_args!($($line)*)) };
}

/// Writes a line at level info.
#[macro_export]
macro_rules! info {
    ($($line:tt)*) => { $crate::log::write($crate::log::Level::Info, ::std::format_args!($($line)*)) };
}

/// Writes a line at level warn: surprising, but the operator goes on.
#[macro_export]
macro_rules! warn {
    ($($line:tt)*) => { $crate::log::write($crate::log::Level::Warn, ::std::format_args!($($line)*)) };
}

/// Writes a line at level error: somebody must act.
#[macro_export]
macro_rules! error {
    ($($line:tt)*) => { $crate::log::write($crate::log::Level::Error, ::std::format_args!($($line)*)) };
}
