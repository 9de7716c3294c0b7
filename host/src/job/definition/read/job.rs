//! Reads the top of a job file and hands each node to its reader.

use super::super::keys;
use super::super::problem::Problem;
use super::super::section::{Reader, Section, positive_ms};
use super::super::tree::{Key, Node, Value};
use super::super::{Checkpoint, DeadLetters, Definition, Every, State, units};
use super::{operator, sink, source};
use dataflow::checkpoint::CheckpointMode;
use dataflow::restart::RestartPolicy;
use std::time::Duration;

/// The least memory that state on disk works with.
const STATE_MEMORY_MIN: u64 = 16 << 20;

/// The whole file. Faulty parts are replaced; the reader knows of each.
pub(in super::super) fn job(reader: &Reader<'_>, root: &Node, revision: String) -> Definition {
    let section = Section::new(reader, "the job file".into(), root, &[&keys::JOB]);
    section.refuse_unknown(&[]);
    let name = section.text("name");
    if let Some(node) = section.node("name").filter(|_| !name.is_empty()) {
        check_name(reader, &Key { name: name.clone(), place: node.place });
    }
    let nodes = |name: &str| {
        let nodes = section.named(name);
        nodes.iter().for_each(|(key, _)| check_name(reader, key));
        nodes
    };
    let checkpoint = checkpoint(&section.section("checkpoint", &keys::CHECKPOINT));
    let mode = checkpoint.mode;
    Definition {
        name,
        revision,
        parallelism: section.number("parallelism", 1..=1024) as usize,
        parallelism_place: section.place_of("parallelism"),
        max_parallelism: section.number("max_parallelism", 1..=32_768) as u16,
        checkpoint,
        state: state(&section.section("state", &keys::STATE)),
        restart: restart(&section.section("restart", &keys::RESTART)),
        dead_letters: dead_letters(&section.section("dead_letters", &keys::DEAD_LETTERS)),
        sources: nodes("sources").into_iter().map(|(key, node)| source::source(reader, key, node)).collect(),
        operators: nodes("operators").into_iter().map(|(key, node)| operator::operator(reader, key, node)).collect(),
        sinks: nodes("sinks").into_iter().map(|(key, node)| sink::sink(reader, key, node, mode)).collect(),
    }
}

/// Names are used in files, metrics and references.
fn check_name(reader: &Reader<'_>, key: &Key) {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.name.is_empty() || !key.name.chars().all(fits) {
        let message = format!("the name `{}` has other characters than letters, digits, `-` and `_`", key.name);
        reader.problem(Problem::at(key.place, message));
    }
}

fn checkpoint(section: &Section<'_>) -> Checkpoint {
    let every = section.optional("every", every).unwrap_or(Every::Records(1));
    let min_pause = Duration::from_millis(section.span_ms("min_pause").unsigned_abs());
    if matches!(every, Every::Records(_)) && !min_pause.is_zero() {
        let message = "`min_pause` does not fit a checkpoint by records: no record is read until it is taken";
        let problem = Problem::at(section.place_of("min_pause"), message);
        section.reader.problem(problem.hint("leave it out, or take checkpoints by time, e.g. `every: 10s`"));
    }
    let mode = section.choice("mode", &CheckpointMode::NAMES);
    if matches!(every, Every::Records(_)) && mode != CheckpointMode::ExactlyOnce {
        let message = "a checkpoint by records is always exact: another `mode` has nothing to change";
        let problem = Problem::at(section.place_of("mode"), message);
        section.reader.problem(problem.hint("leave it out, or take checkpoints by time, e.g. `every: 10s`"));
    }
    Checkpoint {
        every,
        mode,
        keep: section.number("keep", 1..=1_000) as usize,
        timeout: section.duration("timeout"),
        min_pause,
        tolerated_failures: section.optional_number("tolerated_failures", 0..=u64::MAX),
    }
}

/// `10s` or `4 records`.
fn every(node: &Node) -> Result<Every, String> {
    if let Value::Text(text) = &node.value
        && let Some(count) = text.value.strip_suffix("records").or_else(|| text.value.strip_suffix("record"))
    {
        let count = count.trim().parse().ok().filter(|&count| count > 0);
        return count
            .map(Every::Records)
            .ok_or_else(|| "a whole number of records is expected, e.g. `4 records`".into());
    }
    let ms = positive_ms(node).map_err(|message| format!("{message}, or a number of records, e.g. `4 records`"))?;
    Ok(Every::Time(Duration::from_millis(ms.unsigned_abs())))
}

fn state(section: &Section<'_>) -> State {
    let memory = section.size("memory");
    let rocksdb = section.choice("backend", &[("memory", false), ("rocksdb", true)]);
    if section.has("memory") && !rocksdb {
        let problem = Problem::at(section.place_of("memory"), "the backend `memory` has no limit on its memory");
        section.reader.problem(problem.hint("leave `memory` out, or say `backend: rocksdb`"));
    }
    if (1..STATE_MEMORY_MIN).contains(&memory) {
        let message = format!("state needs {} MiB of memory at least", STATE_MEMORY_MIN >> 20);
        section.reader.problem(Problem::at(section.place_of("memory"), message));
    }
    if rocksdb { State::RocksDb { memory } } else { State::Memory }
}

fn restart(section: &Section<'_>) -> RestartPolicy {
    let (delay, max_delay) = (section.duration("delay"), section.duration("max_delay"));
    if section.has("delay") && delay > max_delay {
        let message = format!(
            "the first `delay` is longer than `max_delay`, {}",
            units::DurationText(max_delay.as_millis() as i64)
        );
        let problem = Problem::at(section.place_of("delay"), message);
        section.reader.problem(problem.hint("lower `delay`, or raise `max_delay`: no delay is longer than that"));
    }
    RestartPolicy { attempts: section.number("attempts", 0..=1_000_000) as u32, delay, max_delay }
}

fn dead_letters(section: &Section<'_>) -> DeadLetters {
    let folder = section.optional_path("path");
    match (section.boolean("fail"), folder) {
        (false, None) => DeadLetters::DataDirectory,
        (false, Some(folder)) => DeadLetters::Folder(folder),
        (true, None) => DeadLetters::Fail,
        (true, Some(_)) => {
            let problem = Problem::at(section.place_of("fail"), "`fail: true` leaves nothing to write to `path`");
            section.reader.problem(problem.hint("keep one of the two"));
            DeadLetters::Fail
        }
    }
}
