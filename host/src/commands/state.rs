//! `millstream state`: lists, reads and exports the state in a savepoint, or in a job's newest checkpoint, without its code.

use super::Failure;
use super::progress::grouped;
use anyhow::{anyhow, bail, ensure};
use dataflow::checkpoint::{StateEntry, StateKind};
use dataflow::key::{self, KeyGroup};
use dataflow::record::Value;
use millstream::job::savepoint::{self, Reading};
use millstream::state::{Address, RowMeta};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::ops::Range;

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
    /// What one key has, or one entry of a broadcast map, as JSON lines
    Read {
        #[command(flatten)]
        place: Place,
        /// The operator
        operator: String,
        /// Its state
        state: String,
        /// The key, or the entry of a broadcast map: text, or JSON (42, "42", true, ["Pune", 3])
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
            let wanted: Vec<&StateEntry> = (reading.states())
                .filter(|it| operator.as_ref().is_none_or(|name| *name == it.operator))
                .filter(|it| state.as_ref().is_none_or(|name| *name == it.name))
                .collect();
            if wanted.is_empty() && (operator.is_some() || state.is_some()) {
                return Err(no_such(&reading, operator.as_deref(), state.as_deref()).into());
            }
            show(&reading, 0..reading.max_parallelism(), &wanted, &[], out).map(|_| ())
        }
        Command::Read { place, operator, state, key } => {
            let reading = savepoint::reading(&place.place)?;
            let entry = reading.states().find(|it| it.operator == *operator && it.name == *state);
            let entry = entry.ok_or_else(|| no_such(&reading, Some(operator), Some(state)))?;
            let (wanted, group, word) = wanted(entry, key, reading.max_parallelism())?;
            if show(&reading, group.0..group.0 + 1, &[entry], &wanted, out)? == 0 {
                return Err(anyhow!(
                    "{word} {key} has nothing in state `{state}` of `{operator}` in the {}",
                    reading.name()
                )
                .into());
            }
            Ok(())
        }
    }
}

/// What a row may be found by that is asked for by `key`, in which group, and what to call it.
fn wanted(
    entry: &StateEntry,
    key: &str,
    max_parallelism: u16,
) -> anyhow::Result<(Vec<Vec<u8>>, KeyGroup, &'static str)> {
    let parts = parse_key(key)?;
    Ok(match entry.kind {
        // Its entries may be named without parts too.
        StateKind::BroadcastMap => (vec![parts, key.as_bytes().to_vec()], savepoint::BROADCAST_TOLD, "entry"),
        _ => {
            let group = KeyGroup::of(key::hash(&parts), max_parallelism);
            (vec![parts], group, "key")
        }
    })
}

fn no_such(reading: &Reading, operator: Option<&str>, state: Option<&str>) -> anyhow::Error {
    let known: Vec<String> = reading.states().map(|it| format!("{}/{}", it.operator, it.name)).collect();
    let wanted = [operator, state].into_iter().flatten().collect::<Vec<_>>().join("/");
    anyhow!("there is no `{wanted}` in the {}; there are: {}", reading.name(), known.join(", "))
}

fn list(reading: &Reading, out: &mut dyn Write) -> Result<(), Failure> {
    let mut sizes: BTreeMap<u32, (StateKind, u64, u64)> =
        reading.states().map(|state| (state.number, (state.kind, 0, 0))).collect();
    reading.rows(0..reading.max_parallelism(), &mut |at: Address<'_>, _: RowMeta, bytes: &[u8]| {
        if let Some((kind, rows, sum)) = sizes.get_mut(&at.state.0)
            && savepoint::is_told(*kind, at)
        {
            *rows += 1;
            *sum += (at.row.len() + bytes.len()) as u64;
        }
        Ok(())
    })?;
    writeln!(out, "{}", reading.name())?;
    let width = |of: fn(&StateEntry) -> usize| reading.states().map(of).max().unwrap_or(0).max(8);
    let (operators, names) = (width(|it| it.operator.len()), width(|it| it.name.len()));
    writeln!(
        out,
        "  {:operators$}  {:names$}  {:14} {:>7} {:>14} {:>16}",
        "operator", "state", "kind", "version", "rows", "bytes"
    )?;
    for state in reading.states() {
        let (_, rows, bytes) = sizes[&state.number];
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

/// Writes the rows of these states, and only those found by one of `wanted` unless that is empty; how many.
fn show(
    reading: &Reading,
    groups: Range<u16>,
    states: &[&StateEntry],
    wanted: &[Vec<u8>],
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    let mut out = BufWriter::new(out);
    let by_number: BTreeMap<u32, &&StateEntry> = states.iter().map(|state| (state.number, state)).collect();
    let (mut shown, mut written) = (0, Ok(()));
    let read = reading.rows(groups, &mut |at, meta, bytes| {
        let Some(entry) = by_number.get(&at.state.0).filter(|entry| savepoint::is_told(entry.kind, at)) else {
            return Ok(());
        };
        let line = savepoint::line(entry, at.row, meta, bytes);
        if wanted.is_empty() || wanted.contains(&line.found_by) {
            shown += 1;
            written = writeln!(out, "{}", line.json);
        }
        ensure!(written.is_ok(), "standard output takes no more");
        Ok(())
    });
    written?;
    read?;
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
