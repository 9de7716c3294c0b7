//! From checked effects to batches on ports. Rows keep the time and the origin of the rows they came from, so that what fails
//! downstream can still be told by file and line.

use super::lift::{Body, Emission};
use super::settings::GuestPort;
use crate::operator::Emitter;
use bytes::Bytes;
use dataflow::record::{Batch, Column, Origin, Raw, Values};
use dataflow::time::Timestamp;

/// The rows of the call: a batch of records, or the times of fired timers.
pub(super) enum Source<'a> {
    /// Records of an input.
    Records(usize, &'a mut Batch),
    /// Due timers.
    Timers(&'a [Timestamp]),
}

/// Sends all outputs of a call. Nothing is read of the source's batch afterwards.
pub(super) fn emit(outputs: Vec<Emission>, mut source: Source<'_>, ports: &[GuestPort], out: &mut Emitter) {
    let last = outputs.len().saturating_sub(1);
    for (index, output) in outputs.into_iter().enumerate() {
        let wiring = ports.get(output.port);
        if wiring.is_some_and(|wiring| wiring.unread) {
            continue;
        }
        if let Source::Records(input, batch) = &mut source
            && !output.passed.is_empty()
        {
            let whole = index == last && output.origins.is_empty() && is_whole(&output.passed, batch.len());
            let passed = if whole { std::mem::take(*batch) } else { batch.select(&output.passed) };
            let pass = wiring.and_then(|wiring| wiring.pass.get(*input)).and_then(Option::as_ref);
            out.emit(
                output.port,
                match pass {
                    Some(pass) => pass(passed),
                    None => passed,
                },
            );
        }
        if !output.origins.is_empty() {
            let port = output.port;
            let made = made(output, &source);
            let decode = wiring.and_then(|wiring| wiring.decode.as_ref()).filter(|_| made.raw.is_some());
            out.emit(
                port,
                match decode {
                    Some(decode) => decode(made),
                    None => made,
                },
            );
        }
    }
}

fn is_whole(rows: &[u32], count: usize) -> bool {
    rows.len() == count && rows.iter().enumerate().all(|(at, &row)| at == row as usize)
}

/// The rows that the guest made.
fn made(output: Emission, source: &Source<'_>) -> Batch {
    let times: &[Timestamp] = match source {
        Source::Records(_, batch) => &batch.timestamps,
        Source::Timers(at) => at,
    };
    let origin = match source {
        Source::Records(_, batch) => batch.origin.as_ref().map(|origin| Origin {
            partition: origin.partition.clone(),
            places: output.origins.iter().map(|&row| origin.places[row as usize]).collect(),
        }),
        Source::Timers(_) => None,
    };
    let (columns, raw) = match output.body {
        Body::Columns(columns) => (columns, None),
        Body::Bytes(column) => (vec![], Some(raw(column))),
    };
    Batch {
        timestamps: output
            .timestamps
            .unwrap_or_else(|| output.origins.iter().map(|&row| times[row as usize]).collect()),
        changes: output.changes,
        columns,
        raw,
        headers: output.headers,
        origin,
        ..Batch::default()
    }
}

/// The guest's bytes become the slab.
fn raw(column: Column) -> Raw {
    let Values::Bytes(blobs) = column.values else { return Raw::default() };
    let mut from = 0;
    let spans = blobs.ends.iter().enumerate().map(|(row, &end)| {
        let span = (std::mem::replace(&mut from, end), end);
        if column.present.as_ref().is_none_or(|present| present[row]) { span } else { Raw::TOMBSTONE }
    });
    Raw { spans: spans.collect(), slab: Bytes::from(blobs.bytes) }
}
