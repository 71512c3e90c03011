//! In the model's time: the round trips of the experiments, what a sleeping host adds, and that nothing gets stuck.

use super::*;
use crate::carried::{WANTED, at_us, departure, emulate};
use crate::clan::System;
use crate::clan::parameters::TEXT;
use crate::clan::runs;
use crate::emulation::Emulated;
use crate::figures::us;
use crate::system::System as _;

fn network_of(parameters: &str, wanted: &Wanted) -> Result<Box<dyn Emulated>, SystemError> {
    let texts = (parameters, System.experiments()[0].inputs);
    emulate(&System, "ping", texts, 7, wanted)
}

fn network(wanted: &Wanted) -> Box<dyn Emulated> {
    network_of(TEXT, wanted).expect("a network")
}

/// There and back, each packet answered as soon as it has come: the mean of so many round trips. Both hosts are awake when
/// the first begins. Otherwise each would wait so long for the other's interrupt that it slept again.
fn round_trip_us(network: &mut dyn Emulated, bytes: usize, rounds: u64) -> f64 {
    for (from, to) in [(0, 1), (1, 0)] {
        network.send(at_us(1_000), from, to, vec![0; bytes]);
    }
    let woken = [departure(network).at, departure(network).at];
    let (began, mut at) = (woken[1], woken[1]);
    for round in 0..rounds {
        for (from, to) in [(0, 1), (1, 0)] {
            let packet = vec![round as u8; bytes];
            network.send(at, from, to, packet.clone());
            let left = departure(network);
            assert_eq!((left.station, left.packet), (to, packet));
            at = left.at;
        }
    }
    us(at - began) / rounds as f64
}

#[test]
fn hosts_that_poll_take_the_round_trip_of_the_experiment() {
    let parameters = Parameters::parse(TEXT).expect("parameters");
    let published = runs::ping(&parameters, 200).value;
    let found = round_trip_us(&mut *network(&WANTED), parameters.message_bytes(), 200);
    // Looks at the memory may fall otherwise.
    assert!((found - published).abs() < 0.2, "{found} for {published}");
}

/// 9.3 us of the interrupt at each end that has slept, and 150 ns of the event.
#[test]
fn a_host_that_sleeps_is_woken_by_its_card() {
    let mut network = network(&WANTED);
    let one_way = |network: &mut dyn Emulated, at: Instant| {
        network.send(at, 0, 1, vec![1; 40]);
        us(departure(network).at - at)
    };
    let asleep = one_way(&mut *network, at_us(500));
    assert_eq!(network.next_at().map(|next| next > at_us(500)), Some(true));
    let awake = one_way(&mut *network, at_us(514));
    let added = asleep - awake;
    assert!((9.0..9.8).contains(&added), "{asleep} and {awake}");
    network.run_to(at_us(5_000));
    assert_eq!(network.next_at(), None, "both sleep");
}

/// More than a ring holds, from all to all, with hosts of the time and without: credits come back, and nothing is lost.
#[test]
fn many_packets_from_all_to_all_come_in_order() {
    for host_era in [HostEra::Plan, HostEra::None] {
        let stations = 5;
        let mut network = network(&Wanted {
            stations,
            host_era,
            ..WANTED
        });
        for number in 0..40_u16 {
            for from in 0..stations {
                let to = (from + 1 + number % (stations - 1)) % stations;
                let mut packet = vec![from as u8; 1_500];
                packet[1] = number as u8;
                network.send(at_us(20), from, to, packet);
            }
        }
        network.run_to(at_us(100_000));
        let account = network.account();
        assert_eq!((account.given, account.inside), (200, 0), "{account:?}");
        let mut last = std::collections::BTreeMap::new();
        while let Some(left) = network.poll() {
            let (from, number) = (left.packet[0], left.packet[1]);
            let before = last.insert((from, left.station), number);
            assert!(before.is_none_or(|before| before < number), "{host_era:?}");
        }
        assert_eq!(network.next_at(), None, "all sleep");
    }
}

#[test]
fn what_is_lost_is_counted_and_both_sides_are_recorded() {
    let mut network = network(&Wanted {
        lose: 0.1,
        packets_per_link: 10,
        ..WANTED
    });
    for number in 0..200_u64 {
        network.send(at_us(100 * number), 0, 1, vec![number as u8; 700]);
    }
    network.run_to(at_us(50_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert!((5..60).contains(&account.lost_under_way), "{account:?}");
    let links = network.take_links();
    let names: Vec<_> = links.iter().map(|link| link.link.as_str()).collect();
    assert!(names.contains(&"host 0, to its switch"), "{names:?}");
}

#[test]
fn what_does_not_go_is_refused() {
    let refused = |parameters: &str, wanted: Wanted| {
        let error = network_of(parameters, &wanted).err().expect("refused");
        error.to_string()
    };
    let nine = Wanted {
        stations: 9,
        ..WANTED
    };
    assert!(refused(TEXT, nine).contains("stations: found 9"));
    let long = Wanted {
        mtu_bytes: Some(9_000),
        ..WANTED
    };
    assert!(refused(TEXT, long).contains("mtu: found 9000"));
    let none = TEXT.replace("cam_entries = 256", "cam_entries = 1");
    let three = Wanted {
        stations: 3,
        ..WANTED
    };
    assert!(refused(&none, three).contains("card.cam_entries"));
}
