//! Timers on both clocks against the reference model.

use super::owners::{Kind, Owners, kinds, memory};
use crate::state::timers::{Firings, Timers, declarations};
use crate::state::{Call, Cell, Overlay, StateNumber};
use dataflow::key::KeyGroup;
use dataflow::model::{self, Fired};
use dataflow::time::{Clock, END, START};
use proptest::prelude::*;

/// Key groups; keys lie in different ones, some together.
const GROUPS: u16 = 4;

const STATES: [StateNumber; 2] = [StateNumber(1), StateNumber(2)];

/// The timer's number: tags tell timers of a key apart.
const TIMER: u32 = 7;

struct Subject {
    clock: Clock,
    owners: Owners,
    /// One for each task.
    timers: Vec<Timers>,
    watermark: i64,
    now: i64,
}

impl Subject {
    fn new(kind: Kind, clock: Clock) -> Self {
        let owners = Owners::new(kind, declarations(clock).into(), GROUPS);
        assert_eq!(owners.numbers(), STATES);
        let mut subject = Self { clock, owners, timers: vec![], watermark: START, now: START };
        subject.open();
        subject
    }

    /// New operators on the state as it is.
    fn open(&mut self) {
        self.timers.clear();
        for task in 0..self.owners.parallelism() {
            let mut timers = Timers::new(self.clock, STATES, self.owners.range(task));
            timers.open(&**self.owners.backend(task));
            self.timers.push(timers);
        }
    }

    fn restore(&mut self, tasks: usize) {
        self.owners.restore(tasks);
        self.open();
    }

    fn call(&mut self, task: usize, act: impl FnOnce(&mut Timers, &mut Call<'_>)) {
        let mut overlay = Overlay::default();
        let (watermark, now, backend) = (self.watermark, self.now, self.owners.backend(task));
        let mut call = Call { backend: &**backend, overlay: &mut overlay, watermark, now };
        act(&mut self.timers[task], &mut call);
        overlay.commit(&mut **backend);
    }

    fn set(&mut self, key: u8, tag: u8, at: i64, payload: &[u8]) {
        let task = self.owners.owner(group(key));
        self.call(task, |timers, call| timers.set(call, &cell(&key), (TIMER, &[tag]), at, payload));
    }

    fn remove(&mut self, key: u8, tag: u8) {
        let task = self.owners.owner(group(key));
        self.call(task, |timers, call| timers.remove(call, &cell(&key), (TIMER, &[tag])));
    }

    /// The subject's clock moves to `to`. Processing time reaches its end when event time does.
    fn move_to(&mut self, to: i64) {
        match self.clock {
            Clock::ProcessingTime if to != END => self.now = to,
            _ => self.watermark = to,
        }
    }

    /// Fires a slice of a task.
    fn slice(&mut self, task: usize, limit: usize) -> (Vec<Fired>, bool) {
        let reached = crate::state::timers::reached(self.clock, self.watermark, self.now);
        let mut firings = Firings::default();
        let more = self.timers[task].due(&**self.owners.backend(task), reached, limit, &mut firings);
        self.call(task, |timers, call| (0..firings.len()).for_each(|at| timers.fired(call, &firings, at)));
        let fired = (0..firings.len()).map(|at| Fired {
            due: firings.at[at],
            key: firings.keys.get(at).to_vec(),
            tag: firings.tags.get(at).to_vec(),
            payload: firings.payloads.get(at).to_vec(),
        });
        (fired.collect(), more)
    }

    /// All that is due in a task, slice by slice.
    fn fire(&mut self, task: usize, limit: usize) -> Vec<Fired> {
        let mut all = vec![];
        loop {
            let (slice, more) = self.slice(task, limit);
            assert!(slice.len() <= limit && (!more || !slice.is_empty()), "a slice is neither too long nor empty");
            let keys: std::collections::BTreeSet<_> = slice.iter().map(|fired| &fired.key).collect();
            assert_eq!(keys.len(), slice.len(), "no key fires twice in a slice");
            all.extend(slice);
            if !more {
                return all;
            }
        }
    }

    fn next_due(&self) -> i64 {
        self.timers.iter().filter_map(Timers::next_due).min().unwrap_or(END)
    }
}

fn group(key: u8) -> KeyGroup {
    KeyGroup(u16::from(key) % GROUPS)
}

fn cell(key: &u8) -> Cell<'_> {
    Cell { group: group(*key), key: std::slice::from_ref(key), timestamp: 0 }
}

#[derive(Debug, Clone)]
enum Step {
    Set(u8, u8, i64),
    Remove(u8, u8),
    Advance(i64),
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..6, 0u8..3, -20i64..60).prop_map(|(key, tag, at)| Step::Set(key, tag, at)),
        1 => (0u8..6, 0u8..3).prop_map(|(key, tag)| Step::Remove(key, tag)),
        2 => (-20i64..60).prop_map(Step::Advance),
        1 => (1..=usize::from(GROUPS)).prop_map(Step::Restore),
    ]
}

fn check(kind: Kind, clock: Clock, steps: &[Step], limit: usize) {
    let (mut subject, mut model) = (Subject::new(kind, clock), model::Timers::default());
    let mut reached = START;
    for (number, step) in
        steps.iter().chain([&Step::Advance(END), &Step::Set(1, 1, 70), &Step::Advance(END)]).enumerate()
    {
        match *step {
            Step::Set(key, tag, at) => {
                let payload = number.to_string();
                subject.set(key, tag, at, payload.as_bytes());
                model.set(&[key], &[tag], at, payload.as_bytes());
            }
            Step::Remove(key, tag) => {
                subject.remove(key, tag);
                model.remove(&[key], &[tag]);
            }
            Step::Restore(tasks) => subject.restore(tasks),
            Step::Advance(to) => {
                reached = reached.max(to);
                subject.move_to(reached);
                let expected = model.advance(reached);
                for task in 0..subject.owners.parallelism() {
                    let is_own = |fired: &&Fired| subject.owners.owner(group(fired.key[0])) == task;
                    let own: Vec<_> = expected.iter().filter(is_own).cloned().collect();
                    assert_eq!(subject.fire(task, limit), own);
                }
            }
        }
        assert!(subject.next_due() <= model.next().unwrap_or(END), "never too late");
    }
    assert_eq!(subject.owners.rows(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn timers_fire_once_in_time_order_as_the_model_says_wherever_they_are_restored(
        steps in prop::collection::vec(step(), 1..60), limit in 1usize..6,
    ) {
        for kind in kinds() {
            for clock in [Clock::EventTime, Clock::ProcessingTime] {
                check(kind, clock, &steps, limit);
            }
        }
    }
}

fn subject_at(watermark: i64) -> Subject {
    let mut subject = Subject::new(memory, Clock::EventTime);
    subject.move_to(watermark);
    subject
}

fn fired(due: i64, tag: u8) -> Fired {
    Fired { due, key: vec![1], tag: vec![tag], payload: vec![] }
}

#[test]
fn timer_set_while_timers_fire_waits_for_the_next_advance_even_after_a_restore() {
    let mut subject = subject_at(0);
    subject.set(1, b'a', 10, b"");
    subject.move_to(20);
    assert_eq!(subject.slice(0, 8), (vec![fired(10, b'a')], false));
    subject.set(1, b'b', 15, b"");
    assert_eq!(subject.slice(0, 8).0, []);
    subject.restore(1);
    assert_eq!(subject.slice(0, 8).0, []);
    subject.move_to(21);
    assert_eq!(subject.slice(0, 8).0, [fired(15, b'b')]);
    subject.move_to(END);
    assert_eq!(subject.slice(0, 8), (vec![], false));
}

#[test]
fn timer_set_at_the_end_of_event_time_never_fires_and_one_set_for_it_before_does() {
    let mut subject = subject_at(0);
    subject.set(1, b'a', END, b"");
    subject.move_to(END - 1);
    assert_eq!(subject.slice(0, 8).0, []);
    subject.move_to(END);
    assert_eq!(subject.slice(0, 8).0, [fired(END, b'a')]);
    subject.set(1, b'a', 5, b"");
    assert_eq!(subject.slice(0, 8).0, []);
    assert_eq!(subject.timers[0].next_due(), None);
}
