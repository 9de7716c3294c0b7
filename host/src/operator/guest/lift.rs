//! From a guest's answer to effects that hold together: every length, offset, row, port, id and type is checked here, so that
//! whoever applies them need not. A guest is not trusted: what is wrong is a bad answer, never a panic.

use crate::engine::bindings::types;
use crate::engine::columns::{checked, checked_blobs, raise_changes};
use crate::engine::description::Description;
use crate::engine::{Fault, Limits};
use dataflow::record::{Blobs, Change, Column, Headers, ValueType, Values};
use dataflow::time::{EARLIEST, LATEST, Timestamp};

/// What the guest wants done, checked.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) outputs: Vec<Emission>,
    pub(super) writes: Vec<Write>,
    pub(super) timers: TimerChanges,
}

/// Rows for one port.
#[derive(Debug)]
pub(super) struct Emission {
    pub(super) port: usize,
    pub(super) passed: Vec<u32>,
    pub(super) origins: Vec<u32>,
    pub(super) timestamps: Option<Vec<Timestamp>>,
    pub(super) changes: Vec<Change>,
    pub(super) headers: Option<Headers>,
    pub(super) body: Body,
}

/// The rows that are not passed on.
#[derive(Debug)]
pub(super) enum Body {
    Bytes(Column),
    Columns(Vec<Column>),
}

/// New values of one state.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) state: usize,
    pub(super) rows: Vec<u32>,
    pub(super) values: Column,
}

/// Timers set and removed.
#[derive(Debug, Default)]
pub(super) struct TimerChanges {
    pub(super) rows: Vec<u32>,
    pub(super) timer_of: Vec<u32>,
    pub(super) tags: Blobs,
    pub(super) at: Vec<Option<Timestamp>>,
    pub(super) payloads: Blobs,
}

/// What answers are checked against.
pub(super) struct Lifting<'a> {
    pub(super) description: &'a Description,
    pub(super) limits: &'a Limits,
    /// Rows of the call.
    pub(super) rows: usize,
    /// Whether the rows have keys.
    pub(super) keyed: bool,
    /// Whether the rows are records, which can be passed on.
    pub(super) records: bool,
}

impl Lifting<'_> {
    /// The effects, if they hold together.
    pub(super) fn effects(&self, from: types::Effects) -> Result<Effects, Fault> {
        self.sized(&from)?;
        let outputs = from.outputs.into_iter().map(|output| self.output(output)).collect::<Result<_, _>>();
        let writes = from.writes.into_iter().map(|write| self.write(write)).collect::<Result<_, _>>();
        let timers = self.timers(from.timers);
        Ok(Effects {
            outputs: outputs.map_err(Fault::answer)?,
            writes: writes.map_err(Fault::answer)?,
            timers: timers.map_err(Fault::answer)?,
        })
    }

    /// The rows that a failure names, ascending, each once.
    pub(super) fn bad_rows(&self, from: Vec<types::BadRow>) -> Result<Vec<(u32, String)>, Fault> {
        if from.is_empty() {
            return Err(Fault::answer("a failure that names no row"));
        }
        let mut bad: Vec<(u32, String)> = from.into_iter().map(|bad| (bad.row, bad.reason)).collect();
        self.in_range(bad.iter().map(|(row, _)| *row), "a bad row").map_err(Fault::answer)?;
        bad.sort_by_key(|(row, _)| *row);
        bad.dedup_by_key(|(row, _)| *row);
        Ok(bad)
    }

    fn sized(&self, effects: &types::Effects) -> Result<(), Fault> {
        let rows: usize = effects.outputs.iter().map(|output| output.passed.len() + output.origins.len()).sum();
        let bytes: usize = effects.outputs.iter().map(|output| body_bytes(&output.body)).sum();
        let over = |what: &str, is: usize, most: usize| {
            let reason = format!("put out {is} {what}, a call may put out {most}");
            Err(Fault::new(crate::engine::FaultKind::Memory, reason))
        };
        if rows > self.limits.output_rows {
            return over("rows", rows, self.limits.output_rows);
        }
        if bytes > self.limits.output_bytes {
            return over("bytes", bytes, self.limits.output_bytes);
        }
        Ok(())
    }

    fn output(&self, from: types::Output) -> Result<Emission, String> {
        let port = from.port as usize;
        let Some(output) = self.description.outputs.get(port) else {
            return Err(format!("rows for output {port} of {}", self.description.outputs.len()));
        };
        let name = &output.name;
        let within = |reason: String| format!("output `{name}` has {reason}");
        if !from.passed.is_empty() && !self.records {
            return Err(within("rows passed on, which fired timers cannot be".into()));
        }
        if !from.passed.is_empty() && !output.columns.is_empty() {
            return Err(within("rows passed on, but declares columns".into()));
        }
        self.in_range(from.passed.iter().copied(), "a passed row").map_err(within)?;
        self.in_range(from.origins.iter().copied(), "an origin").map_err(within)?;
        let rows = from.origins.len();
        let same = |what: &str, is: usize| match is == rows {
            true => Ok(()),
            false => Err(within(format!("{is} {what} for {rows} rows"))),
        };
        if let Some(timestamps) = &from.timestamps {
            same("timestamps", timestamps.len())?;
            if let Some(far) = timestamps.iter().find(|at| !(EARLIEST..=LATEST).contains(*at)) {
                return Err(within(format!("the timestamp {far}, which is before the year 2 or after 9998")));
            }
        }
        if !from.changes.is_empty() {
            same("changes", from.changes.len())?;
        }
        let body = match from.body {
            types::Body::Bytes(bytes) if output.columns.is_empty() || (rows == 0 && is_empty(&bytes)) => {
                Body::Bytes(checked(bytes, rows, ValueType::Bytes).map_err(within)?)
            }
            types::Body::Columns(columns) if !output.columns.is_empty() && columns.len() == output.columns.len() => {
                let columns = columns.into_iter().zip(&output.columns);
                let checked = columns.map(|(column, (name, value_type))| {
                    checked(column, rows, *value_type).map_err(|reason| within(format!("in column `{name}` {reason}")))
                });
                Body::Columns(checked.collect::<Result<_, _>>()?)
            }
            types::Body::Bytes(_) => return Err(within("bytes, but declares columns".into())),
            types::Body::Columns(columns) => {
                return Err(within(format!("{} columns, but declares {}", columns.len(), output.columns.len())));
            }
        };
        Ok(Emission {
            port,
            passed: from.passed,
            timestamps: from.timestamps,
            changes: raise_changes(&from.changes),
            headers: from.headers.map(|headers| lift_headers(headers, rows)).transpose().map_err(within)?,
            origins: from.origins,
            body,
        })
    }

    fn write(&self, from: types::StateWrite) -> Result<Write, String> {
        let state = from.state as usize;
        let Some(declared) = self.description.states.get(state) else {
            return Err(format!("a write to state {state} of {}", self.description.states.len()));
        };
        let within = |reason: String| format!("a write to state `{}` has {reason}", declared.name);
        if !declared.prefetch {
            return Err(within("no place among the effects: it is not prefetched".into()));
        }
        if !self.keyed && !from.rows.is_empty() {
            return Err(within("rows without keys".into()));
        }
        self.in_range(from.rows.iter().copied(), "a row").map_err(within)?;
        let values = checked(from.values, from.rows.len(), declared.value_type).map_err(within)?;
        if let Some(bytes) = longest(&values).filter(|&bytes| bytes > self.limits.state_value_bytes) {
            return Err(within(format!("a value of {bytes} bytes, more than {}", self.limits.state_value_bytes)));
        }
        Ok(Write { state, rows: from.rows, values })
    }

    fn timers(&self, from: types::TimerChanges) -> Result<TimerChanges, String> {
        let count = from.rows.len();
        let within = |reason: String| format!("timer changes have {reason}");
        if from.timer_of.len() != count || from.at.len() != count {
            return Err(within(format!("{count} rows, {} timers and {} times", from.timer_of.len(), from.at.len())));
        }
        if !self.keyed && count > 0 {
            return Err(within("rows without keys".into()));
        }
        self.in_range(from.rows.iter().copied(), "a row").map_err(within)?;
        if let Some(timer) = from.timer_of.iter().find(|timer| **timer as usize >= self.description.timers.len()) {
            return Err(within(format!("timer {timer} of {}", self.description.timers.len())));
        }
        let tags = checked_blobs(from.tags, count).map_err(within)?;
        let payloads = checked_blobs(from.payloads, count).map_err(within)?;
        if tags.iter().chain(payloads.iter()).any(|string| string.len() > self.limits.state_value_bytes) {
            return Err(within(format!("a tag or payload of more than {} bytes", self.limits.state_value_bytes)));
        }
        Ok(TimerChanges { rows: from.rows, timer_of: from.timer_of, tags, at: from.at, payloads })
    }

    fn in_range(&self, mut rows: impl Iterator<Item = u32>, what: &str) -> Result<(), String> {
        match rows.find(|&row| row as usize >= self.rows) {
            Some(row) => Err(format!("{what} {row} in a call of {} rows", self.rows)),
            None => Ok(()),
        }
    }
}

fn is_empty(column: &types::Column) -> bool {
    matches!(&column.values, types::Values::Bytes(blobs) if blobs.ends.is_empty())
}

fn body_bytes(body: &types::Body) -> usize {
    let bytes = |column: &types::Column| match &column.values {
        types::Values::Text(blobs) | types::Values::Bytes(blobs) => blobs.bytes.len() + blobs.ends.len() * 4,
        types::Values::Int(ints) => ints.len() * 8,
        types::Values::Float(floats) => floats.len() * 8,
        types::Values::Boolean(booleans) => booleans.len(),
    };
    match body {
        types::Body::Bytes(column) => bytes(column),
        types::Body::Columns(columns) => columns.iter().map(bytes).sum(),
    }
}

/// Bytes of the longest value, of a column of strings.
pub(super) fn longest(column: &Column) -> Option<usize> {
    match &column.values {
        Values::Text(blobs) | Values::Bytes(blobs) => blobs.iter().map(<[u8]>::len).max(),
        _ => None,
    }
}

fn lift_headers(from: types::Headers, rows: usize) -> Result<Headers, String> {
    let count = from.rows.len();
    let names = checked_blobs(from.name, count)?;
    let values = checked_blobs(from.value, count)?;
    if let Some(row) = from.rows.iter().find(|row| **row as usize >= rows) {
        return Err(format!("a header of row {row} of {rows}"));
    }
    if names.iter().any(|name| std::str::from_utf8(name).is_err()) {
        return Err("a header whose name is not UTF-8".into());
    }
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_by_key(|&header| from.rows[header as usize]);
    Ok(Headers {
        rows: order.iter().map(|&header| from.rows[header as usize]).collect(),
        names: names.select(&order),
        values: values.select(&order),
    })
}
