//! The timers of one operator: event time and processing time, in the state, known by the hash of their name so that they
//! outlive a change of their order.

use super::lift::TimerChanges;
use super::riding::CallRows;
use crate::engine::Fault;
use crate::engine::description::{Description, Timer};
use crate::operator::Context;
use crate::state::timers::{Firings, Timers, declarations, reached};
use crate::state::{Call, Cell, Overlay, StateBackend, StateDeclaration, StateNumber};
use dataflow::key::{self, KeyGroup, Keys};
use dataflow::time::{Clock, Timestamp};
use hashbrown::HashMap;
use std::ops::Range;

/// Timers of both clocks; those of a clock that no timer goes by are not there.
pub(super) struct Clocks {
    declared: Vec<Timer>,
    event: Option<Timers>,
    processing: Option<Timers>,
    overlay: Overlay,
    max_parallelism: u16,
    per_key_max: usize,
}

/// The number under which a timer is stored.
fn number(name: &str) -> u32 {
    key::hash(name.as_bytes()) as u32
}

fn used(description: &Description, clock: Clock) -> bool {
    description.timers.iter().any(|timer| timer.clock == clock)
}

/// The states that the timers need.
pub(super) fn states(description: &Description) -> Vec<StateDeclaration> {
    let clocks = [Clock::EventTime, Clock::ProcessingTime].into_iter();
    clocks.filter(|clock| used(description, *clock)).flat_map(declarations).collect()
}

impl Clocks {
    /// In the states numbered `numbers`, as [`states`] has them.
    pub(super) fn new(
        description: &Description,
        mut numbers: &[StateNumber],
        (groups, max_parallelism): (Range<u16>, u16),
        per_key_max: usize,
    ) -> Self {
        let mut take = |clock: Clock| {
            let (mine, rest) = numbers.split_first_chunk::<2>().filter(|_| used(description, clock))?;
            numbers = rest;
            Some(Timers::new(clock, *mine, groups.clone()))
        };
        Self {
            event: take(Clock::EventTime),
            processing: take(Clock::ProcessingTime),
            declared: description.timers.clone(),
            overlay: Overlay::default(),
            max_parallelism,
            per_key_max,
        }
    }

    pub(super) fn open(&mut self, state: &dyn StateBackend) {
        [&mut self.event, &mut self.processing].into_iter().flatten().for_each(|timers| timers.open(state));
    }

    fn of(&mut self, clock: Clock) -> Option<&mut Timers> {
        match clock {
            Clock::EventTime => self.event.as_mut(),
            Clock::ProcessingTime => self.processing.as_mut(),
        }
    }

    /// Timers due on `clock`, at most `limit`, and whether more are. Those of timers that are not declared any more count as
    /// fired.
    pub(super) fn due(&mut self, clock: Clock, limit: usize, context: &mut Context<'_>) -> (Firings, bool) {
        let up_to = reached(clock, context.watermark, context.now);
        let mut firings = Firings::default();
        let Some(timers) = self.of(clock) else { return (firings, false) };
        let more = timers.due(context.state.as_ref(), up_to, limit, &mut firings);
        (firings, more)
    }

    /// When the next timer on processing time is due; it may be somewhat too early.
    pub(super) fn next_clock_timer(&self) -> Option<Timestamp> {
        self.processing.as_ref().and_then(Timers::next_due)
    }

    /// The id of a stored timer; none if it is not declared any more.
    pub(super) fn id(&self, stored: u32) -> Option<u32> {
        self.declared.iter().position(|timer| number(&timer.name) == stored).map(|id| id as u32)
    }

    /// A stored timer's name, for reasons.
    pub(super) fn name(&self, stored: u32) -> &str {
        self.id(stored).map_or("?", |id| &self.declared[id as usize].name)
    }

    /// These firings are done, in the overlay.
    pub(super) fn fired(
        &mut self,
        clock: Clock,
        firings: &Firings,
        which: impl Iterator<Item = usize>,
        context: &Context<'_>,
    ) {
        let timers = match clock {
            Clock::EventTime => self.event.as_mut(),
            Clock::ProcessingTime => self.processing.as_mut(),
        };
        let Some(timers) = timers else { return };
        let mut call = Call {
            backend: context.state.as_ref(),
            overlay: &mut self.overlay,
            watermark: context.watermark,
            now: context.now,
        };
        which.for_each(|firing| timers.fired(&mut call, firings, firing));
    }

    /// Whether no key gets more timers than one call may set.
    pub(super) fn check(&self, rows: CallRows<'_>, changes: &TimerChanges) -> Result<(), Fault> {
        let (Some(keys), true) = (rows.keys, changes.rows.len() > self.per_key_max) else { return Ok(()) };
        let mut per_key: HashMap<u32, usize> = HashMap::new();
        for &row in &changes.rows {
            let count = per_key.entry(keys.of[row as usize]).or_default();
            *count += 1;
            if *count > self.per_key_max {
                return Err(Fault::answer(format!("more than {} timer changes for one key", self.per_key_max)));
            }
        }
        Ok(())
    }

    /// Sets and removes timers, in the overlay.
    pub(super) fn change(&mut self, rows: CallRows<'_>, changes: &TimerChanges, context: &Context<'_>) {
        let Some(keys) = rows.keys else { return };
        for (index, &row) in changes.rows.iter().enumerate() {
            let declared = &self.declared[changes.timer_of[index] as usize];
            let timers = match declared.clock {
                Clock::EventTime => self.event.as_mut(),
                Clock::ProcessingTime => self.processing.as_mut(),
            };
            let Some(timers) = timers else { continue };
            let mut call = Call {
                backend: context.state.as_ref(),
                overlay: &mut self.overlay,
                watermark: context.watermark,
                now: context.now,
            };
            let cell = cell(keys, row, rows.timestamps, self.max_parallelism);
            let name = (number(&declared.name), changes.tags.get(index));
            match changes.at[index] {
                Some(at) => timers.set(&mut call, &cell, name, at, changes.payloads.get(index)),
                None => timers.remove(&mut call, &cell, name),
            }
        }
    }

    /// Makes it real.
    pub(super) fn commit(&mut self, state: &mut dyn StateBackend) {
        if !self.overlay.is_empty() {
            self.overlay.commit(state);
        }
    }
}

fn cell<'a>(keys: &'a Keys, row: u32, timestamps: &[Timestamp], max_parallelism: u16) -> Cell<'a> {
    let key = keys.of[row as usize] as usize;
    Cell {
        group: KeyGroup::of(keys.hashes[key], max_parallelism),
        key: keys.distinct.get(key),
        timestamp: timestamps[row as usize],
    }
}

/// Whether two timers would be stored under one number.
pub(super) fn clash(description: &Description) -> Option<(&str, &str)> {
    let timers = &description.timers;
    let pairs = timers.iter().enumerate().flat_map(|(at, one)| timers[at + 1..].iter().map(move |other| (one, other)));
    pairs.map(|(one, other)| (one.name.as_str(), other.name.as_str())).find(|(one, other)| number(one) == number(other))
}
