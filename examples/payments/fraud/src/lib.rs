//! Finds payments that do not look like the card's owner's, by the card's last ten payments.
//!
//! Keyed by card (`key: /card`), without configuration. Three rules, each with an alert of its own:
//! - `amount`: more than three times the mean of the last ten payments, of which there must be at least five;
//! - `pace`: more than five payments within a minute, this one included;
//! - `travel`: a payment in another city within five minutes.
//!
//! Half an hour of event time after a card's last payment what is remembered of it is cleared, and a row on the side output `quiet` says
//! so.

mod rules;

use millstream_sdk::prelude::*;
use rules::{Past, QUIET_AFTER, judge, newest};

#[derive(Input)]
struct Payment<'a> {
    card: &'a str,
    amount: f64,
    city: &'a str,
}

#[derive(Output)]
struct Alert<'a> {
    card: &'a str,
    rule: &'a str,
    amount: f64,
    detail: &'a str,
}

/// A card that went quiet, with the number and the sum of the payments remembered of it.
#[derive(Output)]
struct Quiet<'a> {
    card: &'a str,
    payments: u32,
    sum: f64,
}

#[derive(States)]
struct Fraud {
    /// The last payments, in the order they came.
    past: Value<Vec<Past>>,
    #[event_time]
    quiet_since: Timer,
    quiet: Side<Quiet<'static>>,
}

impl Processor for Fraud {
    type Input = Payment<'static>;
    type Output = Alert<'static>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, payment: Payment) -> Result<(), Bad> {
        let time = at.time();
        let (findings, newest) = self.past.update(at, |past| {
            let findings = judge(past, Past { amount: payment.amount, city: payment.city.to_owned(), time });
            (findings, newest(past).unwrap_or(time))
        })?;
        self.quiet_since.set(at, newest + QUIET_AFTER);
        for (rule, detail) in findings.into_iter().flatten() {
            at.emit(Alert { card: payment.card, rule, amount: payment.amount, detail: &detail });
        }
        Ok(())
    }

    fn on_timer(&self, (): &(), at: &mut Row<Self>, _: Fired) -> Result<(), Bad> {
        let past = self.past.get(at)?.unwrap_or_default();
        let sum = past.iter().map(|past| past.amount).sum();
        let card = at.key().text().unwrap_or_default();
        self.quiet.emit(at, Quiet { card, payments: past.len() as u32, sum });
        self.past.clear(at);
        Ok(())
    }
}

millstream_sdk::export!(Fraud);

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_sdk::testing::{Harness, Record, json};

    fn payment(amount: f64, city: &str, time: Timestamp) -> Record {
        Record::fields::<Payment>(&Payment { card: "c1", amount, city }).key("c1").at(time)
    }

    fn fraud() -> Harness<Fraud> {
        Harness::new(json!({})).replacing_instances()
    }

    /// Five payments of 10, ten minutes apart.
    fn five_of_ten() -> Vec<Record> {
        (0..5).map(|number| payment(10.0, "Pune", number * 10 * MINUTE)).collect()
    }

    #[test]
    fn an_amount_above_three_times_the_mean_stands_out() {
        let mut fraud = fraud();
        fraud.send_all(five_of_ten());
        fraud.send(payment(30.0, "Pune", 50 * MINUTE));
        assert_eq!(fraud.sent().len(), 0, "exactly three times the mean is not above it");
        fraud.send(payment(40.1, "Pune", 60 * MINUTE)); // mean of 10, 10, 10, 10, 10, 30 is 13.33
        let detail = "the mean of the last 6 payments is 13.33";
        assert_eq!(fraud.rows("main"), [json!({"card": "c1", "rule": "amount", "amount": 40.1, "detail": detail})]);
    }

    #[test]
    fn four_payments_are_too_few_to_stand_out_from() {
        let mut fraud = fraud();
        fraud.send_all(five_of_ten().into_iter().take(4));
        fraud.send(payment(1_000.0, "Pune", 50 * MINUTE));
        assert_eq!(fraud.sent().len(), 0);
    }

    #[test]
    fn the_sixth_payment_within_a_minute_is_too_many() {
        let mut fraud = fraud();
        fraud.send_all((0..6).map(|number| payment(10.0, "Pune", number * 10 * SECOND)));
        let rules: Vec<_> = fraud.sent().iter().map(|alert| (alert.value["rule"].clone(), alert.time)).collect();
        assert_eq!(rules, [(json!("pace"), 50 * SECOND)]);
        fraud.send(payment(10.0, "Pune", 75 * SECOND)); // those at 20, 30, 40, 50 s and this: five
        assert_eq!(fraud.sent().len(), 1);
    }

    #[test]
    fn two_cities_within_five_minutes_are_too_far_apart() {
        let mut fraud = fraud();
        fraud.send(payment(10.0, "Pune", 0));
        fraud.send(payment(10.0, "Mumbai", 5 * MINUTE + 1));
        assert_eq!(fraud.sent().len(), 0);
        fraud.send(payment(10.0, "Pune", 6 * MINUTE));
        assert_eq!(fraud.rows("main")[0]["detail"], "in Mumbai and in Pune, 59 s apart");
    }

    #[test]
    fn half_an_hour_after_its_last_payment_a_card_is_forgotten() {
        let mut fraud = fraud();
        fraud.send(payment(10.0, "Pune", 10 * MINUTE));
        fraud.send(payment(5.5, "Pune", 0)); // late: the last payment is still that of minute 10
        assert_eq!(fraud.timers().iter().map(|timer| timer.at).collect::<Vec<_>>(), [40 * MINUTE]);
        fraud.advance_watermark(40 * MINUTE - 1);
        assert_eq!(fraud.rows("quiet").len(), 0);
        fraud.advance_watermark(40 * MINUTE);
        assert_eq!(fraud.rows("quiet"), [json!({"card": "c1", "payments": 2, "sum": 15.5})]);
        assert_eq!(fraud.state("past", "c1"), None);
        assert_eq!(fraud.keys_in("past"), 0);
    }

    #[test]
    fn ten_payments_are_remembered() {
        let mut fraud = fraud();
        fraud.send_all((0..12).map(|number| payment(f64::from(number as i32), "Pune", number * 10 * MINUTE)));
        let past = fraud.state("past", "c1").expect("the card has payments");
        let amounts: Vec<_> = past.as_array().into_iter().flatten().map(|past| past["amount"].as_f64()).collect();
        assert_eq!(amounts, (2..12).map(|amount| Some(f64::from(amount))).collect::<Vec<_>>());
    }
}
