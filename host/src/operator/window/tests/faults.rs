//! What fails in an aggregator costs single records or panes.

use super::super::{Accumulate, Accumulators, Aggregator, Bad, Combined, Finishing, Rows};
use super::harness::{Fed, MINUTE, batch, count, count_and_sum, settings};
use crate::operator::TaskInfo;
use anyhow::bail;
use dataflow::record::{Blobs, Column, Field, Value, ValueType};
use dataflow::time::END;
use std::sync::Arc;

/// Behaves as a guest: keeps the sum of column 1 as decimal text of any length, cannot take negative values, cannot report 13,
/// breaks at 666.
struct Fussy {
    version: u16,
}

impl Aggregator for Fussy {
    fn columns(&self) -> Vec<Field> {
        vec![Field::new("/sum", ValueType::Int)]
    }

    fn version(&self) -> u16 {
        self.version
    }

    fn supports_retract(&self) -> bool {
        false
    }

    fn reads(&self) -> Vec<usize> {
        vec![1]
    }

    fn create(&self, _task: &TaskInfo) -> anyhow::Result<Box<dyn Accumulate>> {
        Ok(Box::new(Self { version: self.version }))
    }
}

fn bad(index: usize, reason: &str) -> Bad {
    let (reason, component) = (reason.to_string(), Some("c0ffee".to_string()));
    Bad { index: index as u32, reason, is_sent: false, component, backtrace: None }
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).unwrap().parse().unwrap_or(0)
}

impl Accumulate for Fussy {
    fn blank(&self) -> &[u8] {
        &[]
    }

    fn accumulate(&mut self, rows: &Rows<'_>, accumulators: &mut Accumulators) -> anyhow::Result<Vec<Bad>> {
        let mut sums: Vec<i64> = accumulators.bytes.iter().map(number).collect();
        let mut failed = vec![];
        for (&row, &cell) in rows.rows.iter().zip(rows.cells) {
            match rows.batch.columns[1].get(row as usize) {
                Value::Int(666) => bail!("the guest is gone"),
                Value::Int(value) if value >= 0 => {
                    sums[cell as usize] += value;
                    accumulators.present[cell as usize] = true;
                }
                _ => failed.push(bad(row as usize, "negative")),
            }
        }
        accumulators.bytes = Blobs::default();
        sums.iter().for_each(|sum| accumulators.bytes.push(sum.to_string().as_bytes()));
        Ok(failed)
    }

    fn merge(&mut self, left: &Blobs, _right: &Blobs) -> anyhow::Result<Blobs> {
        Ok(left.clone())
    }

    fn finish(&mut self, panes: &Finishing<'_>, results: &mut [Column]) -> anyhow::Result<Vec<Bad>> {
        let mut failed = vec![];
        for (index, accumulator) in panes.accumulators.iter().enumerate() {
            results[0].push(Value::Int(number(accumulator)));
            if number(accumulator) == 13 {
                failed.push(bad(index, "unlucky"));
            }
        }
        Ok(failed)
    }

    fn is_empty(&self, _accumulator: &[u8]) -> bool {
        false
    }

    fn migrate(&mut self, from: u16, old: &Blobs) -> anyhow::Result<Blobs> {
        assert_eq!((from, self.version), (1, 2));
        let mut new = Blobs::default();
        old.iter().for_each(|old| new.push((number(old) * 100).to_string().as_bytes()));
        Ok(new)
    }
}

fn fussy(version: u16) -> Arc<dyn Aggregator> {
    Arc::new(Fussy { version })
}

#[test]
fn a_row_that_fails_becomes_a_dead_letter_and_leaves_no_trace() {
    let mut fed = Fed::new(settings(0), fussy(1));
    fed.feed(&[("Pune", 5, 20), ("Pune", 6, -1), ("Mumbai", 7, -2), ("Pune", 8, 3)]);
    assert_eq!(fed.rows_kept(), 1);
    fed.advance(END);
    assert_eq!(fed.panes(), ["Pune 0 end_of_input 0 23"]);
    let dead: Vec<_> = fed.out.dead.iter().map(|letter| (letter.timestamp.unwrap(), letter.reason.as_str())).collect();
    assert_eq!(dead, [(6, "negative"), (7, "negative")]);
    assert_eq!(fed.out.dead[0].component.as_deref(), Some("c0ffee"));
}

#[test]
fn a_late_row_that_fails_makes_no_pane() {
    let mut fed = Fed::new(settings(MINUTE), fussy(1));
    fed.advance(MINUTE);
    fed.feed(&[("Pune", 5, -1), ("Pune", 6, 4), ("Mumbai", 6, -1)]);
    assert_eq!((fed.panes(), fed.out.dead.len(), fed.rows_kept()), (vec!["Pune 0 late 0 4".to_string()], 2, 1));
}

#[test]
fn a_pane_that_fails_becomes_a_dead_letter_and_counts_as_fired() {
    let mut fed = Fed::new(settings(MINUTE), fussy(1));
    fed.feed(&[("Mumbai", 5, 13), ("Pune", 5, 14)]);
    fed.advance(MINUTE);
    assert_eq!(fed.panes(), ["Pune 0 on_time 0 14"]);
    let letter = &fed.out.dead[0];
    assert_eq!((letter.reason.as_str(), letter.timestamp), ("unlucky", Some(MINUTE - 1)));
    assert_eq!(letter.value.as_deref(), Some(&b"13"[..]));
    fed.restart();
    fed.advance(END);
    assert_eq!((fed.panes(), fed.out.dead.len()), (vec![], 1));
}

#[test]
fn a_call_that_fails_leaves_no_write_and_no_output() {
    let mut fed = Fed::new(settings(MINUTE), fussy(1));
    fed.advance(MINUTE);
    let rows = batch(&[("Pune", 5, 1), ("Pune", MINUTE, 1), ("Pune", 6, -1), ("Pune", 7, 666), ("Pune", -MINUTE, 0)]);
    assert!(fed.try_feed(rows).is_err());
    assert_eq!((fed.rows_kept(), fed.out.batches.len(), fed.out.dead.len()), (0, 0, 0));
}

#[test]
fn accumulators_of_an_older_version_are_migrated_when_they_are_touched() {
    for touch in [true, false] {
        let mut fed = Fed::new(settings(MINUTE), fussy(1));
        fed.feed(&[("Pune", 5, 4)]);
        fed.restart_with(settings(MINUTE), fussy(2));
        if touch {
            fed.feed(&[("Pune", 6, 1)]);
        }
        fed.advance(MINUTE);
        fed.feed(&[("Pune", 7, 2)]);
        let expected = if touch { ["401", "403"] } else { ["400", "402"] };
        assert_eq!(
            fed.panes(),
            [format!("Pune 0 on_time 0 {}", expected[0]), format!("Pune 0 late 1 {}", expected[1])]
        );
    }
}

#[test]
fn a_row_that_one_of_several_aggregators_refuses_goes_into_none() {
    let both = |version| Arc::new(Combined::new(vec![count(), fussy(version), count()]));
    let mut fed = Fed::new(settings(MINUTE), both(1));
    fed.feed(&[("Pune", 5, 20), ("Pune", 6, -1), ("Mumbai", 7, -2), ("Delhi", 7, 13)]);
    assert_eq!(fed.rows_kept(), 2);
    fed.restart_with(settings(MINUTE), both(2));
    fed.feed(&[("Pune", 8, 3)]);
    fed.advance(MINUTE);
    // Delhi's 13 was migrated to 1300 on the way out, so it is not refused.
    assert_eq!(fed.panes(), ["Pune 0 on_time 0 2 2003 2", "Delhi 0 on_time 0 1 1300 1"]);
    let dead: Vec<_> = fed.out.dead.iter().map(|letter| letter.timestamp.unwrap()).collect();
    assert_eq!(dead, [6, 7]);
}

#[test]
fn a_pane_that_one_of_several_aggregators_refuses_is_sent_by_none() {
    let mut fed = Fed::new(settings(0), Arc::new(Combined::new(vec![fussy(1), count(), fussy(1)])));
    fed.feed(&[("Pune", 5, 13), ("Mumbai", 5, 1)]);
    fed.advance(END);
    assert_eq!((fed.panes(), fed.out.dead.len()), (vec!["Mumbai 0 end_of_input 0 1 1 1".to_string()], 1));
}

#[test]
fn a_sum_beyond_64_bits_is_null_in_its_pane_and_told_in_a_dead_letter() {
    let mut fed = Fed::new(settings(0), count_and_sum(false));
    fed.feed(&[("Mumbai", 5, i64::MAX), ("Pune", 5, i64::MAX), ("Pune", 6, 1)]);
    fed.advance(END);
    let sum = i64::MAX;
    assert_eq!(fed.panes(), ["Pune 0 end_of_input 0 2 Absent", &format!("Mumbai 0 end_of_input 0 1 {sum}")]);
    let [letter] = &fed.out.dead[..] else { panic!("one pane is wrong") };
    assert!(letter.reason.contains("`/sum` is 9223372036854775808"), "{}", letter.reason);
    let value = letter.value.as_deref().map(String::from_utf8_lossy).unwrap();
    assert!(value.contains(r#""count":2"#) && value.contains(r#""key":"Pune""#), "{value}");
}
