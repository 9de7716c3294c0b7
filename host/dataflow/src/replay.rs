//! What a restored task is given before anything new: the rows that a barrier had overtaken, with what was said of time between
//! them, as if they were still in its inputs. Then it stands where it would stand had the barrier waited in line, and so do all
//! tasks of its chain, however many there are now.

use crate::element::Element;
use crate::record::Batch;
use crate::time::{START, Timestamp};
use crate::watermark::Merge;
use std::collections::VecDeque;

/// What one task had, or what of it belongs to the task that is restored now.
#[derive(Debug)]
pub struct ReplayPart {
    /// Its watermark in the snapshot.
    pub watermark: Timestamp,
    /// The watermark that it was firing for.
    pub firing: Option<Timestamp>,
    /// Its channels.
    pub channels: Vec<ChannelState>,
}

/// What a task knew of a channel when a barrier overtook it, and what lay in it.
#[derive(Debug)]
pub struct ChannelState {
    /// The reader's input that it leads to.
    pub input: usize,
    /// Where the sender stood, as far as the task had heard.
    pub watermark: Timestamp,
    /// The sender had nothing, as far as the task had heard.
    pub idle: bool,
    /// What the task had yet to take, in order: rows and what is said of time.
    pub elements: Vec<Element>,
}

/// What to do next.
#[derive(Debug)]
pub enum ReplayStep {
    /// Event time has come so far.
    Advance(Timestamp),
    /// Rows for an input.
    Rows {
        /// Which.
        input: usize,
        /// The rows.
        batch: Box<Batch>,
        /// Where the task that they were sent to stood. With several parts it may be ahead of what this task has fired for: a row
        /// that was late there is late here.
        watermark: Timestamp,
    },
}

/// Everything that is given again to one task.
#[derive(Debug)]
pub struct Replay {
    parts: Vec<Part>,
    /// What the task has been told.
    told: Timestamp,
    /// A firing was interrupted: the task is told again, also where it stands already.
    resume: bool,
}

#[derive(Debug)]
struct Part {
    merge: Merge,
    /// Channel, input, element: channel by channel, since what lies in two channels has no order.
    left: VecDeque<(usize, usize, Element)>,
}

impl Replay {
    /// Nothing, to a task that stands at `watermark`.
    pub fn nothing(watermark: Timestamp) -> Self {
        Self { parts: vec![], told: watermark, resume: false }
    }

    /// Of these parts.
    pub fn new(parts: Vec<ReplayPart>) -> Self {
        let told = parts.iter().map(|part| part.watermark).min().unwrap_or(START);
        let resume = parts.iter().any(|part| part.firing.is_some());
        Self { parts: parts.into_iter().map(Part::new).collect(), told, resume }
    }

    /// Where the task stands before the first step.
    pub fn watermark(&self) -> Timestamp {
        self.told
    }

    /// The next step; none when there is nothing more.
    pub fn step(&mut self) -> Option<ReplayStep> {
        loop {
            let reached = self.parts.iter().map(|part| part.merge.watermark()).min()?;
            let resumes = std::mem::take(&mut self.resume) && reached != START;
            if reached > self.told || resumes {
                self.told = reached;
                return Some(ReplayStep::Advance(reached));
            }
            let part = self.parts.iter_mut().find(|part| !part.left.is_empty())?;
            let (channel, input, element) = part.left.pop_front().expect("the part has something left");
            match element {
                Element::Batch(batch) => {
                    let watermark = part.merge.watermark();
                    return Some(ReplayStep::Rows { input, batch, watermark });
                }
                Element::Watermark(watermark) => part.merge.advance(channel, watermark),
                Element::Idle => part.merge.idle(channel),
                Element::Active => part.merge.active(channel),
                Element::Barrier(_) | Element::End => continue,
            };
        }
    }
}

impl Part {
    fn new(part: ReplayPart) -> Self {
        // What it was firing for comes before any row: no row is taken by a task that fires.
        let mut merge = Merge::new(part.channels.len(), part.firing.unwrap_or(part.watermark));
        let mut left = VecDeque::new();
        for (at, channel) in part.channels.into_iter().enumerate() {
            merge.advance(at, channel.watermark);
            if channel.idle {
                merge.idle(at);
            }
            left.extend(channel.elements.into_iter().map(|element| (at, channel.input, element)));
        }
        Self { merge, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(timestamp: Timestamp) -> Element {
        Element::Batch(Box::new(Batch { timestamps: vec![timestamp], ..Batch::default() }))
    }

    /// `W` and a watermark, or the time of a row and the watermark it is judged by.
    fn told(parts: Vec<ReplayPart>) -> Vec<String> {
        let mut replay = Replay::new(parts);
        let mut told = vec![format!("from {}", replay.watermark())];
        while let Some(step) = replay.step() {
            told.push(match step {
                ReplayStep::Advance(watermark) => format!("W{watermark}"),
                ReplayStep::Rows { batch, watermark, .. } => format!("{} at {watermark}", batch.timestamps[0]),
            });
        }
        told
    }

    fn channel(watermark: Timestamp, elements: Vec<Element>) -> ChannelState {
        ChannelState { input: 0, watermark, idle: false, elements }
    }

    fn part(watermark: Timestamp, channels: Vec<ChannelState>) -> ReplayPart {
        ReplayPart { watermark, firing: None, channels }
    }

    #[test]
    fn time_advances_between_the_rows_as_it_did() {
        let first = channel(5, vec![rows(6), Element::Watermark(9), rows(7)]);
        let second = channel(8, vec![rows(8), Element::Watermark(20)]);
        let expected = ["from 5", "6 at 5", "W8", "7 at 8", "8 at 8", "W9"];
        assert_eq!(told(vec![part(5, vec![first, second])]), expected);
    }

    #[test]
    fn firing_that_was_interrupted_comes_before_any_row() {
        let cut = ReplayPart { firing: Some(10), ..part(5, vec![channel(10, vec![rows(7)])]) };
        assert_eq!(told(vec![cut]), ["from 5", "W10", "7 at 10"]);
    }

    #[test]
    fn firing_at_the_end_of_the_input_goes_on_where_the_watermark_stands_already() {
        let cut = ReplayPart { firing: Some(10), ..part(10, vec![channel(10, vec![])]) };
        assert_eq!(told(vec![cut]), ["from 10", "W10"]);
    }

    #[test]
    fn rows_of_several_tasks_are_judged_where_each_stood_and_nothing_fires_before_all_are_there() {
        let ahead = part(10, vec![channel(10, vec![rows(7)])]);
        let behind = part(5, vec![channel(5, vec![rows(6), Element::Watermark(10)])]);
        assert_eq!(told(vec![ahead, behind]), ["from 5", "7 at 10", "6 at 5", "W10"]);
    }

    #[test]
    fn idle_channel_holds_nothing_up() {
        let idle = ChannelState { idle: true, ..channel(1, vec![]) };
        assert_eq!(told(vec![part(1, vec![idle, channel(1, vec![Element::Watermark(9)])])]), ["from 1", "W9"]);
    }

    #[test]
    fn task_that_starts_anew_is_given_nothing() {
        assert_eq!(told(vec![]), [format!("from {START}")]);
        let mut nothing = Replay::nothing(7);
        assert!(nothing.step().is_none() && nothing.watermark() == 7);
    }
}
