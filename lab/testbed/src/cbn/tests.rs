//! Reproduction: every published value beside the model's, and that a run can be repeated.

use barewire_models::cbn::Stage;

use super::{Run, System, reproduce};
use crate::cbn::parameters::Parameters;
use crate::error::SystemError;
use crate::expected::{hold, rows};
use crate::system::System as _;

const SEED: u64 = 1991;

const EXPECTED: &str = include_str!("../../../tables/expected/cbn.toml");

#[test]
fn the_published_values() {
    let findings = System.run(System.parameters(), SEED).expect("a run");
    hold(&findings, EXPECTED);
}

#[test]
fn a_run_can_be_repeated() {
    let first = reproduce(System.parameters(), SEED).expect("a run");
    let second = reproduce(System.parameters(), SEED).expect("a run");
    assert_eq!(first, second);
    let parameters = Parameters::parse(System.parameters()).expect("parameters");
    let hash = |seed| {
        let run = Run::new(&parameters).cells(10);
        run.ping(seed).expect("a run").trace_hash
    };
    assert_eq!(hash(SEED), hash(SEED));
    assert_ne!(hash(SEED), hash(SEED + 1));
}

/// The ground for timing Table 2 as a block on its way: see the head of the system.
#[test]
fn table_2_is_half_of_table_3() {
    let rows = rows(EXPECTED);
    let published = |table: &str, name: String| {
        let row = rows
            .iter()
            .find(|row| row.table == table && row.row == name);
        row.expect("the row").published
    };
    for cells in [1, 2, 10, 20, 30, 44] {
        let transfer_us =
            f64::from(cells) * 256.0 / published("table-2", format!("stage 3, {cells} cells"));
        let round_trip_us = published("table-3", format!("each, {cells} cells"));
        let ratio = 2.0 * transfer_us / round_trip_us;
        assert!((ratio - 1.0).abs() < 0.01, "{cells} cells: {ratio}");
    }
}

#[track_caller]
fn refuse(old: &str, new: &str, reason: &str) {
    let good = System.parameters();
    assert!(good.contains(old), "{old}");
    let error = System.run(&good.replace(old, new), SEED).expect_err(new);
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn bad_parameters_are_refused() {
    refuse("fifo_cells", "fifo_slots", "fifo_slots");
    refuse("\"22.7 us\"", "\"22.7 parsecs\"", "rotation");
    refuse("\"22.7 us\"", "\"2.5 us\"", "holds 0 frames");
    refuse("\"48 B\"", "\"1 B\"", "no cell has a body");
    refuse(
        "blocks = 9",
        "blocks = 1",
        "blocks: found 1, expected at least 2",
    );
    refuse("loaders = 60", "loaders = 0", "loaders: found 0");
    refuse("= 2520", "= 900", "access_milli_cycles: found 900");
    refuse("\"64.6 us\"", "\"64.6 s\"", "wake: found");
    refuse("\"22.7 us\"", "\"0.9 s\"", "not 1 to 65535");
}

#[test]
fn a_lost_block_is_no_result() {
    let good = System.parameters();
    let small = good.replace("fifo_cells = 256", "fifo_cells = 20");
    let parameters = Parameters::parse(&small).expect("parameters");
    let run = Run::new(&parameters).cells(250).stage(Stage::Original);
    let lost = run.ping(SEED).map(|observed| observed.round_trip_us());
    assert!(
        matches!(lost, Err(SystemError::Contradiction(_))),
        "{lost:?}"
    );
}
