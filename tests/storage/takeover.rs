//! Two runs of one job with the same storage: the later one takes over, and the earlier one ends, says why, and has broken nothing.

use crate::rig::{Job, newest, rides, until};

#[test]
fn later_run_takes_over_and_the_earlier_one_ends() {
    let place = tempfile::tempdir().expect("a scratch folder");
    let storage = place.path().to_str().expect("a plain path");
    let job = |name: &str, sink: &str| {
        let text = rides("rate: 2000/s\n    records: 12000", "every: 100ms", sink);
        Job::new(&text).with(&["--checkpoint-storage", storage, "--data-dir", name])
    };
    let stdout = "  rows: { input: per-minute, connector: stdout }";
    let checkpoints = place.path().join("rides/checkpoints");
    let (earlier, later) = (job("earlier", stdout), job("later", stdout));
    let first = earlier.start();
    until("the earlier run has decided something", || (newest(&checkpoints) >= 3).then_some(()));
    let mut second = later.start();
    second.hears("goes on from checkpoint");
    let (succeeded, said) = first.end();
    assert!(!succeeded && said.contains("was decided by another run of this job"), "{said}");
    let (succeeded, said) = second.end();
    assert!(succeeded, "{said}");
    assert!(later.finish().contains("read to its end by an earlier run"));
}
