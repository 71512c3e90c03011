//! In the model's time: the ring's own times, what hosts add, and where packets are lost.

use super::*;
use crate::carried::{at_us, departure};
use crate::emulation::Emulated;
use crate::experiment::{Progress, Setting};
use crate::jetstream::System;
use crate::jetstream::experiments::emulated;
use crate::system::System as _;

const SEED: u64 = 3;
const WANTED: Wanted = Wanted {
    stations: 4,
    host_era: HostEra::None,
    mtu_bytes: None,
    lose: 0.0,
    packets_per_link: 0,
};

fn with_setting<T>(work: impl FnOnce(&Setting<'_>) -> T) -> T {
    work(&Setting {
        parameters: System.parameters(),
        inputs: System.experiments()[0].inputs,
        seed: SEED,
        packets_per_link: 0,
        progress: &Progress::default(),
    })
}

fn network(wanted: &Wanted) -> Box<dyn Emulated> {
    let network = with_setting(|setting| System.emulate("ring", setting, wanted));
    network.expect("a network")
}

/// The ring of the experiments and nothing else: when messages are whole at their receivers.
pub(super) struct Bare {
    pub network: Network,
    pub whole: Vec<Instant>,
}

impl Bare {
    pub fn new(network: Network) -> Self {
        Self {
            network,
            whole: Vec::new(),
        }
    }
}

impl AsMut<Network> for Bare {
    fn as_mut(&mut self) -> &mut Network {
        &mut self.network
    }
}

impl World for Bare {
    type Event = NetEvent;

    fn handle(&mut self, event: NetEvent, sim: &mut Simulator<NetEvent>) {
        self.network.handle(event, sim);
        while let Some(happening) = self.network.traffic.happenings.pop_front() {
            if matches!(happening, Happening::Received(_)) {
                self.whole.push(sim.now());
            }
        }
    }
}

#[test]
fn a_packet_takes_as_long_as_a_message_of_the_experiments() {
    let made = with_setting(|setting| emulated::emulated(setting, &WANTED)).expect("a ring");
    let mut bare = Bare::new(made.network);
    let mut sim = Simulator::new();
    let up = Network::start(&mut bare, &mut sim).expect("it comes up");
    let mut network = network(&WANTED);
    for number in 0..20_u64 {
        let at = at_us(1_000 * number + 37 * number);
        let (from, to) = ((number % 4) as u16, ((number + 1 + number / 8) % 4) as u16);
        if from == to {
            continue;
        }
        let bytes = 40 + 600 * number as usize;
        sim.run_until(up + at.since_origin(), &mut bare);
        let class = Class::Asynchronous;
        let (sender, receiver) = (usize::from(from), usize::from(to));
        bare.network
            .send(&mut sim, sender, receiver, class, bytes + 8, Vec::new);
        sim.run_until(up + at.since_origin() + Duration::from_us(900), &mut bare);
        network.send(at, from, to, vec![number as u8; bytes]);
        let left = departure(&mut *network);
        let whole = bare.whole.pop().expect("it has come");
        assert_eq!(
            (left.station, left.at),
            (to, Instant::ORIGIN + (whole - up))
        );
    }
    assert!(network.account().adds_up() && network.account().given >= 15);
}

#[test]
fn hosts_add_what_the_paper_gives_them() {
    let took = |era, packet: &[u8]| {
        let mut network = network(&Wanted {
            host_era: era,
            ..WANTED
        });
        network.send(at_us(100), 0, 1, packet.to_vec());
        departure(&mut *network).at - at_us(100)
    };
    let costs = with_setting(|setting| emulated::emulated(setting, &WANTED))
        .expect("a ring")
        .costs;
    let mut acknowledgement = vec![0; 52];
    (acknowledgement[0], acknowledgement[9], acknowledgement[32]) = (0x45, 6, 0x80);
    assert!(is_acknowledgement(&acknowledgement));
    let data = vec![1; 10_000];
    for packet in [&acknowledgement, &data] {
        let [send, receive] = costs_of(&costs, packet);
        let added = took(HostEra::Plan, packet) - took(HostEra::None, packet);
        // The frame leaves later, and meets the token at another place: at most a rotation apart.
        let apart = added.as_ps().abs_diff((send + receive).as_ps());
        assert!(
            apart < Duration::from_us(60).as_ps(),
            "{added} for {send} and {receive}"
        );
    }
}

#[test]
fn what_is_lost_is_counted_where_it_is() {
    let mut network = network(&Wanted {
        lose: 0.1,
        mtu_bytes: Some(1500),
        host_era: HostEra::Plan,
        ..WANTED
    });
    for number in 0..200_u64 {
        let bytes = if number == 9 { 1501 } else { 700 };
        let packet = vec![number as u8; bytes];
        network.send(at_us(1_000 * number), (number % 3) as u16, 3, packet);
    }
    for number in 0..60 {
        network.send(at_us(300_000), 0, 1, vec![number; 20]);
    }
    assert!(network.account().adds_up());
    network.run_to(at_us(900_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert_eq!((account.lost_too_long, account.lost_queue_full), (1, 9));
    assert!((5..60).contains(&account.lost_under_way), "{account:?}");
}

#[test]
fn both_sides_are_recorded() {
    let mut network = network(&Wanted {
        packets_per_link: 50,
        ..WANTED
    });
    network.send(at_us(5), 0, 2, vec![0x45; 70]);
    network.run_to(at_us(5_000));
    let left = network.poll().expect("it has left");
    let links = network.take_links();
    // Both in the time of the outside.
    let times = [&links[0], &links[1]].map(|link| link.packets[0].at);
    assert_eq!(times, [at_us(5), left.at]);
    let names: Vec<_> = links.iter().map(|link| link.link.as_str()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(links.iter().take(2).all(|link| link.packets.len() == 1));
    // Somewhere on the ring the packet stands as it was sent.
    let mut ring = links.iter().skip(2).flat_map(|link| &link.packets);
    assert!(ring.any(|packet| packet.bytes.windows(70).any(|part| part == [0x45; 70])));
}

/// Rings of four stations at a switch: within a ring, and from each to each other.
#[test]
fn packets_pass_the_switch() {
    let mut all = System.experiments().iter();
    let inputs = all.find(|it| it.name == "switch").expect("it").inputs;
    let setting = Setting {
        parameters: System.parameters(),
        inputs,
        seed: SEED,
        packets_per_link: 0,
        progress: &Progress::default(),
    };
    let wanted = Wanted {
        stations: 16,
        ..WANTED
    };
    let mut network = System
        .emulate("switch", &setting, &wanted)
        .expect("a network");
    let mut took = std::collections::BTreeMap::new();
    for number in 0..60_u64 {
        let (from, to) = ((number % 16) as u16, ((number * 7 + 3) % 16) as u16);
        if from == to {
            continue;
        }
        let at = at_us(1_000 * number + 10);
        network.send(at, from, to, vec![number as u8; 1_400]);
        let left = departure(&mut *network);
        assert_eq!((left.station, left.packet[0]), (to, number as u8));
        let crosses = from / 4 != to / 4;
        let most = took.entry(crosses).or_insert(Duration::ZERO);
        *most = (*most).max(left.at - at);
    }
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert_eq!(account.given, account.taken);
    // Two rings, and what the switch takes, are more than one.
    assert!(took[&true] > took[&false], "{took:?}");
    let many = Wanted {
        stations: 17,
        ..WANTED
    };
    let error = System.emulate("switch", &setting, &many).err();
    assert!(error.expect("refused").to_string().contains("stations"));
}
