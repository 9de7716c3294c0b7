//! A call as the host makes it: columns in, effects out; and operators that look at the columns themselves.

use millstream_sdk::Batch;
use millstream_sdk::bindings::types::{self, Blobs, Body, Column, Values};
use millstream_sdk::export::Instance;
use millstream_sdk::prelude::*;
use millstream_sdk::testing::{Harness, Record, json};

#[derive(Input)]
struct Payment<'a> {
    card: &'a str,
    amount: i64,
}

#[derive(Output)]
struct Total<'a> {
    card: &'a str,
    total: i64,
}

#[derive(States)]
struct Totals {
    total: Value<i64>,
    name: Value<String>,
    #[event_time]
    quiet: Timer,
}

impl Processor for Totals {
    type Input = Payment<'static>;
    type Output = Total<'static>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, Payment { card, amount }: Payment) -> Result<(), Bad> {
        if amount < 0 {
            return Err(Bad::new("negative"));
        }
        let total = self.total.get(at)?.unwrap_or(0) + amount;
        if amount > 0 {
            self.total.set(at, total);
            self.quiet.set(at, at.time() + 10);
        }
        let name = self.name.get(at)?;
        assert_eq!(name.as_deref(), (card == "a").then_some("Ann"));
        at.emit(Total { card, total });
        Ok(())
    }
}

fn blobs(strings: &[&[u8]]) -> Blobs {
    let mut end = 0;
    let ends = strings.iter().map(|string| {
        end += string.len() as u32;
        end
    });
    Blobs { ends: ends.collect(), bytes: strings.concat() }
}

fn column(values: Values) -> Column {
    Column { present: None, values }
}

/// Rows of the keys a, b, a, c; a has a total of 5, b of 7, c none.
fn batch(amounts: [i64; 4]) -> types::Batch {
    let names = column(Values::Text(blobs(&[b"Ann", b"", b""])));
    types::Batch {
        now: 0,
        watermark: None,
        input: 0,
        keys: blobs(&[b"t\x01a", b"t\x01b", b"t\x01c"]),
        key_of: vec![0, 1, 0, 2],
        timestamps: vec![100, 101, 102, 103],
        changes: Vec::new(),
        values: None,
        fields: vec![column(Values::Text(blobs(&[b"a", b"b", b"a", b"c"]))), column(Values::Int(amounts.to_vec()))],
        headers: None,
        states: vec![
            Column { present: Some(vec![true, true, false]), values: Values::Int(vec![5, 7, 0]) },
            Column { present: Some(vec![true, false, false]), ..names },
        ],
    }
}

fn totals() -> Instance<Totals> {
    let context = types::Context { config: "{}".to_owned(), operator: "totals".to_owned(), task: 0, parallelism: 1 };
    Instance::open(context).expect("the operator takes no configuration")
}

#[test]
fn only_keys_that_changed_are_written_each_once_by_its_last_row() {
    let effects = totals().on_batch(batch([1, 0, 2, 4])).expect("all rows are good");
    let write = types::StateWrite { state: 0, rows: vec![2, 3], values: column(Values::Int(vec![8, 4])) };
    assert_eq!(effects.writes, [write]);
    assert_eq!(effects.timers.rows, [2, 3], "of a timer set twice, the last change alone crosses");
    assert_eq!(effects.timers.at, [Some(112), Some(113)]);
}

#[test]
fn outputs_cross_as_columns_with_the_rows_they_came_from() {
    let effects = totals().on_batch(batch([1, 0, 2, 4])).expect("all rows are good");
    assert_eq!(effects.outputs.len(), 1);
    let output = &effects.outputs[0];
    assert_eq!((output.port, output.origins.as_slice()), (0, &[0, 1, 2, 3][..]));
    assert_eq!(output.timestamps, None);
    assert_eq!(output.changes, []);
    let cards = column(Values::Text(blobs(&[b"a", b"b", b"a", b"c"])));
    assert_eq!(output.body, Body::Columns(vec![cards, column(Values::Int(vec![6, 7, 8, 4]))]));
}

#[test]
fn all_bad_rows_of_independent_keys_are_named_in_one_answer() {
    let failure = totals().on_batch(batch([-1, 1, -2, -3])).expect_err("three rows are bad");
    let bad = |row| types::BadRow { row, reason: "negative".to_owned() };
    // Row 2 has the key of row 0: it is judged in the next run, on sound state.
    assert_eq!(failure, types::Failure::BadRows(vec![bad(0), bad(3)]));
}

/// Sums a whole column at once.
#[derive(States)]
struct Sums {
    sum: Gauge,
}

impl Processor for Sums {
    type Input = Payment<'static>;
    type Output = Total<'static>;
    type Config = ();

    fn on_record(&self, (): &(), _: &mut Row<Self>, _: Payment) -> Result<(), Bad> {
        unreachable!("`on_batch` does not call it")
    }

    fn on_batch(&self, (): &(), batch: &mut Batch<'_, Self>) -> Result<(), Bad> {
        let fields = batch.fields();
        let amounts = fields.column(1).ints();
        let total = amounts.iter().sum();
        for (number, amount) in amounts.iter().enumerate() {
            if *amount < 0 {
                batch.refuse(number, Bad::new("negative"));
            }
        }
        let last = batch.len() - 1;
        let mut row = batch.row(last);
        self.sum.set(&row, total as f64);
        row.emit(Total { card: fields.column(0).texts().get(last), total });
        Ok(())
    }
}

#[test]
fn an_operator_may_take_the_columns_of_a_batch() {
    let mut sums = Harness::<Sums>::new(json!({})).rows_per_call(100);
    let payment = |card, amount| Record::fields::<Payment>(&Payment { card, amount });
    sums.send_all([payment("a", 1), payment("b", -1), payment("c", 4)]);
    assert_eq!(sums.rows("main"), [json!({"card": "c", "total": 5})]);
    assert_eq!(sums.dead()[0].reason, "negative");
    assert_eq!(sums.metric("sum"), 5.0);
}
