//! One file per checkpoint that has rows. A rename makes it visible, so readers never see a part of one.

use super::marker::{Marker, judge, of_this_run, sync_folder};
use super::{OnExisting, Part, Settings, Target};
use crate::sink::SinkInput;
use anyhow::{Context, bail};
use dataflow::checkpoint::CheckpointId;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory that this sink puts files in; other sinks may too.
pub(super) struct Directory {
    folder: PathBuf,
    sink: String,
    extension: &'static str,
    marker_path: PathBuf,
    marker: Marker,
}

impl Directory {
    pub(super) fn open(settings: &Settings, input: &SinkInput) -> anyhow::Result<Self> {
        let folder = settings.path.clone();
        fs::create_dir_all(&folder)
            .with_context(|| format!("making folder `{}` for sink `{}`", folder.display(), input.sink))?;
        let marker_path = folder.join(format!(".applied-{}", input.sink));
        let extension = settings.rows.format.extension();
        let mut directory =
            Self { folder, sink: input.sink.clone(), extension, marker_path, marker: Marker::new(input) };
        match of_this_run(&directory.marker_path, input)? {
            Some(marker) => directory.marker = marker,
            None => directory.begin(settings, input)?,
        }
        Ok(directory)
    }

    fn begin(&mut self, settings: &Settings, input: &SinkInput) -> anyhow::Result<()> {
        let found = self.files()?;
        if let Some((newest, path)) = found.last() {
            match judge(Marker::read(&self.marker_path)?.as_ref(), settings, input, path)? {
                OnExisting::Append => self.marker.base = *newest,
                OnExisting::Replace | OnExisting::Fail => {
                    for (_, path) in &found {
                        fs::remove_file(path).with_context(|| format!("removing `{}`", path.display()))?;
                    }
                }
            }
        }
        self.marker.write(&self.marker_path)
    }

    /// Files of this sink by number, ascending.
    fn files(&self) -> anyhow::Result<Vec<(u64, PathBuf)>> {
        let failed = || format!("listing `{}`", self.folder.display());
        let mut files = vec![];
        for entry in fs::read_dir(&self.folder).with_context(failed)? {
            let path = entry.with_context(failed)?.path();
            if let Some(number) = path.file_name().and_then(|name| name.to_str()).and_then(|name| self.number(name)) {
                files.push((number, path));
            }
        }
        files.sort();
        Ok(files)
    }

    fn number(&self, name: &str) -> Option<u64> {
        let (number, ending) = name.strip_prefix(&self.sink)?.strip_prefix('-')?.split_once('.')?;
        let ours = ["ndjson", "csv", "txt"].contains(&ending) && number.len() >= 8;
        if ours && number.bytes().all(|byte| byte.is_ascii_digit()) { number.parse().ok() } else { None }
    }

    fn show(&self, part: &Part) -> anyhow::Result<()> {
        let (staged, shown) = (self.folder.join(&part.staged), self.folder.join(&part.file));
        match fs::rename(&staged, &shown) {
            Ok(()) => Ok(()),
            Err(_) if fs::metadata(&shown).is_ok_and(|file| file.len() == part.bytes) => Ok(()),
            Err(error) if !staged.exists() => bail!(
                "staged file `{}` of checkpoint {} is gone, so its rows cannot be shown ({error})",
                staged.display(),
                part.checkpoint
            ),
            failed => failed.with_context(|| format!("renaming `{}` to `{}`", staged.display(), shown.display())),
        }
    }
}

impl Target for Directory {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn staged_prefix(&self) -> String {
        format!(".staged-{}-", self.sink)
    }

    fn place(&self, checkpoint: CheckpointId, _waiting: &[Part]) -> (String, u64) {
        (format!("{}-{:08}.{}", self.sink, self.marker.base + checkpoint.0, self.extension), 0)
    }

    fn publish(&mut self, checkpoint: CheckpointId, parts: &[Part]) -> anyhow::Result<()> {
        if self.marker.checkpoint >= Some(checkpoint) {
            return Ok(());
        }
        // Why: files of parts applied before may have been taken away by a reader, which is no fault.
        let mut missing = parts.iter().filter(|part| Some(part.checkpoint) > self.marker.checkpoint).peekable();
        if missing.peek().is_some() {
            missing.try_for_each(|part| self.show(part))?;
            sync_folder(&self.folder)?;
        }
        self.marker.checkpoint = Some(checkpoint);
        self.marker.write(&self.marker_path)
    }

    fn applied(&self) -> anyhow::Result<Option<CheckpointId>> {
        let newest = self.files()?.last().map_or(0, |&(number, _)| number);
        let shown = newest.checked_sub(self.marker.base).filter(|&number| number > 0).map(CheckpointId);
        Ok(shown.max(self.marker.checkpoint))
    }
}
