//! Reference models: what windows, timers and state with a time to live must do, told once more in the plainest way, with
//! nothing in mind but being right. Tests of the real ones, which keep rows in a state and are restored, compare with them.
//! Nothing else calls them.

mod expiry;
mod timers;
mod windows;

pub use expiry::{At, Kept, Lifetime};
pub use timers::{Fired, Timers};
pub use windows::{Judged, Pane, Windows};
