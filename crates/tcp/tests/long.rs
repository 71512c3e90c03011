//! Connections that live for years: past the wraps of timestamps, silences in which the other end's clock
//! goes half around, and what an instant can say.

use barewire_tcp::{Checked, Config, Endpoint, State, Tcp};
use barewire_units::{Duration, Instant, Rng};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// True time, in picoseconds: it goes further than an [`Instant`].
type Time = u128;

const MS: Time = 1_000_000_000;
const S: Time = 1000 * MS;
const DAY: Time = 86_400 * S;

/// How long each packet is under way.
const DELAY: Time = 10 * MS;

/// One end, whose time counts from an origin of its own.
struct End {
    tcp: Tcp,
    origin: Time,
    /// What it sends, in order.
    log: Vec<(Time, Vec<u8>)>,
    received: u64,
}

impl End {
    fn now(&self, at: Time) -> Instant {
        Instant::from_ps(u64::try_from(at - self.origin).expect("an instant goes that far"))
    }

    fn rebase(&mut self, by: Duration) {
        self.tcp.rebase(by);
        self.origin += Time::from(by.as_ps());
    }

    fn deadline(&self) -> Option<Time> {
        let deadline = self.tcp.next_deadline()?;
        Some(self.origin + Time::from(deadline.since_origin().as_ps()))
    }
}

/// Two ends, and packets under way to each.
struct World {
    at: Time,
    ends: [End; 2],
    under_way: [VecDeque<(Time, Vec<u8>)>; 2],
    chance: Rng,
    /// Of a hundred packets, so many are lost.
    lost: u64,
    /// When the time of an end counts from a later origin: at so much, by so much; or by chance.
    rebases: Rebases,
}

enum Rebases {
    Never,
    At(Duration, Duration),
    ByChance(Rng),
}

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 2], 80);

fn config(seed: u64) -> Config {
    let local = SocketAddr::from(([192, 0, 2, 1], 40_000));
    let mut config = Config::new(local, SERVER.into(), seed);
    config.send_buffer_bytes = 1 << 16;
    config.receive_buffer_bytes = 1 << 16;
    config
}

impl World {
    /// An open connection that begins at `at`, with origins at zero.
    fn open(at: Time, seed: u64, set: impl Fn(&mut Config)) -> Self {
        let mut client = config(seed);
        set(&mut client);
        let server = Config {
            local: client.remote,
            remote: client.local,
            seed: seed + 1,
            ..client
        };
        let now = Instant::from_ps(at as u64);
        let mut tcp = Tcp::connect(&client, now).expect("it can connect");
        let mut syn = vec![0; 1500];
        let len = tcp.poll_packet(&mut syn, now).expect("a SYN").bytes;
        let accepted = Tcp::accept(&server, &syn[..len], Checked::No, now).expect("a SYN");
        let ends = [tcp, accepted].map(|tcp| End {
            tcp,
            origin: 0,
            log: Vec::new(),
            received: 0,
        });
        let mut world = Self {
            at,
            ends,
            under_way: [VecDeque::new(), VecDeque::new()],
            chance: Rng::from_seed(seed),
            lost: 0,
            rebases: Rebases::Never,
        };
        world.run_until(at + S);
        assert!(world.are_open());
        world
    }

    fn are_open(&self) -> bool {
        self.ends.iter().all(|end| end.tcp.state() == State::Open)
    }

    fn settle(&mut self) {
        let mut packet = vec![0; 1500];
        for (number, end) in self.ends.iter_mut().enumerate() {
            match &mut self.rebases {
                Rebases::At(after, by) => {
                    while self.at - end.origin >= Time::from(after.as_ps()) {
                        end.rebase(*by);
                    }
                }
                Rebases::ByChance(rng) => {
                    if rng.ratio(1, 4) && self.at - end.origin > 50 * DAY {
                        end.rebase(Duration::from_ms(1 + rng.below(500_000_000)));
                    }
                }
                Rebases::Never => {}
            }
            let (own, other) = (number, 1 - number);
            while self.under_way[own]
                .front()
                .is_some_and(|(at, _)| *at <= self.at)
            {
                let (_, mut arrived) = self.under_way[own].pop_front().expect("it was there");
                let now = end.now(self.at);
                end.tcp.handle_packet(&mut arrived, Checked::No, now);
            }
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = end.tcp.receive(&mut buffer) {
                end.received += count as u64;
            }
            while let Some(sent) = end.tcp.poll_packet(&mut packet, end.now(self.at)) {
                let sent = packet[..sent.bytes].to_vec();
                end.log.push((self.at, sent.clone()));
                if !self.chance.ratio(self.lost, 100) {
                    self.under_way[other].push_back((self.at + DELAY, sent));
                }
            }
        }
    }

    /// Goes on to a time, and does all that is to be done until then.
    fn run_until(&mut self, until: Time) {
        loop {
            self.settle();
            let arrivals = self.under_way.iter().filter_map(|way| Some(way.front()?.0));
            let deadlines = self.ends.iter().filter_map(End::deadline);
            // A deadline that has passed and did nothing must not stop the clock.
            let next = arrivals
                .chain(deadlines)
                .min()
                .map(|at| at.max(self.at + 1));
            match next {
                Some(next) if next <= until => self.at = next,
                _ => break,
            }
        }
        self.at = until;
        self.settle();
    }

    /// Each end sends so many bytes, which arrive within `longest`.
    fn exchange(&mut self, bytes: usize, longest: Time) {
        let before = self.ends.each_ref().map(|end| end.received);
        for end in &mut self.ends {
            assert_eq!(
                end.tcp.send(&vec![7; bytes]),
                Ok(bytes),
                "{:?}",
                end.tcp.state()
            );
        }
        self.run_until(self.at + longest);
        for (end, before) in self.ends.iter().zip(before) {
            assert_eq!(end.received - before, bytes as u64, "at {} s", self.at / S);
            assert_eq!(end.tcp.unacknowledged_bytes(), 0);
        }
    }

    fn end(&mut self) {
        for end in &mut self.ends {
            end.tcp.close();
        }
        self.run_until(self.at + 100 * S);
        for end in &self.ends {
            assert_eq!((end.tcp.state(), end.tcp.error()), (State::Closed, None));
        }
    }
}

/// Rebased as a program does whose clock is the system's.
const LIKE_EDGE: Rebases = Rebases::At(
    Duration::from_s(150 * 86_400),
    Duration::from_s(100 * 86_400),
);

#[test]
fn bytes_go_on_past_each_wrap() {
    // The clock that is sent has 32 bits of milliseconds, from a number of the seed; half of that is as far as two
    // values can be compared. An instant ends after 2^64 ps, 213.5 days.
    for seed in 1..=3 {
        let mut world = World::open(0, seed, |_| {});
        world.rebases = LIKE_EDGE;
        world.lost = 5;
        // Every four hours for two years: past fourteen wraps of each clock.
        for _ in 0..2 * 365 * 6 {
            world.run_until(world.at + DAY / 6);
            world.exchange(3000, 120 * S);
        }
        assert!(world.are_open());
        world.lost = 0;
        world.end();
    }
}

#[test]
fn a_stream_does_not_notice_a_wrap() {
    let half: Time = (1 << 31) * MS;
    let instant: Time = 150 * DAY;
    for seed in 1..=4 {
        for wrap in [half, 2 * half, 3 * half, instant] {
            // What this clock says goes around somewhere else for each seed: a stream over all of the seconds around it.
            let mut world = World::open(wrap - 3 * S, seed, |_| {});
            world.rebases = LIKE_EDGE;
            world.lost = 2;
            for _ in 0..60 {
                world.exchange(20_000, S / 2);
            }
        }
    }
}

#[test]
fn a_silence_of_any_length_ends() {
    // Around half of the clock, where what came last must not count any more (RFC 7323, 5.5), around all of it, and
    // beyond what an instant can say.
    let hours = [
        23 * 24,
        24 * 24,
        24 * 24 + 1,
        596,
        597,
        25 * 24,
        900,
        1193,
        1194,
        1789,
        1790,
        4000,
        5124,
        5200,
        9000,
        30_000,
    ];
    for seed in 1..=3 {
        let mut world = World::open(0, seed, |_| {});
        world.rebases = LIKE_EDGE;
        for hours in hours {
            world.at += hours * 3600 * S;
            world.exchange(3000, S);
        }
        // One end alone has something to say after each.
        for hours in hours {
            world.at += hours * 3600 * S;
            let before = world.ends[1].received;
            assert_eq!(world.ends[0].tcp.send(&[7; 100]), Ok(100));
            world.run_until(world.at + S);
            assert_eq!(world.ends[1].received - before, 100, "{hours} h");
        }
        world.end();
    }
}

#[test]
fn what_is_from_before_a_silence_is_not_taken_for_new() {
    // A copy of a segment that the network has kept: while the clock can tell, it does not count.
    let mut world = World::open(149 * DAY, 1, |_| {});
    world.exchange(3000, S);
    let old = world.ends[0].log.last().expect("it has sent").1.clone();
    world.exchange(3000, S);
    world.at += 20 * DAY;
    world.rebases = LIKE_EDGE;
    world.settle();
    assert_eq!(world.ends[1].origin, 100 * DAY);
    let refused = world.ends[1].log.len();
    world.under_way[1].push_back((world.at, old));
    world.run_until(world.at + S);
    assert_eq!(world.ends[1].received, 6000);
    // It is answered with where this end stands.
    assert_eq!(world.ends[1].log.len(), refused + 1);
    world.exchange(3000, S);
}

#[test]
fn questions_find_a_living_end_for_years_and_a_dead_one_then() {
    let idle = Duration::from_s(7200);
    let mut world = World::open(0, 5, |config| config.keep_alive = Some(idle));
    world.rebases = LIKE_EDGE;
    world.run_until(600 * DAY);
    assert!(world.are_open());
    let asked = world.ends[0].log.len();
    assert!((7000..9000).contains(&asked), "{asked} packets");
    world.lost = 100;
    world.run_until(601 * DAY);
    for end in &world.ends {
        assert_eq!(end.tcp.error(), Some(barewire_tcp::Error::TimedOut));
    }
}

/// What two ends send when they exchange bytes, are silent and end, over a path with losses.
fn told(rebases: Rebases, seed: u64) -> (World, Time) {
    // Long enough after the origin for the times of later origins.
    let from = 100 * DAY;
    let mut world = World::open(from, seed, |config| config.nagle = seed % 2 == 0);
    world.rebases = rebases;
    world.lost = 10;
    for round in 1..20 {
        for end in &mut world.ends {
            end.tcp.send(&vec![7; 500 * round]).expect("it is open");
        }
        world.run_until(world.at + Time::from(round as u64 % 5) * 7 * S / 3 + 50 * MS);
    }
    world.run_until(world.at + 20 * S);
    for end in &mut world.ends {
        end.tcp.close();
    }
    world.run_until(world.at + 200 * S);
    (world, from)
}

#[test]
fn a_later_origin_changes_nothing_that_is_sent() {
    for seed in 0..40 {
        let (plain, from) = told(Rebases::Never, seed);
        let (rebased, _) = told(Rebases::ByChance(Rng::from_seed(seed)), seed);
        for (plain, rebased) in plain.ends.iter().zip(&rebased.ends) {
            assert_eq!(plain.origin, 0);
            assert!(rebased.origin > DAY, "seed {seed}: it was not rebased");
            assert!(rebased.origin < from);
            assert!(plain.log.len() > 40);
            assert!(plain.log == rebased.log, "seed {seed}: other packets");
            assert_eq!(plain.received, rebased.received);
            assert_eq!(plain.tcp.counts(), rebased.tcp.counts());
            assert_eq!(rebased.tcp.state(), State::Closed);
        }
    }
}
