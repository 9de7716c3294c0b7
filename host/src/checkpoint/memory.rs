//! Checkpoint files in memory: for tests, which make it fail, and for jobs that need no recovery.

use super::CheckpointStorage;
use anyhow::bail;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The in-memory twin of [`super::filesystem::FilesystemStorage`].
#[derive(Debug, Default)]
pub struct MemoryStorage {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    failures: AtomicUsize,
}

impl MemoryStorage {
    /// The next call fails, and changes nothing. Called twice, the next two do.
    pub fn fail_next(&self) {
        self.failures.fetch_add(1, Ordering::SeqCst);
    }

    fn files(&self, name: &str) -> anyhow::Result<MutexGuard<'_, BTreeMap<String, Vec<u8>>>> {
        let left = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            bail!("the storage in memory was told to fail at `{name}`");
        }
        Ok(self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CheckpointStorage for MemoryStorage {
    fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        super::filesystem::check_name(name)?;
        self.files(name)?.insert(name.to_string(), content.to_vec());
        Ok(())
    }

    fn create(&self, name: &str, content: &[u8]) -> anyhow::Result<bool> {
        super::filesystem::check_name(name)?;
        let mut files = self.files(name)?;
        let free = !files.contains_key(name);
        if free {
            files.insert(name.to_string(), content.to_vec());
        }
        Ok(free)
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        super::filesystem::check_name(name)?;
        Ok(self.files(name)?.get(name).cloned())
    }

    fn list(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        Ok(self.files(prefix)?.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn delete(&self, name: &str) -> anyhow::Result<()> {
        super::filesystem::check_name(name)?;
        self.files(name)?.remove(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::contract::check_checkpoint_storage;

    #[test]
    fn memory_storage_keeps_the_contract() {
        check_checkpoint_storage(&MemoryStorage::default()).unwrap();
    }

    #[test]
    fn failure_that_was_asked_for_happens_once_and_changes_nothing() {
        let storage = MemoryStorage::default();
        storage.fail_next();
        assert!(storage.write("a", b"1").is_err());
        assert_eq!(storage.read("a").unwrap(), None);
    }
}
