//! The files of a snapshot: rows in a row, behind a header with a version. Written and read by the `memory` backend.
//!
//! ```text
//! file   "millstate" · version u16 BE · row…
//! row    length varint · stored key (mod.rs) · 0                                        a deleted row
//!        length varint · stored key (mod.rs) · length varint + 1 · stored value (mod.rs)
//! ```
//!
//! The checksum over the whole file stands in the manifest: see `FileEntry`. Later rows replace earlier ones.

use crate::checkpoint::{CheckpointStorage, read_verified};
use crate::state::layered::RowRef;
use crate::state::layout::{self, META, PREFIX};
use crate::state::{Address, RowMeta, StateNumber};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::FileEntry;
use dataflow::key::{KeyGroup, push_varint, take_bytes, take_varint};

const MAGIC: &[u8] = b"millstate";

/// The version this program writes. It reads no other.
const VERSION: u16 = 1;

/// A file being filled.
#[derive(Debug)]
pub(super) struct FileWriter {
    content: Vec<u8>,
}

impl FileWriter {
    pub(super) fn new() -> Self {
        let mut content = MAGIC.to_vec();
        content.extend_from_slice(&VERSION.to_be_bytes());
        Self { content }
    }

    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.content.len() == MAGIC.len() + 2
    }

    pub(super) fn push(&mut self, group: KeyGroup, state: StateNumber, row: RowRef<'_>) {
        push_varint(&mut self.content, (PREFIX + row.key().len()) as u64);
        layout::push_key(Address { group, state, row: row.key() }, &mut self.content);
        let Some(bytes) = row.bytes() else {
            self.content.push(0);
            return;
        };
        push_varint(&mut self.content, (META + bytes.len() + 1) as u64);
        layout::push_value(row.meta(), bytes, &mut self.content);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.content
    }
}

/// A row of a file.
pub(super) struct StoredRow<'a> {
    pub(super) group: KeyGroup,
    pub(super) state: StateNumber,
    pub(super) row: &'a [u8],
    /// None where the row was deleted.
    pub(super) value: Option<(RowMeta, &'a [u8])>,
}

/// Reads a file that a manifest names and visits its rows in order.
///
/// # Errors
/// The file is missing, has another length or checksum than the manifest says, or a version this program does not read.
pub(super) fn read_file(
    storage: &dyn CheckpointStorage,
    file: &FileEntry,
    mut visit: impl FnMut(StoredRow<'_>),
) -> anyhow::Result<()> {
    let name = &file.name;
    let content = read_verified(storage, file)?;
    let Some(rest) = content.strip_prefix(MAGIC) else {
        bail!("file `{name}` holds no state: it does not begin as such files do")
    };
    let Some((version, mut rest)) = rest.split_first_chunk() else {
        bail!("state file `{name}` ends within its header")
    };
    let version = u16::from_be_bytes(*version);
    ensure!(
        version == VERSION,
        "state file `{name}` has format version {version}, this program reads {VERSION}: use the program that wrote it"
    );
    while !rest.is_empty() {
        let row = take_row(&mut rest).with_context(|| format!("state file `{name}` ends within a row"))?;
        visit(row);
    }
    Ok(())
}

fn take_row<'a>(rest: &mut &'a [u8]) -> Option<StoredRow<'a>> {
    let Address { group, state, row } = layout::address(take_bytes(rest)?)?;
    let mut value = None;
    if let Some(length) = usize::try_from(take_varint(rest)?).ok()?.checked_sub(1) {
        let (stored, after) = rest.split_at_checked(length)?;
        *rest = after;
        value = Some(layout::value(stored)?);
    }
    Some(StoredRow { group, state, row, value })
}
