//! Value states that ride along with a batch: one look-up per distinct key before the call, one write per key after it.
//!
//! All rows of a key see the one value that was handed in, so they must agree about it: `cut` tells where a batch must
//! end so that none of a key's rows lies on the other side of the value's stamp, nor a whole TTL behind an earlier row,
//! whose write would be gone by then.

use super::keyed::{Keyed, push_row, row_of};
use super::values::{encode, push_decoded};
use super::{Address, RowKeys, RowMeta, StateBackend, Ttl};
use anyhow::ensure;
use dataflow::key::{KeyGroup, Keys};
use dataflow::record::{Column, ValueType};
use dataflow::time::{Clock, END, START, Timestamp};

/// A prefetched value state. Writes go to the backend at once: they are called for when the call has succeeded.
#[derive(Debug)]
pub struct Prefetched {
    /// The state.
    pub keyed: Keyed,
    /// Type of its values.
    pub value_type: ValueType,
    max_parallelism: u16,
    rows: RowKeys,
    row: Vec<u8>,
    bytes: Vec<u8>,
    first: Vec<Timestamp>,
    last: Vec<Timestamp>,
}

/// What stands beside the column of values.
#[derive(Debug, Default)]
pub struct Stamps {
    /// The stored stamp of each distinct key; `time::START` where nothing is stored.
    pub expiry: Vec<Timestamp>,
    /// Keys (index into the distinct ones) whose value was written under another schema version than the declared one; it is
    /// absent from the column.
    pub outdated: Vec<(u32, u16)>,
}

/// What time it is in a call.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The operator's watermark.
    pub watermark: Timestamp,
    /// Processing time.
    pub now: Timestamp,
}

impl Prefetched {
    /// Values of `keyed` in a job with so many key groups.
    pub fn new(keyed: Keyed, value_type: ValueType, max_parallelism: u16) -> Self {
        let (rows, row, bytes, first, last) = (RowKeys::default(), vec![], vec![], vec![], vec![]);
        Self { keyed, value_type, max_parallelism, rows, row, bytes, first, last }
    }

    /// First of all: the stored stamps of a batch's keys, for [`Prefetched::cut`]. Only a state with event-time TTL needs it.
    pub fn stamps(&mut self, state: &dyn StateBackend, keys: &Keys) -> Vec<Timestamp> {
        let mut stamps = Vec::with_capacity(keys.hashes.len());
        self.note_rows(keys);
        state.get_many(self.keyed.number, &self.rows, &mut |_, found| {
            stamps.push(found.map_or(START, |(meta, _)| meta.expiry));
        });
        stamps
    }

    /// The rows of a batch's keys.
    fn note_rows(&mut self, keys: &Keys) {
        self.rows.clear();
        for (key, &hash) in keys.distinct.iter().zip(&keys.hashes) {
            self.rows.push(KeyGroup::of(hash, self.max_parallelism), |row| push_row(key, row));
        }
    }

    /// The first row that must not be in one call with the rows before it; none if all may be. `stamps` are the keys'.
    pub fn cut(&mut self, keys: &Keys, timestamps: &[Timestamp], stamps: &[Timestamp], at: Now) -> Option<usize> {
        let Some(Ttl { ms, clock: Clock::EventTime, .. }) = self.keyed.ttl else { return None };
        // The earliest row of each key so far; END is none.
        self.first.clear();
        self.first.resize(stamps.len(), END);
        for (row, (&key, &timestamp)) in keys.of.iter().zip(timestamps).enumerate() {
            let key = key as usize;
            let first = self.first[key];
            if first != END {
                let sees = |timestamp| self.keyed.visible(stamps[key], timestamp, at.watermark, at.now);
                // What a late row wrote may be gone at once: the next row must not see it.
                let gone = at.watermark != END && first.saturating_add(ms) <= at.watermark;
                if gone || sees(first) != sees(timestamp) || timestamp >= first.saturating_add(ms) {
                    return Some(row);
                }
            }
            self.first[key] = first.min(timestamp);
        }
        None
    }

    /// Appends each distinct key's value to `column`, absent where there is none or it has expired for the key's rows. The
    /// batch has been cut.
    ///
    /// # Errors
    /// A value holds bytes of another type: the state's type was changed without a new version.
    pub fn load(
        &mut self,
        state: &dyn StateBackend,
        keys: &Keys,
        timestamps: &[Timestamp],
        at: Now,
        column: &mut Column,
    ) -> anyhow::Result<Stamps> {
        self.note_times(keys, timestamps);
        self.note_rows(keys);
        let mut stamps = Stamps { expiry: Vec::with_capacity(keys.hashes.len()), outdated: vec![] };
        let (keyed, first, mut is_typed) = (&self.keyed, &self.first, true);
        state.get_many(keyed.number, &self.rows, &mut |key, found| {
            stamps.expiry.push(found.map_or(START, |(meta, _)| meta.expiry));
            match found.filter(|(meta, _)| keyed.visible(meta.expiry, first[key], at.watermark, at.now)) {
                None => column.push_absent(),
                Some((meta, _)) if meta.version != keyed.version => {
                    stamps.outdated.push((key as u32, meta.version));
                    column.push_absent();
                }
                Some((_, bytes)) => is_typed &= push_decoded(column, bytes),
            }
        });
        ensure!(
            is_typed,
            "a value of state {} is no {}: raise the state's version when its type changes",
            self.keyed.number.0,
            self.value_type.name()
        );
        Ok(stamps)
    }

    /// Timestamps of each key's earliest and latest row.
    fn note_times(&mut self, keys: &Keys, timestamps: &[Timestamp]) {
        self.first.clear();
        self.first.resize(keys.hashes.len(), END);
        self.last.clear();
        self.last.resize(keys.hashes.len(), START);
        if self.keyed.ttl.is_none() {
            return;
        }
        for (&key, &timestamp) in keys.of.iter().zip(timestamps) {
            let key = key as usize;
            self.first[key] = self.first[key].min(timestamp);
            self.last[key] = self.last[key].max(timestamp);
        }
    }

    /// Where reads renew values: renews those that `load` handed out last, before [`Prefetched::write`]. `loaded` is the
    /// column that `load` filled, from its row `offset` on.
    pub fn renew(
        &mut self,
        state: &mut dyn StateBackend,
        keys: &Keys,
        stamps: &Stamps,
        loaded: (&Column, usize),
        now: Timestamp,
    ) {
        if !self.keyed.ttl.is_some_and(|ttl| ttl.renewed_by_reads) {
            return;
        }
        for (key, &hash) in keys.hashes.iter().enumerate() {
            if !loaded.0.is_present(loaded.1 + key) {
                continue;
            }
            let Some(expiry) = self.keyed.renewed(stamps.expiry[key], self.last[key], now) else { continue };
            row_of(keys.distinct.get(key), &mut self.row);
            self.bytes.clear();
            let at =
                Address { group: KeyGroup::of(hash, self.max_parallelism), state: self.keyed.number, row: &self.row };
            if let Some(meta) = state.get(at, &mut self.bytes) {
                state.put(at, RowMeta { expiry, ..meta }, &self.bytes);
            }
        }
    }

    /// Writes `values[i]` as the value of the key of row `rows[i]`, stamped by that row's timestamp; an absent one clears. Of
    /// several for one key the last stands.
    pub fn write(
        &mut self,
        state: &mut dyn StateBackend,
        (keys, timestamps): (&Keys, &[Timestamp]),
        rows: &[u32],
        values: &Column,
        now: Timestamp,
    ) {
        for (at, &row) in rows.iter().enumerate() {
            let key = keys.of[row as usize] as usize;
            row_of(keys.distinct.get(key), &mut self.row);
            let group = KeyGroup::of(keys.hashes[key], self.max_parallelism);
            let address = Address { group, state: self.keyed.number, row: &self.row };
            if values.is_present(at) {
                self.bytes.clear();
                encode(values.get(at), &mut self.bytes);
                state.put(address, self.keyed.meta(timestamps[row as usize], now), &self.bytes);
            } else {
                state.delete(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::memory::MemoryBackend;
    use crate::state::{StateDeclaration, StateKind, StateNumber};
    use dataflow::key::Keying;
    use dataflow::record::{Value, Values};

    const NUMBER: StateNumber = StateNumber(2);

    fn subject(renewed_by_reads: bool) -> (MemoryBackend, Prefetched) {
        let ttl = Some(Ttl { ms: 10, clock: Clock::EventTime, renewed_by_reads });
        let declaration = StateDeclaration { name: "total".into(), version: 1, kind: StateKind::Value, ttl };
        let mut backend = MemoryBackend::for_tests(0..8);
        backend.register(NUMBER, &declaration);
        (backend, Prefetched::new(Keyed::new(NUMBER, &declaration), ValueType::Int, 8))
    }

    fn keys(rows: &[i64]) -> Keys {
        Keying::default().keys(rows.len(), &[&Column::all(Values::Int(rows.to_vec()))]).0
    }

    const EARLY: Now = Now { watermark: START, now: 0 };

    #[test]
    fn batch_is_cut_where_a_keys_rows_disagree_about_its_value() {
        let (_, mut total) = subject(false);
        // Key 7 has a stamp of 105; rows from 105 on do not see its value. Key 8 has no value.
        let mut cut = |rows: &[i64], timestamps: &[i64], at| total.cut(&keys(rows), timestamps, &[105, START], at);
        assert_eq!(cut(&[7, 8, 7], &[100, 101, 104], EARLY), None);
        assert_eq!(cut(&[7, 8, 7], &[100, 101, 105], EARLY), Some(2));
        assert_eq!(cut(&[7, 8, 7], &[105, 101, 104], EARLY), Some(2));
        assert_eq!(cut(&[7, 8, 7], &[105, 101, 106], EARLY), None);
        // The watermark has passed the stamp: no row sees the value, so all agree.
        assert_eq!(cut(&[7, 8, 7], &[100, 101, 106], Now { watermark: 105, now: 0 }), None);
    }

    #[test]
    fn batch_is_cut_where_a_keys_rows_span_a_time_to_live() {
        let (_, mut total) = subject(false);
        let mut cut = |timestamps: &[i64]| total.cut(&keys(&[7, 8, 7, 7]), timestamps, &[START, START], EARLY);
        assert_eq!(cut(&[100, 200, 109, 109]), None);
        assert_eq!(cut(&[100, 200, 109, 110]), Some(3));
        assert_eq!(cut(&[109, 200, 100, 110]), Some(3));
    }

    #[test]
    fn values_ride_along_and_go_back_the_last_of_a_key_standing() {
        let (mut backend, mut total) = subject(false);
        let (batch, times) = (keys(&[7, 8, 7]), [100, 101, 102]);
        let mut column = Column::new(ValueType::Int);
        total.load(&backend, &batch, &times, EARLY, &mut column).unwrap();
        assert_eq!((column.get(0), column.get(1)), (Value::Absent, Value::Absent));
        total.write(&mut backend, (&batch, &times), &[0, 1, 2], &Column::all(Values::Int(vec![1, 2, 3])), 0);
        assert_eq!(total.stamps(&backend, &batch), [112, 111]);
        let mut column = Column::new(ValueType::Int);
        total.load(&backend, &batch, &[111, 111, 111], EARLY, &mut column).unwrap();
        assert_eq!((column.get(0), column.get(1)), (Value::Int(3), Value::Absent));
        let mut cleared = Column::new(ValueType::Int);
        cleared.push_absent();
        total.write(&mut backend, (&batch, &times), &[2], &cleared, 0);
        assert_eq!(total.stamps(&backend, &batch), [START, 111]);
    }

    #[test]
    fn reading_renews_a_value_and_never_shortens_its_life() {
        let (mut backend, mut total) = subject(true);
        let batch = keys(&[7]);
        total.write(&mut backend, (&batch, &[100]), &[0], &Column::all(Values::Int(vec![1])), 0);
        for (timestamp, stamp) in [(105, 115), (95, 115)] {
            let mut column = Column::new(ValueType::Int);
            let stamps = total.load(&backend, &batch, &[timestamp], EARLY, &mut column).unwrap();
            total.renew(&mut backend, &batch, &stamps, (&column, 0), 0);
            assert_eq!(total.stamps(&backend, &batch), [stamp]);
        }
    }
}
