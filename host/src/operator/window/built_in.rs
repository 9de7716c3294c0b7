//! The host's own aggregates behind the window's seam. Thin: the arithmetic is in `dataflow::aggregate`.

use super::{Accumulate, Accumulators, Aggregator, Bad, Finishing, Rows};
use crate::operator::TaskInfo;
use anyhow::bail;
use dataflow::aggregate::{self, Aggregate, Aggregates, Refused};
use dataflow::checkpoint::AggregateEntry;
use dataflow::record::{Blobs, Column, Field};

/// Built-in aggregates with the names of their columns.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    aggregates: Aggregates,
    columns: Vec<Field>,
    entries: Vec<AggregateEntry>,
    retracts: bool,
    blank: Vec<u8>,
}

impl BuiltIn {
    /// Aggregates by the pointer of their column. `retracting`: the input may take rows back.
    ///
    /// # Errors
    /// One of them cannot be computed.
    pub fn new(aggregates: &[(String, Aggregate)], retracting: bool) -> Result<Self, Refused> {
        let list: Vec<Aggregate> = aggregates.iter().map(|(_, aggregate)| *aggregate).collect();
        let columns = aggregates.iter().map(|(name, aggregate)| Field::new(name, aggregate.result_type())).collect();
        let entry = |(column, aggregate): &(String, Aggregate)| AggregateEntry {
            column: column.clone(),
            function: Some(aggregate.function),
            of: aggregate.field.map(|(_, value_type)| value_type),
        };
        let entries = aggregates.iter().map(entry).collect();
        let aggregates = Aggregates::new(&list, retracting)?;
        let blank = vec![0; aggregates.width()];
        Ok(Self { aggregates, columns, entries, retracts: list.iter().all(|it| it.function.can_retract()), blank })
    }
}

impl Aggregator for BuiltIn {
    fn columns(&self) -> Vec<Field> {
        self.columns.clone()
    }

    fn entries(&self) -> Vec<AggregateEntry> {
        self.entries.clone()
    }

    fn version(&self) -> u16 {
        self.aggregates.version()
    }

    fn supports_retract(&self) -> bool {
        self.retracts
    }

    fn reads(&self) -> Vec<usize> {
        self.aggregates.columns().collect()
    }

    fn create(&self, _task: &TaskInfo) -> anyhow::Result<Box<dyn Accumulate>> {
        Ok(Box::new(self.clone()))
    }
}

impl Accumulate for BuiltIn {
    fn blank(&self) -> &[u8] {
        &self.blank
    }

    fn accumulate(&mut self, rows: &Rows<'_>, accumulators: &mut Accumulators) -> anyhow::Result<Vec<Bad>> {
        rows.cells.iter().for_each(|&cell| accumulators.present[cell as usize] = true);
        let rows = aggregate::Rows {
            columns: &rows.batch.columns,
            changes: &rows.batch.changes,
            rows: rows.rows,
            cells: rows.cells,
        };
        self.aggregates.accumulate(rows, &mut accumulators.bytes.bytes);
        Ok(vec![])
    }

    fn merge(&mut self, left: &Blobs, right: &Blobs) -> anyhow::Result<Blobs> {
        let mut merged = left.clone();
        let width = self.aggregates.width();
        for (into, from) in merged.bytes.chunks_exact_mut(width).zip(right.bytes.chunks_exact(width)) {
            self.aggregates.merge(into, from);
        }
        Ok(merged)
    }

    fn finish(&mut self, panes: &Finishing<'_>, results: &mut [Column]) -> anyhow::Result<Vec<Bad>> {
        let mut beyond = vec![];
        for (index, accumulator) in panes.accumulators.iter().enumerate() {
            self.aggregates.finish(accumulator, results);
            let sums: Vec<String> = (self.aggregates.sums_beyond(accumulator))
                .map(|(place, sum)| format!("`{}` is {sum}", self.columns[place].pointer))
                .collect();
            if !sums.is_empty() {
                let reason = format!(
                    "a sum goes beyond 64 bits, and is null in the pane: {}; `type: float` in its aggregate gives it rounded",
                    sums.join(", ")
                );
                beyond.push(Bad { index: index as u32, reason, is_sent: true, component: None, backtrace: None });
            }
        }
        Ok(beyond)
    }

    fn is_empty(&self, accumulator: &[u8]) -> bool {
        self.aggregates.is_empty(accumulator)
    }

    fn migrate(&mut self, from: u16, _old: &Blobs) -> anyhow::Result<Blobs> {
        bail!(
            "the windows in the state were computed by other aggregates (encoding {from:#06x}, now {:#06x}): put the job's \
             aggregates back as they were, give the operator a new name, or start over with `--fresh`",
            self.aggregates.version()
        )
    }
}
