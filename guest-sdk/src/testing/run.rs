//! How the stand-in host runs calls: columns from rows, effects made real, bad rows put aside, timers fired in time order.

use super::cell::Cell;
use super::harness::{Harness, Sent};
use super::record::{Record, fields_of};
use super::world::{CallRow, enter};
use crate::bindings::types::{
    self, Batch, Blobs, Body, Change, Clock, Column, Effects, Failure, Field, Firings, Headers, StateWrite,
    TimerChanges,
};
use crate::input::{blob, len_of, no_blobs, push_blob};
use crate::{Processor, Timestamp};
use serde_json::Value;

/// Key, timer, tag.
pub(super) type TimerName = (Vec<u8>, u32, Vec<u8>);

/// What a timer was set to.
#[derive(Clone)]
pub(super) struct SetTimer {
    pub(super) at: Timestamp,
    pub(super) payload: Vec<u8>,
    /// Tells a timer from one that was set again.
    number: u64,
}

/// A row of a call to be made.
pub(super) enum Given {
    Record(Record, Vec<Option<Cell>>),
    Firing(TimerName, SetTimer),
}

impl Given {
    fn key(&self) -> Option<&Vec<u8>> {
        match self {
            Self::Record(record, _) => record.key.as_ref(),
            Self::Firing((key, ..), _) => Some(key),
        }
    }

    fn time(&self) -> Timestamp {
        match self {
            Self::Record(record, _) => record.time,
            Self::Firing(_, set) => set.at,
        }
    }
}

/// The distinct keys of a call, and which is each row's.
struct Keys {
    keys: Vec<Vec<u8>>,
    key_of: Vec<u32>,
    /// The first row of each key.
    first: Vec<usize>,
}

impl Keys {
    fn of(rows: &[Given]) -> Self {
        let mut all = Self { keys: Vec::new(), key_of: Vec::new(), first: Vec::new() };
        for (number, row) in rows.iter().enumerate() {
            let Some(key) = row.key() else { continue };
            let place = all.keys.iter().position(|known| known == key).unwrap_or_else(|| {
                all.keys.push(key.clone());
                all.first.push(number);
                all.keys.len() - 1
            });
            all.key_of.push(place as u32);
        }
        assert!(
            all.key_of.is_empty() || all.key_of.len() == rows.len(),
            "records of one input all have keys, or none has"
        );
        all
    }
}

pub(super) fn blobs<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> Blobs {
    let mut all = no_blobs();
    strings.into_iter().for_each(|string| push_blob(&mut all, string));
    all
}

impl<P: Processor> Harness<P> {
    /// Whether the row must not share a call with these: a prefetched value does not expire within a call.
    pub(super) fn must_cut(&self, call: &[Given], row: &Given) -> bool {
        let expires = self.description.states.iter().any(|state| state.prefetch && state.ttl.is_some());
        call.len() >= self.rows_per_call || expires && call.iter().any(|other| other.key() == row.key())
    }

    /// Fires what is due on a clock. A timer set meanwhile waits for the next advance, even if its time has come.
    pub(super) fn fire(&mut self, clock: Clock, to: Timestamp) {
        let of_clock = |timer: u32| self.description.timers[timer as usize].clock == clock;
        let due = self.timers.iter().filter(|((_, timer, _), set)| of_clock(*timer) && set.at <= to);
        let mut due: Vec<_> = due.map(|(name, set)| (name.clone(), set.clone())).collect();
        due.sort_by(|(name, set), (other, other_set)| (set.at, name).cmp(&(other_set.at, other)));
        let mut call = Vec::new();
        for (name, set) in due {
            let given = Given::Firing(name, set);
            if self.must_cut(&call, &given) {
                self.run_firings(std::mem::take(&mut call));
            }
            call.push(given);
        }
        self.run_firings(call);
    }

    /// Runs those that no earlier firing has removed or set again.
    fn run_firings(&mut self, mut call: Vec<Given>) {
        call.retain(|given| match given {
            Given::Firing(name, set) => self.timers.get(name).is_some_and(|now| now.number == set.number),
            Given::Record(..) => true,
        });
        for given in &call {
            if let Given::Firing(name, _) = given {
                self.timers.remove(name);
            }
        }
        self.run(call);
    }

    /// Runs rows in one call, and again without those that are bad.
    pub(super) fn run(&mut self, mut rows: Vec<Given>) {
        while !rows.is_empty() {
            if self.replacing {
                self.replace_instance();
            }
            match self.attempt(&rows) {
                Ok(effects) => return self.make_real(&rows, effects),
                Err(Failure::BadRows(bad)) => {
                    assert!(!bad.is_empty(), "a failure names the rows that are bad");
                    for bad in bad.into_iter().rev() {
                        let row = rows.remove(bad.row as usize);
                        self.put_aside(row.key().cloned().unwrap_or_default(), row.time(), bad.reason);
                    }
                }
                Err(Failure::Failed(reason)) if rows.len() == 1 => {
                    self.put_aside(rows[0].key().cloned().unwrap_or_default(), rows[0].time(), reason);
                    return;
                }
                Err(Failure::Failed(_)) => return rows.into_iter().for_each(|row| self.run(vec![row])),
            }
        }
    }

    /// One call; state is as before if it fails.
    fn attempt(&mut self, rows: &[Given]) -> Result<Effects, Failure> {
        let keys = Keys::of(rows);
        let before = {
            let mut world = self.world.borrow_mut();
            world.rows = rows.iter().map(|row| CallRow { key: row.key().cloned(), time: row.time() }).collect();
            world.store.clone()
        };
        let done = match rows.first() {
            Some(Given::Firing(..)) => {
                let firings = self.firings(rows, &keys);
                enter(&self.world, || self.instance.on_timers(firings))
            }
            _ => {
                let batch = self.batch(rows, &keys);
                enter(&self.world, || self.instance.on_batch(batch))
            }
        };
        if done.is_err() {
            self.world.borrow_mut().store = before;
        }
        done
    }

    /// The prefetched states of a call's keys.
    fn states(&self, rows: &[Given], keys: &Keys) -> Vec<Column> {
        let world = self.world.borrow();
        let states = self.description.states.iter().enumerate().filter(|(_, state)| state.prefetch);
        let column = |(id, state): (usize, &types::StateDeclaration)| {
            let values = keys.keys.iter().zip(&keys.first);
            let values = values.map(|(key, row)| world.store.peek(id as u32, key, b"", world.sight(rows[*row].time())));
            Cell::column(state.value_type, &values.collect::<Vec<_>>())
        };
        states.map(column).collect()
    }

    fn batch(&self, rows: &[Given], keys: &Keys) -> Batch {
        let records = rows.iter().filter_map(|row| match row {
            Given::Record(record, cells) => Some((record, cells)),
            Given::Firing(..) => None,
        });
        let records: Vec<_> = records.collect();
        let fields = fields_of(&self.description, records[0].0.input);
        let world = self.world.borrow();
        Batch {
            now: world.now,
            watermark: world.watermark,
            keys: blobs(keys.keys.iter().map(Vec::as_slice)),
            key_of: keys.key_of.clone(),
            states: self.states(rows, keys),
            ..batch_of(&records, &fields, self.description.whole_values, self.description.headers)
        }
    }

    fn firings(&self, rows: &[Given], keys: &Keys) -> Firings {
        let firings = rows.iter().filter_map(|row| match row {
            Given::Firing(name, set) => Some((name, set)),
            Given::Record(..) => None,
        });
        let firings: Vec<_> = firings.collect();
        let world = self.world.borrow();
        Firings {
            now: world.now,
            watermark: world.watermark,
            keys: blobs(keys.keys.iter().map(Vec::as_slice)),
            key_of: keys.key_of.clone(),
            timer_of: firings.iter().map(|((_, timer, _), _)| *timer).collect(),
            at: rows.iter().map(Given::time).collect(),
            tags: blobs(firings.iter().map(|((.., tag), _)| tag.as_slice())),
            payloads: blobs(firings.iter().map(|(_, set)| set.payload.as_slice())),
            states: self.states(rows, keys),
        }
    }

    fn make_real(&mut self, rows: &[Given], effects: Effects) {
        let Effects { outputs, writes, timers } = effects;
        for write in writes {
            self.write(rows, &write);
        }
        self.set_timers(rows, &timers);
        for output in outputs {
            self.send_on(rows, &output);
        }
    }

    fn write(&mut self, rows: &[Given], write: &StateWrite) {
        let mut world = self.world.borrow_mut();
        let state = &world.store.states[write.state as usize];
        assert!(state.prefetch, "state `{}` is written on demand", state.name);
        assert_eq!(write.rows.len(), len_of(&write.values), "one value for each row of a write");
        for (row, cell) in write.rows.iter().zip(Cell::all(&write.values)) {
            let row = &rows[*row as usize];
            let sight = world.sight(row.time());
            let key = row.key().expect("state needs a key");
            world.store.put(write.state, key, b"", cell, sight);
        }
    }

    fn set_timers(&mut self, rows: &[Given], changes: &TimerChanges) {
        for (index, row) in changes.rows.iter().enumerate() {
            let key = rows[*row as usize].key().expect("timers need a key").clone();
            let name = (key, changes.timer_of[index], blob(&changes.tags, index).to_vec());
            match changes.at[index] {
                Some(at) => {
                    self.timers_set += 1;
                    let payload = blob(&changes.payloads, index).to_vec();
                    self.timers.insert(name, SetTimer { at, payload, number: self.timers_set });
                }
                None => {
                    self.timers.remove(&name);
                }
            }
        }
    }

    fn send_on(&mut self, rows: &[Given], output: &types::Output) {
        let declared = &self.description.outputs[output.port as usize];
        let port = &declared.name;
        let sent = |row: u32, value: Value| Sent {
            port: port.clone(),
            value,
            key: rows[row as usize].key().cloned().unwrap_or_default(),
            time: rows[row as usize].time(),
            change: Change::Insert,
            passed: false,
            headers: Vec::new(),
        };
        for row in &output.passed {
            assert!(declared.columns.is_empty(), "a record cannot pass to `{port}`: it has declared columns");
            let Given::Record(record, _) = &rows[*row as usize] else { panic!("a fired timer has nothing to pass on") };
            let value = record.value.clone().map_or(Value::Null, |value| Cell::Bytes(value).to_json());
            let (change, headers) = (record.change, record.headers.clone());
            self.sent.push(Sent { change, passed: true, headers, ..sent(*row, value) });
        }
        for (index, row) in output.origins.iter().enumerate() {
            let value = match &output.body {
                Body::Bytes(column) => Cell::of(column, index).map_or(Value::Null, |cell| cell.to_json()),
                Body::Columns(columns) => {
                    assert_eq!(columns.len(), declared.columns.len(), "one column for each that `{port}` declares");
                    let named = declared.columns.iter().zip(columns);
                    let value = |column| Cell::of(column, index).map_or(Value::Null, |cell| cell.to_json());
                    named.map(|(field, column)| (field.name.clone(), value(column))).collect()
                }
            };
            let mut sent = sent(*row, value);
            if let Some(timestamps) = &output.timestamps {
                sent.time = timestamps[index];
            }
            sent.change = output.changes.get(index).copied().unwrap_or(Change::Insert);
            sent.headers = output.headers.as_ref().map_or_else(Vec::new, |headers| headers_at(headers, index as u32));
            self.sent.push(sent);
        }
    }
}

/// A batch of records, but for keys and what is known of time.
pub(super) fn batch_of(records: &[Fed<'_>], fields: &[&Field], whole_values: bool, headers: bool) -> Batch {
    let columns = fields.iter().enumerate().map(|(place, field)| {
        let cells: Vec<_> = records.iter().map(|(_, cells)| cells[place].clone()).collect();
        Cell::column(field.value_type, &cells)
    });
    let changes: Vec<Change> = records.iter().map(|(record, _)| record.change).collect();
    let values: Vec<_> = records.iter().map(|(record, _)| record.value.clone().map(Cell::Bytes)).collect();
    Batch {
        now: 0,
        watermark: None,
        input: records.first().map_or(0, |(record, _)| record.input),
        keys: no_blobs(),
        key_of: Vec::new(),
        timestamps: records.iter().map(|(record, _)| record.time).collect(),
        changes: if changes.contains(&Change::Retract) { changes } else { Vec::new() },
        values: whole_values.then(|| Cell::column(types::ValueType::Bytes, &values)),
        fields: columns.collect(),
        headers: headers.then(|| headers_of(records)),
        states: Vec::new(),
    }
}

/// A record and the values of its fields.
type Fed<'a> = (&'a Record, &'a Vec<Option<Cell>>);

fn headers_of(records: &[Fed<'_>]) -> Headers {
    let mut all = Headers { rows: Vec::new(), name: no_blobs(), value: no_blobs() };
    for (row, (record, _)) in records.iter().enumerate() {
        for (name, value) in &record.headers {
            all.rows.push(row as u32);
            push_blob(&mut all.name, name.as_bytes());
            push_blob(&mut all.value, value);
        }
    }
    all
}

fn headers_at(headers: &Headers, row: u32) -> Vec<(String, Vec<u8>)> {
    let mine = headers.rows.iter().enumerate().filter(|(_, of)| **of == row);
    mine.map(|(index, _)| {
        let name = String::from_utf8_lossy(blob(&headers.name, index)).into_owned();
        (name, blob(&headers.value, index).to_vec())
    })
    .collect()
}
