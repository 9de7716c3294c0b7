//! An operator's project: a folder with a Cargo package that becomes a component. Makes new ones (`template`) and builds them
//! (`compile`, `encode`); runs none. The components' meaning is the engine's business.

pub mod cases; // an operator's cases, run against its component
mod compile;
mod create;
mod encode;

pub use compile::{Built, build};
pub use create::{create, files};
pub use encode::encode;
