//! Rust types and functions made from `wit/operator.wit`: what crosses between operator and host.
//! The only place with generated code; the rest of the SDK uses these types as they are, natively as well.
//! Never call the imports from here: the module above does, and has a native stand-in.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated code: wit-bindgen lifts and lowers through raw memory"
)]

/// The world `processor`.
pub mod processor {
    wit_bindgen::generate!({
        path: "../wit",
        world: "processor",
        runtime_path: "::millstream_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export_processor",
        default_bindings_module: "::millstream_sdk::bindings::processor",
        additional_derives: [PartialEq, Clone],
        generate_all,
    });
}

/// The world `aggregator`, on the types of `processor`.
pub mod aggregator {
    wit_bindgen::generate!({
        path: "../wit",
        world: "aggregator",
        runtime_path: "::millstream_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export_aggregator",
        default_bindings_module: "::millstream_sdk::bindings::aggregator",
        additional_derives: [PartialEq, Clone],
        with: {
            "millstream:operator/types@0.1.0": super::processor::millstream::operator::types,
            "millstream:operator/log@0.1.0": super::processor::millstream::operator::log,
            "millstream:operator/metrics@0.1.0": super::processor::millstream::operator::metrics,
        },
    });
}

pub use aggregator::exports::millstream::operator::aggregation;
pub use processor::exports::millstream::operator::processing;
pub use processor::millstream::operator::{log, metrics, state, types};
