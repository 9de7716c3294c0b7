//! What the stand-in host knows while a call runs: state, the call's rows, log lines, metrics.
//! The harness owns it; the imports find it through the thread.

use super::store::{Sight, Store};
use crate::Timestamp;
use crate::log::Level;
use std::cell::RefCell;
use std::rc::Rc;

pub(super) struct World {
    pub(super) store: Store,
    pub(super) rows: Vec<CallRow>,
    pub(super) broadcast: bool,
    pub(super) watermark: Option<Timestamp>,
    pub(super) now: Timestamp,
    pub(super) lines: Vec<(Level, String)>,
    /// Name, sum or last value, values of a histogram.
    pub(super) metrics: Vec<(String, f64, Vec<f64>)>,
}

/// A row of the running call.
#[derive(Clone)]
pub(super) struct CallRow {
    pub(super) key: Option<Vec<u8>>,
    pub(super) time: Timestamp,
}

impl World {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            rows: Vec::new(),
            broadcast: false,
            watermark: None,
            now: 0,
            lines: Vec::new(),
            metrics: Vec::new(),
        }
    }

    pub(super) fn sight(&self, time: Timestamp) -> Sight {
        Sight { time, watermark: self.watermark, now: self.now }
    }

    /// The key of a row of the running call, and how it sees state.
    pub(super) fn row(&self, row: u32) -> (Vec<u8>, Sight) {
        let row = self.rows.get(row as usize).unwrap_or_else(|| panic!("row {row} is not in this call"));
        let key = row.key.clone().expect("state needs a key: the record was sent without one");
        (key, self.sight(row.time))
    }

    pub(super) fn metric(&mut self, name: &str) -> u32 {
        let place = self.metrics.iter().position(|(known, ..)| known == name).unwrap_or_else(|| {
            self.metrics.push((name.to_owned(), 0.0, Vec::new()));
            self.metrics.len() - 1
        });
        place as u32
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<RefCell<World>>>> = const { RefCell::new(None) };
}

/// Runs `call` with this world behind the imports.
pub(super) fn enter<R>(world: &Rc<RefCell<World>>, call: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(Some(Rc::clone(world)));
    let answer = call();
    CURRENT.set(before);
    answer
}

/// The world of the running call; none outside of one.
pub(super) fn with_current<R>(look: impl FnOnce(&mut World) -> R) -> Option<R> {
    CURRENT.with_borrow(|current| current.as_ref().map(|world| look(&mut world.borrow_mut())))
}
