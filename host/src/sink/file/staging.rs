//! Rows that no reader may see yet: a hidden file beside the target, durable once it is sealed for a checkpoint.

use super::Part;
use super::marker::sync_folder;
use anyhow::Context;
use dataflow::checkpoint::CheckpointId;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Rows are handed to the system in writes of about so many bytes.
const WRITE_BYTES: usize = 256 << 10;

/// The file being filled, and the names of those that are full.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
    prefix: String,
    open: Option<File>,
    written_bytes: u64,
    /// Rows not yet handed to the system.
    pub(super) buffer: Vec<u8>,
}

impl Staging {
    /// Files in `folder` whose names begin with `prefix`, which nobody else uses.
    pub(super) fn new(folder: &Path, prefix: String) -> Self {
        Self { folder: folder.to_path_buf(), prefix, open: None, written_bytes: 0, buffer: vec![] }
    }

    /// Nothing was written since the last seal.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.buffer.is_empty()
    }

    /// Rows were appended to the buffer: hands them on when there are many.
    pub(super) fn written(&mut self) -> anyhow::Result<()> {
        if self.buffer.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let path = self.open_path();
        let failed = || format!("writing staged rows to `{}`", path.display());
        let file = match &mut self.open {
            Some(file) => file,
            none => none.insert(File::create(&path).with_context(failed)?),
        };
        file.write_all(&self.buffer).with_context(failed)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes durable what was written; its file name and length, none where nothing was.
    pub(super) fn seal(&mut self, checkpoint: CheckpointId) -> anyhow::Result<Option<(String, u64)>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.flush()?;
        let name = format!("{}{:08}", self.prefix, checkpoint.0);
        let path = self.folder.join(&name);
        let failed = || format!("making staged rows durable in `{}`", path.display());
        if let Some(file) = self.open.take() {
            file.sync_all().with_context(failed)?;
        }
        fs::rename(self.open_path(), &path).with_context(failed)?;
        sync_folder(&self.folder)?;
        Ok(Some((name, std::mem::take(&mut self.written_bytes))))
    }

    fn open_path(&self) -> PathBuf {
        self.folder.join(format!("{}open", self.prefix))
    }

    /// Removes staged files that are neither being filled nor named by `kept`: a run that died left them undecided.
    pub(super) fn remove_all_but(&self, kept: &[Part]) -> anyhow::Result<()> {
        let failed = || format!("removing left-over staged files in `{}`", self.folder.display());
        for entry in fs::read_dir(&self.folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(&self.prefix)) else { continue };
            let sealed = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
            let being_filled = rest == "open" && self.open.is_some();
            let is_kept = being_filled || kept.iter().any(|part| name == part.staged.as_str());
            if (sealed || rest == "open") && !is_kept {
                fs::remove_file(entry.path()).with_context(failed)?;
            }
        }
        Ok(())
    }
}
