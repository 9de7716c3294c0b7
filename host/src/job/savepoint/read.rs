//! Opens a savepoint, and hands out its rows.

use super::{FILE, rows};
use crate::checkpoint::{self, CheckpointStorage};
use crate::state::{Address, RowMeta};
use anyhow::{Context, ensure};
use dataflow::checkpoint::savepoint::Savepoint;
use dataflow::restart::Permanent;
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;

/// A savepoint whose own file was verified. The files of rows are verified when they are read.
pub struct Opened {
    /// What it says.
    pub savepoint: Savepoint,
    /// Its place, for errors.
    name: String,
    storage: Arc<dyn CheckpointStorage>,
}

/// What stands in every version, and is looked at first.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// Opens the savepoint that lies in `storage`, called `name` in errors.
///
/// # Errors
/// There is none, it is damaged, or of an unknown version.
pub fn open(storage: Arc<dyn CheckpointStorage>, name: &str) -> anyhow::Result<Opened> {
    let content = storage
        .read(FILE)
        .with_context(|| format!("the savepoint `{name}` cannot be read"))?
        .ok_or_else(|| Permanent(format!("`{name}` is no savepoint: it has no `{FILE}`, which is written last")))?;
    let header: Header = serde_json::from_slice(&content)
        .with_context(|| format!("`{FILE}` of `{name}` is damaged, or not a savepoint's"))?;
    ensure!(header.format == Savepoint::FORMAT, "`{FILE}` of `{name}` is not a savepoint's, but `{}`", header.format);
    ensure!(
        header.version <= Savepoint::VERSION && header.version > 0,
        Permanent(format!(
            "the savepoint `{name}` has format version {}, this program reads versions up to {}: use a newer program",
            header.version,
            Savepoint::VERSION
        ))
    );
    let savepoint: Savepoint =
        serde_json::from_slice(&content).with_context(|| format!("`{FILE}` of the savepoint `{name}` is damaged"))?;
    let found = checksum_in(&content, &savepoint.checksum);
    ensure!(
        found == savepoint.checksum,
        "`{FILE}` of the savepoint `{name}` is damaged: its checksum is {found} where it says {}",
        savepoint.checksum
    );
    Ok(Opened { savepoint, name: name.to_string(), storage })
}

/// The checksum of what stands in `savepoint.json`, members that this program does not know among it. `told` is the one that it says.
fn checksum_in(content: &[u8], told: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let compact = content.iter().copied().filter(|&byte| {
        let kept = in_text || !byte.is_ascii_whitespace();
        in_text ^= byte == b'"' && !escaped;
        escaped = in_text && byte == b'\\' && !escaped;
        kept
    });
    let compact = String::from_utf8(compact.collect()).expect("what was read as JSON is UTF-8");
    let without = compact.replacen(&format!("\"checksum\":\"{told}\""), "\"checksum\":\"\"", 1);
    checkpoint::checksum(without.as_bytes())
}

impl Opened {
    /// Visits the rows of these key groups.
    ///
    /// # Errors
    /// A file is missing or damaged, or the visitor refuses.
    pub fn rows(
        &self,
        groups: Range<u16>,
        mut visit: impl FnMut(Address<'_>, RowMeta, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let wanted = |file: &&dataflow::checkpoint::savepoint::RowFile| {
            file.groups.0 < groups.end && groups.start <= file.groups.1
        };
        for file in self.savepoint.files.iter().filter(wanted) {
            rows::read(&*self.storage, &file.file, &mut |at, meta, bytes| {
                if groups.contains(&at.group.0) { visit(at, meta, bytes) } else { Ok(()) }
            })
            .with_context(|| {
                format!(
                    "the savepoint `{}` cannot be read to its end: where a file of it is damaged or gone, copy it again from where it \
                     was made, or take another",
                    self.name
                )
            })?;
        }
        Ok(())
    }
}
