//! Limits with a known answer, conservation, the same outcome twice, and whatever passes the
//! check ends.

use proptest::prelude::*;

use super::*;
use crate::kek::System;
use crate::system::System as _;

/// The plan's inputs with some keys changed.
fn inputs(changes: &[(&str, &str)]) -> String {
    crate::asked::changed(&BURSTS, changes)
}

fn with_setting<T>(
    inputs: &str,
    seed: u64,
    packets: usize,
    run: impl FnOnce(&Setting<'_>) -> T,
) -> T {
    run(&Setting {
        parameters: System.parameters(),
        inputs,
        seed,
        packets_per_link: packets,
        progress: &crate::Progress::default(),
    })
}

/// Of one point.
fn found(changes: &[(&str, &str)]) -> Found {
    with_setting(&inputs(changes), 1, 0, |setting| {
        let (parameters, inputs, points) = prepare(setting).expect("good inputs");
        let shape = Shape::new(&parameters, &inputs, &points[0]);
        world::run(&shape, setting.seed, 0).expect("a run")
    })
}

const QUICK: (&str, &str) = ("events", "240");
const DATAGRAMS: (&str, &str) = ("transports", "[\"datagrams\"]");
const TCP: (&str, &str) = ("transports", "[\"tcp\"]");

/// One source, one builder, nothing else on the way: messages of the manager, the first
/// frame as far as the switch, and from there all frames one after another.
#[test]
fn an_event_alone_takes_its_way() {
    let found = found(&[
        QUICK,
        DATAGRAMS,
        ("sizes", "[\"1x1\"]"),
        ("controls", "[\"none\"]"),
        ("load", "0.01"),
        ("triggers", "\"clocked\""),
    ]);
    // 8192 bytes are 5 frames of 1440 and one of 992, each with 98 beside.
    let wire = |bytes: u64| bytes * 8_000;
    let message = 2 * wire(84) + 100_000 + 20_000_000;
    let fragment = wire(1_440 + 98) + wire(8_192 + 6 * 98) + 100_000;
    assert_eq!(found.building_ms(0), found.building_ms(1_000));
    assert_eq!(
        found.building_ms(500),
        Some((message + fragment) as f64 * 1e-9)
    );
    assert_eq!((found.frames_lost(), found.ledger.events.built), (0, 240));
}

/// With all that can be offered, turns carry what the links carry but for the beginning; grants nearly; nothing is lost by
/// any of the three, with buffers that hold a quarter of a burst.
#[test]
fn who_waits_for_his_turn_loses_nothing_and_fills_the_links() {
    for (control, least) in [
        ("barrel shifter", 97.0),
        ("global schedule", 97.0),
        ("credits", 90.0),
    ] {
        let controls = format!("[\"{control}\"]");
        let found = found(&[
            ("events", "1000"),
            DATAGRAMS,
            ("sizes", "[\"16x16\"]"),
            ("controls", &controls),
            ("load", "2.0"),
            ("port_buffer", "\"32 KiB\""),
            ("source_buffer", "\"512 KiB\""),
        ]);
        assert_eq!(found.ledger.events.built, 1_000, "{control}");
        assert_eq!(found.frames_lost(), 0, "{control}");
        let share = found.share_per_cent().expect("it was measured");
        assert!(share > least && share < 100.5, "{control}: {share}");
    }
}

/// A burst that is larger than the buffer is lost in part, with datagrams; with TCP it is sent again,
/// and everything comes.
#[test]
fn a_burst_beyond_the_buffer_is_lost_or_repeated() {
    let free = |transport| {
        found(&[
            ("events", "40"),
            transport,
            ("sizes", "[\"16x16\"]"),
            ("controls", "[\"none\"]"),
            ("load", "0.5"),
            ("timeout", "\"20 s\""),
        ])
    };
    let lost = free(DATAGRAMS);
    assert!(lost.fragments_lost > 0 && lost.ledger.events.built == 0);
    assert_eq!(lost.port_highest_bytes.div_ceil(1_600), 41);
    let repeated = free(TCP);
    assert!(repeated.frames_lost() > 0 && repeated.segments_repeated > 0);
    assert_eq!(
        (repeated.fragments_lost, repeated.ledger.events.built),
        (0, 40)
    );
    assert!(repeated.building_ms(1_000) > Some(200.0));
}

/// A link of the builders that takes all sources at once needs no buffer and no control.
#[test]
fn enough_rate_needs_no_control() {
    let found = found(&[
        QUICK,
        DATAGRAMS,
        ("sizes", "[\"8x8\"]"),
        ("controls", "[\"none\"]"),
        ("builder_link", "\"10 Gbit/s\""),
        ("port_buffer", "\"16 KiB\""),
    ]);
    assert_eq!((found.frames_lost(), found.ledger.events.built), (0, 240));
}

/// A full source that drops: every event is short of its fragments then, and all are named.
#[test]
fn what_a_source_drops_is_missing_and_accounted_for() {
    let found = found(&[
        QUICK,
        DATAGRAMS,
        ("sizes", "[\"4x1\"]"),
        ("controls", "[\"credits\"]"),
        ("load", "2.0"),
        ("source_buffer", "\"64 KiB\""),
        ("when_full", "\"drop\""),
        ("timeout", "\"5 ms\""),
    ]);
    let dropped: u64 = found
        .ledger
        .sources
        .iter()
        .map(|it| it.dropped.total())
        .sum();
    assert!(dropped > 0 && found.ledger.events.incomplete > 0);
    let late: u64 = found.ledger.builders.iter().map(|it| it.late).sum();
    assert_eq!(found.ledger.events.missing, dropped + late);
}

#[test]
fn the_outcome_is_the_same_twice_and_other_with_another_seed() {
    let text = inputs(&[
        QUICK,
        ("sizes", "[\"3x2\"]"),
        ("distributions", "[\"log-normal\"]"),
    ]);
    let run = |seed| with_setting(&text, seed, 5, |setting| answer(setting).expect("a run"));
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first.trace_hash, run(2).trace_hash);
    assert_eq!(first.tables[0].rows.len(), 12);
    // Three sources, two builders with two directions; of the first run alone.
    assert_eq!(first.links.len(), 7);
    let packet = &first.links[0].packets[0].bytes;
    assert_eq!(packet[12..15], [8, 0, 0x45]);
    assert_eq!(barewire_wire::checksum::checksum(&packet[14..34]), 0);
}

#[test]
fn inputs_are_checked() {
    let refused = |key, value| {
        with_setting(&inputs(&[(key, value)]), 1, 0, |setting| {
            (BURSTS.check)(setting).expect_err(key).to_string()
        })
    };
    for (key, value) in [
        ("sizes", "[]"),
        ("sizes", "[\"0x4\"]"),
        ("sizes", "[\"4\"]"),
        ("controls", "[\"hope\"]"),
        ("fragment", "\"0 B\""),
        ("sigma", "nan"),
        ("load", "0.0"),
        ("mtu", "\"100 B\""),
        ("port_buffer", "\"1 KiB\""),
        ("shaping_burst", "\"1 KiB\""),
        ("slot_fragments", "0.1"),
        ("window", "0"),
    ] {
        let text = refused(key, value);
        assert!(
            text.contains(key) || text.contains(value.trim_matches(&['[', ']'][..])),
            "{text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// `world::run` fails where the ledger does not balance, where it differs from what the switch has
    /// lost, and where the run does not end.
    #[test]
    fn whatever_passes_the_check_ends_and_balances(
        size in prop::sample::select(vec!["1x1", "5x2", "2x5", "4x4", "9x1"]),
        control in prop::sample::select(vec![
            "none", "shaping", "barrel shifter", "credits", "global window", "global schedule",
        ]),
        transport in prop::sample::select(vec!["tcp", "datagrams"]),
        distribution in prop::sample::select(vec!["fixed", "exponential", "log-normal"]),
        assignment in prop::sample::select(vec!["round robin", "least loaded", "pulled", "hash"]),
        full in prop::sample::select(vec!["block", "drop"]),
        (load, port_kib, source_kib) in (1_u32..40, 2_u32..100, 4_u32..400),
        (fragment, clock_us, timeout_us) in (1_u32..9_000, 0_u32..300, 1_u32..400_000),
        (credits, window, seed) in (1_u32..6, 1_u32..6, any::<u64>()),
    ) {
        let quoted = |text: &str| format!("\"{text}\"");
        let list = |text: &str| format!("[\"{text}\"]");
        let changes = [
            ("sizes", list(size)),
            ("controls", list(control)),
            ("transports", list(transport)),
            ("distributions", list(distribution)),
            ("assignment", quoted(assignment)),
            ("when_full", quoted(full)),
            ("events", "40".to_owned()),
            ("load", format!("{:.1}", f64::from(load) / 10.0)),
            ("port_buffer", format!("\"{port_kib} KiB\"")),
            ("source_buffer", format!("\"{source_kib} KiB\"")),
            ("fragment", format!("\"{fragment} B\"")),
            ("slot_fragments", "2.5".to_owned()),
            ("clock_error", format!("\"{clock_us} us\"")),
            ("timeout", format!("\"{timeout_us} us\"")),
            ("credits", credits.to_string()),
            ("window", window.to_string()),
        ];
        let changes: Vec<_> = changes.iter().map(|(key, value)| (*key, value.as_str())).collect();
        with_setting(&inputs(&changes), seed, 0, |setting| {
            if (BURSTS.check)(setting).is_ok() {
                let outcome = answer(setting);
                prop_assert!(outcome.is_ok(), "{:?}", outcome.err());
            }
            Ok(())
        })?;
    }
}
