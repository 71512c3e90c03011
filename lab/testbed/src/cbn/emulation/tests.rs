//! In the model's time: the same times as the plan's run, and where packets are lost.

use barewire_classic::msdl::InterruptOn;

use super::*;
use crate::asked::changed;
use crate::carried::{WANTED, at_us, departure, emulate};
use crate::cbn::System;
use crate::cbn::experiments;
use crate::cbn::parameters::Parameters;
use crate::emulation::Emulated;
use crate::system::System as _;

const SEED: u64 = 1;
fn network(wanted: &Wanted) -> Box<dyn Emulated> {
    let texts = (System.parameters(), System.experiments()[0].inputs);
    emulate(&System, "ping", texts, SEED, wanted).expect("a network")
}

/// The plan's ping, by hand: the other end sends back what comes, and each block waits for the one before.
#[test]
fn a_packet_takes_as_long_as_the_blocks_of_the_plan() {
    let parameters = Parameters::parse(System.parameters()).expect("parameters");
    for cells in [1, 10, 30] {
        // What the plan has first in its list.
        let run = Run::new(&parameters).interrupt_on(InterruptOn::StartOfBlock);
        let run = run.cells(cells);
        let observed = run.ping(SEED).expect("a run");
        let mut network = network(&WANTED);
        let mut now = observed.start;
        for trip in observed.round_trips() {
            let packet = vec![cells as u8; run.block_bytes()];
            network.send(now, 0, 1, packet.clone());
            let there = departure(&mut *network);
            assert_eq!((there.station, &there.packet), (1, &packet));
            network.send(there.at, 1, 0, packet);
            let back = departure(&mut *network);
            assert_eq!((back.station, back.at - now), (0, trip), "{cells} cells");
            now = back.at;
        }
        let account = network.account();
        assert_eq!((account.taken, account.given), (18, 18));
        assert!(account.adds_up());
    }
}

#[test]
fn an_idle_ring_has_nothing_to_do() {
    let mut network = network(&WANTED);
    network.run_to(at_us(100));
    assert_eq!(network.next_at(), None);
    network.send(at_us(7_000), 0, 1, vec![1; 300]);
    let left = departure(&mut *network);
    network.run_to(left.at + Duration::from_us(200));
    assert_eq!(network.next_at(), None);
}

/// Frames pass in step however long the ring was idle: a packet takes as long as on a ring whose
/// frames never stopped, whatever the phase.
#[test]
fn frames_keep_their_phase_over_a_long_idle_time() {
    let rotation = Parameters::parse(System.parameters())
        .expect("parameters")
        .ring
        .rotation;
    let took = |from: Instant, warm: bool| {
        let mut network = network(&WANTED);
        if warm {
            network.run_to(from);
        }
        network.send(from, 1, 0, vec![7; 64]);
        departure(&mut *network).at - from
    };
    for us in [3, 8, 14] {
        let soon = at_us(us) + rotation;
        let late = soon + rotation * 1_000_003;
        assert_eq!(took(soon, false), took(late, true), "{us} us");
    }
}

#[test]
fn what_is_lost_is_counted_where_it_is() {
    let mut network = network(&Wanted {
        lose: 0.02,
        mtu_bytes: Some(600),
        ..WANTED
    });
    for number in 0..200_u64 {
        let bytes = if number % 50 == 7 { 601 } else { 500 };
        let packet = vec![number as u8; bytes];
        network.send(
            at_us(1_000 * number),
            (number % 2) as u16,
            1 - (number % 2) as u16,
            packet,
        );
    }
    // All at once: the queue holds 50, and one is with the host.
    for number in 0..60 {
        network.send(at_us(300_000), 0, 1, vec![number; 20]);
    }
    let before = network.account();
    assert!(before.adds_up() && before.inside > 0, "{before:?}");
    network.run_to(at_us(900_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert_eq!((account.lost_too_long, account.lost_queue_full), (4, 9));
    // 16 cells each, of which 2 % are lost: 28 % of the packets.
    assert!((30..90).contains(&account.lost_under_way), "{account:?}");
    let given = std::iter::from_fn(|| network.poll()).count() as u64;
    assert_eq!(given, account.given);
}

#[test]
fn hosts_that_take_no_time_leave_the_interface() {
    let mut network = network(&Wanted {
        host_era: HostEra::None,
        stations: 5,
        ..WANTED
    });
    let packet = vec![1; 1500];
    for number in 0..4 {
        network.send(at_us(50), number, 4, packet.clone());
    }
    network.run_to(at_us(5_000));
    let left: Vec<_> = std::iter::from_fn(|| network.poll()).collect();
    assert_eq!(left.len(), 4);
    // 47 cells, of which one passes in a rotation of 22.7 us for each sender at least.
    let last = left[3].at - at_us(50);
    assert!(last > Duration::from_us(47 * 4 * 3) && last < Duration::from_us(4 * 47 * 23));
    // The longest block, and the queue of a station, do not make time stand still.
    let mut network = self::network(&Wanted {
        host_era: HostEra::None,
        mtu_bytes: Some(8160),
        ..WANTED
    });
    for number in 0..50 {
        network.send(at_us(50), 0, 1, vec![number; 8160]);
    }
    network.run_to(at_us(400_000));
    let account = network.account();
    assert_eq!(
        (account.given, account.lost_under_way),
        (50, 0),
        "{account:?}"
    );
}

#[test]
fn both_sides_are_recorded() {
    let mut network = network(&Wanted {
        packets_per_link: 100,
        ..WANTED
    });
    network.send(at_us(5), 0, 1, vec![0x45; 70]);
    network.run_to(at_us(5_000));
    let links = network.take_links();
    let names: Vec<_> = links.iter().map(|link| link.link.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    let counts: Vec<_> = links.iter().map(|link| link.packets.len()).collect();
    // Three cells, each seen behind its station and behind the other one.
    assert_eq!(counts, [1, 1, 3, 3]);
}

#[test]
fn what_cannot_be_emulated_is_refused() {
    let refused = |wanted: Wanted, reason: &str| {
        let inputs = changed(&experiments::ALL[0], &[]);
        let texts = (System.parameters(), inputs.as_str());
        let emulated = emulate(&System, "ping", texts, SEED, &wanted);
        let error = emulated.err().expect(reason);
        assert!(error.to_string().contains(reason), "{error}");
    };
    let with = |change: fn(&mut Wanted)| {
        let mut wanted = WANTED;
        change(&mut wanted);
        wanted
    };
    refused(with(|it| it.stations = 1), "stations: found 1");
    refused(with(|it| it.mtu_bytes = Some(8161)), "mtu: found 8161");
    refused(with(|it| it.lose = 1.5), "lose: found 1.5");
}
