//! The device in its plan: what it lets through, and what is wrong with a plan.

use std::collections::BTreeMap;

use barewire_tables::plan::{PlanError, Wanted};
use barewire_tables::runs::{Watch, run};
use barewire_tables::{Entry, Results};
use own_device::lab;

const PLAN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/policer.toml");

fn results(changes: &[&str]) -> Result<Results, PlanError> {
    let set = changes
        .iter()
        .map(|text| ("--set", text.parse().expect("KEY=VALUE")));
    let wanted = Wanted {
        set: set.collect(),
        ..Wanted::default()
    };
    let plans = [lab().resolve(&lab().open(PLAN)?, &wanted)?];
    let found = run(&plans, 0, &Watch::new(&plans)).expect("a run");
    Ok(Results::of_plan(&plans[0], &found[0], BTreeMap::new()))
}

/// The rate at which the server received.
fn received_mbps(changes: &[&str]) -> f64 {
    let results = results(changes).expect("a good plan");
    let streams = results.tables.iter().find(|table| table.name == "streams");
    let streams = streams.expect("streams");
    let column = streams
        .columns
        .iter()
        .position(|column| column.name == "received");
    match &streams.rows[0][column.expect("received")] {
        Entry::Number { value, .. } => *value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_lets_its_rate_through_and_loses_the_rest() {
    let slow = received_mbps(&[]);
    assert!((80.0..115.0).contains(&slow), "{slow}");
    let fast = received_mbps(&["devices.gate.rate=10 Gbit/s"]);
    assert!(fast > 1.5 * slow, "{fast} {slow}");
    assert_eq!(slow, received_mbps(&[]), "the same seed gives the same");
}

#[test]
fn what_is_wrong_with_its_keys_is_said_at_the_line() {
    let Err(error) = results(&["devices.gate.rate=fast"]) else {
        panic!("no error");
    };
    let text = error.to_string();
    assert!(
        text.contains("devices.gate.rate = fast: expected a rate"),
        "{text}"
    );
}
