//! The tree of the KEK event builder, from its commands to the bytes on the link.

use alloc::string::String;

use barewire_units::{Duration, Instant, Rate};

use super::super::tests::{drive, packet, saturate, settled_mbps};
use super::super::{Handle, Qdisc, Timer};
use super::*;

/// One class and one token bucket for each destination, as in Fig 4 of kek00.
fn one_to_three(mbps: [u64; 3], buffer_kb: u64) -> Tree {
    let mut text = String::from(
        "tc qdisc add dev eth0 root handle 1: cbq bandwidth 1000Mbit avpkt 1000 cell 8\n",
    );
    for (number, mbps) in (1..).zip(mbps) {
        text += &std::format!(
            "tc class add dev eth0 parent 1:0 classid 1:{number} cbq bandwidth 1000Mbit \
             rate 1000Mbit allot 1514 weight 100Mbit prio 8 maxburst 20 avpkt 1000\n\
             tc qdisc add dev eth0 parent 1:{number} handle {number}0: tbf rate {mbps}Mbit \
             buffer {buffer_kb}Kb limit 64Kb\n\
             tc filter add dev eth0 parent 1:0 protocol ip prio 100 u32 match ip dst \
             10.0.0.{number} flowid 1:{number}\n"
        );
    }
    Tree::parse(&text, Timer::LINUX_I386).expect("the published commands")
}

/// The rates to `sending`, over a link of 1 Gbit/s that is always offered more than
/// it can send.
fn reached(mut tree: Tree, sending: &[u8]) -> [f64; 8] {
    let time = Duration::from_ms(600);
    let link = Some(Rate::from_gbps(1));
    let sent = drive(&mut tree, link, time, saturate(sending, 1_500));
    settled_mbps(&sent, time)
}

#[test]
fn each_of_three_destinations_gets_its_rate() {
    for (set, buffer_kb) in [
        ([100, 100, 100], 125),
        ([20, 50, 100], 125),
        ([10, 200, 300], 417),
    ] {
        let reached = reached(one_to_three(set, buffer_kb), &[1, 2, 3]);
        for (found, mbps) in reached[1..].iter().zip(set) {
            let error = (found - mbps as f64).abs() / mbps as f64;
            assert!(error < 0.01, "{found} Mbit/s, not {mbps}");
        }
    }
}

/// A bucket of 125 KB that is emptied at link speed at each tick of 100 Hz gives
/// B·HZ, and what flows in while it is emptied: B·HZ / (1 - R/link).
#[test]
fn a_shallow_bucket_is_limited_by_the_timer() {
    let reached = reached(one_to_three([300, 300, 300], 125), &[1]);
    let limit = 128_000.0 * 8.0 * 100.0 / 1e6 / (1.0 - 0.3);
    let error = (reached[1] - limit).abs() / limit;
    assert!(error < 0.02, "{} Mbit/s, not {limit}", reached[1]);
}

#[test]
fn unclaimed_traffic_is_not_shaped() {
    let mut tree = one_to_three([1, 1, 1], 125);
    for id in 0..100 {
        tree.enqueue(Instant::ORIGIN, packet(id, 1_500, 7)).unwrap();
    }
    let sent = drive(
        &mut tree,
        Some(Rate::from_gbps(1)),
        Duration::from_ms(2),
        |_, _| {},
    );
    assert_eq!(sent.len(), 100);
    let stats = tree.class_stats(Handle::new(1, 0)).unwrap();
    assert_eq!(stats.sent.packets, 100);
}

#[test]
fn counters_of_a_class_are_its_own() {
    let mut tree = one_to_three([1, 1, 1], 125);
    for id in 0..60 {
        let _ = tree.enqueue(Instant::ORIGIN, packet(id, 1_500, 2));
    }
    let of = |minor| tree.class_stats(Handle::new(1, minor)).unwrap();
    // 64 KB hold 43 packets of 1500 bytes.
    assert_eq!((of(2).queued.packets, of(2).dropped.packets), (43, 17));
    assert_eq!(of(1), Stats::default());
    assert_eq!(tree.class_stats(Handle::new(1, 9)), None);
    assert_eq!(tree.class_stats(Handle::new(0x10, 0)), None);
    let whole = tree.stats();
    assert_eq!(
        whole.offered.packets,
        whole.queued.packets + whole.dropped.packets
    );
}

#[test]
fn disciplines_nest() {
    let text = "\
tc qdisc add dev e root handle 1: htb default 2
tc class add dev e parent 1: classid 1:1 htb rate 10Mbit burst 3Kb
tc class add dev e parent 1: classid 1:2 htb rate 20Mbit burst 3Kb
tc qdisc add dev e parent 1:1 handle 2: cbq bandwidth 10Mbit avpkt 1000
tc class add dev e parent 2: classid 2:1 cbq bandwidth 10Mbit rate 3Mbit weight 3 bounded
tc class add dev e parent 2: classid 2:2 cbq bandwidth 10Mbit rate 7Mbit weight 7
tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.0/30 flowid 1:1
tc filter add dev e parent 2: protocol ip prio 1 u32 match ip dst 10.0.0.1 flowid 2:1
tc filter add dev e parent 2: protocol ip prio 1 u32 match ip dst 10.0.0.2 flowid 2:2
";
    let tree = Tree::parse(text, Timer::EXACT).expect("the tree is right");
    let time = Duration::from_s(1);
    let link = Some(Rate::from_mbps(100));
    let sent = drive(&mut tree.clone(), link, time, saturate(&[1, 2, 5], 1_000));
    let reached = settled_mbps(&sent, time);
    for (to, mbps) in [(1, 3.0), (2, 7.0), (5, 20.0)] {
        assert!((reached[to] - mbps).abs() < 0.1 * mbps, "{reached:?}");
    }
    let again = Tree::parse(&std::format!("{tree}"), Timer::EXACT).expect("what it prints");
    assert_eq!(again.commands(), tree.commands());
}
