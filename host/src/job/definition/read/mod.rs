//! From the text of a job file to a `Definition`: one file here per kind of node.

mod job;
mod operator;
mod sink;
mod source;

pub(super) use job::job;
