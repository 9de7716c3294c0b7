//! A savepoint's file of rows. Its own format, so that a checkpoint's may change and savepoints stay readable.
//!
//! ```text
//! file   "millrows" · version u16 BE · row…
//! row    length varint · stored key · length varint · stored value
//! key    key group u16 BE · state number u32 BE · row (state/mod.rs)
//! value  expiry i64 BE · schema version u16 BE · bytes
//! ```

use crate::checkpoint::CheckpointStorage;
use crate::state::{Address, RowMeta, SnapshotVisitor, StateNumber};
use anyhow::{Context, bail, ensure};
use dataflow::checkpoint::FileEntry;
use dataflow::key::{KeyGroup, push_varint, take_varint};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8] = b"millrows";

/// The version this program writes, and the newest it reads.
const VERSION: u16 = 1;

/// Bytes of key group and state number, of expiry and schema version.
const PREFIX: usize = 6;
const META: usize = 10;

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
        content.extend_from_slice(&at.group.0.to_be_bytes());
        content.extend_from_slice(&at.state.0.to_be_bytes());
        content.extend_from_slice(at.row);
        push_varint(content, (META + bytes.len()) as u64);
        content.extend_from_slice(&meta.expiry.to_be_bytes());
        content.extend_from_slice(&meta.version.to_be_bytes());
        content.extend_from_slice(bytes);
    }

    /// The content, and how `savepoint.json` names it.
    pub(super) fn finish(self, name: String) -> (Vec<u8>, FileEntry) {
        let entry = FileEntry { name, length: self.content.len() as u64, checksum: checksum(&self.content) };
        (self.content, entry)
    }
}

fn checksum(content: &[u8]) -> String {
    format!("{:016x}", xxh3_64(content))
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
    let (length, sum) = (content.len() as u64, checksum(&content));
    ensure!(
        length == file.length && sum == file.checksum,
        "file `{name}` of the savepoint is damaged: {length} bytes with checksum {sum}, expected {} with {}",
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
    let (group, key) = take_bytes(rest)?.split_first_chunk()?;
    let (state, row) = key.split_first_chunk()?;
    let (expiry, value) = take_bytes(rest)?.split_first_chunk()?;
    let (version, bytes) = value.split_first_chunk()?;
    let (group, state) = (KeyGroup(u16::from_be_bytes(*group)), StateNumber(u32::from_be_bytes(*state)));
    let meta = RowMeta { expiry: i64::from_be_bytes(*expiry), version: u16::from_be_bytes(*version) };
    Some((Address { group, state, row }, meta, bytes))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}
