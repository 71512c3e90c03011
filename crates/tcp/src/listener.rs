//! A listener: each SYN makes a connection of its own, and at most as many as the backlog allows
//! wait to be accepted.
//!
//! It serves whoever has all packets of a port in one place, as the laboratory and the tests do. At
//! a bridge each connection has a queue of its own, and [`Tcp::accept`] is enough.

use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::packet::{Checked, Outgoing, parse_tcp};
use crate::tcp::{State, Tcp};
use alloc::collections::VecDeque;
use barewire_units::{Instant, Rng};
use core::net::SocketAddr;
use smoltcp::wire::TcpControl;

/// A listener and the connections that wait to be accepted.
#[derive(Debug)]
pub struct Listener {
    config: Config,
    backlog: usize,
    seeds: Rng,
    waiting: VecDeque<Tcp>,
    refused: u64,
}

impl Listener {
    /// Listens at [`Config::local`], with the settings of `config` for each connection; its remote
    /// address is not looked at.
    ///
    /// # Errors
    ///
    /// What [`Config::check`] finds, or [`Error::BadSetting`] for a backlog of zero.
    pub fn new(config: &Config, backlog: usize) -> Result<Self, Error> {
        let config = Config {
            remote: config.local,
            ..*config
        };
        config.check()?;
        if backlog == 0 {
            return Err(Error::BadSetting(
                "the backlog must allow at least one connection",
            ));
        }
        Ok(Self {
            config,
            backlog,
            seeds: Rng::from_seed(config.seed),
            waiting: VecDeque::new(),
            refused: 0,
        })
    }

    /// A connection that is open. The caller hands the packets of its other end to it from now on.
    pub fn accept(&mut self) -> Option<Tcp> {
        let at = self
            .waiting
            .iter()
            .position(|tcp| tcp.state() != State::Opening)?;
        self.waiting.remove(at)
    }

    /// How many connections wait, open or not.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many SYNs were dropped since too many connections waited.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn find(&mut self, remote: SocketAddr) -> Option<&mut Tcp> {
        self.waiting
            .iter_mut()
            .find(|tcp| tcp.config().remote == remote)
    }
}

impl Endpoint for Listener {
    fn handle_packet(&mut self, packet: &mut [u8], checked: Checked, now: Instant) {
        let Some(segment) = parse_tcp(packet, checked) else {
            return;
        };
        if segment.to != self.config.local {
            return;
        }
        if let Some(tcp) = self.find(segment.from) {
            tcp.handle_packet(packet, Checked::Yes, now);
            return;
        }
        if segment.control != TcpControl::Syn || segment.ack.is_some() {
            return;
        }
        if self.waiting.len() >= self.backlog {
            // The other end sends it again, and there may be room then.
            self.refused += 1;
            return;
        }
        let config = Config {
            seed: self.seeds.next_u64(),
            ..self.config
        };
        if let Ok(tcp) = Tcp::accept(&config, packet, Checked::Yes, now) {
            self.waiting.push_back(tcp);
        }
    }

    fn poll_packet(&mut self, out: &mut [u8], now: Instant) -> Option<Outgoing> {
        let packet = self
            .waiting
            .iter_mut()
            .find_map(|tcp| tcp.poll_packet(out, now));
        if packet.is_none() {
            let is_alive = |tcp: &Tcp| tcp.state() != State::Closed || tcp.readable_bytes() > 0;
            self.waiting.retain(is_alive);
        }
        packet
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.waiting
            .iter()
            .filter_map(Endpoint::next_deadline)
            .min()
    }
}
