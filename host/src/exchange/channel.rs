//! One sender, one receiver, a queue bounded in bytes, and in time by how fast the receiver is. Each side is told through its
//! task's wait point.

use super::pace::Pace;
use crate::env::WaitPoint;
use dataflow::element::{Barrier, Cut, Element};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A channel between two tasks that holds about `bytes_max`, and less when that is more than its receiver takes in a second.
pub fn channel(bytes_max: usize, sender: Arc<WaitPoint>, receiver: Arc<WaitPoint>) -> (Sender, Receiver) {
    let pace = Pace::new(bytes_max);
    let shared = Arc::new(Shared {
        queue: Mutex::default(),
        bytes_max: AtomicUsize::new(pace.bytes_max()),
        overtaken: AtomicBool::new(false),
        sender,
        receiver,
    });
    (Sender { shared: shared.clone() }, Receiver { shared, pace })
}

struct Shared {
    queue: Mutex<Queue>,
    /// What the receiver's pace allows: written by it alone.
    bytes_max: AtomicUsize,
    /// `Queue::overtaking` is there: looked at without the lock.
    overtaken: AtomicBool,
    sender: Arc<WaitPoint>,
    receiver: Arc<WaitPoint>,
}

#[derive(Default)]
struct Queue {
    elements: VecDeque<Element>,
    bytes: usize,
    /// Elements ever sent, and ever received.
    sent: u64,
    received: u64,
    /// A barrier that goes past everything sent before it, and how many elements that is.
    overtaking: Option<(Barrier, u64)>,
    /// The sender was refused and wants to hear of room.
    refused: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut queue: MutexGuard<'_, Queue>, element: Element) {
        queue.bytes += element.byte_size();
        queue.sent += 1;
        queue.elements.push_back(element);
        let was_empty = queue.elements.len() == 1;
        drop(queue);
        if was_empty {
            self.receiver.notify();
        }
    }
}

impl Queue {
    fn pop(&mut self) -> Option<Element> {
        // What lies behind a barrier that overtook waits until the receiver has seen the barrier.
        if self.overtaking.is_some_and(|(_, before)| self.received >= before) {
            return None;
        }
        let element = self.elements.pop_front()?;
        self.bytes -= element.byte_size();
        self.received += 1;
        Some(element)
    }

    /// Woken at half, not at the first byte of room: fewer switches between the two threads.
    fn wakes_sender(&mut self, bytes_max: usize) -> bool {
        let wake = self.refused && self.bytes <= bytes_max / 2;
        self.refused &= !wake;
        wake
    }
}

/// The sending end.
pub struct Sender {
    shared: Arc<Shared>,
}

/// Why an element was not taken.
#[derive(Debug)]
pub enum SendError {
    /// No room: here it is back. The sender's wait point hears when there is.
    Full(Element),
    /// The receiver is gone: the job is being taken down.
    Closed,
}

impl Sender {
    /// Sends, or says at once why not.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&self, element: Element) -> Result<(), SendError> {
        let mut queue = self.shared.lock();
        if queue.receiver_gone {
            return Err(SendError::Closed);
        }
        if queue.bytes >= self.bytes_max() {
            queue.refused = true;
            return Err(SendError::Full(element));
        }
        self.shared.push(queue, element);
        Ok(())
    }

    /// Sends whether there is room or not: what was refused goes in before a barrier that overtakes it. The sender waits for
    /// [`Sender::has_room`] before it makes more.
    pub fn force(&self, element: Element) {
        self.shared.push(self.shared.lock(), element);
    }

    /// Sends a barrier past everything in the channel. One that has not been seen yet is replaced: its checkpoint was abandoned.
    pub fn overtake(&self, barrier: Barrier) {
        let mut queue = self.shared.lock();
        queue.overtaking = Some((barrier, queue.sent));
        self.shared.overtaken.store(true, Ordering::Release);
        drop(queue);
        self.shared.receiver.notify();
    }

    /// Whether the next element would be taken. The sender's wait point hears when that changes.
    pub fn has_room(&self) -> bool {
        let mut queue = self.shared.lock();
        queue.refused = queue.bytes >= self.bytes_max();
        !queue.refused
    }

    /// Bytes that the channel may hold now.
    pub fn bytes_max(&self) -> usize {
        self.shared.bytes_max.load(Ordering::Relaxed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.lock().sender_gone = true;
        self.shared.receiver.notify();
    }
}

/// The receiving end.
pub struct Receiver {
    shared: Arc<Shared>,
    pace: Pace,
}

impl Receiver {
    /// The next element, if one is there. `now` is of the monotonic clock: how fast elements are taken says how many may wait.
    pub fn receive(&mut self, now: Duration) -> Option<Element> {
        let mut queue = self.shared.lock();
        let element = queue.pop();
        match &element {
            Some(element) => {
                self.pace.took(element.byte_size(), now);
                // Behind a barrier the channel may be held.
                if matches!(element, Element::Barrier(_)) {
                    self.pace.pause(now);
                }
            }
            None => self.pace.ran_empty(now),
        }
        self.shared.bytes_max.store(self.pace.bytes_max(), Ordering::Relaxed);
        let wake = queue.wakes_sender(self.pace.bytes_max());
        drop(queue);
        if wake {
            self.shared.sender.notify();
        }
        element
    }

    /// A barrier that has overtaken what lies in the channel, with copies of the rows and signals of time that were sent before it.
    pub fn overtaken(&self) -> Option<(Barrier, Vec<Element>)> {
        if !self.shared.overtaken.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.shared.lock();
        self.shared.overtaken.store(false, Ordering::Release);
        let (barrier, before) = queue.overtaking.take()?;
        let count = usize::try_from(before.saturating_sub(queue.received)).expect("no more than memory holds");
        let told = |element: &&Element| !matches!(element, Element::Barrier(_) | Element::End);
        Some((barrier, queue.elements.iter().take(count).filter(told).cloned().collect()))
    }

    /// Takes the next element if it is a barrier for which a task need not end what it is at.
    pub fn barrier_next(&mut self, now: Duration) -> Option<Barrier> {
        let mut queue = self.shared.lock();
        match queue.elements.front() {
            Some(&Element::Barrier(barrier)) if barrier.cut != Cut::Settled => {}
            _ => return None,
        }
        let Some(Element::Barrier(barrier)) = queue.pop() else { return None };
        self.pace.pause(now);
        Some(barrier)
    }

    /// Whether the sender is gone and everything it sent has been received.
    pub fn is_closed(&self) -> bool {
        let queue = self.shared.lock();
        queue.sender_gone && queue.elements.is_empty()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.lock().receiver_gone = true;
        self.shared.sender.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{Clock as _, ManualClock};
    use dataflow::checkpoint::CheckpointId;
    use dataflow::record::Batch;

    fn pair(bytes_max: usize) -> (Sender, Receiver) {
        channel(bytes_max, Arc::default(), Arc::default())
    }

    fn watermark(element: Option<Element>) -> Option<i64> {
        match element {
            Some(Element::Watermark(watermark)) => Some(watermark),
            _ => None,
        }
    }

    #[test]
    fn elements_arrive_in_order_and_a_full_channel_hands_back() {
        let (sender, mut receiver) = pair(32);
        sender.send(Element::Watermark(1)).unwrap();
        sender.send(Element::Watermark(2)).unwrap();
        let Err(SendError::Full(back)) = sender.send(Element::Watermark(3)) else {
            panic!("two signals fill 32 bytes")
        };
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(1));
        sender.send(back).unwrap();
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(2));
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(3));
        assert!(receiver.receive(Duration::ZERO).is_none() && !receiver.is_closed());
    }

    #[test]
    fn each_side_learns_that_the_other_is_gone() {
        let (sender, mut receiver) = pair(64);
        sender.send(Element::End).unwrap();
        drop(sender);
        assert!(!receiver.is_closed(), "what was sent is received first");
        assert!(matches!(receiver.receive(Duration::ZERO), Some(Element::End)));
        assert!(receiver.is_closed());
        let (sender, receiver) = pair(64);
        drop(receiver);
        assert!(matches!(sender.send(Element::End), Err(SendError::Closed)));
    }

    #[test]
    fn slow_receiver_lets_less_wait_and_a_quick_one_more_again() {
        let clock = ManualClock::default();
        let (sender, mut receiver) = pair(1 << 20);
        let batch = || {
            let batch = Batch { timestamps: vec![0; 512], ..Batch::default() };
            Element::Batch(Box::new(batch)) // 4 KiB
        };
        let fill = |sender: &Sender| std::iter::from_fn(|| sender.send(batch()).ok()).count();
        assert_eq!(fill(&sender), 4, "16 KiB before anything is known of the receiver");
        (0..5).for_each(|_| drop(receiver.receive(clock.monotonic())));
        assert_eq!(fill(&sender), 8, "twice that, since it ran empty");
        for _ in 0..6 {
            assert!(receiver.receive(clock.monotonic()).is_some());
            clock.advance(250);
        }
        assert_eq!(fill(&sender), 2, "2 of 4 KiB wait, for a receiver that takes 4 in a second");
        while receiver.receive(clock.monotonic()).is_some() {
            clock.advance(250);
        }
        assert_eq!(fill(&sender), 4, "what a second takes");
        for _ in 0..300 {
            assert!(receiver.receive(clock.monotonic()).is_some());
            sender.send(batch()).unwrap();
        }
        assert_eq!(fill(&sender), 252, "so many in no time: it may hold the most");
    }

    fn overtaking(checkpoint: u64) -> Barrier {
        Barrier { checkpoint: CheckpointId(checkpoint), cut: Cut::Overtaking }
    }

    #[test]
    fn barrier_overtakes_what_lies_in_the_channel_and_nothing_behind_it_is_taken_first() {
        let (sender, mut receiver) = pair(1 << 10);
        (1..=3).for_each(|watermark| sender.send(Element::Watermark(watermark)).unwrap());
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(1));
        sender.overtake(overtaking(7));
        sender.send(Element::Watermark(4)).unwrap();
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(2), "sent before the barrier, so in the snapshot");
        let (barrier, before) = receiver.overtaken().expect("it is there");
        assert_eq!(barrier, overtaking(7));
        assert_eq!(before.into_iter().map(|element| watermark(Some(element))).collect::<Vec<_>>(), [Some(3)]);
        assert!(receiver.overtaken().is_none(), "it comes once");
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(3));
        sender.overtake(overtaking(8));
        sender.send(Element::Watermark(5)).unwrap();
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(4));
        assert!(receiver.receive(Duration::ZERO).is_none(), "the barrier is to be seen before what is behind it");
        assert_eq!(receiver.overtaken().expect("it is there").1.len(), 0);
        assert_eq!(watermark(receiver.receive(Duration::ZERO)), Some(5));
    }

    #[test]
    fn what_was_refused_goes_in_before_the_barrier_and_its_sender_waits_for_room() {
        let (sender, mut receiver) = pair(16);
        sender.send(Element::Watermark(1)).unwrap();
        let Err(SendError::Full(refused)) = sender.send(Element::Watermark(2)) else { panic!("it is full") };
        sender.force(refused);
        sender.overtake(overtaking(1));
        assert_eq!(receiver.overtaken().expect("it is there").1.len(), 2);
        assert!(!sender.has_room());
        receiver.receive(Duration::ZERO);
        receiver.receive(Duration::ZERO);
        assert!(sender.has_room());
    }

    #[test]
    fn only_a_barrier_that_may_cut_a_firing_is_taken_between_its_slices() {
        let (sender, mut receiver) = pair(64);
        let barrier = |cut| Barrier { checkpoint: CheckpointId(1), cut };
        sender.send(Element::Barrier(barrier(Cut::Aligned))).unwrap();
        sender.send(Element::Barrier(barrier(Cut::Settled))).unwrap();
        assert_eq!(receiver.barrier_next(Duration::ZERO), Some(barrier(Cut::Aligned)));
        assert_eq!(receiver.barrier_next(Duration::ZERO), None);
    }
}
