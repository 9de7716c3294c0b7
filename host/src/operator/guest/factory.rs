//! Makes guest operators for the tasks of a job: checks the wiring and the configuration once, then instantiates per task.

use super::lower::Lowering;
use super::recovery::Caution;
use super::riding::Riding;
use super::session::Session;
use super::settings::{GuestInput, GuestSettings};
use super::timers::{self, Clocks};
use super::{GuestOperator, live};
use crate::engine::Component;
use crate::engine::description::{Description, State};
use crate::engine::host::{Site, StateCalls};
use crate::operator::{Operator, OperatorFactory, TaskInfo};
use crate::state::{Keyed, StateDeclaration};
use crate::telemetry::GuestMetrics;
use anyhow::{Context as _, ensure};
use dataflow::key::KeyGroup;
use std::sync::Arc;

/// A guest as a job wants it.
pub struct GuestFactory {
    shared: Arc<Shared>,
}

/// What all tasks share.
pub(super) struct Shared {
    pub(super) operator: String,
    pub(super) component: Component,
    pub(super) description: Arc<Description>,
    pub(super) settings: GuestSettings,
    metrics: Arc<GuestMetrics>,
}

impl GuestFactory {
    /// The operator `operator` with this component, wired and configured by `settings`.
    ///
    /// # Errors
    /// The component is no processor, the configuration does not fit its schema, or the wiring does not fit its description.
    pub fn new(operator: &str, component: Component, settings: GuestSettings) -> anyhow::Result<Self> {
        let description = Arc::new(component.processor()?.clone());
        component.check_config(&settings.config).with_context(|| format!("operator `{operator}`"))?;
        ensure!(
            settings.inputs.len() == description.inputs.len(),
            "operator `{operator}` has {} inputs, its component has {}: {}",
            settings.inputs.len(),
            description.inputs.len(),
            description.inputs.join(", ")
        );
        for (index, input) in settings.inputs.iter().enumerate() {
            let wanted: Vec<&str> = fields(&description, index).map(|field| field.name.as_str()).collect();
            let given: Vec<&str> = input.fields.iter().map(|field| field.name.as_str()).collect();
            ensure!(
                wanted == given,
                "input {index} of operator `{operator}` wants the fields {wanted:?}, was given {given:?}"
            );
        }
        if let Some((one, other)) = timers::clash(&description) {
            anyhow::bail!("timers `{one}` and `{other}` cannot be told apart in the state: rename one");
        }
        let metrics = Arc::new(GuestMetrics::new(settings.limits.metrics));
        Ok(Self { shared: Arc::new(Shared { operator: operator.into(), component, description, settings, metrics }) })
    }

    /// What the component says of itself.
    pub fn description(&self) -> &Description {
        &self.shared.description
    }
}

/// The fields that the guest wants of input `index`, in the order of declaration.
fn fields(description: &Description, index: usize) -> impl Iterator<Item = &crate::engine::description::WantedField> {
    description.fields.iter().filter(move |field| field.input.is_none_or(|input| input == index))
}

fn declaration(state: &State) -> StateDeclaration {
    StateDeclaration { name: state.name.clone(), version: state.version, kind: state.kind, ttl: state.ttl }
}

impl OperatorFactory for GuestFactory {
    fn states(&self) -> Vec<StateDeclaration> {
        let description = &self.shared.description;
        description.states.iter().map(declaration).chain(timers::states(description)).collect()
    }

    fn reports(&self) -> Vec<Arc<GuestMetrics>> {
        vec![self.shared.metrics.clone()]
    }

    fn create(&self, task: &TaskInfo) -> anyhow::Result<Box<dyn Operator>> {
        let shared = self.shared.clone();
        let (description, limits) = (&shared.description, &shared.settings.limits);
        let (of_states, of_timers) = task
            .states
            .split_at_checked(description.states.len())
            .with_context(|| format!("operator `{}` was given too few state numbers", task.operator))?;
        let keyed: Vec<Keyed> = description
            .states
            .iter()
            .zip(of_states)
            .map(|(state, &number)| Keyed { number, version: state.version, ttl: state.ttl })
            .collect();
        let groups = (KeyGroup::range(task.task, task.parallelism, task.max_parallelism), task.max_parallelism);
        let site = Site::new(&task.operator, task.task as u32, task.parallelism as u32, limits.clone());
        let recipe = live::Recipe {
            component: shared.component.clone(),
            site: Arc::new(site.reporting_to(shared.metrics.clone())),
            config: shared.settings.config.to_string().into(),
        };
        let on_demand = description.states.iter().any(|state| !state.prefetch);
        let session = on_demand.then(|| {
            let migrator = live::Migrator::new(recipe.clone());
            let session = Session::new(description.clone(), &keyed, groups.clone(), limits.state_value_bytes, migrator);
            Box::new(session) as Box<dyn StateCalls>
        });
        Ok(Box::new(GuestOperator {
            lowerings: lowerings(description, &shared.settings.inputs),
            riding: Riding::new(description, &keyed, task.max_parallelism, limits.prefetch_bytes),
            clocks: Clocks::new(description, of_timers, groups, limits.timers_per_key),
            session,
            caution: Caution::new(limits.rows),
            live: live::Live::new(recipe.clone()),
            migrator: live::Migrator::new(recipe),
            shared,
        }))
    }
}

fn lowerings(description: &Description, inputs: &[GuestInput]) -> Vec<Lowering> {
    let lower = |(index, input): (usize, &GuestInput)| Lowering {
        input: index as u32,
        fields: input.fields.clone(),
        whole_values: description.whole_values,
        headers: description.headers,
    };
    inputs.iter().enumerate().map(lower).collect()
}
