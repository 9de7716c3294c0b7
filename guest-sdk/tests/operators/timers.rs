//! When timers fire, and what becomes of those set, cleared or replaced meanwhile.

use millstream_sdk::prelude::*;
use millstream_sdk::testing::{Harness, JsonValue, Record, json};

#[derive(Input)]
struct Order<'a> {
    act: &'a str,
    time: i64,
    tag: Option<&'a str>,
}

fn order(act: &str, time: i64) -> Record {
    Record::json(json!({"act": act, "time": time})).key("k")
}

fn tagged(act: &str, tag: &str, time: i64) -> Record {
    Record::json(json!({"act": act, "time": time, "tag": tag})).key("k")
}

/// Sets and clears timers as told; a timer with a payload does, when it fires, what the payload says.
#[derive(States)]
struct Alarm {
    #[event_time]
    event: Timer,
    #[processing_time]
    clock: Timer,
}

impl Processor for Alarm {
    type Input = Order<'static>;
    type Output = Json<(String, i64)>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, order: Order) -> Result<(), Bad> {
        let tag = order.tag.unwrap_or_default();
        match order.act {
            "set" => self.event.set_tagged(at, tag, order.time),
            "clear" => self.event.clear_tagged(at, tag),
            "clock" => self.clock.set(at, order.time),
            payload => self.event.set_with(at, tag, order.time, payload),
        }
        Ok(())
    }

    fn on_timer(&self, (): &(), at: &mut Row<Self>, fired: Fired) -> Result<(), Bad> {
        let name = if fired.is(&self.clock) { "clock" } else { "event" };
        let tag = String::from_utf8_lossy(fired.tag()).into_owned();
        at.emit(Json((format!("{name} {tag}"), at.time())));
        match fired.payload() {
            b"again" => self.event.set_tagged(at, fired.tag(), at.time() + 1),
            b"clear b" => self.event.clear_tagged(at, "b"),
            b"set b later" => self.event.set_tagged(at, "b", 1_000),
            b"bad" => return Err(Bad::new("told so")),
            _ => {}
        }
        Ok(())
    }
}

/// What fires, whether firings come one in a call or many.
fn fires(steps: impl Fn(&mut Harness<Alarm>)) -> Vec<JsonValue> {
    let mut single = Harness::<Alarm>::new(json!({})).replacing_instances();
    steps(&mut single);
    let mut batched = Harness::<Alarm>::new(json!({})).rows_per_call(100);
    steps(&mut batched);
    assert_eq!(single.rows("main"), batched.rows("main"), "what fires depends on the size of batches");
    assert_eq!(single.timers(), batched.timers());
    assert_eq!(single.dead(), batched.dead());
    single.rows("main")
}

#[test]
fn an_event_time_timer_fires_when_the_watermark_reaches_it() {
    let fired = fires(|alarm| {
        alarm.send(order("set", 10).at(3));
        alarm.advance_watermark(9);
        assert_eq!(alarm.sent().len(), 0);
        alarm.advance_watermark(10);
        alarm.advance_watermark(20);
    });
    assert_eq!(fired, [json!(["event ", 10])]);
}

#[test]
fn a_processing_time_timer_fires_by_the_clock_alone() {
    let fired = fires(|alarm| {
        alarm.send(order("clock", 10));
        alarm.advance_watermark(50);
        assert_eq!(alarm.sent().len(), 0);
        alarm.advance_clock(10);
    });
    assert_eq!(fired, [json!(["clock ", 10])]);
}

#[test]
fn setting_again_replaces_and_clearing_removes() {
    let fired = fires(|alarm| {
        alarm.send_all([order("set", 10), order("set", 20), tagged("set", "b", 5), tagged("clear", "b", 0)]);
        alarm.send_all([tagged("set", "c", 7), tagged("clear", "c", 0), tagged("set", "c", 8)]);
        alarm.end();
    });
    assert_eq!(fired, [json!(["event c", 8]), json!(["event ", 20])]);
}

#[test]
fn due_timers_fire_in_time_order_over_all_keys() {
    let fired = fires(|alarm| {
        alarm.send_all([tagged("set", "late", 9), tagged("set", "early", 2).key("other"), tagged("set", "mid", 5)]);
        alarm.end();
    });
    assert_eq!(fired, [json!(["event early", 2]), json!(["event mid", 5]), json!(["event late", 9])]);
}

#[test]
fn a_timer_set_while_timers_fire_waits_for_the_next_advance() {
    let fired = fires(|alarm| {
        alarm.send(order("again", 10));
        alarm.advance_watermark(30);
        assert_eq!(alarm.sent().len(), 1);
        assert_eq!(alarm.timers()[0].at, 11);
        alarm.advance_watermark(31);
    });
    assert_eq!(fired, [json!(["event ", 10]), json!(["event ", 11])]);
}

#[test]
fn a_firing_that_an_earlier_one_has_removed_or_moved_does_not_happen() {
    let fired = fires(|alarm| {
        alarm.send_all([tagged("clear b", "a", 1), tagged("set", "b", 2)]);
        alarm.advance_watermark(10);
    });
    assert_eq!(fired, [json!(["event a", 1])]);
    let fired = fires(|alarm| {
        alarm.send_all([tagged("set b later", "a", 1), tagged("set", "b", 2)]);
        alarm.advance_watermark(10);
        assert_eq!(alarm.timers()[0].at, 1_000);
    });
    assert_eq!(fired, [json!(["event a", 1])]);
}

#[test]
fn a_bad_firing_is_dead_and_counts_as_fired() {
    let fired = fires(|alarm| {
        alarm.send_all([tagged("bad", "a", 1), tagged("set", "b", 2)]);
        alarm.end();
        assert_eq!(alarm.timers(), []);
        assert_eq!((alarm.dead()[0].time, alarm.dead()[0].reason.as_str()), (1, "told so"));
    });
    assert_eq!(fired, [json!(["event b", 2])]);
}

#[test]
fn a_timer_for_a_time_already_reached_fires_at_the_next_advance() {
    let fired = fires(|alarm| {
        alarm.advance_watermark(100);
        alarm.send(order("set", 10).at(120));
        assert_eq!(alarm.sent().len(), 0);
        alarm.advance_watermark(101);
    });
    assert_eq!(fired, [json!(["event ", 10])]);
}
