//! The reproduction test of Jetstream and Afterburner, and what their worlds promise.

use barewire_classic::token::Class;
use barewire_formats::jetstream::CELL_FRAME_BYTES;
use barewire_models::jetstream::SwitchConfig;

use super::ring::{Offer, Plan};
use super::*;
use crate::asked::replaced;
use crate::expected::hold;
use crate::system::System as _;

const EXPECTED: &str = include_str!("../../../tables/expected/jetstream.toml");

/// The published values against the models.
#[test]
fn the_paper_is_reproduced() {
    let findings = System.run(System.parameters(), 1).expect("good parameters");
    hold(&findings, EXPECTED);
}

/// The worst loads keep the bounds that the timers promise.
#[test]
fn bounds_hold() {
    let findings = System.run(&quick(), 1).expect("good parameters");
    let value = |row: &str| {
        let found = findings.iter().find(|finding| finding.row == row);
        found.expect(row).value
    };
    assert!(value("synchronous access") <= 2.0);
    assert!(value("token loss") <= 2.0);
    assert!(value("T_overrun") <= 546.5);
    // (N - 1) TTRT, with a frame more in each turn and the ring itself.
    let short = value("asynchronous access, short frames");
    assert!(
        (15.0..15.0 + 15.0 * 0.0084 + 0.042).contains(&short),
        "{short}"
    );
}

/// With streams of a tenth of the time.
fn quick() -> String {
    System.parameters().replace("\"300 ms\"", "\"30 ms\"")
}

fn own() -> Parameters {
    Parameters::parse(System.parameters()).expect("good parameters")
}

fn short() -> Parameters {
    Parameters::parse(&quick()).expect("good parameters")
}

#[test]
fn the_same_run_gives_the_same_events() {
    let run = |parameters: &Parameters, seed| reproduce(parameters, seed).expect("a good ring");
    let first = run(&short(), 1);
    assert_eq!(first, run(&short(), 1));
    assert_ne!(first.hashes, run(&short(), 2).hashes);
    let mut other = short();
    other.ring.latency_budget = Duration::from_ns(1_001);
    assert_ne!(first.hashes[0], run(&other, 1).hashes[0]);
}

/// From every station frames of both classes, and three lost tokens: all are sent and
/// received, and each token is back within twice TTRT, the response and a rotation.
#[test]
fn frames_arrive_and_tokens_come_back() {
    let ring = own().ring;
    let budget = ring.budget();
    let offer = |index: usize| Offer {
        after: ring.ttrt * index as u64 / 4,
        station: index % ring.stations(),
        class: [Class::Asynchronous, Class::Synchronous][index / 3 % 2],
        bytes: 1_000 + 600 * index,
        again: None,
    };
    let plan = Plan {
        cards: ring.cards(budget, budget.synchronous_room() / 16),
        hop: ring.hop(),
        offers: (0..64).map(offer).collect(),
        losses: [1, 6, 11].map(|times| ring.ttrt * times).to_vec(),
        run_for: ring.ttrt * 40,
    };
    let record = ring::run(&plan).expect("a good ring");
    assert_eq!(record.fates.len(), 64);
    assert!(record.fates.iter().all(|fate| fate.received.is_some()));
    assert_eq!(record.losses.len(), 3);
    let longest = ring.ttrt * 2 + ring.response;
    for loss in &record.losses {
        let replaced = loss.replaced.expect("another token");
        assert!(replaced - loss.lost <= longest, "{loss:?}");
    }
    assert_eq!(record.stats[0].tokens_replaced, 3);
}

/// With a priority path that suspends, a priority frame waits for another at most.
#[test]
fn suspension_ends_the_wait() {
    let parameters = own();
    let rng = Rng::from_seed(1);
    for division in [Division::Bus, Division::Space] {
        let config = parameters.switch(division, parameters.switch.channel);
        let suspending = SwitchConfig {
            suspend: true,
            ..config
        };
        let cell = config
            .channel
            .time_to_send(ByteSize::from(CELL_FRAME_BYTES));
        assert!(wait::longest_wait(suspending, rng.clone()).0 <= cell);
        assert!(wait::longest_wait(config, rng.clone()).0 > cell * 100);
    }
}

#[test]
fn every_byte_of_a_stream_arrives() {
    let parameters = short();
    for stack in [Stack::SingleCopy, Stack::Conventional] {
        for message_bytes in [1, 256, 5_000, 14_336, 200_000] {
            let stream = Stream {
                stack,
                segment_bytes: 14_336,
                message_bytes,
                scaled: true,
                recovers: false,
            };
            let run = stream::run(&parameters, stream);
            assert_eq!((run.written_bytes, run.lost), (run.read_bytes, 0));
            assert_eq!(run.read_bytes % message_bytes, 0);
        }
    }
}

/// 64 KB on their way are enough for a link without length: the scaled window is for long
/// ones. It does cost something, as four segments and no fifth fit.
#[test]
fn a_window_without_scale_is_enough_back_to_back() {
    let parameters = short();
    let rate = |scaled| {
        let stream = Stream {
            stack: Stack::SingleCopy,
            segment_bytes: 14_336,
            message_bytes: 32_768,
            scaled,
            recovers: false,
        };
        stream::run(&parameters, stream).rate_mbytes_s()
    };
    let ratio = rate(false) / rate(true);
    assert!((0.9..=1.01).contains(&ratio), "{ratio}");
}

#[test]
fn the_rate_grows_with_the_message_and_a_second_copy_halves_it() {
    let text = System.parameters().replace("\"300 ms\"", "\"100 ms\"");
    let sizes = [256, 1_024, 4_096, 14_336, 32_768];
    let points = sweep(&text, &sizes).expect("good parameters");
    assert_eq!(points.len(), 4 * sizes.len());
    for curve in points.chunks(sizes.len()) {
        for pair in curve.windows(2) {
            assert!(
                pair[1].rate_mbytes_s > pair[0].rate_mbytes_s * 0.99,
                "{pair:?}"
            );
        }
    }
    let single = points[sizes.len() - 1];
    let conventional = points[3 * sizes.len() - 1];
    assert_eq!(conventional.stack, Stack::Conventional);
    assert!(conventional.rate_mbytes_s < 0.5 * single.rate_mbytes_s);
    // The receiver is what limits it.
    assert!(single.receiver_busy_per_cent > 99.0 && single.sender_busy_per_cent < 75.0);
    assert!(sweep(&text, &[0]).is_err());
}

#[test]
fn parameters_are_checked() {
    let with = |from: &str, to: &str| {
        let text = replaced(System.parameters(), &[(from, to)]);
        System.run(&text, 1).expect_err(from).to_string()
    };
    assert!(with("hosts = 15", "hosts = 16").contains("ring.hosts"));
    assert!(with("\"300 ns\"", "\"2 us\"").contains("ring.latency"));
    assert!(with("length_m = 1000", "length_m = 0").contains("ring.length_m"));
    // What is computed from it would overflow.
    let long = "length_m = 9223372036854775807";
    assert!(with("length_m = 1000", long).contains("ring.length_m: found 9223372036854775807"));
    assert!(with("hosts = 15", "hosts = 9223372036854775807").contains("ring.hosts"));
    assert!(with("\"1056 Mbit/s\"", "\"1 bit/s\"").contains("card.link"));
    assert!(with("move_in = \"990.7 ns\"", "move_in = \"1 h\"").contains("host.move_in"));
    assert!(with("ttrt = \"1 ms\"", "ttrt = \"700 us\"").contains("ring.ttrt"));
    assert!(with("ports = 8", "ports = 1").contains("switch.ports"));
    assert!(with("block = \"16 KiB\"", "block = \"8 KiB\"").contains("card.block"));
    assert!(with("\"192 KiB\"", "\"32 KiB\"").contains("benchmark.socket_buffer"));
    assert!(with("blocks = 32", "blocks = 3").contains("card.blocks"));
    assert!(with("\"256 B\"", "\"0 B\"").contains("benchmark"));
    assert!(with("purge =", "purgee =").contains("purgee"));
}
