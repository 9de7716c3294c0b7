//! How a job goes, as text: records per second in and out, watermark and its lag, late, dead letters, the last checkpoint.

use dataflow::checkpoint::Longest;
use dataflow::time::{END, START, Timestamp};
use millstream::job::definition::units::{DurationText, SizeText};
use millstream::telemetry::{CheckpointDone, Status};
use std::time::Duration;

/// Turns counters into rates.
pub(super) struct Progress {
    job: String,
    started: Duration,
    last: Duration,
    counts: Vec<(u64, u64)>,
    rates: Vec<(f64, f64)>,
}

impl Progress {
    /// Of a job started at `now` on the monotonic clock; what `status` counts already is of earlier runs.
    pub(super) fn new(job: &str, status: &Status, now: Duration) -> Self {
        let mut progress = Self { job: job.to_string(), started: now, last: now, counts: vec![], rates: vec![] };
        progress.advance(status, now);
        progress
    }

    /// Takes rates since the last call.
    pub(super) fn advance(&mut self, status: &Status, now: Duration) {
        let seconds = now.saturating_sub(self.last).as_secs_f64().max(1e-3);
        let counts: Vec<(u64, u64)> = status
            .nodes
            .iter()
            .map(|node| (node.sum(|task| &task.records_in), node.sum(|task| &task.records_out)))
            .collect();
        self.counts.resize(counts.len(), (0, 0));
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let pairs = counts.iter().zip(&self.counts);
        self.rates = pairs.map(|(now, before)| (rate(now.0, before.0), rate(now.1, before.1))).collect();
        (self.counts, self.last) = (counts, now);
    }

    /// Lines to redraw. `now_ms` is the wall clock, from which the lag is taken.
    pub(super) fn table(&self, status: &Status, now_ms: Timestamp) -> Vec<String> {
        let width = status.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0).max(4);
        let mut lines = vec![
            format!("{}  {}  {}", self.job, clock(self.last.saturating_sub(self.started)), checkpoint(status, now_ms)),
            format!(
                "  {:width$} {:>12} {:>12}  {:<19} {:>10} {:>9} {:>9}",
                "node", "in/s", "out/s", "watermark", "lag", "late", "dead"
            ),
        ];
        for (node, (records_in, records_out)) in status.nodes.iter().zip(&self.rates) {
            lines.push(format!(
                "  {:width$} {:>12} {:>12}  {:<19} {:>10} {:>9} {:>9}",
                node.name,
                grouped(records_in.round() as u64),
                grouped(records_out.round() as u64),
                watermark(node.watermark()),
                lag(node.watermark(), now_ms),
                grouped(node.sum(|task| &task.late_records_dropped)),
                grouped(status.dead_letters(node)),
            ));
        }
        lines
    }

    /// The same in one line, for logs.
    pub(super) fn line(&self, status: &Status, now_ms: Timestamp) -> String {
        let mut text = format!("{} {}: ", self.job, clock(self.last.saturating_sub(self.started)));
        let mut nodes = vec![];
        for (node, (records_in, records_out)) in status.nodes.iter().zip(&self.rates) {
            let mut words = format!(
                "{} {}/s in {}/s out",
                node.name,
                grouped(records_in.round() as u64),
                grouped(records_out.round() as u64)
            );
            if node.watermark() != START {
                let (at, lag) = (watermark(node.watermark()), lag(node.watermark(), now_ms));
                words += &format!(" watermark {at} lag {lag}");
            }
            for (count, what) in
                [(node.sum(|task| &task.late_records_dropped), "late"), (status.dead_letters(node), "dead")]
            {
                if count > 0 {
                    words += &format!(" {} {what}", grouped(count));
                }
            }
            for (name, value) in node.reported() {
                words += &format!(" {name} {value}");
            }
            nodes.push(words);
        }
        text += &nodes.join(", ");
        format!("{text}; {}", checkpoint(status, now_ms))
    }
}

fn checkpoint(status: &Status, now_ms: Timestamp) -> String {
    let checkpoints = status.checkpoints();
    let Some(last) = checkpoints.last else { return "no checkpoint yet".into() };
    let ago = DurationText((now_ms - checkpoints.last_at_ms).max(0) / 1_000 * 1_000);
    let took = last.took.as_millis();
    let failed =
        if checkpoints.abandoned > 0 { format!(", {} given up", checkpoints.abandoned) } else { String::new() };
    let state = status.state();
    let state = if state.rows > 0 { format!(", state {}", SizeText(state.bytes)) } else { String::new() };
    format!("checkpoint {} {ago} ago in {took}ms{}{failed}{state}", last.checkpoint, waited(last))
}

/// What made a checkpoint slow, where barriers did: time behind data and time until all inputs had theirs.
fn waited(done: CheckpointDone) -> String {
    let Longest { travel, alignment, .. } = done.longest;
    if travel + alignment < Duration::from_secs(1) {
        return String::new();
    }
    format!(" (barriers: {}ms behind data, {}ms aligning)", travel.as_millis(), alignment.as_millis())
}

/// `1:02:03`, or `02:03` below an hour.
pub(super) fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

/// Digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in UTC, to the second.
pub(super) fn watermark(watermark: Timestamp) -> String {
    match watermark {
        START => "-".into(),
        END => "end of input".into(),
        ms => match jiff::Timestamp::from_millisecond(ms) {
            Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            Err(_) => format!("{ms}ms"),
        },
    }
}

fn lag(watermark: Timestamp, now_ms: Timestamp) -> String {
    match watermark {
        START | END => "-".into(),
        ms => match now_ms.saturating_sub(ms) / 1_000 {
            seconds if seconds >= 86_400 => format!("{}d", seconds / 86_400),
            seconds => DurationText(seconds * 1_000).to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow::checkpoint::CheckpointId;
    use dataflow::graph::Role;
    use millstream::telemetry::NodeStatus;
    use std::sync::Arc;

    fn status() -> Status {
        let node = |name: &str, role| NodeStatus {
            name: name.into(),
            role,
            tasks: vec![Arc::default(), Arc::default()],
            reports: vec![],
        };
        Status::new(vec![node("rides", Role::Source), node("per-minute", Role::Operator)])
    }

    #[test]
    fn rates_are_taken_between_two_looks_over_all_tasks() {
        let status = status();
        status.nodes[0].tasks[0].records_out.add(900_000);
        let mut progress = Progress::new("job", &status, Duration::from_secs(10));
        status.nodes[0].tasks[0].records_out.add(1_000);
        progress.advance(&status, Duration::from_secs(11));
        status.nodes[0].tasks[0].records_out.add(2_000);
        status.nodes[0].tasks[1].records_out.add(4_000);
        progress.advance(&status, Duration::from_secs(13));
        for task in &status.nodes[1].tasks {
            task.set_watermark(1_714_554_000_000); // 2024-05-01T09:00:00Z
            task.late_records_dropped.add(1);
        }
        let took = Duration::from_millis(40);
        let done =
            CheckpointDone { checkpoint: CheckpointId(3), took, longest: Longest::default(), in_flight_bytes: 0 };
        status.checkpoint_decided(done, 1_714_554_060_000);
        let lines = progress.table(&status, 1_714_554_062_000);
        assert_eq!(lines[0], "job  00:03  checkpoint 3 2s ago in 40ms");
        assert_eq!(
            lines[2],
            "  rides                 0        3,000  -                            -         0         0"
        );
        assert_eq!(
            lines[3],
            "  per-minute            0            0  2024-05-01 09:00:00       1m2s         2         0"
        );
        let line = progress.line(&status, 1_714_554_062_000);
        assert_eq!(
            line,
            "job 00:03: rides 0/s in 3,000/s out, per-minute 0/s in 0/s out watermark 2024-05-01 09:00:00 lag 1m2s 2 late; \
             checkpoint 3 2s ago in 40ms"
        );
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
    }
}
