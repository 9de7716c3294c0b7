//! `native JOB`: runs a job as `millstream run JOB` does, with logic in Rust in the place of its components. The
//! golden tests run both, and what the two put out must be equal: what is left to differ is the guest engine.

mod fraud; // examples/payments/fraud
mod surge; // examples/rides/surge
mod trail; // tests/guests/trail

use anyhow::{Context as _, Result, bail};
use millstream::env::Env;
use millstream::job::definition::{self, Component};
use millstream::job::{self, Code, RunOptions};
use millstream::operator::native::Dedup;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<()> {
    let job = std::env::args().nth(1).context("name a job file")?;
    let definition = definition::load(Path::new(&job))?.into_result()?;
    let checkpoint_storage = match std::env::var("MILLSTREAM_CHECKPOINT_STORAGE") {
        Ok(location) => Some(location.parse()?),
        Err(_) => None,
    };
    let options = RunOptions { data_dir: ".millstream".into(), checkpoint_storage, ..RunOptions::default() };
    job::run(&definition, &options, &logic, &Env::system())?;
    Ok(())
}

/// The logic that does what the component does.
fn logic(component: &Component) -> Result<Code> {
    let (Component::File(path) | Component::Project(path)) = component;
    Ok(match path.file_name().and_then(|name| name.to_str()) {
        Some("dedup") => Code::Native(|_| Ok(Arc::new(Dedup))),
        Some("fraud") => Code::Native(|_| Ok(Arc::new(fraud::Fraud))),
        Some("surge") => Code::Native(|config| Ok(Arc::new(surge::Surge::new(config)?))),
        Some("trail") => Code::Native(|_| Ok(Arc::new(trail::Trail))),
        _ => bail!("there is no native twin of `{}`", path.display()),
    })
}
