//! Sends rides that cost more than their city's limit. Limits come by a broadcast input, keep their times, and hold for rides from
//! then on. A ride is judged when event time has come to it, so the answer does not depend on which input is read first.

use millstream_sdk::prelude::*;

#[derive(Input)]
struct Ride<'a> {
    id: &'a str,
    fare: f64,
}

#[derive(Input)]
struct Limit<'a> {
    city: &'a str,
    limit: f64,
}

#[derive(Input)]
enum Inputs<'a> {
    Ride(Ride<'a>),
    Limit(Limit<'a>),
}

#[derive(Output)]
struct Above<'a> {
    city: &'a str,
    id: &'a str,
    fare: f64,
    limit: f64,
}

#[derive(States)]
struct Limits {
    /// By city: since when, and how much.
    limits: Broadcast<String, Vec<(Timestamp, f64)>>,
    /// One for each ride, its id the tag, its fare the payload.
    #[event_time]
    ride: Timer,
}

impl Processor for Limits {
    type Input = Inputs<'static>;
    type Output = Above<'static>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, input: Inputs) -> Result<(), Bad> {
        match input {
            Inputs::Ride(ride) => self.ride.set_with(at, ride.id, at.time(), ride.fare.to_le_bytes()),
            Inputs::Limit(limit) => {
                let mut limits = self.limits.get(at, limit.city)?.unwrap_or_default();
                limits.push((at.time(), limit.limit));
                self.limits.insert(at, limit.city, &limits)?;
            }
        }
        Ok(())
    }

    fn on_timer(&self, (): &(), at: &mut Row<Self>, fired: Fired) -> Result<(), Bad> {
        let key = at.key();
        let city = key.text().unwrap_or_default();
        let limits = self.limits.get(at, city)?.unwrap_or_default();
        let fare =
            fired.payload().try_into().map(f64::from_le_bytes).map_err(|_| Bad::new("a fare has eight bytes"))?;
        let id = std::str::from_utf8(fired.tag()).map_err(|_| Bad::new("an id is text"))?;
        if let Some((_, limit)) = limits.iter().filter(|(since, _)| *since <= at.time()).max_by_key(|(since, _)| *since)
            && fare > *limit
        {
            at.emit(Above { city, id, fare, limit: *limit });
        }
        Ok(())
    }
}

millstream_sdk::export!(Limits);
