//! The formats byte for byte, what is refused, and rows in words.

use super::rows::{self, Writer};
use super::{FILE, line, open, remove, write};
use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::memory::MemoryStorage;
use crate::state::{Address, NEVER, RowMeta, StateNumber, encode};
use dataflow::checkpoint::{CheckpointId, Manifest, PartitionPosition, SourceSnapshot, StateEntry, StateKind};
use dataflow::key::{self, KeyGroup, push_varint};
use dataflow::record::Value;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

fn manifest() -> Manifest {
    let position = PartitionPosition { next: json!({ "byte": 90, "line": 4 }), watermark: 35_000, finished: false };
    let rides = SourceSnapshot {
        partitions: [("rides.ndjson".to_string(), position)].into(),
        counters: [("records_in".to_string(), 4)].into(),
    };
    Manifest {
        version: Manifest::VERSION,
        checkpoint: CheckpointId(7),
        job: "rides".into(),
        job_revision: "00112233aabbccdd".into(),
        max_parallelism: 128,
        finished: false,
        components: [("dedup".to_string(), "sha256:00".to_string())].into(),
        states: vec![StateEntry {
            number: 3,
            operator: "dedup".into(),
            name: "seen".into(),
            kind: StateKind::Value,
            version: 1,
            forked_from: None,
            made_for: None,
        }],
        next_state: 5,
        savepoint: None,
        sources: [("rides".to_string(), rides)].into(),
        tasks: vec![],
        in_flight: vec![],
        sinks: [].into(),
        sink_counters: [].into(),
    }
}

fn saved() -> Arc<dyn CheckpointStorage> {
    let (from, to): (Arc<dyn CheckpointStorage>, _) =
        (Arc::new(MemoryStorage::default()), Arc::new(MemoryStorage::default()));
    write(&manifest(), (&from, Path::new("scratch")), &*to, 1_700_000_000_000).unwrap();
    to
}

fn refusal(storage: Arc<dyn CheckpointStorage>) -> String {
    open(storage, "here").err().map(|error| format!("{error:#}")).unwrap_or_default()
}

/// A change of the format shows here. It needs a new version, and a reader for this one: see docs/savepoints.md.
#[test]
fn savepoint_of_version_1_is_written_like_this() {
    let expected = r#"{
  "format": "millstream savepoint",
  "version": 1,
  "checksum": "CHECKSUM",
  "job": "rides",
  "job_revision": "00112233aabbccdd",
  "checkpoint": 7,
  "created_ms": 1700000000000,
  "max_parallelism": 128,
  "finished": false,
  "components": {
    "dedup": "sha256:00"
  },
  "states": [
    {
      "number": 3,
      "operator": "dedup",
      "name": "seen",
      "kind": "value",
      "version": 1
    }
  ],
  "next_state": 5,
  "sources": {
    "rides": {
      "partitions": {
        "rides.ndjson": {
          "next": {
            "byte": 90,
            "line": 4
          },
          "watermark": 35000,
          "finished": false
        }
      },
      "counters": {
        "records_in": 4
      }
    }
  },
  "operators": {},
  "files": []
}"#;
    let storage = saved();
    let text = String::from_utf8(storage.read(FILE).unwrap().unwrap()).unwrap();
    let opened = open(storage, "here").unwrap();
    assert_eq!(text, expected.replace("CHECKSUM", &opened.savepoint.checksum));
    assert_eq!(opened.savepoint.sources, manifest().sources);
}

#[test]
fn savepoint_that_is_damaged_or_unknown_is_refused_by_name() {
    let storage = saved();
    let text = String::from_utf8(storage.read(FILE).unwrap().unwrap()).unwrap();
    let with = |from: &str, to: &str| {
        let other = MemoryStorage::default();
        other.write(FILE, text.replace(from, to).as_bytes()).unwrap();
        refusal(Arc::new(other))
    };
    assert!(with("\"byte\": 90", "\"byte\": 91").contains("`savepoint.json` of the savepoint `here` is damaged"));
    assert!(with("\"version\": 1,\n  \"check", "\"version\": 2,\n  \"check").contains("format version 2"));
    assert!(with("\"next_state\"", "\"next").contains("is damaged"));
    assert!(with("millstream savepoint", "shopping list").contains("not a savepoint's, but `shopping list`"));
    assert!(refusal(Arc::new(MemoryStorage::default())).contains("`here` is no savepoint: it has no `savepoint.json`"));
}

#[test]
fn nothing_is_overwritten() {
    let (from, to): (Arc<dyn CheckpointStorage>, _) = (Arc::new(MemoryStorage::default()), saved());
    let error = write(&manifest(), (&from, Path::new("scratch")), &*to, 0).unwrap_err();
    assert!(format!("{error:#}").contains("not empty: it holds `savepoint.json`"), "{error:#}");
}

fn address(row: &[u8]) -> Address<'_> {
    Address { group: KeyGroup(258), state: StateNumber(3), row }
}

#[test]
fn rows_of_version_1_are_written_like_this_and_come_back() {
    let mut writer = Writer::new();
    writer.push(address(b"ab"), RowMeta { expiry: 5, version: 2 }, b"xyz");
    writer.push(address(b""), RowMeta { expiry: NEVER, version: 1 }, b"");
    let (content, file) = writer.finish("rows/000000".into());
    let mut expected = b"millrows\0\x01".to_vec();
    expected.extend_from_slice(b"\x08\x01\x02\0\0\0\x03ab\x0d\0\0\0\0\0\0\0\x05\0\x02xyz");
    expected.extend_from_slice(b"\x06\x01\x02\0\0\0\x03\x0a\x7f\xff\xff\xff\xff\xff\xff\xff\0\x01");
    assert_eq!(content, expected);
    let storage = MemoryStorage::default();
    storage.write(&file.name, &content).unwrap();
    let mut seen = vec![];
    rows::read(&storage, &file, &mut |at, meta, bytes| {
        seen.push((at.group.0, at.state.0, at.row.to_vec(), meta, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    let row =
        |row: &[u8], expiry, version, bytes: &[u8]| (258, 3, row.to_vec(), RowMeta { expiry, version }, bytes.to_vec());
    assert_eq!(seen, [row(b"ab", 5, 2, b"xyz"), row(b"", NEVER, 1, b"")]);
}

#[test]
fn file_of_rows_that_is_damaged_or_gone_names_itself() {
    let mut writer = Writer::new();
    writer.push(address(b"ab"), RowMeta { expiry: 5, version: 2 }, b"xyz");
    let (mut content, file) = writer.finish("rows/000000".into());
    let storage = MemoryStorage::default();
    let read = || format!("{:#}", rows::read(&storage, &file, &mut |_, _, _| Ok(())).unwrap_err());
    assert_eq!(read(), "file `rows/000000` of the savepoint is missing");
    *content.last_mut().unwrap() ^= 1;
    storage.write(&file.name, &content).unwrap();
    assert!(read().starts_with("file `rows/000000` of the savepoint is damaged"), "{}", read());
}

fn shown(kind: StateKind, row: &[u8], bytes: &[u8]) -> Option<serde_json::Value> {
    let entry = StateEntry {
        number: 3,
        operator: "op".into(),
        name: "st".into(),
        kind,
        version: 1,
        forked_from: None,
        made_for: None,
    };
    line(kind, row, RowMeta { expiry: NEVER, version: 1 }, bytes).map(|line| line.to_json(&entry))
}

fn keyed(parts: &[Value<'_>], user: &[u8]) -> Vec<u8> {
    let mut key = vec![];
    parts.iter().for_each(|&part| key::push_part(&mut key, part));
    let mut row = vec![];
    push_varint(&mut row, key.len() as u64);
    [row, key, user.to_vec()].concat()
}

#[test]
fn each_kind_of_state_is_shown_in_words() {
    let value = |value| {
        let mut bytes = vec![];
        encode(value, &mut bytes);
        bytes
    };
    let city = keyed(&[Value::Text("Pune")], b"");
    assert_eq!(
        shown(StateKind::Value, &city, &value(Value::Int(4))),
        Some(json!({"operator": "op", "state": "st", "key": "Pune", "value": 4}))
    );
    assert_eq!(
        shown(StateKind::Value, &keyed(&[Value::Text("Pune"), Value::Int(-1)], b""), &value(Value::Text("{\"a\":1}"))),
        Some(json!({"operator": "op", "state": "st", "key": ["Pune", -1], "value": {"a": 1}}))
    );
    let item = keyed(&[Value::Boolean(true)], &7u64.to_be_bytes());
    assert_eq!(
        shown(StateKind::List, &item, &value(Value::Bytes(&[255]))),
        Some(json!({"operator": "op", "state": "st", "key": true, "index": 7, "value": {"hex": "ff"}}))
    );
    assert_eq!(shown(StateKind::List, &city, &[0; 16]), None, "where a list begins and ends is no item");
    assert_eq!(
        shown(StateKind::Map, &keyed(&[Value::Text("Pune")], b"north"), &value(Value::Float(0.5))),
        Some(json!({"operator": "op", "state": "st", "key": "Pune", "entry": "north", "value": 0.5}))
    );
    let end = (60_000u64 ^ 1 << 63).to_be_bytes();
    let mut pune = vec![];
    key::push_part(&mut pune, Value::Text("Pune"));
    assert_eq!(
        shown(StateKind::Windows, &[&end[..], &pune].concat(), &[1, 2]),
        Some(json!({
            "operator": "op", "state": "st", "key": "Pune", "window_end": "1970-01-01T00:01:00Z", "accumulator": {"hex": "0102"}
        }))
    );
    let timer = [&end[..], &end, &pune, &2u32.to_be_bytes(), b"tag", &(pune.len() as u32).to_be_bytes()].concat();
    assert_eq!(
        shown(StateKind::TimersByTime, &timer, b"payload"),
        Some(json!({
            "operator": "op", "state": "st", "key": "Pune", "timer": 2, "tag": "tag", "due": "1970-01-01T00:01:00Z", "payload": "payload"
        }))
    );
}

#[test]
fn what_was_written_of_a_savepoint_that_failed_is_removed_and_a_whole_one_is_not() {
    let place = MemoryStorage::default();
    place.write("rows/000000", b"a part").unwrap();
    remove(&place).unwrap();
    assert_eq!(place.list("").unwrap(), Vec::<String>::new());
    let whole = saved();
    let before = whole.list("").unwrap();
    assert!(remove(&*whole).unwrap_err().to_string().contains("whole savepoint"));
    assert_eq!(whole.list("").unwrap(), before);
}
