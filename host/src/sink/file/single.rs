//! One file that grows by each checkpoint's rows, at a place the checkpoint names: applied again, the same bytes come to
//! stand at the same place. Readers may see a part of the last checkpoint while it is being appended.

use super::marker::{Marker, judge, of_this_run};
use super::{OnExisting, Part, Settings, Target};
use crate::sink::SinkInput;
use anyhow::{Context, ensure};
use dataflow::checkpoint::CheckpointId;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The file, and what is remembered beside it.
pub(super) struct Single {
    folder: PathBuf,
    name: String,
    marker_path: PathBuf,
    marker: Marker,
}

impl Single {
    pub(super) fn open(settings: &Settings, input: &SinkInput) -> anyhow::Result<Self> {
        let path = &settings.path;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&folder)
            .with_context(|| format!("making folder `{}` for sink `{}`", folder.display(), input.sink))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("`{}` is no name of a file in UTF-8", path.display()))?.to_string();
        let marker_path = folder.join(format!(".{name}.applied"));
        let mut single = Self { folder, name, marker_path, marker: Marker::new(input) };
        match of_this_run(&single.marker_path, input)? {
            Some(marker) => single.marker = marker,
            None => single.begin(settings, input)?,
        }
        Ok(single)
    }

    fn begin(&mut self, settings: &Settings, input: &SinkInput) -> anyhow::Result<()> {
        let path = self.path();
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        if length > 0 {
            match judge(Marker::read(&self.marker_path)?.as_ref(), settings, input, &path)? {
                OnExisting::Append => self.marker.length = length,
                OnExisting::Replace | OnExisting::Fail => {
                    fs::remove_file(&path).with_context(|| format!("removing `{}`", path.display()))?;
                }
            }
        }
        self.marker.write(&self.marker_path)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn append(&self, target: &mut File, part: &Part) -> anyhow::Result<()> {
        let (staged, path) = (self.folder.join(&part.staged), self.path());
        let length = target.metadata().with_context(|| format!("reading the length of `{}`", path.display()))?.len();
        ensure!(
            length >= part.at,
            "`{}` has {length} bytes, but {} had been written before checkpoint {}: somebody else has cut it",
            path.display(),
            part.at,
            part.checkpoint
        );
        let mut rows = File::open(&staged)
            .with_context(|| format!("opening staged file `{}` of checkpoint {}", staged.display(), part.checkpoint))?;
        let failed = || format!("appending `{}` to `{}`", staged.display(), path.display());
        target.set_len(part.at).with_context(failed)?;
        target.seek(SeekFrom::Start(part.at)).with_context(failed)?;
        let copied = std::io::copy(&mut rows, target).with_context(failed)?;
        ensure!(copied == part.bytes, "staged file `{}` has {copied} bytes of {}", staged.display(), part.bytes);
        Ok(())
    }
}

impl Target for Single {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn staged_prefix(&self) -> String {
        format!(".{}.staged-", self.name)
    }

    fn place(&self, _checkpoint: CheckpointId, waiting: &[Part]) -> (String, u64) {
        (self.name.clone(), waiting.last().map_or(self.marker.length, |part| part.at + part.bytes))
    }

    fn publish(&mut self, checkpoint: CheckpointId, parts: &[Part]) -> anyhow::Result<()> {
        if self.marker.checkpoint >= Some(checkpoint) {
            return Ok(());
        }
        let missing: Vec<&Part> = parts.iter().filter(|part| Some(part.checkpoint) > self.marker.checkpoint).collect();
        if let Some(last) = missing.last() {
            let path = self.path();
            let mut target = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .with_context(|| format!("opening `{}`", path.display()))?;
            missing.iter().try_for_each(|part| self.append(&mut target, part))?;
            target.sync_all().with_context(|| format!("making `{}` durable", path.display()))?;
            self.marker.length = last.at + last.bytes;
        }
        self.marker.checkpoint = Some(checkpoint);
        self.marker.write(&self.marker_path)?;
        for part in missing {
            let staged = self.folder.join(&part.staged);
            fs::remove_file(&staged).with_context(|| format!("removing `{}`", staged.display()))?;
        }
        Ok(())
    }

    fn applied(&self) -> anyhow::Result<Option<CheckpointId>> {
        Ok(self.marker.checkpoint)
    }
}
