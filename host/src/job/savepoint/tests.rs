//! The formats byte for byte, and what is refused.

use super::rows::{self, Writer};
use super::{FILE, claim, give_up, open, write};
use crate::checkpoint::CheckpointStorage;
use crate::checkpoint::memory::MemoryStorage;
use crate::state::{Address, NEVER, RowMeta, StateNumber};
use dataflow::aggregate::Function;
use dataflow::checkpoint::{
    AggregateEntry, CheckpointId, Manifest, PartitionPosition, SourceSnapshot, StateEntry, StateKind,
};
use dataflow::key::KeyGroup;
use dataflow::record::ValueType;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

fn manifest() -> Manifest {
    let position = PartitionPosition { next: json!({ "byte": 90, "line": 4 }), watermark: 35_000, finished: false };
    let rides = SourceSnapshot {
        partitions: [("rides.ndjson".to_string(), position)].into(),
        counters: [("records_in".to_string(), 4)].into(),
    };
    let aggregate = |column: &str, function, of| AggregateEntry { column: column.into(), function, of };
    let sum = aggregate("/sum", Some(Function::Sum), Some(ValueType::Float));
    let middle = aggregate("/middle", None, None);
    Manifest {
        version: Manifest::VERSION,
        checkpoint: CheckpointId(7),
        job: "rides".into(),
        job_revision: "00112233aabbccdd".into(),
        max_parallelism: 128,
        finished: false,
        components: [("dedup".to_string(), "sha256:00".to_string())].into(),
        states: vec![
            StateEntry {
                number: 3,
                operator: "dedup".into(),
                name: "seen".into(),
                kind: StateKind::Value,
                version: 1,
                forked_from: None,
                made_for: None,
                keyed_by: [].into(),
                aggregates: vec![],
            },
            StateEntry {
                number: 4,
                operator: "fares".into(),
                name: "windows".into(),
                kind: StateKind::Windows,
                version: 8194,
                forked_from: None,
                made_for: Some("tumbling: 60000ms".into()),
                keyed_by: ["/city, /vendor".to_string()].into(),
                aggregates: vec![sum, middle],
            },
        ],
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
    claim(&*to, "rides").unwrap();
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
    },
    {
      "number": 4,
      "operator": "fares",
      "name": "windows",
      "kind": "windows",
      "version": 8194,
      "made_for": "tumbling: 60000ms",
      "keyed_by": [
        "/city, /vendor"
      ],
      "aggregates": [
        {
          "column": "/sum",
          "function": "sum",
          "of": "float"
        },
        {
          "column": "/middle"
        }
      ]
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

/// As a newer program of the same version may add: `docs/savepoints.md` has readers ignore it.
#[test]
fn savepoint_with_a_member_that_is_not_known_is_read() {
    let text = String::from_utf8(saved().read(FILE).unwrap().unwrap()).unwrap();
    let told = open(saved(), "here").unwrap().savepoint.checksum;
    let more = text.replace("\"version\": 8194,", r#""version": 8194, "mood": "a \"b\\\\\" {  }","#);
    let compact: String = more.lines().map(str::trim_start).collect();
    let compact = compact.replace("\": ", "\":").replace(", \"mood", ",\"mood").replace(&told, "");
    let checksum = crate::checkpoint::checksum(compact.as_bytes());
    let storage = MemoryStorage::default();
    storage.write(FILE, more.replace(&told, &checksum).as_bytes()).unwrap();
    assert_eq!(open(Arc::new(storage), "here").unwrap().savepoint.states, manifest().states);
}

#[test]
fn place_takes_one_savepoint_and_nothing_is_overwritten() {
    let refused = |place: &dyn CheckpointStorage| format!("{:#}", claim(place, "rides").unwrap_err());
    assert!(refused(&*saved()).contains("not empty: it holds `savepoint.json`"), "{}", refused(&*saved()));
    let place = MemoryStorage::default();
    claim(&place, "rides").unwrap();
    assert!(refused(&place).contains("another savepoint is being written there"), "{}", refused(&place));
    place.write("rows/000000", b"a part").unwrap();
    place.write("notes", b"somebody's").unwrap();
    give_up(&place);
    assert_eq!(place.list("").unwrap(), ["notes"]);
    place.delete("notes").unwrap();
    claim(&place, "rides").unwrap();
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
