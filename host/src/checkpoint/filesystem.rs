//! Checkpoint files in a local directory. A file appears under its name whole and durable, or not at all: it is written
//! beside, synced, and then moved.

use super::CheckpointStorage;
use anyhow::{Context, ensure};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Files being written lie here, under the root, and are no part of any listing.
const UNFINISHED: &str = ".unfinished";

/// A directory that keeps the files of one job's checkpoints.
#[derive(Debug)]
pub struct FilesystemStorage {
    root: PathBuf,
    unfinished: AtomicU64,
}

impl FilesystemStorage {
    /// Keeps files under `root`, which is made when the first is written: who only reads changes nothing.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), unfinished: AtomicU64::new(0) }
    }

    fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    /// Makes a durable file under a name that nobody else uses, and the directory that `path` will lie in.
    fn prepare(&self, path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> anyhow::Result<PathBuf> {
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        let folder = self.root.join(UNFINISHED);
        let unfinished = folder.join(format!("{}-{number}", std::process::id()));
        if let Err(error) = fs::create_dir_all(&folder).and_then(|()| make(&unfinished)) {
            // What is left of it does no harm, and the next start removes it.
            let _ = fs::remove_file(&unfinished);
            return Err(error).with_context(|| format!("`{}` cannot be written", path.display()));
        }
        let folder = folder_of(path);
        if !folder.is_dir() {
            make_durable_dir(&self.root, folder)
                .with_context(|| format!("directory `{}` cannot be made", folder.display()))?;
        }
        Ok(unfinished)
    }
}

/// Writes `content` durably.
fn write_all(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// A second name for a file, or where its file system is another one, a copy of it.
fn link_or_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    match fs::hard_link(from, to) {
        // Why: a copy would be written into what lies there, which may be a link to a checkpoint's file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        Err(_) => fs::copy(from, to).map(|_| ()),
        Ok(()) => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().expect("a checked name lies below the root")
}

/// Makes `folder` and whatever is missing between it and `root`, each entry synced in its parent.
fn make_durable_dir(root: &Path, folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for made in folder.ancestors().take_while(|above| *above != root) {
        sync_dir(folder_of(made))?;
    }
    Ok(())
}

/// Gives a whole, durable file its name.
fn place(unfinished: &Path, path: &Path) -> anyhow::Result<()> {
    fs::rename(unfinished, path)
        .and_then(|()| sync_dir(folder_of(path)))
        .with_context(|| format!("`{}` cannot be written", path.display()))
}

fn sync_dir(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What lies in a folder; nothing if there is no such folder.
fn files_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(vec![]),
        entries => entries?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>(),
    };
    read().with_context(|| format!("directory `{}` cannot be read", folder.display()))
}

/// Refuses names that would lead out of the storage, or among its unfinished files.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    let whole = name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']));
    ensure!(whole, "`{name}` is no name of a checkpoint file: parts between `/` must not be empty or begin with a dot");
    Ok(())
}

impl CheckpointStorage for FilesystemStorage {
    fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let path = self.path(name)?;
        let unfinished = self.prepare(&path, |unfinished| write_all(unfinished, content))?;
        place(&unfinished, &path)
    }

    fn write_file(&self, name: &str, from: &Path) -> anyhow::Result<()> {
        let path = self.path(name)?;
        let unfinished = self.prepare(&path, |unfinished| {
            link_or_copy(from, unfinished)?;
            File::open(unfinished)?.sync_all()
        })?;
        place(&unfinished, &path)
    }

    fn read_to_file(&self, name: &str, to: &Path) -> anyhow::Result<bool> {
        let path = self.path(name)?;
        match link_or_copy(&path, to) {
            Ok(()) => Ok(true),
            Err(_) if !path.exists() => Ok(false),
            Err(error) => {
                Err(error).with_context(|| format!("`{}` cannot be read into `{}`", path.display(), to.display()))
            }
        }
    }

    fn create(&self, name: &str, content: &[u8]) -> anyhow::Result<bool> {
        let path = self.path(name)?;
        let unfinished = self.prepare(&path, |unfinished| write_all(unfinished, content))?;
        // A hard link is made by one caller only, and shows the whole content from its first moment.
        let linked = match fs::hard_link(&unfinished, &path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            linked => linked.map(|()| true),
        };
        // The loser syncs too: it goes by a decision that must outlive a power cut as well.
        let synced = linked.and_then(|made| sync_dir(folder_of(&path)).map(|()| made));
        // A second name of a decided file, or a loser's content: the next start removes what this does not.
        let _ = fs::remove_file(&unfinished);
        synced.with_context(|| format!("`{}` cannot be created", path.display()))
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.path(name)?;
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("`{}` cannot be read", path.display())),
        }
    }

    fn list(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let mut names = vec![];
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for path in files_in(&folder)? {
                let Some(name) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else { continue };
                let reachable = name.starts_with(prefix) || prefix.starts_with(name);
                if path.is_dir() {
                    if name != UNFINISHED && reachable {
                        folders.push(path);
                    }
                } else if name.starts_with(prefix) {
                    names.push(name.to_string());
                }
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove_unfinished(&self) -> anyhow::Result<()> {
        for file in files_in(&self.root.join(UNFINISHED))? {
            fs::remove_file(&file)
                .with_context(|| format!("unfinished file `{}` cannot be removed", file.display()))?;
        }
        Ok(())
    }

    fn delete(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("`{}` cannot be deleted", path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::contract::check_checkpoint_storage;

    #[test]
    fn filesystem_storage_keeps_the_contract() {
        let root = tempfile::tempdir().unwrap();
        check_checkpoint_storage(&FilesystemStorage::open(root.path().join("job"))).unwrap();
        assert_eq!(files_in(&root.path().join("job").join(UNFINISHED)).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn files_outlive_the_process_and_unfinished_ones_do_not() {
        let root = tempfile::tempdir().unwrap();
        FilesystemStorage::open(root.path()).write("manifests/1", b"whole").unwrap();
        fs::write(root.path().join(UNFINISHED).join("1-0"), b"half").unwrap();
        let storage = FilesystemStorage::open(root.path());
        assert_eq!(storage.read("manifests/1").unwrap().unwrap(), b"whole");
        assert_eq!(storage.list("").unwrap(), ["manifests/1"]);
        let unfinished = || files_in(&root.path().join(UNFINISHED)).unwrap().len();
        assert_eq!(unfinished(), 1, "who reads leaves alone what somebody may be writing");
        storage.remove_unfinished().unwrap();
        assert_eq!(unfinished(), 0);
    }

    #[test]
    fn refusal_of_the_disk_names_the_file() {
        let root = tempfile::tempdir().unwrap();
        let storage = FilesystemStorage::open(root.path());
        fs::write(root.path().join("state"), b"a file where a directory must be").unwrap();
        let error = storage.write("state/a", b"").unwrap_err();
        assert!(format!("{error:#}").contains("/state` cannot be made"), "{error:#}");
    }
}
