//! Items in the order of appending, for each key.

use super::StateHandle;
use super::stored::{Shape, Stored, column_of, read_cell};
use crate::bindings::types::{StateDeclaration, StateKind};
use crate::declare::{CollectionOptions, Handle, Registry};
use crate::{Bad, Scope, host};
use std::marker::PhantomData;

/// A list of `T` for each key, asked of the host when needed. Items expire one by one.
pub struct List<T> {
    id: u32,
    items: PhantomData<fn(T) -> T>,
}

/// How many items or entries are asked for at once.
pub(super) const PAGE: u32 = 256;

impl<T: Stored> List<T> {
    /// Adds an item at the end.
    ///
    /// # Errors
    /// The item cannot be written as JSON.
    pub fn append(&self, at: &Scope<'_>, item: &T) -> Result<(), Bad> {
        let items = column_of([item].into_iter())?;
        host::state::list_append(self.id, &[at.number], &items);
        Ok(())
    }

    /// How many items there are.
    pub fn len(&self, at: &Scope<'_>) -> u64 {
        host::state::list_length(self.id, at.number)
    }

    /// Whether there is no item.
    pub fn is_empty(&self, at: &Scope<'_>) -> bool {
        self.len(at) == 0
    }

    /// At most `max_items` items from item `first`, counted from 0.
    ///
    /// # Errors
    /// What is stored is not a `T`.
    pub fn read(&self, at: &Scope<'_>, first: u64, max_items: u32) -> Result<Vec<T>, Bad> {
        let page = host::state::list_read(self.id, at.number, first, max_items);
        let cells = (0..crate::input::len_of(&page)).map(|index| read_cell(&page, index));
        cells.filter_map(Result::transpose).collect()
    }

    /// All items, a page at a time.
    ///
    /// # Errors
    /// What is stored is not a `T`.
    pub fn all(&self, at: &Scope<'_>) -> Result<Vec<T>, Bad> {
        let mut items = Vec::new();
        loop {
            let page = self.read(at, items.len() as u64, PAGE)?;
            let last = page.len() < PAGE as usize;
            items.extend(page);
            if last {
                return Ok(items);
            }
        }
    }

    /// Keeps the newest `count` items.
    pub fn keep_last(&self, at: &Scope<'_>, count: u64) {
        host::state::list_truncate(self.id, at.number, count);
    }

    /// Takes all items away.
    pub fn clear(&self, at: &Scope<'_>) {
        host::state::clear(self.id, &[at.number]);
    }
}

impl<T> StateHandle for List<T> {
    fn id(&self) -> u32 {
        self.id
    }
}

impl<T: Stored> Handle for List<T> {
    type Options = CollectionOptions;

    fn declare(registry: &mut Registry, name: &'static str, options: CollectionOptions) -> Self {
        let id = registry.state(StateDeclaration {
            name: name.to_owned(),
            kind: StateKind::ListState,
            value_type: Shape::of::<T>().value_type(),
            version: options.version,
            ttl: options.ttl,
            prefetch: false,
        });
        Self { id, items: PhantomData }
    }
}
