//! The functions an operator imports, under one name: the host's in wasm, an in-memory stand-in natively.
//! Everything above is the same code in both.

#[cfg(target_arch = "wasm32")]
pub(crate) use crate::bindings::{log, metrics, state};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::imports::{log, metrics, state};
