//! One message by hand, what is conserved, and what a run must not depend on.

use barewire_des::Simulator;
use barewire_units::{ByteSize, Duration, Instant};

use super::experiments::ALL;
use super::parameters::{Parameters, TEXT};
use super::program::Task;
use super::runs::{self, Shape, Times};
use super::world::{Joined, Rack, Sim};
use crate::asked::{ask, changed, column, named, replaced};
use crate::system::System as _;

const SHAPE: Shape = Shape {
    ring_bytes: 4096,
    message_bytes: 896,
};
const TIMES: Times = Times {
    jitter: Duration::from_us(5),
    warm_up: Duration::from_us(20),
    time: Duration::from_us(50),
};

fn parameters(changes: &[(&str, &str)]) -> Parameters {
    Parameters::parse(&replaced(TEXT, changes)).expect("good parameters")
}

/// A switch that drops soon, and cards that notice soon.
const LOSSY: [(&str, &str); 3] = [
    ("lossless = true", "lossless = false"),
    ("buffer = \"16 MiB\"", "buffer = \"16 KiB\""),
    ("timeout = \"1 ms\"", "timeout = \"20 us\""),
];

/// Half a round trip of 8 B is the sum of the costs on its way.
#[test]
fn a_message_through_an_idle_network_costs_what_its_parts_cost() {
    for apart in [true, false] {
        let text = format!("header_apart = {apart}");
        let changes = [("header_apart = true", &text[..])];
        let parameters = match apart {
            true => parameters(&[]),
            false => parameters(&changes),
        };
        let (host, card) = (&parameters.host, &parameters.card);
        let bytes = ByteSize::from_bytes;
        let line = |payload| parameters.line.rate.time_to_send(bytes(payload + 82));
        // The message lies behind the header, in a line; the word that was cleared after the
        // frame before is in the next line. With the header, it is one write from that on.
        let (posts, lens) = match apart {
            true => (2, vec![64, 8]),
            false => (1, vec![72]),
        };
        let mut expected = host.send + host.copy.time_to_send(bytes(8));
        expected += host.post * posts + card.doorbell;
        expected += card.message * posts + card.latency;
        // The first packet is on the line while the card makes the second one.
        let first = lens[..lens.len() - 1]
            .iter()
            .map(|&len| line(len))
            .sum::<Duration>();
        expected += first.saturating_sub(card.message * (posts - 1));
        expected += line(lens[lens.len() - 1]);
        expected += parameters.line.delay * 2 + parameters.switch.latency;
        expected +=
            card.latency + card.packet + card.pcie.time_to_send(bytes(lens[lens.len() - 1]));
        expected += card.write + host.poll + host.completion + host.receive;
        expected += host.copy.time_to_send(bytes(8));
        let shape = Shape {
            message_bytes: 8,
            ..SHAPE
        };
        // From the second message on, which finds the word cleared.
        let [one, two] = [1, 2].map(|rounds| runs::ping(&parameters, shape, rounds, false).0);
        let half_us = (two * 4.0 - one * 2.0) / 2.0;
        let expected_us = expected.as_ps() as f64 / 1e6;
        assert!(
            (half_us - expected_us).abs() < 1e-6,
            "{apart}: {half_us} {expected_us}"
        );
    }
}

/// So many hosts send so many messages to one, all of which are waited for.
fn all_arrive(parameters: &Parameters, senders: u32, messages: u64) -> Rack {
    let mut rack = Rack::new(parameters, senders + 1);
    let mut sim: Sim = Simulator::new();
    for sender in 1..=senders {
        let [sends, _] = rack.connect(&Joined {
            hosts: [sender, 0],
            ring_bytes: SHAPE.ring_bytes,
            message_bytes: SHAPE.message_bytes,
            own_link: false,
        });
        rack.begin(sends, Task::Send(messages), Instant::ORIGIN, &mut sim);
    }
    rack.plug_in();
    while sim.step(&mut rack) {
        // Credit: the frames under way never are more than the ring.
        for pair in rack.ends.chunks_mut(2) {
            let ((head, _), (_, tail)) = (pair[0].head_and_tail(), pair[1].head_and_tail());
            assert!(head >= tail && head - tail <= 4096 / 64, "{head} {tail}");
        }
    }
    rack
}

#[test]
fn every_message_comes_once_and_whole_also_when_packets_are_lost() {
    let selective = [("recovery = \"go-back\"", "recovery = \"selective\"")];
    let lossy_selective = [&LOSSY[..], &selective].concat();
    for (changes, drops) in [(&[][..], false), (&LOSSY, true), (&lossy_selective, true)] {
        let rack = all_arrive(&parameters(changes), 12, 10);
        assert!(rack.is_idle());
        assert_eq!(rack.network().dropped() > 0, drops);
        assert_eq!(rack.repeated() > 0, drops);
        assert_eq!(rack.violations, 0);
        for pair in rack.ends.chunks(2) {
            assert_eq!(pair[0].sent.0, 10);
            assert_eq!(pair[0].sent, pair[1].received);
            assert_eq!(pair[1].torn, 0);
        }
    }
}

#[test]
fn a_selective_card_repeats_less() {
    let selective = [("recovery = \"go-back\"", "recovery = \"selective\"")];
    let back = all_arrive(&parameters(&LOSSY), 12, 10).repeated();
    let changes = [&LOSSY[..], &selective].concat();
    let some = all_arrive(&parameters(&changes), 12, 10).repeated();
    assert!(some < back, "{some} {back}");
}

/// What senders may have under way together bounds what the switch holds.
#[test]
fn the_credit_bounds_the_switch() {
    for senders in [4, 16] {
        let run = runs::incast(&parameters(&[]), SHAPE, (senders, false), TIMES, 1);
        // Each packet has a header; 4096 B of ring are 4.6 frames, each in two packets.
        let most = u64::from(senders) * (4096 + 10 * 82);
        assert!(run.highest_bytes <= most, "{} {most}", run.highest_bytes);
        assert_eq!((run.dropped, run.paused_percent), (0, [0.0; 2]));
    }
}

#[test]
fn a_pause_holds_up_the_same_host_and_the_credit_prevents_it() {
    let soon = [
        ("pause_above = \"96 KiB\"", "pause_above = \"16 KiB\""),
        ("resume_below = \"80 KiB\"", "resume_below = \"12 KiB\""),
    ];
    let beside = |changes: &[_], ring_bytes| {
        let shape = Shape {
            ring_bytes,
            ..SHAPE
        };
        let run = runs::incast(&parameters(changes), shape, (8, true), TIMES, 1);
        let paused = run.paused_percent[0] > 0.0;
        (run.mbps(runs::SAME_HOST, TIMES).expect("time"), paused)
    };
    let late = [("pause_above = \"96 KiB\"", "pause_above = \"1 MiB\"")];
    assert!(!beside(&soon, 8192).1);
    let (paused, free) = (beside(&soon, 1 << 17), beside(&late, 1 << 17));
    assert!(paused.1 && !free.1);
    assert!(paused.0 * 2.0 < free.0, "{paused:?} {free:?}");
}

#[test]
fn a_seed_gives_the_same_trace_and_another_one_another() {
    let run = |seed| runs::all_to_all(&parameters(&[]), SHAPE, (5, 2, false), TIMES, seed).hash;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn links_of_their_own_are_queue_pairs_of_their_own() {
    let pairs = |own| runs::all_to_all(&parameters(&[]), SHAPE, (3, 4, own), TIMES, 1).pairs;
    assert_eq!((pairs(false), pairs(true)), (2, 8));
    let few = parameters(&[("contexts = \"2 MiB\"", "contexts = \"1 KiB\"")]);
    let misses = |own| runs::all_to_all(&few, SHAPE, (3, 4, own), TIMES, 1).misses;
    assert_eq!(misses(false), 0);
    assert!(misses(true) > 0);
}

#[test]
fn the_card_is_a_plausible_one() {
    let findings = super::System.run(TEXT, 1).expect("good parameters");
    crate::expected::hold(
        &findings,
        include_str!("../../../tables/expected/rdma.toml"),
    );
}

#[test]
fn every_experiment_answers() {
    for experiment in &ALL {
        let outcome = ask(experiment, TEXT, experiment.inputs, (1, 0)).expect(experiment.name);
        assert!(outcome.tables.iter().all(|table| !table.rows.is_empty()));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |nth: usize, changes: &[(&str, &str)]| {
        let inputs = changed(&ALL[nth], changes);
        ask(&ALL[nth], TEXT, &inputs, (1, 0)).is_err()
    };
    assert!(refused(0, &[("ring", "'5 KiB'")]));
    assert!(refused(0, &[("sizes", "['1 MiB']")]));
    assert!(refused(3, &[("senders", "[0]")]));
    assert!(refused(3, &[("jitter", "'10 ms'")]));
    assert!(refused(5, &[("connections", "1000"), ("hosts", "[1024]")]));
}

/// A receiver that takes nothing holds up nobody but itself.
#[test]
fn a_slow_receiver_costs_the_other_nothing() {
    let inputs = changed(
        &ALL[2],
        &[("rings", "['16 KiB']"), ("works", "['0 us', '1 ms']")],
    );
    let outcome = ask(&ALL[2], TEXT, &inputs, (1, 0)).expect("an answer");
    let gets = column(named(&outcome, "beside a slow receiver"), "other one gets");
    assert!(gets[1] >= gets[0], "{gets:?}");
}
