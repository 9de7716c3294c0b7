//! From the path a user wrote to the files it means, in the order of their names.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Whether `path` can be understood.
///
/// # Errors
/// It is a pattern with a mistake.
pub(super) fn check(path: &str) -> anyhow::Result<()> {
    if !Path::new(path).exists() {
        glob::Pattern::new(path).with_context(|| format!("`path` is the pattern `{path}`"))?;
    }
    Ok(())
}

/// Whether `path` names exactly one file, rather than a directory or a pattern.
pub(super) fn is_one_file(path: &str) -> bool {
    Path::new(path).is_file() || !Path::new(path).exists() && !is_pattern(path)
}

fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The files `path` means, sorted by name.
///
/// # Errors
/// It names a file that is not there, or a directory cannot be read.
pub(super) fn files(path: &str) -> anyhow::Result<Vec<PathBuf>> {
    let named = Path::new(path);
    // A name that exists is meant literally, even if it could be read as a pattern.
    let mut files = match named.metadata() {
        Ok(metadata) if metadata.is_dir() => in_directory(named)?,
        Ok(_) => vec![named.to_path_buf()],
        Err(_) if is_pattern(path) => matching(path)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("there is no file or directory `{path}`: a relative path starts at the job file's folder")
        }
        Err(error) => return Err(error).with_context(|| format!("looking at `{path}`")),
    };
    files.sort();
    Ok(files)
}

/// The same while the files are followed: the one that is named may be gone for a while.
///
/// # Errors
/// A directory cannot be read.
pub(super) fn followed_files(path: &str) -> anyhow::Result<Vec<PathBuf>> {
    if !Path::new(path).exists() && !is_pattern(path) { Ok(vec![]) } else { files(path) }
}

fn in_directory(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let reading = || format!("reading the directory `{}`", directory.display());
    let mut files = vec![];
    for entry in std::fs::read_dir(directory).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if !is_hidden(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// What lies in the directory at `path` and is not read, though its name does not begin with a dot; none where `path` is none, or
/// all is read.
pub(super) fn passed_over(path: &str) -> Option<String> {
    let entries = std::fs::read_dir(path).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !is_hidden(path) && !path.is_file());
    let (mut folders, mut others): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(|path| path.is_dir());
    let named = |paths: &mut Vec<PathBuf>| {
        paths.sort();
        let first: Vec<String> = paths.iter().take(3).map(|path| format!("`{}`", path.display())).collect();
        let more = if paths.len() > 3 { format!(" and {} more", paths.len() - 3) } else { String::new() };
        first.join(", ") + &more
    };
    let said = match (folders.is_empty(), others.is_empty()) {
        (true, true) => return None,
        (false, true) => {
            format!("folders in it are left out, name their files with a pattern: {}", named(&mut folders))
        }
        (true, false) => format!("what leads to no file: {}", named(&mut others)),
        (false, false) => {
            format!(
                "folders in it are left out: {}; so is what leads to no file: {}",
                named(&mut folders),
                named(&mut others)
            )
        }
    };
    Some(said)
}

fn matching(pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = vec![];
    for path in glob::glob(pattern).with_context(|| format!("`path` is the pattern `{pattern}`"))? {
        let path = path.with_context(|| format!("looking for the files of `{pattern}`"))?;
        if !is_hidden(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with('.'))
}
