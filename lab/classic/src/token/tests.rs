//! The ring as a whole: it comes up, keeps its promises under any load, and mends itself.

use super::test_ring::{Ring, Source, Visit, configs, to_rid};
use super::*;
use barewire_formats::atm::Vc;
use barewire_formats::jetstream::link::Fill;
use barewire_formats::jetstream::{FRAME_BYTES_MAX, FrameRepr, HOSTS_MAX, Kind, RID_MAX};
use barewire_units::{Duration, Graph, Instant, Rate, Rng};
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

const MS: Duration = Duration::from_ms(1);

#[test]
fn the_table_stands() {
    let expected = "\
Fw0 --HostHearsFw1--> Fw1
Fw0 --MasterHearsFw0--> Fw1
Fw1 --HostHearsFw0--> Fw0
Fw1 --LinkLost--> Fw0
Fw1 --Timeout--> Fw0
Fw1 --MasterHearsFw1--> Numbering
Fw1 --Numbered--> Waiting
Fw1 --NumberedDuplex--> Duplex
Fw1 --TooManyHosts--> Fw1
Numbering --MasterHearsFw0--> Fw0
Numbering --LinkLost--> Fw0
Numbering --Timeout--> Fw0
Numbering --TooManyHosts--> Fw0
Numbering --Numbered--> Waiting
Numbering --NumberedDuplex--> Duplex
Waiting --HostHearsFw0--> Fw0
Waiting --MasterHearsFw0--> Fw0
Waiting --LinkLost--> Fw0
Waiting --Numbered--> Waiting
Waiting --TooManyHosts--> Fw1
Waiting --TokenArrives--> Holding
Waiting --TokenLost--> Recovering
Holding --HostHearsFw0--> Fw0
Holding --MasterHearsFw0--> Fw0
Holding --LinkLost--> Fw0
Holding --Numbered--> Waiting
Holding --TooManyHosts--> Fw1
Holding --Released--> Waiting
Recovering --MasterHearsFw0--> Fw0
Recovering --LinkLost--> Fw0
Recovering --TokenArrives--> Holding
Recovering --Timeout--> Waiting
Duplex --HostHearsFw0--> Fw0
Duplex --MasterHearsFw0--> Fw0
Duplex --LinkLost--> Fw0
Duplex --NumberedDuplex--> Duplex
Duplex --TooManyHosts--> Fw1
";
    assert_eq!(Graph::<State>::new().to_string(), expected);
}

/// Every station has the number of its place, and one token goes round.
#[track_caller]
fn assert_in_service(ring: &mut Ring, order: &[usize]) {
    assert!(ring.is_up());
    assert_eq!(ring.stations[order[0]].hosts(), Some(order.len() as u8 - 1));
    for (place, &station) in order.iter().enumerate() {
        assert_eq!(ring.stations[station].rid(), Some(place as u8));
    }
    let before: Vec<usize> = ring.visits.iter().map(Vec::len).collect();
    let removed =
        |ring: &Ring| -> u64 { ring.stations.iter().map(|s| s.stats().tokens_removed).sum() };
    let removed_before = removed(ring);
    ring.run_for(MS * 3);
    let tokens = |&station: &usize| ring.visits[station].len() - before[station];
    let (min, max) = (
        order.iter().map(tokens).min(),
        order.iter().map(tokens).max(),
    );
    assert!(
        max > Some(0) && min.map(|min| min + 1) >= max,
        "{min:?} {max:?}"
    );
    assert_eq!(removed(ring), removed_before, "a token too many");
}

#[test]
fn a_ring_of_any_size_comes_up() {
    for count in 1..=usize::from(HOSTS_MAX) + 1 {
        let mut ring = Ring::plain(count, Budget::jetstream());
        let up = ring.run_up(MS);
        assert!(up.since_origin() < Duration::from_us(200), "{count}: {up}");
        let order: Vec<usize> = (0..count).collect();
        assert_in_service(&mut ring, &order);
        let idle = ring.visits[0]
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at);
        let once_round = ring.hop.iter().copied().sum::<Duration>();
        assert!(idle.into_iter().all(|rotation| rotation == once_round));
    }
}

/// A master by itself, word by word: each loss ends in a timeout and a new start.
#[test]
fn the_master_starts_again_after_each_loss() {
    let us = |us| Instant::ORIGIN + Duration::from_us(us);
    let config = Config::jetstream(Role::Master);
    let mut master = Station::new(config, Instant::ORIGIN).expect("config");
    let did = |master: &mut Station| -> Vec<Action> {
        core::iter::from_fn(|| master.poll_action()).collect()
    };
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw0)]);
    // It keeps FW0 once round the ring, 21 us, whatever it hears.
    master.handle_fill(us(20), Fill::Fw0);
    assert_eq!((did(&mut master), master.state()), (vec![], State::Fw0));
    master.handle_fill(us(21), Fill::Fw0);
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw1)]);
    // FW1 does not come back within 105 us.
    assert_eq!(master.next_deadline(), Some(us(126)));
    master.handle_fill(us(125), Fill::Fw0);
    master.handle_timer(us(126));
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw0)]);
    master.handle_fill(us(147), Fill::Fw0);
    master.handle_fill(us(168), Fill::Fw1);
    let ring_up = Action::Frame(FrameRepr::ring_up(0));
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw1), ring_up]);
    // Nor does RING_UP.
    assert_eq!(master.next_deadline(), Some(us(273)));
    master.handle_timer(us(273));
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw0)]);
    master.handle_fill(us(294), Fill::Fw0);
    master.handle_fill(us(315), Fill::Fw1);
    let verdict = master.handle_frame(us(336), FrameRepr::ring_up(3));
    assert_eq!(verdict.forward, None);
    let token = Action::Frame(FrameRepr::token(0));
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw1), ring_up, token]);
    assert_eq!((master.hosts(), master.state()), (Some(3), State::Waiting));
    // The token is lost: due after 2 ms, replaced 50 us later.
    assert_eq!(master.next_deadline(), Some(us(2_336)));
    master.handle_timer(us(2_336));
    assert_eq!(
        (did(&mut master), master.state()),
        (vec![], State::Recovering)
    );
    master.handle_timer(us(2_386));
    assert_eq!(
        (did(&mut master), master.state()),
        (vec![token], State::Waiting)
    );
    master.handle_link_lost(us(3_000));
    assert_eq!(did(&mut master), [Action::Fill(Fill::Fw0)]);
    assert_eq!((master.hosts(), master.stats().restarts), (None, 3));
}

#[test]
fn more_hosts_than_numbers_never_come_up() {
    let mut ring = Ring::plain(usize::from(HOSTS_MAX) + 2, Budget::jetstream());
    ring.run_for(MS * 5);
    assert!(!ring.is_up());
    assert!(ring.stations[0].stats().rings_too_large > 1);
    assert!(
        ring.stations
            .iter()
            .all(|station| station.stats().tokens == 0)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Switched on in any order, with FW0, FW1, RING_UP and tokens lost.
    #[test]
    fn any_power_up_with_losses(count in 1..=16_usize, seed: u64, loss_percent in 0..12_u64) {
        let mut rng = Rng::from_seed(seed);
        let delays: Vec<Duration> =
            (0..count).map(|_| Duration::from_us(rng.below(3_000))).collect();
        let mut ring = Ring::new(&configs(count, Budget::jetstream()), &delays, seed);
        ring.loss_percent = loss_percent;
        ring.run_up(MS * 200);
        ring.loss_percent = 0;
        // A fill that was lost may still leave a part of the ring out.
        ring.run_for(MS * 5);
        ring.run_up(MS * 5);
        let order: Vec<usize> = (0..count).collect();
        assert_in_service(&mut ring, &order);
    }

    /// Nodes leave and join a loaded ring; each time all are numbered anew.
    #[test]
    fn nodes_leave_and_join(seed: u64) {
        let mut ring = Ring::plain(6, Budget::jetstream());
        ring.rng = Rng::from_seed(seed);
        for station in [1, 4] {
            ring.add_source(Source {
                station,
                class: Class::Asynchronous,
                frame_bytes: (1_000, FRAME_BYTES_MAX),
                gap: Some(MS),
            });
        }
        ring.run_up(MS);
        let wait = Duration::from_ps(ring.rng.below(MS.as_ps() * 2));
        ring.run_for(wait);
        ring.leave(3);
        ring.run_for(MS);
        assert_in_service(&mut ring, &[0, 1, 2, 4, 5]);
        ring.join(3, 0, configs(2, Budget::jetstream())[1]);
        ring.run_for(MS);
        assert_in_service(&mut ring, &[0, 3, 1, 2, 4, 5]);
        ring.leave(5);
        ring.run_for(MS);
        assert_in_service(&mut ring, &[0, 3, 1, 2, 4]);
        // Before and after each change alike: what a station sent is cut off at most once each.
        let aborted: u64 = ring.stations.iter().map(|s| s.stats().aborted).sum();
        prop_assert!(aborted <= 3);
    }
}

/// A ring of any shape whose budget holds, with any load.
fn random_ring(seed: u64) -> Ring {
    let mut rng = Rng::from_seed(seed);
    let count = rng.in_range(1..=16) as usize;
    let mut budget = Budget {
        ttrt: Duration::from_us(rng.in_range(200..=2_000)),
        rate: Rate::from_mbps(rng.in_range(500..=1_500)),
        ring_latency: Duration::from_ns(rng.in_range(100..=60_000)),
        frame_bytes_max: 0,
    };
    let for_frames = budget.ttrt.saturating_sub(budget.ring_latency) / 100;
    let bytes = budget.rate.bytes_in(for_frames * rng.in_range(5..=90));
    budget.frame_bytes_max = bytes.as_usize().expect("fits").min(FRAME_BYTES_MAX);
    let mut configs = configs(count, budget);
    let mut room = budget.synchronous_room();
    for config in &mut configs {
        config.synchronous = room / 100 * rng.below(60);
        room = room.saturating_sub(config.synchronous);
    }
    let allotments: Vec<Duration> = configs.iter().map(|config| config.synchronous).collect();
    assert_eq!(budget.admit(&allotments), Ok(()));
    let mut ring = Ring::new(&configs, &vec![Duration::ZERO; count], seed);
    for station in 0..count {
        for class in [Class::Synchronous, Class::Asynchronous] {
            let gap = match rng.below(4) {
                0 => continue,
                1 => Some(Duration::from_us(rng.in_range(200..=5_000))),
                _ => None,
            };
            let max =
                rng.in_range(budget.frame_bytes_max as u64 / 8..=budget.frame_bytes_max as u64);
            ring.add_source(Source {
                station,
                class,
                frame_bytes: (max as usize / 2 + 8, max as usize),
                gap,
            });
        }
    }
    ring
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the stations send: no rotation over 2 · TTRT, no k rotations over (k + 1) · TTRT.
    #[test]
    fn the_token_comes_back_in_time(seed: u64) {
        let mut ring = random_ring(seed);
        ring.run_up(MS * 5);
        ring.run_for(Duration::from_ms(15));
        ring.assert_theorem();
        prop_assert!(ring.visits.iter().all(|visits| visits.len() > 6));
        prop_assert!(ring.stations.iter().all(|s| s.stats().tokens_removed == 0));
        prop_assert_eq!(ring.stations[0].stats().tokens_replaced, 0);
    }

    /// A lost token is replaced within 2 · TTRT and the response time, once.
    #[test]
    fn a_lost_token_is_replaced(seed: u64) {
        let mut ring = random_ring(seed);
        ring.run_up(MS * 5);
        let wait = Duration::from_us(ring.rng.below(8_000));
        ring.run_for(wait);
        ring.tokens_to_lose = 1;
        let ttrt = ring.budget().ttrt;
        while ring.stations[0].stats().tokens_replaced == 0 {
            ring.run_for(Duration::from_us(10));
            prop_assert!(ring.now.since_origin() < Duration::from_ms(30));
        }
        let lost = ring.token_lost_at.expect("lost before it is replaced");
        let latest = lost + ttrt * 2 + Config::RESPONSE + Duration::from_us(10);
        prop_assert!(ring.now <= latest, "lost {lost}, replaced {}", ring.now);
        for visits in &mut ring.visits {
            visits.clear();
        }
        ring.run_for(ttrt * 3);
        prop_assert!(ring.visits.iter().all(|visits| !visits.is_empty()));
        prop_assert_eq!(ring.stations[0].stats().tokens_replaced, 1);
        prop_assert!(ring.stations.iter().all(|s| s.stats().tokens_removed == 0));
    }
}

/// The bound on a rotation is not idle: with the sum of allotments a little over TTRT,
/// which admission refuses, tokens do come too late.
#[test]
fn without_admission_the_bound_breaks() {
    let budget = Budget::jetstream();
    let mut configs = configs(8, budget);
    let each = budget.ttrt / 5;
    for config in &mut configs {
        config.synchronous = each;
    }
    assert!(budget.admit(&[each; 8]).is_err());
    let mut ring = Ring::new(&configs, &[Duration::ZERO; 8], 1);
    for station in 0..8 {
        saturate(&mut ring, station, Class::Synchronous, 10_000);
        saturate(&mut ring, station, Class::Asynchronous, FRAME_BYTES_MAX);
    }
    ring.run_up(MS);
    ring.run_for(MS * 20);
    let late_twice: u64 = ring
        .stations
        .iter()
        .map(|s| s.stats().tokens_late_twice)
        .sum();
    assert!(late_twice > 0);
}

fn saturate(ring: &mut Ring, station: usize, class: Class, frame_bytes: usize) {
    ring.add_source(Source {
        station,
        class,
        frame_bytes: (frame_bytes, frame_bytes),
        gap: None,
    });
}

/// All 16 send asynchronous frames of one length for 200 ms. Returns the ring and the longest
/// wait, from the end of one service to the next.
fn loaded(frame_bytes: usize) -> (Ring, Duration) {
    let mut ring = Ring::plain(16, Budget::jetstream());
    for station in 0..16 {
        saturate(&mut ring, station, Class::Asynchronous, frame_bytes);
    }
    ring.run_up(MS);
    ring.run_for(Duration::from_ms(200));
    ring.assert_theorem();
    let wait = |visits: &Vec<Visit>| {
        let served: Vec<&Visit> = serving(visits).collect();
        let pairs = served.windows(2);
        let waits = pairs.map(|pair| pair[1].at - (pair[0].at + pair[0].asynchronous));
        waits.max().expect("service")
    };
    let longest = ring.visits.iter().map(wait).max();
    (ring, longest.expect("stations"))
}

/// «TTRT = mean rotation under heavy load.»
#[test]
fn mean_rotation_is_just_below_ttrt() {
    for frame_bytes in [4_000, FRAME_BYTES_MAX] {
        let (ring, _) = loaded(frame_bytes);
        for visits in &ring.visits {
            let (first, last) = (visits[0].at, visits[visits.len() - 1].at);
            let mean = (last - first) / (visits.len() as u64 - 1);
            assert!(mean <= MS && mean > MS / 10 * 9, "{mean}");
        }
    }
}

/// «Asynchronous access (N − 1) · TTRT, about 15 ms»: so it is where frames are short
/// against TTRT. Then the bound is (N − 1)(kF + D) + 2D, k frames filling what the ring leaves
/// of TTRT. With frames of half a TTRT it does not hold under the rule that TRT runs on after
/// a late token: some station waits four times as long. A plain program of the timer
/// rules alone, written apart from this one, gives the same picosecond.
#[test]
fn asynchronous_access() {
    let budget = Budget::jetstream();
    let (_, wait) = loaded(4_000);
    let (frame, latency) = (budget.time(4_000), budget.ring_latency);
    let k = (MS - latency).as_ps().div_ceil(frame.as_ps());
    let bound = (frame * k + latency) * 15 + latency * 2;
    assert!(wait <= bound, "{wait} {bound}");
    assert!(wait >= MS * 15 && bound < MS * 16);

    let (_, wait) = loaded(FRAME_BYTES_MAX);
    let own = budget.overrun() * 2;
    assert_eq!((wait + own).as_ns(), 56_936_600);
}

fn serving(visits: &[Visit]) -> impl Iterator<Item = &Visit> {
    visits.iter().filter(|visit| !visit.asynchronous.is_zero())
}

/// A station is served its whole allotment at every visit, whatever the others send,
/// and a synchronous frame waits no longer than 2 · TTRT: 2 ms.
#[test]
fn synchronous_service_is_guaranteed() {
    let budget = Budget::jetstream();
    let mut configs = configs(16, budget);
    let frame = budget.time(1_032);
    let each = frame * 3;
    for config in &mut configs[..12] {
        config.synchronous = each;
    }
    let allotments: Vec<Duration> = configs.iter().map(|config| config.synchronous).collect();
    assert_eq!(budget.admit(&allotments), Ok(()));
    let mut ring = Ring::new(&configs, &[Duration::ZERO; 16], 1);
    for station in 0..16 {
        saturate(&mut ring, station, Class::Asynchronous, FRAME_BYTES_MAX);
    }
    for station in 0..11 {
        saturate(&mut ring, station, Class::Synchronous, 1_032);
    }
    ring.run_up(MS);
    // Station 11 has no more than its share: its frames wait for one visit each.
    for _ in 0..40 {
        let wait = Duration::from_ps(ring.rng.below(4 * MS.as_ps()));
        ring.run_for(wait);
        ring.offer(11, Class::Synchronous, to_rid(0));
    }
    ring.run_for(MS * 4);
    ring.assert_theorem();
    let visits = || ring.visits[..11].iter().flatten();
    assert!(visits().count() > 11 * 60);
    let last = ring.now - MS;
    for visit in visits().filter(|visit| visit.at < last) {
        assert_eq!(visit.synchronous, each);
    }
    let own = |fate: &&super::test_ring::Fate| fate.class == Class::Synchronous;
    let singles = ring
        .fates
        .iter()
        .filter(own)
        .filter(|f| f.repr == to_rid(0));
    let waits: Vec<Duration> = singles.map(|f| f.sent.expect("sent") - f.offered).collect();
    assert_eq!(waits.len(), 40);
    assert!(waits.iter().all(|wait| *wait <= MS * 2), "{waits:?}");
}

/// An allotment that its owner leaves unused makes the token early, for asynchronous frames of
/// anybody; and a synchronous queue without an allotment lives on THT.
#[test]
fn unused_shares_are_used() {
    let budget = Budget::jetstream();
    let mut configs = configs(4, budget);
    configs[1].synchronous = budget.synchronous_room();
    let mut ring = Ring::new(&configs, &[Duration::ZERO; 4], 1);
    saturate(&mut ring, 2, Class::Asynchronous, 5_000);
    saturate(&mut ring, 3, Class::Synchronous, 5_000);
    ring.run_up(MS);
    ring.run_for(MS * 50);
    ring.assert_theorem();
    let sent = |station: usize| {
        let visits = ring.visits[station].iter();
        visits.map(|visit| visit.asynchronous).sum::<Duration>()
    };
    assert!(sent(2) > MS * 15 && sent(3) > MS * 15);
    assert!(sent(2) + sent(3) > MS * 45, "nearly all of the time");
    assert_eq!(ring.stations[3].stats().sent_synchronous, 0);
}

/// From each node to each other: copied once, by the right one, and removed where it began.
#[test]
fn frames_reach_their_node_and_end_at_their_source() {
    let count = 5;
    let mut ring = Ring::plain(count, Budget::jetstream());
    ring.run_up(MS);
    for from in 0..count {
        for to in 0..count {
            let copied = ring.stations[to].stats().copied;
            let id = ring.offer(from, Class::Asynchronous, to_rid(to as u8));
            ring.run_for(MS);
            let fate = ring.fates[id];
            assert_eq!((fate.copies, fate.hops, fate.removed), (1, count, true));
            assert_eq!(ring.stations[to].stats().copied, copied + 1);
            assert_eq!(ring.stations[from].stats().stripped_by_monitor, 0);
        }
    }
}

#[test]
fn a_vc_is_received_where_it_is_active() {
    let mut ring = Ring::plain(4, Budget::jetstream());
    let vc = Vc { vpi: 0, vci: 2_100 };
    for station in [1, 3] {
        assert!(ring.stations[station].active_vcs().insert(vc));
    }
    ring.run_up(MS);
    for (vc, copies) in [
        (vc, 2),
        (Vc { vci: 2_101, ..vc }, 0),
        (Vc { vpi: 1, ..vc }, 0),
    ] {
        let id = ring.offer(2, Class::Asynchronous, FrameRepr::on_vc(0, vc, 480));
        ring.run_for(MS);
        assert_eq!((ring.fates[id].copies, ring.fates[id].hops), (copies, 4));
    }
}

/// Whatever SRC_RID turns into, on any ring: gone within two rotations, and copied twice at
/// the most.
#[test]
fn a_frame_with_a_wrong_source_ends_within_two_rotations() {
    for count in [1, 2, 5, 16] {
        let mut ring = Ring::plain(count, Budget::jetstream());
        ring.run_up(MS);
        let mut longest = 0;
        for from in 0..count {
            for wrong in 0..=RID_MAX {
                ring.corrupt_src = Some(wrong);
                let id = ring.offer(from, Class::Asynchronous, to_rid(0));
                ring.run_for(Duration::from_us(200));
                let fate = ring.fates[id];
                assert!(fate.removed && fate.hops <= 2 * count && fate.copies <= 2);
                longest = longest.max(fate.hops);
            }
        }
        let numbers_unused = count <= usize::from(RID_MAX);
        assert_eq!(longest == 2 * count, numbers_unused, "{count}: {longest}");
        assert_eq!(
            ring.stations[0].stats().stripped_by_monitor > 0,
            numbers_unused
        );
    }
}

/// One device and the port: both send all the time, nothing is passed on, no token.
#[test]
fn a_full_duplex_link_needs_no_token() {
    let mut configs = configs(2, Budget::jetstream());
    for config in &mut configs {
        config.full_duplex = true;
    }
    let mut ring = Ring::new(&configs, &[Duration::ZERO, Duration::from_us(40)], 1);
    ring.run_up(MS);
    assert_eq!(ring.stations[1].rid(), Some(1));
    let start = [0, 1].map(|station| ring.stations[station].stats().sent_asynchronous);
    assert_eq!(start, [0, 0]);
    saturate(&mut ring, 0, Class::Asynchronous, 9_600);
    saturate(&mut ring, 1, Class::Synchronous, 9_600);
    ring.run_for(MS * 8);
    // 80 µs a frame, in both directions at once.
    for station in [0, 1] {
        let stats = ring.stations[station].stats();
        assert_eq!((stats.sent_asynchronous, stats.tokens), (101, 0));
    }
    assert!(ring.fates.iter().all(|fate| fate.hops <= 1));
    // Station 1 is addressed, station 0 is not: it takes the frames off all the same.
    assert_eq!(ring.stations[1].stats().copied, 101 - 1);
    assert_eq!(ring.stations[0].stats().removed, 101 - 1);
}

#[test]
fn full_duplex_refuses_a_second_host() {
    let mut configs = configs(3, Budget::jetstream());
    for config in &mut configs {
        config.full_duplex = true;
    }
    let mut ring = Ring::new(&configs, &[Duration::ZERO; 3], 1);
    ring.run_for(MS * 2);
    assert!(!ring.is_up() && ring.stations[0].stats().rings_too_large > 0);
}

/// A token too many is removed by the first station that holds one.
#[test]
fn a_second_token_goes_when_it_meets_a_holder() {
    let mut ring = Ring::plain(4, Budget::jetstream());
    saturate(&mut ring, 2, Class::Asynchronous, 20_000);
    ring.run_up(MS);
    ring.run_for(MS);
    assert_eq!(ring.stations[2].state(), State::Holding);
    let verdict = ring.stations[2].handle_frame(ring.now, FrameRepr::token(0));
    assert_eq!(
        verdict,
        Verdict {
            copy: false,
            forward: None
        }
    );
    assert_eq!(ring.stations[2].stats().tokens_removed, 1);
    ring.run_for(MS * 5);
    ring.assert_theorem();
}

/// At the end of time every timer is due; a master must not replace tokens for ever.
#[test]
fn the_end_of_time_comes_to_rest() {
    let end = Instant::MAX;
    let mut master = Station::new(Config::jetstream(Role::Master), Instant::ORIGIN).expect("good");
    master.handle_fill(end, Fill::Fw0);
    master.handle_fill(end, Fill::Fw1);
    let _ = master.handle_frame(end, FrameRepr::ring_up(1));
    assert_eq!(master.state(), State::Waiting);
    for _ in 0..4 {
        master.handle_timer(end);
    }
    assert_eq!(master.next_deadline(), None);
    assert_eq!(master.stats().tokens_replaced, 0);
}

#[test]
fn configurations_and_offers_are_checked() {
    let mut config = Config::jetstream(Role::Host);
    config.synchronous = MS;
    let error = Station::new(config, Instant::ORIGIN).expect_err("no room");
    assert!(matches!(error, ConfigError::Budget(Refused { .. })));
    config.synchronous = Duration::ZERO;
    config.link_timeout = Duration::from_us(21);
    let error = Station::new(config, Instant::ORIGIN).expect_err("always too late");
    assert!(matches!(error, ConfigError::Timeout { .. }));
    config.link_timeout = Duration::from_us(22);
    config.queue_frames_max = 1;
    let mut station = Station::new(config, Instant::ORIGIN).expect("good");
    let mut offer = Offer {
        id: 1,
        class: Class::Asynchronous,
        frame_bytes: FRAME_BYTES_MAX + 1,
    };
    let error = station.offer(Instant::ORIGIN, offer).expect_err("too long");
    assert!(matches!(
        error,
        OfferError::Length {
            bytes_max: FRAME_BYTES_MAX,
            ..
        }
    ));
    offer.frame_bytes = 56;
    assert_eq!(station.offer(Instant::ORIGIN, offer), Ok(()));
    let full = OfferError::QueueFull { frames: 1 };
    assert_eq!(station.offer(Instant::ORIGIN, offer), Err(full));
    offer.class = Class::Synchronous;
    assert_eq!(station.offer(Instant::ORIGIN, offer), Ok(()));
    assert_eq!(station.waiting(), 2);
}

/// One input of a station, from three random numbers.
fn disturb(station: &mut Station, now: Instant, (what, a, b): (u8, u8, u16)) {
    let mut repr = match a % 4 {
        0 => FrameRepr::token(a >> 4),
        1 => FrameRepr::ring_up(b as u8),
        2 => to_rid(b as u8 & 15),
        _ => FrameRepr::on_vc(a >> 4, Vc { vpi: 0, vci: b }, usize::from(b)),
    };
    repr.header.monitor = b & 0x100 != 0;
    match what % 8 {
        0 => station.handle_fill(now, Fill::Fw0),
        1 => station.handle_fill(now, Fill::Fw1),
        2 if a == 0 => station.handle_link_lost(now),
        2 | 3 => station.handle_timer(now),
        4 => {
            let class = if a & 1 == 0 {
                Class::Synchronous
            } else {
                Class::Asynchronous
            };
            let frame_bytes = usize::from(b);
            let _ = station.offer(
                now,
                Offer {
                    id: 0,
                    class,
                    frame_bytes,
                },
            );
        }
        _ => {
            let data = matches!(repr.kind, Kind::Data { .. });
            let verdict = station.handle_frame(now, repr);
            assert!(data || !verdict.copy);
        }
    }
}

proptest! {
    /// Any inputs in any order at any time, time running backwards included.
    #[test]
    fn nothing_confuses_a_station(
        master: bool,
        full_duplex: bool,
        inputs in prop::collection::vec((any::<(u8, u8, u16)>(), any::<u32>(), 0..64_u32), 0..200),
    ) {
        let role = if master { Role::Master } else { Role::Host };
        let mut config = Config { full_duplex, ..Config::jetstream(role) };
        config.synchronous = Duration::from_us(100);
        config.queue_frames_max = 4;
        let mut station = Station::new(config, Instant::ORIGIN).expect("config");
        let mut now = Instant::ORIGIN;
        for (input, step, shift) in inputs {
            now = now.saturating_add(Duration::from_ps(u64::from(step) << shift));
            let at = if shift & 1 == 0 { now } else { Instant::from_ps(u64::from(step)) };
            disturb(&mut station, at, input);
            while station.poll_action().is_some() {}
            let sending = matches!(station.state(), State::Holding);
            prop_assert!(!sending || station.next_deadline().is_some());
            prop_assert!(station.rid().is_none() || station.state() != State::Fw0);
            prop_assert!(station.waiting() <= 8);
        }
    }
}
