//! One sender, one receiver, a queue bounded in bytes. Each side is told through its task's wait point.

use crate::env::WaitPoint;
use dataflow::element::Element;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A channel between two tasks that holds about `bytes_max`.
pub fn channel(bytes_max: usize, sender: Arc<WaitPoint>, receiver: Arc<WaitPoint>) -> (Sender, Receiver) {
    let shared = Arc::new(Shared { queue: Mutex::default(), bytes_max, sender, receiver });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

struct Shared {
    queue: Mutex<Queue>,
    bytes_max: usize,
    sender: Arc<WaitPoint>,
    receiver: Arc<WaitPoint>,
}

#[derive(Default)]
struct Queue {
    elements: VecDeque<Element>,
    bytes: usize,
    /// The sender was refused and wants to hear of room.
    refused: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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
        let size = element.byte_size();
        let mut queue = self.shared.lock();
        if queue.receiver_gone {
            return Err(SendError::Closed);
        }
        if queue.bytes >= self.shared.bytes_max {
            queue.refused = true;
            return Err(SendError::Full(element));
        }
        queue.bytes += size;
        queue.elements.push_back(element);
        let was_empty = queue.elements.len() == 1;
        drop(queue);
        if was_empty {
            self.shared.receiver.notify();
        }
        Ok(())
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
}

impl Receiver {
    /// The next element, if one is there.
    pub fn receive(&self) -> Option<Element> {
        let mut queue = self.shared.lock();
        let element = queue.elements.pop_front()?;
        queue.bytes -= element.byte_size();
        // Woken at half, not at the first byte of room: fewer switches between the two threads.
        let wake = queue.refused && queue.bytes <= self.shared.bytes_max / 2;
        if wake {
            queue.refused = false;
        }
        drop(queue);
        if wake {
            self.shared.sender.notify();
        }
        Some(element)
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
        let (sender, receiver) = pair(32);
        sender.send(Element::Watermark(1)).unwrap();
        sender.send(Element::Watermark(2)).unwrap();
        let Err(SendError::Full(back)) = sender.send(Element::Watermark(3)) else {
            panic!("two signals fill 32 bytes")
        };
        assert_eq!(watermark(receiver.receive()), Some(1));
        sender.send(back).unwrap();
        assert_eq!(watermark(receiver.receive()), Some(2));
        assert_eq!(watermark(receiver.receive()), Some(3));
        assert!(receiver.receive().is_none() && !receiver.is_closed());
    }

    #[test]
    fn each_side_learns_that_the_other_is_gone() {
        let (sender, receiver) = pair(64);
        sender.send(Element::End).unwrap();
        drop(sender);
        assert!(!receiver.is_closed(), "what was sent is received first");
        assert!(matches!(receiver.receive(), Some(Element::End)));
        assert!(receiver.is_closed());
        let (sender, receiver) = pair(64);
        drop(receiver);
        assert!(matches!(sender.send(Element::End), Err(SendError::Closed)));
    }
}
