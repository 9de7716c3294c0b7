//! Names and inputs of the built-in aggregates, and which combinations make sense. Computes nothing.

use crate::record::ValueType;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A built-in aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Rows, or rows that have the field.
    Count,
    /// Of ints exact, as an int; of floats compensated.
    Sum,
    /// Smallest value.
    Min,
    /// Largest value.
    Max,
    /// Sum by number of values, a float.
    Mean,
}

impl Function {
    /// All of them, for messages that list what there is.
    pub const ALL: [Self; 5] = [Self::Count, Self::Sum, Self::Min, Self::Max, Self::Mean];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Mean => "mean",
        }
    }

    /// Whether a row that went in can be taken out again.
    pub fn can_retract(self) -> bool {
        !matches!(self, Self::Min | Self::Max)
    }
}

/// One aggregate of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aggregate {
    /// What is computed.
    pub function: Function,
    /// Over which column of the batch, and what it holds; none: over rows.
    pub field: Option<(usize, ValueType)>,
}

/// Why an aggregate cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    /// Only rows can be counted without a field.
    #[error("`{}` without a field: only `count` works on whole rows; name the field to aggregate", .0.name())]
    NoField(Function),
    /// Arithmetic needs numbers.
    #[error("`{}` over a {} field: it works on int and float", .function.name(), .value_type.name())]
    NotNumeric {
        /// The aggregate.
        function: Function,
        /// What the field holds.
        value_type: ValueType,
    },
    /// The input takes rows back.
    #[error("`{}` behind an input that retracts: a row cannot be taken out of it again; use `count`, `sum` or `mean`", .0.name())]
    CannotRetract(Function),
}

impl Aggregate {
    /// What its results are.
    pub fn result_type(&self) -> ValueType {
        match (self.function, self.field) {
            (Function::Count, _) | (_, None) => ValueType::Int,
            (Function::Mean, _) => ValueType::Float,
            (_, Some((_, value_type))) => value_type,
        }
    }
}
