//! `millstream state`: lists, reads and exports the state in a savepoint, or in a job's newest checkpoint, without its code.

use super::Failure;
use super::progress::grouped;
use anyhow::{Context, anyhow, bail, ensure};
use dataflow::checkpoint::StateEntry;
use dataflow::key::{self, KeyGroup};
use dataflow::record::Value;
use millstream::job::savepoint::{self, Reading};
use millstream::state::{Address, RowMeta};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// The states there are, with their rows and bytes
    List(Place),
    /// All rows as JSON lines
    Export {
        #[command(flatten)]
        place: Place,
        /// Only this operator's
        #[arg(long)]
        operator: Option<String>,
        /// Only this state
        #[arg(long)]
        state: Option<String>,
    },
    /// What one key has, as JSON lines
    Read {
        #[command(flatten)]
        place: Place,
        /// The operator
        operator: String,
        /// Its state
        state: String,
        /// The key: text, or JSON (42, "42", true, ["Pune", 3])
        key: String,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// A savepoint, or a job's folder in its data directory (.millstream/rides)
    place: String,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    match &arguments.command {
        Command::List(place) => list(&savepoint::reading(&place.place)?, out),
        Command::Export { place, operator, state } => {
            let reading = savepoint::reading(&place.place)?;
            let wanted: Vec<&StateEntry> = (reading.states().iter())
                .filter(|it| operator.as_ref().is_none_or(|name| *name == it.operator))
                .filter(|it| state.as_ref().is_none_or(|name| *name == it.name))
                .collect();
            if wanted.is_empty() && (operator.is_some() || state.is_some()) {
                return Err(no_such(&reading, operator.as_deref(), state.as_deref()).into());
            }
            show(&reading, 0..reading.max_parallelism(), &wanted, None, out).map(|_| ())
        }
        Command::Read { place, operator, state, key } => {
            let reading = savepoint::reading(&place.place)?;
            let entry = reading.states().iter().find(|it| it.operator == *operator && it.name == *state);
            let entry = entry.ok_or_else(|| no_such(&reading, Some(operator), Some(state)))?;
            let wanted = parse_key(key)?;
            let group = KeyGroup::of(key::hash(&wanted), reading.max_parallelism()).0;
            if show(&reading, group..group + 1, &[entry], Some(&wanted), out)? == 0 {
                return Err(anyhow!(
                    "key {key} has nothing in state `{state}` of `{operator}` in the {}",
                    reading.name()
                )
                .into());
            }
            Ok(())
        }
    }
}

fn no_such(reading: &Reading, operator: Option<&str>, state: Option<&str>) -> anyhow::Error {
    let known: Vec<String> = reading.states().iter().map(|it| format!("{}/{}", it.operator, it.name)).collect();
    let wanted = [operator, state].into_iter().flatten().collect::<Vec<_>>().join("/");
    anyhow!("there is no `{wanted}` in the {}; there are: {}", reading.name(), known.join(", "))
}

fn list(reading: &Reading, out: &mut dyn Write) -> Result<(), Failure> {
    let mut sizes: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    reading.rows(0..reading.max_parallelism(), &mut |at: Address<'_>, _: RowMeta, bytes: &[u8]| {
        let (rows, sum) = sizes.entry(at.state.0).or_default();
        *rows += 1;
        *sum += (at.row.len() + bytes.len()) as u64;
        Ok(())
    })?;
    writeln!(out, "{}", reading.name())?;
    let width = |of: fn(&StateEntry) -> usize| reading.states().iter().map(of).max().unwrap_or(0).max(8);
    let (operators, names) = (width(|it| it.operator.len()), width(|it| it.name.len()));
    writeln!(
        out,
        "  {:operators$}  {:names$}  {:14} {:>7} {:>14} {:>16}",
        "operator", "state", "kind", "version", "rows", "bytes"
    )?;
    for state in reading.states() {
        let (rows, bytes) = sizes.get(&state.number).copied().unwrap_or_default();
        writeln!(
            out,
            "  {:operators$}  {:names$}  {:14} {:>7} {:>14} {:>16}",
            state.operator,
            state.name,
            state.kind,
            state.version,
            grouped(rows),
            grouped(bytes)
        )?;
    }
    Ok(())
}

/// Writes the rows of these states, and of this key if one is given; how many.
fn show(
    reading: &Reading,
    groups: std::ops::Range<u16>,
    states: &[&StateEntry],
    key: Option<&[u8]>,
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    let mut out = BufWriter::new(out);
    let by_number: BTreeMap<u32, &&StateEntry> = states.iter().map(|state| (state.number, state)).collect();
    let mut shown = 0;
    reading.rows(groups, &mut |at, meta, bytes| {
        let Some(entry) = by_number.get(&at.state.0) else { return Ok(()) };
        let Some(line) = savepoint::line(entry.kind, at.row, meta, bytes) else { return Ok(()) };
        if key.is_none_or(|key| line.key == key) {
            shown += 1;
            writeln!(out, "{}", line.to_json(entry)).context("writing to standard output")?;
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(shown)
}

/// A key as it is stored. What is JSON is taken as that, all else is text.
fn parse_key(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![];
    match serde_json::from_str::<Json>(text) {
        Ok(Json::Array(parts)) => parts.iter().try_for_each(|part| push_part(part, &mut bytes))?,
        Ok(part) => push_part(&part, &mut bytes)?,
        Err(_) => key::push_part(&mut bytes, Value::Text(text)),
    }
    ensure!(!bytes.is_empty(), "the key `{text}` is empty");
    Ok(bytes)
}

fn push_part(part: &Json, bytes: &mut Vec<u8>) -> anyhow::Result<()> {
    let value = match part {
        Json::String(text) => Value::Text(text),
        Json::Bool(boolean) => Value::Boolean(*boolean),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) => Value::Float(float),
            (None, None) => bail!("{number} is no key"),
        },
        Json::Null | Json::Array(_) | Json::Object(_) => {
            bail!("{part} is no key: a key is text, a number, true or false")
        }
    };
    key::push_part(bytes, value);
    Ok(())
}
