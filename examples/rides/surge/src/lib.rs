//! Finds cities with far more rides than usual: a window's count is compared with the mean of the city's windows before it.
//!
//! Reads the panes of a `count` window per city, keyed by the pane's key (`input: per-minute`, `key: /key`). Configuration, with its
//! defaults: `threshold: 3.0` (so many times the mean), `windows: 5` (so many windows before), `minimum: 5` (fewer rides are never a
//! surge). Sends the city, the window, its count, the usual count, and their ratio. A city without a pane for a day is forgotten.
//!
//! A window may send several panes, when late rides change its count: the newest pane takes the place of the one before.

mod rule;

use millstream_sdk::prelude::*;
use rule::Config;

#[derive(Input)]
struct Pane<'a> {
    #[at("/key")]
    city: &'a str,
    window_start: i64,
    count: i64,
}

#[derive(Output)]
struct Surge<'a> {
    city: &'a str,
    window_start: i64,
    count: i64,
    usual: f64,
    ratio: f64,
}

#[derive(States)]
struct SurgeRule {
    /// Start and count of the newest windows, in order.
    #[ttl("1d")]
    recent: Value<Vec<(i64, i64)>>,
}

impl Processor for SurgeRule {
    type Input = Pane<'static>;
    type Output = Surge<'static>;
    type Config = Config;

    fn open(&mut self, config: &Config, _: &Context) -> Result<(), Bad> {
        config.check().map_err(Bad::new)
    }

    fn on_record(&self, config: &Config, at: &mut Row<Self>, pane: Pane) -> Result<(), Bad> {
        if at.change() == Change::Retract {
            return Ok(()); // the pane that replaces this one follows
        }
        let usual = self.recent.update(at, |recent| config.judge(recent, pane.window_start, pane.count))?;
        if let Some(usual) = usual {
            let Pane { city, window_start, count, .. } = pane;
            at.emit(Surge { city, window_start, count, usual, ratio: count as f64 / usual });
        }
        Ok(())
    }
}

millstream_sdk::export!(SurgeRule);

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_sdk::testing::{Harness, JsonValue, Record, json};

    fn pane(city: &str, minute: i64, count: i64) -> Record {
        let (start, end) = (minute * MINUTE, (minute + 1) * MINUTE);
        let value = json!({"key": city, "window_start": start, "window_end": end, "count": count});
        Record::json(value).key(city).at(end - 1)
    }

    fn surges(config: JsonValue, panes: impl IntoIterator<Item = Record>) -> Vec<JsonValue> {
        let mut surge = Harness::<SurgeRule>::new(config).replacing_instances();
        surge.send_all(panes);
        assert_eq!(surge.dead(), []);
        surge.rows("main")
    }

    #[test]
    fn a_count_of_three_times_the_mean_is_a_surge() {
        let panes = [("Pune", 0, 4), ("Pune", 1, 6), ("Mumbai", 1, 90), ("Pune", 2, 15), ("Pune", 3, 20)];
        let found = surges(json!({}), panes.map(|(city, minute, count)| pane(city, minute, count)));
        let surge = json!({"city": "Pune", "window_start": 120_000, "count": 15, "usual": 5.0, "ratio": 3.0});
        assert_eq!(found, [surge]); // at minute 3 the mean is 25/3, and 20 is only 2.4 times that
    }

    #[test]
    fn a_few_rides_are_never_a_surge() {
        assert_eq!(surges(json!({}), [pane("Pune", 0, 1), pane("Pune", 1, 4)]), [] as [JsonValue; 0]);
        assert_eq!(surges(json!({"minimum": 4}), [pane("Pune", 0, 1), pane("Pune", 1, 4)]).len(), 1);
    }

    #[test]
    fn only_the_last_windows_count() {
        let panes = || [(0, 100), (1, 2), (2, 4), (3, 9)].map(|(minute, count)| pane("Pune", minute, count));
        assert_eq!(surges(json!({"windows": 2}), panes())[0]["usual"], json!(3.0));
        assert_eq!(surges(json!({"windows": 3}), panes()), [] as [JsonValue; 0]);
    }

    #[test]
    fn a_later_pane_of_a_window_replaces_the_earlier() {
        let panes = [pane("Pune", 0, 2), pane("Pune", 0, 4), pane("Pune", 1, 12)];
        assert_eq!(surges(json!({}), panes)[0]["usual"], json!(4.0));
    }

    #[test]
    fn nothing_to_compare_with_is_refused_at_the_start() {
        assert!(Harness::<SurgeRule>::open(json!({"windows": 0})).is_err());
        assert!(Harness::<SurgeRule>::open(json!({"treshold": 2.0})).is_err());
    }
}
