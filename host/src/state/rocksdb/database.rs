//! One RocksDB database in a directory of its own: not there until something is written, opened again after its disk
//! refused, gone with whoever owns it. Reads go on while it refuses to write.

use super::cursor::Cursor;
use super::stored;
use super::tuning;
use crate::env::{self, WaitPoint};
use crate::state::{SnapshotVisitor, StateLost};
use anyhow::{Context, anyhow};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::properties::{BACKGROUND_ERRORS, IS_WRITE_STOPPED};
use rocksdb::{
    ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, IngestExternalFileOptions, Options, ReadOptions,
    SstFileWriter, WriteOptions,
};
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

/// Room that the disk must have before a database that could not write is opened again.
const ROOM_BYTES: usize = 8 << 20;

/// Bytes of a file that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Between two looks whether compactions have made room for a table file.
const ROOM_WAIT: Duration = Duration::from_millis(2);

/// How often it is waited at most once a compaction has failed: a second.
const FAILED_WAITS: usize = 500;

/// See the module.
pub(super) struct Database {
    folder: PathBuf,
    options: Options,
    /// For table files that are made of layers.
    layer: Options,
    pub(super) writes: WriteOptions,
    pub(super) reads: ReadOptions,
    held: RwLock<Held>,
    /// A write failed: RocksDB may take no more until it is opened again.
    refused: AtomicBool,
    /// Old files are compacted too, for the rows in them that expire.
    periodic: AtomicBool,
}

enum Held {
    Nothing,
    Open(DB),
    /// It cannot be opened again.
    Lost(String),
}

impl Database {
    pub(super) fn new(folder: PathBuf, (options, layer): (Options, Options)) -> Self {
        let (writes, reads) = (tuning::writes(), ReadOptions::default());
        let (refused, periodic) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { folder, options, layer, writes, reads, held: RwLock::new(Held::Nothing), refused, periodic }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// As its files are written.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    fn held(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why not just wait: a scan's visitor may read again, and a writer that waits would hold the inner read up.
    fn change(&self) -> RwLockWriteGuard<'_, Held> {
        loop {
            match self.held.try_write() {
                Ok(held) => return held,
                Err(TryLockError::Poisoned(held)) => return held.into_inner(),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    /// The database as it is; none if nothing was ever written.
    #[inline]
    pub(super) fn with<T>(&self, then: impl FnOnce(Option<&DB>) -> T) -> T {
        match &*self.held() {
            Held::Nothing => then(None),
            Held::Open(db) => then(Some(db)),
            Held::Lost(why) => StateLost::unwind(anyhow!("{why}")),
        }
    }

    /// Ends the task over a read that failed.
    #[cold]
    pub(super) fn unreadable(&self, error: impl Into<anyhow::Error>) -> ! {
        StateLost::unwind(error.into().context(format!("the state in `{}` cannot be read", self.folder.display())))
    }

    /// Opens it on the files in its directory.
    pub(super) fn open(&self) -> anyhow::Result<()> {
        let mut held = self.change();
        if matches!(*held, Held::Nothing) {
            *held = Held::Open(self.opened()?);
        }
        Ok(())
    }

    fn opened(&self) -> anyhow::Result<DB> {
        let mut options = self.options.clone();
        if self.periodic.load(Ordering::Relaxed) {
            options.set_periodic_compaction_seconds(tuning::PERIODIC_SECONDS);
        }
        let open = || -> anyhow::Result<DB> {
            fs::create_dir_all(&self.folder)?;
            // Named, so that it has a handle: batched reads ask for one.
            let family = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.clone());
            Ok(DB::open_cf_descriptors(&options, &self.folder, [family])?)
        };
        // RocksDB's own threads are started with a database.
        env::beside(open)
            .map_err(anyhow::Error::from)
            .flatten()
            .with_context(|| format!("the state database `{}` cannot be opened", self.folder.display()))
    }

    /// From now on old files are compacted too: rows in it expire.
    pub(super) fn compact_periodically(&self) {
        if self.periodic.swap(true, Ordering::Relaxed) {
            return;
        }
        let seconds = tuning::PERIODIC_SECONDS.to_string();
        let set = self.with(|db| db.map(|db| db.set_options(&[("periodic_compaction_seconds", &seconds)])));
        if let Some(Err(error)) = set {
            tracing::warn!(%error, "expired rows are freed only where others are written");
        }
    }

    /// Writes to it, opening it before. What failed may be done again: it is opened anew first.
    pub(super) fn write(&self, act: impl FnOnce(&DB) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.refused.load(Ordering::Relaxed) {
            self.open_again()?;
        }
        self.open()?;
        self.with(|db| act(db.context("a database that was opened is open")?))
            .inspect_err(|_| self.refused.store(true, Ordering::Relaxed))
            .with_context(|| format!("the state database `{}` cannot be written", self.folder.display()))
    }

    /// Adds a table file with what `fill` puts into it, key by key in their order, above all there is. Why no write as RocksDB
    /// means it: the rows are sorted, and readers find them in their layer until they lie in the file, so a table in memory
    /// between the two would be sorted again, searched in vain by every read, and take as much memory as the layer.
    pub(super) fn add_table(
        &self,
        fill: impl FnOnce(&mut SstFileWriter<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let path = self.folder.join("layer");
        let added = self.write(|db| {
            wait_for_room(db)?;
            let mut file = SstFileWriter::create(&self.layer);
            file.open(&path)?;
            fill(&mut file)?;
            file.finish()?;
            keep_in_memory(&path)?;
            Ok(db.ingest_external_file_opts(&moved(), vec![&path])?)
        });
        if added.is_err() {
            // The next one is written over it.
            let _ = fs::remove_file(&path);
        }
        added
    }

    /// Why: RocksDB takes no write any more once one has failed for lack of room. What it lost by that the layer still has.
    fn open_again(&self) -> anyhow::Result<()> {
        let room = self.folder.join("room");
        let try_room = || -> std::io::Result<()> {
            let mut file = File::create(&room)?;
            file.write_all(&vec![0; ROOM_BYTES])?;
            file.sync_all()
        };
        let tried = try_room();
        // It is only a try; the directory goes as a whole some day.
        let _ = fs::remove_file(&room);
        tried.with_context(|| format!("the disk of `{}` takes nothing", self.folder.display()))?;
        let mut held = self.change();
        *held = Held::Nothing;
        match self.opened() {
            Ok(db) => *held = Held::Open(db),
            Err(error) => {
                *held = Held::Lost(format!("{error:#}"));
                return Err(error);
            }
        }
        self.refused.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Links its files, as they are now, into a new directory. False: there is nothing.
    pub(super) fn link_to(&self, folder: &Path) -> anyhow::Result<bool> {
        self.with(|db| {
            let Some(db) = db else { return Ok(false) };
            Checkpoint::new(db)
                .and_then(|checkpoint| checkpoint.create_checkpoint(folder))
                .with_context(|| format!("the state cannot be linked into `{}`", folder.display()))?;
            Ok(true)
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        *self.change() = Held::Nothing;
        if self.folder.exists()
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            let folder = self.folder.display();
            tracing::warn!(%folder, error = %error, "a state database is left behind until the next start");
        }
    }
}

/// Waits while there are so many table files above each other that none may be added. RocksDB holds up its own writers by
/// itself; a file that is taken in it does not hold up.
fn wait_for_room(db: &DB) -> anyhow::Result<()> {
    let is = |name| Ok::<_, anyhow::Error>(db.property_int_value(name)?.unwrap_or(0) > 0);
    let mut waits = 0;
    // Where a compaction has failed there may never be room: it is for the file itself to fail then.
    while is(IS_WRITE_STOPPED)? && (waits < FAILED_WAITS || !is(BACKGROUND_ERRORS)?) {
        WaitPoint::default().wait(Some(ROOM_WAIT));
        waits += 1;
    }
    Ok(())
}

/// Why: RocksDB asks the system to forget the pages of a file that it writes to be taken in, and the task would wait for the
/// disk with each of its first reads.
fn keep_in_memory(file: &Path) -> std::io::Result<()> {
    let mut pages = BufReader::with_capacity(READ_BYTES, File::open(file)?);
    std::io::copy(&mut pages, &mut std::io::sink()).map(|_| ())
}

/// Files that are taken in are moved, not copied.
pub(super) fn moved() -> IngestExternalFileOptions {
    let mut moved = IngestExternalFileOptions::default();
    moved.set_move_files(true);
    moved
}

/// Visits the rows of `groups` in the database whose files lie in `folder`, which stays as it is.
pub(super) fn visit(folder: &Path, groups: Range<u16>, visit: &mut SnapshotVisitor<'_>) -> anyhow::Result<()> {
    let options = tuning::reading();
    let db = DB::open_for_read_only(&options, folder, false)
        .with_context(|| format!("the database of a snapshot in `{}` cannot be opened", folder.display()))?;
    let mut bounds = ReadOptions::default();
    bounds.set_iterate_upper_bound(stored::end_of_groups(&groups));
    bounds.set_readahead_size(2 << 20);
    let mut cursor = Cursor::new(db.raw_iterator_opt(bounds), &stored::start_of_groups(&groups));
    while let Some((key, value)) = cursor.stored()? {
        let row = stored::address(key).zip(stored::value(value));
        let (at, (meta, bytes)) = row.context("a snapshot's database holds a row of another form")?;
        visit(at, meta, bytes)?;
        cursor.next();
    }
    Ok(())
}
