//! Where checkpoints are kept, as a user says it: a folder or a URL. The only place that knows which storage serves which.

use super::CheckpointStorage;
use super::filesystem::FilesystemStorage;
use super::s3::S3Storage;
use anyhow::{bail, ensure};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// A place that keeps files of many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A bucket of an S3-compatible store.
    S3 {
        /// Its name.
        bucket: String,
        /// What stands before the names of all objects, without slashes at its ends; may be empty.
        prefix: String,
    },
}

impl Location {
    /// The storage for what lies under `folder` of this place, such as `<job>/checkpoints`. Credentials and endpoint of a
    /// store come from the environment variables `AWS_…`.
    ///
    /// # Errors
    /// The folder cannot be made, or the settings do not fit.
    pub fn open(&self, folder: &str) -> anyhow::Result<Arc<dyn CheckpointStorage>> {
        Ok(match self {
            Self::Folder(path) => Arc::new(FilesystemStorage::open(path.join(folder))),
            Self::S3 { bucket, prefix } => {
                // A variable that is no text is none of ours.
                let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                };
                Arc::new(S3Storage::open(bucket, &format!("{prefix}/{folder}"), std::env::vars_os().filter_map(text))?)
            }
        })
    }
}

/// A place as it may be shown: what stands before an `@` in a URL is left out, since it may be a secret.
pub fn shown(place: &str) -> String {
    match place.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://…@{rest}"),
        None => place.to_string(),
    }
}

impl FromStr for Location {
    type Err = anyhow::Error;

    /// Reads `path/to/folder`, `file:///path/to/folder` or `s3://bucket/prefix`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let Some((scheme, rest)) = text.split_once("://") else {
            ensure!(!text.is_empty(), "a place for checkpoints must not be empty");
            return Ok(Self::Folder(PathBuf::from(text)));
        };
        match scheme {
            "file" => {
                ensure!(rest.starts_with('/'), "`{text}` names another machine: write `file:///path/to/folder`");
                Ok(Self::Folder(PathBuf::from(rest)))
            }
            "s3" => {
                ensure!(
                    !rest.contains('@'),
                    "an s3:// URL takes no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                );
                ensure!(!rest.contains(['?', '#']), "`{text}` has a `?` or `#`, which an s3:// URL does not take");
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                ensure!(!bucket.is_empty(), "`{text}` names no bucket: write `s3://bucket/prefix`");
                let prefix = prefix.trim_matches('/');
                let whole = prefix.is_empty() || prefix.split('/').all(|part| !["", ".", ".."].contains(&part));
                ensure!(whole, "`{text}` has an empty part, or `.` or `..`, between its slashes");
                Ok(Self::S3 { bucket: bucket.to_string(), prefix: prefix.to_string() })
            }
            _ => bail!(
                "`{scheme}://` is no storage that Millstream knows: a folder, `file:///…` or `s3://bucket/prefix`"
            ),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_a_url() {
        let read = |text: &str| text.parse::<Location>().map_err(|error| format!("{error:#}"));
        let s3 = |bucket: &str, prefix: &str| Location::S3 { bucket: bucket.into(), prefix: prefix.into() };
        assert_eq!(read("data/here"), Ok(Location::Folder("data/here".into())));
        assert_eq!(read("file:///var/lib/a"), Ok(Location::Folder("/var/lib/a".into())));
        assert_eq!(read("s3://rides"), Ok(s3("rides", "")));
        assert_eq!(read("s3://rides/team/a/"), Ok(s3("rides", "team/a")));
        assert_eq!(s3("rides", "team/a").to_string(), "s3://rides/team/a");
        let refused = [
            ("", "must not be empty"),
            ("file://host/a", "names another machine"),
            ("s3:///a", "names no bucket"),
            ("s3://a/b//c", "empty part"),
            ("s3://a/../b", "`..`"),
            ("s3://a?region=b", "`?`"),
            ("gs://a", "no storage that Millstream knows"),
        ];
        for (text, said) in refused {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn credentials_in_a_url_are_refused_and_not_said() {
        let error = "s3://key:hush@bucket/a".parse::<Location>().unwrap_err();
        assert!(!format!("{error:#}").contains("hush"), "{error:#}");
        assert_eq!(shown("s3://key:hush@bucket/a"), "s3://…@bucket/a");
        assert_eq!(shown("data/me@home"), "data/me@home");
    }
}
