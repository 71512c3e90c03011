//! Two ends joined by a modelled path, in virtual time.

use barewire_tcp::path::{Path, PathConfig};
use barewire_tcp::{Checked, Config, Endpoint, Outgoing, Tcp};
use barewire_units::{Duration, Instant, Rng};

/// Two ends and the path between them.
pub struct Pair<A, B> {
    pub now: Instant,
    pub a: A,
    pub b: B,
    pub to_b: Path,
    pub to_a: Path,
    packet: Vec<u8>,
}

impl<A: Endpoint, B: Endpoint> Pair<A, B> {
    pub fn new(a: A, b: B, to_b: PathConfig, to_a: PathConfig, seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        Self {
            now: Instant::ORIGIN,
            a,
            b,
            to_b: Path::new(to_b, rng.fork("to b")),
            to_a: Path::new(to_a, rng.fork("to a")),
            packet: vec![0; 65_535],
        }
    }

    /// Sends all packets that are ready, and hands over all that have arrived.
    pub fn settle(&mut self) {
        loop {
            let mut is_idle = true;
            while let Some(sent) = self.a.poll_packet(&mut self.packet, self.now) {
                self.to_b.send(&self.packet[..sent.bytes], self.now);
                is_idle = false;
            }
            while let Some(sent) = self.b.poll_packet(&mut self.packet, self.now) {
                self.to_a.send(&self.packet[..sent.bytes], self.now);
                is_idle = false;
            }
            if let Some(mut packet) = self.to_b.receive(self.now) {
                self.b.handle_packet(&mut packet, Checked::No, self.now);
                is_idle = false;
            }
            if let Some(mut packet) = self.to_a.receive(self.now) {
                self.a.handle_packet(&mut packet, Checked::No, self.now);
                is_idle = false;
            }
            if is_idle {
                return;
            }
        }
    }

    /// Goes on to the next moment at which something happens; false where nothing ever will.
    pub fn advance(&mut self) -> bool {
        let next = [
            self.to_a.next_arrival(),
            self.to_b.next_arrival(),
            self.a.next_deadline(),
            self.b.next_deadline(),
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        // A deadline that has passed and did nothing must not stop the clock.
        self.now = next.max(self.now.saturating_add(Duration::from_ns(1)));
        true
    }
}

/// An end that accepts the first connection.
pub enum Server {
    Waiting(Config),
    Open(Box<Tcp>),
}

impl Server {
    /// The connection, once it was accepted.
    pub fn tcp(&mut self) -> Option<&mut Tcp> {
        match self {
            Self::Waiting(_) => None,
            Self::Open(tcp) => Some(tcp),
        }
    }
}

impl Endpoint for Server {
    fn handle_packet(&mut self, packet: &mut [u8], checked: Checked, now: Instant) {
        match self {
            Self::Waiting(config) => {
                if let Ok(tcp) = Tcp::accept(config, packet, checked, now) {
                    *self = Self::Open(Box::new(tcp));
                }
            }
            Self::Open(tcp) => tcp.handle_packet(packet, checked, now),
        }
    }

    fn poll_packet(&mut self, out: &mut [u8], now: Instant) -> Option<Outgoing> {
        self.tcp()?.poll_packet(out, now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Waiting(_) => None,
            Self::Open(tcp) => tcp.next_deadline(),
        }
    }
}
