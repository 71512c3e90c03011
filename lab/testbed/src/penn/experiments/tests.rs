//! What the experiments promise: the same outcome each time, known answers at their
//! limits, nothing lost without a reason, and an end whatever the inputs.

use crate::asked::{ask, changed, named, number};
use crate::error::SystemError;
use crate::experiment::Experiment;
use barewire_models::penn::Path;
use barewire_wire::capture::erf::{Kind, Record, RecordRepr};
use proptest::prelude::*;

use super::*;
use crate::experiment::Outcome;
use crate::penn::System;
use crate::system::System as _;

fn run_with(
    experiment: &Experiment,
    parameters: &str,
    inputs: &str,
    seed: u64,
) -> Result<Outcome, SystemError> {
    ask(experiment, parameters, inputs, (seed, 2))
}

fn run_changed(experiment: &Experiment, changes: &[(&str, &str)]) -> Outcome {
    let inputs = changed(experiment, changes);
    run_with(experiment, System.parameters(), &inputs, 1).expect("good inputs")
}

/// Small enough to run again and again in a test.
const SMALL: [(&str, &str); 14] = [
    ("writes", "8"),
    ("policies", "[\"fault-on-write\"]"),
    ("blocks", "[\"1 KiB\"]"),
    ("block", "\"16 KiB\""),
    ("volume", "\"64 KiB\""),
    ("large", "\"4 KiB\""),
    ("frequencies_per_cent", "[50]"),
    ("clocks", "[\"50 ns\"]"),
    ("reloads", "[\"2 us\"]"),
    ("machines", "[\"workstation\"]"),
    ("circuits", "[1, 300]"),
    ("messages", "60"),
    ("losses_per_million", "[10000]"),
    ("hosts", "[\"workstation\"]"),
];

#[test]
fn each_gives_the_same_twice_and_records_its_line() {
    for experiment in &ALL {
        // Each has some of these keys.
        let known: toml::Table = experiment.inputs.parse().expect("inputs");
        let small = SMALL
            .into_iter()
            .filter(|(key, _)| known.contains_key(*key));
        let inputs = changed(experiment, &small.collect::<Vec<_>>());
        let with_seed = |seed| {
            let outcome = run_with(experiment, System.parameters(), &inputs, seed);
            outcome.expect("good inputs")
        };
        let first = with_seed(1);
        assert_eq!(first, with_seed(1), "{}", experiment.name);
        let drawn = ["zero-copy", "receive"].contains(&experiment.name);
        let other = with_seed(2).trace_hash;
        assert_eq!(first.trace_hash != other, drawn, "{}", experiment.name);
        assert!(!first.tables.is_empty(), "{}", experiment.name);
        let [line] = &first.links[..] else {
            panic!("{}: {} links", experiment.name, first.links.len());
        };
        assert_eq!(line.packets.len(), 2, "{}", experiment.name);
        assert!(line.not_recorded > 0);
        for packet in &line.packets {
            let record = Record::new_checked(&packet.bytes[..]).expect("a record");
            let repr = RecordRepr::parse(&record).expect("a record");
            assert_eq!((repr.kind, repr.payload_bytes), (Kind::Cell, 52));
            assert_eq!(repr.time_ns, packet.at.since_origin().as_ns());
            let cell = &packet.bytes[record.payload_range()];
            // VPI 0 and the first circuits that are not reserved.
            assert_eq!(cell[0], 0);
            assert!(u16::from_be_bytes([cell[1], cell[2]]) >> 4 == 0 && cell[2] >= 2);
        }
    }
}

#[test]
fn write_gives_table_one_and_adds_up() {
    let outcome = run_changed(&write::WRITE, &[("volume", "\"512 KiB\"")]);
    let table = named(&outcome, "two-buffers");
    // Published: 23.3 and 115.7 Mbit/s.
    for (row, published) in [(0, 23.3), (6, 115.7)] {
        let rate = number(table, row, "rate");
        assert!((rate / published - 1.0).abs() < 0.04, "{rate} {published}");
    }
    for table in &outcome.tables {
        for row in 0..table.rows.len() {
            let parts = ["call", "copy", "set-up", "waiting"].map(|part| number(table, row, part));
            let sum: f64 = parts.iter().sum();
            assert!((sum - number(table, row, "each write")).abs() < 0.01);
        }
    }
}

#[test]
fn policies_differ_by_how_often_the_program_meets_its_block() {
    let changes = [
        ("frequencies_per_cent", "[0, 50, 100]"),
        ("policies", "[\"block\", \"trust\", \"fault-on-write\"]"),
        ("writes", "24"),
    ];
    let outcome = run_changed(&zero_copy::ZERO_COPY, &changes);
    let of = |policy, row, column| number(named(&outcome, policy), row, column);
    let rate = |policy, row| of(policy, row, "rate");
    // Well-behaved: as fast as trust, and no fault. Else: down to no better than block.
    assert_eq!(rate("fault-on-write", 0), rate("trust", 0));
    assert_eq!(of("fault-on-write", 0, "waits"), 0.0);
    assert!(rate("fault-on-write", 0) > rate("fault-on-write", 1));
    assert!(rate("fault-on-write", 1) > rate("fault-on-write", 2));
    assert!(rate("fault-on-write", 2) < rate("block", 2));
    assert!(of("fault-on-write", 2, "waits") > 95.0);
    // Trust keeps its speed and loses blocks; the two safe ones never do.
    assert_eq!(of("trust", 0, "spoilt blocks"), 0.0);
    assert_eq!(of("fault-on-write", 2, "spoilt blocks"), 0.0);
    assert!(of("trust", 2, "spoilt blocks") > 95.0);
}

#[test]
fn pipelines_carry_what_the_paper_says() {
    let outcome = run_changed(&pipeline::PIPELINE, &[]);
    let table = &outcome.tables[0];
    // Without the pause the line is the limit; one manager of 52 cycles of 50 ns keeps up.
    let row = 4;
    assert!((number(table, row, "cells stored") - 149.76).abs() < 0.05);
    assert_eq!(number(table, row, "lost"), 0.0);
    // 3.75 us and less than a cycle to wait for the clock.
    assert!((3.75..3.8).contains(&number(table, row, "line to buffer")));
    // At half the clock one manager takes every other cell, and two take all.
    assert_eq!(number(table, row + 2, "lost"), 50.0);
    assert_eq!(number(table, row + 3, "lost"), 0.0);
}

#[test]
fn small_blocks_cost_a_call_and_a_start() {
    let changes = [
        ("machines", "[\"workstation\"]"),
        ("writes", "20"),
        ("policies", "[\"trust\"]"),
    ];
    let outcome = run_changed(&small_blocks::SMALL_BLOCKS, &changes);
    let sizes = named(&outcome, "workstation, trust");
    let byte = number(sizes, 0, "each write");
    // A call of 171.2, a status of 1, a word of 0.5 and a start of 128.5 us.
    assert!((byte - 301.2).abs() < 0.01, "{byte}");
    let helps = named(&outcome, "what would help, workstation, trust");
    let half = |row| number(helps, row, "half of that at");
    // Nothing to flush there; without call and start only the line is left.
    assert_eq!(half(0), half(3));
    assert!(half(4) < 100.0 && half(1) < half(0) && half(2) < half(0));
    let each = |row| number(helps, row, "each record");
    assert!(each(5) > each(6) && each(6) > each(7) && each(7) < each(0) / 10.0);
}

#[test]
fn four_times_the_rate_takes_four_managers() {
    let outcome = run_changed(&oc12::OC12, &[("writes", "8")]);
    let managers = named(&outcome, "cell managers");
    let lost: Vec<_> = (0..7).map(|row| number(managers, row, "lost")).collect();
    assert!(
        lost[2] > 20.0 && lost[3..].iter().all(|&lost| lost == 0.0),
        "{lost:?}"
    );
    let needed = named(&outcome, "needed for a full line without a loss");
    assert_eq!(number(needed, 0, "value"), 4.0);
    // A cell of OC-12c comes every 707.8 ns: 12 cycles of the list manager, 5 of a header.
    assert!((number(needed, 1, "value") * 12.0 / 707.8 - 1.0).abs() < 0.002);
    assert!((number(needed, 2, "value") * 5.0 / 707.8 - 1.0).abs() < 0.002);
    let stages = named(&outcome, "each stage alone");
    let of_line = |row| number(stages, row, "of the line");
    // Published: the list manager 706.7; the bus 142.2 of payload.
    assert!((of_line(7) * 5.9904 / 706.7 - 1.0).abs() < 0.001);
    assert!((of_line(2) * 5.9904 * 48.0 / 53.0 / 142.2 - 1.0).abs() < 0.002);
}

/// Every message has one fate, and every cell one end.
#[test]
fn what_comes_in_is_accounted_for() {
    let changes = [
        ("circuits", "[1, 40, 256, 270]"),
        ("losses_per_million", "[0, 20000]"),
        ("messages", "300"),
        ("message", "\"500 B\""),
    ];
    for adaptation in ["\"aal5\"", "\"class4\""] {
        let mut changes = changes.to_vec();
        changes.push(("adaptation", adaptation));
        let outcome = run_changed(&receive::RECEIVE, &changes);
        for table in &outcome.tables {
            for row in 0..4 {
                let of = |fate| number(table, row, fate);
                let fates = [
                    "no circuit",
                    "cell lost",
                    "no manager",
                    "no buffer",
                    "spoilt by others",
                ];
                let lost: f64 = fates.map(of).iter().sum();
                assert_eq!(of("whole") + lost, of("messages"), "{}", table.name);
                assert_eq!(of("no circuit") > 0.0, row == 3, "{}", table.name);
            }
        }
        // Nothing lost on the way, a host without limit, places for all: all are whole.
        let quiet = named(&outcome, "a host without limit, 0 of a million cells lost");
        assert_eq!(number(quiet, 1, "whole"), 300.0);
        let lossy = named(
            &outcome,
            "a host without limit, 20000 of a million cells lost",
        );
        assert!(number(lossy, 1, "cell lost") > 30.0);
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_key_and_expectation() {
    let refused = |experiment: &Experiment, key: &str, value: &str| {
        let inputs = changed(experiment, &[(key, value)]);
        let outcome = run_with(experiment, System.parameters(), &inputs, 1);
        outcome.expect_err(key).to_string()
    };
    let text = refused(&write::WRITE, "blocks", "[]");
    assert!(text.contains("blocks: found an empty list"), "{text}");
    let text = refused(&write::WRITE, "blocks", "[\"1 B\"]");
    assert!(
        text.contains("found 8388608, expected 1 to 1000000"),
        "{text}"
    );
    let text = refused(&zero_copy::ZERO_COPY, "frequencies_per_cent", "[101]");
    assert!(text.contains("found 101, expected 0 to 100"), "{text}");
    assert!(refused(&zero_copy::ZERO_COPY, "policies", "[\"hope\"]").contains("hope"));
    assert!(refused(&zero_copy::ZERO_COPY, "block", "\"1 GiB\"").contains("block"));
    assert!(refused(&pipeline::PIPELINE, "managers", "[0]").contains("managers: found 0"));
    assert!(refused(&pipeline::PIPELINE, "clocks", "[\"0 ns\"]").contains("clocks"));
    assert!(refused(&oc12::OC12, "line", "\"1 kbit/s\"").contains("line"));
    assert!(refused(&oc12::OC12, "block", "\"1 B\"").contains("block"));
    assert!(refused(&receive::RECEIVE, "message", "\"7 B\"").contains("message"));
    assert!(refused(&receive::RECEIVE, "circuits", "[100000]").contains("circuits"));
    assert!(refused(&small_blocks::SMALL_BLOCKS, "gather", "[1]").contains("gather"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever passes the check runs to its end, and accounts for everything.
    #[test]
    fn receive_ends_and_conserves(
        circuits in 1_usize..600,
        loss in prop_oneof![Just(0_u64), 0..300_000_u64, Just(1_000_000)],
        bytes in 8_u64..4_000,
        messages in 1_usize..80,
        load in 1_u64..=100,
        class4 in any::<bool>(),
        places in 0_usize..300,
        buffer_cells in 0_usize..300,
        managers in 1_usize..3,
        seed in any::<u64>(),
    ) {
        let parameters = System.parameters()
            .replace("\ncircuits = 256", &format!("\ncircuits = {places}"))
            .replace("\nbuffer_cells = 4096", &format!("\nbuffer_cells = {buffer_cells}"))
            .replace("\nmanagers = 1", &format!("\nmanagers = {managers}"));
        let parameters = crate::penn::parameters::Parameters::parse(&parameters).expect("good");
        let load = crate::penn::reception::Load {
            circuits,
            aal: if class4 { barewire_classic::sar::Aal::Aal34 } else { barewire_classic::sar::Aal::Aal5 },
            message_bytes: bytes as usize,
            messages,
            load_per_cent: load,
            losses_per_million: loss,
            host_counts: seed % 2 == 0,
            packets: 0,
        };
        let found = crate::penn::reception::receive(&parameters, &load, barewire_units::Rng::from_seed(seed));
        prop_assert_eq!(found.fates.len(), messages);
        let cells = found.cells;
        prop_assert_eq!(
            cells.sent,
            cells.lost + cells.no_manager + cells.taken + cells.no_circuit + cells.refused + cells.orphaned
        );
        prop_assert_eq!(found.damaged, 0);
    }

    #[test]
    fn writes_end_and_arrive(
        bytes in 1_u64..40_000,
        writes in 1_u64..30,
        records in 1_u64..5,
        path in prop::sample::select(vec![Path::Copied, Path::Block, Path::Trust, Path::FaultOnWrite]),
        present in any::<bool>(),
    ) {
        use crate::penn::parameters::{Machine, Parameters};
        let machine = if present { Machine::Present } else { Machine::Workstation };
        let parameters = Parameters::parse(System.parameters()).expect("good").on(machine);
        let program = crate::penn::program::Program::gathering(bytes, writes, records);
        let run = crate::penn::world::run(&parameters, path, program);
        prop_assert_eq!(run.stored_bytes, bytes * writes);
        prop_assert_eq!(run.driver.calls, writes.div_ceil(records));
        prop_assert!(run.work.total() <= run.elapsed);
    }
}
