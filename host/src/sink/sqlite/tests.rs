//! The contract in every mode, and what only tables have: keys, sums, retractions, tables of others.

use super::*;
use crate::sink::contract::{self, Target};
use dataflow::checkpoint::{CheckpointId, Payload};
use dataflow::record::Batch;
use dataflow::record::{Change, Field, Schema, Value, ValueType};
use rusqlite::Connection;
use tempfile::TempDir;

struct Database {
    dir: TempDir,
    settings: Settings,
}

impl Database {
    fn with(mode: Mode, immediate: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = if mode == Mode::Append { vec![] } else { vec!["city".into()] };
        let path = dir.path().join("board.db");
        let settings = Settings { path, table: "rides".into(), mode, key, immediate, ..Settings::default() };
        Self { dir, settings }
    }

    fn connection(&self) -> Connection {
        Connection::open(self.dir.path().join("board.db")).unwrap()
    }

    fn texts(&self, select: &str) -> Vec<String> {
        let connection = self.connection();
        let Ok(mut statement) = connection.prepare(select) else { return vec![] };
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

impl Target for Database {
    fn factory(&self) -> Box<dyn SinkFactory> {
        Box::new(Factory { settings: self.settings.clone() })
    }

    fn visible(&self) -> Vec<String> {
        self.texts("SELECT json_object('city', city, 'n', n) FROM rides")
    }
}

#[test]
fn every_mode_keeps_the_contract() {
    for mode in [Mode::Append, Mode::Upsert, Mode::Add] {
        contract::check_sink(|| Database::with(mode, false));
    }
}

#[test]
fn immediate_rows_are_seen_at_once_and_repeat_unless_upserted() {
    contract::check_at_once(|| Database::with(Mode::Upsert, true), true);
    contract::check_at_once(|| Database::with(Mode::Append, true), false);
    contract::check_at_once(|| Database::with(Mode::Add, true), false);
}

fn panes() -> SinkInput {
    let fields = vec![
        Field::new("/key", ValueType::Scalar),
        Field::time("/window_start"),
        Field::new("/pane/index", ValueType::Int),
        Field::new("/count", ValueType::Int),
        Field::new("/sum", ValueType::Float),
    ];
    SinkInput { schema: Schema { fields }, ..contract::input(true) }
}

/// City, pane index, count and change.
fn pane_rows(rows: &[(&str, i64, i64, Change)]) -> Batch {
    let mut columns = panes().schema.columns(0);
    for &(city, index, count, _) in rows {
        let values = [
            Value::Text(city),
            Value::Int(1_754_038_800_000),
            Value::Int(index),
            Value::Int(count),
            Value::Float(count as f64 / 2.0),
        ];
        columns.iter_mut().zip(values).for_each(|(column, value)| assert!(column.push(value)));
    }
    let changes = rows.iter().map(|row| row.3).collect();
    Batch { timestamps: vec![0; rows.len()], changes, columns, ..Batch::default() }
}

fn settled(mode: Mode, immediate: bool, rows: &[(&str, i64, i64, Change)]) -> Vec<String> {
    let mut database = Database::with(mode, immediate);
    database.settings.key = vec!["key".into(), "/window_start".into()];
    let mut sink = database.factory().open(&panes()).unwrap();
    sink.write(&pane_rows(rows)).unwrap();
    let payload = sink.stage(CheckpointId(1)).unwrap();
    sink.apply(CheckpointId(1), &payload).unwrap();
    database.texts("SELECT json_array(key, window_start, pane_index, count, sum) FROM rides ORDER BY key")
}

#[test]
fn upsert_keeps_the_last_row_per_key_and_takes_back_only_what_still_stands() {
    use Change::{Insert, Retract};
    let rows = [
        ("Pune", 0, 4, Insert),
        ("Mumbai", 0, 1, Insert),
        ("Pune", 0, 4, Retract),
        ("Pune", 1, 5, Insert),
        ("Mumbai", 0, 9, Retract),
        ("Delhi", 0, 2, Insert),
        ("Delhi", 0, 2, Retract),
    ];
    let expected = [r#"["Mumbai","2025-08-01T09:00:00Z",0,1,0.5]"#, r#"["Pune","2025-08-01T09:00:00Z",1,5,2.5]"#];
    assert_eq!(settled(Mode::Upsert, false, &rows), expected);
    assert_eq!(settled(Mode::Upsert, true, &rows), expected);
}

#[test]
fn add_sums_numbers_but_not_pane_indexes_and_subtracts_what_is_taken_back() {
    use Change::{Insert, Retract};
    let rows = [("Pune", 0, 4, Insert), ("Pune", 1, 5, Insert), ("Pune", 1, 3, Retract)];
    let expected = [r#"["Pune","2025-08-01T09:00:00Z",1,6,3.0]"#];
    assert_eq!(settled(Mode::Add, false, &rows), expected);
    assert_eq!(settled(Mode::Add, true, &rows), expected);
}

#[test]
fn add_sums_the_numbers_of_a_source_whose_columns_have_values_of_any_type() {
    let fields = ["/id", "/n", "/word"].map(|pointer| Field::new(pointer, ValueType::Scalar)).into();
    let input = SinkInput { schema: Schema { fields }, ..contract::input(true) };
    let mut database = Database::with(Mode::Add, false);
    database.settings.key = vec!["id".into()];
    let mut columns = input.schema.columns(0);
    let rows = [
        ("x", Value::Int(1), "a"),
        ("x", Value::Float(2.5), "b"),
        ("x", Value::Absent, "c"),
        ("x", Value::Text("{}"), "d"),
        ("x", Value::Int(4), "7"),
        ("y", Value::Int(3), "8"),
    ];
    for (id, n, word) in rows {
        let values = [Value::Text(id), n, Value::Text(word)];
        columns.iter_mut().zip(values).for_each(|(column, value)| assert!(column.push(value)));
    }
    // The first of `y` is taken back before it comes.
    let mut changes = vec![Change::Insert; 5];
    changes.push(Change::Retract);
    let mut sink = database.factory().open(&input).unwrap();
    sink.write(&Batch { timestamps: vec![0; 6], changes, columns, ..Batch::default() }).unwrap();
    let payload = sink.stage(CheckpointId(1)).unwrap();
    sink.apply(CheckpointId(1), &payload).unwrap();
    assert_eq!(
        database.texts("SELECT json_array(id, n, word) FROM rides ORDER BY id"),
        [r#"["x",7.5,"7"]"#, r#"["y",-3,"8"]"#]
    );
}

#[test]
fn row_that_could_not_be_applied_is_refused_when_it_is_written() {
    let database = Database::with(Mode::Append, false);
    let mut sink = database.factory().open(&panes()).unwrap();
    let error = sink.write(&pane_rows(&[("Pune", 0, 4, Change::Retract)])).unwrap_err();
    assert!(error.to_string().contains("mode: upsert"), "{error}");

    let database = Database::with(Mode::Upsert, false);
    let mut sink = database.factory().open(&contract::input(true)).unwrap();
    let mut batch = contract::batch(1..2);
    batch.columns[0] = dataflow::record::Column::new(ValueType::Text);
    batch.columns[0].push_absent();
    assert!(sink.write(&batch).unwrap_err().to_string().contains("`city`"));
}

#[test]
fn sinks_and_jobs_share_a_database_without_meeting() {
    let first = Database::with(Mode::Append, false);
    let factory = |table: &str| Factory { settings: Settings { table: table.into(), ..first.settings.clone() } };
    let named = |sink: &str, job: &str| SinkInput { sink: sink.into(), job: job.into(), ..contract::input(true) };
    let mut sinks = [
        factory("rides").open(&named("out", "rides")).unwrap(),
        factory("late").open(&named("late", "rides")).unwrap(),
        factory("other").open(&named("out", "payments")).unwrap(),
    ];
    let payloads: Vec<Payload> = sinks
        .iter_mut()
        .zip([1, 10, 20])
        .map(|(sink, id)| {
            sink.write(&contract::batch(id..id + 2)).unwrap();
            sink.stage(CheckpointId(1)).unwrap()
        })
        .collect();
    sinks[1].apply(CheckpointId(1), &payloads[1]).unwrap();
    assert_eq!(first.texts("SELECT city FROM late"), ["city-10", "city-11"]);
    assert!(first.visible().is_empty() && first.texts("SELECT city FROM other").is_empty());
    sinks[0].apply(CheckpointId(1), &payloads[0]).unwrap();
    sinks[2].apply(CheckpointId(1), &payloads[2]).unwrap();
    assert_eq!(first.visible(), [contract::row(1), contract::row(2)]);
    assert_eq!(first.texts("SELECT city FROM other"), ["city-20", "city-21"]);
}

#[test]
fn table_of_others_keeps_its_rows_and_must_fit() {
    let mut database = Database::with(Mode::Upsert, false);
    let make = "CREATE TABLE rides (city TEXT, n INTEGER, note TEXT); INSERT INTO rides VALUES ('theirs', 1, '')";
    database.connection().execute_batch(make).unwrap();
    let opened = |database: &Database| database.factory().open(&contract::input(true)).map(drop);
    let error = format!("{:#}", opened(&database).unwrap_err());
    assert!(error.contains("unique index over `city`"), "{error}");
    database.connection().execute_batch("CREATE UNIQUE INDEX by_city ON rides (city)").unwrap();
    opened(&database).unwrap();
    assert_eq!(database.texts("SELECT city FROM rides"), ["theirs"]);
    database.settings.on_existing = Some(OnExisting::Fail);
    assert!(opened(&database).is_err());
    database.settings.on_existing = Some(OnExisting::Replace);
    opened(&database).unwrap();
    assert!(database.texts("SELECT city FROM rides").is_empty());
    database.connection().execute_batch("ALTER TABLE rides DROP COLUMN n").unwrap();
    let error = format!("{:#}", opened(&database).unwrap_err());
    assert!(error.contains("also writes `n`"), "{error}");
}

#[test]
fn many_chunks_arrive_whole() {
    let database = Database::with(Mode::Append, false);
    let mut sink = database.factory().open(&contract::input(true)).unwrap();
    for start in (0..200_000).step_by(10_000) {
        sink.write(&contract::batch(start..start + 10_000)).unwrap();
    }
    let payload = sink.stage(CheckpointId(1)).unwrap();
    assert!(payload.0["parts"][0]["chunks"].as_u64().unwrap() > 1, "{payload:?}");
    sink.apply(CheckpointId(1), &payload).unwrap();
    assert_eq!(database.texts("SELECT count(*) || ' ' || sum(n) FROM rides"), ["200000 19999900000"]);
    assert_eq!(database.texts("SELECT count(*) || '' FROM _millstream_staged"), ["0"]);
}

#[test]
fn tables_of_another_version_are_refused_and_left_alone() {
    let database = Database::with(Mode::Append, false);
    drop(database.factory().open(&contract::input(true)).unwrap());
    database.connection().execute("UPDATE _millstream_version SET version = 9", ()).unwrap();
    let Err(error) = database.factory().open(&contract::input(false)) else { panic!("version 9 is not known") };
    let error = format!("{error:#}");
    assert!(error.contains("version 9") && error.contains("board.db"), "{error}");
    assert_eq!(database.texts("SELECT version || '' FROM _millstream_version"), ["9"]);
}
