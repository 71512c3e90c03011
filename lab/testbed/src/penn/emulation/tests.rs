//! In the model's time: the line's own times, what hosts add, and cells that are lost.

use super::*;
use crate::carried::{WANTED, at_us, departure, emulate};
use crate::emulation::Emulated;
use crate::penn::System;
use crate::penn::program::Program;
use crate::penn::world;
use crate::system::System as _;

fn network(wanted: &Wanted) -> Box<dyn Emulated> {
    let texts = (System.parameters(), System.experiments()[0].inputs);
    emulate(&System, "write", texts, 7, wanted).expect("a network")
}

/// The cells of a packet are on the line when those of one write of the experiment are.
#[test]
fn cells_leave_as_in_the_experiment() {
    let parameters = Parameters::parse(System.parameters()).expect("parameters");
    for cells in [1_usize, 3, 40] {
        // AAL5's trailer and LLC/SNAP take 16 bytes of them.
        let bytes = cells * 48;
        let program = Program::new(bytes as u64, 1, None);
        let observed = world::observe(&parameters, Path::Copied, program, 100);
        let line = observed.capture.expect("the line");
        let mut network = network(&Wanted {
            packets_per_link: 100,
            ..WANTED
        });
        network.send(at_us(0), 0, 1, vec![9; bytes - 16]);
        let left = departure(&mut *network);
        assert_eq!((left.station, left.packet.len()), (1, bytes - 16));
        let links = network.take_links();
        let times =
            |link: &LinkCapture| -> Vec<_> { link.packets.iter().map(|it| it.at).collect() };
        let found = links
            .iter()
            .find(|link| link.link.contains("from station 0"));
        assert_eq!(times(found.expect("a line")), times(&line), "{cells} cells");
        assert!(left.at > line.packets[cells - 1].at);
    }
}

#[test]
fn both_ways_at_once_and_back_to_back() {
    for host_era in [HostEra::Plan, HostEra::None] {
        let mut network = network(&Wanted { host_era, ..WANTED });
        for number in 0..30_u8 {
            let packet = vec![number; 100 + 300 * usize::from(number)];
            network.send(at_us(10 * u64::from(number)), 0, 1, packet.clone());
            network.send(at_us(10 * u64::from(number)), 1, 0, packet);
        }
        network.run_to(at_us(3_000_000));
        let account = network.account();
        assert_eq!((account.given, account.inside), (60, 0), "{account:?}");
        assert_eq!(network.next_at(), None);
    }
}

/// A lost cell costs its packet, and the end of one also the packet behind it.
#[test]
fn a_lost_cell_is_a_lost_packet() {
    let mut network = network(&Wanted {
        lose: 0.001,
        host_era: HostEra::None,
        ..WANTED
    });
    for number in 0..1000_u64 {
        let packet = vec![number as u8; 1500];
        network.send(at_us(1_000 * number), 0, 1, packet);
    }
    network.run_to(at_us(2_000_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    // 32 cells each: 3.2 % of the packets.
    assert!((10..80).contains(&account.lost_under_way), "{account:?}");
}

#[test]
fn a_line_has_two_ends() {
    let wanted = Wanted {
        stations: 3,
        ..WANTED
    };
    let texts = (System.parameters(), System.experiments()[0].inputs);
    let error = emulate(&System, "write", texts, 7, &wanted).err();
    let error = error.expect("three stations").to_string();
    assert!(error.contains("stations: found 3"), "{error}");
}
