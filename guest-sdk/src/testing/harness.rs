//! The stand-in host: cuts records into calls, makes their effects real, fires timers, puts dead rows aside.

use super::cell::Cell;
use super::record::Record;
use super::run::{Given, SetTimer, TimerName};
use super::store::Store;
use super::world::{World, enter};
use crate::bindings::types::{self, Change, Clock, Description};
use crate::declare::describe;
use crate::export::Instance;
use crate::log::Level;
use crate::{Key, KeyValue, Processor, Timestamp};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Runs an operator as the host would. Records and timers go in one a call, unless [`Harness::rows_per_call`] says otherwise.
pub struct Harness<P: Processor> {
    config: String,
    pub(super) instance: Instance<P>,
    pub(super) description: Description,
    pub(super) world: Rc<RefCell<World>>,
    pub(super) timers: BTreeMap<TimerName, SetTimer>,
    pub(super) timers_set: u64,
    pub(super) sent: Vec<Sent>,
    dead: Vec<Dead>,
    pub(super) rows_per_call: usize,
    pub(super) replacing: bool,
}

/// A row that the operator sent or passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// `main`, or the side output's name.
    pub port: String,
    /// Its columns as an object; or the whole value, as JSON where it is such.
    pub value: Value,
    /// Encoded; [`Sent::key`] reads it. Empty where the record had none.
    pub key: Vec<u8>,
    /// Timestamp, in milliseconds.
    pub time: Timestamp,
    /// Insert or retract.
    pub change: Change,
    /// The record went on as it came.
    pub passed: bool,
    /// Name and value of each.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Sent {
    /// The key of the row it came from.
    pub fn key(&self) -> Key<'_> {
        Key::of(&self.key)
    }
}

/// A record or firing that could not be processed.
#[derive(Clone, Debug, PartialEq)]
pub struct Dead {
    /// Encoded; empty without.
    pub key: Vec<u8>,
    /// The record's timestamp, or what the timer was set for.
    pub time: Timestamp,
    /// Why.
    pub reason: String,
}

/// A timer that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingTimer {
    /// The timer's name.
    pub name: String,
    /// The key, as a person would write it.
    pub key: String,
    /// Empty without.
    pub tag: Vec<u8>,
    /// What it is set for.
    pub at: Timestamp,
    /// Empty without.
    pub payload: Vec<u8>,
}

impl<P: Processor> Harness<P> {
    /// Opens the operator with a configuration: `json!({ … })`, or any struct of serde's. Panics with the reason if it refuses.
    pub fn new(config: impl serde::Serialize) -> Self {
        match Self::open(config) {
            Ok(harness) => harness,
            Err(reason) => panic!("the operator refuses to open: {reason}"),
        }
    }

    /// Opens the operator.
    ///
    /// # Errors
    /// The operator's reason to refuse the configuration.
    pub fn open(config: impl serde::Serialize) -> Result<Self, String> {
        let config = serde_json::to_string(&config).map_err(|error| error.to_string())?;
        let description = describe::<P>();
        let world = Rc::new(RefCell::new(World::new(Store::new(description.states.clone()))));
        let instance = open(&world, &config)?;
        Ok(Self {
            config,
            instance,
            description,
            world,
            timers: BTreeMap::new(),
            timers_set: 0,
            sent: Vec::new(),
            dead: Vec::new(),
            rows_per_call: 1,
            replacing: false,
        })
    }

    /// Hands over up to so many rows in one call.
    #[must_use]
    pub fn rows_per_call(mut self, rows: usize) -> Self {
        self.rows_per_call = rows.max(1);
        self
    }

    /// Replaces the instance before every call: an operator that keeps nothing outside its state behaves the same.
    #[must_use]
    pub fn replacing_instances(mut self) -> Self {
        self.replacing = true;
        self
    }

    /// What the operator tells the host of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Feeds a record.
    pub fn send(&mut self, record: Record) {
        self.send_all([record]);
    }

    /// Feeds records, in as few calls as the host's rules and [`Harness::rows_per_call`] allow.
    pub fn send_all(&mut self, records: impl IntoIterator<Item = Record>) {
        let mut call: Vec<Given> = Vec::new();
        let mut input = 0;
        for record in records {
            let cells = match record.taken_out(&self.description) {
                Ok(cells) => cells,
                Err(reason) => {
                    self.put_aside(record.key.unwrap_or_default(), record.time, reason);
                    continue;
                }
            };
            let other_input = input != record.input;
            input = record.input;
            let given = Given::Record(record, cells);
            if other_input || self.must_cut(&call, &given) {
                self.run(std::mem::take(&mut call));
            }
            call.push(given);
        }
        self.run(call);
    }

    /// Moves the watermark, and fires the event-time timers that are due.
    pub fn advance_watermark(&mut self, to: Timestamp) {
        let before = self.world.borrow().watermark;
        assert!(before.is_none_or(|before| before <= to), "the watermark only moves forward");
        self.world.borrow_mut().watermark = Some(to);
        self.fire(Clock::EventTime, to);
    }

    /// Moves the clock, and fires the processing-time timers that are due.
    pub fn advance_clock(&mut self, to: Timestamp) {
        assert!(self.world.borrow().now <= to, "the clock only moves forward");
        self.world.borrow_mut().now = to;
        self.fire(Clock::ProcessingTime, to);
    }

    /// Ends the input: nothing is expected any more, and every event-time timer fires.
    pub fn end(&mut self) {
        self.advance_watermark(Timestamp::MAX);
    }

    /// All that was sent or passed so far, in order.
    pub fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// All that was sent or passed so far, and forgets it.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    /// The values sent to an output so far, in order: `main`, or a side output's name.
    pub fn rows(&self, port: &str) -> Vec<Value> {
        assert!(self.description.outputs.iter().any(|output| output.name == port), "there is no output `{port}`");
        self.sent.iter().filter(|sent| sent.port == port).map(|sent| sent.value.clone()).collect()
    }

    /// The rows that could not be processed, each with its reason.
    pub fn dead(&self) -> &[Dead] {
        &self.dead
    }

    /// What a key has in a state, as seen at the watermark: a value; a list as an array; a map as an object of its entries' names.
    /// Text that is JSON is shown as what it says.
    pub fn state(&self, name: &str, key: impl KeyValue) -> Option<Value> {
        let world = self.world.borrow();
        let state = self.state_id(name);
        let mut bytes = Vec::new();
        if self.description.states[state as usize].kind != types::StateKind::BroadcastMap {
            key.encode(&mut bytes);
        }
        let sight = world.sight(Timestamp::MIN);
        let show = |cell: &Cell| match cell {
            Cell::Text(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            other => other.to_json(),
        };
        let entries = || world.store.scan(state, &bytes, None, sight);
        match self.description.states[state as usize].kind {
            types::StateKind::ValueState => world.store.peek(state, &bytes, b"", sight).as_ref().map(show),
            types::StateKind::ListState => {
                let items: Vec<Value> = entries().iter().map(|(_, cell)| show(cell)).collect();
                (!items.is_empty()).then_some(Value::Array(items))
            }
            types::StateKind::MapState | types::StateKind::BroadcastMap => {
                let named = |(entry, cell): &(Vec<u8>, Cell)| (Key::of(entry).to_string(), show(cell));
                let entries: serde_json::Map<_, _> = entries().iter().map(named).collect();
                (!entries.is_empty()).then_some(Value::Object(entries))
            }
        }
    }

    /// How many keys have anything in a state, expired or not.
    pub fn keys_in(&self, name: &str) -> usize {
        self.world.borrow().store.keys(self.state_id(name)).len()
    }

    /// The timers that wait, in time order.
    pub fn timers(&self) -> Vec<PendingTimer> {
        let pending = self.timers.iter().map(|((key, timer, tag), set)| PendingTimer {
            name: self.description.timers[*timer as usize].name.clone(),
            key: Key::of(key).to_string(),
            tag: tag.clone(),
            at: set.at,
            payload: set.payload.clone(),
        });
        let mut pending: Vec<_> = pending.collect();
        pending.sort_by_key(|timer| timer.at);
        pending
    }

    /// A counter's sum or a gauge's last value.
    pub fn metric(&self, name: &str) -> f64 {
        self.find_metric(name).0
    }

    /// What a histogram has observed.
    pub fn observed(&self, name: &str) -> Vec<f64> {
        self.find_metric(name).1
    }

    /// The lines logged so far.
    pub fn log(&self) -> Vec<(Level, String)> {
        self.world.borrow().lines.clone()
    }

    /// Feeds a record by a broadcast input: it may write broadcast maps.
    pub fn send_broadcast(&mut self, record: Record) {
        self.world.borrow_mut().broadcast = true;
        self.send(record);
        self.world.borrow_mut().broadcast = false;
    }

    /// Has a state's values of an older version migrated.
    ///
    /// # Errors
    /// The operator's reason why one cannot be.
    pub fn migrate<Old: crate::state::Stored>(
        &self,
        state: &str,
        from_version: u32,
        old: &[Old],
    ) -> Result<Vec<Option<Value>>, String> {
        let old = crate::state::column_of(old.iter()).map_err(|bad| bad.reason().to_owned())?;
        let new = enter(&self.world, || self.instance.migrate(self.state_id(state), from_version, &old))?;
        Ok(Cell::all(&new).iter().map(|cell| cell.as_ref().map(Cell::to_json)).collect())
    }

    /// Replaces the instance, as the host may do between any two calls.
    pub fn replace_instance(&mut self) {
        match open(&self.world, &self.config) {
            Ok(instance) => self.instance = instance,
            Err(reason) => panic!("the operator opened once, but not again: {reason}"),
        }
    }

    fn find_metric(&self, name: &str) -> (f64, Vec<f64>) {
        let world = self.world.borrow();
        let found = world.metrics.iter().find(|(known, ..)| known == name);
        let (_, value, values) = found.unwrap_or_else(|| panic!("there is no metric `{name}`"));
        (*value, values.clone())
    }

    fn state_id(&self, name: &str) -> u32 {
        let states = &self.description.states;
        let place = states.iter().position(|state| state.name == name);
        place.unwrap_or_else(|| panic!("there is no state `{name}`")) as u32
    }

    pub(super) fn put_aside(&mut self, key: Vec<u8>, time: Timestamp, reason: String) {
        self.dead.push(Dead { key, time, reason });
    }
}

fn open<P: Processor>(world: &Rc<RefCell<World>>, config: &str) -> Result<Instance<P>, String> {
    let context = types::Context { config: config.to_owned(), operator: "tested".to_owned(), task: 0, parallelism: 1 };
    enter(world, || Instance::open(context))
}
