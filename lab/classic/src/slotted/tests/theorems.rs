//! The theorems of the module header on whole rings.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use barewire_formats::cbn::SLOTS;
use barewire_units::{Duration, Instant, Rng};

use super::fixture::{MONITOR, Ring, station};
use crate::slotted::{Channel, Config, Duplex, FRAMES, Outcome, ROTATION, Station, Verdict};

/// Every station listens to its own number and to `MULTICAST`, if on its channel.
const MULTICAST: u16 = 1000;

fn vcis(node: usize) -> [u16; 2] {
    [node as u16, MULTICAST]
}

/// A ring of mixed stations: both duplexes, all sizes, all channels, small FIFOs.
fn mixed(seed: u64, count: usize) -> (Ring, Vec<Config>) {
    let mut rng = Rng::from_seed(seed).fork("stations");
    let configs: Vec<Config> = (0..count)
        .map(|_| Config {
            channels_at_once: rng.in_range(1..=SLOTS as u64) as usize,
            duplex: [Duplex::Half, Duplex::Full][rng.index(2)],
            ..station(rng.index(SLOTS))
        })
        .collect();
    let mut ring = Ring::new(seed, configs.clone());
    for node in 1..=count {
        let station = ring.station(node).unwrap();
        vcis(node).iter().for_each(|&vci| station.listen(vci));
    }
    (ring, configs)
}

/// Sends `cells` cells at random times; each goes to a station, to many, or to nobody.
fn chatter(ring: &mut Ring, configs: &[Config], cells: usize, mut disturb: impl FnMut(&mut Ring)) {
    for _ in 0..cells {
        let from = 1 + ring.rng.index(configs.len());
        let to = 1 + ring.rng.index(configs.len());
        let channel = configs[to - 1].receive_channel.index();
        let vci = match ring.rng.below(8) {
            0 => 999,
            1 => MULTICAST,
            _ => to as u16,
        };
        ring.send(from, channel, vci);
        disturb(ring);
        let pause = ring.rng.below(ROTATION.as_ps() / 4);
        ring.run(Duration::from_ps(pause));
    }
}

/// Waits for the queues and for what is on the ring; then nothing is left over.
fn settle(ring: &mut Ring) {
    ring.damage_ppm = 0;
    ring.run(ROTATION * 150);
    assert_eq!(ring.full_slots(), 0);
    for journey in &ring.journeys {
        let told = journey.outcome.is_some();
        assert!(
            told || !ring.lives(journey.node, journey.life),
            "{journey:?}"
        );
    }
}

#[test]
fn without_faults_every_cell_is_delivered_once_or_the_sender_knows_why() {
    for seed in 0..12 {
        let count = 2 + seed as usize % 7;
        let (mut ring, configs) = mixed(seed, count);
        chatter(&mut ring, &configs, 150, |_| {});
        settle(&mut ring);
        assert!(ring.longest <= ROTATION, "{}", ring.longest);
        assert_eq!(ring.monitor().stats().lost_cells, 0);
        for journey in &ring.journeys {
            let Some(Outcome::Returned(verdict)) = journey.outcome else {
                panic!("lost without a fault: {journey:?}");
            };
            if journey.vci == 999 {
                assert_eq!(verdict, Verdict::Nobody);
            }
        }
    }
}

#[test]
fn with_faults_no_slot_circles_for_two_rotations_and_no_cell_has_two_ends() {
    let (mut lost, mut recovered, mut damaged) = (0, 0, 0);
    for seed in 100..124 {
        let count = 2 + seed as usize % 7;
        let (mut ring, configs) = mixed(seed, count);
        ring.damage_ppm = [0, 2_000, 30_000, 200_000][seed as usize % 4];
        let mut dead = BTreeSet::new();
        chatter(&mut ring, &configs, 200, |ring| {
            let node = ring.rng.index(count + 1);
            match ring.rng.below(20) {
                0 if dead.insert(node) => ring.kill(node),
                1..=4 if dead.remove(&MONITOR) => ring.revive_monitor(),
                1..=4 if dead.remove(&node) => ring.revive(node, configs[node - 1], &vcis(node)),
                _ => {}
            }
        });
        if dead.contains(&MONITOR) {
            ring.revive_monitor();
        }
        settle(&mut ring);
        recovered += ring.monitor().stats().lost_cells + ring.monitor().stats().lost_voids;
        damaged += ring.damaged_hops;
        let told_lost = |end: Option<Outcome>| matches!(end, Some(Outcome::Lost(_)));
        lost += ring
            .journeys
            .iter()
            .filter(|journey| told_lost(journey.outcome))
            .count();
    }
    assert!(
        lost > 100 && recovered > 100 && damaged > 1000,
        "{lost} {recovered} {damaged}"
    );
}

#[test]
fn a_ring_without_monitor_copies_an_orphan_once() {
    let (mut ring, configs) = mixed(7, 4);
    ring.kill(MONITOR);
    let channel = configs[2].receive_channel.index();
    ring.send(1, channel, 3);
    while ring
        .station(1)
        .is_some_and(|sender| sender.in_flight() == 0)
    {
        ring.step();
    }
    ring.kill(1);
    ring.run(ROTATION * 20);
    assert_eq!(ring.full_slots(), 1);
    assert_eq!(ring.journeys[0].receivers, BTreeSet::from([3]));
    assert!(ring.station(3).unwrap().stats().duplicates > 15);
    ring.revive_monitor();
    ring.run(ROTATION * 2);
    assert_eq!(ring.full_slots(), 0);
}

/// `n` stations that always have cells for one channel, and a station that takes them.
fn saturated(senders: usize, rotations: u64) -> Ring {
    let mut configs: Vec<Config> = (0..senders).map(|_| station(1)).collect();
    configs.push(station(0));
    let mut ring = Ring::new(senders as u64, configs);
    let sink = senders + 1;
    ring.station(sink).unwrap().listen(sink as u16);
    let until = ring.now + ROTATION * rotations;
    while ring.now < until {
        for node in 1..=senders {
            let queued = |station: &mut Station| station.queued(Channel::ALL[0]);
            if ring.station(node).map(queued) < Some(8) {
                ring.send(node, 0, sink as u16);
            }
        }
        ring.step();
    }
    ring
}

/// 28 slots of 256 bits in 22.7 us are 315.8 Mbit/s, 7 slots of one channel 78.9 Mbit/s;
/// the fairness rule leaves n / (n + 1) of them to n senders, and as much to each.
#[test]
fn throughput_is_slot_arithmetic() {
    let bits_per_s = |slots: u64| slots * 256 * 1_000_000_000_000 / ROTATION.as_ps();
    assert_eq!(bits_per_s((FRAMES * SLOTS) as u64) / 100_000, 3157);
    assert_eq!(bits_per_s(FRAMES as u64) / 100_000, 789);
    for senders in [1, 2, 3, 6] {
        let rotations = 20 * (senders as u64 + 1);
        let mut ring = saturated(senders, rotations);
        let capacity = rotations * FRAMES as u64;
        let expected = capacity * senders as u64 / (senders as u64 + 1);
        let sent: Vec<u64> = (1..=senders)
            .map(|node| ring.station(node).unwrap().stats().accepted)
            .collect();
        let total: u64 = sent.iter().sum();
        // What is on the ring at the end is not yet counted.
        assert!(
            total <= expected && total + 2 * FRAMES as u64 >= expected,
            "{total} {expected}"
        );
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= FRAMES as u64, "{sent:?}");
    }
}

/// Two stations that send to each other have half of a channel each in full duplex. In half
/// duplex a station fills a slot, has it back, and receives in the third rotation.
#[test]
fn two_ways_at_once_need_full_duplex() {
    let passages = 40 * FRAMES as u64;
    for (duplex, rotations_a_cell) in [(Duplex::Full, 2), (Duplex::Half, 3)] {
        let config = |channel| Config {
            duplex,
            ..station(channel)
        };
        let mut ring = Ring::new(1, [0, 1].map(config).to_vec());
        for node in [1, 2] {
            ring.station(node).unwrap().listen(node as u16);
        }
        while ring.now < Instant::ORIGIN + ROTATION * 40 {
            ring.send(1, 1, 2);
            ring.send(2, 0, 1);
            ring.step();
        }
        let stats = [1, 2].map(|node| ring.station(node).unwrap().stats());
        let share = passages / rotations_a_cell;
        for stats in stats {
            let (sent, received) = (stats.sent, stats.received);
            let near = share - FRAMES as u64..=share + FRAMES as u64;
            assert!(
                near.contains(&sent) && near.contains(&received),
                "{stats:?}"
            );
            // A station sends, has its slot back or receives.
            assert!(duplex == Duplex::Full || sent + received <= stats.frames);
            assert_eq!(stats.held_receiving > 0, duplex == Duplex::Half);
            assert_eq!(stats.refused_full, 0);
        }
    }
}

/// A half-duplex station to which `n` stations send all the time gets one frame in `n + 1`.
#[test]
fn a_half_duplex_station_that_receives_all_the_time_still_sends() {
    for senders in [1, 2, 3, 6] {
        let mut configs: Vec<Config> = (0..senders).map(|_| station(1)).collect();
        let both = senders + 1;
        configs.push(Config {
            duplex: Duplex::Half,
            ..station(0)
        });
        let mut ring = Ring::new(senders as u64, configs);
        ring.station(both).unwrap().listen(both as u16);
        let cycles = 20;
        let until = ring.now + ROTATION * (cycles * (senders as u64 + 1));
        while ring.now < until {
            for node in 1..=senders {
                ring.send(node, 0, both as u16);
            }
            ring.send(both, 1, 999);
            ring.step();
        }
        let sent = ring.station(both).unwrap().stats().sent;
        let expected = cycles * FRAMES as u64;
        // At the start frames pass it before a sender has filled them.
        assert!(
            (expected - FRAMES as u64..=expected + FRAMES as u64).contains(&sent),
            "{senders}: {sent} of {expected}"
        );
    }
}

/// The first cell of a queue is in a slot within n + 1 rotations on a channel that n stations
/// want, within (n + 1) (1 + 3 / size) where its station's queues compete.
#[test]
fn nobody_starves() {
    for (seed, senders, size) in [(1, 2, 4), (2, 5, 4), (3, 4, 1), (4, 6, 2), (5, 3, 3)] {
        let config = Config {
            channels_at_once: size,
            ..station(0)
        };
        // One frame: what many frames give in parallel, this gives one after another.
        let configs = (0..senders)
            .map(|_| Config {
                frames: 1,
                ..config
            })
            .collect();
        let mut ring = Ring::new(seed, configs);
        let bound = ROTATION * ((senders + 1) * (1 + 3 / size)) as u64;
        let mut waiting = Waiting::new(senders, ring.now);
        while ring.now < Instant::ORIGIN + bound * 30 {
            for node in 1..=senders {
                for channel in 0..SLOTS {
                    ring.send(node, channel, 999);
                }
            }
            ring.step();
            waiting.check(&mut ring, bound);
        }
        assert!(
            waiting.longest >= ROTATION * senders as u64,
            "{senders}: only {}",
            waiting.longest
        );
    }
}

/// Since when the first cell of each queue waits.
struct Waiting {
    since: Vec<[Instant; SLOTS]>,
    sent: Vec<[u64; SLOTS]>,
    longest: Duration,
}

impl Waiting {
    fn new(senders: usize, now: Instant) -> Self {
        Self {
            since: (0..senders).map(|_| [now; SLOTS]).collect(),
            sent: (0..senders).map(|_| [0; SLOTS]).collect(),
            longest: Duration::ZERO,
        }
    }

    fn check(&mut self, ring: &mut Ring, bound: Duration) {
        let now = ring.now;
        for index in 0..self.since.len() {
            let served = ring.filled[index + 1];
            for (channel, &served) in served.iter().enumerate() {
                if self.sent[index][channel] != served {
                    self.sent[index][channel] = served;
                    self.since[index][channel] = now;
                }
                let wait = now - self.since[index][channel];
                self.longest = self.longest.max(wait);
                assert!(
                    wait <= bound,
                    "node {index} channel {channel}: {wait} of {bound}"
                );
            }
        }
    }
}
