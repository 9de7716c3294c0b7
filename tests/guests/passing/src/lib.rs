//! Passes on every record whose city has a name: a filter that keeps all, to measure what a guest on the way costs.

use millstream_sdk::prelude::*;

#[derive(Input)]
struct Ride<'a> {
    #[at("/city")]
    city: &'a str,
}

#[derive(States)]
struct Passing {}

impl Processor for Passing {
    type Input = Ride<'static>;
    type Output = ();
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, ride: Ride) -> Result<(), Bad> {
        if !ride.city.is_empty() {
            at.pass();
        }
        Ok(())
    }
}

millstream_sdk::export!(Passing);
