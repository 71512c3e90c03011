//! What the experiments promise: the same outcome every time, nothing lost without a reason, and
//! the figures that are known.

use super::common::Rings;
use crate::asked::{self, ask, number};
use crate::experiment::{Experiment, Setting};
use crate::jetstream::load::{Gap, Source};
use crate::jetstream::net::{Medium, Network};
use crate::jetstream::parameters::Parameters;
use barewire_classic::token::Class;
use barewire_formats::aal5;
use barewire_models::afterburner::Stack;
use barewire_models::jetstream::SwitchConfig;
use barewire_models::jetstream::{Discard, Division};
use barewire_units::Rng;
use barewire_units::{Duration, Rate};
use barewire_wire::capture::LinkType;
use proptest::prelude::*;

use super::super::cells::{Cells, CellsPlan};
use super::super::joined::{Joined, JoinedPlan};
use super::super::load::{Group, LoadPlan};
use super::super::net::Spread;
use super::super::tcp::{self, TcpPlan};
use super::super::{System, load};
use super::*;
use crate::emulation::Losses;
use crate::experiment::{Outcome, Progress};
use crate::system::System as _;

fn with<T>(inputs: &str, packets_per_link: usize, then: impl FnOnce(&Setting<'_>) -> T) -> T {
    let progress = Progress::default();
    then(&Setting {
        parameters: System.parameters(),
        inputs,
        seed: 1,
        packets_per_link,
        progress: &progress,
    })
}

fn outcome(experiment: &Experiment, inputs: &str) -> Outcome {
    ask(experiment, System.parameters(), inputs, (1, 0)).expect("good inputs")
}

/// The built-in inputs with some lines replaced: `key = value` each.
fn changed<'a>(experiment: &Experiment, changes: &[&'a str]) -> String {
    let pair = |change: &&'a str| change.split_once(" = ").expect("a key");
    asked::changed(experiment, &changes.iter().map(pair).collect::<Vec<_>>())
}

const SHORT_RING: &[&str] = &["loads_per_cent = [0, 50]", "duration = \"4 ms\""];
const SHORT_STREAM: &[&str] = &["messages = [\"256 B\", \"14 KiB\"]", "duration = \"20 ms\""];
const SHORT_SYNCHRONOUS: &[&str] = &[
    "shares_per_cent = [100]",
    "backgrounds = [\"0 B\", \"65535 B\"]",
    "duration = \"20 ms\"",
];
const SHORT_SWITCH: &[&str] = &[
    "rings = 2",
    "hosts_per_ring = 2",
    "loads_per_cent = [20]",
    "duration = \"8 ms\"",
];
const SHORT_AFTERBURNER: &[&str] = &[
    "messages = [\"14 KiB\"]",
    "pairs = [2]",
    "duration = \"20 ms\"",
];
const SHORT_ATM: &[&str] = &[
    "hosts = 3",
    "cell_rates = [\"599.04 Mbit/s\"]",
    "buffer_cells = [256]",
    "loads = [\"300 Mbit/s\"]",
    "messages_duration = \"8 ms\"",
    "senders = 2",
    "errors_per_gigabit = [1000]",
    "streams_duration = \"20 ms\"",
];

const SHORT_INTERWORKING: &[&str] = &[
    "ring_hosts = 2",
    "atm_hosts = 2",
    "loads = [\"80 Mbit/s\"]",
    "lost_per_million = [1000]",
    "duration = \"8 ms\"",
];

fn short(experiment: &Experiment) -> String {
    let changes = match experiment.name {
        "ring" => SHORT_RING,
        "stream" => SHORT_STREAM,
        "synchronous" => SHORT_SYNCHRONOUS,
        "switch" => SHORT_SWITCH,
        "afterburner" => SHORT_AFTERBURNER,
        "interworking" => SHORT_INTERWORKING,
        _ => SHORT_ATM,
    };
    changed(experiment, changes)
}

/// The built-in inputs are good, and each is explained by a comment above it.
#[test]
fn built_in_inputs_are_good() {
    for experiment in System.experiments() {
        let checked = with(experiment.inputs, 0, |setting| (experiment.check)(setting));
        assert!(checked.is_ok(), "{}: {checked:?}", experiment.name);
        let mut explained = false;
        for line in experiment.inputs.lines() {
            let comment = line.starts_with("# ");
            assert!(comment || explained, "{}: {line}", experiment.name);
            explained = comment;
        }
    }
}

/// Every point is run by whichever thread is free; the points and their order do not depend on
/// it, so two runs are the same however the threads went.
#[test]
fn outcomes_and_captures_repeat() {
    for experiment in &ALL {
        let inputs = short(experiment);
        let run = |packets| with(&inputs, packets, |setting| (experiment.run)(setting));
        let first = run(0).expect("good inputs");
        assert_eq!(first, run(0).expect("good inputs"), "{}", experiment.name);
        let recorded = run(40).expect("good inputs");
        assert_eq!(first.tables, recorded.tables, "{}", experiment.name);
        assert_eq!(first.trace_hash, recorded.trace_hash);
        assert!(first.links.is_empty() && !recorded.links.is_empty());
        for link in &recorded.links {
            assert!(
                link.packets.len() <= 40 && !link.packets.is_empty(),
                "{}",
                link.link
            );
            assert!(link.packets.windows(2).all(|pair| pair[0].at <= pair[1].at));
        }
    }
}

/// What is recorded is what the formats say: whole frames with a good PDU, whole cells.
#[test]
fn captures_hold_real_frames_and_cells() {
    use barewire_formats::atm::{CELL_BYTES, hec};
    use barewire_formats::jetstream::{Frame, FrameRepr, Kind};
    use barewire_wire::capture::exported::{CELL, JETSTREAM, TagsRepr};
    let experiment = &atm::EXPERIMENT;
    let outcome = with(&short(experiment), 300, |setting| (experiment.run)(setting));
    let outcome = outcome.expect("good inputs");
    let (mut pdus, mut cells) = (0, 0);
    for packet in outcome.links.iter().flat_map(|link| &link.packets) {
        let (tags, at) = TagsRepr::parse(&packet.bytes).expect("tags");
        let bytes = &packet.bytes[at..];
        if tags.dissector == CELL {
            assert_eq!(bytes.len(), CELL_BYTES);
            let header: [u8; 5] = bytes[..5].try_into().expect("five bytes");
            assert_eq!(hec::check(&header), hec::Verdict::Good);
            cells += 1;
            continue;
        }
        assert_eq!(tags.dissector, JETSTREAM);
        let frame = Frame::new_checked(bytes).expect("a frame");
        let repr = FrameRepr::parse(&frame).expect("good headers");
        if let Kind::Data { .. } = repr.kind {
            let pdu = frame.pdu();
            let crc = pdu.len() - 4;
            let mut sum = aal5::Crc32::new();
            sum.update(&pdu[..crc]);
            assert_eq!(sum.finish().to_be_bytes(), pdu[crc..]);
            pdus += 1;
        }
    }
    assert!(pdus > 10 && cells > 1_000, "{pdus} PDUs, {cells} cells");
    let ribbon = &stream::EXPERIMENT;
    let outcome = with(&short(ribbon), 10, |setting| (ribbon.run)(setting));
    let links = outcome.expect("good inputs").links;
    assert!(
        links
            .iter()
            .all(|link| link.link_type == LinkType::ATM_RFC1483)
    );
}

/// The unit sends no faster than its line, and a lost cell costs its message: one of 192 cells and a frame.
#[test]
fn the_line_of_the_unit_is_the_limit() {
    let changes = [
        "loads = [\"60 Mbit/s\", \"300 Mbit/s\"]",
        "lost_per_million = [0, 1000]",
        "duration = \"200 ms\"",
    ];
    let experiment = &interworking::EXPERIMENT;
    let outcome = outcome(experiment, &changed(experiment, &changes));
    let [whole, lossy, unit] = &outcome.tables[..] else {
        panic!("three tables: {:?}", outcome.tables);
    };
    let line = 149.76 * 9_180.0 / (192.0 * 53.0);
    let most = number(whole, 1, "to ATM");
    assert!((0.98 * line..1.005 * line).contains(&most), "{most}");
    assert_eq!(number(whole, 0, "to ATM lost"), 0.0);
    assert_eq!(number(whole, 0, "to ring lost"), 0.0);
    let expected = 100.0 * (1.0 - 0.999_f64.powi(193));
    for way in ["to ATM lost", "to ring lost"] {
        let lost = number(lossy, 0, way);
        assert!((lost - expected).abs() < 8.0, "{way}: {lost}");
    }
    assert!(number(unit, 1, "most that waits for the line") > 100_000.0);
    // Of a frame that is whole, all cells go on.
    for row in 0..2 {
        let cells = number(unit, row, "frames in") * 192.0;
        assert_eq!(number(unit, row, "cells out"), cells);
    }
}

/// An idle ring of 16 cards with 300 ns each and 1 km: 9.8 us, as reproduced.
#[test]
fn an_idle_ring_turns_as_published() {
    let changes = [
        "loads_per_cent = [0]",
        "synchronous_allotment = \"0 us\"",
        "duration = \"4 ms\"",
    ];
    let outcome = outcome(&ring::EXPERIMENT, &changed(&ring::EXPERIMENT, &changes));
    let mean = number(&outcome.tables[0], 0, "rotation mean");
    assert!((9.79..9.81).contains(&mean), "{mean}");
}

/// The bound of the paper holds for every share that the ring admits, whatever else is sent, and
/// nothing of it is lost.
#[test]
fn the_synchronous_class_keeps_its_bound() {
    let outcome = outcome(&synchronous::EXPERIMENT, &short(&synchronous::EXPERIMENT));
    let own = &outcome.tables[0];
    for row in 0..own.rows.len() {
        assert!(number(own, row, "access longest") <= 2_000.0);
        assert_eq!(number(own, row, "lost") + number(own, row, "late"), 0.0);
    }
}

/// One pair of hosts gets a little less than back to back; no stream gets more.
#[test]
fn the_ring_takes_a_little_from_a_stream() {
    let changes = [
        "messages = [\"14 KiB\"]",
        "pairs = [1]",
        "duration = \"60 ms\"",
    ];
    let experiment = &afterburner::EXPERIMENT;
    let outcome = outcome(experiment, &changed(experiment, &changes));
    let left = number(&outcome.tables[0], 0, "left");
    assert!((90.0..=100.0).contains(&left), "{left}");
}

/// The published mean comes out of the same inputs.
#[test]
fn a_stream_of_the_paper_has_the_rate_of_the_paper() {
    let changes = [
        "messages = [\"14 KiB\"]",
        "segments = [\"14 KiB\"]",
        "stacks = [\"single-copy\"]",
        "duration = \"100 ms\"",
    ];
    let outcome = outcome(&stream::EXPERIMENT, &changed(&stream::EXPERIMENT, &changes));
    let table = &outcome.tables[0];
    let rate = number(table, 0, "rate");
    assert!((rate / 24.7 - 1.0).abs() < 0.03, "{rate}");
    assert_eq!(number(table, 0, "written"), number(table, 0, "read"));
}

#[test]
fn what_cannot_be_run_is_named() {
    let refused = |experiment: &Experiment, change: &str, key: &str| {
        let text = changed(experiment, &[change]);
        let error = with(&text, 0, |setting| (experiment.check)(setting));
        let error = error.expect_err(change).to_string();
        assert!(error.contains(key), "{change}: {error}");
        assert!(with(&text, 0, |setting| (experiment.run)(setting)).is_err());
    };
    let ring = &ring::EXPERIMENT;
    refused(ring, "stations = 0", "stations: found 0, expected 2 to 16");
    refused(
        ring,
        "loads_per_cent = []",
        "loads_per_cent: found an empty list",
    );
    refused(ring, "length_m = 0", "length_m");
    refused(ring, "ttrt = \"500 us\"", "ttrt");
    refused(
        ring,
        "synchronous_allotment = \"60 us\"",
        "synchronous_allotment",
    );
    refused(
        ring,
        "synchronous_message = \"4 KiB\"",
        "synchronous_message",
    );
    refused(ring, "message = \"64 KiB\"", "message");
    refused(ring, "duration = \"0 s\"", "duration");
    refused(ring, "synchronous_period = \"0 us\"", "synchronous_period");
    refused(ring, "message = \"1 B\"", "messages of 1B");
    let switch = &switch::EXPERIMENT;
    refused(switch, "hosts_per_ring = 16", "hosts_per_ring");
    refused(switch, "port_allotment = \"400 us\"", "port_allotment");
    refused(&stream::EXPERIMENT, "stacks = [\"double\"]", "\"double\"");
    refused(&stream::EXPERIMENT, "segments = [\"17 KiB\"]", "segments");
    refused(&afterburner::EXPERIMENT, "pairs = [9]", "pairs");
    refused(
        &afterburner::EXPERIMENT,
        "socket_buffer = \"40 KiB\"",
        "socket_buffer",
    );
    let rival = &atm::EXPERIMENT;
    refused(rival, "discards = [\"late\"]", "\"late\"");
    refused(rival, "senders = 8", "senders");
    refused(rival, "buffer_cells = [0]", "buffer_cells");
    let joined = &interworking::EXPERIMENT;
    refused(joined, "atm_hosts = 0", "atm_hosts");
    refused(joined, "idle_max = \"0 us\"", "idle_max");
    refused(joined, "unit_buffer = \"2 GiB\"", "unit_buffer");
    let synchronous = &synchronous::EXPERIMENT;
    let long = "length_m = 9223372036854775807";
    refused(synchronous, long, "length_m: found 9223372036854775807");
    refused(synchronous, "shares_per_cent = [0]", "shares_per_cent");
}

fn conserves(groups: &[Group], on_their_way: u64) {
    let offered: u64 = groups.iter().map(|group| group.offered).sum();
    let known: u64 = groups
        .iter()
        .map(|group| group.received + group.lost())
        .sum();
    assert_eq!(offered, known + on_their_way);
}

/// A ring of two hosts, and two more beyond a unit that cannot hold two of the longest messages.
fn joined_to(parameters: &Parameters, cells: Cells, errors: u64, rng: &Rng) -> Medium {
    let rings = Rings {
        errors_per_gigabit: errors,
        unit: true,
        ..Rings::one(parameters, 3)
    };
    let plan = JoinedPlan {
        lan: rings.lan(rng).expect("good"),
        cells: cells.behind_unit(2, 100_000),
        hosts: [2, 2],
        idle_max: Duration::from_us(100),
    };
    let mut joined = Joined::new(plan).expect("good");
    joined.lose_at_random(Some(Losses::new(rng.fork("lose"), errors / 20)));
    Medium::Joined(Box::new(joined))
}

fn any_choice() -> impl Strategy<Value = (usize, bool, bool, bool, usize)> {
    (
        0_usize..4,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        1_usize..300,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever is offered to whatever network: each message is received, lost for a reason, or
    /// on its way, and the same run is the same.
    #[test]
    fn messages_are_conserved(
        seed: u64,
        (medium, bus, cut_through, suspend, buffer_cells) in any_choice(),
        errors in prop_oneof![Just(0_u64), 1_u64..20_000],
        small in 1_usize..2_000,
        large in 1_usize..65_535,
        gap_us in 5_u64..400,
    ) {
        let parameters = Parameters::parse(System.parameters()).expect("good parameters");
        let rng = Rng::from_seed(seed);
        let hosts = 4;
        let network = |medium| match medium {
            0 => Rings { errors_per_gigabit: errors, ..Rings::one(&parameters, hosts) }.build(&rng),
            1 => Rings {
                rings: 2,
                allotment: Duration::from_us(20),
                master_allotment: Duration::from_us(40),
                errors_per_gigabit: errors,
                switch: Some(SwitchConfig {
                    ports: 2,
                    channel: Rate::from_mbps(800),
                    division: if bus { Division::Bus } else { Division::Space },
                    suspend,
                    cut_through,
                }),
                ..Rings::one(&parameters, 3)
            }
            .build(&rng),
            _ => {
                let joined = medium == 3;
                let cells = Cells::new(CellsPlan {
                    // Two hosts of the ring are behind the first.
                    hosts: hosts - usize::from(joined),
                    rate: Rate::from_mbps(150),
                    fibre: Duration::from_us(2),
                    latency: Duration::from_us(10),
                    buffer_cells,
                    discard: if bus { Discard::Cells } else { Discard::Early { threshold: buffer_cells / 2 } },
                    queue_messages: 16,
                    errors_per_gigabit: errors,
                    packets_per_link: 0,
                }, &rng);
                let medium = match joined {
                    false => Medium::Atm(Box::new(cells)),
                    true => joined_to(&parameters, cells, errors, &rng),
                };
                Ok(Network::new(medium, false))
            }
        };
        let source = |from: usize| {
            let urgent = from % 2 == 0;
            Source {
                from,
                to: None,
                class: if urgent { Class::Synchronous } else { Class::Asynchronous },
                payload_bytes: if urgent { small } else { large },
                gap: match from {
                    0 => Gap::Period(Duration::from_us(gap_us)),
                    1 => Gap::Always(2),
                    _ => Gap::Random(Duration::from_us(gap_us)),
                },
                group: usize::from(urgent),
            }
        };
        let plan = LoadPlan {
            hosts,
            sources: (0..hosts).map(source).collect(),
            groups: 2,
            warm_up: Duration::from_us(100),
            run_for: Duration::from_ms(3),
            drain_for: Duration::from_ms(3),
            deadline: Duration::from_ms(2),
        };
        let run = || load::run(network(medium).expect("good"), plan.clone(), &rng).expect("up");
        let record = run();
        conserves(&record.groups, record.on_their_way);
        prop_assert_eq!(record.hash, run().hash);
        let access: u64 = record.groups.iter().map(|group| Spread::count(&group.access)).sum();
        prop_assert!(access > 0);
    }

    /// Streams over a network that loses: what was written is read, when there is time enough.
    #[test]
    fn streams_are_conserved(
        seed: u64,
        ring: bool,
        errors in prop_oneof![Just(0_u64), 1_u64..300],
        buffer_cells in 300_usize..2_000,
        segment_bytes in 2_000_u64..14_336,
        message_bytes in 1_000_u64..40_000,
    ) {
        let parameters = Parameters::parse(System.parameters()).expect("good parameters");
        let rng = Rng::from_seed(seed);
        let hosts = 3;
        let network = if ring {
            Rings { errors_per_gigabit: errors, ..Rings::one(&parameters, hosts) }
                .build(&rng)
                .expect("good")
        } else {
            let plan = CellsPlan {
                hosts,
                rate: Rate::from_mbps(150),
                fibre: Duration::from_us(2),
                latency: Duration::from_us(10),
                buffer_cells,
                discard: Discard::Cells,
                queue_messages: 256,
                errors_per_gigabit: errors,
                packets_per_link: 0,
            };
            Network::new(Medium::Atm(Box::new(Cells::new(plan, &rng))), false)
        };
        let plan = TcpPlan {
            hosts,
            streams: vec![(1, 0), (2, 0)],
            stack: Stack::SingleCopy,
            segment_bytes,
            message_bytes,
            socket_buffer_bytes: 3 * segment_bytes,
            run_for: Duration::from_ms(5),
            // A lone timeout or two; the idle ring costs time to run.
            drain_for: Duration::from_ms(if ring { 20 } else { 2_500 }),
        };
        let record = tcp::run(&parameters, network, &plan, &rng).expect("up");
        for stream in &record.streams {
            prop_assert!(stream.read_bytes <= stream.written_bytes);
            prop_assert!(stream.read_in_time_bytes <= stream.read_bytes);
            let lossless = stream.sent_again == 0 && errors == 0;
            prop_assert!(!lossless || stream.read_bytes == stream.written_bytes);
        }
    }
}
