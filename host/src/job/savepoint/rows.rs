//! A savepoint's file of rows. Its own format, so that a checkpoint's may change and savepoints stay readable.
//!
//! ```text
//! file   "millrows" · version u16 BE · row…
//! row    length varint · stored key · length varint · stored value
//! key    key group u16 BE · state number u32 BE · row (state/mod.rs)
//! value  expiry i64 BE · schema version u16 BE · bytes
//! ```

use crate::checkpoint::{CheckpointStorage, entry};
use crate::state::layout::{self, META, PREFIX};
use crate::state::{Address, RowMeta, SnapshotVisitor};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::FileEntry;
use dataflow::key::{push_varint, take_bytes};

const MAGIC: &[u8] = b"millrows";

/// The version this program writes, and the newest it reads.
const VERSION: u16 = 1;

/// A file being filled.
pub(super) struct Writer {
    content: Vec<u8>,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut content = MAGIC.to_vec();
        content.extend_from_slice(&VERSION.to_be_bytes());
        Self { content }
    }

    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    pub(super) fn push(&mut self, at: Address<'_>, meta: RowMeta, bytes: &[u8]) {
        let content = &mut self.content;
        push_varint(content, (PREFIX + at.row.len()) as u64);
        layout::push_key(at, content);
        push_varint(content, (META + bytes.len()) as u64);
        layout::push_value(meta, bytes, content);
    }

    /// The content, and how `savepoint.json` names it.
    pub(super) fn finish(self, name: String) -> (Vec<u8>, FileEntry) {
        let file = entry(name, &self.content);
        (self.content, file)
    }
}

/// Visits the rows of a file in order.
///
/// # Errors
/// It is missing, damaged, or of an unknown version; or the visitor's own.
pub(super) fn read(
    storage: &dyn CheckpointStorage,
    file: &FileEntry,
    visit: &mut SnapshotVisitor<'_>,
) -> anyhow::Result<()> {
    let name = &file.name;
    let content = storage.read(name)?.with_context(|| format!("file `{name}` of the savepoint is missing"))?;
    let found = entry(name.clone(), &content);
    ensure!(
        found == *file,
        "file `{name}` of the savepoint is damaged: {} bytes with checksum {}, expected {} with {}",
        found.length,
        found.checksum,
        file.length,
        file.checksum
    );
    let header = content.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk());
    let Some((version, mut rest)) = header else { bail!("file `{name}` of the savepoint holds no rows") };
    let version = u16::from_be_bytes(*version);
    ensure!(
        (1..=VERSION).contains(&version),
        "file `{name}` of the savepoint has format version {version}, this program reads versions up to {VERSION}: use a \
         newer program"
    );
    while !rest.is_empty() {
        let (at, meta, bytes) =
            take(&mut rest).with_context(|| format!("file `{name}` of the savepoint ends within a row"))?;
        visit(at, meta, bytes)?;
    }
    Ok(())
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<(Address<'a>, RowMeta, &'a [u8])> {
    let at = layout::address(take_bytes(rest)?)?;
    let (meta, bytes) = layout::value(take_bytes(rest)?)?;
    Some((at, meta, bytes))
}
