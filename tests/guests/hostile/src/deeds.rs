//! What the hostile guest does, row by row.

use crate::millstream::operator::types::*;
use crate::millstream::operator::{log, metrics, state};
use crate::{ALARM, COUNT, ITEMS, NOTE, RECENT, TABLE, TICK};

fn blob(blobs: &Blobs, row: usize) -> &[u8] {
    let from = if row == 0 { 0 } else { blobs.ends[row - 1] as usize };
    &blobs.bytes[from..blobs.ends[row] as usize]
}

fn blobs(strings: &[&[u8]]) -> Blobs {
    let mut made = Blobs { ends: vec![], bytes: vec![] };
    for string in strings {
        made.bytes.extend_from_slice(string);
        made.ends.push(made.bytes.len() as u32);
    }
    made
}

fn ints(values: Vec<i64>) -> Column {
    Column { present: None, values: Values::Int(values) }
}

fn texts(strings: &[&[u8]]) -> Column {
    Column { present: None, values: Values::Text(blobs(strings)) }
}

/// The values of a prefetched state, as ints.
fn counts(column: &Column) -> Vec<i64> {
    let present = |at: usize| column.present.as_ref().is_none_or(|present| present[at]);
    match &column.values {
        Values::Int(ints) => ints.iter().enumerate().map(|(at, &int)| if present(at) { int } else { 0 }).collect(),
        Values::Float(floats) => {
            floats.iter().enumerate().map(|(at, &f)| if present(at) { f as i64 } else { 0 }).collect()
        }
        _ => vec![],
    }
}

fn written(values: Vec<i64>) -> Column {
    if cfg!(feature = "next") {
        Column { present: None, values: Values::Float(values.into_iter().map(|int| int as f64).collect()) }
    } else {
        ints(values)
    }
}

pub fn no_timers() -> TimerChanges {
    TimerChanges { rows: vec![], timer_of: vec![], tags: blobs(&[]), at: vec![], payloads: blobs(&[]) }
}

fn output(port: u32, origins: Vec<u32>, body: Body) -> Output {
    Output { port, passed: vec![], origins, timestamps: None, changes: vec![], headers: None, body }
}

/// The running count per key, each record's new count put out.
pub fn count(batch: Batch) -> Effects {
    let mut counts = counts(&batch.states[0]);
    let mut first = vec![u32::MAX; counts.len()];
    let mut numbers = Vec::with_capacity(batch.key_of.len());
    for (row, &key) in batch.key_of.iter().enumerate() {
        let key = key as usize;
        counts[key] += 1;
        numbers.push(counts[key]);
        if first[key] == u32::MAX {
            first[key] = row as u32;
        }
    }
    let notes = Column {
        present: Some(vec![false; numbers.len()]),
        values: Values::Text(Blobs { ends: vec![0; numbers.len()], bytes: vec![] }),
    };
    let origins = (0..numbers.len() as u32).collect();
    Effects {
        outputs: vec![output(0, origins, Body::Columns(vec![ints(numbers), notes]))],
        writes: vec![StateWrite { state: COUNT, rows: first, values: written(counts) }],
        timers: no_timers(),
    }
}

struct Doing {
    counts: Vec<i64>,
    recent: Vec<Option<i64>>,
    numbers: Vec<i64>,
    notes: Vec<Vec<u8>>,
    origins: Vec<u32>,
    effects: Effects,
    bad: Vec<BadRow>,
}

impl Doing {
    fn say(&mut self, row: u32, number: i64, note: &[u8]) {
        self.origins.push(row);
        self.numbers.push(number);
        self.notes.push(note.to_vec());
    }

    fn timer(&mut self, row: u32, timer: u32, at: Option<i64>, payload: &[u8]) {
        let timers = &mut self.effects.timers;
        timers.rows.push(row);
        timers.timer_of.push(timer);
        timers.at.push(at);
        timers.tags.ends.push(0);
        timers.payloads.bytes.extend_from_slice(payload);
        timers.payloads.ends.push(timers.payloads.bytes.len() as u32);
    }
}

pub fn rows(batch: &Batch, calls: u32) -> Result<Effects, Failure> {
    let Values::Text(deeds) = &batch.fields[0].values else { unreachable!() };
    let amounts = counts(&batch.fields[1]);
    let recent = &batch.states[1];
    let present = |key: usize| recent.present.as_ref().is_none_or(|present| present[key]);
    let mut doing = Doing {
        counts: counts(&batch.states[0]),
        recent: counts(recent).into_iter().enumerate().map(|(key, value)| present(key).then_some(value)).collect(),
        numbers: vec![],
        notes: vec![],
        origins: vec![],
        effects: Effects { outputs: vec![], writes: vec![], timers: no_timers() },
        bad: vec![],
    };
    for (row, &amount) in amounts.iter().enumerate() {
        let deed = std::str::from_utf8(blob(deeds, row)).unwrap();
        keep(&mut doing, batch, row as u32, deed, (amount, calls))
            .or_else(|()| break_faith(&mut doing, batch, row as u32, deed))?;
    }
    if !doing.bad.is_empty() {
        return Err(Failure::BadRows(doing.bad));
    }
    let notes: Vec<&[u8]> = doing.notes.iter().map(Vec::as_slice).collect();
    let body = Body::Columns(vec![ints(doing.numbers), texts(&notes)]);
    doing.effects.outputs.push(output(0, doing.origins, body));
    if !batch.key_of.is_empty() {
        let mut rows = vec![0; doing.counts.len()];
        batch.key_of.iter().enumerate().for_each(|(row, &key)| rows[key as usize] = row as u32);
        doing.effects.writes.push(StateWrite { state: COUNT, rows, values: written(doing.counts) });
    }
    Ok(doing.effects)
}

/// What a guest may do.
fn keep(doing: &mut Doing, batch: &Batch, row: u32, deed: &str, (amount, calls): (i64, u32)) -> Result<(), ()> {
    let key = *batch.key_of.get(row as usize).unwrap_or(&0) as usize;
    match deed {
        "count" => {
            doing.counts[key] += 1;
            doing.say(row, doing.counts[key], b"");
        }
        "calls" => doing.say(row, i64::from(calls), b""),
        "rows" => doing.say(row, batch.timestamps.len() as i64, b""),
        "pass" => {
            let body = Body::Bytes(Column { present: None, values: Values::Bytes(blobs(&[])) });
            doing.effects.outputs.push(Output { passed: vec![row], ..output(1, vec![], body) });
        }
        "bytes" => {
            let bytes = Column { present: None, values: Values::Bytes(blobs(&[format!("{amount}").as_bytes()])) };
            doing.effects.outputs.push(output(1, vec![row], Body::Bytes(bytes)));
        }
        "recent" => {
            doing.say(row, doing.recent[key].unwrap_or(-1), b"");
            doing.recent[key] = Some(amount);
            doing.effects.writes.push(StateWrite { state: RECENT, rows: vec![row], values: ints(vec![amount]) });
        }
        "write" => {
            let before = state::get(NOTE, &[row]);
            let Values::Text(notes) = &before.values else { unreachable!() };
            doing.say(row, 0, blob(notes, 0));
            state::put(NOTE, &[row], &texts(&[format!("{amount}").as_bytes()]));
        }
        "append" => {
            state::list_append(ITEMS, &[row], &ints(vec![amount]));
            let Values::Int(items) = state::list_read(ITEMS, row, 0, 100).values else { unreachable!() };
            doing.say(row, items.iter().sum(), b"");
        }
        "entry" => {
            state::map_put(TABLE, &[row], &blobs(&[b"sum"]), &ints(vec![amount]));
            let (names, values) = state::map_scan(TABLE, row, None, 10);
            let Values::Int(values) = values.values else { unreachable!() };
            doing.say(row, values.iter().sum(), blob(&names, 0));
        }
        "alarm" => doing.timer(row, ALARM, Some(amount), b"ring"),
        "silence" => doing.timer(row, ALARM, None, b""),
        "tick" => doing.timer(row, TICK, Some(amount), b"tick"),
        "trapping alarm" => doing.timer(row, ALARM, Some(amount), b"trap"),
        "refusing alarm" => doing.timer(row, ALARM, Some(amount), b"refuse"),
        "metric" => metrics::add(metrics::counter("seen"), 2),
        "talk" => (0..1000).for_each(|line| log::write(log::Level::Error, &format!("line {line}"))),
        "together" if batch.timestamps.len() == 1 => doing.say(row, 1, b""),
        _ => return Err(()),
    }
    Ok(())
}

/// What it may not.
fn break_faith(doing: &mut Doing, batch: &Batch, row: u32, deed: &str) -> Result<(), Failure> {
    let one = |column: Column| Body::Columns(vec![ints(vec![1]), column]);
    let raw = |ends: Vec<u32>| {
        Body::Bytes(Column { present: None, values: Values::Bytes(Blobs { ends, bytes: b"abc".into() }) })
    };
    let outputs = &mut doing.effects.outputs;
    match deed {
        "trap" | "together" => panic!("asked to"),
        "loop" => loop {
            std::hint::black_box(row);
        },
        "grow" => {
            let mut hoard: Vec<Vec<u8>> = vec![];
            loop {
                hoard.push(vec![1; 1 << 20]);
                std::hint::black_box(&hoard);
            }
        }
        "recurse" => {
            std::hint::black_box(recurse(u64::from(row)));
        }
        "refuse" => doing.bad.push(BadRow { row, reason: "not to my taste".into() }),
        "refuse another" => doing.bad.push(BadRow { row: 4096, reason: "not mine".into() }),
        "refuse none" => return Err(Failure::BadRows(vec![])),
        "fail" => return Err(Failure::Failed("no good".into())),
        "ends beyond" => outputs.push(output(1, vec![row], raw(vec![9]))),
        "ends falling" => outputs.push(output(1, vec![row, row], raw(vec![3, 1]))),
        "not utf-8" => outputs.push(output(0, vec![row], one(texts(&[&[0xff]])))),
        "wrong type" => outputs.push(output(0, vec![row], one(ints(vec![1])))),
        "wrong length" => outputs.push(output(0, vec![row], one(texts(&[b"a", b"b"])))),
        "wrong columns" => outputs.push(output(0, vec![row], Body::Columns(vec![ints(vec![1])]))),
        "bytes for columns" => outputs.push(output(0, vec![row], raw(vec![3]))),
        "wrong times" => outputs.push(Output { timestamps: Some(vec![1, 2]), ..output(1, vec![row], raw(vec![3])) }),
        "far time" => outputs.push(Output { timestamps: Some(vec![i64::MAX]), ..output(1, vec![row], raw(vec![3])) }),
        "wrong changes" => {
            outputs.push(Output { changes: vec![Change::Insert; 3], ..output(1, vec![row], raw(vec![3])) })
        }
        "strange origin" => outputs.push(output(1, vec![4096], raw(vec![3]))),
        "strange port" => outputs.push(output(9, vec![row], raw(vec![3]))),
        "strange pass" => outputs.push(Output { passed: vec![4096], ..output(1, vec![], Body::Bytes(none())) }),
        "pass to columns" => outputs.push(Output { passed: vec![row], ..output(0, vec![], Body::Bytes(none())) }),
        "much" => {
            let bytes = Blobs { ends: vec![40 << 20], bytes: vec![7; 40 << 20] };
            outputs.push(output(1, vec![row], Body::Bytes(Column { present: None, values: Values::Bytes(bytes) })));
        }
        "gigabyte" => gigabyte(outputs, row),
        _ => return break_state(doing, batch, row, deed),
    }
    Ok(())
}

fn none() -> Column {
    Column { present: None, values: Values::Bytes(blobs(&[])) }
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(depth) + std::hint::black_box(recurse as fn(u64) -> u64)(depth + 1)
}

/// The same 30 MiB forty times over. The host stops at the bound, so nothing is ever freed twice.
fn gigabyte(outputs: &mut Vec<Output>, row: u32) {
    let bytes = vec![7_u8; 30 << 20].leak();
    for _ in 0..40 {
        // Safety: none; this guest is hostile.
        let bytes = unsafe { Vec::from_raw_parts(bytes.as_mut_ptr(), bytes.len(), bytes.len()) };
        let blobs = Blobs { ends: vec![30 << 20], bytes };
        outputs.push(output(1, vec![row], Body::Bytes(Column { present: None, values: Values::Bytes(blobs) })));
    }
}

/// What it may not do to state and timers.
fn break_state(doing: &mut Doing, batch: &Batch, row: u32, deed: &str) -> Result<(), Failure> {
    let writes = &mut doing.effects.writes;
    match deed {
        "write and trap" => {
            state::put(NOTE, &[row], &texts(&[b"never"]));
            state::list_append(ITEMS, &[row], &ints(vec![666]));
            panic!("asked to");
        }
        "strange row" => drop(state::get(NOTE, &[batch.timestamps.len() as u32])),
        "strange state" => drop(state::get(77, &[row])),
        "prefetched state" => drop(state::get(COUNT, &[row])),
        "list of a value" => drop(state::list_length(NOTE, row)),
        "value of a list" => state::put(ITEMS, &[row], &ints(vec![1])),
        "ill-typed put" => state::put(NOTE, &[row], &ints(vec![1])),
        "ill-sized put" => state::put(NOTE, &[row], &texts(&[b"a", b"b"])),
        "ill-ended put" => {
            let values = Values::Text(Blobs { ends: vec![70], bytes: b"abc".into() });
            state::put(NOTE, &[row], &Column { present: None, values });
        }
        "large put" => state::put(NOTE, &[row], &texts(&[&vec![b'x'; 5 << 20]])),
        "broadcast" => state::broadcast_put(TABLE, &blobs(&[b"a"]), &ints(vec![1])),
        "write elsewhere" => writes.push(StateWrite { state: 99, rows: vec![row], values: ints(vec![1]) }),
        "write others" => writes.push(StateWrite { state: COUNT, rows: vec![4096], values: written(vec![1]) }),
        "write badly" => writes.push(StateWrite { state: COUNT, rows: vec![row], values: texts(&[b"a"]) }),
        "strange timer" => doing.timer(row, 9, Some(1), b""),
        "half a timer" => doing.effects.timers.rows.push(row),
        "strange metric" => metrics::add(77, 1),
        other => panic!("nothing known of {other}"),
    }
    Ok(())
}

/// A timer says its payload, and when it was due.
pub fn timers(firings: &Firings) -> Result<Effects, Failure> {
    let mut bad = vec![];
    let payloads: Vec<&[u8]> = (0..firings.at.len()).map(|row| blob(&firings.payloads, row)).collect();
    for (row, payload) in payloads.iter().enumerate() {
        match *payload {
            b"trap" => panic!("asked to"),
            b"refuse" => bad.push(BadRow { row: row as u32, reason: "not to my taste".into() }),
            _ => {}
        }
    }
    if !bad.is_empty() {
        return Err(Failure::BadRows(bad));
    }
    let body = Body::Columns(vec![ints(firings.at.clone()), texts(&payloads)]);
    let origins = (0..firings.at.len() as u32).collect();
    Ok(Effects { outputs: vec![output(0, origins, body)], writes: vec![], timers: no_timers() })
}
