//! The `rocksdb` backend against the contract, and what it promises beyond.

use super::{Memory, RocksBackend, RocksOptions, backend, open, stored};
use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::filesystem::FilesystemStorage;
use crate::checkpoint::memory::MemoryStorage;
use crate::state::contract::{Subject, check_state_backend};
use crate::state::{Address, NEVER, RowMeta, StateBackend, StateDeclaration, StateKind, StateNumber, Ttl};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::Clock;
use rocksdb::DB;
use rocksdb::properties::IS_WRITE_STOPPED;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tempfile::TempDir;

const STATE: StateNumber = StateNumber(1);

/// Databases and storage of one test.
struct Place {
    folder: TempDir,
    storage: Arc<dyn CheckpointStorage>,
    memory: Memory,
}

impl Place {
    fn on(storage: Arc<dyn CheckpointStorage>) -> Self {
        // In memory, where the system has a folder for that: hundreds of databases are synced again and again.
        let fast = Path::new("/dev/shm");
        let folder = if fast.is_dir() { tempfile::tempdir_in(fast) } else { tempfile::tempdir() }.unwrap();
        Self { folder, storage, memory: Memory::new(64 << 20, 1) }
    }

    fn new() -> Self {
        Self::on(Arc::new(MemoryStorage::default()))
    }

    fn options(&self, attempt: &str, groups: Range<u16>) -> RocksOptions {
        RocksOptions {
            storage: self.storage.clone(),
            folder: self.folder.path().join("state"),
            memory: self.memory.clone(),
            chain: "count".into(),
            task: 0,
            attempt: attempt.into(),
            groups,
            notify: Arc::default(),
            fail_points: Arc::default(),
        }
    }

    fn backend(&self, attempt: &str, ttl: Option<Ttl>) -> RocksBackend {
        let mut backend = backend(self.options(attempt, 0..4));
        backend.register(STATE, &StateDeclaration { name: "counts".into(), version: 1, kind: StateKind::Value, ttl });
        backend
    }
}

fn at(row: &[u8]) -> Address<'_> {
    Address { group: KeyGroup(u16::from(row[0] % 4)), state: STATE, row }
}

fn meta(expiry: i64) -> RowMeta {
    RowMeta { expiry, version: 1 }
}

fn get(backend: &RocksBackend, row: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    backend.get(at(row), &mut bytes).map(|_| bytes)
}

fn snapshot(backend: &mut RocksBackend, checkpoint: u64) -> anyhow::Result<Vec<FileEntry>> {
    backend.snapshot(CheckpointId(checkpoint));
    for _ in 0..100 {
        if let Some((ended, files)) = backend.poll_snapshot()? {
            assert_eq!(ended, CheckpointId(checkpoint));
            return Ok(files);
        }
        backend.setup().notify.wait(Some(Duration::from_secs(1)));
    }
    panic!("the snapshot never ended");
}

fn number(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

#[test]
fn rocksdb_backend_keeps_the_contract() {
    let place = Place::new();
    let make = |groups, attempt: &str, notify| open(RocksOptions { notify, ..place.options(attempt, groups) });
    check_state_backend(2000, &Subject { make: &make, storage: place.storage.clone() });
}

#[test]
fn snapshot_stores_only_what_no_earlier_one_has() {
    let place = Place::new();
    let mut first = place.backend("1", None);
    (0..1000).for_each(|row| first.put(at(&number(row)), meta(NEVER), &[1; 100]));
    let old = snapshot(&mut first, 1).unwrap();
    first.put(at(&number(7)), meta(NEVER), b"2");
    let new = snapshot(&mut first, 2).unwrap();
    let again: Vec<_> = new.iter().filter(|file| old.contains(file)).collect();
    assert!(again.len() == 1 && again[0].name.ends_with(".sst"), "{old:?} {new:?}");
    let mut second = place.backend("2", None);
    second.restore(&new, 0..4).unwrap();
    assert_eq!(get(&second, &number(7)).unwrap(), b"2");
    assert_eq!(get(&second, &number(8)).unwrap(), [1; 100]);
    second.put(at(&number(9)), meta(NEVER), b"3");
    let restored = snapshot(&mut second, 3).unwrap();
    assert!(restored.contains(again[0]), "what was restored is not stored again: {restored:?}");
}

#[test]
fn table_file_waits_until_there_are_not_too_many_above_each_other() {
    let place = Place::new();
    let mut backend = place.backend("1", None);
    for checkpoint in 1..4 {
        backend.put(at(b"a"), meta(NEVER), b"1");
        snapshot(&mut backend, checkpoint).unwrap();
    }
    let database = &backend.base().database;
    let at_most = |files| {
        let set = |db: &DB| db.set_options(&[("level0_stop_writes_trigger", files)]).unwrap();
        database.with(|db| db.map(set)).unwrap();
    };
    at_most("2");
    assert_eq!(database.with(|db| db.unwrap().property_int_value(IS_WRITE_STOPPED)).unwrap(), Some(1));
    let is_room = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            database.add_table(|file| {
                assert!(is_room.load(SeqCst), "nothing is written before there is room");
                let mut value = vec![];
                stored::push_value(meta(NEVER), b"2", &mut value);
                Ok(stored::with_key(at(b"b"), |key| file.put(key, &value))?)
            })
        });
        (0..10_000).for_each(|_| std::thread::yield_now());
        is_room.store(true, SeqCst);
        at_most("36");
        adding.join().unwrap().unwrap();
    });
    assert_eq!(get(&backend, b"b").unwrap(), b"2");
}

#[test]
fn damaged_and_missing_files_are_named() {
    let place = Place::new();
    let mut first = place.backend("1", None);
    first.put(at(b"a"), meta(NEVER), b"1");
    let files = snapshot(&mut first, 1).unwrap();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in &files {
        let whole = place.storage.read(&file.name).unwrap().unwrap();
        let refused = |attempt: &str| {
            let error = place.backend(attempt, None).restore(&files, 0..4).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(&file.name), "{error}");
            error
        };
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        place.storage.write(&file.name, &flipped).unwrap();
        assert!(refused("2").contains("checksum"));
        place.storage.write(&file.name, &whole[..whole.len() - 1]).unwrap();
        assert!(refused("3").contains("bytes"));
        place.storage.delete(&file.name).unwrap();
        assert!(refused("4").contains("missing"));
        place.storage.write(&file.name, &whole).unwrap();
    }
    place.backend("5", None).restore(&files, 0..4).unwrap();
}

#[test]
fn expired_rows_are_freed_and_counted() {
    let place = Place::new();
    let ttl = Ttl { ms: 10, clock: Clock::EventTime, renewed_by_reads: false };
    let mut backend = place.backend("1", Some(ttl));
    (0..1000).for_each(|row| backend.put(at(&number(row)), meta(10), &[0; 100]));
    backend.put(at(&number(1000)), meta(20), b"stays");
    snapshot(&mut backend, 1).unwrap();
    backend.advance(10, 0);
    backend.put(at(&number(1001)), meta(5), b"comes late");
    snapshot(&mut backend, 2).unwrap();
    // Its files may be stored before the task has heard that its layer is part of the database.
    for _ in 0..100 {
        if get(&backend, &number(1001)).is_none() {
            break;
        }
        backend.setup().notify.wait(Some(Duration::from_millis(100)));
        assert!(backend.poll_snapshot().unwrap().is_none());
    }
    backend.base().compact();
    let sizes = backend.sizes();
    assert!(sizes.expired_bytes > 110_000, "{sizes:?}");
    assert_eq!(get(&backend, &number(1)), None);
    assert_eq!(get(&backend, &number(1000)).unwrap(), b"stays");
    assert_eq!(get(&backend, &number(1001)), None);
    assert!(place.option_is_set("periodic_compaction_seconds=3600"));
}

impl Place {
    /// Whether a database was opened with this option, by the file in which RocksDB writes them down.
    fn option_is_set(&self, option: &str) -> bool {
        files_below(self.folder.path()).iter().any(|file| {
            file.contains("OPTIONS") && std::fs::read_to_string(file).is_ok_and(|text| text.contains(option))
        })
    }
}

fn files_below(folder: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn full_active_layer_is_applied_before_any_checkpoint() {
    let place = Place { memory: Memory::new(16 << 20, 1), ..Place::new() };
    let mut backend = place.backend("1", None);
    // 60,000 rows of about 160 bytes are 10 MB; two layers may hold 1.6 MiB each.
    (0..60_000).for_each(|row| backend.put(at(&number(row)), meta(NEVER), &[row as u8; 100]));
    let stored: u64 =
        files_below(place.folder.path()).iter().map(|file| std::fs::metadata(file).map_or(0, |it| it.len())).sum();
    assert!(stored > 60_000, "{stored} bytes lie on disk");
    (0..60_000).for_each(|row| assert_eq!(get(&backend, &number(row)).unwrap(), [row as u8; 100]));
}

#[test]
fn refused_snapshot_loses_the_checkpoint_and_keeps_the_state() {
    let storage = Arc::new(MemoryStorage::default());
    let place = Place::on(storage.clone());
    let mut first = place.backend("1", None);
    first.put(at(b"a"), meta(NEVER), b"1");
    storage.fail_next();
    let error = snapshot(&mut first, 1).unwrap_err();
    assert!(format!("{error:#}").contains("state of `count` 0 was not stored for checkpoint 1"), "{error:#}");
    first.put(at(b"b"), meta(NEVER), b"2");
    let files = snapshot(&mut first, 2).unwrap();
    let mut second = place.backend("2", None);
    second.restore(&files, 0..4).unwrap();
    assert_eq!((get(&second, b"a").unwrap(), get(&second, b"b").unwrap()), (b"1".to_vec(), b"2".to_vec()));
}

#[test]
fn database_that_could_not_write_goes_on_when_it_can() {
    let place = Place::new();
    let mut backend = place.backend("1", None);
    backend.put(at(b"a"), meta(NEVER), b"1");
    snapshot(&mut backend, 1).unwrap();
    // RocksDB cannot make its next file where one of that name is a directory.
    let folder = place.folder.path().join("state/count-0-1");
    let blocked: Vec<_> =
        (1..100).map(|number| folder.join(format!("{number:06}.sst"))).filter(|it| !it.exists()).collect();
    blocked.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    backend.put(at(b"b"), meta(NEVER), b"2");
    let error = snapshot(&mut backend, 2).unwrap_err();
    assert!(format!("{error:#}").contains("cannot be written"), "{error:#}");
    assert_eq!((get(&backend, b"a").unwrap(), get(&backend, b"b").unwrap()), (b"1".to_vec(), b"2".to_vec()));
    blocked.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    let files = snapshot(&mut backend, 3).unwrap();
    let mut second = place.backend("2", None);
    second.restore(&files, 0..4).unwrap();
    assert_eq!((get(&second, b"a").unwrap(), get(&second, b"b").unwrap()), (b"1".to_vec(), b"2".to_vec()));
}

#[test]
fn files_are_linked_where_the_storage_is_on_the_same_disk() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(FilesystemStorage::open(folder.path().join("checkpoints")));
    let place = Place { folder, ..Place::on(storage) };
    let mut first = place.backend("1", None);
    first.put(at(b"a"), meta(NEVER), b"1");
    let files = snapshot(&mut first, 1).unwrap();
    let mut second = place.backend("2", None);
    second.restore(&files, 0..4).unwrap();
    let table = files.iter().find(|file| file.name.ends_with(".sst")).unwrap();
    let stored = std::fs::metadata(place.folder.path().join("checkpoints").join(&table.name)).unwrap();
    assert_eq!(stored.nlink(), 3, "the first task's, the storage's and the second task's");
    second.put(at(b"a"), meta(NEVER), b"2");
    snapshot(&mut second, 2).unwrap();
    let mut third = place.backend("3", None);
    third.restore(&files, 0..4).unwrap();
    assert_eq!(get(&third, b"a").unwrap(), b"1", "an old snapshot stays as it is");
}

#[test]
fn directory_of_a_database_goes_with_it_and_those_of_dead_runs_are_cleared() {
    let place = Place::new();
    let mut backend = place.backend("1", None);
    backend.put(at(b"a"), meta(NEVER), b"1");
    snapshot(&mut backend, 1).unwrap();
    let state = place.folder.path().join("state");
    std::fs::create_dir_all(state.join("count-0-0")).unwrap();
    super::clear(&state).unwrap();
    assert!(!state.exists());
    super::clear(&state).unwrap();
}
