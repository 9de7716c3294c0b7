//! Table `state`: a running count per key, state only, on either backend and through the seam that operators use; and what
//! a large state costs at a barrier, at an upload, at a restore, and in memory.

use super::Extent;
use super::measure;
use super::table::{Compared, Table};
use anyhow::{Context as _, Result, ensure};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use millstream::checkpoint::CheckpointStorage;
use millstream::checkpoint::filesystem::FilesystemStorage;
use millstream::env::{Clock as _, SystemClock, WaitPoint};
use millstream::state::memory::{self, MemoryOptions};
use millstream::state::rocksdb::{Memory, RocksOptions, open as open_on_disk};
use millstream::state::{NEVER, RowKeys, RowMeta, StateBackend, StateDeclaration, StateKind, StateNumber};
use millstream_tests::chance::Chance;
use std::cell::RefCell;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const KEY_GROUPS: u16 = 128;
const STATE: StateNumber = StateNumber(1);
const META: RowMeta = RowMeta { expiry: NEVER, version: 1 };

/// Records of a call.
const BATCH: usize = 4096;

/// Keys that stay in the upper layer, and keys that do not.
const HOT: u64 = 10_000;
const UNIFORM: u64 = 10_000_000;

/// Memory of the state on disk.
const MEMORY_BYTES: u64 = 256 << 20;

/// Most records of one loop.
const RECORDS_MAX: usize = 2_000_000;

/// Bytes of a value in the state whose size counts.
const VALUE_BYTES: usize = 100;

/// Bytes of its rows as they are stored, about.
const ROW_BYTES: u64 = 126;

/// Barriers that are measured at each size.
const BARRIERS: usize = 20;

pub(super) fn measure(extent: Extent) -> Result<()> {
    let folder = tempfile::tempdir().context("a scratch folder")?;
    // First: the memory of this process is measured there, and the other part leaves much of its own behind.
    sizes(extent.state_bytes, folder.path())?;
    running_count(extent, folder.path())
}

/// A state, and what it needs to be taken down and put up again.
struct Subject {
    state: Box<dyn StateBackend>,
    storage: Arc<dyn CheckpointStorage>,
    /// Files of the last snapshot.
    stored: Vec<FileEntry>,
    notify: Arc<WaitPoint>,
    keys: RowKeys,
    counts: Vec<u64>,
}

impl Subject {
    fn new(state: Box<dyn StateBackend>, storage: Arc<dyn CheckpointStorage>, notify: Arc<WaitPoint>) -> Self {
        let mut subject = Self { state, storage, stored: vec![], notify, keys: RowKeys::default(), counts: vec![] };
        let declaration = StateDeclaration { name: "counts".into(), version: 1, kind: StateKind::Value, ttl: None };
        subject.state.register(STATE, &declaration);
        subject
    }

    fn in_memory(storage: Arc<dyn CheckpointStorage>, attempt: &str) -> Self {
        let (notify, active_limit) = (Arc::new(WaitPoint::default()), memory::ACTIVE_LIMIT_DEFAULT);
        let (chain, attempt, groups) = ("bench".into(), attempt.into(), 0..KEY_GROUPS);
        let options = MemoryOptions {
            storage: storage.clone(),
            chain,
            task: 0,
            attempt,
            groups,
            active_limit,
            notify: notify.clone(),
            fail_points: Arc::default(),
        };
        Self::new(memory::open(options), storage, notify)
    }

    fn on_disk(storage: Arc<dyn CheckpointStorage>, folder: &Path, attempt: &str) -> Self {
        let notify = Arc::new(WaitPoint::default());
        let (chain, attempt, groups) = ("bench".into(), attempt.into(), 0..KEY_GROUPS);
        let (folder, memory) = (folder.join("databases"), Memory::new(MEMORY_BYTES, 1));
        let options = RocksOptions {
            storage: storage.clone(),
            folder,
            memory,
            chain,
            task: 0,
            attempt,
            groups,
            notify: notify.clone(),
            fail_points: Arc::default(),
        };
        Self::new(open_on_disk(options), storage, notify)
    }

    /// Counts each of these keys once more: reads them together, writes them one by one.
    fn count(&mut self, keys: &[u64]) -> u64 {
        let Self { state, keys: rows, counts, .. } = self;
        rows.clear();
        keys.iter().for_each(|&key| push(key, rows));
        counts.clear();
        state.get_many(STATE, rows, &mut |_, found| {
            counts.push(found.map_or(0, |(_, bytes)| u64::from_be_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]))));
        });
        let mut sum = 0;
        for (index, count) in counts.iter().enumerate() {
            state.put(rows.address(STATE, index), META, &(count + 1).to_be_bytes());
            sum += count + 1;
        }
        sum
    }

    /// Overwrites these keys with values that do not compress to nothing.
    fn overwrite(&mut self, keys: impl Iterator<Item = u64>, chance: &mut Chance) {
        let mut value = [0; VALUE_BYTES];
        for key in keys {
            value[..8].copy_from_slice(&key.to_be_bytes());
            value[8..].chunks_exact_mut(4).step_by(2).for_each(|part| {
                part.copy_from_slice(&(chance.between(0, u64::from(u32::MAX)) as u32).to_be_bytes());
            });
            self.keys.clear();
            push(key, &mut self.keys);
            self.state.put(self.keys.address(STATE, 0), META, &value);
        }
    }

    fn snapshot(&mut self, checkpoint: u64) -> Result<Vec<FileEntry>> {
        self.state.snapshot(CheckpointId(checkpoint));
        self.wait_until_stored()?;
        Ok(self.stored.clone())
    }

    fn wait_until_stored(&mut self) -> Result<()> {
        while !self.is_stored()? {
            self.notify.wait(Some(Duration::from_secs(1)));
        }
        Ok(())
    }

    /// Whether the snapshot is stored; then the files that only the one before had are deleted, as a job does.
    fn is_stored(&mut self) -> Result<bool> {
        let Some((_, files)) = self.state.poll_snapshot()? else { return Ok(false) };
        for old in std::mem::replace(&mut self.stored, files) {
            if !self.stored.contains(&old) {
                self.storage.delete(&old.name)?;
            }
        }
        Ok(true)
    }
}

fn push(key: u64, rows: &mut RowKeys) {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    rows.push(KeyGroup((mixed >> 57) as u16), |row| {
        row.push(9);
        row.push(b'i');
        row.extend_from_slice(&key.to_be_bytes());
    });
}

/// What a round counts: the distinct keys of each call. Other records each time: the last ones still lie in the upper layers.
fn batches(round: usize, keys: u64, records: usize) -> Vec<Vec<u64>> {
    let mut chance = Chance::new(round as u64, "benchmark");
    let batch = |_| {
        let mut seen = hashbrown::HashSet::with_capacity(BATCH);
        (0..BATCH).map(|_| chance.between(0, keys - 1)).filter(|&key| seen.insert(key)).collect()
    };
    (0..records / BATCH).map(batch).collect()
}

fn running_count(extent: Extent, folder: &Path) -> Result<()> {
    let records = extent.records.min(RECORDS_MAX);
    for (title, keys) in [("hot keys", HOT), ("uniform keys", UNIFORM)] {
        let storage: Arc<dyn CheckpointStorage> = Arc::new(FilesystemStorage::open(folder.join(title)));
        let subjects = [
            ("memory", Subject::in_memory(storage.clone(), "1")),
            ("rocksdb, 256 MiB of memory", Subject::on_disk(storage, folder, title)),
        ];
        let expected = RefCell::new(vec![]);
        let mut table = Table::new(format!("running count, {keys} {title}"), records, Compared::Speed);
        for (name, mut subject) in subjects {
            for key in 0..keys {
                if key % BATCH as u64 == 0 {
                    let last = (key + BATCH as u64).min(keys);
                    subject.count(&(key..last).collect::<Vec<_>>());
                }
            }
            subject.snapshot(1)?;
            let (expected, mut round) = (&expected, 0);
            table.contender(name, move || {
                let batches = batches(round, keys, records);
                let (sum, cost) =
                    measure::process(|| Ok(batches.iter().map(|batch| subject.count(batch)).sum::<u64>()))?;
                let mut sums = expected.borrow_mut();
                if sums.len() == round {
                    sums.push(sum);
                }
                ensure!(sums[round] == sum, "the backends count differently");
                round += 1;
                Ok(cost)
            });
        }
        table.measure(extent.rounds)?;
    }
    Ok(())
}

/// What a state of some size costs: nothing, a tenth of it, all of it.
fn sizes(bytes: u64, folder: &Path) -> Result<()> {
    let folder = folder.join("sizes");
    let storage: Arc<dyn CheckpointStorage> = Arc::new(FilesystemStorage::open(folder.join("checkpoints")));
    let clock = SystemClock::default();
    let mut subject = Subject::on_disk(storage.clone(), &folder, "1");
    let mut chance = Chance::new(2, "benchmark");
    let mut checkpoint = 0;
    say(&format!("\nstate of {} on disk, {} MiB of memory\n", giga(bytes), MEMORY_BYTES >> 20))?;
    let mut filled = 0;
    for keys in [0, bytes / ROW_BYTES / 10, bytes / ROW_BYTES] {
        subject.overwrite(filled..keys, &mut chance);
        filled = keys;
        checkpoint += 1;
        subject.snapshot(checkpoint)?;
        let (mut times, mut running) = (vec![], vec![]);
        for _ in 0..BARRIERS {
            subject.overwrite((0..BATCH as u64).map(|key| key * 7919 % keys.max(1)), &mut chance);
            checkpoint += 1;
            let (waited, before) = (measure::waited()?, clock.monotonic());
            subject.state.snapshot(CheckpointId(checkpoint));
            let took = clock.monotonic() - before;
            times.push(took);
            running.push(took.saturating_sub(measure::waited()? - waited));
            subject.wait_until_stored()?;
        }
        times.sort_unstable();
        running.sort_unstable();
        let micros = |times: &[Duration], at: usize| times[at].as_secs_f64() * 1e6;
        say(&format!(
            "barrier, {:>8} of state: {:>6.1} us, {:.1} us at most; {:.1} us without waiting for a processor, {:.1} us at most\n",
            giga(keys * ROW_BYTES),
            micros(&times, BARRIERS / 2),
            micros(&times, BARRIERS - 1),
            micros(&running, BARRIERS / 2),
            micros(&running, BARRIERS - 1),
        ))?;
    }
    say(&uploaded(&mut subject, filled, &mut chance, checkpoint)?)?;
    say(&beside_checkpoints(&mut subject, filled, checkpoint + 10)?)?;
    say(&format!("memory of the process: {}\n", resident()?))?;
    let files = subject.stored.clone();
    drop(subject);
    let before = clock.monotonic();
    let mut restored = Subject::on_disk(storage, &folder, "2");
    restored.state.restore(&files, 0..KEY_GROUPS)?;
    let first = clock.monotonic() - before;
    restored.count(&[filled / 2]);
    let stored: u64 = files.iter().map(|file| file.length).sum();
    say(&format!("restore of {} in {} files: {:.2} s\n", giga(stored), files.len(), first.as_secs_f64()))
}

fn say(line: &str) -> Result<()> {
    Ok(std::io::stdout().write_all(line.as_bytes())?)
}

/// What a checkpoint uploads when one key in a hundred was written: scattered, and in one place.
fn uploaded(subject: &mut Subject, keys: u64, chance: &mut Chance, checkpoint: u64) -> Result<String> {
    let mut text = String::new();
    let mut before = subject.snapshot(checkpoint + 1)?;
    for (at, scattered) in [(2, true), (3, false)] {
        let changed = keys / 100;
        subject.overwrite((0..changed).map(|key| if scattered { key * 100 } else { key }), chance);
        let after = subject.snapshot(checkpoint + at)?;
        let new: u64 = after.iter().filter(|file| !before.contains(file)).map(|file| file.length).sum();
        let how = if scattered { "scattered" } else { "in one place" };
        text += &format!("uploaded after 1 % of keys changed, {how}: {} of {}\n", giga(new), giga(keys * ROW_BYTES));
        before = after;
    }
    Ok(text)
}

/// Throughput of a running count over uniform keys while a checkpoint is under way, beside that between checkpoints.
fn beside_checkpoints(subject: &mut Subject, keys: u64, mut checkpoint: u64) -> Result<String> {
    let mut chance = Chance::new(3, "benchmark");
    let clock = SystemClock::default();
    let (mut calm, mut busy) = ((0.0, 0), (0.0, 0));
    let mut step = |subject: &mut Subject, rate: &mut (f64, usize)| {
        let batch: Vec<u64> = (0..BATCH).map(|_| chance.between(0, keys.max(1) - 1)).collect();
        let before = clock.monotonic();
        subject.count(&batch);
        rate.0 += (clock.monotonic() - before).as_secs_f64();
        rate.1 += BATCH;
    };
    for _ in 0..30 {
        (0..50).for_each(|_| step(subject, &mut calm));
        subject.state.snapshot(CheckpointId(checkpoint));
        checkpoint += 1;
        while !subject.is_stored()? {
            step(subject, &mut busy);
        }
    }
    let rate = |(seconds, records): (f64, usize)| records as f64 / seconds / 1e6;
    Ok(format!(
        "running count over all keys: {:.3} M/s, {:.3} M/s while a checkpoint is under way ({} records): {:.2}\n",
        rate(calm),
        rate(busy),
        busy.1,
        rate(busy) / rate(calm)
    ))
}

fn giga(bytes: u64) -> String {
    format!("{:.2} GB", bytes as f64 / 1e9)
}

/// Memory of this process that is no file's, now and at most, with all that is.
fn resident() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading the process's memory")?;
    let of =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").trim().to_string();
    Ok(format!("{} now, {} at most", of("RssAnon:"), of("VmHWM:")))
}
