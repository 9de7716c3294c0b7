//! What an operator is made of: its struct's fields are handles, and each declares itself to the host.
//! `#[derive(States)]` calls it field by field; ids are the order of declaration.

use crate::bindings::types::{Description, OutputDeclaration, StateDeclaration, TimerDeclaration, Ttl};
use crate::call::Plan;
use crate::metric::MetricKind;
use crate::processor::Processor;
use crate::{Input, Output};

/// A field of an operator's struct: a state, a timer, a side output or a metric.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state, timer, side output or metric",
    note = "mark a field that is only a cache with #[cache]: it starts from its Default in every instance"
)]
pub trait Handle: Sized {
    /// What its attributes can say.
    type Options: Default;

    fn declare(registry: &mut Registry, name: &'static str, options: Self::Options) -> Self;
}

/// For handles without attributes.
#[derive(Default)]
pub struct NoOptions {}

/// How a state of many entries is declared.
pub struct CollectionOptions {
    pub ttl: Option<Ttl>,
    pub version: u32,
}

impl Default for CollectionOptions {
    fn default() -> Self {
        Self { ttl: None, version: 1 }
    }
}

/// How a value state is declared.
pub struct ValueOptions {
    pub ttl: Option<Ttl>,
    pub version: u32,
    pub on_demand: bool,
}

impl Default for ValueOptions {
    fn default() -> Self {
        Self { ttl: None, version: 1, on_demand: false }
    }
}

/// All that was declared.
#[derive(Default)]
pub struct Registry {
    pub(crate) states: Vec<StateDeclaration>,
    pub(crate) timers: Vec<TimerDeclaration>,
    pub(crate) sides: Vec<OutputDeclaration>,
    pub(crate) metrics: Vec<(MetricKind, &'static str)>,
}

impl Registry {
    /// Adds a state and answers its id.
    pub(crate) fn state(&mut self, declaration: StateDeclaration) -> u32 {
        self.states.push(declaration);
        self.states.len() as u32 - 1
    }

    /// How many prefetched states there are so far.
    pub(crate) fn prefetched(&self) -> usize {
        self.states.iter().filter(|state| state.prefetch).count()
    }
}

/// Makes an operator, and what its calls need to know of it.
pub(crate) fn make<P: Processor>() -> (P, Plan) {
    let mut registry = Registry::default();
    let processor = P::declare(&mut registry);
    (processor, Plan::of(&registry))
}

/// What an operator tells the host of itself.
pub fn describe<P: Processor>() -> Description {
    let mut registry = Registry::default();
    P::declare(&mut registry);
    let mut fields = Vec::new();
    P::Input::declare(&mut fields, None);
    let mut outputs = vec![OutputDeclaration { name: "main".to_owned(), columns: P::Output::declare() }];
    outputs.append(&mut registry.sides);
    Description {
        states: registry.states,
        timers: registry.timers,
        fields,
        whole_values: P::WHOLE_VALUES,
        headers: P::HEADERS,
        inputs: P::Input::inputs(),
        outputs,
        config_schema: P::config_schema(),
    }
}
