//! Two ends over a path that loses, doubles and reorders packets: what was sent arrives, once and in
//! order, and the connection ends cleanly. A failure prints the seed.

mod pair;

use barewire_tcp::path::PathConfig;
use barewire_tcp::{Config, State, Tcp};
use barewire_units::{Duration, Instant, Rate, Rng};
use core::net::SocketAddr;
use pair::{Pair, Server};

/// What one end sends, and what it has received of the other's.
struct Side {
    sent: usize,
    total: usize,
    received: usize,
    expected: usize,
    has_shut_down: bool,
}

/// The byte at a place of a stream: no two stretches of some length look the same.
fn byte_at(place: usize) -> u8 {
    ((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Side {
    fn new(total: usize, expected: usize) -> Self {
        Self {
            sent: 0,
            total,
            received: 0,
            expected,
            has_shut_down: false,
        }
    }

    /// Writes and reads what there is; true while something moves.
    fn step(&mut self, tcp: &mut Tcp, rng: &mut Rng) -> bool {
        let mut moved = false;
        if tcp.state() == State::Open && self.sent < self.total {
            let count = (self.total - self.sent).min(1 + rng.index(20_000));
            let bytes: Vec<u8> = (self.sent..self.sent + count).map(byte_at).collect();
            let taken = tcp.send(&bytes).expect("the connection is open");
            self.sent += taken;
            moved |= taken > 0;
        }
        if self.sent == self.total && !self.has_shut_down && tcp.state() == State::Open {
            tcp.shutdown();
            self.has_shut_down = true;
            moved = true;
        }
        let mut buffer = [0; 8192];
        let room = 1 + rng.index(buffer.len());
        let count = tcp.receive(&mut buffer[..room]).unwrap_or(0);
        for (i, &byte) in buffer[..count].iter().enumerate() {
            assert_eq!(
                byte,
                byte_at(self.received + i),
                "place {}",
                self.received + i
            );
        }
        self.received += count;
        assert!(self.received <= self.expected, "more than was sent");
        moved | (count > 0)
    }
}

struct Run {
    seed: u64,
    path: PathConfig,
    back: PathConfig,
    bytes: [usize; 2],
    buffers: [usize; 2],
    v6: bool,
}

impl Run {
    fn new(seed: u64, path: PathConfig) -> Self {
        Self {
            seed,
            path,
            back: path,
            bytes: [300_000, 100_000],
            buffers: [1 << 18, 1 << 18],
            v6: false,
        }
    }

    fn addresses(&self) -> (SocketAddr, SocketAddr) {
        let (here, there) = if self.v6 {
            ("[2001:db8::1]:40000", "[2001:db8::2]:80")
        } else {
            ("192.0.2.1:40000", "192.0.2.2:80")
        };
        (
            here.parse().expect("an address"),
            there.parse().expect("an address"),
        )
    }

    /// Sends both ways until both ends have all and have closed; gives the time it took.
    fn go(&self) -> (Duration, Tcp) {
        println!("seed {}", self.seed);
        let (here, there) = self.addresses();
        let mut rng = Rng::from_seed(self.seed).fork("programs");
        let config = |local, remote, seed| {
            let mut config = Config::new(local, remote, seed);
            [config.send_buffer_bytes, config.receive_buffer_bytes] = self.buffers;
            // With one end that has them, and with none, too.
            config.timestamps = seed % 4 != 0;
            config
        };
        let now = Instant::ORIGIN;
        let a = Tcp::connect(&config(here, there, rng.next_u64()), now).expect("it can connect");
        let b = Server::Waiting(config(there, here, rng.next_u64()));
        let mut pair = Pair::new(a, b, self.path, self.back, self.seed);
        let [from_a, from_b] = self.bytes;
        let mut sides = (Side::new(from_a, from_b), Side::new(from_b, from_a));
        let end = Instant::ORIGIN.saturating_add(Duration::from_s(600));
        loop {
            pair.settle();
            let mut moved = sides.0.step(&mut pair.a, &mut rng);
            if let Some(tcp) = pair.b.tcp() {
                moved |= sides.1.step(tcp, &mut rng);
                let both_closed = pair.a.state() == State::Closed && tcp.state() == State::Closed;
                let both_done = is_done(&pair.a) && pair.b.tcp().is_some_and(|tcp| is_done(tcp));
                if both_closed || both_done {
                    break;
                }
            }
            if !moved {
                assert!(pair.advance(), "nothing happens any more");
            }
            assert!(
                pair.now < end,
                "too slow: {} and {} received, {:?}",
                sides.0.received,
                sides.1.received,
                pair.a
            );
        }
        assert_eq!(sides.0.received, from_b);
        assert_eq!(sides.1.received, from_a);
        assert_eq!(pair.a.error(), None);
        assert_eq!(pair.b.tcp().and_then(|tcp| tcp.error()), None);
        (pair.now.since_origin(), pair.a)
    }
}

/// Whether an end knows that both streams have ended and were received.
fn is_done(tcp: &Tcp) -> bool {
    matches!(tcp.state(), State::TimeWait | State::Closed) && tcp.has_ended()
}

fn path(mbit: u64, delay: Duration) -> PathConfig {
    PathConfig::new(Rate::new(mbit * 1_000_000), delay)
}

#[test]
fn a_stream_goes_both_ways_and_ends() {
    let (took, tcp) = Run::new(1, path(100, Duration::from_us(100))).go();
    assert!(took < Duration::from_ms(60), "{took}");
    assert_eq!(tcp.counts().packets_again, 0);
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order() {
    for seed in 0..30 {
        let mut rng = Rng::from_seed(seed).fork("path");
        let mut path = path(10 + rng.below(1000), Duration::from_us(rng.below(20_000)));
        path.lost = rng.below(100_000);
        path.doubled = rng.below(50_000);
        path.late = rng.below(200_000);
        path.late_by = Duration::from_us(1 + rng.below(30_000));
        path.queue_bytes = 3000 + rng.index(200_000);
        let mut run = Run::new(seed, path);
        run.buffers = [4096 + rng.index(300_000), 4096 + rng.index(300_000)];
        run.v6 = rng.ratio(1, 2);
        run.bytes = [rng.index(400_000), rng.index(200_000)];
        run.go();
    }
}
