//! What is sent: columns, whole values, records that pass, side outputs, and what differs from the origin.

use millstream_sdk::prelude::*;
use millstream_sdk::testing::{Harness, Record, json};

#[derive(Input)]
struct Order<'a> {
    act: &'a str,
}

fn order(act: &str, time: i64) -> Record {
    Record::json(json!({"act": act})).key("k").at(time)
}

#[derive(Output)]
struct Line<'a> {
    text: &'a str,
    length: Option<u32>,
    share: f32,
    even: bool,
    raw: Vec<u8>,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let length = (text != "short").then_some(text.len() as u32);
        Line { text, length, share: 0.5, even: text.len().is_multiple_of(2), raw: b"raw".to_vec() }
    }
}

#[derive(States)]
struct Lines {
    late: Side<()>,
    notes: Side<Json<Vec<i64>>>,
    bytes: Side<Vec<u8>>,
    lines: Side<Line<'static>>,
}

impl Processor for Lines {
    type Input = Order<'static>;
    type Output = Line<'static>;
    type Config = ();
    const WHOLE_VALUES: bool = true;
    const HEADERS: bool = true;

    fn on_record(&self, (): &(), at: &mut Row<Self>, order: Order) -> Result<(), Bad> {
        if at.is_late() {
            self.late.pass(at);
            return Ok(());
        }
        match order.act {
            "earlier" => at.emit(Emission::of(Line::of("earlier")).at(at.time() - 5)),
            "retract" => at.emit(Emission::of(Line::of("retract")).retract()),
            "headers" => {
                let copied = at.header("trace").unwrap_or_default().to_vec();
                at.emit(Emission::of(Line::of("headers")).header("trace", copied).header("by", "lines"));
            }
            "same change" => at.emit(Emission::of(Line::of("same change")).change(at.change())),
            "value" => self.bytes.emit(at, at.value().unwrap_or(b"none")),
            "notes" => {
                self.notes.emit(at, Json(vec![at.time(), at.now()]));
                self.lines.emit(at, Line::of("aside"));
            }
            text => at.emit(Line::of(text)),
        }
        Ok(())
    }
}

#[test]
fn the_columns_of_a_row_arrive_as_they_were_given() {
    let mut lines = Harness::<Lines>::new(json!({}));
    lines.send_all([order("long", 1), order("short", 2)]);
    let long = json!({"text": "long", "length": 4, "share": 0.5, "even": true, "raw": "raw"});
    let short = json!({"text": "short", "length": null, "share": 0.5, "even": false, "raw": "raw"});
    assert_eq!(lines.rows("main"), [long, short]);
}

#[test]
fn timestamp_change_and_headers_differ_from_the_origin_only_where_told() {
    for rows in [1, 100] {
        let mut lines = Harness::<Lines>::new(json!({})).rows_per_call(rows);
        let acts = ["plain", "earlier", "retract", "headers", "plain"];
        lines.send_all(acts.map(|act| order(act, 20).header("trace", "t1")));
        lines.send(order("same change", 20).retract());
        let seen: Vec<_> = lines.sent().iter().map(|sent| (sent.time, sent.change)).collect();
        let (insert, retract) = (Change::Insert, Change::Retract);
        let expected = [(20, insert), (15, insert), (20, retract), (20, insert), (20, insert), (20, retract)];
        assert_eq!(seen, expected);
        let headers: Vec<_> = lines.sent().iter().map(|sent| sent.headers.len()).collect();
        assert_eq!(headers, [0, 0, 0, 2, 0, 0]);
        assert_eq!(lines.sent()[3].headers[0], ("trace".to_owned(), b"t1".to_vec()));
        assert_eq!(lines.sent()[0].key().text(), Some("k"));
    }
}

#[test]
fn a_late_record_passes_untouched_to_a_side_output() {
    let mut lines = Harness::<Lines>::new(json!({}));
    lines.advance_watermark(10);
    lines.send_all([order("plain", 10), order("plain", 9).retract().header("a", "b")]);
    let late: Vec<_> = lines.sent().iter().filter(|sent| sent.port == "late").collect();
    assert_eq!(late.len(), 1);
    assert_eq!((late[0].time, late[0].change, late[0].passed), (9, Change::Retract, true));
    assert_eq!(late[0].value, json!({"act": "plain"}));
    assert_eq!(late[0].headers, [("a".to_owned(), b"b".to_vec())]);
}

#[test]
fn side_outputs_carry_rows_of_their_own() {
    let mut lines = Harness::<Lines>::new(json!({}));
    lines.advance_clock(7);
    lines.send_all([order("notes", 3), order("value", 4)]);
    assert_eq!(lines.rows("notes"), [json!([3, 7])]);
    assert_eq!(lines.rows("lines")[0]["text"], json!("aside"));
    assert_eq!(lines.rows("bytes"), [json!({"act": "value"})]);
    assert_eq!(lines.rows("main").len(), 0);
}

#[derive(States)]
struct Speaks {
    seen: Counter,
    last: Gauge,
    sizes: Histogram,
}

impl Processor for Speaks {
    type Input = Order<'static>;
    type Output = ();
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, order: Order) -> Result<(), Bad> {
        self.seen.add(at, 2);
        self.last.set(at, at.time() as f64);
        self.sizes.observe(at, order.act.len() as f64);
        millstream_sdk::warn!("{} at {}", order.act, at.time());
        if order.act == "bad" { Err(std::fmt::Error.into()) } else { Ok(()) }
    }
}

#[test]
fn metrics_add_up_and_lines_are_logged() {
    let mut speaks = Harness::<Speaks>::new(json!({})).rows_per_call(100);
    speaks.send_all([order("one", 1), order("three", 2)]);
    assert_eq!((speaks.metric("seen"), speaks.metric("last")), (4.0, 2.0));
    assert_eq!(speaks.observed("sizes"), [3.0, 5.0]);
    let warn = millstream_sdk::log::Level::Warn;
    assert_eq!(speaks.log(), [(warn, "one at 1".to_owned()), (warn, "three at 2".to_owned())]);
}

#[test]
fn any_error_makes_a_row_bad_with_its_text() {
    let mut speaks = Harness::<Speaks>::new(json!({}));
    speaks.send(order("bad", 1));
    assert_eq!(speaks.dead()[0].reason, std::fmt::Error.to_string());
}
