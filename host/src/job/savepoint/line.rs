//! A stored row in words: the JSON object that `millstream state` shows of it. Knows the layout of each kind of state, and no job.

use crate::operator::window::stored::{self, Held};
use crate::state::{Address, NEVER, RowMeta, typed};
use dataflow::checkpoint::{StateEntry, StateKind};
use dataflow::key::{self, KeyGroup, take_varint};
use dataflow::record::Value;
use dataflow::time::Timestamp;
use serde_json::{Map, Value as Json, json};

/// The key group whose rows are told of a broadcast map, which is kept in each.
pub const BROADCAST_TOLD: KeyGroup = KeyGroup(0);

/// A row in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is found by, as it is stored: the key, or the entry where the state is of no key.
    pub found_by: Vec<u8>,
    /// Its fields by name.
    pub json: Json,
}

/// Whether a row is told of. Not those that only help: where a list begins and ends, a timer by name, the mark that a window has
/// fired, a broadcast map's entry in further key groups.
pub fn is_told(kind: StateKind, at: Address<'_>) -> bool {
    match kind {
        StateKind::Value | StateKind::Map | StateKind::TimersByTime => true,
        StateKind::List => split_key(at.row).is_none_or(|(_, number)| !number.is_empty()),
        StateKind::BroadcastMap => at.group == BROADCAST_TOLD,
        StateKind::TimersByName => false,
        StateKind::Windows => !stored::is_mark(at.row),
    }
}

/// A row of a state in words. One that does not read as its kind of state is shown as it is.
pub fn line(entry: &StateEntry, row: &[u8], meta: RowMeta, bytes: &[u8]) -> Line {
    let mut object = Map::new();
    object.insert("operator".into(), json!(entry.operator));
    object.insert("state".into(), json!(entry.name));
    let (found_by, rest) = words(entry, row, meta, bytes)
        .unwrap_or_else(|| (vec![], Map::from_iter([("row".into(), hex(row)), ("value".into(), hex(bytes))])));
    if !found_by.is_empty() && entry.kind != StateKind::BroadcastMap {
        object.insert("key".into(), parts_or_text(&found_by));
    }
    object.extend(rest);
    if meta.expiry != NEVER {
        object.insert("expires".into(), time(meta.expiry));
    }
    Line { found_by, json: Json::Object(object) }
}

/// What a row is found by, and the fields of its kind.
fn words(entry: &StateEntry, row: &[u8], meta: RowMeta, bytes: &[u8]) -> Option<(Vec<u8>, Map<String, Json>)> {
    let mut rest = Map::new();
    let found_by = match entry.kind {
        StateKind::Value | StateKind::List | StateKind::Map | StateKind::BroadcastMap => {
            let (key, user) = split_key(row)?;
            rest.insert("value".into(), typed(bytes).map_or_else(|| hex(bytes), shown));
            match entry.kind {
                StateKind::List => {
                    rest.insert("index".into(), json!(u64::from_be_bytes(user.try_into().ok()?)));
                    key
                }
                StateKind::Map => {
                    rest.insert("entry".into(), parts_or_text(user));
                    key
                }
                StateKind::BroadcastMap => {
                    rest.insert("entry".into(), parts_or_text(user));
                    user
                }
                _ => key,
            }
        }
        StateKind::TimersByTime => {
            let (fires_at, row) = row.split_first_chunk()?;
            let (due, row) = row.split_first_chunk()?;
            let (row, length) = row.split_last_chunk()?;
            let (key, row) = row.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            let (timer, tag) = row.split_first_chunk()?;
            rest.insert("timer".into(), json!(u32::from_be_bytes(*timer)));
            rest.insert("tag".into(), text_or_hex(tag));
            rest.insert("due".into(), time(sorted(*due)));
            if fires_at != due {
                rest.insert("fires_at".into(), time(sorted(*fires_at)));
            }
            rest.insert("payload".into(), json_or_hex(bytes));
            key
        }
        StateKind::TimersByName => return None,
        StateKind::Windows => {
            let (end, key) = row.split_first_chunk()?;
            rest.insert("window_end".into(), time(sorted(*end)));
            let held = stored::aggregates(&entry.aggregates, meta.version, bytes);
            rest.insert("accumulator".into(), held.map_or_else(|| hex(bytes), columns));
            key
        }
    };
    Some((found_by.to_vec(), rest))
}

fn columns(held: Vec<(&str, Held)>) -> Json {
    let column = |(column, held): (&str, Held)| {
        let held = match held {
            Held::Result(value) => shown(value),
            Held::Guest(bytes) => json_or_hex(&bytes),
        };
        (column.strip_prefix('/').unwrap_or(column).to_string(), held)
    };
    Json::Object(held.into_iter().map(column).collect())
}

fn split_key(row: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = row;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    rest.split_at_checked(length)
}

/// A time as it lies in a stored key: big-endian, the sign flipped.
fn sorted(bytes: [u8; 8]) -> Timestamp {
    (u64::from_be_bytes(bytes) ^ 1 << 63) as i64
}

/// RFC 3339 in UTC; a number where there is no such year.
fn time(ms: Timestamp) -> Json {
    jiff::Timestamp::from_millisecond(ms).map_or(json!(ms), |time| json!(time.to_string()))
}

/// A key, or the entry of a map: its parts, one part by itself. Bytes that are no parts, as other SDKs may name entries, are text.
fn parts_or_text(bytes: &[u8]) -> Json {
    let part = |part: &Value<'_>| match part {
        Value::Text(text) => json!(text),
        other => shown(*other),
    };
    match key::only_parts(bytes).as_deref() {
        None => text_or_hex(bytes),
        Some([one]) => part(one),
        Some(parts) => Json::Array(parts.iter().map(part).collect()),
    }
}

/// A typed value. Text that holds a JSON object or array, as structured values do by convention, is shown as that.
fn shown(value: Value<'_>) -> Json {
    match value {
        Value::Absent => Json::Null,
        Value::Text(text) if text.starts_with(['{', '[']) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => hex(bytes),
        Value::Int(int) => json!(int),
        Value::Float(float) => json!(float),
        Value::Boolean(boolean) => json!(boolean),
    }
}

/// Bytes whose type nobody told: text that a person can read, or hexadecimal.
fn text_or_hex(bytes: &[u8]) -> Json {
    readable(bytes).map_or_else(|| hex(bytes), |text| json!(text))
}

/// The same, and JSON as that.
fn json_or_hex(bytes: &[u8]) -> Json {
    readable(bytes).map_or_else(|| hex(bytes), |text| shown(Value::Text(text)))
}

fn readable(bytes: &[u8]) -> Option<&str> {
    let is_odd = |char: char| char.is_control() && !char.is_whitespace();
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains(is_odd))
}

fn hex(bytes: &[u8]) -> Json {
    json!({ "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{StateNumber, encode};
    use dataflow::aggregate::Function;
    use dataflow::checkpoint::AggregateEntry;
    use dataflow::key::push_varint;

    fn entry(kind: StateKind, aggregates: Vec<AggregateEntry>) -> StateEntry {
        let (operator, name) = ("op".into(), "st".into());
        StateEntry {
            number: 3,
            operator,
            name,
            kind,
            version: 1,
            forked_from: None,
            made_for: None,
            keyed_by: [].into(),
            aggregates,
        }
    }

    /// What is shown of a row beside operator and state.
    fn shown(kind: StateKind, row: &[u8], bytes: &[u8]) -> Json {
        let meta = RowMeta { expiry: NEVER, version: 1 };
        let mut json = line(&entry(kind, vec![]), row, meta, bytes).json;
        let object = json.as_object_mut().unwrap();
        assert_eq!((object.remove("operator"), object.remove("state")), (Some(json!("op")), Some(json!("st"))));
        json
    }

    fn told(kind: StateKind, group: u16, row: &[u8]) -> bool {
        is_told(kind, Address { group: KeyGroup(group), state: StateNumber(3), row })
    }

    fn parts(parts: &[Value<'_>]) -> Vec<u8> {
        let mut bytes = vec![];
        parts.iter().for_each(|&part| key::push_part(&mut bytes, part));
        bytes
    }

    fn keyed(key: &[u8], user: &[u8]) -> Vec<u8> {
        let mut row = vec![];
        push_varint(&mut row, key.len() as u64);
        [&row, key, user].concat()
    }

    fn value(value: Value<'_>) -> Vec<u8> {
        let mut bytes = vec![];
        encode(value, &mut bytes);
        bytes
    }

    fn pune() -> Vec<u8> {
        parts(&[Value::Text("Pune")])
    }

    const END: [u8; 8] = (60_000u64 ^ 1 << 63).to_be_bytes();

    #[test]
    fn values_and_items_are_shown_with_their_keys() {
        use StateKind::{List, Value as OfKey};
        let four = value(Value::Int(4));
        assert_eq!(shown(OfKey, &keyed(&pune(), b""), &four), json!({"key": "Pune", "value": 4}));
        let (two, text) = (parts(&[Value::Text("[1]"), Value::Int(-1)]), value(Value::Text("{\"a\":1}")));
        assert_eq!(shown(OfKey, &keyed(&two, b""), &text), json!({"key": ["[1]", -1], "value": {"a": 1}}));
        let item = keyed(&parts(&[Value::Boolean(true)]), &7u64.to_be_bytes());
        let bytes = value(Value::Bytes(&[255]));
        assert_eq!(shown(List, &item, &bytes), json!({"key": true, "index": 7, "value": {"hex": "ff"}}));
        assert!(told(List, 5, &item) && told(OfKey, 5, &item));
        assert!(!told(List, 5, &keyed(&pune(), b"")), "where a list begins and ends is no item");
    }

    #[test]
    fn entries_are_shown_as_what_their_author_named_them_by() {
        let entry =
            |named: &[u8]| shown(StateKind::Map, &keyed(&pune(), named), &value(Value::Float(0.5)))["entry"].clone();
        assert_eq!(entry(&parts(&[Value::Text("0")])), json!("0"));
        assert_eq!(entry(&parts(&[Value::Int(0)])), json!(0));
        assert_eq!(entry(&parts(&[Value::Text("north"), Value::Boolean(false)])), json!(["north", false]));
        assert_eq!(entry(b"north"), json!("north"), "named without an SDK");
        assert_eq!(entry(b"t\x05nort"), json!({"hex": "74056e6f7274"}), "parts that are cut short are none");
        assert_eq!(entry(b""), json!(""));
    }

    #[test]
    fn entry_of_a_broadcast_map_is_told_once_and_found_by_its_name() {
        let (name, meta) = (parts(&[Value::Text("Pune")]), RowMeta { expiry: NEVER, version: 1 });
        let row = keyed(b"", &name);
        let line = line(&entry(StateKind::BroadcastMap, vec![]), &row, meta, &value(Value::Int(4)));
        assert_eq!(line.json, json!({"operator": "op", "state": "st", "entry": "Pune", "value": 4}));
        assert_eq!(line.found_by, name);
        assert!(told(StateKind::BroadcastMap, 0, &row) && !told(StateKind::BroadcastMap, 1, &row));
    }

    #[test]
    fn timer_is_told_by_time_and_not_again_by_name() {
        let rest = [&pune()[..], &2u32.to_be_bytes(), b"tag", &(pune().len() as u32).to_be_bytes()].concat();
        let due = json!("1970-01-01T00:01:00Z");
        assert_eq!(
            shown(StateKind::TimersByTime, &[&END[..], &END, &rest].concat(), b"{\"a\":1}"),
            json!({"key": "Pune", "timer": 2, "tag": "tag", "due": due, "payload": {"a": 1}})
        );
        let later = (61_000u64 ^ 1 << 63).to_be_bytes();
        assert_eq!(
            shown(StateKind::TimersByTime, &[&later[..], &END, &rest].concat(), &7i64.to_le_bytes()),
            json!({"key": "Pune", "timer": 2, "tag": "tag", "due": due, "fires_at": "1970-01-01T00:01:01Z", "payload": {"hex": "0700000000000000"}})
        );
        assert!(told(StateKind::TimersByTime, 5, &rest) && !told(StateKind::TimersByName, 5, &rest));
    }

    #[test]
    fn windows_are_shown_by_column_where_their_aggregates_are_known() {
        let row = [&END[..], &pune()].concat();
        let count = AggregateEntry { column: "/rides".into(), function: Some(Function::Count), of: None };
        let bytes = [&3i64.to_le_bytes()[..], &[0; 4]].concat();
        // The version of a count alone: encoding 1, and 1 for what is counted.
        let meta = RowMeta { expiry: NEVER, version: 0x1001 };
        let with =
            |aggregates| line(&entry(StateKind::Windows, aggregates), &row, meta, &bytes).json["accumulator"].clone();
        assert_eq!(with(vec![count]), json!({"rides": 3}));
        assert_eq!(with(vec![]), json!({"hex": "030000000000000000000000"}));
        let own = AggregateEntry { column: "/own".into(), function: None, of: None };
        assert_eq!(with(vec![own]), json!({"own": {"hex": "0300000000000000"}}));
        let ends = &shown(StateKind::Windows, &row, &bytes)["window_end"];
        assert_eq!(*ends, json!("1970-01-01T00:01:00Z"));
        assert!(told(StateKind::Windows, 5, &row) && !told(StateKind::Windows, 5, &[&END[..], &[0xff]].concat()));
    }

    #[test]
    fn row_that_does_not_read_as_its_kind_is_shown_as_it_is() {
        assert_eq!(shown(StateKind::Windows, b"ab", b"c"), json!({"row": {"hex": "6162"}, "value": {"hex": "63"}}));
    }
}
