//! Without anything going wrong: every row, in order. Then in several tasks, and in batches of other sizes: the same settled rows.

use super::case::{all, settled};

#[test]
fn every_case_gives_its_rows_in_order() {
    for case in all() {
        let (stage, expected) = (case.stage(""), case.expected());
        stage.finish();
        assert_eq!(stage.rows(&expected), expected, "{}", case.name);
    }
}

#[test]
fn every_case_gives_the_same_rows_in_two_tasks_and_in_seven() {
    for case in all() {
        for tasks in [2, 7] {
            let (stage, expected) = (case.stage(&format!("parallelism: {tasks}")), case.expected());
            stage.finish();
            assert_eq!(settled(stage.rows(&expected)), settled(expected), "{} in {tasks} tasks", case.name);
        }
    }
}

#[test]
fn every_case_gives_the_same_rows_whatever_the_size_of_batches() {
    for case in all() {
        for records in [1, 3, 4096] {
            let (stage, expected) = (case.stage(""), case.expected());
            stage.finish_in_batches(records);
            assert_eq!(settled(stage.rows(&expected)), settled(expected), "{} in batches of {records}", case.name);
        }
    }
}
