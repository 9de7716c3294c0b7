//! What a row sees of its key's state, and when it expires.

use millstream_sdk::prelude::*;
use millstream_sdk::testing::{Harness, JsonValue, Record, json};
use serde::{Deserialize, Serialize};

/// What a record tells the operator to do.
#[derive(Input)]
struct Order<'a> {
    act: &'a str,
    value: Option<i64>,
    name: Option<String>,
}

fn order(act: &str) -> Record {
    Record::json(json!({"act": act})).key("k")
}

fn put(value: i64) -> Record {
    Record::json(json!({"act": "put", "value": value})).key("k")
}

/// Puts, clears, and tells what it sees, of one value state however it is declared.
macro_rules! keeper {
    ($name:ident, $(#[$attribute:meta])*) => {
        #[derive(States)]
        struct $name {
            $(#[$attribute])*
            kept: Value<i64>,
        }

        impl Processor for $name {
            type Input = Order<'static>;
            type Output = Json<Option<i64>>;
            type Config = ();

            fn on_record(&self, (): &(), at: &mut Row<Self>, order: Order) -> Result<(), Bad> {
                match order.act {
                    "put" => self.kept.set(at, order.value.unwrap_or_default()),
                    "clear" => self.kept.clear(at),
                    "bad" => {
                        self.kept.set(at, -1);
                        return Err(Bad::new("told so"));
                    }
                    _ => {
                        let seen = self.kept.get(at)?;
                        at.emit(Json(seen));
                    }
                }
                Ok(())
            }
        }
    };
}

keeper!(Forever,);
keeper!(EventTime, #[ttl("10ms")]);
keeper!(EventTimeOnDemand, #[ttl("10ms")] #[on_demand]);
keeper!(ProcessingTime, #[ttl("10ms", clock = "processing_time")]);
keeper!(Renewed, #[ttl("10ms", renewed_by_reads)]);
keeper!(RenewedOnDemand, #[ttl("10ms", renewed_by_reads)] #[on_demand]);

/// What the records see, whether they come one in a call or many.
fn sees<P: Processor>(steps: impl Fn(&mut Harness<P>)) -> Vec<JsonValue> {
    let mut single = Harness::<P>::new(json!({})).replacing_instances();
    steps(&mut single);
    let mut batched = Harness::<P>::new(json!({})).rows_per_call(100);
    steps(&mut batched);
    assert_eq!(single.rows("main"), batched.rows("main"), "the answer depends on the size of batches");
    assert_eq!(single.dead(), batched.dead());
    single.rows("main")
}

#[test]
fn a_row_sees_what_the_rows_of_its_key_before_it_have_written() {
    let seen = sees::<Forever>(|harness| {
        harness.send_all([order("see"), put(1), order("see"), order("see").key("other"), put(2), order("see")]);
        harness.send_all([order("clear"), order("see")]);
    });
    assert_eq!(seen, [json!(null), json!(1), json!(null), json!(2), json!(null)]);
}

#[test]
fn nothing_of_a_bad_row_stays_and_the_rows_behind_it_are_judged_without_it() {
    let seen = sees::<Forever>(|harness| harness.send_all([put(1), order("bad"), order("see"), put(3), order("see")]));
    assert_eq!(seen, [json!(1), json!(3)]);
    let mut harness = Harness::<Forever>::new(json!({})).rows_per_call(100);
    harness.send_all([put(1), order("bad").at(7)]);
    assert_eq!(harness.state("kept", "k"), Some(json!(1)));
    assert_eq!((harness.dead()[0].time, harness.dead()[0].reason.as_str()), (7, "told so"));
}

/// A value is seen while its stamp (100 + 10) lies above both the row's time and the watermark.
fn event_time_sees<P: Processor>() -> Vec<JsonValue> {
    sees::<P>(|harness| {
        harness.send_all([put(1).at(100), order("see").at(109), order("see").at(110), order("see").at(5)]);
        harness.advance_watermark(109);
        harness.send(order("see").at(100));
        harness.advance_watermark(110);
        harness.send(order("see").at(100));
    })
}

#[test]
fn in_event_time_a_value_is_seen_until_its_stamp_by_row_and_watermark() {
    let expected = [json!(1), json!(null), json!(1), json!(1), json!(null)];
    assert_eq!(event_time_sees::<EventTime>(), expected);
    assert_eq!(event_time_sees::<EventTimeOnDemand>(), expected);
}

#[test]
fn writing_again_moves_the_stamp() {
    let seen = sees::<EventTime>(|harness| {
        harness.send_all([put(1).at(0), put(2).at(8), order("see").at(17), order("see").at(18)]);
    });
    assert_eq!(seen, [json!(2), json!(null)]);
}

#[test]
fn in_processing_time_only_the_clock_counts() {
    let seen = sees::<ProcessingTime>(|harness| {
        harness.send_all([put(1).at(0), order("see").at(1_000)]);
        harness.advance_watermark(5_000);
        harness.advance_clock(9);
        harness.send(order("see").at(1_000));
        harness.advance_clock(10);
        harness.send(order("see").at(0));
    });
    assert_eq!(seen, [json!(1), json!(1), json!(null)]);
}

#[test]
fn a_read_renews_where_asked() {
    let steps = [put(1).at(0), order("see").at(9), order("see").at(18), order("see").at(28)];
    let expected = [json!(1), json!(1), json!(null)];
    assert_eq!(sees::<Renewed>(|harness| harness.send_all(steps.clone())), expected);
    assert_eq!(sees::<RenewedOnDemand>(|harness| harness.send_all(steps.clone())), expected);
}

#[test]
#[should_panic(expected = "state and timers need a key")]
fn state_of_a_record_without_key_is_an_authors_mistake() {
    Harness::<Forever>::new(json!({})).send(Record::json(json!({"act": "see"})));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Trip {
    from: String,
    legs: Vec<(i64, f64)>,
}

/// One state of every type, changed by every record.
#[derive(States)]
struct Types {
    int: Value<i64>,
    small: Value<u8>,
    float: Value<f64>,
    single: Value<f32>,
    boolean: Value<bool>,
    text: Value<String>,
    bytes: Value<Vec<u8>>,
    wide: Value<u64>,
    trip: Value<Trip>,
    #[on_demand]
    later: Value<Trip>,
}

impl Processor for Types {
    type Input = ();
    type Output = ();
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, (): ()) -> Result<(), Bad> {
        let trip = Trip { from: "Pune".to_owned(), legs: Vec::new() };
        let mut seen = self.trip.get(at)?.unwrap_or(trip);
        assert_eq!(self.later.get(at)?, self.trip.get(at)?);
        seen.legs.push((at.time(), 0.5));
        self.later.set(at, seen.clone());
        self.trip.set(at, seen);
        self.int.set(at, self.int.get(at)?.unwrap_or(i64::MIN) + 1);
        self.small.set(at, self.small.get(at)?.unwrap_or(253) + 1);
        self.float.set(at, self.float.get(at)?.unwrap_or(0.1) * 2.0);
        self.single.set(at, self.single.get(at)?.unwrap_or(0.5) * 2.0);
        self.boolean.set(at, !self.boolean.get(at)?.unwrap_or(false));
        self.text.update(at, |text| text.push('é'))?;
        self.bytes.update(at, |bytes| bytes.push(0xff))?;
        self.wide.set(at, self.wide.get(at)?.unwrap_or(u64::MAX) - 1);
        Ok(())
    }
}

#[test]
fn every_type_comes_back_as_it_was_written() {
    for rows in [1, 2] {
        let mut types = Harness::<Types>::new(json!({})).rows_per_call(rows);
        types.send_all([Record::empty().key("k").at(1), Record::empty().key("k").at(2)]);
        let state = |name| types.state(name, "k").unwrap_or_default();
        assert_eq!(state("int"), json!(i64::MIN + 2));
        assert_eq!(state("small"), json!(255));
        assert_eq!(state("float"), json!(0.4));
        assert_eq!(state("single"), json!(2.0));
        assert_eq!(state("boolean"), json!(false));
        assert_eq!(state("text"), json!("éé"));
        assert_eq!(state("wide"), json!(u64::MAX - 2));
        assert_eq!(state("trip"), json!({"from": "Pune", "legs": [[1, 0.5], [2, 0.5]]}));
        assert_eq!(state("later"), state("trip"));
    }
}

/// Appends to a list and a map, and tells what is in them.
#[derive(States)]
struct Collections {
    #[ttl("10ms")]
    list: List<i64>,
    #[ttl("10ms")]
    map: Map<String, i64>,
    many: Map<i64, i64>,
    rules: Broadcast<String, i64>,
}

impl Processor for Collections {
    type Input = Order<'static>;
    type Output = Json<JsonValue>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, order: Order) -> Result<(), Bad> {
        let name = order.name.unwrap_or_default();
        let value = order.value.unwrap_or_default();
        match order.act {
            "append" => self.list.append(at, &value)?,
            "keep" => self.list.keep_last(at, value as u64),
            "insert" => self.map.insert(at, &name, &value)?,
            "remove" => self.map.remove(at, name.as_str()),
            "fill" => (0..value).rev().try_for_each(|entry| self.many.insert(at, &entry, &(entry * entry)))?,
            "rule" => self.rules.insert(at, &name, &value)?,
            _ => {
                let list = (self.list.len(at), self.list.all(at)?);
                let map = (self.map.all(at)?, self.map.get(at, "b")?);
                at.emit(Json(json!({"list": list, "map": map, "rules": self.rules.all(at)?})));
            }
        }
        if order.act == "fill" {
            let all = self.many.all(at)?;
            let squares = all.iter().enumerate().all(|(place, entry)| *entry == (place as i64, (place * place) as i64));
            assert!(squares && all.len() as i64 == value, "all entries, in the order of numbers, over several pages");
            assert_eq!(self.many.page(at, Some(&3), 2)?, [(4, 16), (5, 25)]);
        }
        Ok(())
    }
}

fn named(act: &str, name: &str, value: i64) -> Record {
    Record::json(json!({"act": act, "name": name, "value": value})).key("k")
}

#[test]
fn items_of_a_list_and_entries_of_a_map_expire_one_by_one() {
    let mut harness = Harness::<Collections>::new(json!({}));
    harness.send_all([named("append", "", 1).at(0), named("append", "", 2).at(5), named("append", "", 3).at(6)]);
    harness.send_all([named("insert", "b", 1).at(0), named("insert", "a", 2).at(5)]);
    harness.send_all([order("see").at(9), order("see").at(10)]);
    let first = json!({"list": [3, [1, 2, 3]], "map": [[["a", 2], ["b", 1]], 1], "rules": []});
    let second = json!({"list": [2, [2, 3]], "map": [[["a", 2]], null], "rules": []});
    assert_eq!(harness.rows("main"), [first, second]);
    harness.send_all([named("keep", "", 1).at(10), named("remove", "a", 0).at(10)]);
    assert_eq!(harness.state("list", "k"), Some(json!([3])));
    assert_eq!(harness.state("map", "k"), Some(json!({"b": 1})), "expired by the row's time, not yet by the watermark");
}

#[test]
fn a_large_map_is_read_page_by_page_in_order() {
    Harness::<Collections>::new(json!({})).send(named("fill", "", 600));
}

#[test]
fn a_broadcast_map_is_the_same_for_all_keys() {
    let mut harness = Harness::<Collections>::new(json!({}));
    harness.send_broadcast(named("rule", "max", 5));
    harness.send(order("see").key("other"));
    assert_eq!(harness.rows("main")[0]["rules"], json!([["max", 5]]));
}

#[test]
#[should_panic(expected = "written only by rows of a broadcast input")]
fn a_keyed_row_cannot_write_a_broadcast_map() {
    Harness::<Collections>::new(json!({})).send(named("rule", "max", 5));
}

#[derive(States)]
struct Migrated {
    #[version(2)]
    cents: Value<i64>,
    #[version(2)]
    names: Value<Vec<String>>,
}

impl Processor for Migrated {
    type Input = ();
    type Output = ();
    type Config = ();

    fn on_record(&self, (): &(), _: &mut Row<Self>, (): ()) -> Result<(), Bad> {
        Ok(())
    }

    fn migrate(&self, old: &mut millstream_sdk::state::Migrating<'_>) -> Result<(), Bad> {
        if old.is(&self.cents) && old.from_version() == 1 {
            return old.convert(|dollars: f64| (dollars * 100.0) as i64);
        }
        assert!(old.is(&self.names) && old.state() == "names");
        old.convert(|name: String| vec![name])
    }
}

#[test]
fn values_of_an_older_version_are_converted_one_for_one() {
    let harness = Harness::<Migrated>::new(json!({}));
    assert_eq!(harness.migrate("cents", 1, &[1.5, 2.0]), Ok(vec![Some(json!(150)), Some(json!(200))]));
    assert_eq!(harness.migrate("names", 1, &["Ann".to_owned()]), Ok(vec![Some(json!("[\"Ann\"]"))]));
    assert!(harness.migrate("cents", 1, &[true]).is_err());
    let unready = Harness::<Forever>::new(json!({})).migrate("kept", 1, &[1]);
    let reason = "the operator does not know how to migrate state `kept` from version 1: implement `migrate`";
    assert_eq!(unready, Err(reason.to_owned()));
}
