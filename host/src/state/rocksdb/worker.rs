//! What runs beside a task: applies frozen layers to the database, and links its files aside for snapshots. A layer that the
//! database refuses stays, and is tried again with the next one.

use super::base::Base;
use super::expiry::Judge;
use super::stored;
use super::upload::{Cut, Uploads};
use crate::state::layered::{Answers, Frozen, Layer, RowRef, Table, Worker};
use crate::state::{Address, StateNumber};
use anyhow::anyhow;
use dataflow::checkpoint::CheckpointId;
use dataflow::key::KeyGroup;
use rocksdb::SstFileWriter;
use std::collections::VecDeque;
use std::sync::Arc;

/// See the module.
pub(super) struct Applier {
    base: Arc<Base>,
    answers: Answers,
    /// Layers that are not applied yet, oldest first.
    waiting: VecDeque<Frozen>,
    uploads: Uploads,
}

impl Applier {
    pub(super) fn new(base: Arc<Base>, answers: Answers) -> Self {
        let uploads = Uploads::new(base.files.clone(), base.take_restored(), answers.clone());
        Self { base, answers, waiting: VecDeque::new(), uploads }
    }

    fn apply(&self, frozen: &Frozen) -> anyhow::Result<()> {
        self.base.expiry.set(frozen.clocks);
        if frozen.layer.is_empty() {
            return Ok(());
        }
        let judge = self.base.expiry.judge();
        self.base.database.add_table(|file| {
            in_order(&frozen.layer).into_iter().try_for_each(|(group, state, table)| {
                let group = KeyGroup(self.base.first_group + group as u16);
                self.write(file, (group, state), table, &judge)
            })
        })
    }

    fn write(
        &self,
        file: &mut SstFileWriter<'_>,
        (group, state): (KeyGroup, StateNumber),
        table: &Table,
        judge: &Judge,
    ) -> anyhow::Result<()> {
        let mut rows: Vec<RowRef<'_>> = table.iter().map(|(_, row)| row).collect();
        rows.sort_unstable_by_key(|row| row.key());
        let (mut key, mut value) = (vec![], vec![]);
        for row in rows {
            key.clear();
            stored::push_key(Address { group, state, row: row.key() }, &mut key);
            match row.bytes() {
                Some(bytes) if !judge.is_gone(state, row.meta().expiry) => {
                    value.clear();
                    stored::push_value(row.meta(), bytes, &mut value);
                    file.put(&key, &value)?;
                }
                bytes => {
                    // Why: an older row of the key may lie below, and must not come back in place of an expired one.
                    file.delete(&key)?;
                    self.base.expiry.count(bytes.map_or(0, |_| row.stored_size()));
                }
            }
        }
        Ok(())
    }

    /// Links the files of what is applied now; the upload goes on beside what is applied next.
    fn cut(&mut self, checkpoint: CheckpointId) -> bool {
        let folder = self.base.database.folder().join(format!("snapshot-{checkpoint}"));
        let cut = match self.base.database.link_to(&folder) {
            Ok(true) => Cut::Linked(folder),
            Ok(false) => Cut::Nothing,
            Err(error) => Cut::Failed(error),
        };
        self.uploads.send(checkpoint, cut)
    }

    fn refused(&mut self, error: &anyhow::Error) -> bool {
        for frozen in &mut self.waiting {
            if let Some(checkpoint) = frozen.checkpoint.take()
                && !self.uploads.send(checkpoint, Cut::Failed(anyhow!("{error:#}")))
            {
                return false;
            }
        }
        self.answers.refused(error)
    }
}

impl Worker for Applier {
    fn take(&mut self, frozen: Frozen) -> bool {
        self.waiting.push_back(frozen);
        while let Some(next) = self.waiting.front() {
            if let Err(error) = self.apply(next) {
                return self.refused(&error);
            }
            let checkpoint = self.waiting.pop_front().and_then(|applied| applied.checkpoint);
            let cut = checkpoint.is_none_or(|checkpoint| self.cut(checkpoint));
            if !(cut && self.answers.applied()) {
                return false;
            }
        }
        true
    }
}

/// A layer's tables with rows in the order of the stored keys.
fn in_order(layer: &Layer) -> Vec<(usize, StateNumber, &Table)> {
    let tables = layer.tables().filter(|(_, _, table)| table.entries > 0);
    let mut tables: Vec<_> = tables.map(|(state, group, table)| (group, state, table)).collect();
    tables.sort_unstable_by_key(|&(group, state, _)| (group, state));
    tables
}
