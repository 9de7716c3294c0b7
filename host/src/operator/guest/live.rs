//! The live instance of one operator in one task: made when needed, thrown away after a fault, replaced when it has grown fat.

use crate::engine::host::Site;
use crate::engine::{Component, Fault, FaultKind, Instance, columns};
use dataflow::record::{Column, Value, ValueType};
use dataflow::restart::Permanent;
use std::sync::Arc;

/// What it takes to make an instance.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) component: Component,
    pub(super) site: Arc<Site>,
    /// The configuration as JSON text.
    pub(super) config: Arc<str>,
}

impl Recipe {
    fn make(&self) -> anyhow::Result<Instance> {
        let operator = &self.site.operator;
        let whose = format!("the guest of operator `{operator}`");
        let mut instance = self.component.instantiate(&self.site).map_err(|fault| does_not_start(&whose, fault))?;
        let opened = instance.open(&self.config).map_err(|fault| does_not_start(&whose, fault))?;
        opened.map_err(|reason| Permanent(format!("the guest of operator `{operator}` does not open: {reason}")))?;
        Ok(instance)
    }
}

/// The error of a guest that does not come to its first record. After a while it would do no better, but for one that took too long.
pub(super) fn does_not_start(whose: &str, fault: Fault) -> anyhow::Error {
    let what = match fault.kind {
        FaultKind::Time => return anyhow::Error::new(fault).context(format!("starting {whose}")),
        FaultKind::Memory => {
            format!("{whose} does not start within its limits: raise `limits: {{ memory: … }}` in the job file")
        }
        _ => format!("{whose} does not start"),
    };
    anyhow::Error::new(fault).context(Permanent(what))
}

/// An instance or none at the moment.
pub(super) struct Live {
    recipe: Recipe,
    instance: Option<Instance>,
}

impl Live {
    pub(super) fn new(recipe: Recipe) -> Self {
        Self { recipe, instance: None }
    }

    /// The opened instance.
    pub(super) fn get(&mut self) -> anyhow::Result<&mut Instance> {
        match &mut self.instance {
            Some(instance) => Ok(instance),
            empty => Ok(empty.insert(self.recipe.make()?)),
        }
    }

    /// The next call gets a fresh one.
    pub(super) fn discard(&mut self) {
        self.instance = None;
    }

    /// After a call: the next one gets a fresh instance if this one has grown beyond `memory_soft`.
    pub(super) fn slim(&mut self) {
        let soft = self.recipe.site.limits.memory_soft;
        if self.instance.as_ref().is_some_and(|instance| instance.memory() > soft) {
            tracing::debug!(
                operator = self.recipe.site.operator,
                "guest instance replaced: its memory passed the soft limit"
            );
            self.discard();
        }
    }
}

/// Brings stored values to the declared version, on an instance of its own: the running one cannot be called during a call.
pub(super) struct Migrator {
    live: Live,
}

impl Migrator {
    pub(super) fn new(recipe: Recipe) -> Self {
        Self { live: Live::new(recipe) }
    }

    /// The value `old`, which was written under version `from`, as one of `value_type`: a column of one row.
    ///
    /// # Errors
    /// Of kind `Migration`: the job cannot go on.
    pub(super) fn migrate_one(
        &mut self,
        state: usize,
        name: &str,
        from: u16,
        old: Value<'_>,
        value_type: ValueType,
    ) -> Result<Column, Fault> {
        let failed = |reason: String| {
            Fault::new(FaultKind::Migration, format!("migrating state `{name}` from version {from}: {reason}"))
        };
        let instance = self.live.get().map_err(|error| failed(format!("{error:#}")))?;
        let answer = instance.migrate(state as u32, from, &columns::lower(one(old)));
        let migrated = answer.map_err(|fault| failed(fault.to_string()))?.map_err(failed)?;
        columns::checked(migrated, 1, value_type).map_err(failed)
    }
}

fn one(value: Value<'_>) -> Column {
    let value_type = match value {
        Value::Text(_) => ValueType::Text,
        Value::Bytes(_) | Value::Absent => ValueType::Bytes,
        Value::Int(_) => ValueType::Int,
        Value::Float(_) => ValueType::Float,
        Value::Boolean(_) => ValueType::Boolean,
    };
    let mut column = Column::new(value_type);
    column.push(value);
    column
}

/// A stored value of a newer version than the component knows.
pub(super) fn newer(name: &str, stored: u16, declared: u16) -> Fault {
    Fault::new(
        FaultKind::Migration,
        format!(
            "state `{name}` holds values of version {stored}, this component knows versions up to {declared}: run the newer component"
        ),
    )
}
