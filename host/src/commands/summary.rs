//! What a run did, told at its end.

use super::progress::grouped;
use millstream::job::definition::units::SizeText;
use millstream::telemetry::Status;
use std::path::Path;
use std::time::Duration;

/// Records in and out per node, late, dead letters and where they are; how the tasks' time was spent; what guests report;
/// how large the state is, checkpoints, duration.
pub(super) fn summary(job: &str, status: &Status, dead_letters: Option<&Path>, took: Duration) -> String {
    let width = status.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0).max(4);
    let mut text = format!("{job}: {:.1}s\n", took.as_secs_f64());
    text += &format!(
        "  {:width$} {:>14} {:>14} {:>10} {:>10} {:>6} {:>8} {:>6}\n",
        "node", "in", "out", "late", "dead", "busy", "blocked", "idle"
    );
    for node in &status.nodes {
        let [busy, blocked, idle] = node.time_spent().map(|part| format!("{:.0}%", part * 100.0));
        text += &format!(
            "  {:width$} {:>14} {:>14} {:>10} {:>10} {busy:>6} {blocked:>8} {idle:>6}\n",
            node.name,
            grouped(node.sum(|task| &task.records_in)),
            grouped(node.sum(|task| &task.records_out)),
            grouped(node.sum(|task| &task.late_records_dropped)),
            grouped(status.dead_letters(node)),
        );
    }
    for node in &status.nodes {
        for (name, value) in node.reported() {
            text += &format!("  {} reports {name}: {value}\n", node.name);
        }
    }
    let dead: u64 = status.nodes.iter().map(|node| status.dead_letters(node)).sum();
    if let (Some(folder), true) = (dead_letters, dead > 0) {
        text += &format!("  {} dead letters, with reasons: {}\n", grouped(dead), folder.display());
    }
    let faults: u64 = status.nodes.iter().map(|node| node.sum(|task| &task.guest_faults)).sum();
    if faults > 0 {
        text += &format!("  {} calls of guests failed\n", grouped(faults));
    }
    let state = status.state();
    if state.rows + state.expired_bytes > 0 {
        text += &format!("  state: {} rows, {}", grouped(state.rows), SizeText(state.bytes));
        if state.expired_bytes > 0 {
            text += &format!("; {} freed as expired", SizeText(state.expired_bytes));
        }
        text += "\n";
    }
    let checkpoints = status.checkpoints();
    text += &format!("  {} checkpoint{}", checkpoints.decided, if checkpoints.decided == 1 { "" } else { "s" });
    if checkpoints.abandoned > 0 {
        text += &format!(", {} given up", checkpoints.abandoned);
        if let Some(reason) = &checkpoints.last_failure {
            text += &format!(" (the last: {reason})");
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow::graph::Role;
    use millstream::telemetry::{GuestMetrics, MetricValue, NodeStatus};
    use std::sync::Arc;

    #[test]
    fn the_summary_says_where_time_went_what_guests_report_and_where_the_dead_letters_are() {
        let node = NodeStatus {
            name: "rides".into(),
            role: Role::Source,
            tasks: vec![Arc::default()],
            reports: vec![Arc::new(GuestMetrics::new(1))],
        };
        node.reports[0].register("duplicates".into(), MetricValue::Counter(7)).unwrap();
        let status = Status::new(vec![node]);
        status.nodes[0].tasks[0].records_out.add(12_000);
        status.nodes[0].tasks[0].dead_letters.add(2);
        status.nodes[0].tasks[0].busy_ns.add(3_000);
        status.nodes[0].tasks[0].idle_ns.add(1_000);
        status.nodes[0].tasks[0].state_rows.set(1_200);
        status.nodes[0].tasks[0].state_bytes.set(90 << 10);
        status.nodes[0].tasks[0].expired_bytes.set(2 << 20);
        let text = summary("job", &status, Some(Path::new("dead")), Duration::from_millis(1_540));
        let expected = "\
job: 1.5s
  node              in            out       late       dead   busy  blocked   idle
  rides              0         12,000          0          2    75%       0%    25%
  rides reports duplicates: 7
  2 dead letters, with reasons: dead
  state: 1,200 rows, 90KiB; 2MiB freed as expired
  0 checkpoints
";
        assert_eq!(text, expected);
    }
}
