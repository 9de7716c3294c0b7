//! What windows compute without a guest: `count`, `sum`, `min`, `max` and `mean` over columns, several at once.
//!
//! An accumulator is a fixed number of bytes that the host keeps as state. It is changed in place, row by row and in the
//! rows' order, so that results do not depend on where batches were cut.
//!
//! ```text
//! accumulator   [rows i64]  aggregate  aggregate  …        all little-endian; rows only where inputs retract
//! count         n i64
//! sum, mean     n i64 · sum i128                           of ints: exact
//!               n i64 · sum f64 · compensation f64         of floats: Neumaier's summation
//! min, max      n u8 (0: none yet) · i64 or f64
//! ```
//!
//! A row without the field counts for nothing but for `count` without a field. The sum, mean, minimum or maximum of no
//! value is absent, and so is a sum of ints that does not fit 64 bits: a wrong number would be worse than none.
//! Floats are compared in the total order of IEEE 754 (−0 < 0 < ∞ < NaN).

mod accumulator;
mod aggregates;
mod function;

#[cfg(test)]
mod tests;

pub use aggregates::{Aggregates, Rows};
pub use function::{Aggregate, Function, Refused};
