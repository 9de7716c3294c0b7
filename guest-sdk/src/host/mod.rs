//! The functions an operator imports, under one name: the host's in wasm, an in-memory stand-in natively.
//! Everything above is the same code in both.

pub mod bindings; // the WIT package as Rust
pub mod export; // an operator as a component

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::imports::{log, metrics, state};
#[cfg(target_arch = "wasm32")]
pub(crate) use bindings::{log, metrics, state};
