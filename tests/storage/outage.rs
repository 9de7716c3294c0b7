//! Storage that refuses for a while costs the checkpoints of that while. The job says so and goes on, and its output is whole.

use crate::rig::{Job, Running, files, newest, rides, said, until};
use millstream_tests::object_server::ObjectServer;
use millstream_tests::program::millstream;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROWS: &str = "  rows: { input: per-minute, connector: file, path: out }";

/// Long enough for anything here to happen while it runs.
const STEADY: &str = "rate: 2000/s\n    records: 16000";

fn straight() -> Job {
    let job = Job::new(&rides("records: 16000", "every: 1s", ROWS));
    job.finish();
    job
}

/// Checkpoints work, then they do not, then they do; the job ends with all its rows.
fn survives(mut running: Running, checkpoints: &Path, refuse: impl FnOnce(), relent: impl FnOnce()) -> String {
    // The first number may be a claim.
    until("checkpoints are decided", || (newest(checkpoints) >= 3).then_some(()));
    refuse();
    running.hears("checkpoint abandoned, the job goes on");
    relent();
    let before = newest(checkpoints);
    until("another checkpoint is decided", || (newest(checkpoints) > before).then_some(()));
    let (succeeded, said) = running.end();
    assert!(succeeded, "{said}");
    said
}

#[test]
fn server_that_stops_in_the_midst_costs_checkpoints_and_not_the_job() {
    let server = std::cell::RefCell::new(ObjectServer::start());
    let text = rides(STEADY, "every: 100ms, timeout: 5s", ROWS);
    let settings = server.borrow().settings();
    let job = Job::new(&text).with(&["--checkpoint-storage", "s3://millstream"]).within(settings);
    let checkpoints = server.borrow().bucket().join("rides/checkpoints");
    let (stop, resume) = (|| server.borrow_mut().stop(), || server.borrow_mut().resume());
    survives(job.start(), &checkpoints, stop, resume);
    assert_eq!(job.rows("out"), straight().rows("out"));
}

#[test]
fn folder_that_cannot_be_written_costs_checkpoints_and_not_the_job() {
    let job = Job::new(&rides(STEADY, "every: 100ms", ROWS));
    let checkpoints = job.path(".millstream/rides/checkpoints");
    let (state, aside) = (checkpoints.join("state"), checkpoints.join("aside"));
    let refuse = || {
        fs::rename(&state, &aside).expect("it is there");
        fs::write(&state, "a file where a folder must be").expect("writable");
    };
    let relent = || {
        fs::remove_file(&state).expect("it is there");
        fs::rename(&aside, &state).expect("it is there");
    };
    let said = survives(job.start(), &checkpoints, refuse, relent);
    assert!(said.contains("/checkpoints/state"), "the place is named: {said}");
    assert_eq!(job.rows("out"), straight().rows("out"));
}

/// A disk of its own, small; none where this process may not mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir(folder).expect("writable");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(folder.to_path_buf()))
    }

    fn fill(&self) {
        let filled = fs::write(self.0.join("ballast"), vec![1; 8 << 20]);
        assert!(filled.is_err(), "the disk is full");
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("ballast")).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The folder goes with the test's own; a disk that stays mounted would show as a failure there.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn full_disk_costs_checkpoints_and_not_the_job() {
    let place = tempfile::tempdir().expect("a scratch folder");
    let folder = place.path().join("disk");
    let storage = folder.to_str().expect("a plain path");
    let job = Job::new(&rides(STEADY, "every: 100ms", ROWS)).with(&["--checkpoint-storage", storage]);
    let checkpoints = folder.join("rides/checkpoints");
    if let Some(disk) = SmallDisk::mount(&folder) {
        let said = survives(job.start(), &checkpoints, || disk.fill(), || disk.empty());
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(job.rows("out"), straight().rows("out"));
        return;
    }
    // Without the right to mount, a limit on the size of files refuses the same writes; the sink must then not need any.
    let text = rides(STEADY, "every: 100ms", "  rows: { input: per-minute, connector: stdout }");
    let job = Job::new(&text).with(&["--checkpoint-storage", storage]);
    let command = job.command();
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    // The signal that comes with the limit would end the process.
    let mut limited = Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(command.get_program()).args(arguments);
    limited.current_dir(command.get_current_dir().expect("it is set"));
    let running = Running::start(&mut limited);
    let id = running.id();
    let limit = |soft: &str| {
        let limited =
            Command::new("prlimit").args(["--pid", &id.to_string(), &format!("--fsize={soft}:unlimited")]).status();
        assert!(limited.expect("prlimit is there").success());
    };
    let said = survives(running, &checkpoints, || limit("0"), || limit("unlimited"));
    assert!(said.contains("File too large"), "{said}");
}

/// Where nobody can write, whoever it is.
const NOWHERE: &str = "/proc/savepoint";

#[test]
fn savepoint_that_cannot_be_written_leaves_the_job_running_if_that_was_seen_before_and_else_says_where_it_goes_on() {
    let job = Job::new(&rides(STEADY, "every: 100ms", ROWS));
    let running = job.start();
    let checkpoints = job.path(".millstream/rides/checkpoints");
    until("checkpoints are decided", || (newest(&checkpoints) >= 3).then_some(()));
    let ask = |to: &str| {
        let asked = millstream().current_dir(job.path("")).args(["savepoint", "rides", "--stop", "--to", to]).output();
        said(&asked.expect("the program starts"))
    };
    let told = ask(NOWHERE);
    assert!(told.contains(&format!("`{NOWHERE}` takes no savepoint, the job runs on")), "{told}");
    // Its last file cannot be written, which no look at the place tells.
    fs::create_dir_all(job.path("saved/savepoint.json")).expect("writable");
    let told = ask("saved");
    let (stopped, heard) = running.end();
    assert!(stopped, "{heard}");
    let last = newest(&checkpoints);
    let expected = format!("job `rides` has stopped with checkpoint {last}, from which `millstream run` goes on");
    assert!(told.contains("/saved` cannot be written") && told.contains(&expected), "{told}");
    let left: Vec<_> = files(&job.path("saved")).into_keys().collect();
    assert!(left.is_empty(), "what was written of it is removed: {left:?}");
    job.finish();
    assert_eq!(job.rows("out"), straight().rows("out"));
}
