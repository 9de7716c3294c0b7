//! Stands where a task's state was while it is lent to a guest's running call. Nobody may touch it there.

use crate::state::{Address, RowMeta, Sizes, StateBackend, StateDeclaration, StateNumber, Visitor};
use dataflow::checkpoint::{CheckpointId, FileEntry};
use dataflow::key::KeyGroup;
use dataflow::time::Timestamp;
use std::ops::Range;

/// No state at all.
pub(super) struct Lent;

const RULE: &str = "a task's state is lent to the running call of a guest, and back when the call returns";

impl StateBackend for Lent {
    fn name(&self) -> &'static str {
        unreachable!("{RULE}")
    }

    fn register(&mut self, _: StateNumber, _: &StateDeclaration) {
        unreachable!("{RULE}")
    }

    fn get(&self, _: Address<'_>, _: &mut Vec<u8>) -> Option<RowMeta> {
        unreachable!("{RULE}")
    }

    fn put(&mut self, _: Address<'_>, _: RowMeta, _: &[u8]) {
        unreachable!("{RULE}")
    }

    fn delete(&mut self, _: Address<'_>) {
        unreachable!("{RULE}")
    }

    fn scan(&self, _: KeyGroup, _: StateNumber, _: (&[u8], &[u8]), _: &mut Visitor<'_>) {
        unreachable!("{RULE}")
    }

    fn delete_range(&mut self, _: KeyGroup, _: StateNumber, _: (&[u8], &[u8])) {
        unreachable!("{RULE}")
    }

    fn advance(&mut self, _: Timestamp, _: Timestamp) {
        unreachable!("{RULE}")
    }

    fn snapshot(&mut self, _: CheckpointId) {
        unreachable!("{RULE}")
    }

    fn poll_snapshot(&mut self) -> anyhow::Result<Option<(CheckpointId, Vec<FileEntry>)>> {
        unreachable!("{RULE}")
    }

    fn restore(&mut self, _: &[FileEntry], _: Range<u16>) -> anyhow::Result<()> {
        unreachable!("{RULE}")
    }

    fn sizes(&self) -> Sizes {
        unreachable!("{RULE}")
    }
}
