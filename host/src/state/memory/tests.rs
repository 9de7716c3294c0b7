//! The `memory` backend against the contract, and what it promises beyond.

use super::{MemoryBackend, MemoryOptions, open};
use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::memory::MemoryStorage;
use crate::env::WaitPoint;
use crate::state::contract::{Subject, check_state_backend};
use crate::state::{Address, NEVER, RowMeta, StateBackend, StateDeclaration, StateKind, StateNumber, Ttl};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::Clock;
use std::sync::Arc;
use std::time::Duration;

const STATE: StateNumber = StateNumber(1);

fn backend(storage: &Arc<MemoryStorage>, attempt: &str, active_limit: u64, notify: Arc<WaitPoint>) -> MemoryBackend {
    let mut backend = MemoryBackend::with(MemoryOptions {
        storage: storage.clone(),
        chain: "count".into(),
        task: 0,
        attempt: attempt.into(),
        groups: 0..4,
        active_limit,
        notify,
        fail_points: Arc::default(),
    });
    backend.register(STATE, &declaration(None));
    backend
}

fn declaration(ttl: Option<Ttl>) -> StateDeclaration {
    StateDeclaration { name: "counts".into(), version: 1, kind: StateKind::Value, ttl }
}

fn at(row: &[u8]) -> Address<'_> {
    Address { group: KeyGroup(u16::from(row[0] % 4)), state: STATE, row }
}

fn meta(expiry: i64) -> RowMeta {
    RowMeta { expiry, version: 1 }
}

fn get(backend: &MemoryBackend, row: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    backend.get(at(row), &mut bytes).map(|_| bytes)
}

fn snapshot(backend: &mut MemoryBackend, checkpoint: u64) -> anyhow::Result<Vec<FileEntry>> {
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

fn check_contract(active_limit: u64) {
    let storage = Arc::new(MemoryStorage::default());
    let make = |groups, attempt: &str, notify| {
        let (storage, attempt, chain) = (storage.clone(), attempt.into(), "count".into());
        open(MemoryOptions {
            storage,
            chain,
            task: 0,
            attempt,
            groups,
            active_limit,
            notify,
            fail_points: Arc::default(),
        })
    };
    check_state_backend(5000, &Subject { make: &make, storage: storage.clone() });
}

#[test]
fn memory_backend_keeps_the_contract() {
    check_contract(64 << 20);
}

#[test]
fn memory_backend_keeps_the_contract_when_it_freezes_all_the_time() {
    check_contract(200);
}

#[test]
fn snapshot_is_of_the_moment_it_was_asked_for() {
    let storage = Arc::new(MemoryStorage::default());
    let mut first = backend(&storage, "1", 1 << 20, Arc::default());
    first.put(at(b"a"), meta(NEVER), b"1");
    first.snapshot(CheckpointId(1));
    first.put(at(b"a"), meta(NEVER), b"2");
    assert_eq!(get(&first, b"a").unwrap(), b"2");
    let files = loop {
        first.setup().notify.wait(Some(Duration::from_secs(10)));
        if let Some((_, files)) = first.poll_snapshot().unwrap() {
            break files;
        }
    };
    let mut second = backend(&storage, "2", 1 << 20, Arc::default());
    second.restore(&files, 0..4).unwrap();
    assert_eq!(get(&second, b"a").unwrap(), b"1");
}

#[test]
fn chain_of_deltas_stays_within_a_factor_of_the_live_rows() {
    let storage = Arc::new(MemoryStorage::default());
    let mut backend = backend(&storage, "1", 1 << 20, Arc::default());
    let mut longest = 0;
    for checkpoint in 1..=300u32 {
        for row in 0..100u32 {
            backend.put(at(&row.to_le_bytes()), meta(NEVER), &[checkpoint as u8; 50]);
        }
        let files = snapshot(&mut backend, u64::from(checkpoint)).unwrap();
        longest = longest.max(files.iter().map(|file| file.length).sum::<u64>());
    }
    // 100 rows of about 75 bytes are live; three times that and 64 KiB may lie in files.
    assert!(longest < 3 * 100 * 80 + (64 << 10) + 8_000, "{longest} bytes lie in files");
    assert!(longest > 64 << 10, "deltas are used while the chain is short: {longest}");
}

#[test]
fn refused_snapshot_loses_the_checkpoint_and_keeps_the_state() {
    let storage = Arc::new(MemoryStorage::default());
    let mut first = backend(&storage, "1", 1 << 20, Arc::default());
    first.put(at(b"a"), meta(NEVER), b"1");
    storage.fail_next();
    let error = snapshot(&mut first, 1).unwrap_err();
    assert!(format!("{error:#}").contains("state of `count` 0 was not stored for checkpoint 1"), "{error:#}");
    first.put(at(b"b"), meta(NEVER), b"2");
    let files = snapshot(&mut first, 2).unwrap();
    let mut second = backend(&storage, "2", 1 << 20, Arc::default());
    second.restore(&files, 0..4).unwrap();
    assert_eq!((get(&second, b"a").unwrap(), get(&second, b"b").unwrap()), (b"1".to_vec(), b"2".to_vec()));
}

#[test]
fn restored_task_writes_over_no_file_of_the_run_before() {
    let storage = Arc::new(MemoryStorage::default());
    let mut first = backend(&storage, "1", 1 << 20, Arc::default());
    first.put(at(b"a"), meta(NEVER), b"1");
    let old = snapshot(&mut first, 1).unwrap();
    let mut second = backend(&storage, "2", 1 << 20, Arc::default());
    second.put(at(b"a"), meta(NEVER), b"2");
    let new = snapshot(&mut second, 1).unwrap();
    assert_ne!(old[0].name, new[0].name);
    assert_eq!(old[0].name, "state/count-0-1-0-1");
}

#[test]
fn damaged_and_missing_files_are_named() {
    let storage = Arc::new(MemoryStorage::default());
    let mut first = backend(&storage, "1", 1 << 20, Arc::default());
    first.put(at(b"a"), meta(NEVER), b"1");
    let files = snapshot(&mut first, 1).unwrap();
    let name = files[0].name.clone();
    let whole = storage.read(&name).unwrap().unwrap();
    let refused = |files: &[FileEntry]| {
        let error = backend(&storage, "2", 1 << 20, Arc::default()).restore(files, 0..4).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(&name), "{error}");
        error
    };
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    storage.write(&name, &flipped).unwrap();
    assert!(refused(&files).contains("checksum"));
    storage.write(&name, &whole[..whole.len() - 1]).unwrap();
    assert!(refused(&files).contains("bytes"));
    let mut newer = whole;
    newer[10] = 9;
    storage.write(&name, &newer).unwrap();
    let renewed = crate::checkpoint::entry(name.clone(), &newer);
    assert!(refused(&[renewed]).contains("format version 9"));
    storage.delete(&name).unwrap();
    assert!(refused(&files).contains("missing"));
}

#[test]
fn expired_rows_are_freed_without_checkpoints() {
    let storage = Arc::new(MemoryStorage::default());
    for active_limit in [10_000, 64 << 20] {
        let mut backend = backend(&storage, "1", active_limit, Arc::default());
        let ttl = Ttl { ms: 10, clock: Clock::EventTime, renewed_by_reads: false };
        backend.register(STATE, &declaration(Some(ttl)));
        for time in 0..20_000i64 {
            // Ten keys at a time, each written a few times, each seen for ten moments.
            let row = (time / 40 * 10 + time % 10).to_le_bytes();
            backend.put(at(&row), meta(time + 10), &[0; 100]);
            backend.advance(time, 0);
        }
        let files = snapshot(&mut backend, 1).unwrap();
        let stored: u64 = files.iter().map(|file| file.length).sum();
        let sizes = backend.sizes();
        // 5,000 rows of about 130 bytes were written: 650 kB.
        assert!(sizes.expired_bytes > 500_000, "{active_limit}: {sizes:?}");
        assert!(sizes.bytes < 150_000 && stored < 250_000, "{active_limit}: {sizes:?}, {stored} stored");
    }
}

#[test]
fn expired_rows_of_keys_written_once_are_freed_at_checkpoints() {
    let storage = Arc::new(MemoryStorage::default());
    let mut backend = backend(&storage, "1", 1 << 20, Arc::default());
    let ttl = Ttl { ms: 100, clock: Clock::EventTime, renewed_by_reads: false };
    backend.register(STATE, &declaration(Some(ttl)));
    let mut most = 0;
    for time in 0..3_000i64 {
        backend.put(at(&time.to_le_bytes()), meta(time + 100), &[0; 100]);
        backend.advance(time, 0);
        if time % 50 == 49 {
            snapshot(&mut backend, time as u64).unwrap();
            most = most.max(backend.sizes().rows);
        }
    }
    // A hundred are alive at a time, and as many again may wait for the sweep, beside the fifty written last.
    assert!((100..=250).contains(&most), "{most} rows at most");
    backend.advance(10_000, 0);
    for checkpoint in 10_001..10_005 {
        snapshot(&mut backend, checkpoint).unwrap();
    }
    assert_eq!(backend.sizes().rows, 0, "each of the four groups had its turn, and nobody wrote");
}

#[test]
fn snapshot_keeps_rows_that_expire_after_it_was_asked_for() {
    let storage = Arc::new(MemoryStorage::default());
    let ttl = Ttl { ms: 10, clock: Clock::EventTime, renewed_by_reads: false };
    let mut first = backend(&storage, "1", 1 << 20, Arc::default());
    first.register(STATE, &declaration(Some(ttl)));
    // The first snapshot makes the chain too long for the rows that are left, so the second is a full one.
    (0..4u8).for_each(|row| first.put(at(&[row]), meta(NEVER), &[0; 50_000]));
    snapshot(&mut first, 1).unwrap();
    (0..4u8).for_each(|row| first.delete(at(&[row])));
    first.advance(5, 0);
    first.put(at(b"a"), meta(10), b"1");
    first.put(at(b"e"), meta(4), b"1");
    first.snapshot(CheckpointId(2));
    first.advance(50, 0);
    let files = loop {
        first.setup().notify.wait(Some(Duration::from_secs(10)));
        if let Some((_, files)) = first.poll_snapshot().unwrap() {
            break files;
        }
    };
    assert!(files.len() == 1 && files[0].length < 1000, "{files:?} is one full file");
    let mut second = backend(&storage, "2", 1 << 20, Arc::default());
    second.register(STATE, &declaration(Some(ttl)));
    second.restore(&files, 0..4).unwrap();
    assert_eq!(get(&second, b"a").unwrap(), b"1");
    assert_eq!(get(&second, b"e"), None, "what had expired by then is gone");
}
