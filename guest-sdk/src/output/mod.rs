//! What an operator sends: rows appended straight into the columns that cross to the host.
//! Last on the record's path in the guest. A row is never an allocation of its own.

mod buffer; // the rows of one output in the running call
mod columns; // columns being filled
mod emission; // a row with what differs from its origin
mod side; // further outputs
mod whole; // outputs of whole values

pub(crate) use buffer::OutputBuffer;
pub use columns::{ColumnBuilder, OutputValue};
pub use emission::Emission;
pub use side::Side;
pub(crate) use side::SideBuffer;
pub use whole::Json;

use crate::bindings::types::{Body, OutputField};

/// The rows of an output. Derive it on a struct: each field is a column, which needs no encoding here and which the host writes as
/// JSON, Avro, … where it is wanted. Fields are text, bytes, integers, floats, booleans, and `Option` of these; they may
/// borrow. Outputs of whole values are [`Json`], `Vec<u8>` (bytes as they are), or `()` (records only pass).
pub trait Output: 'static {
    /// The row as it is given to `emit`: for a struct that borrows, the one with any lifetime.
    type Row<'r>;
    /// The columns being filled.
    #[doc(hidden)]
    type Columns: Default + 'static;

    /// Names and types of the columns; none for whole values.
    fn declare() -> Vec<OutputField>;
    /// Adds a row.
    #[doc(hidden)]
    fn append(row: Self::Row<'_>, columns: &mut Self::Columns);
    /// What crosses to the host.
    #[doc(hidden)]
    fn finish(columns: Self::Columns) -> Body;
}

/// Outputs without declared columns, so that a record may go on as it came. Passing to others does not compile:
///
/// ```compile_fail,E0277
/// use millstream_sdk::prelude::*;
/// #[derive(Output)]
/// struct Line { text: String }
/// fn route(late: &Side<Line>, at: &millstream_sdk::Scope) {
///     late.pass(at);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a record cannot pass to an output of `{Self}` rows",
    note = "an output with declared columns carries only rows of these columns: use `type Output = ()` (or `Side<()>`, or `Json<_>`) for records that pass"
)]
pub trait WholeRecords: Output {}
