//! The bounds of the estimator against their formulas, and how classes share.

use alloc::vec::Vec;
use std::string::{String, ToString};

use barewire_units::{ByteSize, Duration, Graph, Instant, Rate};

use super::super::tests::{assert_mbps, drive, saturate, settled_mbps};
use super::super::{Packet, Timer, Tree};
use super::estimator::{Event, Parameters, State};

const LINK: Rate = Rate::from_mbps(100);

#[test]
fn the_graph_stands_still() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Within --SentOver--> Over\n\
         Over --SentWithin--> Within\n\
         Over --Refused--> Delayed\n\
         Over --TimeCame--> Within\n\
         Delayed --SentWithin--> Within\n\
         Delayed --SentOver--> Over\n\
         Delayed --TimeCame--> Within\n"
    );
    assert_eq!(State::Within.on(Event::Refused), None);
}

/// The formulas of `linux-tc`: maxidle and offtime, here in floating point.
fn expected_us(p: &Parameters) -> (f64, f64) {
    let weight = f64::from(p.ewma_log2).exp2();
    let g = 1.0 - 1.0 / weight;
    let packet_bits = p.avpkt.as_bytes() as f64 * 8.0;
    let on_link = packet_bits / p.bandwidth.as_bps() as f64 * 1e6;
    let own = packet_bits / p.rate.unwrap().as_bps() as f64 * 1e6;
    let excess = (own - on_link).max(0.0);
    let power = |n: u32| g.powf(-f64::from(n));
    let maxidle = f64::max(on_link * (1.0 - g), excess * (power(p.maxburst) - 1.0));
    let offtime = match p.minburst {
        0 => 0.0,
        1 => excess * (power(1) - 1.0),
        n => excess * (1.0 + (power(n - 1) - 1.0) / (1.0 - g)),
    };
    (maxidle * weight, offtime)
}

#[test]
fn the_bounds_follow_their_formulas() {
    let near = |exact: f64, found: Duration| {
        let found = found.as_ps() as f64 / 1e6;
        assert!(
            (found - exact).abs() <= 1e-6 * exact + 1e-5,
            "{found} for {exact}"
        );
    };
    for ewma_log2 in [1, 2, 5, 10, 16] {
        for kbps in [1_000, 10_000, 99_999, 100_000, 200_000] {
            for (maxburst, minburst) in [(0, 0), (1, 1), (20, 2), (8, 8), (30, 25)] {
                let parameters = Parameters {
                    rate: Some(Rate::from_kbps(kbps)),
                    bandwidth: LINK,
                    avpkt: ByteSize::from_bytes(1_000),
                    ewma_log2,
                    maxburst,
                    minburst,
                    minidle_us: None,
                };
                let (maxidle_us, offtime_us) = expected_us(&parameters);
                near(maxidle_us, parameters.maxidle());
                near(offtime_us, parameters.offtime());
            }
        }
    }
}

/// What is sent on a link of 100 Mbit/s with `sending` always full; `classes` go to
/// destinations 1, 2, 3 in their order.
fn sent(classes: &[&str], sending: &[u8], time: Duration) -> Vec<(Instant, Packet)> {
    let mut text =
        String::from("tc qdisc add dev e root handle 1: cbq bandwidth 100Mbit avpkt 1000\n");
    for (number, options) in (1..).zip(classes) {
        let parent = options.split(' ').next().unwrap();
        let options = &options[parent.len()..];
        text += &std::format!(
            "tc class add dev e parent {parent} classid 1:{number} cbq bandwidth 100Mbit \
             avpkt 1000 allot 1514 {options}\n\
             tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.{number} \
             flowid 1:{number}\n"
        );
    }
    let mut tree = Tree::parse(&text, Timer::EXACT).expect("the tree is right");
    drive(&mut tree, Some(LINK), time, saturate(sending, 1_000))
}

/// The rates of that in Mbit/s, by destination.
fn shares(classes: &[&str], sending: &[u8]) -> [f64; 8] {
    let time = Duration::from_ms(600);
    settled_mbps(&sent(classes, sending, time), time)
}

#[test]
fn a_bounded_class_keeps_to_its_rate() {
    let bounded = |minburst| {
        let class = std::format!("1: rate 10Mbit bounded minburst {minburst}");
        shares(&[&class], &[1])[1]
    };
    assert!((bounded(0) - 10.0).abs() < 0.01);
    // The average forgets a part of each wait: longer bursts get somewhat less.
    for minburst in [1, 2, 4, 8] {
        let found = bounded(minburst);
        assert!((9.0..10.2).contains(&found), "{minburst}: {found} Mbit/s");
    }
}

/// After each wait `minburst` packets follow one another; from 2 on one more, as
/// offtime comes on top of the wait that the last packet costs anyway.
#[test]
fn a_wait_earns_a_burst() {
    for (minburst, burst) in [(1, 1.0), (2, 3.0), (4, 5.0), (8, 9.0)] {
        let class = std::format!("1: rate 10Mbit bounded minburst {minburst}");
        let sent = sent(&[&class], &[1], Duration::from_ms(600));
        let settled = &sent[sent.len() / 6..];
        let follows = |pair: &[(Instant, Packet)]| pair[1].0 - pair[0].0 <= Duration::from_us(81);
        let waits = settled.windows(2).filter(|pair| !follows(pair)).count();
        let mean = settled.len() as f64 / waits as f64;
        assert!((mean - burst).abs() < 0.1, "{minburst}: {mean}");
    }
}

#[test]
fn a_class_borrows_what_nobody_uses() {
    assert_mbps(shares(&["1: rate 10Mbit"], &[1])[1], 100.0);
    // Not through a bounded parent.
    let below = ["1: rate 30Mbit bounded", "1:1 rate 10Mbit"];
    assert_mbps(shares(&below, &[2])[2], 30.0);
}

#[test]
fn full_classes_share_by_their_rates_and_weights() {
    let classes = [
        "1: rate 20Mbit weight 2Mbit",
        "1: rate 30Mbit weight 3Mbit",
        "1: rate 50Mbit weight 5Mbit",
    ];
    let full = shares(&classes, &[1, 2, 3]);
    [20.0, 30.0, 50.0]
        .into_iter()
        .zip(&full[1..])
        .for_each(|(expected, &found)| assert_mbps(found, expected));
    // What the third leaves goes to the others by their weights.
    let two = shares(&classes, &[1, 2]);
    assert_mbps(two[1], 40.0);
    assert_mbps(two[2], 60.0);
}

#[test]
fn an_isolated_class_does_not_lend() {
    let sharing = ["1: rate 40Mbit", "1: rate 60Mbit"];
    assert_mbps(shares(&sharing, &[2])[2], 100.0);
    let isolated = ["1: rate 40Mbit isolated", "1: rate 60Mbit"];
    assert_mbps(shares(&isolated, &[2])[2], 60.0);
    let both = shares(&isolated, &[1, 2]);
    assert_mbps(both[1], 40.0);
    assert_mbps(both[2], 60.0);
    // What it sends within its rate does not use up what its parent lends to others.
    let family = [
        "1: rate 60Mbit bounded",
        "1:1 rate 40Mbit isolated bounded",
        "1:1 rate 5Mbit",
    ];
    let both = shares(&family, &[2, 3]);
    assert_mbps(both[2], 40.0);
    assert_mbps(both[3], 20.0);
}

#[test]
fn the_first_priority_takes_what_it_may() {
    let classes = [
        "1: rate 70Mbit bounded prio 1",
        "1: rate 70Mbit bounded prio 2",
    ];
    let full = shares(&classes, &[1, 2]);
    assert_mbps(full[1], 70.0);
    assert_mbps(full[2], 30.0);
}

#[test]
fn what_no_filter_claims_has_the_rest_of_the_link() {
    let full = shares(&["1: rate 80Mbit bounded prio 1"], &[1, 5]);
    assert_mbps(full[1], 80.0);
    assert_mbps(full[1] + full[5], 100.0);
}
