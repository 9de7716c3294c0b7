//! `millstream build`: an operator project becomes a component, which is described.

use super::{Failure, say};
use anyhow::Context;
use millstream::engine::description::{AggregatorDescription, Description};
use millstream::engine::{Component, Engine, EngineSettings};
use millstream::job::definition::units::{DurationText, SizeText};
use millstream::operator_project;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The project's folder
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Where the component is written, besides cargo's target folder
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let built = operator_project::build(&arguments.folder, &mut say)?;
    let engine = Engine::new(EngineSettings::default())?;
    let component = engine.load(&built.bytes).context("the component that was built is refused")?;
    let path = match &arguments.out {
        Some(path) => {
            std::fs::write(path, &built.bytes).with_context(|| format!("writing {}", path.display()))?;
            path
        }
        None => &built.path,
    };
    let state = if built.changed { "built" } else { "up to date" };
    writeln!(out, "{state}: {} ({})", path.display(), SizeText(built.bytes.len() as u64))?;
    write!(out, "{}", describe(&component))?;
    Ok(())
}

/// What a component says of itself, as lines.
fn describe(component: &Component) -> String {
    let mut text = format!("  digest   {}\n", component.digest());
    match component.processor() {
        Ok(description) => text += &describe_processor(description),
        Err(_) => {
            if let Ok(description) = component.aggregator() {
                text += &describe_aggregator(description);
            }
        }
    }
    text
}

fn describe_processor(description: &Description) -> String {
    let mut text = String::from("  world    processor\n");
    if description.inputs.len() > 1 {
        text += &format!("  inputs   {}\n", description.inputs.join(", "));
    }
    for field in &description.fields {
        let required = if field.required { "" } else { ", optional" };
        let kind = format!("{:?}", field.value_type).to_lowercase();
        text += &format!("  field    {} from {}: {kind}{required}\n", field.name, field.pointer);
    }
    for state in &description.states {
        let kind = state.kind;
        let ttl = state.ttl.map(|ttl| format!(", kept for {}", DurationText(ttl.ms))).unwrap_or_default();
        text += &format!("  state    {}: {kind}, version {}{ttl}\n", state.name, state.version);
    }
    for timer in &description.timers {
        text += &format!("  timer    {}: {}\n", timer.name, clock(timer.clock));
    }
    for output in &description.outputs {
        let columns = output.columns.iter();
        let columns = columns.map(|(name, kind)| format!("{name} {}", format!("{kind:?}").to_lowercase()));
        let columns: Vec<String> = columns.collect();
        let what = if columns.is_empty() { "whole records".to_string() } else { columns.join(", ") };
        text += &format!("  output   {}: {what}\n", output.name);
    }
    text
}

fn describe_aggregator(description: &AggregatorDescription) -> String {
    let mut text = String::from("  world    aggregator\n");
    for field in &description.fields {
        let kind = format!("{:?}", field.value_type).to_lowercase();
        text += &format!("  field    {} from {}: {kind}\n", field.name, field.pointer);
    }
    text += &format!("  result   {}\n", format!("{:?}", description.result_type).to_lowercase());
    text
}

fn clock(clock: dataflow::time::Clock) -> &'static str {
    match clock {
        dataflow::time::Clock::EventTime => "event time",
        dataflow::time::Clock::ProcessingTime => "processing time",
    }
}
