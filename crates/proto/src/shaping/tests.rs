//! What every discipline keeps: nothing is lost, nothing is made, and whoever
//! waits is told until when. Driven with arbitrary trees and calls.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use barewire_units::{ByteSize, Duration, Instant, Rate};
use proptest::prelude::*;

use super::*;

/// A packet of `len_bytes` to 10.0.0.`to`.
pub(super) fn packet(id: u64, len_bytes: u32, to: u8) -> Packet {
    let mut bytes = Vec::from([0; 24]);
    bytes[0] = 0x45;
    bytes[9] = 17;
    bytes[16..20].copy_from_slice(&[10, 0, 0, to]);
    Packet {
        id,
        len_bytes,
        protocol: ETHERTYPE_IPV4,
        bytes,
    }
}

/// Sends what `qdisc` gives for `time` over a link of `link` (`None`: it takes no time
/// at all), with `refill` called before each attempt. Gives who was sent when.
pub(super) fn drive(
    qdisc: &mut dyn Qdisc,
    link: Option<Rate>,
    time: Duration,
    mut refill: impl FnMut(&mut dyn Qdisc, Instant),
) -> Vec<(Instant, Packet)> {
    let (mut now, end) = (Instant::ORIGIN, Instant::ORIGIN + time);
    let mut sent = Vec::new();
    while now < end {
        refill(qdisc, now);
        if let Some(packet) = qdisc.dequeue(now) {
            let len = ByteSize::from_bytes(packet.len_bytes.into());
            sent.push((now, packet));
            now = link.map_or(now, |link| now + link.time_to_send(len));
            continue;
        }
        let Some(next) = qdisc.next_deadline() else {
            break;
        };
        assert!(next > now, "told to wait until {next} at {now}");
        now = next;
    }
    sent
}

/// The rate in Mbit/s to each of 10.0.0.0 to 10.0.0.7, over the last five sixths of
/// `time`: the bursts of the beginning are over then.
pub(super) fn settled_mbps(sent: &[(Instant, Packet)], time: Duration) -> [f64; 8] {
    let from = Instant::ORIGIN + time / 6;
    let measured_s = time.as_ps() as f64 / 1e12 * 5.0 / 6.0;
    let mut mbps = [0.0; 8];
    for (_, packet) in sent.iter().filter(|(at, _)| *at >= from) {
        let to = usize::from(packet.bytes[19] & 7);
        mbps[to] += f64::from(packet.len_bytes) * 8.0 / 1e6 / measured_s;
    }
    mbps
}

/// Keeps the queues of the destinations `to` full of packets of `len_bytes`.
pub(super) fn saturate(to: &[u8], len_bytes: u32) -> impl FnMut(&mut dyn Qdisc, Instant) {
    let mut id = 0;
    move |qdisc, now| {
        for &to in to {
            while qdisc.enqueue(now, packet(id, len_bytes, to)).is_ok() {
                id += 1;
            }
        }
    }
}

/// That a rate is the expected one within 2 %.
#[track_caller]
pub(super) fn assert_mbps(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 0.02 * expected,
        "{found} Mbit/s, not {expected}"
    );
}

#[test]
fn a_timer_rounds_up_to_its_ticks() {
    let hz = |hz| Timer::hz(NonZeroU32::new(hz).unwrap());
    let at = Instant::from_ps;
    assert_eq!(Timer::EXACT.round_up(at(7)), Some(at(7)));
    assert_eq!(Timer::LINUX_I386.round_up(at(0)), Some(at(0)));
    assert_eq!(Timer::LINUX_I386.round_up(at(1)), Some(at(10_000_000_000)));
    // 1024 Hz does not divide a second: ticks do not drift all the same.
    assert_eq!(hz(1024).round_up(at(1)), Some(at(976_562_500)));
    assert_eq!(hz(3).round_up(at(1)), Some(at(333_333_333_333)));
    assert_eq!(
        hz(3).round_up(at(666_666_666_667)),
        Some(at(1_000_000_000_000))
    );
    assert_eq!(hz(1).round_up(Instant::MAX), None);
    for tick in 0..5_000 {
        let tick = hz(1_193).round_up(at(tick * 123_456_789)).unwrap();
        assert_eq!(hz(1_193).round_up(tick), Some(tick));
    }
}

#[test]
fn handles_print_as_tc_writes_them() {
    use std::string::ToString;
    assert_eq!(Handle::new(0x10, 0).to_string(), "10:");
    assert_eq!(Handle::new(1, 0xab).to_string(), "1:ab");
}

/// Trees that hold every discipline, some with extreme parameters.
const TREES: [&str; 6] = [
    "tc qdisc add dev e root tbf rate 1Mbit burst 2Kb limit 10Kb",
    "tc qdisc add dev e root tbf rate 1bit burst 1b limit 1Gb peakrate 9999999Tbit mtu 1Gb",
    "tc qdisc add dev e root handle 1: cbq bandwidth 10Mbit avpkt 1000
     tc class add dev e parent 1: classid 1:1 cbq bandwidth 10Mbit rate 1Mbit bounded
     tc class add dev e parent 1: classid 1:2 cbq bandwidth 10Mbit rate 9Mbit minburst 3
     tc class add dev e parent 1:2 classid 1:3 cbq bandwidth 10Mbit rate 1Mbit prio 1 isolated
     tc class add dev e parent 1:2 classid 1:4 cbq bandwidth 10Mbit rate 1Mbit prio 8
     tc qdisc add dev e parent 1:1 tbf rate 500Kbit burst 3000 limit 10Kb
     tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.0 flowid 1:1
     tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1 flowid 1:3
     tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.2 flowid 1:4",
    "tc qdisc add dev e root handle 1: htb default 3
     tc class add dev e parent 1: classid 1:1 htb rate 10Mbit
     tc class add dev e parent 1:1 classid 1:2 htb rate 1Mbit ceil 10Mbit
     tc class add dev e parent 1:1 classid 1:3 htb rate 2Mbit ceil 3Mbit prio 3
     tc qdisc add dev e parent 1:3 pfifo limit 3
     tc filter add dev e parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.0 flowid 1:2",
    "tc qdisc add dev e root handle 1: cbq bandwidth 1bit avpkt 1b
     tc class add dev e parent 1: classid 1:1 cbq bandwidth 1bit rate 9999999Tbit allot 0 ewma 31 maxburst 4294967295
     tc class add dev e parent 1: classid 1:2 cbq bandwidth 9999999Tbit rate 1bit allot 0 ewma 1 maxburst 9999 minburst 9999 minidle 4294967295
     tc qdisc add dev e parent 1:1 handle 2: htb default 1 r2q 1
     tc class add dev e parent 2: classid 2:1 htb rate 1bit burst 0 ceil 9999999Tbit cburst 9999999Gb quantum 0
     tc filter add dev e parent 1: protocol all prio 1 u32 match ip dst 10.0.0.0 flowid 1:1
     tc filter add dev e parent 1: protocol all prio 1 u32 match ip dst 10.0.0.1 flowid 1:2",
    "",
];

#[derive(Clone, Debug)]
enum Step {
    Enqueue(u32, u8),
    Dequeue,
    Wake,
    Wait(u64),
    Deadline,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![0..2_u32, 40..1_600_u32, Just(u32::MAX)];
    let wait = prop_oneof![
        Just(0),
        1..10_000_000_000_u64,
        Just(u64::MAX / 3),
        Just(u64::MAX)
    ];
    prop_oneof![
        4 => (len, 0..4_u8).prop_map(|(len, to)| Step::Enqueue(len, to)),
        4 => Just(Step::Dequeue),
        1 => Just(Step::Wake),
        2 => wait.prop_map(Step::Wait),
        2 => Just(Step::Deadline),
    ]
}

proptest! {
    /// Any calls in any order: no panic; what went in came out, was dropped or is
    /// inside, in packets and in bytes; each flow stays in order; after a `None`
    /// the deadline lies ahead.
    #[test]
    fn nothing_is_lost_or_made(
        tree in 0..TREES.len(),
        hz in prop_oneof![Just(0), 1..2_000_u32],
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let timer = NonZeroU32::new(hz).map_or(Timer::EXACT, Timer::hz);
        let mut tree = Tree::parse(TREES[tree], timer).expect("the tree is right");
        let mut now = Instant::ORIGIN;
        let (mut offered, mut sent, mut dropped) =
            (Count::default(), Count::default(), Count::default());
        let mut last_id = [0; 4];
        for (id, step) in (1..).zip(steps) {
            match step {
                Step::Enqueue(len, to) => {
                    offered.add(len);
                    if let Err(back) = tree.enqueue(now, packet(id, len, to)) {
                        prop_assert_eq!(back.packet, packet(id, len, to));
                        dropped.add(len);
                    }
                }
                Step::Dequeue => match tree.dequeue(now) {
                    Some(packet) => {
                        sent.add(packet.len_bytes);
                        let last = &mut last_id[usize::from(packet.bytes[19])];
                        prop_assert!(*last < packet.id);
                        *last = packet.id;
                    }
                    None => prop_assert!(tree.next_deadline().is_none_or(|at| at > now)),
                },
                Step::Wake => tree.wake(),
                Step::Wait(ps) => now = now.saturating_add(Duration::from_ps(ps)),
                Step::Deadline => now = now.max(tree.next_deadline().unwrap_or(now)),
            }
            let stats = tree.stats();
            prop_assert_eq!((stats.offered, stats.sent, stats.dropped), (offered, sent, dropped));
            prop_assert_eq!(
                stats.queued.packets,
                offered.packets - sent.packets - dropped.packets
            );
            prop_assert_eq!(stats.queued.bytes, offered.bytes - sent.bytes - dropped.bytes);
        }
    }
}
