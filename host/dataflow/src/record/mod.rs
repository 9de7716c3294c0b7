//! What flows: batches of records as a struct of arrays. A record is never its own allocation, and it is parsed once:
//! the fields that later nodes declare lie beside the raw bytes as typed columns.

mod batch;
mod column;
pub mod stored; // as bytes

pub use batch::{Batch, Change, Fault, Headers, Origin, Raw};
pub use column::{Blobs, Column, Field, Schema, Value, ValueType, Values};
