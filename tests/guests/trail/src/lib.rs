//! Follows who visits which pages: how often within three minutes, which pages last, which again, and how long each minute. Has a state of
//! each keyed kind, with a time to live and without, and a timer for each minute.

use millstream_sdk::prelude::*;

#[derive(Input)]
struct Visit<'a> {
    user: &'a str,
    page: &'a str,
    seconds: i64,
}

#[derive(Output)]
struct Step<'a> {
    user: &'a str,
    page: &'a str,
    /// Visits so far, none of them three minutes after the one before.
    visits: i64,
    /// The page was visited within the four minutes before.
    again: bool,
    /// The last two pages, of those of the last two minutes.
    recent: &'a str,
}

/// What a user did in a minute.
#[derive(Output)]
struct Spent<'a> {
    user: &'a str,
    minute: i64,
    page: &'a str,
    seconds: i64,
}

#[derive(States)]
struct Trail {
    #[ttl("3m")]
    visits: Value<i64>,
    #[ttl("2m")]
    recent: List<String>,
    #[ttl("4m")]
    seen: Map<String, bool>,
    /// By minute and page.
    seconds: Map<(i64, String), i64>,
    /// For each minute, which is its tag: records that come later know nothing of it.
    #[event_time]
    minute: Timer,
    spent: Side<Spent<'static>>,
}

impl Processor for Trail {
    type Input = Visit<'static>;
    type Output = Step<'static>;
    type Config = ();

    fn on_record(&self, (): &(), at: &mut Row<Self>, visit: Visit) -> Result<(), Bad> {
        let visits = self.visits.get(at)?.unwrap_or_default() + 1;
        self.visits.set(at, visits);
        self.recent.append(at, &visit.page.to_owned())?;
        self.recent.keep_last(at, 2);
        let again = self.seen.get(at, visit.page)?.is_some();
        self.seen.insert(at, visit.page, &true)?;
        let minute = at.time().div_euclid(MINUTE);
        let entry = (minute, visit.page.to_owned());
        let seconds = self.seconds.get(at, &entry)?.unwrap_or_default() + visit.seconds;
        self.seconds.insert(at, &entry, &seconds)?;
        self.minute.set_tagged(at, minute.to_string(), (minute + 1) * MINUTE);
        let recent = self.recent.all(at)?.join(" ");
        at.emit(Step { user: visit.user, page: visit.page, visits, again, recent: &recent });
        Ok(())
    }

    fn on_timer(&self, (): &(), at: &mut Row<Self>, _: Fired) -> Result<(), Bad> {
        let minute = at.time().div_euclid(MINUTE) - 1;
        let key = at.key();
        let user = key.text().unwrap_or_default();
        for (entry, seconds) in self.seconds.all(at)? {
            if entry.0 == minute {
                self.seconds.remove(at, &entry);
                self.spent.emit(at, Spent { user, minute, page: &entry.1, seconds });
            }
        }
        Ok(())
    }
}

millstream_sdk::export!(Trail);
