//! Tests of windows: the worked examples, the rules one by one, and the reference model. All run through
//! the state seam, with operators made anew on it at any point.

mod examples;
mod faults;
mod harness;
mod model;
mod rules;
mod tasks;
