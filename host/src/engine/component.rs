//! From bytes to a component that can be instantiated: size, world, imports, compiled or taken from the cache, described on a
//! throw-away instance. A component is named by the SHA-256 of its bytes.
//!
//! `load` compiles in this process, which is right for a job run by its own user. Uploads are to be compiled in a child process
//! with limits on memory and time; the cache is where its result would arrive.

use super::aggregator::Aggregator;
use super::bindings::{aggregator::AggregatorPre, processor::ProcessorPre};
use super::description::{AggregatorDescription, Description};
use super::fault::Fault;
use super::host::{Host, Site};
use super::instance::Instance;
use super::limits::Limits;
use super::runtime::Engine;
use super::world::{self, World};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A compiled, checked, described component.
#[derive(Clone)]
pub struct Component {
    digest: Arc<str>,
    engine: Engine,
    logic: Logic,
}

/// Which world it fits, and what it says of itself.
#[derive(Clone)]
enum Logic {
    Processor(Arc<(ProcessorPre<Host>, Description)>),
    Aggregator(Arc<(AggregatorPre<Host>, AggregatorDescription)>),
}

/// Why a component is refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Too long.
    #[error("the component has {bytes} bytes, at most {max} are taken")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// Something else.
    #[error("the file is {0}")]
    NotAComponent(String),
    /// It fits neither world.
    #[error("the component fits neither world of millstream:operator (`processor`, `aggregator`): it {0}")]
    World(String),
    /// It wants what operators do not get.
    #[error("the component imports what operators do not get: {0}")]
    ForeignImports(String),
    /// The compiler refuses it.
    #[error("the component does not compile")]
    Compile(#[source] anyhow::Error),
    /// It does not link: a function's type differs from the package's.
    #[error("the component does not fit its world")]
    Link(#[source] anyhow::Error),
    /// `describe` failed.
    #[error("the component does not describe itself")]
    Describe(#[source] Fault),
    /// `describe` makes no sense.
    #[error("the component describes itself wrongly: it {0}")]
    Description(String),
    /// The other world was needed.
    #[error("the component is {is}, {wanted} is needed here")]
    OtherWorld {
        /// What it is.
        is: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
}

impl Engine {
    /// Loads a component from its bytes.
    ///
    /// # Errors
    /// It is refused: [`LoadError`] says why, and what its author can do.
    pub fn load(&self, bytes: &[u8]) -> Result<Component, LoadError> {
        let max = self.shared.component_bytes;
        if bytes.len() > max {
            return Err(LoadError::TooLarge { bytes: bytes.len(), max });
        }
        let world = world::of(bytes)?;
        let digest: Arc<str> = digest(bytes).into();
        let compiled = self.compiled(&digest, bytes)?;
        let logic = match world {
            World::Processor => {
                let pre = self.shared.processors.instantiate_pre(&compiled).and_then(ProcessorPre::new);
                let pre = pre.map_err(|error| LoadError::Link(error.into()))?;
                let mut instance = Instance::start(self, &pre, &Site::nowhere()).map_err(LoadError::Describe)?;
                let described = instance.describe().map_err(LoadError::Describe)?;
                Logic::Processor(Arc::new((pre, Description::of(described).map_err(LoadError::Description)?)))
            }
            World::Aggregator => {
                let pre = self.shared.aggregators.instantiate_pre(&compiled).and_then(AggregatorPre::new);
                let pre = pre.map_err(|error| LoadError::Link(error.into()))?;
                let mut instance = Aggregator::start(self, &pre, &Site::nowhere()).map_err(LoadError::Describe)?;
                let described = instance.describe().map_err(LoadError::Describe)?;
                Logic::Aggregator(Arc::new((
                    pre,
                    AggregatorDescription::of(described).map_err(LoadError::Description)?,
                )))
            }
        };
        Ok(Component { digest, engine: self.clone(), logic })
    }

    fn compiled(&self, digest: &str, bytes: &[u8]) -> Result<wasmtime::component::Component, LoadError> {
        let engine = &self.shared.wasmtime;
        if let Some(kept) = self.shared.cache.as_ref().and_then(|cache| cache.load(engine, digest)) {
            return Ok(kept);
        }
        let compiled = wasmtime::component::Component::new(engine, bytes);
        let compiled = compiled.map_err(|error| LoadError::Compile(error.into()))?;
        if let Some(cache) = &self.shared.cache {
            cache.store(digest, &compiled);
        }
        Ok(compiled)
    }
}

/// The name of a component: SHA-256 of its bytes in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Component {
    /// SHA-256 of its bytes in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What the processor says of itself.
    ///
    /// # Errors
    /// It is an aggregator.
    pub fn processor(&self) -> Result<&Description, LoadError> {
        match &self.logic {
            Logic::Processor(processor) => Ok(&processor.1),
            Logic::Aggregator(_) => Err(LoadError::OtherWorld { is: "an aggregator", wanted: "a processor" }),
        }
    }

    /// What the aggregator says of itself.
    ///
    /// # Errors
    /// It is a processor.
    pub fn aggregator(&self) -> Result<&AggregatorDescription, LoadError> {
        match &self.logic {
            Logic::Aggregator(aggregator) => Ok(&aggregator.1),
            Logic::Processor(_) => Err(LoadError::OtherWorld { is: "a processor", wanted: "an aggregator" }),
        }
    }

    /// Whether `config` is what the component's `config-schema` asks for.
    ///
    /// # Errors
    /// It is not: each key that is wrong, and how.
    pub fn check_config(&self, config: &serde_json::Value) -> anyhow::Result<()> {
        let schema = match &self.logic {
            Logic::Processor(processor) => &processor.1.config_schema,
            Logic::Aggregator(aggregator) => &aggregator.1.config_schema,
        };
        let Some(schema) = schema else { return Ok(()) };
        let validator = jsonschema::validator_for(schema)
            .map_err(|error| anyhow::anyhow!("the component's config-schema is no JSON Schema: {error}"))?;
        let wrong: Vec<String> = validator
            .iter_errors(config)
            .map(|error| format!("`config{}`: {error}", error.instance_path().as_str().replace('/', ".")))
            .collect();
        anyhow::ensure!(wrong.is_empty(), "the configuration does not fit the component: {}", wrong.join("; "));
        Ok(())
    }

    /// A fresh processor, not opened.
    ///
    /// # Errors
    /// It does not start, or is an aggregator.
    pub fn instantiate(&self, site: &Arc<Site>) -> Result<Instance, Fault> {
        match &self.logic {
            Logic::Processor(processor) => Instance::start(&self.engine, &processor.0, site),
            Logic::Aggregator(_) => Err(Fault::answer("is an aggregator, not a processor")),
        }
    }

    /// A fresh aggregator, not opened.
    ///
    /// # Errors
    /// It does not start, or is a processor.
    pub fn instantiate_aggregator(&self, site: &Arc<Site>) -> Result<Aggregator, Fault> {
        match &self.logic {
            Logic::Aggregator(aggregator) => Aggregator::start(&self.engine, &aggregator.0, site),
            Logic::Processor(_) => Err(Fault::answer("is a processor, not an aggregator")),
        }
    }
}

/// Where a component would run with `limits`; for tools that have no job.
pub fn site(operator: &str, limits: Limits) -> Arc<Site> {
    Arc::new(Site::new(operator, 0, 1, limits))
}
