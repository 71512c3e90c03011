//! The bound B + R·t over every pair of packets, the critical rate B·HZ, waking.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use std::string::ToString;

use barewire_units::{ByteSize, Duration, Graph, Instant, Rate};
use proptest::prelude::*;

use super::super::tests::{drive, packet, saturate};
use super::*;

const SECOND: Duration = Duration::from_s(1);

fn config(rate: Rate, burst_bytes: u64) -> Config {
    Config {
        rate,
        burst: ByteSize::from_bytes(burst_bytes),
        limit: ByteSize::from_bytes(20_000),
        peak: None,
    }
}

fn bytes(sent: &[(Instant, Packet)]) -> u64 {
    sent.iter()
        .map(|(_, packet)| u64::from(packet.len_bytes))
        .sum()
}

#[test]
fn the_graph_stands_still() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Open --TokensShort--> Asleep\nAsleep --TimerFires--> Open\nAsleep --Woken--> Open\n"
    );
}

/// Burst needed for a rate (src:kek00, src:linux-tc): 100 Mbit/s needs B >= 125 KB at HZ = 100, 333 Mbit/s 417 KB, 1 Gbit/s
/// 1.25 MB; with less, the rate is B·HZ.
#[test]
fn a_timer_limits_the_rate_to_a_burst_a_tick() {
    for (mbps, burst_bytes, reached_mbps) in [
        (100, 125_000, 100),
        (100, 250_000, 100),
        (100, 100_000, 80),
        (100, 62_500, 50),
        (333, 417_000, 333),
        (333, 125_000, 100),
        (1_000, 1_250_000, 1_000),
        (1_000, 125_000, 100),
    ] {
        let mut tbf = Tbf::new(
            config(Rate::from_mbps(mbps), burst_bytes),
            Timer::LINUX_I386,
        );
        let sent = drive(&mut tbf, None, SECOND, saturate(&[0], 500));
        let expected: u64 = reached_mbps * 125_000;
        // The burst of the beginning stands for the tick at the end.
        let error = expected.abs_diff(bytes(&sent));
        assert!(
            error <= expected / 100,
            "{mbps} Mbit/s, {burst_bytes} B: {error} B off"
        );
        let ticks = sent
            .iter()
            .all(|(at, _)| at.since_origin().as_ps() % 10_000_000_000 == 0);
        assert!(ticks);
    }
}

#[test]
fn an_exact_timer_reaches_any_rate_with_one_packet_of_burst() {
    let mut tbf = Tbf::new(config(Rate::from_mbps(100), 1_500), Timer::EXACT);
    let sent = drive(&mut tbf, None, SECOND, saturate(&[0], 1_500));
    // Packets at 0, 120 us, 240 us, ...
    assert_eq!(sent.len(), 8_334);
    assert_eq!(
        sent[8_333].0,
        Instant::ORIGIN + Duration::from_us(8_333 * 120)
    );
}

/// Other events on the device wake the filter before its timer fires.
#[test]
fn who_is_woken_often_needs_no_deep_bucket() {
    let mut tbf = Tbf::new(config(Rate::from_mbps(100), 3_000), Timer::LINUX_I386);
    let mut fill = saturate(&[0], 1_500);
    let mut sent_bytes = 0;
    for event in 0..10_000 {
        let now = Instant::ORIGIN + Duration::from_us(100) * event;
        fill(&mut tbf, now);
        tbf.wake();
        while let Some(packet) = tbf.dequeue(now) {
            sent_bytes += u64::from(packet.len_bytes);
        }
        assert_eq!(tbf.state(), State::Asleep);
    }
    assert!(sent_bytes.abs_diff(12_500_000) < 5_000, "{sent_bytes}");
}

#[test]
fn what_can_never_go_or_not_wait_is_given_back() {
    let mut peaked = config(Rate::from_mbps(1), 3_000);
    peaked.peak = Some(Peak {
        rate: Rate::from_mbps(2),
        mtu: ByteSize::from_bytes(1_500),
    });
    let mut tbf = Tbf::new(peaked, Timer::EXACT);
    let too_long = tbf
        .enqueue(Instant::ORIGIN, packet(1, 1_501, 0))
        .unwrap_err();
    assert_eq!(
        too_long.to_string(),
        "packet 1 dropped: a packet of 1501 bytes, and a bucket of 1500"
    );
    for id in 0..13 {
        assert!(tbf.enqueue(Instant::ORIGIN, packet(id, 1_500, 0)).is_ok());
    }
    let full = tbf
        .enqueue(Instant::ORIGIN, packet(13, 501, 0))
        .unwrap_err();
    assert_eq!(
        full.to_string(),
        "packet 13 dropped: the queue holds 19500 of at most 20000 bytes"
    );
    assert!(tbf.enqueue(Instant::ORIGIN, packet(14, 500, 0)).is_ok());
    assert_eq!(tbf.stats().dropped.packets, 2);
}

#[test]
fn time_does_not_run_backwards() {
    let mut tbf = Tbf::new(config(Rate::from_bps(8_000), 1_000), Timer::EXACT);
    let at = |s| Instant::ORIGIN + Duration::from_s(s);
    for (enqueue_at, dequeue_at, sent) in [(0, 0, true), (0, 1, true), (2, 1, true), (1, 0, false)]
    {
        tbf.enqueue(at(enqueue_at), packet(0, 1_000, 0))
            .expect("room");
        assert_eq!(tbf.dequeue(at(dequeue_at)).is_some(), sent);
    }
    assert_eq!(tbf.next_deadline(), Some(at(3)));
}

#[test]
fn a_latency_is_a_limit() {
    let (rate, burst) = (Rate::from_mbps(8), ByteSize::from_bytes(5_000));
    let limit = |peak| Config::limit_for(Duration::from_ms(10), rate, burst, peak).as_bytes();
    assert_eq!(limit(None), 15_000);
    let peak = Peak {
        rate: Rate::from_mbps(8),
        mtu: ByteSize::from_bytes(1_500),
    };
    assert_eq!(limit(Some(peak)), 11_500);
}

#[derive(Clone, Debug)]
enum Step {
    Offer(u32),
    Send,
    Wake,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..1_600_u32).prop_map(Step::Offer),
        3 => Just(Step::Send),
        1 => Just(Step::Wake),
        2 => (0..2_000_000_000_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..150)
}

proptest! {
    /// The theorem: from any packet to any later one, both counted, at most B + R·t
    /// bytes, and with a peak rate at most MTU + P·t; in the order of arrival.
    #[test]
    fn no_interval_holds_more_than_the_bound(
        steps in steps(),
        rate in 1..20_000_000_u64,
        peak in prop::option::of((1..40_000_000_u64, 1_000..2_000_u64)),
        burst in 1_000..10_000_u64,
        hz in prop_oneof![Just(None), (1..2_000_u32).prop_map(NonZeroU32::new)],
    ) {
        let mut config = config(Rate::from_bps(rate), burst);
        config.peak = peak.map(|(rate, mtu)| Peak {
            rate: Rate::from_bps(rate),
            mtu: ByteSize::from_bytes(mtu),
        });
        let mut tbf = Tbf::new(config, hz.map_or(Timer::EXACT, Timer::hz));
        let mut now = Instant::ORIGIN;
        let mut sent = Vec::new();
        for (id, step) in (0..).zip(steps) {
            match step {
                Step::Offer(len) => drop(tbf.enqueue(now, packet(id, len, 0))),
                Step::Send => sent.extend(tbf.dequeue(now).map(|packet| (now, packet))),
                Step::Wake => tbf.wake(),
                Step::Wait(ps) => now += Duration::from_ps(ps),
            }
        }
        prop_assert!(sent.windows(2).all(|pair| pair[0].1.id < pair[1].1.id));
        for first in 0..sent.len() {
            let mut bytes = 0;
            for (at, packet) in &sent[first..] {
                bytes += u128::from(packet.len_bytes);
                let ps = u128::from((*at - sent[first].0).as_ps());
                let bound = |depth: u64, rate: u64| {
                    u128::from(depth) * 8_000_000_000_000 + u128::from(rate) * ps
                };
                prop_assert!(bytes * 8_000_000_000_000 <= bound(burst, rate));
                if let Some((peak, mtu)) = peak {
                    prop_assert!(bytes * 8_000_000_000_000 <= bound(mtu, peak));
                }
            }
        }
    }
}
