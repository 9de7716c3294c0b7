//! Entries by name, for each key.

use super::StateHandle;
use super::list::PAGE;
use super::stored::{Shape, Stored, absent, column_of, read_cell};
use super::{KeyValue, MapKey};
use crate::bindings::types::{Blobs, Column, StateDeclaration, StateKind};
use crate::declare::{CollectionOptions, Handle, Registry};
use crate::input::{blob, no_blobs, push_blob};
use crate::{Bad, Scope, host};
use std::borrow::Borrow;
use std::marker::PhantomData;

/// A map from `K` to `V` for each key, asked of the host when needed. Entries lie in the order of their encoded names: numbers by
/// value, text by length, then by bytes. They expire one by one.
pub struct Map<K, V> {
    id: u32,
    entries: PhantomData<fn() -> (K, V)>,
}

impl<K: MapKey, V: Stored> Map<K, V> {
    /// The value of an entry.
    ///
    /// # Errors
    /// What is stored is not a `V`.
    pub fn get<Q: KeyValue + ?Sized>(&self, at: &Scope<'_>, entry: &Q) -> Result<Option<V>, Bad>
    where
        K: Borrow<Q>,
    {
        read_cell(&host::state::map_get(self.id, &[at.number], &entry_of(entry)), 0)
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn insert<Q: KeyValue + ?Sized>(&self, at: &Scope<'_>, entry: &Q, value: &V) -> Result<(), Bad>
    where
        K: Borrow<Q>,
    {
        let values = column_of([value].into_iter())?;
        host::state::map_put(self.id, &[at.number], &entry_of(entry), &values);
        Ok(())
    }

    /// Takes an entry away.
    pub fn remove<Q: KeyValue + ?Sized>(&self, at: &Scope<'_>, entry: &Q)
    where
        K: Borrow<Q>,
    {
        let nothing = absent(Shape::of::<V>().value_type());
        host::state::map_put(self.id, &[at.number], &entry_of(entry), &nothing);
    }

    /// At most `max_items` entries behind `after`, or from the first.
    ///
    /// # Errors
    /// What is stored is not a `K` or `V`.
    pub fn page<Q: KeyValue + ?Sized>(
        &self,
        at: &Scope<'_>,
        after: Option<&Q>,
        max_items: u32,
    ) -> Result<Vec<(K, V)>, Bad>
    where
        K: Borrow<Q>,
    {
        let after = after.map(encoded);
        let (entries, values) = host::state::map_scan(self.id, at.number, after.as_deref(), max_items);
        read_entries(&entries, &values)
    }

    /// All entries, a page at a time.
    ///
    /// # Errors
    /// What is stored is not a `K` or `V`.
    pub fn all(&self, at: &Scope<'_>) -> Result<Vec<(K, V)>, Bad> {
        scan(|after| host::state::map_scan(self.id, at.number, after, PAGE))
    }

    /// Takes all entries away.
    pub fn clear(&self, at: &Scope<'_>) {
        host::state::clear(self.id, &[at.number]);
    }
}

impl<K, V> StateHandle for Map<K, V> {
    fn id(&self) -> u32 {
        self.id
    }
}

impl<K: MapKey, V: Stored> Handle for Map<K, V> {
    type Options = CollectionOptions;

    fn declare(registry: &mut Registry, name: &'static str, options: CollectionOptions) -> Self {
        let id = registry.state(StateDeclaration {
            name: name.to_owned(),
            kind: StateKind::MapState,
            value_type: Shape::of::<V>().value_type(),
            version: options.version,
            ttl: options.ttl,
            prefetch: false,
        });
        Self { id, entries: PhantomData }
    }
}

fn encoded<Q: KeyValue + ?Sized>(entry: &Q) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes
}

/// The one entry that a call is about.
pub(super) fn entry_of<Q: KeyValue + ?Sized>(entry: &Q) -> Blobs {
    let mut entries = no_blobs();
    push_blob(&mut entries, &encoded(entry));
    entries
}

fn read_entries<K: MapKey, V: Stored>(entries: &Blobs, values: &Column) -> Result<Vec<(K, V)>, Bad> {
    let mut found = Vec::with_capacity(entries.ends.len());
    for index in 0..entries.ends.len() {
        let entry = K::decode(&mut blob(entries, index))?;
        if let Some(value) = read_cell(values, index)? {
            found.push((entry, value));
        }
    }
    Ok(found)
}

/// Reads page after page, each behind the last entry of the one before.
pub(super) fn scan<K: MapKey, V: Stored>(
    mut page: impl FnMut(Option<&[u8]>) -> (Blobs, Column),
) -> Result<Vec<(K, V)>, Bad> {
    let mut found = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let (entries, values) = page(after.as_deref());
        found.extend(read_entries(&entries, &values)?);
        let count = entries.ends.len();
        if count < PAGE as usize {
            return Ok(found);
        }
        after = Some(blob(&entries, count - 1).to_vec());
    }
}
