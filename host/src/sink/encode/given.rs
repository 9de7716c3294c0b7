//! What stands in a record where a column has no value: an object, an array or a number beyond 64 bits fits no column, but a sink
//! writes it as the record has it. Looked up only for rows with such fields; knows nothing of formats.

use super::Chosen;
use dataflow::record::Batch;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Texts for some places of a batch.
#[derive(Debug, Default)]
pub(in crate::sink) struct Given<'a> {
    texts: BTreeMap<(usize, usize), Cow<'a, str>>,
}

impl<'a> Given<'a> {
    /// For the `chosen` columns of a batch whose rows are records as a source or a component made them.
    pub(in crate::sink) fn of<'c>(batch: &'a Batch, chosen: impl IntoIterator<Item = &'c Chosen>) -> Self {
        let mut given = Self::default();
        let Some(raw) = batch.raw.as_ref().filter(|_| !batch.faults.is_empty()) else { return given };
        let chosen: BTreeMap<usize, &Chosen> = chosen.into_iter().map(|column| (column.position, column)).collect();
        for fault in &batch.faults {
            let (row, position) = (fault.row as usize, usize::from(fault.column));
            let column = chosen.get(&position).filter(|_| !batch.columns[position].is_present(row));
            let text = column.and_then(|column| text_at(raw.get(row)?, if column.whole { &[] } else { &column.path }));
            given.texts.extend(text.map(|text| ((row, position), text)));
        }
        given
    }

    /// The JSON text for column `position` of row `row`, on one line; none where the column says all.
    #[inline]
    pub(in crate::sink) fn get(&self, row: usize, position: usize) -> Option<&str> {
        if self.texts.is_empty() {
            return None;
        }
        self.texts.get(&(row, position)).map(|text| &**text)
    }
}

/// The text of the object, array or number at a path of a JSON record.
fn text_at<'a>(record: &'a [u8], path: &[String]) -> Option<Cow<'a, str>> {
    let mut value: &RawValue = serde_json::from_slice(record).ok()?;
    for step in path {
        value = if value.get().starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            items.get(step.parse::<usize>().ok()?).copied()?
        } else {
            let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(value.get()).ok()?;
            members.get(step.as_str()).copied()?
        };
    }
    let text = value.get();
    let is_more = text.starts_with(|first: char| matches!(first, '{' | '[' | '-' | '0'..='9'));
    // A line end in JSON stands only between its tokens.
    let one_line = |text: &'a str| match text.contains(['\n', '\r']) {
        true => Cow::Owned(text.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(text),
    };
    is_more.then(|| one_line(text))
}
