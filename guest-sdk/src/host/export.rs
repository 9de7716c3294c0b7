//! An operator as the host sees it: the component's exported functions, on one instance.
//! The outermost layer in wasm; `testing` takes its place natively.

use crate::bindings::types::{self, Column, Effects, Failure};
use crate::call::{self, Plan};
use crate::declare::make;
use crate::processor::{Context, Processor};
use crate::state::Migrating;
use serde::de::DeserializeOwned;
use std::cell::OnceCell;

pub use crate::aggregator::{Instance as AggregatorInstance, describe as describe_aggregator};
pub use crate::declare::describe;

/// An opened operator.
pub struct Instance<P: Processor> {
    processor: P,
    config: P::Config,
    plan: Plan,
}

impl<P: Processor> Instance<P> {
    /// The host's `open`.
    pub fn open(context: types::Context) -> Result<Self, String> {
        crate::log::open();
        let types::Context { config, operator, task, parallelism } = context;
        let config = read_config::<P::Config>(&config)?;
        let (mut processor, mut plan) = make::<P>();
        plan.open();
        let context = Context { operator, task, parallelism };
        processor.open(&config, &context).map_err(crate::Bad::into_reason)?;
        Ok(Self { processor, config, plan })
    }

    /// The host's `on-batch`.
    pub fn on_batch(&self, batch: types::Batch) -> Result<Effects, Failure> {
        call::on_batch(&self.processor, &self.config, &self.plan, batch)
    }

    /// The host's `on-timers`.
    pub fn on_timers(&self, firings: types::Firings) -> Result<Effects, Failure> {
        call::on_timers(&self.processor, &self.config, &self.plan, firings)
    }

    /// The host's `migrate`.
    pub fn migrate(&self, state: u32, from_version: u32, old: &Column) -> Result<Column, String> {
        crate::state::migrate(&describe::<P>(), state, from_version, old, |old: &mut Migrating<'_>| {
            self.processor.migrate(old)
        })
    }
}

/// Reads the configuration; no configuration is `{}` as well as nothing.
pub(crate) fn read_config<C: DeserializeOwned>(text: &str) -> Result<C, String> {
    let read = |text: &str| serde_json::from_str(text);
    let absent = matches!(text.trim(), "" | "null" | "{}");
    let config = if absent { read("{}").or_else(|error| read("null").map_err(|_| error)) } else { read(text) };
    config.map_err(|error| format!("reading the operator's configuration: {error}"))
}

/// Where the component keeps its instance.
pub struct Slot<I>(OnceCell<I>);

impl<I> Slot<I> {
    /// Empty until `open`.
    #[expect(clippy::new_without_default, reason = "made in a const block only")]
    pub const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// Keeps the opened instance.
    pub fn fill(&self, instance: Result<I, String>) -> Result<(), String> {
        self.0.set(instance?).map_err(|_| "the instance is open already".to_owned())
    }

    /// The opened instance.
    pub fn get(&self) -> &I {
        self.0.get().expect("the host opens an instance before it calls it")
    }
}

/// Makes the crate a component that runs this processor. Give it once, in a crate of type `cdylib`.
#[macro_export]
macro_rules! export {
    ($processor:ty) => {
        const _: () = {
            fn is_processor<P: $crate::Processor>() {}
            let _ = is_processor::<$processor>;
        };
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "the generated export macro exports symbols")]
        const _: () = {
            use $crate::bindings::{processing, types};

            ::std::thread_local! {
                static INSTANCE: $crate::export::Slot<$crate::export::Instance<$processor>> =
                    const { $crate::export::Slot::new() };
            }

            struct Component;

            impl processing::Guest for Component {
                fn describe() -> types::Description {
                    $crate::export::describe::<$processor>()
                }
                fn open(context: types::Context) -> ::std::result::Result<(), ::std::string::String> {
                    INSTANCE.with(|instance| instance.fill($crate::export::Instance::open(context)))
                }
                fn on_batch(batch: types::Batch) -> ::std::result::Result<types::Effects, types::Failure> {
                    INSTANCE.with(|instance| instance.get().on_batch(batch))
                }
                fn on_timers(firings: types::Firings) -> ::std::result::Result<types::Effects, types::Failure> {
                    INSTANCE.with(|instance| instance.get().on_timers(firings))
                }
                fn migrate(
                    state: u32,
                    from_version: u32,
                    old: types::Column,
                ) -> ::std::result::Result<types::Column, ::std::string::String> {
                    INSTANCE.with(|instance| instance.get().migrate(state, from_version, &old))
                }
            }

    $crate::bindings::processor::export_processor!(Component with_types_in $crate::bindings::processor);
        };
    };
}

/// Makes the crate a component that runs this aggregator. Give it once, in a crate of type `cdylib`.
#[macro_export]
macro_rules! export_aggregator {
    ($aggregator:ty) => {
        const _: () = {
            fn is_aggregator<A: $crate::Aggregator>() {}
            let _ = is_aggregator::<$aggregator>;
        };
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "generated exports lift and lower through raw memory")]
        const _: () = {
            use ::std::{result::Result, string::String, vec::Vec};
            use $crate::bindings::{aggregation, types};

            ::std::thread_local! {
                static INSTANCE: $crate::export::Slot<$crate::export::AggregatorInstance<$aggregator>> =
                    const { $crate::export::Slot::new() };
            }

            struct Component;

            impl aggregation::Guest for Component {
                fn describe() -> aggregation::Description {
                    $crate::export::describe_aggregator::<$aggregator>()
                }
                fn open(context: types::Context) -> Result<(), String> {
                    INSTANCE.with(|instance| instance.fill($crate::export::AggregatorInstance::open(context)))
                }
                fn accumulate(
                    batch: types::Batch,
                    accumulators: types::Column,
                    acc_of: Vec<u32>,
                ) -> Result<types::Blobs, types::Failure> {
                    INSTANCE.with(|instance| instance.get().accumulate(batch, &accumulators, &acc_of))
                }
                fn retract(
                    batch: types::Batch,
                    accumulators: types::Column,
                    acc_of: Vec<u32>,
                ) -> Result<types::Blobs, types::Failure> {
                    INSTANCE.with(|instance| instance.get().retract(batch, &accumulators, &acc_of))
                }
                fn merge(left: types::Blobs, right: types::Blobs) -> Result<types::Blobs, String> {
                    INSTANCE.with(|instance| instance.get().merge(&left, &right))
                }
                fn finish(
                    keys: types::Blobs,
                    starts: Vec<types::Timestamp>,
                    ends: Vec<types::Timestamp>,
                    accumulators: types::Blobs,
                ) -> Result<types::Column, String> {
                    INSTANCE.with(|instance| instance.get().finish(&keys, &starts, &ends, &accumulators))
                }
                fn migrate(from_version: u32, old: types::Blobs) -> Result<types::Blobs, String> {
                    INSTANCE.with(|instance| instance.get().migrate(from_version, &old))
                }
            }

    $crate::bindings::aggregator::export_aggregator!(Component with_types_in $crate::bindings::aggregator);
        };
    };
}
