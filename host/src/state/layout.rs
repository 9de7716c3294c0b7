//! What a backend is told of states and rows: how a state's rows are reached and when they expire, where a row lies, what
//! stands beside its bytes.

pub use dataflow::checkpoint::StateKind;
use dataflow::key::KeyGroup;
use dataflow::record::Blobs;
use dataflow::time::{Clock, Timestamp};
use serde::{Deserialize, Serialize};

/// Stands for (operator, state name) in stored keys; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StateNumber(pub u32);

/// The stamp of a row that never expires.
pub const NEVER: Timestamp = i64::MAX;

/// What stands beside a row's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowMeta {
    /// From this time on (on the state's clock) the row is gone; [`NEVER`] without a TTL.
    pub expiry: Timestamp,
    /// Schema version of the bytes.
    pub version: u16,
}

/// Where a row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// Key group of the row's key.
    pub group: KeyGroup,
    /// Which state.
    pub state: StateNumber,
    /// The rest of the stored key.
    pub row: &'a [u8],
}

/// Bytes of the key group and the state number.
pub(crate) const PREFIX: usize = 6;

/// Bytes of expiry and schema version.
pub(crate) const META: usize = 10;

/// What all keys of a state in a group begin with.
pub(crate) fn prefix(group: KeyGroup, state: StateNumber) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    prefix[..2].copy_from_slice(&group.0.to_be_bytes());
    prefix[2..].copy_from_slice(&state.0.to_be_bytes());
    prefix
}

/// Appends a row's key.
pub(crate) fn push_key(at: Address<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(&prefix(at.group, at.state));
    into.extend_from_slice(at.row);
}

/// The row that a key belongs to; none if it is no key of ours.
pub(crate) fn address(key: &[u8]) -> Option<Address<'_>> {
    let (group, rest) = key.split_first_chunk()?;
    let (state, row) = rest.split_first_chunk()?;
    Some(Address { group: KeyGroup(u16::from_be_bytes(*group)), state: StateNumber(u32::from_be_bytes(*state)), row })
}

/// Appends a value.
pub(crate) fn push_value(meta: RowMeta, bytes: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(&meta.expiry.to_be_bytes());
    into.extend_from_slice(&meta.version.to_be_bytes());
    into.extend_from_slice(bytes);
}

/// Meta and bytes of a value; none if it is no value of ours.
#[inline]
pub(crate) fn value(stored: &[u8]) -> Option<(RowMeta, &[u8])> {
    let (meta, bytes) = stored.split_at_checked(META)?;
    let (expiry, version) = meta.split_first_chunk()?;
    let version = u16::from_be_bytes(version.try_into().ok()?);
    Some((RowMeta { expiry: i64::from_be_bytes(*expiry), version }, bytes))
}

/// Keys of rows of one state that are read together. Kept from call to call, for its buffers.
#[derive(Debug, Default)]
pub struct RowKeys {
    groups: Vec<KeyGroup>,
    rows: Blobs,
}

impl RowKeys {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.rows.ends.clear();
        self.rows.bytes.clear();
    }

    /// Appends a row, whose bytes `write` appends.
    #[inline]
    pub fn push(&mut self, group: KeyGroup, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.rows.bytes);
        self.rows.close();
        self.groups.push(group);
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Where row `index` lies.
    #[inline]
    pub fn address(&self, state: StateNumber, index: usize) -> Address<'_> {
        Address { group: self.groups[index], state, row: self.rows.get(index) }
    }
}

/// A state as its operator declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct StateDeclaration {
    /// Name, unique within the operator.
    pub name: String,
    /// Encoding version of the values.
    pub version: u16,
    /// What its rows are.
    pub kind: StateKind,
    /// When rows expire.
    pub ttl: Option<Ttl>,
}

impl StateDeclaration {
    /// How rows are reached.
    pub fn access(&self) -> Access {
        match self.kind {
            StateKind::Value => Access::Point,
            StateKind::Windows => Access::Sliced,
            _ => Access::Ordered,
        }
    }
}

/// How the rows of a state are reached; lets a backend choose its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// One row at a time; a scan may come in any order. Values.
    Point,
    /// By prefix, in byte order. Lists, maps, timers.
    Ordered,
    /// By the first 8 bytes (the slice's end) in order, then one row at a time; a scan within a slice may come in any
    /// order. Windows.
    Sliced,
}

/// Time to live of a state's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl {
    /// How long after the write, ms.
    pub ms: i64,
    /// Which clock counts it.
    pub clock: Clock,
    /// Reading counts as writing.
    pub renewed_by_reads: bool,
}
