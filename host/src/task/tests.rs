//! An operator task between channels that the test holds: what it does at barriers, whatever it is at.

use super::in_flight::read_in_flight;
use super::*;
use crate::checkpoint::memory::MemoryStorage;
use crate::env::{self, Env, FailPoints, ManualClock, WaitPoint};
use crate::exchange::{Outbox, Partitioning, Receiver, Sender, channel};
use crate::operator::{Context, Due, Operator};
use crate::state::memory::{self, MemoryOptions};
use dataflow::checkpoint::{CheckpointId, Report, TaskSnapshot};
use dataflow::element::{Barrier, Cut, Element};
use dataflow::graph::Flow;
use dataflow::record::Batch;
use dataflow::replay::{ChannelState, Replay, ReplayPart};
use dataflow::time::{START, Timestamp};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Passes rows on, and fires a row in each of so many slices.
struct Passing {
    slices: i64,
}

impl Operator for Passing {
    fn open(&mut self, _context: &mut Context<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn on_batch(&mut self, _input: usize, batch: Batch, context: &mut Context<'_>) -> anyhow::Result<()> {
        context.out.emit(0, batch);
        Ok(())
    }

    fn on_watermark(&mut self, context: &mut Context<'_>) -> anyhow::Result<Due> {
        if self.slices == 0 {
            return Ok(Due::Done);
        }
        self.slices -= 1;
        context.out.emit(0, rows(&[-self.slices]));
        Ok(if self.slices == 0 { Due::Done } else { Due::More })
    }

    fn on_clock(&mut self, _context: &mut Context<'_>) -> anyhow::Result<Due> {
        Ok(Due::Done)
    }

    fn next_clock_timer(&self, _context: &Context<'_>) -> Option<Timestamp> {
        None
    }
}

fn rows(timestamps: &[i64]) -> Batch {
    Batch { timestamps: timestamps.to_vec(), ..Batch::default() }
}

fn batch(timestamps: &[i64]) -> Element {
    Element::Batch(Box::new(rows(timestamps)))
}

fn barrier(cut: Cut) -> Barrier {
    Barrier { checkpoint: CheckpointId(1), cut }
}

/// An element in a word.
fn shown(element: &Element) -> String {
    match element {
        Element::Batch(batch) => format!("{:?}", batch.timestamps),
        Element::Watermark(watermark) => format!("W{watermark}"),
        Element::Barrier(_) => "barrier".into(),
        Element::Idle => "idle".into(),
        Element::Active => "active".into(),
        Element::End => "end".into(),
    }
}

struct Rig {
    inputs: Vec<Sender>,
    output: Receiver,
    heard: Arc<WaitPoint>,
    events: mpsc::Receiver<Event>,
    storage: Arc<MemoryStorage>,
    _dead: Receiver,
    task: JoinHandle<anyhow::Result<End>>,
}

/// What is there before the task starts, by input.
type Before = Vec<Vec<Element>>;

/// A task with these inputs whose output holds so many bytes.
fn rig(before: Before, output_bytes: usize, slices: i64, replay: Vec<ReplayPart>) -> Rig {
    let (storage, control, heard) = (Arc::new(MemoryStorage::default()), Arc::new(Control::default()), Arc::default());
    let (events, inbox) = mpsc::channel();
    let mut inputs = vec![];
    let mut senders = vec![];
    for elements in before {
        let (sender, receiver) = channel(1 << 20, Arc::default(), control.wait.clone());
        elements.into_iter().for_each(|element| sender.send(element).unwrap());
        inputs.push(Input { receiver, input: 0 });
        senders.push(sender);
    }
    let (out, output) = channel(output_bytes, control.wait.clone(), Arc::clone(&heard));
    let (dead_out, dead) = channel(1 << 20, control.wait.clone(), Arc::default());
    let port = |sender| Port { edges: vec![Outbox::new(vec![sender], Partitioning::Forward(0), 128)] };
    let node = ChainNode {
        name: "passing".into(),
        operator: Box::new(Passing { slices }),
        metrics: Arc::default(),
        ports: vec![vec![Target::Edge(0)]],
    };
    let state = memory::open(MemoryOptions {
        storage: storage.clone(),
        chain: "passing".into(),
        task: 0,
        attempt: "a".into(),
        groups: 0..128,
        active_limit: 1 << 20,
        notify: control.wait.clone(),
        fail_points: Arc::default(),
    });
    let replay = Replay::new(replay);
    let chain = Chain::new(vec![node], state, vec![port(out)], port(dead_out), replay.watermark());
    let env = Env {
        clock: Arc::new(ManualClock::default()),
        fail_points: Arc::new(FailPoints::default()),
        batch_records: 1,
        pace: None,
        state_backend: None,
        checkpoint_mode: None,
    };
    let in_flight = InFlightStore { storage: storage.clone(), attempt: "a".into(), flows: vec![Flow::default()] };
    let id = TaskId { node: "passing".into(), task: 0 };
    let durable = Durable { replay, in_flight };
    let task = OperatorTask::new(id, (0, 128), (inputs, chain), durable, control, (events, env));
    let task = env::spawn("task", move || task.run()).unwrap();
    Rig { inputs: senders, output, heard, events: inbox, storage, _dead: dead, task }
}

impl Rig {
    /// The next elements of the output up to the one shown as `last`. Behind a barrier that overtakes come copies of what it has
    /// overtaken, in brackets.
    fn output(&mut self, last: &str) -> Vec<String> {
        let mut seen: Vec<String> = vec![];
        while seen.last().is_none_or(|seen| seen != last) {
            if let Some((_, before)) = self.output.overtaken() {
                seen.push(format!("overtakes {}", before.iter().map(shown).collect::<Vec<_>>().join(" ")));
            } else if let Some(element) = self.output.receive(Duration::ZERO) {
                seen.push(shown(&element));
            } else {
                self.heard.wait(None);
            }
        }
        seen
    }

    /// Snapshot and what lay in the inputs, in the order in which the task reports them.
    fn report(&self) -> Report {
        loop {
            match self.events.recv().unwrap() {
                Event::Report(CheckpointId(1), report) => return report,
                Event::SnapshotTaken(CheckpointId(1), _) => {}
                other => panic!("a report is expected, not {other:?}"),
            }
        }
    }

    fn snapshot(&self) -> TaskSnapshot {
        match self.report() {
            Report::Operator(snapshot, _) => snapshot,
            other => panic!("a snapshot is expected, not {other:?}"),
        }
    }

    /// What lay in each input.
    fn in_flight(&self) -> Vec<Vec<String>> {
        match self.report() {
            Report::InFlight { file: Some(file), .. } => {
                let channels = read_in_flight(&*self.storage, &file, &[Flow::default()]).unwrap();
                channels.iter().map(|channel| channel.elements.iter().map(shown).collect()).collect()
            }
            other => panic!("what lay in the inputs is expected, not {other:?}"),
        }
    }

    fn end(self) {
        self.inputs.iter().for_each(|input| input.send(Element::End).unwrap());
        drop(self.inputs);
        let (mut output, heard) = (self.output, self.heard);
        loop {
            match output.receive(Duration::ZERO) {
                Some(Element::End) => break,
                Some(_) => {}
                None => heard.wait(None),
            }
        }
        assert_eq!(self.task.join().unwrap().unwrap(), End::Told);
    }
}

#[test]
fn barrier_overtakes_a_task_whose_output_is_full_and_every_row_before_it_is_on_one_side() {
    let before = vec![vec![batch(&[1]), batch(&[2]), batch(&[3])], vec![]];
    let rig = rig(before, 1, 0, vec![]);
    rig.inputs[0].send(Element::Watermark(9)).unwrap();
    rig.inputs[0].overtake(barrier(Cut::Overtaking));
    rig.inputs[0].send(batch(&[4])).unwrap();
    // The output holds one row and nobody takes it: the snapshot comes all the same.
    assert_eq!(rig.snapshot().watermark, START);
    // The second input's barrier has not come: what it sends belongs to the checkpoint too.
    rig.inputs[1].send(batch(&[5])).unwrap();
    rig.inputs[1].overtake(barrier(Cut::Overtaking));
    let in_flight = rig.in_flight();
    assert_eq!((in_flight[0].last().unwrap().as_str(), &in_flight[1][..]), ("W9", &["[5]".to_string()][..]));
    // What the task had put out by then lies before its own barrier, the rest lay before it.
    let (_, put_out) = rig.output.overtaken().expect("the barrier was sent on");
    let all: Vec<String> = put_out.iter().map(shown).chain(in_flight[0].clone()).collect();
    assert_eq!(all, ["[1]", "[2]", "[3]", "W9"]);
}

#[test]
fn aligned_barrier_is_taken_between_the_slices_of_a_firing_and_the_snapshot_says_how_far_it_is_to_go() {
    let before = vec![vec![batch(&[1]), Element::Watermark(5), Element::Barrier(barrier(Cut::Aligned)), batch(&[7])]];
    let mut rig = rig(before, 1 << 20, 3, vec![]);
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.watermark, snapshot.firing), (START, Some(5)));
    assert_eq!(rig.output("[7]"), ["[1]", "barrier", "[-2]", "[-1]", "[0]", "W5", "[7]"]);
    rig.end();
}

#[test]
fn settled_barrier_waits_until_everything_has_fired() {
    let before = vec![vec![Element::Watermark(5), Element::Barrier(barrier(Cut::Settled)), batch(&[7])]];
    let mut rig = rig(before, 1 << 20, 2, vec![]);
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.watermark, snapshot.firing), (5, None));
    assert_eq!(rig.output("[7]"), ["[-1]", "[0]", "W5", "barrier", "[7]"]);
    rig.end();
}

#[test]
fn loose_barrier_lets_rows_of_an_input_pass_whose_barrier_has_come() {
    let loose = || Element::Barrier(barrier(Cut::Loose));
    let mut rig = rig(vec![vec![loose(), batch(&[1])], vec![]], 1 << 20, 0, vec![]);
    assert_eq!(rig.output("[1]"), ["[1]"]);
    rig.inputs[1].send(loose()).unwrap();
    assert_eq!(rig.output("barrier"), ["barrier"]);
    rig.snapshot();
    rig.end();
}

#[test]
fn aligned_barrier_holds_its_input_until_all_have_come() {
    let aligned = || Element::Barrier(barrier(Cut::Aligned));
    let mut rig = rig(vec![vec![aligned(), batch(&[1])], vec![batch(&[2]), aligned()]], 1 << 20, 0, vec![]);
    assert_eq!(rig.output("[1]"), ["[2]", "barrier", "[1]"]);
    rig.snapshot();
    rig.end();
}

#[test]
fn restored_task_ends_its_firing_and_takes_what_was_on_its_way_before_anything_new() {
    let channel = ChannelState {
        input: 0,
        watermark: 5,
        idle: false,
        elements: vec![batch(&[2]), Element::Watermark(8), batch(&[3])],
    };
    let part = ReplayPart { watermark: 1, firing: Some(5), channels: vec![channel] };
    let mut rig = rig(vec![vec![Element::Watermark(6), batch(&[9])]], 1 << 20, 1, vec![part]);
    assert_eq!(rig.output("[9]"), ["[0]", "W5", "[2]", "W8", "[3]", "[9]"], "W6 lies behind, and is not told again");
    rig.end();
}
