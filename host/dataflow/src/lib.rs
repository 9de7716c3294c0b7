//! The rules of the stream, in the order a record meets them. Pure: no I/O, no clock, no threads, no async, so that
//! every rule can be tested in microseconds and none can come to depend on Kafka, wasmtime or a disk.

#![deny(missing_docs)]

pub mod record; // what flows: batches of typed columns
pub mod key; // which key a row belongs to, and which key group and task own that key
pub mod time; // event time, its units, its bounds
pub mod element; // what travels in a channel
pub mod watermark; // how far event time has come
pub mod alignment; // when a task with several inputs takes its snapshot
pub mod window; // which window a record belongs to, until when
pub mod aggregate; // what windows compute
pub mod checkpoint; // consistent cuts: ids, manifests, progress
pub mod replay; // what a restored task is given again
pub mod graph; // nodes, edges, chains, and which columns flow where
pub mod restart; // when a failed job starts again
pub mod model; // windows, timers and expiry in their plainest form, for tests to compare with
