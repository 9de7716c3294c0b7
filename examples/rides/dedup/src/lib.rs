//! Lets each ride pass once: a ride seen within the hour before is a duplicate and goes no further.
//!
//! Keyed by the ride's id (`key: /id`), without configuration. The records pass unchanged; what is remembered of a ride is one
//! boolean, which the host forgets an hour of event time after the first sight.

use millstream_sdk::prelude::*;

#[derive(States)]
struct Dedup {
    #[ttl("1h")]
    seen: Value<bool>,
    duplicates: Counter,
}

impl Processor for Dedup {
    type Input = ();
    type Output = ();
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, (): ()) -> Result<(), Bad> {
        if self.seen.get(at)?.is_some() {
            self.duplicates.add(at, 1);
        } else {
            self.seen.set(at, true);
            at.pass();
        }
        Ok(())
    }
}

millstream_sdk::export!(Dedup);

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_sdk::testing::{Harness, Record, json};

    fn ride(id: &str, time: Timestamp) -> Record {
        Record::json(json!({"id": id, "time": time})).key(id).at(time)
    }

    #[test]
    fn a_ride_passes_once_and_its_duplicates_are_counted() {
        let mut dedup = Harness::<Dedup>::new(json!({}));
        dedup.send_all([ride("r1", 0), ride("r2", 5), ride("r1", 10), ride("r1", 0)]);
        assert_eq!(dedup.rows("main"), [json!({"id": "r1", "time": 0}), json!({"id": "r2", "time": 5})]);
        assert_eq!(dedup.metric("duplicates"), 2.0);
    }

    #[test]
    fn a_ride_is_forgotten_an_hour_after_it_was_first_seen() {
        let mut dedup = Harness::<Dedup>::new(json!({}));
        dedup.send_all([ride("r1", 0), ride("r1", HOUR - 1), ride("r1", HOUR)]);
        let times: Vec<_> = dedup.sent().iter().map(|ride| ride.time).collect();
        assert_eq!(times, [0, HOUR]);
    }

    #[test]
    fn nothing_is_remembered_outside_of_state() {
        let mut dedup = Harness::<Dedup>::new(json!({})).replacing_instances();
        dedup.send_all([ride("r1", 0), ride("r1", 10)]);
        assert_eq!(dedup.sent().len(), 1);
    }
}
