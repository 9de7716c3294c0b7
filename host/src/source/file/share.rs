//! One task's files: dealt by name, read in turn, so that time moves evenly over them.

use super::listing;
use super::partition::{Partition, Shared, Turn};
use super::reader::Blocks;
use crate::source::{self, Limit, Polled, Share, Source};
use anyhow::ensure;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files read in turn at a time; further ones wait until one is finished.
const OPEN_FILES_MAX: usize = 64;

/// Files one task can follow: they all stay open, or what is written before one is renamed away could be lost.
const FOLLOWED_FILES_MAX: usize = 1024;

/// How soon to look at followed files again when all are read.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// While there is always something to read, new files are looked for only every so many polls.
const POLLS_PER_LISTING: u32 = 256;

/// One task's files.
pub(super) struct FileShare {
    shared: Shared,
    task: usize,
    parallelism: usize,
    /// Read in turn, from the front.
    reading: VecDeque<Partition>,
    /// Their turn comes when others are finished.
    waiting: VecDeque<Partition>,
    finished: Vec<Partition>,
    blocks: Blocks,
    /// `partitions` gives another answer than before, and the task was not told.
    changed: bool,
    /// Turns in a row that gave nothing.
    idle_turns: usize,
    polls_since_listing: u32,
}

impl FileShare {
    pub(super) fn new(shared: Shared, files: Vec<PathBuf>, share: Share<'_>) -> anyhow::Result<Self> {
        let settings = shared.settings.clone();
        let follow = settings.follow;
        let mut known: BTreeMap<String, PathBuf> =
            files.into_iter().map(|path| (settings.partition_name(&path), path)).collect();
        // A checkpoint of an earlier version has whole paths.
        let name = |partition: &source::Partition| settings.partition_name(Path::new(&*partition.name));
        let before: BTreeMap<String, &source::Partition> =
            share.positions.iter().map(|partition| (name(partition), partition)).collect();
        for name in before.keys() {
            known.entry(name.clone()).or_insert_with(|| settings.path_of(name));
        }
        let mut this = Self {
            shared,
            task: share.task,
            parallelism: share.parallelism,
            reading: VecDeque::new(),
            waiting: VecDeque::new(),
            finished: vec![],
            blocks: Blocks::default(),
            changed: false,
            idle_turns: 0,
            polls_since_listing: 0,
        };
        for (at, (name, path)) in known.into_iter().enumerate() {
            let is_mine = if follow { this.follows(&name) } else { at % share.parallelism == share.task };
            if !is_mine {
                continue;
            }
            // A followed file is finished when it is gone: one that is there again is another.
            let is_back = |position: &source::Partition| follow && position.finished && path.exists();
            let position = before.get(&name).filter(|position| !is_back(position));
            let mut partition = Partition::new(name, path);
            if let Some(position) = position {
                partition.go_on_from(position)?;
            }
            if partition.finished {
                this.finished.push(partition);
                continue;
            }
            if position.is_some() && this.waiting.len() < OPEN_FILES_MAX {
                // Whether the position is still there is better said now. A file that is lost says so in its turn.
                let _lost = partition.open(&this.shared)?;
            }
            this.waiting.push_back(partition);
        }
        Ok(this)
    }

    /// Whether this task follows the file: names appear at any time, so they are dealt by their hash.
    fn follows(&self, name: &str) -> bool {
        dataflow::key::hash(name.as_bytes()) % self.parallelism as u64 == self.task as u64
    }

    fn admit(&mut self) -> anyhow::Result<()> {
        let open_max = if self.shared.settings.follow { FOLLOWED_FILES_MAX } else { OPEN_FILES_MAX };
        while self.reading.len() < open_max
            && let Some(partition) = self.waiting.pop_front()
        {
            self.reading.push_back(partition);
        }
        ensure!(
            !self.shared.settings.follow || self.waiting.is_empty(),
            "`{}` matches more than {FOLLOWED_FILES_MAX} files to follow in one task: raise `parallelism` or narrow the path",
            self.shared.settings.path
        );
        Ok(())
    }

    /// Looks for files that were not there before.
    fn look_for_files(&mut self) -> anyhow::Result<()> {
        self.polls_since_listing = 0;
        for path in listing::followed_files(&self.shared.settings.path)? {
            let partition = Partition::new(self.shared.settings.partition_name(&path), path);
            let is_known = |known: &Partition| known.name == partition.name;
            if self.follows(&partition.name) && !self.reading.iter().chain(&self.waiting).any(is_known) {
                self.finished.retain(|gone| gone.name != partition.name);
                self.waiting.push_back(partition);
                self.changed = true;
            }
        }
        Ok(())
    }
}

impl Source for FileShare {
    fn poll(&mut self, limit: Limit) -> anyhow::Result<Polled> {
        let follow = self.shared.settings.follow;
        self.polls_since_listing += 1;
        if follow && self.polls_since_listing >= POLLS_PER_LISTING {
            self.look_for_files()?;
        }
        loop {
            self.admit()?;
            if std::mem::take(&mut self.changed) {
                return Ok(Polled::Partitions);
            }
            if follow && self.idle_turns >= self.reading.len() {
                self.idle_turns = 0;
                self.look_for_files()?;
                if self.changed {
                    continue;
                }
                if self.reading.is_empty() {
                    return Ok(Polled::Nothing(LOOK_AGAIN_AFTER));
                }
            }
            let Some(mut partition) = self.reading.pop_front() else { return Ok(Polled::Finished) };
            let turn = partition.turn(&self.shared, limit, &mut self.blocks)?;
            if partition.finished {
                self.finished.push(partition);
                self.changed = true;
            } else {
                self.reading.push_back(partition);
            }
            match turn {
                Turn::Records(records) => {
                    self.idle_turns = 0;
                    return Ok(Polled::Records(records));
                }
                Turn::Busy => return Ok(Polled::Nothing(Duration::ZERO)),
                Turn::Finished => {}
                Turn::Nothing => {
                    self.idle_turns += 1;
                    if self.idle_turns >= self.reading.len() {
                        return Ok(Polled::Nothing(LOOK_AGAIN_AFTER));
                    }
                }
            }
        }
    }

    fn postponed(&self) -> Vec<Arc<str>> {
        self.waiting.iter().map(|partition| partition.name.clone()).collect()
    }

    fn partitions(&self) -> Vec<source::Partition> {
        let mut partitions: Vec<_> = [&self.reading, &self.waiting]
            .into_iter()
            .flatten()
            .chain(&self.finished)
            .map(Partition::as_partition)
            .collect();
        partitions.sort_by(|a, b| a.name.cmp(&b.name));
        partitions
    }
}
