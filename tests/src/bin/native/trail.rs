//! What `tests/guests/trail` does, on the host's own rows: lists and maps are values, whose items carry their own expiry.

use dataflow::graph::Port;
use dataflow::key;
use dataflow::record::{Field, Schema, Value, ValueType};
use dataflow::time::{Clock, Timestamp};
use millstream::operator::native::{Fired, Logic, Row};
use millstream::state::{StateDeclaration, StateKind, Ttl};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;

/// Its states.
const VISITS: usize = 0;
const RECENT: usize = 1;
const SEEN: usize = 2;
const SECONDS: usize = 3;

/// Its ports.
const STEPS: usize = 0;
const SPENT: usize = 1;

pub(crate) struct Trail;

/// Pages in the order of their visits, each with the time from which on it counts no more.
type Recent = Vec<(String, Timestamp)>;

/// Until when each page counts as seen.
type Seen = BTreeMap<String, Timestamp>;

/// By minute, then by length and text of the page.
type Seconds = Vec<((i64, usize, String), i64)>;

fn read<T: DeserializeOwned + Default>(row: &Row<'_>, state: usize) -> Result<T, String> {
    row.get(state).map_or(Ok(T::default()), |bytes| serde_json::from_slice(bytes).map_err(|error| error.to_string()))
}

fn write(row: &mut Row<'_>, state: usize, value: &impl Serialize) -> Result<(), String> {
    row.set(state, &serde_json::to_vec(value).map_err(|error| error.to_string())?);
    Ok(())
}

impl Logic for Trail {
    fn fields(&self) -> Schema {
        schema(&[("/user", ValueType::Text), ("/page", ValueType::Text), ("/seconds", ValueType::Int)])
    }

    fn values(&self) -> Vec<StateDeclaration> {
        let ttl = |minutes| Ttl { ms: minutes * MINUTE, clock: Clock::EventTime, renewed_by_reads: false };
        let value = |name: &str, ttl| StateDeclaration { name: name.into(), version: 1, kind: StateKind::Value, ttl };
        [("visits", Some(ttl(3))), ("recent", Some(ttl(2))), ("seen", Some(ttl(4))), ("seconds", None)]
            .map(|(name, ttl)| value(name, ttl))
            .into()
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn ports(&self) -> Vec<Port> {
        use ValueType::{Boolean, Int, Text};
        let steps =
            schema(&[("/user", Text), ("/page", Text), ("/visits", Int), ("/again", Boolean), ("/recent", Text)]);
        let spent = schema(&[("/user", Text), ("/minute", Int), ("/page", Text), ("/seconds", Int)]);
        let port = |name: &str, columns| Port { name: name.into(), columns: Some(columns), ..Port::default() };
        vec![port("", steps), port("spent", spent)]
    }

    fn on_record(&self, row: &mut Row<'_>) -> Result<(), String> {
        let (user, Value::Text(page), Value::Int(spent)) = (row.field(0), row.field(1), row.field(2)) else {
            return Err("a visit has a user, a page and seconds".to_string());
        };
        let (now, minute) = (row.time(), row.time().div_euclid(MINUTE));
        let visits = read::<i64>(row, VISITS)? + 1;
        write(row, VISITS, &visits)?;

        let mut recent: Recent = read(row, RECENT)?;
        recent.retain(|(_, until)| *until > now);
        recent.push((page.to_owned(), now + 2 * MINUTE));
        recent.drain(..recent.len().saturating_sub(2));
        write(row, RECENT, &recent)?;

        let mut seen: Seen = read(row, SEEN)?;
        let again = seen.insert(page.to_owned(), now + 4 * MINUTE).is_some_and(|until| until > now);
        write(row, SEEN, &seen)?;

        let mut seconds: BTreeMap<_, i64> = read::<Seconds>(row, SECONDS)?.into_iter().collect();
        *seconds.entry((minute, page.len(), page.to_owned())).or_default() += spent;
        write(row, SECONDS, &Seconds::from_iter(seconds))?;
        row.set_timer(minute.to_string().as_bytes(), (minute + 1) * MINUTE, b"");

        let recent = recent.into_iter().map(|(page, _)| page).collect::<Vec<_>>().join(" ");
        let again = Value::Boolean(again);
        row.emit(STEPS, &[user, Value::Text(page), Value::Int(visits), again, Value::Text(&recent)]);
        Ok(())
    }

    fn on_timer(&self, row: &mut Row<'_>, _fired: &Fired<'_>) -> Result<(), String> {
        let minute = row.time().div_euclid(MINUTE) - 1;
        let user = key::parts(row.key()).next().unwrap_or(Value::Absent);
        let (ended, rest): (Seconds, Seconds) =
            read::<Seconds>(row, SECONDS)?.into_iter().partition(|((of, ..), _)| *of == minute);
        for ((_, _, page), seconds) in ended {
            row.emit(SPENT, &[user, Value::Int(minute), Value::Text(&page), Value::Int(seconds)]);
        }
        write(row, SECONDS, &rest)
    }
}

fn schema(fields: &[(&str, ValueType)]) -> Schema {
    Schema { fields: fields.iter().map(|(pointer, value_type)| Field::new(*pointer, *value_type)).collect() }
}
