//! A live copy of a processor: its store and typed calls, each under its deadline. After a fault it must not be called again.

use super::bindings::processing::{Batch, Context, Description, Effects, Failure, Firings};
use super::bindings::processor::{Processor, ProcessorPre};
use super::bindings::types;
use super::fault::Fault;
use super::host::{Host, Site, StateCalls};
use super::runtime::{Engine, ticks};
use dataflow::time::Timestamp;
use std::sync::Arc;
use wasmtime::Store;

/// A live processor. Its memory is a cache: it may be dropped between any two calls.
pub struct Instance {
    pub(super) run: Run,
    guest: Processor,
}

/// A store and the rules under which it is called.
pub(super) struct Run {
    pub(super) store: Store<Host>,
    engine: Engine,
    ticks: u64,
}

impl Run {
    pub(super) fn new(engine: &Engine, site: &Arc<Site>) -> Self {
        let mut store = Store::new(&engine.shared.wasmtime, Host::new(site.clone()));
        store.limiter(|host| &mut host.limiter);
        store.set_hostcall_fuel(site.limits.answer_bytes);
        Self { store, engine: engine.clone(), ticks: ticks(site.limits.time) }
    }

    /// Makes one call with a fresh deadline.
    #[inline]
    pub(super) fn call<T>(&mut self, call: impl FnOnce(&mut Store<Host>) -> wasmtime::Result<T>) -> Result<T, Fault> {
        let _calling = self.engine.calling();
        self.store.set_epoch_deadline(self.ticks);
        self.store.data_mut().limiter.take_refusal();
        call(&mut self.store).map_err(|error| Fault::of(&error, self.store.data_mut().limiter.take_refusal()))
    }
}

impl Instance {
    pub(super) fn start(engine: &Engine, pre: &ProcessorPre<Host>, site: &Arc<Site>) -> Result<Self, Fault> {
        let mut run = Run::new(engine, site);
        let guest = run.call(|store| pre.instantiate(store))?;
        Ok(Self { run, guest })
    }

    pub(super) fn describe(&mut self) -> Result<Description, Fault> {
        let guest = self.guest.millstream_operator_processing();
        self.run.call(|store| guest.call_describe(store))
    }

    /// Before all else. The inner error is the guest's own.
    ///
    /// # Errors
    /// It gave no answer.
    pub fn open(&mut self, config: &str) -> Result<Result<(), String>, Fault> {
        let site = self.run.store.data().site.clone();
        let context = Context {
            config: config.into(),
            operator: site.operator.clone(),
            task: site.task,
            parallelism: site.parallelism,
        };
        let guest = self.guest.millstream_operator_processing();
        self.run.call(|store| guest.call_open(store, &context))
    }

    /// Hands a batch in, with the state of its rows, which comes back after the call whatever its outcome.
    ///
    /// # Errors
    /// It gave no answer. The answer itself is unchecked.
    pub fn on_batch(
        &mut self,
        batch: &Batch,
        state: &mut Option<Box<dyn StateCalls>>,
    ) -> Result<Result<Effects, Failure>, Fault> {
        let guest = self.guest.millstream_operator_processing();
        with_state(&mut self.run, state, batch.now, |store| guest.call_on_batch(store, batch))
    }

    /// Hands due timers in, otherwise as [`Self::on_batch`].
    ///
    /// # Errors
    /// It gave no answer. The answer itself is unchecked.
    pub fn on_timers(
        &mut self,
        firings: &Firings,
        state: &mut Option<Box<dyn StateCalls>>,
    ) -> Result<Result<Effects, Failure>, Fault> {
        let guest = self.guest.millstream_operator_processing();
        with_state(&mut self.run, state, firings.now, |store| guest.call_on_timers(store, firings))
    }

    /// Brings values of a state from an older version to the declared one. The inner error is the guest's own.
    ///
    /// # Errors
    /// It gave no answer. The answer itself is unchecked.
    pub fn migrate(
        &mut self,
        state: u32,
        from: u16,
        old: &types::Column,
    ) -> Result<Result<types::Column, String>, Fault> {
        let guest = self.guest.millstream_operator_processing();
        self.run.call(|store| guest.call_migrate(store, state, u32::from(from), old))
    }

    /// Bytes of its memories. Grows only.
    pub fn memory(&self) -> usize {
        self.run.store.data().limiter.memory()
    }
}

fn with_state<T>(
    run: &mut Run,
    state: &mut Option<Box<dyn StateCalls>>,
    now: Timestamp,
    call: impl FnOnce(&mut Store<Host>) -> wasmtime::Result<T>,
) -> Result<T, Fault> {
    let host = run.store.data_mut();
    host.now = now;
    host.state = state.take();
    let answer = run.call(call);
    *state = run.store.data_mut().state.take();
    answer
}
