//! What each format writes, by hand.

use super::{Encoder, Format, Settings, Times};
use crate::sink::SinkInput;
use bytes::Bytes;
use dataflow::record::{Batch, Change, Column, Fault, Field, Raw, Schema, Value, ValueType};

fn input(fields: Vec<Field>) -> SinkInput {
    let schema = Schema { fields };
    SinkInput { sink: "out".into(), job: "rides".into(), schema, whole_values: false, fresh: true }
}

fn rows(input: &SinkInput, rows: &[&[Value<'_>]]) -> Batch {
    let mut columns = input.schema.columns(rows.len());
    for row in rows {
        columns.iter_mut().zip(*row).for_each(|(column, &value)| assert!(column.push(value), "{value:?} fits"));
    }
    Batch { timestamps: vec![0; rows.len()], columns, ..Batch::default() }
}

fn written(settings: &Settings, input: &SinkInput, batch: &Batch) -> String {
    let mut encoder = Encoder::new(settings, input).unwrap();
    let mut out = encoder.header().to_vec();
    encoder.write(batch, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn of(format: Format) -> Settings {
    Settings { format, ..Settings::default() }
}

fn pane() -> SinkInput {
    input(vec![
        Field::new("/key", ValueType::Scalar),
        Field::time("/window_start"),
        Field::new("/pane/timing", ValueType::Text),
        Field::new("/count", ValueType::Int),
        Field::new("/pane/index", ValueType::Int),
        Field::new("/mean", ValueType::Float),
    ])
}

/// 2025-08-01T09:00:00Z
const NINE: i64 = 1_754_038_800_000;

#[test]
fn pointers_nest_where_their_object_first_stands() {
    let batch = rows(
        &pane(),
        &[
            &[
                Value::Text("Pune"),
                Value::Int(NINE),
                Value::Text("on_time"),
                Value::Int(4),
                Value::Int(0),
                Value::Float(4.0),
            ],
            &[
                Value::Int(-7),
                Value::Int(NINE + 61_005),
                Value::Text("late"),
                Value::Int(5),
                Value::Absent,
                Value::Float(0.1),
            ],
        ],
    );
    assert_eq!(
        written(&of(Format::Ndjson), &pane(), &batch),
        r#"{"key":"Pune","window_start":"2025-08-01T09:00:00Z","pane":{"timing":"on_time","index":0},"count":4,"mean":4.0}
{"key":-7,"window_start":"2025-08-01T09:01:01.005Z","pane":{"timing":"late","index":null},"count":5,"mean":0.1}
"#
    );
}

#[test]
fn csv_joins_names_and_quotes_what_must_be() {
    let input = input(vec![
        Field::new("/pane/index", ValueType::Int),
        Field::new("/city", ValueType::Text),
        Field::new("/note", ValueType::Text),
    ]);
    let batch = rows(
        &input,
        &[
            &[Value::Int(1), Value::Text("Pune, \"old\""), Value::Text("")],
            &[Value::Absent, Value::Text("a\nb"), Value::Absent],
        ],
    );
    assert_eq!(
        written(&of(Format::Csv), &input, &batch),
        "pane_index,city,note\n1,\"Pune, \"\"old\"\"\",\"\"\n,\"a\nb\",\n"
    );
}

#[test]
fn text_is_escaped_and_odd_values_stay_json() {
    let input = input(vec![
        Field::new("/text", ValueType::Text),
        Field::new("/bytes", ValueType::Bytes),
        Field::new("/float", ValueType::Float),
        Field::time("/time"),
    ]);
    let batch = rows(
        &input,
        &[&[Value::Text("\"\\\n\u{1}é"), Value::Bytes(b"many"), Value::Float(f64::NAN), Value::Int(i64::MAX)]],
    );
    assert_eq!(
        written(&of(Format::Ndjson), &input, &batch),
        "{\"text\":\"\\\"\\\\\\n\\u0001é\",\"bytes\":\"bWFueQ==\",\"float\":null,\"time\":9223372036854775807}\n"
    );
}

#[test]
fn retraction_is_said_in_json_and_refused_elsewhere() {
    let input = input(vec![Field::new("/n", ValueType::Int)]);
    let mut batch = rows(&input, &[&[Value::Int(1)], &[Value::Int(2)]]);
    batch.changes = vec![Change::Retract, Change::Insert];
    assert_eq!(written(&of(Format::Ndjson), &input, &batch), "{\"n\":1,\"change\":\"retract\"}\n{\"n\":2}\n");
    for format in [Format::Csv, Format::Raw] {
        assert!(Encoder::new(&of(format), &input).unwrap().write(&batch, &mut vec![]).is_err());
    }
}

#[test]
fn whole_values_keep_their_bytes_but_never_break_a_line() {
    let whole = SinkInput { whole_values: true, ..input(vec![]) };
    let raw = Raw { slab: Bytes::from_static(b"{\"a\":\n1}x\ny"), spans: vec![(0, 8), Raw::TOMBSTONE] };
    let mut batch = Batch { timestamps: vec![0; 2], raw: Some(raw.clone()), ..Batch::default() };
    assert_eq!(written(&of(Format::Ndjson), &whole, &batch), "{\"a\": 1}\nnull\n");
    batch.raw = Some(Raw { spans: vec![(8, 11), Raw::TOMBSTONE], ..raw });
    assert_eq!(written(&of(Format::Raw), &whole, &batch), "x\\ny\n\n");
}

#[test]
fn columns_can_be_chosen_by_pointer_or_flat_name() {
    let settings = Settings { columns: vec!["pane_index".into(), "/key".into()], ..Settings::default() };
    let batch = Batch { timestamps: vec![0], columns: rows(&pane(), &[]).columns, ..Batch::default() };
    let absent = |mut column: Column| {
        column.push_absent();
        column
    };
    let batch = Batch { columns: batch.columns.into_iter().map(absent).collect(), ..batch };
    assert_eq!(written(&settings, &pane(), &batch), "{\"pane\":{\"index\":null},\"key\":null}\n");
    let unknown = Settings { columns: vec!["city".into()], ..Settings::default() };
    let error = Encoder::new(&unknown, &pane()).unwrap_err().to_string();
    assert!(error.contains("`city`") && error.contains("window_start"), "{error}");
}

#[test]
fn value_that_is_also_an_object_is_refused() {
    let input = input(vec![Field::new("/a", ValueType::Int), Field::new("/a/b", ValueType::Int)]);
    assert!(Encoder::new(&of(Format::Ndjson), &input).is_err());
    assert_eq!(
        written(
            &Settings { times: Times::UnixMs, ..of(Format::Csv) },
            &input,
            &rows(&input, &[&[Value::Int(1), Value::Int(2)]])
        ),
        "a,a_b\n1,2\n"
    );
}

#[test]
fn field_that_fits_no_column_is_written_as_the_record_has_it() {
    let input = input(vec![
        Field::new("/id", ValueType::Scalar),
        Field::new("/note", ValueType::Scalar),
        Field::new("/in/0/n", ValueType::Scalar),
    ]);
    let row: &[Value<'_>] = &[Value::Int(1), Value::Absent, Value::Absent];
    let records = [
        r#"{"id":1,"note":{"b":[1, 2],"a":"x"},"in":[{"n":123456789012345678901}]}"#,
        r#"{"id":1,"note":null,"in":[{"n":[]}]}"#,
        r#"{"id":1,"note":"\ud800"}"#,
    ];
    let slab = Bytes::from(records.concat());
    let mut from = 0;
    let spans = records.iter().map(|record| {
        from += record.len() as u32;
        (from - record.len() as u32, from)
    });
    let fault = |row, column, found| Fault { row, column, found };
    let faults = vec![
        fault(0, 1, "an object"),
        fault(0, 2, "a number out of range"),
        fault(1, 2, "an array"),
        fault(2, 1, "text with half a surrogate pair"),
    ];
    let raw = Some(Raw { slab: slab.clone(), spans: spans.collect() });
    let batch = Batch { raw, faults, ..rows(&input, &[row, row, row]) };
    let json = r#"{"id":1,"note":{"b":[1, 2],"a":"x"},"in":{"0":{"n":123456789012345678901}}}
{"id":1,"note":null,"in":{"0":{"n":[]}}}
{"id":1,"note":null,"in":{"0":{"n":null}}}
"#;
    assert_eq!(written(&of(Format::Ndjson), &input, &batch), json);
    let csv = "id,note,in_0_n\n1,\"{\"\"b\"\":[1, 2],\"\"a\"\":\"\"x\"\"}\",123456789012345678901\n1,,[]\n1,,\n";
    assert_eq!(written(&of(Format::Csv), &input, &batch), csv);
    let one = Settings { columns: vec!["/in/0/n".into()], ..of(Format::Raw) };
    assert_eq!(written(&one, &input, &batch), "123456789012345678901\n[]\n\n");
}
