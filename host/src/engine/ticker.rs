//! Moves the engine's epoch on while guest calls run, so that a deadline can stop them. Sleeps without waking as long as none
//! runs.

use crate::env::{self, WaitPoint};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the epoch moves: a call is stopped at most this much after its time.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// One per engine.
pub(super) struct Ticker {
    shared: Arc<Shared>,
}

struct Shared {
    calls: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
    wake: WaitPoint,
}

impl Ticker {
    /// Starts the thread.
    pub(super) fn start(engine: wasmtime::Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            calls: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            wake: WaitPoint::default(),
        });
        let thread = shared.clone();
        env::spawn("epoch", move || thread.run(&engine))?;
        Ok(Self { shared })
    }

    /// A call begins; it ends when the guard goes.
    #[inline]
    pub(super) fn call(&self) -> Calling {
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.shared.wake.notify();
        }
        Calling { shared: self.shared.clone() }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake.notify();
    }
}

/// While it lives, the epoch moves.
pub(super) struct Calling {
    shared: Arc<Shared>,
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.shared.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn run(&self, engine: &wasmtime::Engine) {
        while !self.stop.load(Ordering::SeqCst) {
            // Why: `asleep` is set before `calls` is looked at, and a caller does it the other way round, so one sees the other.
            self.asleep.store(true, Ordering::SeqCst);
            let idle = self.calls.load(Ordering::SeqCst) == 0;
            if idle {
                self.wake.wait(None);
            }
            self.asleep.store(false, Ordering::SeqCst);
            if !idle {
                self.wake.wait(Some(TICK));
                engine.increment_epoch();
            }
        }
    }
}
