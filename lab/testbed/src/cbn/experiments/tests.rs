//! Limits with a known answer, what is refused, and that runs can be repeated.

use crate::cbn::runs::Observed;
use crate::error::SystemError;
use crate::experiment::{Experiment, Outcome, Setting};
use barewire_formats::cbn::{Frame, FrameRepr};
use barewire_models::cbn::{Processors, Program, Stage};
use barewire_units::Duration;
use barewire_wire::capture::exported::TagsRepr;
use proptest::prelude::*;

use super::*;
use crate::asked::{ask, changed, column};
use crate::cbn::System;
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::{Load, Run, Towards, Until};
use crate::experiment::Progress;
use crate::system::System as _;

const SEED: u64 = 1;

fn experiment(name: &str) -> &'static Experiment {
    ALL.iter().find(|one| one.name == name).expect("its name")
}

fn inputs(name: &str, changes: &[(&str, &str)]) -> String {
    changed(experiment(name), changes)
}

fn try_run(name: &str, inputs: &str, packets: usize) -> Result<Outcome, SystemError> {
    let asked = (SEED, packets);
    ask(experiment(name), System.parameters(), inputs, asked)
}

fn run(name: &str, changes: &[(&str, &str)]) -> Outcome {
    try_run(name, &inputs(name, changes), 0).expect("a run")
}

fn parameters() -> Parameters {
    Parameters::parse(System.parameters()).expect("parameters")
}

fn near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 0.01,
        "{found}, not {expected}"
    );
}

fn ping(run: &Run, time_ms: u64) -> Observed {
    let program = Program::Ping {
        blocks: usize::MAX,
        block_bytes: run.block_bytes(),
        patience: Some(Duration::from_ms(20)),
    };
    let until = Until::Time(Duration::from_ms(time_ms));
    run.run(SEED, [program, Program::Echo], until)
        .expect("a run")
}

fn loaded(stations: u16, share: f64, towards: Towards) -> Run {
    let mut run = Run::new(&parameters()).cells(10);
    run.stations = stations;
    run.load = Load { share, towards };
    run
}

/// Loaders were once copies of node 0 that sent back what they heard: the ring carries every
/// cell past every station, so each block came back twice, and no ping was ever done.
#[test]
fn loaders_answer_nothing() {
    for stations in [3, 7, 30] {
        let run = loaded(stations, 2.0, Towards::Nobody);
        let observed = ping(&run, 12);
        let calls = observed.calls();
        assert_eq!(observed.round_trips().len(), calls - 1, "{stations}");
        assert!(calls >= 4);
    }
}

/// Cells that come faster than the handler takes them stop the program behind it.
#[test]
fn a_station_that_is_sent_too_much_stops() {
    let slow = ping(&loaded(3, 0.02, Towards::Node1), 30);
    assert_eq!(slow.round_trips().len(), slow.calls() - 1);
    let stopped = ping(&loaded(3, 0.06, Towards::Node1), 30);
    assert_eq!(stopped.round_trips().len(), 0);
}

#[test]
fn an_idle_ring_gives_the_published_figures() {
    let parameters = parameters();
    let trip = |cells| {
        let run = Run::new(&parameters).cells(cells);
        run.ping(SEED).expect("a run").round_trip_us()
    };
    let outcome = run(
        "load",
        &[
            ("passing", "[0.0]"),
            ("addressed", "[]"),
            ("stations", "[30]"),
            ("time", "\"20 ms\""),
        ],
    );
    near(column(&outcome.tables[0], "ping")[0], trip(10));
    let outcome = run(
        "ping",
        &[
            ("cells", "[1, 10]"),
            ("conditions", "[\"each\"]"),
            ("pings", "9"),
        ],
    );
    let trips = column(&outcome.tables[0], "round trip");
    near(trips[0], trip(1));
    near(trips[1], trip(10));
    let outcome = run("transmit", &[("cells", "[20]")]);
    near(column(&outcome.tables[0], "transmit rate")[0], 9.88);
    let small = [
        ("transmit_cells", "[20]"),
        ("ping_cells", "[10]"),
        ("time", "\"20 ms\""),
    ];
    let outcome = run("future", &small);
    near(column(&outcome.tables[0], "as measured")[0], 9.88);
    near(column(&outcome.tables[3], "as measured")[0], trip(10));
}

#[test]
fn what_is_carried_is_what_is_offered_up_to_the_ring() {
    let changes = [
        ("passing", "[0.5, 3.0]"),
        ("addressed", "[]"),
        ("stations", "[12]"),
        ("time", "\"20 ms\""),
    ];
    let outcome = run("load", &changes);
    let carried = column(&outcome.tables[0], "load carried");
    assert!((carried[0] - 0.5).abs() < 0.02, "{carried:?}");
    // Each of ten loaders lets the slot pass that it has emptied.
    assert!((0.85..1.0).contains(&carried[1]), "{carried:?}");
    let trips = column(&outcome.tables[0], "ping");
    assert!(trips[0] < trips[1], "{trips:?}");
}

#[test]
fn the_memory_limits_fast_hosts() {
    let changes = [
        ("times_faster", "[1, 1000]"),
        ("conditions", "[\"each\"]"),
        ("time", "\"20 ms\""),
    ];
    let outcome = run("duplex", &changes);
    let half = column(&outcome.tables[0], "each way, half-duplex");
    let full = column(&outcome.tables[0], "each way, full-duplex");
    // 102.4 Mbit/s of words, each of which goes in and out, both ways: and 8 of 9 are data.
    let limit = 102.4 / 4.0 * 8.0 / 9.0;
    assert!(
        half[1] <= limit * 1.005 && half[1] > 0.9 * limit,
        "{half:?}"
    );
    assert!(full[1] > half[1], "{full:?}");
    // A sender alone on a channel has every second slot of it.
    let one_way = column(&outcome.tables[0], "one way alone");
    assert!(one_way[1] <= 78.9 / 2.0 * 1.02, "{one_way:?}");
}

#[test]
fn tcp_carries_all_of_its_bytes() {
    let changes = [
        ("bytes", "\"20 kB\""),
        ("segments", "[1000]"),
        ("windows", "[\"1 kB\", \"8 kB\"]"),
        ("loaded_segment", "1000"),
        ("loaded_windows", "[\"2 kB\", \"16 kB\"]"),
        ("passing", "[0.5]"),
        ("addressed", "[]"),
        ("stations", "3"),
    ];
    let outcome = run("tcp", &changes);
    let [free, .., lossy] = &outcome.tables[..] else {
        panic!("tables");
    };
    // Nothing lost, nothing repeated.
    assert_eq!(column(free, "segments sent"), [20.0, 20.0]);
    let times_ms = column(free, "time");
    // A window of one segment waits for an acknowledgement each time: two wake-ups, two calls.
    assert!(times_ms[0] > 1.15 * times_ms[1], "{times_ms:?}");
    let costs_ms = column(lossy, "it costs");
    assert!(costs_ms[0] >= 1000.0 - 60.0, "a time-out: {costs_ms:?}");
    assert!(
        (0.5..30.0).contains(&costs_ms[1]),
        "a repetition: {costs_ms:?}"
    );
    assert_eq!(column(lossy, "time-outs"), [1.0, 0.0]);
}

#[test]
fn a_second_processor_needs_no_interrupt() {
    let mut run = Run::new(&parameters()).cells(10);
    let hand_over = Duration::ZERO;
    let one = run.ping(SEED).expect("a run").round_trip_us();
    run.processors = Processors::Two { hand_over };
    let two = run.ping(SEED).expect("a run").round_trip_us();
    // Two interrupts of 40 us; what follows a send call is off the way; slots lock the rest.
    assert!((50.0..110.0).contains(&(one - two)), "{one}, {two}");
}

#[test]
fn rings_of_any_size() {
    let changes = [
        ("cells", "[1, 30]"),
        ("conditions", "[\"each\"]"),
        ("lengths", "[\"100 m\", \"measured\", \"200 km\"]"),
        ("stations", "30"),
        ("pings", "3"),
    ];
    // Too short for a frame.
    let error = try_run("ping", &inputs("ping", &changes), 0).expect_err("no frame");
    assert!(error.to_string().contains("holds 0 frames"), "{error}");
    let mut changes = changes;
    changes[2].1 = "[\"measured\", \"200 km\"]";
    let outcome = run("ping", &changes);
    let trips = column(&outcome.tables[0], "round trip");
    // There and back is once round the ring: 980 us against 22.7.
    let further = [trips[2] - trips[0], trips[3] - trips[1]];
    assert!((950.0..970.0).contains(&further[0]), "{further:?}");
    assert_eq!(
        column(&outcome.tables[0], "frames"),
        [7.0, 7.0, 337.0, 337.0]
    );
    changes[3].1 = "200";
    changes[0].1 = "[1]";
    changes[2].1 = "[\"20 km\"]";
    run("ping", &changes);
}

#[test]
fn a_run_can_be_repeated_and_recorded() {
    let changes = [
        ("passing", "[0.3]"),
        ("addressed", "[0.02]"),
        ("stations", "[4]"),
        ("time", "\"6 ms\""),
    ];
    let inputs = inputs("load", &changes);
    let first = try_run("load", &inputs, 20).expect("a run");
    assert_eq!(first, try_run("load", &inputs, 20).expect("a run"));
    let quiet = try_run("load", &inputs, 0).expect("a run");
    assert_eq!(
        (&first.tables, first.trace_hash),
        (&quiet.tables, quiet.trace_hash)
    );
    assert_eq!((first.links.len(), quiet.links.len()), (4, 0));
    for link in &first.links {
        assert!(
            link.packets.len() == 20 && link.not_recorded > 0,
            "{}",
            link.link
        );
        for packet in &link.packets {
            let (_, at) = TagsRepr::parse(&packet.bytes).expect("tags");
            let frame = Frame::new_checked(&packet.bytes[at..]).expect("a frame");
            FrameRepr::parse(&frame).expect("a frame without fault");
        }
    }
}

#[track_caller]
fn refuse(name: &str, key: &str, value: &str, reason: &str) {
    let error = try_run(name, &inputs(name, &[(key, value)]), 0).expect_err(value);
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn what_cannot_be_run_is_refused() {
    refuse("ping", "cells", "[]", "cells: found an empty list");
    refuse(
        "ping",
        "cells",
        "[1, 256]",
        "cells: found 256, expected 1 to 255",
    );
    refuse("ping", "stages", "[4]", "stages: found 4");
    refuse("ping", "conditions", "[\"all\"]", "all");
    refuse("ping", "lengths", "[\"10 miles\"]", "is no length");
    refuse(
        "ping",
        "stations",
        "1",
        "stations: found 1, expected 2 to 1000",
    );
    refuse(
        "ping",
        "lengths",
        "[\"20000000 km\"]",
        "expected one frame at",
    );
    refuse("transmit", "blocks", "2", "blocks: found 2");
    refuse("load", "stations", "[2]", "stations: found 2");
    refuse("load", "passing", "[-0.5]", "passing: found -0.5");
    refuse("load", "passing", "[nan]", "passing: found NaN");
    refuse("load", "time", "\"0 s\"", "time: found 0");
    refuse("load", "patience", "\"1 h\"", "patience");
    refuse("load", "full_fifo", "\"drop\"", "drop");
    refuse("duplex", "times_faster", "[0]", "times_faster: found 0");
    refuse("tcp", "segments", "[8121]", "expected 1 to 8120");
    refuse("tcp", "windows", "[\"64 KiB\"]", "windows: found 64KiB");
    refuse("tcp", "windows", "[\"100 B\"]", "no window holds");
    refuse(
        "tcp",
        "loaded_windows",
        "[\"900 B\"]",
        "loaded_windows: found 900B",
    );
    refuse("future", "pings", "1", "pings: found 1");
    let error = try_run("ping", "cells = [1]", 0).expect_err("keys are missing");
    assert!(matches!(error, SystemError::Inputs(_)), "{error}");
}

#[test]
fn every_experiment_takes_its_own_inputs() {
    for one in &ALL {
        let setting = Setting {
            parameters: System.parameters(),
            inputs: one.inputs,
            seed: SEED,
            packets_per_link: 0,
            progress: &Progress::default(),
        };
        (one.check)(&setting).expect(one.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is asked for, a run ends and every cell is accounted for: debug builds check
    /// that in each run.
    #[test]
    fn cells_are_conserved(
        cells in 1_usize..60,
        stage in 0_usize..4,
        condition in 0_usize..4,
        fifo_cells in 1_usize..80,
        stations in 3_u16..6,
        share in 0.0_f64..1.5,
        to_node_1: bool,
        waits: bool,
        two: bool,
        lose_cell in prop::option::of(0_u64..40),
    ) {
        let mut run = Run::new(&parameters()).cells(cells).stage(Stage::ALL[stage]);
        let conditions = ["first", "last", "both", "each"];
        let condition: inputs::Condition =
            toml::Value::String(conditions[condition].to_owned()).try_into().expect("a condition");
        run.interrupt_on = condition.interrupt_on();
        (run.fifo_cells, run.stations, run.lose_cell) = (fifo_cells, stations, lose_cell);
        run.waits_for_room = waits;
        let towards = if to_node_1 { Towards::Node1 } else { Towards::Nobody };
        run.load = Load { share, towards };
        if two {
            run.processors = Processors::Two { hand_over: Duration::from_us(10) };
        }
        let observed = ping(&run, 8);
        prop_assert!(observed.round_trips().len() <= observed.calls());
        let config = parameters().tcp(3000, 700, 2000);
        let programs = [Program::TcpSend(config), Program::TcpReceive(config)];
        let observed = run.run(SEED, programs, Until::Done(Duration::from_ms(8))).expect("a run");
        let tcp = observed.sides[1].tcp;
        prop_assert!(tcp.read_bytes <= 3000 && tcp.bad == 0);
        prop_assert_eq!(tcp.read_all_at.is_some(), tcp.read_bytes == 3000);
    }
}
