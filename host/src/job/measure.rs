//! Reads a job's file sources to their ends, only to see how far their records come out of order: `check --measure`.

use super::check::Disorder;
use super::connectors;
use super::definition::{Definition, SourceConnector};
use crate::env::Env;
use crate::source::{Limit, Polled, Projection, Share, Source};
use anyhow::Context;

/// The disorder of each file source that takes event time from its records, by name.
///
/// # Errors
/// A source cannot be read.
pub fn measure(definition: &Definition) -> anyhow::Result<Vec<(String, Disorder)>> {
    let factories = connectors::sources(definition, &Env::system().clock)?;
    let mut measured = vec![];
    for (source, factory) in definition.sources.iter().zip(factories) {
        let is_file = matches!(source.connector, SourceConnector::File(_));
        if !is_file || source.event_time_field().is_none() {
            continue;
        }
        let projection = Projection::default();
        let share = Share { task: 0, parallelism: 1, positions: &[], projection: &projection };
        let mut share = factory.open(share).with_context(|| format!("source `{}` cannot be opened", source.name))?;
        let disorder = read(&mut *share).with_context(|| format!("source `{}` cannot be read", source.name))?;
        measured.push((source.name.clone(), disorder));
    }
    Ok(measured)
}

/// What can be read at once; a followed file has no more when it has nothing.
fn read(share: &mut dyn Source) -> anyhow::Result<Disorder> {
    let mut disorder = Disorder::default();
    loop {
        match share.poll(Limit { records: 4096, bytes: 1 << 20 })? {
            Polled::Records(records) => {
                for &timestamp in &records.batch.timestamps {
                    disorder.record(&records.partition, timestamp);
                }
            }
            Polled::Partitions => {}
            Polled::Nothing(_) | Polled::Finished => return Ok(disorder),
        }
    }
}
