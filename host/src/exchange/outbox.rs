//! One output of a task: splits batches by key among the tasks that read it, and keeps what they have no room for.

use super::channel::{SendError, Sender};
use crate::dead_letter::DeadLetter;
use dataflow::element::{Barrier, Element};
use dataflow::key::{KeyGroup, Keying, Keys};
use dataflow::record::{Batch, Column, Schema};
use std::collections::VecDeque;

/// How the rows of an edge get their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBy {
    /// Positions of the key's columns.
    pub columns: Vec<usize>,
    /// Their pointers, for dead letters.
    pub pointers: Vec<String>,
    /// The node that reads, for dead letters.
    pub reader: String,
    /// The edge's columns, for dead letters of rows that have nothing else.
    pub schema: Schema,
}

/// Which of the reading tasks gets a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning {
    /// The task that owns the row's key group.
    ByKey(KeyBy),
    /// Always the same one.
    Forward(usize),
    /// One after the other, batch by batch.
    RoundRobin,
    /// Every one.
    Broadcast,
}

/// One output edge of one task.
pub struct Outbox {
    senders: Vec<Sender>,
    partitioning: Partitioning,
    max_parallelism: u16,
    keying: Keying,
    next: usize,
    /// What was refused, in order; nothing is sent past it.
    pending: VecDeque<(usize, Element)>,
    /// Something went in without room, before a barrier that overtook it.
    forced: bool,
    closed: bool,
}

impl Outbox {
    /// Sends to `senders`, one for each reading task.
    pub fn new(senders: Vec<Sender>, partitioning: Partitioning, max_parallelism: u16) -> Self {
        assert!(!senders.is_empty(), "an edge has at least one reading task");
        Self {
            senders,
            partitioning,
            max_parallelism,
            keying: Keying::default(),
            next: 0,
            pending: VecDeque::new(),
            forced: false,
            closed: false,
        }
    }

    /// Sends rows. Those without a key come back as dead letters.
    pub fn send_batch(&mut self, batch: Batch, dead: &mut Vec<DeadLetter>) {
        match &self.partitioning {
            Partitioning::Forward(task) => self.push(*task, Element::Batch(Box::new(batch))),
            Partitioning::RoundRobin => {
                self.next = (self.next + 1) % self.senders.len();
                self.push(self.next, Element::Batch(Box::new(batch)));
            }
            Partitioning::Broadcast => self.send_signal(&Element::Batch(Box::new(batch))),
            Partitioning::ByKey(key) => {
                let keyed = key_batch(&mut self.keying, batch, key, dead);
                self.split(keyed);
            }
        }
    }

    /// Sends an element, most often a signal, to every reading task.
    pub fn send_signal(&mut self, signal: &Element) {
        for task in 0..self.senders.len() {
            self.push(task, signal.clone());
        }
    }

    /// Sends a barrier to every reading task, past everything that they have not taken yet. What was refused goes in before it,
    /// so that all that it overtakes lies in the channels.
    pub fn overtake(&mut self, barrier: Barrier) {
        self.forced |= !self.pending.is_empty();
        self.pending.drain(..).for_each(|(task, element)| self.senders[task].force(element));
        self.senders.iter().for_each(|sender| sender.overtake(barrier));
    }

    /// Tries again what was refused; true once nothing is left, and what went in without room has it now.
    pub fn flush(&mut self) -> bool {
        while let Some((task, element)) = self.pending.pop_front() {
            match self.senders[task].send(element) {
                Ok(()) => {}
                Err(SendError::Full(element)) => {
                    self.pending.push_front((task, element));
                    return false;
                }
                Err(SendError::Closed) => self.closed = true,
            }
        }
        if self.forced {
            self.forced = !self.senders.iter().all(Sender::has_room);
        }
        !self.forced
    }

    /// Bytes that the channel of the slowest reading task may hold: what a batch is to be a part of.
    pub fn bytes_max(&self) -> usize {
        self.senders.iter().map(Sender::bytes_max).min().unwrap_or(usize::MAX)
    }

    /// Whether a reading task is gone: the job is being taken down.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn split(&mut self, batch: Batch) {
        let tasks = self.senders.len();
        if batch.is_empty() {
            return;
        }
        if tasks == 1 {
            return self.push(0, Element::Batch(Box::new(batch)));
        }
        let keys = batch.keys.as_ref().expect("a batch that is split by key has keys");
        let owners: Vec<usize> = keys
            .hashes
            .iter()
            .map(|&hash| KeyGroup::of(hash, self.max_parallelism).task(tasks, self.max_parallelism))
            .collect();
        let mut rows = vec![Vec::new(); tasks];
        keys.of.iter().enumerate().for_each(|(row, &key)| rows[owners[key as usize]].push(row as u32));
        for (task, rows) in rows.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            self.push(task, Element::Batch(Box::new(batch.select(rows))));
        }
    }

    fn push(&mut self, task: usize, element: Element) {
        if !self.pending.is_empty() {
            return self.pending.push_back((task, element));
        }
        match self.senders[task].send(element) {
            Ok(()) => {}
            Err(SendError::Full(element)) => self.pending.push_back((task, element)),
            Err(SendError::Closed) => self.closed = true,
        }
    }
}

/// Gives a batch its keys. Rows that lack a key field are taken out and become dead letters of the reader.
pub fn key_batch(keying: &mut Keying, mut batch: Batch, key: &KeyBy, dead: &mut Vec<DeadLetter>) -> Batch {
    let chosen: Vec<&Column> = key.columns.iter().map(|&column| &batch.columns[column]).collect();
    let (keys, without) = keying.keys(batch.len(), &chosen);
    batch.keys = None;
    if without.is_empty() {
        batch.keys = Some(keys);
        return batch;
    }
    for &row in &without {
        let reason = missing_key(&batch, row, key);
        dead.push(DeadLetter::of_row(&key.reader, &batch, row as usize, reason).with_columns(
            &key.schema,
            &batch,
            row as usize,
        ));
    }
    let kept: Vec<u32> = (0..batch.len() as u32).filter(|row| without.binary_search(row).is_err()).collect();
    let keys: Keys = keys.select(&kept);
    let mut batch = batch.select(&kept);
    batch.keys = Some(keys);
    batch
}

fn missing_key(batch: &Batch, row: u32, key: &KeyBy) -> String {
    let KeyBy { columns, pointers, .. } = key;
    let at = columns.iter().position(|&column| !batch.columns[column].is_present(row as usize)).unwrap_or(0);
    let fault = batch.faults.iter().find(|fault| fault.row == row && usize::from(fault.column) == columns[at]);
    let field =
        if pointers[at].is_empty() { "the whole value, the key," } else { &format!("key field `{}`", pointers[at]) };
    match fault {
        Some(fault) => format!("{field} is {}; a key is text, a number or a boolean", fault.found),
        None => format!("{field} is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{Receiver, channel};
    use dataflow::checkpoint::CheckpointId;
    use dataflow::element::Cut;
    use dataflow::record::{Fault, Field, Value, ValueType, Values};
    use std::sync::Arc;
    use std::time::Duration;

    fn outbox(tasks: usize, bytes_max: usize) -> (Outbox, Vec<Receiver>) {
        let (senders, receivers) = (0..tasks).map(|_| channel(bytes_max, Arc::default(), Arc::default())).unzip();
        let schema = Schema { fields: vec![Field::new("/city", ValueType::Scalar), Field::time("/window/end")] };
        let key = KeyBy { columns: vec![0], pointers: vec!["/city".into()], reader: "count".into(), schema };
        (Outbox::new(senders, Partitioning::ByKey(key), 128), receivers)
    }

    fn cities(names: &[Option<&str>]) -> Batch {
        let mut city = Column::new(ValueType::Scalar);
        names.iter().for_each(|name| {
            city.push(name.map_or(Value::Absent, Value::Text));
        });
        Batch { timestamps: vec![0; names.len()], columns: vec![city], ..Batch::default() }
    }

    fn received(receiver: &mut Receiver) -> Vec<Batch> {
        std::iter::from_fn(|| receiver.receive(Duration::ZERO))
            .filter_map(|element| if let Element::Batch(batch) = element { Some(*batch) } else { None })
            .collect()
    }

    #[test]
    fn every_row_of_a_key_goes_to_the_same_task_and_none_is_lost() {
        let (mut outbox, mut receivers) = outbox(3, 1 << 20);
        let names: Vec<String> = (0..200).map(|n| format!("city-{}", n % 50)).collect();
        let mut dead = vec![];
        outbox.send_batch(cities(&names.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>()), &mut dead);
        let mut owner = std::collections::BTreeMap::new();
        let mut rows = 0;
        for (task, receiver) in receivers.iter_mut().enumerate() {
            for batch in received(receiver) {
                let keys = batch.keys.as_ref().unwrap();
                rows += batch.len();
                for row in 0..batch.len() {
                    assert_eq!(*owner.entry(keys.of_row(row).to_vec()).or_insert(task), task);
                }
            }
        }
        assert_eq!((rows, owner.len(), dead.len()), (200, 50, 0));
    }

    #[test]
    fn every_task_gets_every_row_of_a_broadcast() {
        let (senders, mut receivers): (_, Vec<Receiver>) =
            (0..3).map(|_| channel(1 << 20, Arc::default(), Arc::default())).unzip();
        let mut outbox = Outbox::new(senders, Partitioning::Broadcast, 128);
        outbox.send_batch(cities(&[Some("Pune"), None]), &mut vec![]);
        for receiver in &mut receivers {
            assert_eq!(received(receiver).iter().map(Batch::len).collect::<Vec<_>>(), [2]);
        }
    }

    #[test]
    fn row_without_a_key_is_a_dead_letter_with_its_reason_and_the_others_go_on() {
        let (mut outbox, mut receivers) = outbox(1, 1 << 20);
        let mut batch = cities(&[Some("Pune"), None, None, Some("Mumbai")]);
        batch.faults.push(Fault { row: 2, column: 0, found: "an object" });
        let mut dead = vec![];
        outbox.send_batch(batch, &mut dead);
        let reasons: Vec<&str> = dead.iter().map(|letter| letter.reason.as_str()).collect();
        assert_eq!(
            reasons,
            ["key field `/city` is missing", "key field `/city` is an object; a key is text, a number or a boolean"]
        );
        assert_eq!(received(&mut receivers[0])[0].len(), 2);
    }

    #[test]
    fn row_without_a_key_that_is_columns_alone_is_told_by_them() {
        let (mut outbox, _receivers) = outbox(1, 1 << 20);
        let mut batch = cities(&[None, Some("Pune")]);
        batch.columns.push(Column::all(Values::Int(vec![1_754_038_800_000, 0])));
        let mut dead = vec![];
        outbox.send_batch(batch, &mut dead);
        let value = dead[0].value.as_deref().map(String::from_utf8_lossy);
        assert_eq!(value.as_deref(), Some(r#"{"city":null,"window":{"end":"2025-08-01T09:00:00Z"}}"#));
        assert_eq!((dead.len(), dead[0].node.as_str()), (1, "count"));
    }

    #[test]
    fn what_is_refused_is_kept_in_order_and_sent_when_there_is_room() {
        let (mut outbox, mut receivers) = outbox(1, 1);
        outbox.send_signal(&Element::Watermark(1));
        outbox.send_signal(&Element::Watermark(2));
        outbox.send_signal(&Element::Watermark(3));
        assert!(!outbox.flush());
        let mut seen = vec![];
        while let Some(Element::Watermark(watermark)) = receivers[0].receive(Duration::ZERO) {
            seen.push(watermark);
            outbox.flush();
        }
        assert_eq!(seen, [1, 2, 3]);
        assert!(outbox.flush());
    }

    #[test]
    fn barrier_overtakes_also_what_was_refused_and_no_more_is_made_until_there_is_room() {
        let (mut outbox, mut receivers) = outbox(1, 1);
        (1..=3).for_each(|watermark| outbox.send_signal(&Element::Watermark(watermark)));
        outbox.overtake(Barrier { checkpoint: CheckpointId(1), cut: Cut::Overtaking });
        assert_eq!(receivers[0].overtaken().expect("it is there").1.len(), 3);
        for _ in 0..3 {
            assert!(!outbox.flush());
            assert!(receivers[0].receive(Duration::ZERO).is_some());
        }
        assert!(outbox.flush());
    }
}
