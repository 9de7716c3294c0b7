//! Without anything going wrong: every row, in order. Then in two tasks: the same settled rows.

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
fn every_case_gives_the_same_rows_in_two_tasks() {
    for case in all() {
        let (stage, expected) = (case.stage("parallelism: 2"), case.expected());
        stage.finish();
        assert_eq!(settled(stage.rows(&expected)), settled(expected), "{}", case.name);
    }
}
