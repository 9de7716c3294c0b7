//! Several aggregates in one accumulator: takes rows in and out, merges, reports. Called by the window operator once per
//! batch; a loop per aggregate over its column, nothing allocated.

use super::accumulator as acc;
use super::{Aggregate, Function, Refused};
use crate::record::{Change, Column, Value, ValueType, Values};

/// Version of the encoding, in the top four bits of [`Aggregates::version`].
const ENCODING: u16 = 1;

/// What a window computes, ready to run.
#[derive(Debug, Clone)]
pub struct Aggregates {
    steps: Vec<Step>,
    width: usize,
    retracting: bool,
    version: u16,
}

#[derive(Debug, Clone)]
struct Step {
    aggregate: Aggregate,
    kind: Kind,
    column: usize,
    /// Where its bytes lie in the accumulator.
    from: usize,
    to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    CountRows,
    CountPresent,
    SumInt,
    SumFloat,
    MeanInt,
    MeanFloat,
    MinInt,
    MinFloat,
    MaxInt,
    MaxFloat,
}

impl Kind {
    fn of(aggregate: Aggregate) -> Result<Self, Refused> {
        let function = aggregate.function;
        let Some((_, value_type)) = aggregate.field else {
            return if function == Function::Count { Ok(Self::CountRows) } else { Err(Refused::NoField(function)) };
        };
        match (function, value_type) {
            (Function::Count, _) => Ok(Self::CountPresent),
            (Function::Sum, ValueType::Int) => Ok(Self::SumInt),
            (Function::Sum, ValueType::Float) => Ok(Self::SumFloat),
            (Function::Mean, ValueType::Int) => Ok(Self::MeanInt),
            (Function::Mean, ValueType::Float) => Ok(Self::MeanFloat),
            (Function::Min, ValueType::Int) => Ok(Self::MinInt),
            (Function::Min, ValueType::Float) => Ok(Self::MinFloat),
            (Function::Max, ValueType::Int) => Ok(Self::MaxInt),
            (Function::Max, ValueType::Float) => Ok(Self::MaxFloat),
            (_, value_type) => Err(Refused::NotNumeric { function, value_type }),
        }
    }

    fn width(self) -> usize {
        match self {
            Self::CountRows | Self::CountPresent => 8,
            Self::SumInt | Self::SumFloat | Self::MeanInt | Self::MeanFloat => 24,
            Self::MinInt | Self::MinFloat | Self::MaxInt | Self::MaxFloat => 9,
        }
    }
}

/// Rows of a batch and the accumulator each goes into.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The batch's columns.
    pub columns: &'a [Column],
    /// Empty where all rows are inserts.
    pub changes: &'a [Change],
    /// Rows of the batch.
    pub rows: &'a [u32],
    /// Of each of `rows`, its accumulator.
    pub cells: &'a [u32],
}

impl Aggregates {
    /// `retracting`: the input may take rows back.
    ///
    /// # Errors
    /// An aggregate that makes no sense, or cannot be undone though the input retracts.
    pub fn new(aggregates: &[Aggregate], retracting: bool) -> Result<Self, Refused> {
        let mut width = if retracting { 8 } else { 0 };
        let mut steps = Vec::with_capacity(aggregates.len());
        let mut digest = u64::from(retracting);
        for &aggregate in aggregates {
            if retracting && !aggregate.function.can_retract() {
                return Err(Refused::CannotRetract(aggregate.function));
            }
            let kind = Kind::of(aggregate)?;
            let column = aggregate.field.map_or(0, |(column, _)| column);
            steps.push(Step { aggregate, kind, column, from: width, to: width + kind.width() });
            width += kind.width();
            digest = digest.wrapping_mul(31).wrapping_add(kind as u64 + 1);
        }
        let version = ENCODING << 12 | (digest % 4093) as u16;
        Ok(Self { steps, width, retracting, version })
    }

    /// Bytes of an accumulator; an empty one is all zeros.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Tells accumulators of other aggregates or an older encoding apart: the encoding's version in the top four bits, a digest of
    /// the list of aggregates below.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Types of the results, in order.
    pub fn result_types(&self) -> impl Iterator<Item = ValueType> {
        self.steps.iter().map(|step| step.aggregate.result_type())
    }

    /// Columns of the batch that are read.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| step.aggregate.field.map(|(column, _)| column))
    }

    /// Whether every row that went in has been taken out again. Only inputs that retract can tell.
    pub fn is_empty(&self, accumulator: &[u8]) -> bool {
        self.retracting && acc::int(accumulator, 0) == 0
    }

    /// Takes rows in, or out where they are retractions, in their order. Accumulator `i` is the `i`-th [`Aggregates::width`] bytes.
    ///
    /// Invariant of the caller: columns have the types the aggregates were made for.
    pub fn accumulate(&self, rows: Rows<'_>, accumulators: &mut [u8]) {
        if self.retracting {
            fold(rows, accumulators, self.width, (0, 8), |_, bytes, sign| {
                acc::count(bytes, sign);
            });
        }
        for step in &self.steps {
            self.accumulate_one(step, rows, accumulators);
        }
    }

    fn accumulate_one(&self, step: &Step, rows: Rows<'_>, accumulators: &mut [u8]) {
        let (width, place) = (self.width, (step.from, step.to));
        if step.kind == Kind::CountRows {
            return fold(rows, accumulators, width, place, |_, bytes, sign| {
                acc::count(bytes, sign);
            });
        }
        let column = &rows.columns[step.column];
        let there = |row: usize| column.is_present(row);
        let ints = if let Values::Int(ints) = &column.values { ints.as_slice() } else { &[] };
        let floats = if let Values::Float(floats) = &column.values { floats.as_slice() } else { &[] };
        match step.kind {
            Kind::CountRows | Kind::CountPresent => fold(rows, accumulators, width, place, |row, bytes, sign| {
                if there(row) {
                    acc::count(bytes, sign);
                }
            }),
            Kind::SumInt | Kind::MeanInt => fold(rows, accumulators, width, place, |row, bytes, sign| {
                if there(row) {
                    acc::add_ints(bytes, sign, i128::from(ints[row]) * i128::from(sign));
                }
            }),
            Kind::SumFloat | Kind::MeanFloat => fold(rows, accumulators, width, place, |row, bytes, sign| {
                if there(row) {
                    acc::add_floats(bytes, sign, floats[row] * sign as f64);
                }
            }),
            Kind::MinInt | Kind::MaxInt => fold(rows, accumulators, width, place, |row, bytes, _| {
                if there(row) {
                    step.keep_int(bytes, ints[row]);
                }
            }),
            Kind::MinFloat | Kind::MaxFloat => fold(rows, accumulators, width, place, |row, bytes, _| {
                if there(row) {
                    step.keep_float(bytes, floats[row]);
                }
            }),
        }
    }

    /// Adds what `from` has seen to `into`.
    pub fn merge(&self, into: &mut [u8], from: &[u8]) {
        if self.retracting {
            acc::count(&mut into[..8], acc::int(from, 0));
        }
        for step in &self.steps {
            let (into, from) = (&mut into[step.from..step.to], &from[step.from..step.to]);
            match step.kind {
                Kind::CountRows | Kind::CountPresent => {
                    acc::count(into, acc::int(from, 0));
                }
                Kind::SumInt | Kind::MeanInt => acc::add_ints(into, acc::int(from, 0), acc::wide(from, 8)),
                Kind::SumFloat | Kind::MeanFloat => {
                    acc::add_floats(into, acc::int(from, 0), acc::float(from, 8));
                    if acc::int(into, 0) != 0 {
                        acc::set_float(into, 16, acc::float(into, 16) + acc::float(from, 16));
                    }
                }
                _ if from[0] == 0 => {}
                Kind::MinInt | Kind::MaxInt => step.keep_int(into, acc::int(from, 1)),
                Kind::MinFloat | Kind::MaxFloat => step.keep_float(into, acc::float(from, 1)),
            }
        }
    }

    /// Appends the results to `into`, one column per aggregate.
    pub fn finish(&self, accumulator: &[u8], into: &mut [Column]) {
        for (step, column) in self.steps.iter().zip(into) {
            column.push(step.result(&accumulator[step.from..step.to]));
        }
    }

    /// The sums of ints that fit no result, by the place of their aggregate: those came out absent.
    pub fn sums_beyond<'a>(&'a self, accumulator: &'a [u8]) -> impl Iterator<Item = (usize, i128)> + 'a {
        let sums = self.steps.iter().enumerate().filter(|(_, step)| step.kind == Kind::SumInt);
        let exact = sums.map(|(place, step)| (place, acc::wide(&accumulator[step.from..step.to], 8)));
        exact.filter(|(_, sum)| i64::try_from(*sum).is_err())
    }
}

impl Step {
    #[inline]
    fn keep_int(&self, bytes: &mut [u8], value: i64) {
        if self.kind == Kind::MinInt {
            acc::keep_int(bytes, value, |new, kept| new < kept);
        } else {
            acc::keep_int(bytes, value, |new, kept| new > kept);
        }
    }

    #[inline]
    fn keep_float(&self, bytes: &mut [u8], value: f64) {
        if self.kind == Kind::MinFloat {
            acc::keep_float(bytes, value, |new, kept| new.total_cmp(&kept).is_lt());
        } else {
            acc::keep_float(bytes, value, |new, kept| new.total_cmp(&kept).is_gt());
        }
    }

    fn result(&self, bytes: &[u8]) -> Value<'static> {
        let n = if bytes.len() == 9 { i64::from(bytes[0]) } else { acc::int(bytes, 0) };
        match self.kind {
            Kind::CountRows | Kind::CountPresent => Value::Int(n),
            _ if n == 0 => Value::Absent,
            Kind::SumInt => i64::try_from(acc::wide(bytes, 8)).map_or(Value::Absent, Value::Int),
            Kind::SumFloat => Value::Float(acc::float_sum(bytes)),
            Kind::MeanInt => Value::Float(acc::wide(bytes, 8) as f64 / n as f64),
            Kind::MeanFloat => Value::Float(acc::float_sum(bytes) / n as f64),
            Kind::MinInt | Kind::MaxInt => Value::Int(acc::int(bytes, 1)),
            Kind::MinFloat | Kind::MaxFloat => Value::Float(acc::float(bytes, 1)),
        }
    }
}

/// Calls `step` with each row, the bytes `place.0..place.1` of its accumulator, and 1 or −1.
#[inline]
fn fold(
    rows: Rows<'_>,
    accumulators: &mut [u8],
    width: usize,
    place: (usize, usize),
    mut step: impl FnMut(usize, &mut [u8], i64),
) {
    for (&row, &cell) in rows.rows.iter().zip(rows.cells) {
        let (row, start) = (row as usize, cell as usize * width);
        let retracts = rows.changes.get(row) == Some(&Change::Retract);
        step(row, &mut accumulators[start + place.0..start + place.1], if retracts { -1 } else { 1 });
    }
}
