//! Plain lines: the empty pointer is the text, no other pointer is there.

use super::rows::{Cell, Plan, Row};
use super::{Decoded, Decoder, Span};
use bytes::Bytes;

/// Decodes plain lines.
#[derive(Debug)]
pub(super) struct Lines {
    plan: Plan,
}

impl Lines {
    pub(super) fn new(plan: Plan) -> Self {
        Self { plan }
    }
}

impl Decoder for Lines {
    fn wants_header(&self) -> bool {
        false
    }

    fn decode(&mut self, slab: &Bytes, records: &[Span]) -> anyhow::Result<Decoded> {
        let mut decoded = self.plan.begin(records.len());
        decoded.keep_raw(slab, records.len());
        let mut cells = vec![Cell::Absent; self.plan.pointers.len()];
        decoded.each_text(slab, records, |decoded, text, span| {
            for (cell, pointer) in cells.iter_mut().zip(&self.plan.pointers) {
                *cell = if pointer.is_empty() { Cell::Plain(text) } else { Cell::Absent };
            }
            self.plan.push(decoded, &cells, &[Row { whole: text, raw: (span.from, span.to), line: span.line }]);
        });
        Ok(decoded)
    }
}
