//! Whether a client may send a packet.
//!
//! | rule | counted as |
//! |---|---|
//! | it is an IP packet, as long as the message, no fragment, without options and extension headers | `client_malformed` |
//! | it is of the protocol of the lease; where the lease is to listen for TCP, it is SYN with ACK, or RST | `client_protocol` |
//! | it comes from the address and port of the lease | `client_source` |
//! | it goes to the other end of the lease, or, where that is to listen, to no connection of another lease | `client_target` |
//! | it is not longer than the network allows, and what it leaves open fits it | `client_offload` |
//!
//! What breaks a rule is dropped and counted. The lease goes on: the packets of others are not in danger.

use core::net::SocketAddr;

use super::flow::Flow;
use super::leases::{Lease, LeaseId, Leases};
use super::message::{Checksum, PacketHeader};
use super::offload;
use super::packet::{Body, Packet, V4_HEADER_BYTES, V6_HEADER_BYTES, tcp_flags};

/// The rule that a packet breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// It is no packet, or one that cannot be.
    Malformed,
    /// It is of another protocol than the lease, or has flags that do not belong there.
    Protocol,
    /// Its source is not the lease's.
    Source,
    /// Its target is not the lease's.
    Target,
    /// It is too long, or left open what does not fit.
    Offload,
}

/// Checks a packet that the client of a lease sends; returns the other end.
///
/// # Errors
/// The rule that it breaks.
pub fn check(
    leases: &Leases,
    id: LeaseId,
    lease: &Lease,
    header: &PacketHeader,
    packet: &Packet,
    len: usize,
    mtu_bytes: usize,
) -> Result<SocketAddr, Breach> {
    let plain = if packet.source.is_ipv4() {
        V4_HEADER_BYTES
    } else {
        V6_HEADER_BYTES
    };
    if packet.total_bytes != len || packet.header_bytes != plain || packet.body == Body::Fragment {
        return Err(Breach::Malformed);
    }
    let Some((protocol, source_port, target_port)) = packet.ports() else {
        return Err(Breach::Protocol);
    };
    if protocol != lease.protocol {
        return Err(Breach::Protocol);
    }
    if SocketAddr::new(packet.source, source_port) != lease.local {
        return Err(Breach::Source);
    }
    let remote = SocketAddr::new(packet.target, target_port);
    check_target(leases, id, lease, packet, remote)?;
    check_size(header, packet, mtu_bytes)?;
    Ok(remote)
}

fn check_target(
    leases: &Leases,
    id: LeaseId,
    lease: &Lease,
    packet: &Packet,
    remote: SocketAddr,
) -> Result<(), Breach> {
    match (lease.remote, packet.body) {
        (Some(own), _) if own == remote => return Ok(()),
        (Some(_), _) => return Err(Breach::Target),
        (None, Body::Tcp { segment, .. }) => {
            let is_refusal = segment.has(tcp_flags::RST);
            let is_answer = segment.has(tcp_flags::SYN) && segment.has(tcp_flags::ACK);
            if segment.payload_bytes != 0 || !(is_refusal || is_answer) {
                return Err(Breach::Protocol);
            }
        }
        (None, _) => {}
    }
    let (protocol, local) = (lease.protocol, lease.local);
    let owner = leases.connected(&Flow {
        protocol,
        local,
        remote,
    });
    let is_of_another = owner.is_some_and(|owner| owner != id);
    if remote.port() == 0 || is_of_another {
        Err(Breach::Target)
    } else {
        Ok(())
    }
}

fn check_size(header: &PacketHeader, packet: &Packet, mtu_bytes: usize) -> Result<(), Breach> {
    offload::check(header, packet).map_err(|_| Breach::Offload)?;
    let longest = match (packet.body, usize::from(header.segment_bytes)) {
        (_, 0) => packet.total_bytes,
        // Only a device completes the segments that it makes.
        (Body::Tcp { segment, .. }, size) if matches!(header.checksum, Checksum::Open { .. }) => {
            packet.header_bytes + segment.header_bytes + size.min(segment.payload_bytes)
        }
        _ => return Err(Breach::Offload),
    };
    if longest > mtu_bytes {
        Err(Breach::Offload)
    } else {
        Ok(())
    }
}
