//! The rules themselves, apart from how payments come in and alerts go out.

use serde::{Deserialize, Serialize};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

/// How many payments of a card are remembered.
const REMEMBERED: usize = 10;
/// How many payments a card must have before an amount can stand out.
const AMOUNTS_MIN: usize = 5;
/// An amount stands out above so many times the mean.
const AMOUNT_FACTOR: f64 = 3.0;
/// More payments than this within a minute are too many.
const PACE_MAX: usize = 5;
/// Nobody pays in two cities within this time, ms.
const TRAVEL_MIN: i64 = 5 * MINUTE;
/// A card that has not paid for so long is quiet, ms.
pub(crate) const QUIET_AFTER: i64 = 30 * MINUTE;

/// A payment as it is remembered.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Past {
    pub(crate) amount: f64,
    pub(crate) city: String,
    /// Event time, ms since 1970 UTC.
    pub(crate) time: i64,
}

/// A rule's name, and what it found.
pub(crate) type Finding = (&'static str, String);

/// What the rules say of a payment, given those before it, among which it is remembered.
pub(crate) fn judge(past: &mut Vec<Past>, payment: Past) -> [Option<Finding>; 3] {
    let findings = [amount(past, &payment), pace(past, payment.time), travel(past, &payment)];
    past.push(payment);
    let too_many = past.len().saturating_sub(REMEMBERED);
    past.drain(..too_many);
    findings
}

/// The newest payment's time; none without any.
pub(crate) fn newest(past: &[Past]) -> Option<i64> {
    past.iter().map(|past| past.time).max()
}

fn amount(past: &[Past], payment: &Past) -> Option<Finding> {
    if past.len() < AMOUNTS_MIN {
        return None;
    }
    let mean = past.iter().map(|past| past.amount).sum::<f64>() / past.len() as f64;
    let stands_out = payment.amount > AMOUNT_FACTOR * mean;
    stands_out.then(|| ("amount", format!("the mean of the last {} payments is {mean:.2}", past.len())))
}

fn pace(past: &[Past], time: i64) -> Option<Finding> {
    let within = past.iter().filter(|past| past.time <= time && past.time > time - MINUTE).count() + 1;
    (within > PACE_MAX).then(|| ("pace", format!("{within} payments within a minute")))
}

fn travel(past: &[Past], payment: &Past) -> Option<Finding> {
    let elsewhere = |past: &&Past| past.city != payment.city && (past.time - payment.time).abs() <= TRAVEL_MIN;
    let other = past.iter().rev().find(elsewhere)?;
    let apart = (other.time - payment.time).abs() / SECOND;
    Some(("travel", format!("in {} and in {}, {apart} s apart", other.city, payment.city)))
}
