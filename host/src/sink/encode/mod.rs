//! Rows become text: NDJSON, CSV or raw lines. Between a sink's `write` and its target; one reusable buffer, prefixes made
//! once, nothing allocated per row. It never decides when a row becomes visible: that is the sink's business.

mod chosen;
mod csv;
mod given; // fields that fit no column
mod json;
mod value;
mod whole;

pub(in crate::sink) use chosen::flat_names;
pub use chosen::{Chosen, choose};
pub(in crate::sink) use given::Given;
pub use value::{Times, push_time};

use super::SinkInput;
use anyhow::bail;
use dataflow::record::Batch;
use serde::{Deserialize, Serialize};

/// How a row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object per line. Pointers nest, a value that is absent is `null`, a float that JSON cannot write is
    /// `null`, bytes are base64, a row taken back has the extra field `"change":"retract"`. An object, an array and a number beyond
    /// 64 bits stand as the record has them. Whole values stand as they came, but for line ends, which become spaces.
    #[default]
    #[serde(alias = "json")]
    Ndjson,
    /// CSV with a header line. Nested names are joined by `_`; an absent value is empty, an empty text `""`, an object or an array
    /// its JSON text.
    Csv,
    /// The value as it is and a line end; line ends inside are written as `\n` and `\r`.
    Raw,
}

impl Format {
    /// How names of files in this format end, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Raw => "txt",
        }
    }
}

/// How rows become text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How a row is written.
    pub format: Format,
    /// How times are written.
    pub times: Times,
    /// Only these columns, by pointer or flat name, in this order; empty: all.
    pub columns: Vec<String>,
}

/// Writes batches of one edge as text.
#[derive(Debug)]
pub struct Encoder {
    rows: Rows,
    printer: value::Printer,
}

#[derive(Debug)]
enum Rows {
    Json(json::Plan),
    Csv(csv::Plan),
    Column(Chosen),
    Whole(Format),
}

impl Encoder {
    /// For rows as `input` describes them.
    ///
    /// # Errors
    /// The rows do not fit the format, or two columns would get the same name.
    pub fn new(settings: &Settings, input: &SinkInput) -> anyhow::Result<Self> {
        let rows = match (settings.format, input.whole_values) {
            (Format::Csv, true) => {
                bail!("sink `{}` gets whole values, which CSV has no columns for: name `columns`", input.sink)
            }
            (format, true) => Rows::Whole(format),
            (Format::Ndjson, false) => Rows::Json(json::Plan::new(&choose(&settings.columns, input)?, &input.sink)?),
            (Format::Csv, false) => Rows::Csv(csv::Plan::new(choose(&settings.columns, input)?, &input.sink)?),
            (Format::Raw, false) => match <[Chosen; 1]>::try_from(choose(&settings.columns, input)?) {
                Ok([column]) => Rows::Column(column),
                Err(columns) => bail!(
                    "sink `{}` gets rows of {} columns, `format: raw` writes one: name it in `columns`",
                    input.sink,
                    columns.len()
                ),
            },
        };
        Ok(Self { rows, printer: value::Printer::new(settings.times) })
    }

    /// What stands once before all rows: the header of CSV, nothing otherwise.
    pub fn header(&self) -> &[u8] {
        match &self.rows {
            Rows::Csv(plan) => plan.header(),
            _ => &[],
        }
    }

    /// Appends the batch's rows, each with its line end.
    ///
    /// # Errors
    /// A row is taken back and the format cannot say so.
    pub fn write(&mut self, batch: &Batch, out: &mut Vec<u8>) -> anyhow::Result<()> {
        match &self.rows {
            Rows::Json(plan) => plan.write(batch, &mut self.printer, out),
            Rows::Csv(plan) => return plan.write(batch, &mut self.printer, out),
            Rows::Column(column) => return whole::write_column(batch, column, &mut self.printer, out),
            Rows::Whole(Format::Raw) => return whole::write_lines(batch, out),
            Rows::Whole(_) => return whole::write_json(batch, out),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
