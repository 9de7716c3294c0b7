//! The database as the base below the layers: the task reads it here, row by row, many at once, or in order.

use super::cursor::Cursor;
use super::database::Database;
use super::expiry::Expiry;
use super::files::Files;
use super::restore;
use super::tuning::{self, Memory};
use super::worker::Applier;
use super::{NAME, stored};
use crate::state::layered::{self, Answers, Place, RowRef, Span, Worker};
use crate::state::{Address, ManyVisitor, RowKeys, RowMeta, Sizes, StateDeclaration, StateNumber};
use dataflow::checkpoint::FileEntry;
use dataflow::record::Blobs;
use rocksdb::{DB, DBPinnableSlice, ReadOptions};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
pub(in crate::state) struct Base {
    pub(super) database: Database,
    pub(super) expiry: Arc<Expiry>,
    pub(super) files: Files,
    /// The task's first key group.
    pub(super) first_group: u16,
    /// Files in the storage that the database has too, until there is a worker.
    pub(super) restored: Mutex<Vec<FileEntry>>,
}

impl Base {
    pub(super) fn new(folder: PathBuf, memory: &Memory, files: Files, first_group: u16) -> Self {
        let expiry = Arc::new(Expiry::default());
        let database = Database::new(folder, (tuning::database(memory, expiry.clone()), tuning::layer(memory)));
        Self { database, expiry, files, first_group, restored: Mutex::default() }
    }

    /// Compacts all there is, as RocksDB does in its own time.
    #[cfg(test)]
    pub(super) fn compact(&self) {
        self.database.with(|db| db.unwrap().compact_range(None::<&[u8]>, None::<&[u8]>));
    }

    /// Files that it was restored from; none when asked again.
    pub(super) fn take_restored(&self) -> Vec<FileEntry> {
        std::mem::take(&mut *self.restored.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn address<'a>(at: &Place<'a>) -> Address<'a> {
    Address { group: at.group, state: at.state, row: at.probe.row }
}

/// Bytes of a database hold rows only: `restore` has checked where they come from.
fn row(stored: &[u8]) -> (RowMeta, &[u8]) {
    stored::value(stored).expect("a database holds rows only")
}

impl layered::Base for Base {
    const NAME: &'static str = NAME;
    // RocksDB ends the process if it is used while that ends.
    const ENDS_WITH_ITS_TASK: bool = true;
    type State = ();
    type Cursor<'a> = Cursor<'a>;

    fn register(&self, state: StateNumber, declaration: &StateDeclaration) {
        if self.expiry.register(state, declaration) {
            self.database.compact_periodically();
        }
    }

    fn get(&self, (): &(), at: &Place<'_>, into: &mut Vec<u8>) -> Option<RowMeta> {
        self.database.with(|db| {
            let db = db?;
            let found = stored::with_key(address(at), |key| db.get_pinned_opt(key, &self.database.reads));
            let found = found.unwrap_or_else(|error| self.database.unreadable(error))?;
            let (meta, bytes) = row(&found);
            into.extend_from_slice(bytes);
            Some(meta)
        })
    }

    fn get_many<'a>(
        &'a self,
        (): &(),
        state: StateNumber,
        keys: &'a RowKeys,
        above: impl Fn(usize) -> (Place<'a>, Option<RowRef<'a>>),
        visit: &mut ManyVisitor<'_>,
    ) {
        let in_layers: Vec<Option<RowRef<'_>>> = (0..keys.len()).map(|index| above(index).1).collect();
        self.database.with(|db| {
            let missing = (0..keys.len() as u32).filter(|&index| in_layers[index as usize].is_none());
            let mut below = match db {
                Some(db) => self.fetch(db, state, keys, missing.collect()),
                None => vec![],
            }
            .into_iter()
            .peekable();
            for (index, above) in in_layers.iter().enumerate() {
                match above {
                    Some(found) => visit(index, found.bytes().map(|bytes| (found.meta(), bytes))),
                    None => {
                        let found = below.next_if(|(at, _)| *at as usize == index).and_then(|(_, found)| found);
                        visit(index, found.as_deref().map(row));
                    }
                }
            }
        });
    }

    fn may_hold(&self, (): &(), at: &Place<'_>) -> bool {
        // Filters answer for most rows that are not there, and nothing is read from disk.
        let may = |db: &DB| stored::with_key(address(at), |key| db.key_may_exist_opt(key, &self.database.reads));
        self.database.with(|db| db.is_some_and(may))
    }

    fn with_cursor(
        &self,
        (): &(),
        of: &Span<'_>,
        walk: impl FnOnce(&mut Cursor<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (from, to) = of.range;
        self.database.with(|db| {
            let Some(db) = db.filter(|_| to.is_empty() || from < to) else { return walk(&mut Cursor::empty()) };
            let key = |row| {
                let mut key = Vec::with_capacity(stored::PREFIX + to.len());
                stored::push_key(Address { group: of.group, state: of.state, row }, &mut key);
                key
            };
            let end = if to.is_empty() { stored::end_of_state(of.group, of.state) } else { key(to) };
            let mut bounds = ReadOptions::default();
            bounds.set_iterate_upper_bound(end);
            walk(&mut Cursor::new(db.raw_iterator_opt(bounds), &key(from)))
        })
    }

    fn restore(&self, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
        restore::restore(self, files, groups)
    }

    fn worker(self: Arc<Self>, answers: Answers) -> Box<dyn Worker> {
        Box::new(Applier::new(self, answers))
    }

    fn count_expired(&self, bytes: u64) {
        self.expiry.count(bytes);
    }

    fn sizes(&self) -> Sizes {
        let number = |db: &DB, name: &str| db.property_int_value(name).ok().flatten().unwrap_or(0);
        self.database.with(|db| Sizes {
            rows: db.map_or(0, |db| number(db, "rocksdb.estimate-num-keys")),
            bytes: db.map_or(0, |db| number(db, "rocksdb.estimate-live-data-size")),
            expired_bytes: self.expiry.freed(),
        })
    }
}

impl Base {
    /// The rows `wanted`, each with its index, in one reading.
    fn fetch<'a>(
        &self,
        db: &'a DB,
        state: StateNumber,
        keys: &RowKeys,
        wanted: Vec<u32>,
    ) -> Vec<(u32, Option<DBPinnableSlice<'a>>)> {
        let mut names = Blobs::with_capacity(wanted.len(), 32);
        for &index in &wanted {
            stored::push_key(keys.address(state, index as usize), &mut names.bytes);
            names.close();
        }
        let mut order: Vec<u32> = (0..wanted.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| names.get(a as usize).cmp(names.get(b as usize)));
        let family = db.cf_handle(rocksdb::DEFAULT_COLUMN_FAMILY_NAME).expect("every database has this family");
        let sorted = order.iter().map(|&at| names.get(at as usize));
        let found = db.batched_multi_get_cf_opt(family, sorted, true, &self.database.reads);
        let mut rows: Vec<(u32, Option<DBPinnableSlice<'a>>)> = wanted.iter().map(|&index| (index, None)).collect();
        for (at, found) in order.into_iter().zip(found) {
            rows[at as usize].1 = found.unwrap_or_else(|error| self.database.unreadable(error));
        }
        rows
    }
}
