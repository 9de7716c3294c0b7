//! Entries by name that are the same for all keys and on every task: rules, exchange rates, feature flags.

use super::StateHandle;
use super::list::PAGE;
use super::map::{entry_of, scan};
use super::stored::{Shape, Stored, absent, column_of, read_cell};
use super::{KeyValue, MapKey};
use crate::bindings::types::{StateDeclaration, StateKind};
use crate::declare::{CollectionOptions, Handle, Registry};
use crate::{Bad, Scope, host};
use std::borrow::Borrow;
use std::marker::PhantomData;

/// A map from `K` to `V`, the same everywhere. It is written only by rows of an input that the job declares as broadcast; any other
/// row may read it.
pub struct Broadcast<K, V> {
    id: u32,
    entries: PhantomData<fn() -> (K, V)>,
}

impl<K: MapKey, V: Stored> Broadcast<K, V> {
    /// The value of an entry.
    ///
    /// # Errors
    /// What is stored is not a `V`.
    pub fn get<Q: KeyValue + ?Sized>(&self, _: &Scope<'_>, entry: &Q) -> Result<Option<V>, Bad>
    where
        K: Borrow<Q>,
    {
        read_cell(&host::state::broadcast_get(self.id, &entry_of(entry)), 0)
    }

    /// Writes an entry. Traps unless the row came by a broadcast input.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn insert<Q: KeyValue + ?Sized>(&self, _: &Scope<'_>, entry: &Q, value: &V) -> Result<(), Bad>
    where
        K: Borrow<Q>,
    {
        host::state::broadcast_put(self.id, &entry_of(entry), &column_of([value].into_iter())?);
        Ok(())
    }

    /// Takes an entry away. Traps unless the row came by a broadcast input.
    pub fn remove<Q: KeyValue + ?Sized>(&self, _: &Scope<'_>, entry: &Q)
    where
        K: Borrow<Q>,
    {
        host::state::broadcast_put(self.id, &entry_of(entry), &absent(Shape::of::<V>().value_type()));
    }

    /// All entries, in the order of their encoded names.
    ///
    /// # Errors
    /// What is stored is not a `K` or `V`.
    pub fn all(&self, _: &Scope<'_>) -> Result<Vec<(K, V)>, Bad> {
        scan(|after| host::state::broadcast_scan(self.id, after, PAGE))
    }
}

impl<K, V> StateHandle for Broadcast<K, V> {
    fn id(&self) -> u32 {
        self.id
    }
}

impl<K: MapKey, V: Stored> Handle for Broadcast<K, V> {
    type Options = CollectionOptions;

    fn declare(registry: &mut Registry, name: &'static str, options: CollectionOptions) -> Self {
        let id = registry.state(StateDeclaration {
            name: name.to_owned(),
            kind: StateKind::BroadcastMap,
            value_type: Shape::of::<V>().value_type(),
            version: options.version,
            ttl: options.ttl,
            prefetch: false,
        });
        Self { id, entries: PhantomData }
    }
}
