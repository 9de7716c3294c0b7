//! One value per key.

use super::StateHandle;
use super::stored::{Shape, Stored, absent, column_of, read_cell};
use crate::bindings::types::{StateDeclaration, StateKind};
use crate::declare::{Handle, Registry, ValueOptions};
use crate::{Bad, Scope, host};
use std::marker::PhantomData;

/// One value of `T` for each key. It rides along with the batch unless marked `#[on_demand]`.
pub struct Value<T> {
    id: u32,
    place: Place,
    values: PhantomData<fn(T) -> T>,
}

#[derive(Clone, Copy)]
enum Place {
    /// Came in with the batch, among the prefetched states.
    Prefetched(usize),
    /// Asked of the host.
    OnDemand,
}

impl<T: Stored> Value<T> {
    /// The value of the row's key, as seen at the row's time; none if there is none or it has expired.
    ///
    /// # Errors
    /// What is stored is not a `T`: it was written by other code.
    #[inline]
    pub fn get(&self, at: &Scope<'_>) -> Result<Option<T>, Bad> {
        match self.place {
            Place::Prefetched(slot) => {
                let key = at.key_index();
                let row = at.number;
                at.call.states[slot].borrow_mut().get(key, row)
            }
            Place::OnDemand => read_cell(&host::state::get(self.id, &[at.number]), 0),
        }
    }

    /// Writes the value; it expires by its TTL from the row's time.
    #[inline]
    pub fn set(&self, at: &Scope<'_>, value: T) {
        match self.place {
            Place::Prefetched(slot) => {
                let key = at.key_index();
                let row = at.number;
                at.call.states[slot].borrow_mut().set(key, row, value);
            }
            Place::OnDemand => {
                let column = column_of([&value].into_iter()).expect("a stored value can be written");
                host::state::put(self.id, &[at.number], &column);
            }
        }
    }

    /// Takes the value away.
    #[inline]
    pub fn clear(&self, at: &Scope<'_>) {
        match self.place {
            Place::Prefetched(slot) => {
                let key = at.key_index();
                let row = at.number;
                at.call.states[slot].borrow_mut().clear(key, row);
            }
            Place::OnDemand => host::state::put(self.id, &[at.number], &absent(Shape::of::<T>().value_type())),
        }
    }

    /// Changes the value in place, starting from `T::default()` where there is none. For values with an inside, such as a `Vec`: they
    /// are neither copied nor, within a call, read from JSON twice.
    ///
    /// # Errors
    /// What is stored is not a `T`.
    #[inline]
    pub fn update<R>(&self, at: &Scope<'_>, change: impl FnOnce(&mut T) -> R) -> Result<R, Bad>
    where
        T: Default,
    {
        match self.place {
            Place::Prefetched(slot) => {
                let key = at.key_index();
                let row = at.number;
                at.call.states[slot].borrow_mut().modify(key, row, T::default, change)
            }
            Place::OnDemand => {
                let mut value = self.get(at)?.unwrap_or_default();
                let answer = change(&mut value);
                self.set(at, value);
                Ok(answer)
            }
        }
    }
}

impl<T> StateHandle for Value<T> {
    fn id(&self) -> u32 {
        self.id
    }
}

impl<T: Stored> Handle for Value<T> {
    type Options = ValueOptions;

    fn declare(registry: &mut Registry, name: &'static str, options: ValueOptions) -> Self {
        let slot = registry.prefetched();
        let id = registry.state(StateDeclaration {
            name: name.to_owned(),
            kind: StateKind::ValueState,
            value_type: Shape::of::<T>().value_type(),
            version: options.version,
            ttl: options.ttl,
            prefetch: !options.on_demand,
        });
        let place = if options.on_demand { Place::OnDemand } else { Place::Prefetched(slot) };
        Self { id, place, values: PhantomData }
    }
}
