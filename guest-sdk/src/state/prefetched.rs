//! A prefetched state in the running call: the values that came in with the batch, changed in place.
//! Only keys that were written go back, each once, by its last write. Values that are not scalars are decoded once per key and call.

use super::stored::{Stored, from_boolean, from_bytes, from_float, from_int, to_boolean, to_bytes, to_float, to_int};
use crate::Bad;
use crate::bindings::types::{Blobs, Column, StateWrite, Values};
use crate::call::PrefetchPlan;
use crate::input::{blob, end_of, no_blobs};
use std::any::Any;

/// The values of one state, by key.
pub(crate) struct Prefetched {
    state: u32,
    renewed_by_reads: bool,
    present: Vec<bool>,
    /// The row that last wrote each key's value, or [`NOBODY`].
    writers: Vec<u32>,
    written: bool,
    cells: Cells,
}

const NOBODY: u32 = u32::MAX;

enum Cells {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Boolean(Vec<bool>),
    Blobs(Decoded),
}

/// Values of variable size: as they came, and as they are once touched.
struct Decoded {
    text: bool,
    came: Blobs,
    /// Empty until the first is touched.
    values: Vec<Option<Box<dyn Any>>>,
    encode: Option<Encode>,
}

type Encode = fn(&dyn Any, &mut Vec<u8>) -> Result<(), Bad>;

impl Prefetched {
    pub(crate) fn new(plan: &PrefetchPlan, column: Column, keys: usize) -> Self {
        let decoded = |text, came| Cells::Blobs(Decoded { text, came, values: Vec::new(), encode: None });
        let cells = match column.values {
            Values::Int(values) => Cells::Int(values),
            Values::Float(values) => Cells::Float(values),
            Values::Boolean(values) => Cells::Boolean(values),
            Values::Text(blobs) => decoded(true, blobs),
            Values::Bytes(blobs) => decoded(false, blobs),
        };
        Self {
            state: plan.state,
            renewed_by_reads: plan.renewed_by_reads,
            present: column.present.unwrap_or_else(|| vec![true; keys]),
            writers: vec![NOBODY; keys],
            written: false,
            cells,
        }
    }

    #[inline]
    pub(crate) fn get<T: Stored>(&mut self, key: usize, row: u32) -> Result<Option<T>, Bad> {
        if !self.present[key] {
            return Ok(None);
        }
        if self.renewed_by_reads {
            self.write(key, row);
        }
        match &mut self.cells {
            Cells::Int(values) => from_int(values[key]).map(Some),
            Cells::Float(values) => Ok(Some(from_float(values[key]))),
            Cells::Boolean(values) => Ok(Some(from_boolean(values[key]))),
            Cells::Blobs(decoded) => decoded.value::<T>(key).map(|value| Some(value.clone())),
        }
    }

    /// Calls `look` with a value that is not a scalar, in place.
    pub(crate) fn modify<T: Stored, R>(
        &mut self,
        key: usize,
        row: u32,
        default: impl FnOnce() -> T,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Bad> {
        let present = self.present[key];
        if let Cells::Blobs(decoded) = &mut self.cells {
            if !present {
                decoded.put(key, default());
            }
            let answer = change(decoded.value::<T>(key)?);
            self.present[key] = true;
            self.write(key, row);
            return Ok(answer);
        }
        let mut value = self.get(key, row)?.unwrap_or_else(default);
        let answer = change(&mut value);
        self.set(key, row, value);
        Ok(answer)
    }

    #[inline]
    pub(crate) fn set<T: Stored>(&mut self, key: usize, row: u32, value: T) {
        match &mut self.cells {
            Cells::Int(values) => values[key] = to_int(&value),
            Cells::Float(values) => values[key] = to_float(&value),
            Cells::Boolean(values) => values[key] = to_boolean(&value),
            Cells::Blobs(decoded) => decoded.put(key, value),
        }
        self.present[key] = true;
        self.write(key, row);
    }

    #[inline]
    pub(crate) fn clear(&mut self, key: usize, row: u32) {
        self.present[key] = false;
        self.write(key, row);
    }

    #[inline]
    fn write(&mut self, key: usize, row: u32) {
        self.writers[key] = row;
        self.written = true;
    }

    /// The keys that were written; none if none was. Values that cannot be encoded are refused with the row that wrote them.
    pub(crate) fn finish(self, mut refuse: impl FnMut(usize, Bad)) -> Option<StateWrite> {
        if !self.written {
            return None;
        }
        let keys: Vec<usize> = (0..self.writers.len()).filter(|key| self.writers[*key] != NOBODY).collect();
        let rows = keys.iter().map(|key| self.writers[*key]).collect();
        let present: Vec<bool> = keys.iter().map(|key| self.present[*key]).collect();
        let values = match self.cells {
            Cells::Int(values) => Values::Int(keys.iter().map(|key| values[*key]).collect()),
            Cells::Float(values) => Values::Float(keys.iter().map(|key| values[*key]).collect()),
            Cells::Boolean(values) => Values::Boolean(keys.iter().map(|key| values[*key]).collect()),
            Cells::Blobs(decoded) => {
                let mut blobs = no_blobs();
                for (key, present) in keys.iter().zip(&present) {
                    let done = if *present { decoded.write(*key, &mut blobs.bytes) } else { Ok(()) };
                    if let Err(bad) = done {
                        refuse(self.writers[*key] as usize, bad);
                    }
                    blobs.ends.push(end_of(&blobs.bytes));
                }
                if decoded.text { Values::Text(blobs) } else { Values::Bytes(blobs) }
            }
        };
        let present = present.contains(&false).then_some(present);
        Some(StateWrite { state: self.state, rows, values: Column { present, values } })
    }
}

impl Decoded {
    /// The decoded value of a key that has one.
    fn value<T: Stored>(&mut self, key: usize) -> Result<&mut T, Bad> {
        if self.values.get(key).is_none_or(Option::is_none) {
            let value = from_bytes::<T>(blob(&self.came, key))?;
            self.put(key, value);
        }
        let value = self.values[key].as_mut().expect("the value was decoded just now");
        Ok(value.downcast_mut().expect("a state keeps the type it was declared with"))
    }

    fn put<T: Stored>(&mut self, key: usize, value: T) {
        if self.values.is_empty() {
            self.values.resize_with(self.came.ends.len(), || None);
            self.encode = Some(|value, bytes| {
                let value: &T = value.downcast_ref().expect("a state keeps the type it was declared with");
                to_bytes(value, bytes)
            });
        }
        match self.values[key].as_mut().and_then(|old| old.downcast_mut::<T>()) {
            Some(old) => *old = value,
            None => self.values[key] = Some(Box::new(value)),
        }
    }

    fn write(&self, key: usize, bytes: &mut Vec<u8>) -> Result<(), Bad> {
        match (self.values.get(key), self.encode) {
            (Some(Some(value)), Some(encode)) => encode(value.as_ref(), bytes),
            _ => {
                bytes.extend_from_slice(blob(&self.came, key));
                Ok(())
            }
        }
    }
}
