//! From snapshots to a task's database. The first old task's becomes the new one as it is, its files linked, what belongs to
//! others cut away; of further ones the rows that are wanted are copied into table files and taken in.

use super::base::Base;
use super::files::{fetch, folder_in, table_of};
use super::{database, stored};
use anyhow::Context;
use dataflow::checkpoint::FileEntry;
use rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, Options, SstFileWriter};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// A copied table file closes at this size.
const FILE_BYTES: u64 = 64 << 20;

/// No key of any group lies as high.
const ABOVE_ALL: [u8; 3] = [0xff; 3];

/// As `Base::restore` of the layers.
pub(super) fn restore(base: &Base, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    if base.database.with(|db| db.is_some()) {
        return copy(base, files, groups);
    }
    fetch(&*base.files.storage, files, base.database.folder())?;
    base.database.open()?;
    base.database.write(|db| cut_away(db, base, &groups))?;
    let tables = files.iter().filter(|file| table_of(&file.name).is_some()).cloned();
    base.restored.lock().unwrap_or_else(PoisonError::into_inner).extend(tables);
    Ok(())
}

/// Removes the rows of all groups but these. Costs nothing where there are none, and little where whole files go.
fn cut_away(db: &DB, base: &Base, groups: &Range<u16>) -> anyhow::Result<()> {
    let family = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).context("every database has this family")?;
    let (start, end) = (groups.start.to_be_bytes(), groups.end.to_be_bytes());
    let outside: [(&[u8], &[u8]); 2] = [(&[], &start), (&end, &ABOVE_ALL)];
    for (from, to) in outside {
        let mut rows = db.raw_iterator();
        rows.seek(from);
        rows.status()?;
        if rows.key().is_some_and(|key| key < to) {
            drop(rows);
            db.delete_file_in_range(from, to)?;
            db.delete_range_cf_opt(family, from, to, &base.database.writes)?;
            db.flush()?;
        }
    }
    Ok(())
}

/// Copies the rows of `groups` out of another task's snapshot.
fn copy(base: &Base, files: &[FileEntry], groups: Range<u16>) -> anyhow::Result<()> {
    let part = folder_in(base.database.folder())?;
    fetch(&*base.files.storage, files, part.path())?;
    let copied = folder_in(base.database.folder())?;
    let tables = copy_rows(part.path(), groups, (copied.path(), base.database.options()))?;
    if tables.is_empty() {
        return Ok(());
    }
    base.database.write(|db| Ok(db.ingest_external_file_opts(&database::moved(), tables)?))
}

fn copy_rows(from: &Path, groups: Range<u16>, (to, options): (&Path, &Options)) -> anyhow::Result<Vec<PathBuf>> {
    let mut tables: Vec<PathBuf> = vec![];
    let mut open: Option<SstFileWriter<'_>> = None;
    let mut value = vec![];
    database::visit(from, groups, &mut |at, meta, bytes| {
        if open.as_ref().is_some_and(|writer| writer.file_size() >= FILE_BYTES)
            && let Some(mut full) = open.take()
        {
            full.finish()?;
        }
        let writer = match &mut open {
            Some(writer) => writer,
            none => {
                let table = to.join(format!("{}.sst", tables.len()));
                let writer = SstFileWriter::create(options);
                writer.open(&table)?;
                tables.push(table);
                none.insert(writer)
            }
        };
        value.clear();
        stored::push_value(meta, bytes, &mut value);
        stored::with_key(at, |key| writer.put(key, &value)).context("a state file cannot be written")
    })?;
    if let Some(mut last) = open {
        last.finish()?;
    }
    Ok(tables)
}
