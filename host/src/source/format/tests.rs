//! Tests of the formats: each kind of line, good and bad.

use super::*;
use crate::source::UNKNOWN_ARRIVAL;
use dataflow::record::{Field, Schema, Value, ValueType};

fn decode(format: Format, text: &[u8], fields: &[(&str, ValueType)], whole_values: bool) -> Decoded {
    let time = TimeField {
        field: if format == Format::Lines { String::new() } else { "/t".into() },
        format: TimeFormat::UnixMs,
    };
    let settings = DecoderSettings { format, event_time: Some(time), arrival: None };
    let schema =
        Schema { fields: fields.iter().map(|&(pointer, value_type)| Field::new(pointer, value_type)).collect() };
    let mut decoder = settings.decoder(&Projection { schema, whole_values });
    let (mut from, mut spans) = (0, vec![]);
    for (line, record) in text.split(|&byte| byte == b'\n').enumerate() {
        spans.push(Span { from, to: from + record.len() as u32, line: line as u64 + 1 });
        from += record.len() as u32 + 1;
    }
    decoder.decode(&Bytes::copy_from_slice(text), &spans).unwrap()
}

fn json(text: &str, fields: &[(&str, ValueType)]) -> Decoded {
    decode(Format::Json, text.as_bytes(), fields, false)
}

#[test]
fn wanted_fields_come_out_typed() {
    let fields = [
        ("/city", ValueType::Scalar),
        ("/city", ValueType::Text),
        ("/fare", ValueType::Float),
        ("/seats", ValueType::Int),
        ("/paid", ValueType::Boolean),
        ("/stops/1/name", ValueType::Text),
    ];
    let decoded = json(
        r#"{"t":1754038805000,"city":"Pune","fare":12,"seats":2.0,"paid":true,"stops":[{"name":"a"},{"name":"b\n\u00e9"}]}"#,
        &fields,
    );
    let row: Vec<_> = decoded.batch.columns.iter().map(|column| column.get(0)).collect();
    let expected = [
        Value::Text("Pune"),
        Value::Text("Pune"),
        Value::Float(12.0),
        Value::Int(2),
        Value::Boolean(true),
        Value::Text("b\né"),
    ];
    assert_eq!(row, expected);
    assert_eq!(decoded.batch.timestamps, [1_754_038_805_000]);
    assert!(decoded.batch.faults.is_empty());
}

#[test]
fn field_that_does_not_fit_is_absent_and_says_what_was_found() {
    let cases = [
        (r#""x""#, ValueType::Int, "text"),
        ("1", ValueType::Text, "a number"),
        ("1.5", ValueType::Int, "a number with a fraction"),
        ("9223372036854775808", ValueType::Int, "a number out of range"),
        ("9223372036854775808", ValueType::Scalar, "a number out of range"),
        ("1e999", ValueType::Float, "a number out of range"),
        ("true", ValueType::Float, "a boolean"),
        ("{}", ValueType::Scalar, "an object"),
        ("[1]", ValueType::Text, "an array"),
        (r#""\ud800""#, ValueType::Text, "text with half a surrogate pair"),
    ];
    for (value, value_type, found) in cases {
        let decoded = json(&format!(r#"{{"t":1,"v":{value}}}"#), &[("/v", value_type)]);
        assert_eq!(decoded.batch.columns[0].get(0), Value::Absent, "{value}");
        assert_eq!(decoded.batch.faults.iter().map(|fault| fault.found).collect::<Vec<_>>(), [found], "{value}");
    }
    for absent in [r#"{"t":1}"#, r#"{"t":1,"v":null}"#, r#"{"t":1,"v":1,"v":null}"#] {
        let decoded = json(absent, &[("/v", ValueType::Int)]);
        assert_eq!((decoded.batch.columns[0].get(0), decoded.batch.faults.len()), (Value::Absent, 0), "{absent}");
    }
}

#[test]
fn key_keeps_the_type_it_has_in_the_data() {
    let decoded = json(
        "{\"t\":1,\"k\":1}\n{\"t\":1,\"k\":1.0}\n{\"t\":1,\"k\":\"1\"}\n{\"t\":1,\"k\":false}",
        &[("/k", ValueType::Scalar)],
    );
    let keys: Vec<_> = (0..4).map(|row| decoded.batch.columns[0].get(row)).collect();
    assert_eq!(keys, [Value::Int(1), Value::Float(1.0), Value::Text("1"), Value::Boolean(false)]);
}

#[test]
fn unreadable_lines_are_put_aside_and_the_others_kept() {
    let text = b"{\"t\":1}\nnot json\n{\"t\":2}{}\n{\"t\":\"x\"}\n{}\n{\"t\":3,\"\xff\":1}\n[]\n{\"t\":4}";
    let decoded = decode(Format::Json, text, &[], false);
    assert_eq!(decoded.batch.timestamps, [1, 4]);
    assert_eq!(decoded.places, [1, 8]);
    let dead: Vec<_> = decoded.dead.iter().map(|letter| (letter.place.unwrap(), letter.reason.as_str())).collect();
    assert_eq!(
        dead,
        [
            (2, "not JSON: expected ident at byte 2"),
            (3, "not JSON: trailing characters at byte 8"),
            (4, "`/t` is `\"x\"`, which is no time in the format unix_ms"),
            (5, "`/t` is missing: the record has no time"),
            (6, "not UTF-8: byte 9 of the record"),
            (7, "`/t` is missing: the record has no time"),
        ]
    );
    assert_eq!(decoded.dead[4].value.as_deref(), Some(&b"{\"t\":3,\"\xff\":1}"[..]));
}

#[test]
fn whole_value_is_a_span_of_the_read_buffer() {
    let decoded = decode(Format::Json, b"{\"t\":1}\n{\"t\":2}", &[("", ValueType::Text)], true);
    assert_eq!(decoded.batch.raw.as_ref().unwrap().get(1), Some(&b"{\"t\":2}"[..]));
    assert_eq!(decoded.batch.columns[0].get(0), Value::Text("{\"t\":1}"));
}

#[test]
fn arrival_stands_in_for_a_missing_event_time_setting() {
    let arrival = TimeField { field: "/at".into(), format: TimeFormat::Rfc3339 };
    let settings = DecoderSettings { format: Format::Json, event_time: None, arrival: Some(arrival) };
    settings.check().unwrap();
    let mut decoder = settings.decoder(&Projection::default());
    let text = br#"{"at":"1970-01-01T00:00:01Z"}"#;
    let decoded =
        decoder.decode(&Bytes::from_static(text), &[Span { from: 0, to: text.len() as u32, line: 1 }]).unwrap();
    assert_eq!((decoded.batch.timestamps, decoded.arrivals), (vec![1000], vec![1000]));
}

#[test]
fn records_of_a_source_without_any_time_have_all_the_same() {
    for format in [Format::Json, Format::Lines] {
        let settings = DecoderSettings { format, event_time: None, arrival: None };
        settings.check().unwrap();
        let text = b"{}[1]";
        let spans = [(0, 2), (2, 5)].map(|(from, to)| Span { from, to, line: 1 });
        let decoded = settings.decoder(&Projection::default()).decode(&Bytes::from_static(text), &spans).unwrap();
        assert_eq!((decoded.batch.timestamps, decoded.arrivals, decoded.dead), (vec![0, 0], vec![], vec![]));
    }
}

#[test]
fn record_without_event_time_leaves_no_arrival_behind() {
    let time = |field: &str| Some(TimeField { field: field.into(), format: TimeFormat::UnixMs });
    let settings = DecoderSettings { format: Format::Json, event_time: time("/t"), arrival: time("/at") };
    let text = b"{\"at\":1}{\"at\":2,\"t\":1}{\"t\":3,\"at\":true}";
    let spans = [(0, 8), (8, 22), (22, 39)].map(|(from, to)| Span { from, to, line: 1 });
    let decoded = settings.decoder(&Projection::default()).decode(&Bytes::from_static(text), &spans).unwrap();
    assert_eq!((decoded.batch.timestamps, decoded.arrivals), (vec![1], vec![2]));
    let reasons: Vec<_> = decoded.dead.iter().map(|letter| letter.reason.as_str()).collect();
    assert_eq!(
        reasons,
        ["`/t` is missing: the record has no time", "`/at` is `true`, which is no time in the format unix_ms"]
    );
}

#[test]
fn arrival_of_a_record_that_does_not_say_it_is_unknown_unless_it_is_the_only_time() {
    let time = |field: &str| Some(TimeField { field: field.into(), format: TimeFormat::UnixMs });
    let text = b"{\"t\":3}{\"t\":4,\"at\":null}{\"t\":5,\"at\":6}";
    let spans = [(0, 7), (7, 24), (24, 38)].map(|(from, to)| Span { from, to, line: 1 });
    let decode = |event_time| {
        let settings = DecoderSettings { format: Format::Json, event_time, arrival: time("/at") };
        settings.decoder(&Projection::default()).decode(&Bytes::from_static(text), &spans).unwrap()
    };
    let both = decode(time("/t"));
    assert_eq!((both.batch.timestamps, both.dead.len()), (vec![3, 4, 5], 0));
    assert_eq!(both.arrivals, [UNKNOWN_ARRIVAL, UNKNOWN_ARRIVAL, 6]);
    let only = decode(None);
    assert_eq!((only.batch.timestamps, only.arrivals, only.dead.len()), (vec![6], vec![6], 2));
}

#[test]
fn csv_fields_are_typed_by_their_columns() {
    let text = b"t,city,fare,seats,paid,note,pane_index\n1,Pune,12.5,2,true,,7\n2,\"a \"\"b\"\", c\",x,2.5,maybe,\"\",inf\n3,Pune,1\n";
    let fields = [
        ("/city", ValueType::Scalar),
        ("/fare", ValueType::Float),
        ("/seats", ValueType::Int),
        ("/paid", ValueType::Boolean),
        ("/note", ValueType::Text),
        ("/pane/index", ValueType::Int),
        ("/nowhere", ValueType::Text),
    ];
    let decoded = decode(Format::Csv, text, &fields, false);
    let row = |row| decoded.batch.columns.iter().map(|column| column.get(row)).collect::<Vec<_>>();
    assert_eq!(
        row(0),
        [
            Value::Text("Pune"),
            Value::Float(12.5),
            Value::Int(2),
            Value::Boolean(true),
            Value::Absent,
            Value::Int(7),
            Value::Absent
        ]
    );
    assert_eq!(
        row(1),
        [
            Value::Text("a \"b\", c"),
            Value::Absent,
            Value::Absent,
            Value::Absent,
            Value::Text(""),
            Value::Absent,
            Value::Absent
        ]
    );
    let found: Vec<_> = decoded.batch.faults.iter().map(|fault| (fault.row, fault.column, fault.found)).collect();
    assert_eq!(found, [(1, 1, "text"), (1, 2, "a number with a fraction"), (1, 3, "text"), (1, 5, "text")]);
    assert_eq!(decoded.dead[0].reason, "the record has 3 fields, the header has 7");
    assert_eq!(decoded.dead[0].place, Some(4));
}

#[test]
fn csv_whole_value_is_an_object_of_texts() {
    let decoded = decode(Format::Csv, b"t,\"the \"\"city\"\"\",note\n1,\"a,b\",", &[("", ValueType::Text)], true);
    let object = "{\"t\":\"1\",\"the \\\"city\\\"\":\"a,b\"}";
    assert_eq!(decoded.batch.columns[0].get(0), Value::Text(object));
    assert_eq!(decoded.batch.raw.unwrap().get(0), Some(object.as_bytes()));
}

#[test]
fn plain_line_is_the_empty_pointer() {
    let decoded = decode(Format::Lines, b"17\nx", &[("", ValueType::Text), ("/a", ValueType::Int)], false);
    assert_eq!(decoded.batch.columns[0].get(0), Value::Text("17"));
    assert_eq!(decoded.batch.columns[1].get(0), Value::Absent);
    assert_eq!(decoded.batch.timestamps, [17]);
    assert_eq!(decoded.dead[0].reason, "the record is `x`, which is no time in the format unix_ms");
}
