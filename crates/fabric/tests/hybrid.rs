//! The hybrid stream beyond its models: a simulation of both directions with lines that are full and
//! late, both directions between threads over a real connection, and peers that write anything.

#[path = "hybrid/hostile.rs"]
mod hostile;
#[path = "hybrid/memory.rs"]
mod memory;
#[path = "hybrid/simulation.rs"]
mod simulation;
#[path = "hybrid/stress.rs"]
mod stress;

use proptest::prelude::*;

use simulation::{Flaw, run};

/// Steps of one simulated connection.
const STEPS: u32 = 2_000;

#[test]
fn simulated_streams_are_whole() {
    let mut changes = 0;
    for seed in 0..2_000 {
        let outcome = run(seed, STEPS, Flaw::None);
        changes += outcome.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(changes > 50_000, "{changes} changes of path");
}

#[test]
fn simulated_connection_changes_lanes_thousands_of_times() {
    let changes = run(7, 400_000, Flaw::None).unwrap_or_else(|what| panic!("{what}"));
    println!("{changes} changes of path");
    assert!(changes > 5_000, "{changes} changes of path");
}

#[test]
fn simulation_notices_flaws() {
    for flaw in [
        Flaw::NoQuiesce,
        Flaw::TokenLost,
        Flaw::OwedForgotten,
        Flaw::TokenTakenBack,
        Flaw::LimitIgnored,
        Flaw::TokensLeft,
    ] {
        let caught = (0..500).any(|seed| run(seed, STEPS, flaw).is_err());
        assert!(caught, "the simulation does not notice {flaw:?}");
    }
}

#[test]
fn threads_change_lanes_under_load() {
    let changes = stress::run(std::time::Duration::from_secs(3));
    println!("{changes} changes of path");
    assert!(changes > 500, "{changes} changes of path");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn hostile_peer_breaks_nothing_but_its_connection(
        data in prop::collection::vec(any::<u8>(), 0..1_500)
    ) {
        hostile::drive(&data);
    }
}
