//! Where checkpoints lie and what may happen to them: a real S3 server that stops, answers that are lost, a full disk, damaged
//! files, two runs of one job.

mod damage; // a file of a checkpoint is not what was stored
mod object_store; // the contract, and whole jobs
mod outage; // storage that refuses for a while
mod rig; // jobs that run beside the test
mod takeover; // two runs of one job
