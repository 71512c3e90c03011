//! How classes of token buckets share a link of 100 Mbit/s.

use alloc::vec::Vec;
use std::string::String;

use barewire_units::{Duration, Instant, Rate};
use proptest::prelude::*;

use super::super::tests::{assert_mbps, drive, packet, saturate, settled_mbps};
use super::super::{Qdisc, Timer, Tree};

/// Rates reached in Mbit/s by destination; `classes` go to destinations 1, 2, 3 ...
fn shares(classes: &[&str], sending: &[u8]) -> [f64; 8] {
    let mut text = String::from("tc qdisc add dev e root handle 1: htb default 0\n");
    for (number, options) in (1..).zip(classes) {
        let (parent, options) = options.split_once(' ').unwrap();
        text += &std::format!(
            "tc class add dev e parent {parent} classid 1:{number} htb burst 5Kb cburst 5Kb \
             {options}\n\
             tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.{number} \
             flowid 1:{number}\n"
        );
    }
    let mut tree = Tree::parse(&text, Timer::EXACT).expect("the tree is right");
    let time = Duration::from_ms(600);
    let link = Some(Rate::from_mbps(100));
    let sent = drive(&mut tree, link, time, saturate(sending, 1_000));
    settled_mbps(&sent, time)
}

#[test]
fn a_class_keeps_to_its_rate_and_borrows_up_to_its_ceiling() {
    assert_mbps(shares(&["1: rate 10Mbit"], &[1])[1], 10.0);
    let below = ["1: rate 90Mbit", "1:1 rate 10Mbit ceil 70Mbit"];
    assert_mbps(shares(&below, &[2])[2], 70.0);
    let below = ["1: rate 40Mbit", "1:1 rate 10Mbit ceil 70Mbit"];
    assert_mbps(shares(&below, &[2])[2], 40.0);
    // A class at the top has nobody to borrow from.
    assert_mbps(shares(&["1: rate 10Mbit ceil 70Mbit"], &[1])[1], 10.0);
}

#[test]
fn each_has_its_rate_and_the_rest_goes_by_quantum() {
    let classes = [
        "1: rate 90Mbit",
        "1:1 rate 10Mbit ceil 90Mbit quantum 1500",
        "1:1 rate 20Mbit ceil 90Mbit quantum 3000",
    ];
    let full = shares(&classes, &[2, 3]);
    assert_mbps(full[2], 10.0 + 20.0);
    assert_mbps(full[3], 20.0 + 40.0);
}

#[test]
fn the_first_priority_borrows_first() {
    let classes = [
        "1: rate 90Mbit",
        "1:1 rate 10Mbit ceil 60Mbit prio 0",
        "1:1 rate 20Mbit ceil 90Mbit prio 1",
    ];
    let full = shares(&classes, &[2, 3]);
    assert_mbps(full[2], 60.0);
    assert_mbps(full[3], 30.0);
}

#[test]
fn a_near_ancestor_lends_before_a_far_one() {
    let classes = [
        "1: rate 90Mbit",
        "1:1 rate 50Mbit ceil 50Mbit",
        "1:2 rate 10Mbit ceil 90Mbit prio 7",
        "1:1 rate 40Mbit ceil 90Mbit prio 0",
    ];
    // 1:3 gets all of 1:2 although 1:4 is of a better priority; and the ceiling of
    // 1:2 keeps it there.
    let full = shares(&classes, &[3, 4]);
    assert_mbps(full[3], 50.0);
    assert_mbps(full[4], 40.0);
}

#[test]
fn what_no_filter_claims_passes_unshaped_without_a_default() {
    let full = shares(&["1: rate 50Mbit"], &[1, 5]);
    assert_mbps(full[5], 100.0);
}

/// Whether what was sent, as (time, destination, bytes), keeps to a ceiling.
fn holds(sent: &[(Instant, u8, u32)], to: u8, ceil_bps: u64, cburst: u64) -> bool {
    let sent: Vec<_> = sent.iter().filter(|(_, dest, _)| *dest == to).collect();
    (0..sent.len()).all(|first| {
        // All but the last packet fit; the last may leave a debt.
        let mut bytes = 0;
        sent[first..].iter().all(|(at, _, len)| {
            let ps = u128::from((*at - sent[first].0).as_ps());
            let bound = u128::from(cburst) * 8_000_000_000_000 + u128::from(ceil_bps) * ps;
            let fits = bytes * 8_000_000_000_000 <= bound;
            bytes += u128::from(*len);
            fits
        })
    })
}

proptest! {
    /// In any interval t a class sends at most cburst + ceil·t and one packet.
    #[test]
    fn no_class_exceeds_its_ceiling(
        steps in proptest::collection::vec(
            (0..3_u8, 1..3_u8, 0..1_600_u32, 0..2_000_000_000_u64), 0..150),
        ceils in (1_000..20_000_000_u64, 1_000..20_000_000_u64, 1_000..20_000_000_u64),
        cburst in 0..8_000_u64,
    ) {
        let (c1, c2, c3) = ceils;
        let text = std::format!("\
tc qdisc add dev e root handle 1: htb
tc class add dev e parent 1: classid 1:3 htb rate {c3} ceil {c3} burst {cburst} cburst {cburst}
tc class add dev e parent 1:3 classid 1:1 htb rate 9bit ceil {c1} burst 1 cburst {cburst}
tc class add dev e parent 1:3 classid 1:2 htb rate 1Gbit ceil {c2} burst 9Kb cburst {cburst}
tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1 flowid 1:1
tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.2 flowid 1:2
");
        let mut tree = Tree::parse(&text, Timer::EXACT).expect("the tree is right");
        let mut now = Instant::ORIGIN;
        let mut sent = Vec::new();
        for (action, to, len, wait_ps) in steps {
            match action {
                0 => drop(tree.enqueue(now, packet(0, len, to))),
                1 => now += Duration::from_ps(wait_ps),
                _ => while let Some(packet) = tree.dequeue(now) {
                    sent.push((now, packet.bytes[19], packet.len_bytes));
                }
            }
        }
        prop_assert!(holds(&sent, 1, c1, cburst));
        prop_assert!(holds(&sent, 2, c2, cburst));
    }
}
