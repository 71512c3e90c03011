//! Settings of a connection, with their defaults and limits.

use crate::error::Error;
use barewire_units::Duration;
use core::net::{IpAddr, SocketAddr};

/// The smallest packet size that IPv4 hosts take without fragments, of which a segment is at least
/// a part.
pub const MTU_MIN: usize = 576;

/// The smallest packet size of IPv6.
pub const MTU_MIN_V6: usize = 1280;

/// The largest packet: what the length field of IPv4 can say.
pub const MTU_MAX: usize = 65_535;

/// The largest buffer: half of what sequence numbers allow in flight.
pub const BUFFER_BYTES_MAX: usize = 1 << 29;

/// The smallest buffer.
pub const BUFFER_BYTES_MIN: usize = 4096;

/// What whoever carries the packets does in the place of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// It computes the TCP or UDP checksum of packets that say so ([`crate::Outgoing::checksum`]).
    pub checksum: bool,
    /// It cuts packets of up to this many bytes into segments
    /// ([`crate::Outgoing::segment_bytes`]); `None`: it does not.
    pub segmentation_bytes_max: Option<usize>,
}

/// How a connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// The longest IP packet, in bytes.
    pub mtu: usize,
    /// Where the first sequence number comes from. It must be hard to guess for anybody else.
    pub seed: u64,
    /// Bytes that wait to be sent or acknowledged, at most.
    pub send_buffer_bytes: usize,
    /// Bytes that were received and not read, at most. It bounds the window.
    pub receive_buffer_bytes: usize,
    /// Whether short pieces wait until what was sent before is acknowledged (Nagle's rule).
    pub nagle: bool,
    /// Whether each packet says when it was sent, if the other end has that, too (RFC 7323). It takes
    /// 12 bytes of each.
    pub timestamps: bool,
    /// After how long without a packet the other end is asked whether it still lives.
    pub keep_alive: Option<Duration>,
    /// How long the other end may leave what was sent unanswered.
    pub timeout: Duration,
    /// How long an end that closed first remembers the connection.
    pub time_wait: Duration,
    /// What the carrier of the packets does.
    pub offload: Offload,
}

impl Config {
    /// The defaults: 1500-byte packets, buffers of 1 MiB, no Nagle, timestamps, no keep-alive, a timeout of
    /// 2 minutes, no offload.
    #[must_use]
    pub const fn new(local: SocketAddr, remote: SocketAddr, seed: u64) -> Self {
        Self {
            local,
            remote,
            mtu: 1500,
            seed,
            send_buffer_bytes: 1 << 20,
            receive_buffer_bytes: 1 << 20,
            nagle: false,
            timestamps: true,
            keep_alive: None,
            timeout: Duration::from_s(120),
            time_wait: Duration::from_s(10),
            offload: Offload {
                checksum: false,
                segmentation_bytes_max: None,
            },
        }
    }

    /// Checks addresses and ranges.
    ///
    /// # Errors
    ///
    /// [`Error::BadAddress`] or [`Error::BadSetting`] say what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        check_addresses(self.local, self.remote)?;
        let mtu_min = if self.local.is_ipv6() {
            MTU_MIN_V6
        } else {
            MTU_MIN
        };
        if !(mtu_min..=MTU_MAX).contains(&self.mtu) {
            return Err(Error::BadSetting(
                "the packet size must lie between 576 (IPv6: 1280) and 65535 bytes",
            ));
        }
        let buffers = BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX;
        if !buffers.contains(&self.send_buffer_bytes)
            || !buffers.contains(&self.receive_buffer_bytes)
        {
            return Err(Error::BadSetting(
                "each buffer must have between 4 KiB and 512 MiB",
            ));
        }
        if self.timeout.is_zero() || self.keep_alive.is_some_and(Duration::is_zero) {
            return Err(Error::BadSetting(
                "timeout and keep-alive must be longer than zero",
            ));
        }
        if self
            .offload
            .segmentation_bytes_max
            .is_some_and(|bytes| !(self.mtu..=MTU_MAX).contains(&bytes))
        {
            return Err(Error::BadSetting(
                "the longest packet to be cut must lie between the packet size and 65535 bytes",
            ));
        }
        Ok(())
    }

    /// The longest payload of a segment without options, in bytes.
    pub(crate) fn mss(&self) -> u32 {
        let headers = if self.local.is_ipv6() { 60 } else { 40 };
        u32::try_from(self.mtu - headers).unwrap_or(u32::MAX)
    }
}

/// Whether a connection between the two can be.
pub(crate) fn check_addresses(local: SocketAddr, remote: SocketAddr) -> Result<(), Error> {
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(Error::BadAddress(
            "one end has an IPv4 address and the other an IPv6 address",
        ));
    }
    if local.port() == 0 || remote.port() == 0 {
        return Err(Error::BadAddress("port 0 cannot be used"));
    }
    if !is_unicast(local.ip()) || !is_unicast(remote.ip()) {
        return Err(Error::BadAddress(
            "an address is unspecified, a broadcast or a multicast address",
        ));
    }
    Ok(())
}

fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_broadcast() || v4.is_multicast()),
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast()),
    }
}
