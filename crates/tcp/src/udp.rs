//! A UDP socket: datagrams in packets of their own, without fragments.

use crate::config::{Offload, check_addresses};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::packet::{Checked, Outgoing, parse_udp, write_udp};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use barewire_units::Instant;
use core::net::SocketAddr;

/// What a datagram costs beside its bytes, where memory is bounded.
const DATAGRAM_BYTES: usize = 64;

/// Settings of a UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpConfig {
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Whose datagrams alone are taken; `None`: everybody's.
    pub remote: Option<SocketAddr>,
    /// The longest IP packet, in bytes.
    pub mtu: usize,
    /// Bytes that wait to be sent, and those that wait to be read, at most.
    pub buffer_bytes: usize,
    /// What the carrier of the packets does.
    pub offload: Offload,
}

/// Datagrams with the address at their other end.
#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    bytes: usize,
}

impl Queue {
    /// Takes a datagram if there is room; an empty queue has room for any.
    fn push(&mut self, address: SocketAddr, payload: &[u8], bytes_max: usize) -> bool {
        let bytes = payload.len() + DATAGRAM_BYTES;
        if self.bytes + bytes > bytes_max && !self.datagrams.is_empty() {
            return false;
        }
        self.bytes += bytes;
        self.datagrams.push_back((address, payload.to_vec()));
        true
    }

    fn pop(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        let datagram = self.datagrams.pop_front()?;
        self.bytes -= datagram.1.len() + DATAGRAM_BYTES;
        Some(datagram)
    }
}

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    config: UdpConfig,
    received: Queue,
    to_send: Queue,
    dropped: u64,
}

impl Udp {
    /// A socket at [`UdpConfig::local`].
    ///
    /// # Errors
    ///
    /// [`Error::BadAddress`] or [`Error::BadSetting`].
    pub fn new(config: &UdpConfig) -> Result<Self, Error> {
        check_addresses(config.local, config.remote.unwrap_or(config.local))?;
        if !(crate::config::MTU_MIN..=crate::config::MTU_MAX).contains(&config.mtu) {
            return Err(Error::BadSetting(
                "the packet size must lie between 576 and 65535 bytes",
            ));
        }
        Ok(Self {
            config: *config,
            received: Queue::default(),
            to_send: Queue::default(),
            dropped: 0,
        })
    }

    /// The longest datagram that fits in a packet, in bytes.
    #[must_use]
    pub fn datagram_bytes_max(&self) -> usize {
        let headers = if self.config.local.is_ipv6() { 48 } else { 28 };
        self.config.mtu - headers
    }

    /// Sends a datagram; says whether there was room to queue it.
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`], or [`Error::BadAddress`] where `to` cannot be reached from here.
    pub fn send_to(&mut self, payload: &[u8], to: SocketAddr) -> Result<bool, Error> {
        let bytes_max = self.datagram_bytes_max();
        if payload.len() > bytes_max {
            return Err(Error::TooLong {
                bytes: payload.len(),
                bytes_max,
            });
        }
        check_addresses(self.config.local, to)?;
        if self.config.remote.is_some_and(|remote| remote != to) {
            return Err(Error::BadAddress(
                "the socket is connected to another address",
            ));
        }
        Ok(self.to_send.push(to, payload, self.config.buffer_bytes))
    }

    /// The next datagram, and where it came from.
    pub fn receive(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.received.pop()
    }

    /// How many datagrams can be read.
    #[must_use]
    pub fn readable(&self) -> usize {
        self.received.datagrams.len()
    }

    /// How many datagrams came and were dropped, since too many waited to be read.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Endpoint for Udp {
    fn handle_packet(&mut self, packet: &mut [u8], checked: Checked, _: Instant) {
        let Some(datagram) = parse_udp(packet, checked) else {
            return;
        };
        let is_ours = datagram.to == self.config.local
            && self
                .config
                .remote
                .is_none_or(|remote| remote == datagram.from);
        if let (true, Some(payload)) = (is_ours, packet.get(datagram.payload)) {
            let buffer_bytes = self.config.buffer_bytes;
            if !self.received.push(datagram.from, payload, buffer_bytes) {
                self.dropped += 1;
            }
        }
    }

    fn poll_packet(&mut self, out: &mut [u8], _: Instant) -> Option<Outgoing> {
        let (to, payload) = self.to_send.pop()?;
        let offload = self.config.offload.checksum;
        write_udp(self.config.local, to, &payload, offload, out)
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}
