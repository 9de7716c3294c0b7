//! Counts the records of each key and sends the count with each: the guest that benchmarks compare with the same logic in the
//! host. Written as a plain author would, record by record.

use millstream_sdk::prelude::*;

#[derive(Input)]
struct Ride<'a> {
    #[at("/city")]
    city: &'a str,
}

#[derive(Output)]
struct Count<'a> {
    key: &'a str,
    count: i64,
}

#[derive(States)]
struct Counting {
    count: Value<i64>,
}

impl Processor for Counting {
    type Input = Ride<'static>;
    type Output = Count<'static>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, ride: Ride) -> Result<(), Bad> {
        let count = self.count.get(at)?.unwrap_or(0) + 1;
        self.count.set(at, count);
        at.emit(Count { key: ride.city, count });
        Ok(())
    }
}

millstream_sdk::export!(Counting);
