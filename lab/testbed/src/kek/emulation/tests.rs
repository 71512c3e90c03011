//! In the model's time: what the streams of the experiments get, what shaping does to packets, and where they are lost.

use barewire_units::Duration;

use super::*;
use crate::asked::replaced;
use crate::carried::{WANTED, at_us};
use crate::emulation::Emulated;
use crate::experiment::{Progress, Setting};
use crate::kek::System;
use crate::kek::experiments::emulated::emulated;
use crate::system::System as _;

fn with_setting<T>(
    experiment: &str,
    changes: &[(&str, &str)],
    work: impl FnOnce(&Setting<'_>) -> T,
) -> T {
    let mut all = System.experiments().iter();
    let inputs = all.find(|it| it.name == experiment).expect("it").inputs;
    let inputs = replaced(inputs, changes);
    work(&Setting {
        parameters: System.parameters(),
        inputs: &inputs,
        seed: 5,
        packets_per_link: 0,
        progress: &Progress::default(),
    })
}

fn network(changes: &[(&str, &str)], wanted: &Wanted) -> Box<dyn Emulated> {
    let network = with_setting("stream", changes, |setting| {
        System.emulate("stream", setting, wanted)
    });
    network.expect("a network")
}

/// A datagram of UDP, which is `bytes` long, with a number in it.
fn datagram(number: u64, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0; bytes];
    (packet[0], packet[9]) = (0x45, 17);
    packet[20..28].copy_from_slice(&number.to_be_bytes());
    packet
}

/// Offers packets of `bytes` from 0 to 1 without end, and gives the Mbit/s that come out in half a second after half a second.
fn rate_mbps(network: &mut dyn Emulated, bytes: usize) -> f64 {
    let (mut out, mut number) = (0, 0);
    let mut now = at_us(0);
    while now < at_us(1_000_000) {
        network.send(now, 0, 1, datagram(number, bytes));
        number += 1;
        now += Duration::from_us(60);
        while let Some(left) = network.poll() {
            out += usize::from(left.at >= at_us(500_000)) * left.packet.len();
        }
    }
    assert!(network.account().adds_up(), "{:?}", network.account());
    out as f64 * 8.0 / 0.5e6
}

/// What an idle path takes, part by part: processors, cards, the wire, and the wait for the interrupt.
#[test]
fn a_packet_takes_what_the_parts_of_the_model_take() {
    let (parameters, plan) =
        with_setting("stream", &[], |setting| emulated("stream", setting)).expect("PCs");
    let costs = parameters.costs(plan.hosts[0].0);
    let (kernel, card) = (costs.kernel, parameters.card);
    for bytes in [28_usize, 1_500, 9_000] {
        let mut network = network(&[], &WANTED);
        // Between two ticks of either PC.
        network.run_to(at_us(700));
        network.send(at_us(700), 0, 1, datagram(1, bytes));
        network.run_to(at_us(9_000));
        let left = network.poll().expect("it has come");
        assert_eq!((left.station, left.packet), (1, datagram(1, bytes)));
        let stored = (bytes as u64 + 18).max(64);
        let pci = parameters.pci.time(8, stored + card.descriptor.as_bytes());
        let wire = barewire_units::ByteSize::from_bytes(stored + 20);
        let copy = costs.copy(bytes as u64);
        let sends = costs.time(kernel.call) + copy + costs.time(kernel.send);
        let crosses = card.frame + pci + card.rate.time_to_send(wire) + parameters.link.delay;
        let arrives = card.frame + pci + plan.tuning.receive + card.interrupt;
        let reads = costs.time(kernel.call) + costs.time(kernel.switch) + copy;
        let receives = costs.interrupt() + costs.time(kernel.receive) + reads;
        assert_eq!(
            left.at - at_us(700),
            sends + crosses + arrives + receives,
            "{bytes} B"
        );
    }
}

#[test]
fn unshaped_packets_come_as_fast_as_the_stream_of_the_experiment() {
    let mut free = network(&[], &WANTED);
    // 990 Mbit/s of the paper, in packets of 9000 bytes with 52 of headers.
    let rate = rate_mbps(&mut *free, 9_000);
    assert!((960.0..1000.0).contains(&rate), "{rate}");
    let mut normal = network(&[("mtu = \"9000 B\"", "mtu = \"1500 B\"")], &WANTED);
    let narrow = rate_mbps(&mut *normal, 1_500);
    assert!(narrow < 0.6 * rate, "the card takes as long: {narrow}");
}

/// The bucket counts the Ethernet header.
#[test]
fn a_shaped_source_keeps_to_its_setting() {
    for set in [20, 100, 200] {
        let shaping = format!("shaping = \"{set} Mbit/s\"");
        let mut shaped = network(&[("shaping = \"none\"", &shaping)], &WANTED);
        let rate = rate_mbps(&mut *shaped, 9_000);
        let expected = f64::from(set) * 9_000.0 / 9_014.0;
        assert!((rate / expected - 1.0).abs() < 0.03, "{rate} for {set}");
        assert!(shaped.account().lost_under_way > 0, "a full discipline");
        // The other direction is not shaped.
        let before = shaped.now();
        shaped.send(before, 1, 0, datagram(0, 9_000));
        shaped.run_to(before + Duration::from_ms(2));
        let back = std::iter::from_fn(|| shaped.poll()).find(|left| left.station == 0);
        assert!(back.is_some(), "it has come back");
    }
}

/// Filters see the ports of the packets: one class may overtake another.
#[test]
fn classes_of_a_script_may_overtake() {
    let script = "tc = '''\ntc qdisc add dev eth0 root handle 1: htb default 2\n\
        tc class add dev eth0 parent 1: classid 1:1 htb rate 100Mbit\n\
        tc class add dev eth0 parent 1: classid 1:2 htb rate 2Mbit ceil 2Mbit burst 9100\n\
        tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dport 7 0xffff flowid 1:1\n'''";
    let mut network = network(&[("tc = \"\"", script)], &WANTED);
    for number in 0..6 {
        network.send(at_us(10), 0, 1, datagram(number, 8_000));
    }
    let mut urgent = datagram(0, 60);
    urgent[20..24].copy_from_slice(&[0, 9, 0, 7]);
    network.send(at_us(20), 0, 1, urgent.clone());
    network.run_to(at_us(300_000));
    let order: Vec<_> = std::iter::from_fn(|| network.poll()).collect();
    let at = order.iter().position(|left| left.packet == urgent);
    assert_eq!(order.len(), 7, "{:?}", network.account());
    assert!(at.is_some_and(|at| at < 3), "{at:?}");
    let account = network.account();
    assert!(account.adds_up() && (account.given, account.inside) == (7, 0));
}

#[test]
fn what_is_lost_is_counted_and_both_sides_are_recorded() {
    let changes = [
        ("sources = 1", "sources = 3"),
        ("switched = false", "switched = true"),
    ];
    let wanted = Wanted {
        stations: 4,
        lose: 0.1,
        host_era: HostEra::None,
        packets_per_link: 200,
        ..WANTED
    };
    let mut network = network(&changes, &wanted);
    for number in 0..300 {
        let from = (number % 3) as u16;
        network.send(at_us(100 * number), from, 3, datagram(number, 1_000));
    }
    network.run_to(at_us(200_000));
    let account = network.account();
    assert!(account.adds_up() && account.inside == 0, "{account:?}");
    assert!((10..60).contains(&account.lost_under_way), "{account:?}");
    let links = network.take_links();
    let sent = links.iter().find(|link| link.link == "PC 0, transmit");
    let sent = &sent.expect("a link").packets;
    assert_eq!(sent.len(), 100);
    assert_eq!(&sent[1].bytes[14..], datagram(3, 1_000));
}

#[test]
fn each_experiment_says_whether_it_carries() {
    let carries = |experiment: &str, stations| {
        let wanted = Wanted { stations, ..WANTED };
        with_setting(experiment, &[], |setting| {
            System.emulate(experiment, setting, &wanted)
        })
    };
    assert!(carries("full-rate", 2).is_ok());
    assert!(carries("admission", 6).is_ok());
    let error = carries("stream", 3).err().expect("two PCs").to_string();
    assert!(error.contains("stations: found 3"), "{error}");
    for builder in ["bursts", "delayed-ack"] {
        let error = carries(builder, 2).err().expect("no PCs").to_string();
        assert!(error.contains("carries no packets"), "{error}");
    }
}
