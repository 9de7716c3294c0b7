//! The derives tell the host what an operator is.

use millstream_sdk::ValueType;
use millstream_sdk::bindings::types::{Clock, Description, StateKind, Ttl};
use millstream_sdk::prelude::*;
use millstream_sdk::testing::{Harness, Record, json};
use serde::{Deserialize, Serialize};

#[derive(Input)]
struct Ride<'a> {
    #[at("/id")]
    ride: &'a str,
    fare: Option<f64>,
    #[at("/driver/age")]
    age: u8,
    r#type: String,
}

#[derive(Output)]
struct Fare<'a> {
    city: &'a str,
    #[name("sum")]
    total: Option<f64>,
    rides: u32,
}

#[derive(Clone, Serialize, Deserialize)]
struct Route {
    stops: Vec<String>,
}

#[derive(States)]
#[expect(dead_code, reason = "most are only declared")]
struct Everything {
    #[ttl("1d12h")]
    count: Value<u32>,
    #[ttl("90s", clock = "processing_time", renewed_by_reads)]
    #[version(3)]
    route: Value<Route>,
    #[on_demand]
    #[name("picture")]
    large: Value<Vec<u8>>,
    list: List<bool>,
    #[ttl("5ms")]
    map: Map<(String, i64), f64>,
    rules: Broadcast<String, String>,
    #[event_time]
    quiet: Timer,
    #[processing_time]
    tick: Timer,
    late: Side<()>,
    odd: Side<Fare<'static>>,
    seen: Counter,
    #[cache]
    cached: std::cell::Cell<u64>,
}

impl Processor for Everything {
    type Input = Ride<'static>;
    type Output = Fare<'static>;
    type Config = ();

    fn config_schema() -> Option<String> {
        Some("{}".to_owned())
    }

    fn on_record(&self, (): &(), at: &mut Row<Self>, _: Ride) -> Result<(), Bad> {
        self.seen.add(at, 1);
        self.cached.set(self.cached.get() + 1);
        Ok(())
    }
}

fn described<P: Processor>() -> Description {
    millstream_sdk::export::describe::<P>()
}

#[test]
fn states_declare_kind_type_ttl_version_and_prefetch() {
    let states = described::<Everything>().states;
    let ttl = |milliseconds, clock, renewed_by_reads| Some(Ttl { milliseconds, clock, renewed_by_reads });
    let seen: Vec<_> = states
        .iter()
        .map(|state| (state.name.as_str(), state.kind, state.value_type, state.ttl, state.version, state.prefetch))
        .collect();
    let expected = [
        ("count", StateKind::ValueState, ValueType::Int, ttl(129_600_000, Clock::EventTime, false), 1, true),
        ("route", StateKind::ValueState, ValueType::Text, ttl(90_000, Clock::ProcessingTime, true), 3, true),
        ("picture", StateKind::ValueState, ValueType::Bytes, None, 1, false),
        ("list", StateKind::ListState, ValueType::Boolean, None, 1, false),
        ("map", StateKind::MapState, ValueType::Float, ttl(5, Clock::EventTime, false), 1, false),
        ("rules", StateKind::BroadcastMap, ValueType::Text, None, 1, false),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn timers_and_side_outputs_are_known_by_their_fields_names() {
    let Description { timers, outputs, inputs, config_schema, .. } = described::<Everything>();
    let timers: Vec<_> = timers.iter().map(|timer| (timer.name.as_str(), timer.clock)).collect();
    assert_eq!(timers, [("quiet", Clock::EventTime), ("tick", Clock::ProcessingTime)]);
    let names: Vec<_> = outputs.iter().map(|output| (output.name.as_str(), output.columns.len())).collect();
    assert_eq!(names, [("main", 3), ("late", 0), ("odd", 3)]);
    assert_eq!(inputs, ["input"]);
    assert_eq!(config_schema.as_deref(), Some("{}"));
}

#[test]
fn fields_declare_pointer_type_and_whether_they_are_required() {
    let fields = described::<Everything>().fields;
    let seen: Vec<_> = fields
        .iter()
        .map(|field| (field.name.as_str(), field.pointer.as_str(), field.value_type, field.required, field.input))
        .collect();
    let expected = [
        ("ride", "/id", ValueType::Text, true, None),
        ("fare", "/fare", ValueType::Float, false, None),
        ("age", "/driver/age", ValueType::Int, true, None),
        ("type", "/type", ValueType::Text, true, None),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn outputs_declare_their_columns() {
    let columns = &described::<Everything>().outputs[0].columns;
    let seen: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.value_type)).collect();
    assert_eq!(seen, [("city", ValueType::Text), ("sum", ValueType::Float), ("rides", ValueType::Int)]);
}

#[test]
fn a_record_without_a_required_field_never_reaches_the_operator() {
    let mut harness = Harness::<Everything>::new(json!({}));
    harness.send(Record::json(json!({"id": "r1", "type": "day"})));
    harness.send(Record::json(json!({"id": "r1", "type": "day", "driver": {"age": "old"}})));
    harness.send(Record::json(json!({"id": "r1", "type": "day", "driver": {"age": 30}, "fare": null})));
    let reasons: Vec<_> = harness.dead().iter().map(|dead| dead.reason.as_str()).collect();
    assert_eq!(reasons, ["/driver/age is missing", "/driver/age is \"old\", not of type ValueType::Int"]);
    assert_eq!(harness.metric("seen"), 1.0);
}

#[test]
fn a_value_that_does_not_fit_makes_the_row_bad() {
    let mut harness = Harness::<Everything>::new(json!({}));
    harness.send(Record::json(json!({"id": "r1", "type": "day", "driver": {"age": 300}})));
    assert_eq!(harness.dead()[0].reason, "/driver/age: 300 does not fit into u8");
}

#[derive(Input)]
struct Pickup {
    ride: String,
    at: i64,
}

#[derive(Input)]
struct Rule {
    name: String,
}

#[derive(Input)]
enum Either {
    Pickup(Pickup),
    PriceRule(Rule),
}

#[derive(States)]
struct Both {}

impl Processor for Both {
    type Input = Either;
    type Output = Json<String>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, input: Either) -> Result<(), Bad> {
        match input {
            Either::Pickup(Pickup { ride, at: time }) => at.emit(Json(format!("{ride} at {time}"))),
            Either::PriceRule(Rule { name }) => at.emit(Json(name)),
        }
        Ok(())
    }
}

#[test]
fn each_variant_of_an_enum_is_an_input_with_its_own_fields() {
    let Description { inputs, fields, .. } = described::<Both>();
    assert_eq!(inputs, ["pickup", "price_rule"]);
    let fields: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.input)).collect();
    assert_eq!(fields, [("ride", Some(0)), ("at", Some(0)), ("name", Some(1))]);
    let mut both = Harness::<Both>::new(json!({})).rows_per_call(10);
    let pickup = Record::json(json!({"ride": "r1", "at": 5}));
    let rule = Record::fields::<Either>(&Either::PriceRule(Rule { name: "rush".to_owned() }));
    both.send_all([pickup.clone(), rule, pickup]);
    assert_eq!(both.rows("main"), [json!("r1 at 5"), json!("rush"), json!("r1 at 5")]);
}

#[derive(Deserialize)]
struct Limits {
    day: f64,
    #[serde(default)]
    night: f64,
}

#[derive(States)]
struct Configured {}

impl Processor for Configured {
    type Input = ();
    type Output = ();
    type Config = Limits;

    fn open(&mut self, limits: &Limits, context: &Context) -> Result<(), Bad> {
        assert_eq!((context.task, context.parallelism), (0, 1));
        if limits.day < limits.night { Err(Bad::new("the day's limit lies below the night's")) } else { Ok(()) }
    }

    fn on_record(&self, _: &Limits, _: &mut Row<Self>, (): ()) -> Result<(), Bad> {
        Ok(())
    }
}

#[test]
fn a_configuration_is_read_with_serde_and_may_be_refused() {
    assert!(Harness::<Configured>::open(json!({"day": 3.0})).is_ok());
    let refused = |config| Harness::<Configured>::open(config).err().unwrap_or_default();
    assert_eq!(refused(json!({"day": 1.0, "night": 2.0})), "the day's limit lies below the night's");
    assert!(refused(json!({})).contains("missing field `day`"));
    assert!(refused(json!({"day": "much"})).starts_with("reading the operator's configuration: "));
}
