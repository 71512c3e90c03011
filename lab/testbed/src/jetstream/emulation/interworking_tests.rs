//! Packets between stations of a ring and stations on ATM, in the model's time.

use std::collections::BTreeMap;

use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::atm::{CELL_BYTES, Cell, HeaderRepr, Interface};
use barewire_formats::jetstream::{Frame, FrameRepr, OVERHEAD_BYTES};

use barewire_units::Rng;

use super::tests::Bare;
use super::*;
use crate::asked::changed;
use crate::carried::{at_us, departure};
use crate::emulation::Emulated;
use crate::experiment::{Progress, Setting};
use crate::jetstream::System;
use crate::jetstream::experiments::interworking;
use crate::system::System as _;

const WANTED: Wanted = Wanted {
    stations: 8,
    host_era: HostEra::None,
    mtu_bytes: None,
    lose: 0.0,
    packets_per_link: 0,
};
/// Stations 0 to 3 are on the ring, 4 to 7 beyond the unit.
const ON_RING: u16 = 4;

fn with_setting<T>(changes: &[(&str, &str)], work: impl FnOnce(&Setting<'_>) -> T) -> T {
    work(&Setting {
        parameters: System.parameters(),
        inputs: &changed(&interworking::EXPERIMENT, changes),
        seed: 5,
        packets_per_link: 0,
        progress: &Progress::default(),
    })
}

fn network_with(changes: &[(&str, &str)], wanted: &Wanted) -> Box<dyn Emulated> {
    let network = with_setting(changes, |setting| {
        System.emulate("interworking", setting, wanted)
    });
    network.expect("a network")
}

fn network(wanted: &Wanted) -> Box<dyn Emulated> {
    network_with(&[], wanted)
}

fn counts(network: &dyn Emulated) -> BTreeMap<&'static str, u64> {
    network.view().counts.into_iter().collect()
}

fn packet(number: u64, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    Rng::from_seed(number).fill_bytes(&mut packet);
    packet
}

/// From each station to each other, whatever is between.
#[test]
fn packets_arrive_byte_for_byte_both_ways() {
    let mut network = network(&WANTED);
    for (number, pair) in (0..64_u64).map(|number| (number, number % 8 * 8 + number / 8)) {
        let (from, to) = ((pair / 8) as u16, (pair % 8) as u16);
        if from == to {
            continue;
        }
        let sent = packet(number, 20 + 223 * number as usize);
        let at = at_us(3_000 * number);
        network.send(at, from, to, sent.clone());
        let left = departure(&mut *network);
        assert_eq!((left.station, left.packet), (to, sent));
    }
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert_eq!((account.given, account.taken), (56, 56));
    let counts = counts(&*network);
    assert_eq!(counts["frames into the unit"], 16);
    assert_eq!(counts["frames out of it"], 16);
}

/// The ring, the unit, the links and the switch of the experiment, and nothing else.
#[test]
fn a_packet_takes_as_long_as_a_message_of_the_experiment() {
    let made = with_setting(&[], |setting| interworking::emulated(setting, &WANTED));
    let mut bare = Bare::new(made.expect("a network").network);
    let mut sim = Simulator::new();
    let up = Network::start(&mut bare, &mut sim).expect("it comes up");
    let mut network = network(&WANTED);
    for number in 0..40_u64 {
        let at = at_us(5_037 * number);
        let (from, to) = match number % 2 {
            0 => (number % 4, 4 + number / 2 % 4),
            _ => (4 + number % 4, number / 2 % 4),
        };
        let bytes = 40 + 300 * number as usize;
        sim.run_until(up + at.since_origin(), &mut bare);
        let (sender, receiver) = (from as usize, to as usize);
        let class = Class::Asynchronous;
        bare.network
            .send(&mut sim, sender, receiver, class, bytes + 8, Vec::new);
        sim.run_until(up + at.since_origin() + Duration::from_ms(4), &mut bare);
        network.send(at, from as u16, to as u16, packet(number, bytes));
        let left = departure(&mut *network);
        let whole = bare.whole.pop().expect("it has come");
        assert_eq!(left.at, Instant::ORIGIN + (whole - up), "{from} to {to}");
        // The cells leave one behind the other, and the last goes through the switch.
        let cell = Duration::from_ps(53 * 8 * 1_000_000 * 100 / 14_976);
        let cells = aal5::pdu_bytes(bytes + 8) as u64 / 48;
        let least = cell * (cells + 1) + Duration::from_us(15);
        let most = least + Duration::from_us(200);
        let took = left.at - at;
        assert!((least..most).contains(&took), "{cells} cells took {took}");
    }
}

#[test]
fn frames_and_cells_are_recorded() {
    let mut network = network(&Wanted {
        packets_per_link: 500,
        ..WANTED
    });
    let sent = packet(1, 700);
    network.send(at_us(5), 1, 6, sent.clone());
    network.send(at_us(2_000), 6, 1, sent.clone());
    network.run_to(at_us(4_000));
    let links = network.take_links();
    // Both directions of packets, five hops of the ring, both ways of five links.
    assert_eq!(links.len(), 2 + 5 + 10);
    let of = |name: &str| {
        let link = links.iter().find(|link| link.link == name);
        link.unwrap_or_else(|| panic!("no link {name}"))
    };
    for (first, second) in [
        ("interworking unit to ATM switch", "ATM switch to station 6"),
        ("station 6 to ATM switch", "ATM switch to interworking unit"),
    ] {
        let cells = [first, second].map(|name| {
            let packets = of(name).packets.iter();
            let cell = |packet: &crate::LinkPacket| {
                packet.bytes[packet.bytes.len() - CELL_BYTES..].to_vec()
            };
            packets.map(cell).collect::<Vec<_>>()
        });
        // 708 bytes and the trailer are 15 cells, which the switch leaves as they are.
        assert_eq!(cells[0].len(), 15);
        assert_eq!(cells[0], cells[1]);
        let headers = cells[0].iter().map(|cell| {
            let cell = Cell::new_checked(&cell[..]).expect("a cell");
            HeaderRepr::parse(&cell, Interface::Uni).expect("a good HEC")
        });
        let ends: Vec<bool> = headers.map(|header| header.payload_type.auu()).collect();
        assert!(ends.iter().rev().skip(1).all(|end| !end) && ends[14]);
        let pdu: Vec<u8> = cells[0]
            .iter()
            .flat_map(|cell| cell[5..].to_vec())
            .collect();
        let pdu = Pdu::new_checked(&pdu[..]).expect("a PDU");
        assert!(PduRepr::parse(&pdu).is_ok());
        assert_eq!(pdu.payload(), [&SNAP[..], &sent].concat());
    }
    // From the ring's second host, which is its station 2, and from the unit: once round.
    for hop in 0..5 {
        let link = of(&format!("ring 0, station {hop} to {}", (hop + 1) % 5));
        let sources = link.packets.iter().filter_map(|packet| {
            let payload = [&SNAP[..], &sent].concat();
            let mut parts = packet.bytes.windows(payload.len());
            let at = parts.position(|part| part == payload)?;
            let frame = Frame::new_checked(&packet.bytes[at - OVERHEAD_BYTES..]).expect("headers");
            Some(FrameRepr::parse(&frame).expect("a frame").header.src_rid)
        });
        assert_eq!(sources.collect::<Vec<_>>(), [2, 0], "{hop}");
    }
}

/// Cells and frames: a packet arrives as it was, or not at all, and is accounted for.
#[test]
fn what_is_lost_is_accounted_for() {
    let mut network = network(&Wanted {
        lose: 0.002,
        host_era: HostEra::Plan,
        ..WANTED
    });
    let mut sent = BTreeMap::new();
    for number in 0..600_u64 {
        let (ring, atm) = ((number % 4) as u16, ON_RING + (number / 4 % 4) as u16);
        let (from, to) = match number % 3 {
            0 => (ring, atm),
            1 => (atm, ring),
            _ => (ON_RING + ring, ON_RING + (ring + 1) % 4),
        };
        let it = packet(number, 100 + (number as usize * 97) % 9_000);
        sent.insert(it.clone(), to);
        network.send(at_us(1_500 * number), from, to, it);
    }
    network.run_to(at_us(1_500 * 600 + 1_000_000));
    let mut given = 0;
    while let Some(left) = network.poll() {
        assert_eq!(sent.remove(&left.packet), Some(left.station));
        given += 1;
    }
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert_eq!(account.given, given);
    assert_eq!(account.lost_under_way, sent.len() as u64);
    let counts = counts(&*network);
    assert!(counts["cells lost"] > 50, "{counts:?}");
    assert!((50..300).contains(&account.lost_under_way), "{account:?}");
}

/// A packet whose last cell is lost rests in the unit. One that comes soon is taken for the rest of it, and is lost, too;
/// one that comes late finds nothing there.
#[test]
fn the_unit_gives_up_what_rests_too_long() {
    let wanted = Wanted {
        lose: 0.2,
        ..WANTED
    };
    let changes = [("idle_max", "\"2 ms\"")];
    let run = |apart_us: u64| {
        let mut network = network_with(&changes, &wanted);
        for number in 0..100 {
            network.send(at_us(apart_us * number), 5, 2, packet(number, 130));
        }
        network.run_to(at_us(100 * apart_us + 10_000));
        let account = network.account();
        assert!(account.adds_up() && account.inside == 0, "{account:?}");
        (account.given, counts(&*network)["PDUs in it timed out"])
    };
    let (given, timed_out) = run(5_000);
    // Three cells and a frame, of which four fifths come.
    assert!((20..65).contains(&given), "{given}");
    assert!((5..45).contains(&timed_out), "{timed_out}");
    let (given_soon, timed_out_soon) = run(500);
    assert!(given_soon < given, "{given_soon} {given}");
    assert!(timed_out_soon <= 1, "{timed_out_soon}");
}

/// The ring is six times as fast as the line of the unit.
#[test]
fn a_full_unit_loses_whole_packets() {
    let changes = [("unit_buffer", "\"64 KiB\"")];
    let mut network = network_with(&changes, &WANTED);
    for number in 0..200_u64 {
        network.send(at_us(150 * number), 0, 4, packet(number, 9_000));
    }
    network.run_to(at_us(400_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert_eq!(account.lost_queue_full, 0);
    // 150 us for each, of which the line takes 535.
    assert!((50..80).contains(&account.given), "{account:?}");
    assert_eq!(counts(&*network)["cells without room in the switch"], 0);
}

/// Two hosts with more to send than they can: each sends and receives a packet in turn, so that both ways get the same, and
/// what waits is bounded by queues and cards.
#[test]
fn hosts_at_their_limit_serve_both_ways() {
    let wanted = Wanted {
        host_era: HostEra::Plan,
        ..WANTED
    };
    let made = with_setting(&[], |setting| interworking::emulated(setting, &wanted));
    let costs = made.expect("a network").costs;
    let [send, receive] = costs_of(&costs, &packet(0, 1_476));
    let time = Duration::from_ms(300);
    let most = time / (send + receive);
    // 100 Mbit/s.
    let gap = Duration::from_us(118);
    for ends in [(0, 4), (0, 1), (4, 5)] {
        let mut network = network(&wanted);
        let mut inside = 0;
        for number in 0..time / gap {
            let at = Instant::ORIGIN + gap * number;
            network.send(at, ends.0, ends.1, packet(2 * number, 1_476));
            network.send(at + gap / 3, ends.1, ends.0, packet(2 * number + 1, 1_476));
            inside = inside.max(network.account().inside);
        }
        let got = std::iter::from_fn(|| network.poll()).fold([0_u64; 2], |mut got, left| {
            got[usize::from(left.station == ends.0)] += 1;
            got
        });
        for got in got {
            let is_near = |got: u64| got * 100 > most * 93 && got <= most + 1;
            assert!(is_near(got), "{ends:?}: {got} of {most}");
        }
        // Two queues of 50, two cards of 32, and what is on its way.
        assert!(inside < 2 * (50 + 32 + 10), "{inside}");
        assert!(network.account().adds_up());
    }
}

/// A card has 32 blocks: of frames that all come at once, so many are kept.
#[test]
fn a_card_without_a_free_block_loses_the_frame() {
    let mut network = network(&Wanted {
        host_era: HostEra::Plan,
        ..WANTED
    });
    // Three hosts send to one as fast as they can: 107 us for each packet, of which it takes 197.
    for number in 0..120_u64 {
        let from = 1 + (number % 3) as u16;
        network.send(at_us(40 * number), from, 0, packet(number, 1_476));
    }
    network.run_to(at_us(100_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    let lost = counts(&*network)["frames that found no block in a card"];
    assert!(lost > 0, "{account:?}");
    assert_eq!((account.lost_under_way, account.lost_queue_full), (lost, 0));
}

#[test]
fn stations_are_as_many_as_the_plan_says() {
    let refused = |changes: &[(&str, &str)], stations: u16, reason: &str| {
        let wanted = Wanted { stations, ..WANTED };
        let emulated = with_setting(changes, |setting| {
            System.emulate("interworking", setting, &wanted)
        });
        let error = emulated.err().expect("refused").to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(&[], 9, "stations: found 9");
    refused(&[("ring_hosts", "16")], 8, "ring_hosts");
    refused(&[("discard", "\"none\"")], 8, "\"partial\"");
    let most = [("ring_hosts", "15"), ("atm_hosts", "15")];
    let wanted = Wanted {
        stations: 30,
        ..WANTED
    };
    let mut network = network_with(&most, &wanted);
    network.send(at_us(10), 14, 29, packet(1, 100));
    assert_eq!(departure(&mut *network).station, 29);
    network.send(at_us(500), 29, 14, packet(2, 100));
    assert_eq!(departure(&mut *network).station, 14);
}
