//! Stores the files of snapshots: those of RocksDB's table files that no earlier snapshot has stored, and the list of them.
//! A thread of its own, so that the next layer is applied meanwhile. Table files never change, so each is read once.

use super::files::{Files, table_of};
use crate::checkpoint::entry_of_file;
use crate::env;
use crate::state::layered::Answers;
use anyhow::{Context, anyhow};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

/// What there is to upload for a checkpoint.
pub(super) enum Cut {
    /// The files of the database in a directory of their own, which goes when they are stored.
    Linked(PathBuf),
    /// There is no database yet.
    Nothing,
    Failed(anyhow::Error),
}

/// The way to the thread, which is started with the first snapshot.
pub(super) struct Uploads {
    answers: Answers,
    idle: Option<Uploader>,
    to: Option<Sender<(CheckpointId, Cut)>>,
}

/// The thread's own.
struct Uploader {
    files: Files,
    /// Files that are stored, by their names in the database.
    stored: BTreeMap<String, FileEntry>,
    answers: Answers,
}

impl Uploads {
    /// `restored` are files that the database has in common with the storage.
    pub(super) fn new(files: Files, restored: Vec<FileEntry>, answers: Answers) -> Self {
        let tables = restored.into_iter().filter_map(|file| Some((table_of(&file.name)?.to_string(), file)));
        let stored = tables.collect();
        Self { idle: Some(Uploader { files, stored, answers: answers.clone() }), answers, to: None }
    }

    /// Uploads, and answers when it is done. False: nobody hears any more.
    pub(super) fn send(&mut self, checkpoint: CheckpointId, cut: Cut) -> bool {
        if let Some(mut uploader) = self.idle.take() {
            let (to, inbox) = channel();
            let name = format!("upload-{}", uploader.files.task());
            let started = env::spawn_beside(&name, move || {
                while let Ok((checkpoint, cut)) = inbox.recv() {
                    if !uploader.take(checkpoint, cut) {
                        return;
                    }
                }
            });
            self.to = started.is_ok().then_some(to);
        }
        let sent = self.to.as_ref().is_some_and(|to| to.send((checkpoint, cut)).is_ok());
        sent || self.answers.snapshot(checkpoint, Err(anyhow!("there is no thread that uploads state")))
    }
}

impl Uploader {
    fn take(&mut self, checkpoint: CheckpointId, cut: Cut) -> bool {
        let files = match cut {
            Cut::Nothing => Ok(vec![]),
            Cut::Failed(error) => Err(error),
            Cut::Linked(folder) => {
                let files = self.store(checkpoint, &folder);
                if let Err(error) = fs::remove_dir_all(&folder) {
                    // It goes with the database's own directory.
                    tracing::warn!(folder = %folder.display(), %error, "links to state files are left behind");
                }
                files
            }
        };
        self.answers.snapshot(checkpoint, files)
    }

    fn store(&mut self, checkpoint: CheckpointId, folder: &Path) -> anyhow::Result<Vec<FileEntry>> {
        let mut names = vec![];
        for entry in fs::read_dir(folder).with_context(|| format!("`{}` cannot be read", folder.display()))? {
            names.extend(entry?.file_name().into_string().ok());
        }
        names.sort_unstable();
        let mut snapshot = vec![];
        for name in &names {
            let path = folder.join(name);
            if let Some(stored) = self.stored.get(name) {
                snapshot.push(stored.clone());
            } else if name.ends_with(".sst") {
                let file = self.store_file(self.files.name_of_table(name), &path)?;
                self.stored.insert(name.clone(), file.clone());
                snapshot.push(file);
            } else if name.starts_with("MANIFEST-") {
                snapshot.push(self.store_file(self.files.name_of_list(checkpoint, name), &path)?);
            }
        }
        // What has gone from the database never comes back.
        self.stored.retain(|name, _| names.binary_search(name).is_ok());
        Ok(snapshot)
    }

    fn store_file(&self, name: String, path: &Path) -> anyhow::Result<FileEntry> {
        let file = entry_of_file(name, path)?;
        let name = &file.name;
        let storing = || format!("state file `{name}` cannot be written");
        self.files.storage.write_file(name, path).with_context(storing)?;
        Ok(file)
    }
}
