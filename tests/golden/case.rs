//! A case is a job file with a folder of expected rows beside it, in `examples` or in `cases` here:
//!
//! ```text
//! <folder>/<job>.yaml                             what runs, from a copy of the folder
//! <folder>/expected/<job>/<file>.ndjson           rows of the file sink that writes out/<file>.ndjson, in order
//! <folder>/expected/<job>/<db>.<table>.ndjson     rows of a table of out/<db>, sorted
//! <folder>/expected/<job>/dead-letters.ndjson     dead letters, in order, with the fields that the expected rows name
//! ```
//!
//! A job with components is two cases: as `millstream` runs it, and with native twins of the components (`src/bin/native`).
//!
//! `# exact` in the job file's first lines: every row comes out the same however often the job crashes and in how many tasks. All
//! other cases compare settled rows then: sorted, without `pane`, which says how a row came about.

use millstream_tests::program::{millstream, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// How a job names a component of `tests/guests`.
const TEST_GUESTS: &str = "component: guests/";

/// The one component without a native twin: those have one input, which has a key.
const WITHOUT_TWIN: &str = "component: guests/limits";

/// One job and what it must give.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    folder: PathBuf,
    job: String,
    /// With native twins of its components.
    pub(crate) native: bool,
}

/// A copy of a case's folder in which it runs.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    job: String,
    native: bool,
    /// The job file, without other keys.
    text: String,
}

/// A second data directory.
const ELSEWHERE: &str = "elsewhere";

/// Rows by the name of their expected file.
pub(crate) type Rows = BTreeMap<String, Vec<Value>>;

/// Every case of the tree; the examples are cases too.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for home in [root().join("examples"), root().join("tests/golden/cases")] {
        for folder in
            fs::read_dir(&home).expect("the folder of cases is there").map(|entry| entry.expect("readable").path())
        {
            let Ok(jobs) = fs::read_dir(folder.join("expected")) else { continue };
            for job in jobs.map(|entry| entry.expect("readable").file_name().into_string().expect("a plain name")) {
                let name = format!("{}/{job}", folder.file_name().expect("a folder has a name").to_string_lossy());
                let case = Case { name, folder: folder.clone(), job, native: false };
                if case.text().contains("component:") && !case.text().contains(WITHOUT_TWIN) {
                    cases.push(Case { name: format!("{}, native", case.name), native: true, ..case.clone() });
                }
                cases.push(case);
            }
        }
    }
    assert!(cases.iter().filter(|case| !case.native).count() > 5, "the cases are found");
    assert!(cases.iter().filter(|case| case.native).count() > 1, "and those with components");
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

impl Case {
    /// Whether every row comes out the same whatever happens.
    pub(crate) fn is_exact(&self) -> bool {
        self.text().lines().take(5).any(|line| line.trim() == "# exact")
    }

    /// Whether a crash may change the rows: some sink promises less than exactly once.
    pub(crate) fn may_repeat(&self) -> bool {
        self.text().contains("mode: add") && self.text().contains("immediate: true")
    }

    /// A copy to run in. `keys`, a line each, take the place of the job's own.
    pub(crate) fn stage(&self, keys: &str) -> Stage {
        let folder = tempfile::tempdir().expect("a scratch folder");
        copy_data(&self.folder, folder.path());
        let guests = format!("component: {}/", root().join("tests/guests").display());
        let mut text = self.text().replace(TEST_GUESTS, &guests);
        for project in fs::read_dir(&self.folder).expect("readable").map(|entry| entry.expect("readable").path()) {
            if project.join("Cargo.toml").exists() {
                let name = project.file_name().expect("a folder has a name").to_string_lossy().into_owned();
                text = text.replace(&format!("component: {name}\n"), &format!("component: {}\n", project.display()));
                text = text.replace(&format!("component: {name} "), &format!("component: {} ", project.display()));
            }
        }
        let stage = Stage { folder, job: self.job.clone(), native: self.native, text };
        stage.write(keys);
        stage
    }

    /// What must come out.
    pub(crate) fn expected(&self) -> Rows {
        let folder = self.folder.join("expected").join(&self.job);
        let files = fs::read_dir(&folder).expect("readable").map(|entry| entry.expect("readable").path());
        let rows = |file: PathBuf| {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            let mut rows = lines(&file);
            if name.contains(".db.") {
                rows.sort_by_key(Value::to_string);
            }
            (name, rows)
        };
        files.map(rows).collect()
    }

    /// The names of a section's nodes.
    pub(crate) fn names(&self, section: &str) -> Vec<String> {
        let text = self.text();
        let inside = text.lines().skip_while(|line| *line != format!("{section}:")).skip(1);
        let nodes = inside.take_while(|line| line.starts_with(' ') || line.is_empty()).filter_map(|line| {
            let name = line.strip_prefix("  ")?.split_once(':')?.0;
            (!name.starts_with([' ', '#'])).then(|| name.to_string())
        });
        nodes.collect()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.folder.join(format!("{}.yaml", self.job))).expect("an expected folder has its job file")
    }
}

impl Stage {
    /// Writes the job file with `keys` in the place of its own; runs that follow go on with it.
    pub(crate) fn write(&self, keys: &str) {
        let replaced: Vec<&str> = keys.lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key).collect();
        let is_own = |line: &&str| line.split_once(':').is_none_or(|(key, _)| !replaced.contains(&key));
        let own: String = self.text.lines().filter(is_own).map(|line| format!("{line}\n")).collect();
        let file = self.folder.path().join(format!("{}.yaml", self.job));
        fs::write(file, format!("{keys}\n{own}")).expect("writable");
    }

    /// Runs the job, dying where `fail_at` says.
    pub(crate) fn run(&self, fail_at: &str) -> Output {
        self.run_with(&[("MILLSTREAM_FAIL_AT", fail_at)])
    }

    /// Runs the job to its end with batches of at most so many records.
    pub(crate) fn finish_in_batches(&self, records: usize) {
        self.finish_with(&[("MILLSTREAM_BATCH_RECORDS", &records.to_string())]);
    }

    /// Runs the job, with these environment variables.
    pub(crate) fn run_with(&self, environment: &[(&str, &str)]) -> Output {
        self.run_command().envs(environment.iter().copied()).output().expect("the program starts")
    }

    /// Runs the job, which must be refused for this reason; all that it says.
    pub(crate) fn refused(&self, reason: &str) -> String {
        let refused = self.run("");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(reason), "{said}");
        said
    }

    /// Runs the job with further arguments.
    pub(crate) fn run_told(&self, arguments: &[&str], fail_at: &str) -> Output {
        self.run_command().args(arguments).env("MILLSTREAM_FAIL_AT", fail_at).output().expect("the program starts")
    }

    /// What runs the job: `millstream`, or the program with native twins of its components.
    fn run_command(&self) -> Command {
        if !self.native {
            return self.command(&["run", &self.file()]);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_native"));
        command.current_dir(self.folder.path()).arg(self.file());
        command
    }

    /// Runs the job with another data directory, from a savepoint.
    pub(crate) fn run_from(&self, savepoint: &str, backend: &str) -> Output {
        let arguments = ["run", &self.file(), "--data-dir", ELSEWHERE, "--from", savepoint];
        self.command(&arguments).env("MILLSTREAM_STATE_BACKEND", backend).output().expect("the program starts")
    }

    /// Runs the job as if it had never run, from a savepoint.
    pub(crate) fn run_fresh_from(&self, savepoint: &str) -> Output {
        self.command(&["run", &self.file(), "--fresh", "--from", savepoint]).output().expect("the program starts")
    }

    /// Starts the job and comes back.
    pub(crate) fn start(&self, environment: &[(&str, &str)]) -> Child {
        let mut command = self.run_command();
        command.envs(environment.iter().copied()).stderr(Stdio::null()).stdout(Stdio::null());
        command.spawn().expect("the program starts")
    }

    /// Asks the running job something, as soon as it can be reached: a command and what follows the job's name. A job that
    /// has come to its end answers no more.
    pub(crate) fn ask(&self, running: &mut Child, command: &[&str]) -> Output {
        let file = self.file();
        let arguments = [&command[..1], &[file.as_str()], &command[1..]].concat();
        loop {
            let ended = running.try_wait().expect("the program runs").is_some();
            let output = self.command(&arguments).output().expect("the program starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if ended || output.status.success() || !said.contains("does not run") {
                return output;
            }
            pause(20);
        }
    }

    /// Takes away the data directory, but for the compiled components: the job goes on on another machine.
    pub(crate) fn forget_data(&self) {
        let home = self.folder.path().join(".millstream");
        for entry in fs::read_dir(home).expect("the data directory is there").map(|entry| entry.expect("readable")) {
            if entry.file_name() != "components" {
                fs::remove_dir_all(entry.path()).expect("a job's folder");
            }
        }
    }

    /// Takes a file or folder away, which calling the answer puts back.
    pub(crate) fn hide(&self, name: &str) -> impl FnOnce() + use<> {
        let (from, to) =
            (self.folder.path().join(name), self.folder.path().join(format!("hidden-{}", name.replace('/', "-"))));
        fs::rename(&from, &to).expect("it is there");
        move || {
            // What the program made in its place was never used.
            if from.is_dir() {
                fs::remove_dir_all(&from).expect("removable");
            }
            fs::rename(to, from).expect("it goes back");
        }
    }

    /// `millstream state`.
    pub(crate) fn state(&self, arguments: &[&str]) -> Output {
        self.command(&[&["state"], arguments].concat()).output().expect("the program starts")
    }

    /// `millstream state export` into a pipe whose reader has gone.
    pub(crate) fn export_to_nobody(&self, savepoint: &str) -> Output {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = self.command(&["state", "export", savepoint]);
        let export = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("the program starts");
        export.wait_with_output().expect("it ends")
    }

    /// Changes a line of the job file.
    pub(crate) fn replace(&self, line: &str, by: &str) {
        let path = self.folder.path().join(self.file());
        let text = fs::read_to_string(&path).expect("readable");
        assert!(text.contains(line), "the job file has the line `{line}`");
        fs::write(path, text.replacen(line, by, 1)).expect("writable");
    }

    /// Puts a line in front of the job file.
    pub(crate) fn prepend(&self, line: &str) {
        let path = self.folder.path().join(self.file());
        let text = fs::read_to_string(&path).expect("readable");
        fs::write(path, format!("{line}\n{text}")).expect("writable");
    }

    fn file(&self) -> String {
        format!("{}.yaml", self.job)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = millstream();
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    /// Runs the job to its end.
    pub(crate) fn finish(&self) {
        self.finish_with(&[]);
    }

    /// The same with these environment variables.
    pub(crate) fn finish_with(&self, environment: &[(&str, &str)]) {
        let output = self.run_with(environment);
        assert!(output.status.success(), "the job ends well: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What has come out, for each expected file.
    pub(crate) fn rows(&self, expected: &Rows) -> Rows {
        expected.iter().map(|(name, rows)| (name.clone(), self.rows_of(name, rows))).collect()
    }

    fn rows_of(&self, name: &str, expected: &[Value]) -> Vec<Value> {
        let out = self.folder.path().join("out");
        if name == "dead-letters.ndjson" {
            return self.dead_letters(expected);
        }
        if let Some((database, table)) = name.split_once(".db.") {
            return table_rows(&out.join(format!("{database}.db")), table.trim_end_matches(".ndjson"));
        }
        lines(&out.join(name))
    }

    /// The fields of dead letters that the expected ones name: reasons and places, not the whole record.
    fn dead_letters(&self, expected: &[Value]) -> Vec<Value> {
        let named: Vec<String> =
            expected.iter().filter_map(Value::as_object).flat_map(|row| row.keys().cloned()).collect();
        let homes = [".millstream", ELSEWHERE].map(|home| self.folder.path().join(home));
        let jobs = homes.iter().filter_map(|home| fs::read_dir(home).ok()).flatten();
        let mut files: Vec<PathBuf> = jobs
            .map(|entry| entry.expect("readable").path())
            .filter_map(|job| fs::read_dir(job.join("dead-letters")).ok())
            .flatten()
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "ndjson"))
            .collect();
        files.sort();
        let mut rows: Vec<Value> = files.iter().flat_map(|file| lines(file)).collect();
        for row in rows.iter_mut().filter_map(Value::as_object_mut) {
            row.retain(|field, _| named.contains(field));
            if let Some(Value::String(partition)) = row.get_mut("partition") {
                *partition = Path::new(partition.as_str()).file_name().expect("a file").to_string_lossy().into_owned();
            }
        }
        rows
    }
}

/// Waits for another process, which is not to be heard of in any other way.
#[expect(clippy::disallowed_methods, reason = "the job runs in a process of its own")]
pub(crate) fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Sorted, and without what says how a row came about.
pub(crate) fn settled(rows: Rows) -> Rows {
    let settle = |mut rows: Vec<Value>| {
        rows.iter_mut().filter_map(Value::as_object_mut).for_each(|row| {
            row.remove("pane");
        });
        rows.sort_by_key(Value::to_string);
        rows
    };
    rows.into_iter().map(|(name, rows)| (name, settle(rows))).collect()
}

/// Everything but projects, which stay where their dependencies are, and what earlier runs left.
fn copy_data(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("readable").map(|entry| entry.expect("readable").path()) {
        let name = entry.file_name().expect("an entry has a name");
        let skipped = ["expected", "out", ".millstream", "target"].iter().any(|skipped| name == *skipped);
        if skipped || entry.join("Cargo.toml").exists() {
            continue;
        }
        if entry.is_dir() {
            fs::create_dir(to.join(name)).expect("writable");
            copy_data(&entry, &to.join(name));
        } else {
            fs::copy(&entry, to.join(name)).expect("writable");
        }
    }
}

pub(crate) fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let parse =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", file.display()));
    text.lines().map(parse).collect()
}

fn table_rows(database: &Path, table: &str) -> Vec<Value> {
    let database = rusqlite::Connection::open(database).expect("the database opens");
    let Ok(mut rows) = database.prepare(&format!("select * from \"{table}\"")) else { return vec![] };
    let names: Vec<String> = rows.column_names().map(String::from).collect();
    let value = |row: &rusqlite::Row<'_>, at: usize| match row.get_ref(at).expect("a column") {
        rusqlite::types::ValueRef::Integer(int) => Value::from(int),
        rusqlite::types::ValueRef::Real(real) => Value::from(real),
        rusqlite::types::ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text).into_owned()),
        _ => Value::Null,
    };
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Value::Object(names.iter().enumerate().map(|(at, name)| (name.clone(), value(row, at))).collect()))
    };
    let mut all: Vec<Value> = rows.query_map([], row).expect("readable").map(|row| row.expect("readable")).collect();
    all.sort_by_key(Value::to_string);
    all
}
