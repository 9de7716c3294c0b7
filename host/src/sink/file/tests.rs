//! The contract on both forms of target, and what only files have: names, places, left-overs, earlier output.

use super::*;
use crate::sink::contract::{self, Target};
use crate::sink::encode::Format;
use dataflow::checkpoint::Payload;
use std::fs;
use tempfile::TempDir;

struct Folder {
    dir: TempDir,
    /// Path within `dir`.
    path: &'static str,
    on_existing: Option<OnExisting>,
    format: Format,
}

impl Folder {
    fn with(path: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, path, on_existing: None, format: Format::Ndjson }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(self.path)
    }

    /// Names that a reader lists, and with a dot those it does not.
    fn names(&self) -> Vec<String> {
        let folder = if is_one_file(&self.path()) { self.dir.path().to_path_buf() } else { self.path() };
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn shown(&self) -> String {
        let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        if is_one_file(&self.path()) {
            return text(self.path());
        }
        self.names().iter().filter(|name| !name.starts_with('.')).map(|name| text(self.path().join(name))).collect()
    }

    fn run(&self, fresh: bool, checkpoint: u64, id: i64) -> anyhow::Result<Payload> {
        let mut sink = self.factory().open(&contract::input(fresh))?;
        sink.write(&contract::batch(id..id + 1))?;
        let payload = sink.stage(CheckpointId(checkpoint))?;
        sink.apply(CheckpointId(checkpoint), &payload)?;
        Ok(payload)
    }
}

impl Target for Folder {
    fn factory(&self) -> Box<dyn SinkFactory> {
        let rows = encode::Settings { format: self.format, ..encode::Settings::default() };
        Box::new(Factory { settings: Settings { path: self.path(), rows, on_existing: self.on_existing } })
    }

    fn visible(&self) -> Vec<String> {
        self.shown().lines().map(str::to_string).collect()
    }
}

#[test]
fn directory_keeps_the_contract() {
    contract::check_sink(|| Folder::with("late/"));
}

#[test]
fn single_file_keeps_the_contract() {
    contract::check_sink(|| Folder::with("late.ndjson"));
}

#[test]
fn each_checkpoint_with_rows_makes_one_file_and_nothing_is_left_over() {
    let folder = Folder::with("late");
    let mut sink = folder.factory().open(&contract::input(true)).unwrap();
    for (checkpoint, ids) in [(1, 1..3), (2, 3..3), (3, 3..4)] {
        sink.write(&contract::batch(ids)).unwrap();
        let payload = sink.stage(CheckpointId(checkpoint)).unwrap();
        sink.apply(CheckpointId(checkpoint), &payload).unwrap();
    }
    assert_eq!(folder.names(), [".applied-out", "out-00000001.ndjson", "out-00000003.ndjson"]);
}

#[test]
fn half_appended_checkpoint_is_made_whole_by_applying_it_again() {
    let folder = Folder::with("out.ndjson");
    folder.run(true, 1, 1).unwrap();
    let mut sink = folder.factory().open(&contract::input(false)).unwrap();
    sink.write(&contract::batch(2..5)).unwrap();
    let payload = sink.stage(CheckpointId(2)).unwrap();
    drop(sink);
    fs::write(folder.path(), format!("{}\n{}", contract::row(1), &contract::row(2)[..9])).unwrap();
    let mut sink = folder.factory().open(&contract::input(false)).unwrap();
    sink.apply(CheckpointId(2), &payload).unwrap();
    assert_eq!(folder.visible(), (1..5).map(contract::row).collect::<Vec<_>>());
    assert_eq!(folder.names(), [".out.ndjson.applied", "out.ndjson"]);
}

#[test]
fn single_csv_file_has_one_header_and_each_file_of_a_directory_its_own() {
    for (path, expected) in
        [("a/out.csv", "city,n\ncity-1,1\ncity-2,2\n"), ("a/", "city,n\ncity-1,1\ncity,n\ncity-2,2\n")]
    {
        let folder = Folder { format: Format::Csv, ..Folder::with(path) };
        folder.run(true, 1, 1).unwrap();
        folder.run(false, 2, 2).unwrap();
        assert_eq!(folder.shown(), expected);
    }
}

#[test]
fn output_that_is_not_its_own_is_refused_until_the_user_chooses() {
    for (path, foreign) in [("late", "late/out-00000007.ndjson"), ("late.ndjson", "late.ndjson")] {
        let mut folder = Folder::with(path);
        fs::create_dir_all(folder.dir.path().join("late")).unwrap();
        fs::write(folder.dir.path().join(foreign), "theirs\n").unwrap();
        let error = folder.run(true, 1, 1).unwrap_err().to_string();
        assert!(error.contains("remove it, or write somewhere else"), "{error}");
        folder.on_existing = Some(OnExisting::Append);
        folder.run(true, 1, 1).unwrap();
        folder.run(false, 2, 2).unwrap();
        assert_eq!(folder.visible(), ["theirs".to_string(), contract::row(1), contract::row(2)]);
        folder.on_existing = Some(OnExisting::Fail);
        assert!(folder.run(true, 1, 1).is_err());
        folder.on_existing = Some(OnExisting::Replace);
        folder.run(true, 1, 3).unwrap();
        assert_eq!(folder.visible(), [contract::row(3)]);
    }
}

#[test]
fn directory_of_another_job_is_refused_when_going_on() {
    let folder = Folder::with("late");
    folder.run(true, 1, 1).unwrap();
    let other = SinkInput { job: "payments".into(), ..contract::input(false) };
    let Err(error) = folder.factory().open(&other) else { panic!("opened") };
    assert!(error.to_string().contains("job `rides`"), "{error}");
}

#[test]
fn job_that_is_behind_its_output_is_stopped_rather_than_swallowed() {
    for path in ["late", "late.ndjson"] {
        let folder = Folder::with(path);
        folder.run(true, 5, 1).unwrap();
        assert!(folder.run(false, 5, 2).is_err());
        assert!(folder.run(false, 4, 2).is_err());
        folder.run(false, 6, 2).unwrap();
    }
}

#[test]
fn files_that_a_reader_took_away_do_not_stop_recovery() {
    let folder = Folder::with("late");
    let payload = folder.run(true, 1, 1).unwrap();
    fs::remove_file(folder.path().join("out-00000001.ndjson")).unwrap();
    let mut sink = folder.factory().open(&contract::input(false)).unwrap();
    sink.apply(CheckpointId(1), &payload).unwrap();
    assert_eq!(sink.applied().unwrap(), Some(CheckpointId(1)));
}
