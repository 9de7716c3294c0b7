//! Host bindings of both worlds, made from `wit/operator.wit`. Lists of numbers and bytes cross as whole copies; callers move
//! their columns in and out of these types and never convert element by element.

/// The world `processor`, and the interfaces both worlds share.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod processor {
    wasmtime::component::bindgen!({ path: "../wit", world: "processor", imports: { default: trappable } });
}

/// The world `aggregator`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod aggregator {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "aggregator",
        imports: { default: trappable },
        with: {
            "millstream:operator/types": super::processor::millstream::operator::types,
            "millstream:operator/log": super::processor::millstream::operator::log,
            "millstream:operator/metrics": super::processor::millstream::operator::metrics,
        },
    });
}

pub use processor::exports::millstream::operator::processing;
pub use processor::millstream::operator::{log, metrics, state, types};
