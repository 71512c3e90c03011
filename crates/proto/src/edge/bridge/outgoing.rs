//! What clients send, on its way to the network.

use core::net::{IpAddr, SocketAddr};

use barewire_units::Instant;

use super::{Bridge, FrameFate, HEADROOM, Output, PACKET_AT};
use crate::edge::answers;
use crate::edge::check::{Breach, check};
use crate::edge::leases::LeaseId;
use crate::edge::message::{PACKET_HEADER_BYTES, PacketHeader};
use crate::edge::neighbours::{Ethernet, Way};
use crate::edge::offload::{
    FRAME_HEADER_BYTES, Need, finish, forget_size_of_one, need, segments, to_kernel, write_segment,
};
use crate::edge::packet::{Body, Packet, V6_HEADER_BYTES};

/// The longest TCP header, in bytes.
const TCP_HEADER_BYTES_MAX: usize = 60;

/// As much of a client's message, in bytes, as [`Bridge::from_client_head`] has to see.
pub const HEAD_BYTES: usize = PACKET_HEADER_BYTES + V6_HEADER_BYTES + TCP_HEADER_BYTES_MAX;

impl Bridge {
    /// A client has sent a message. It lies in `framed` behind [`HEADROOM`] bytes, which are free. It is changed.
    pub fn from_client(
        &mut self,
        now: Instant,
        id: LeaseId,
        framed: &mut [u8],
        out: &mut impl Output,
    ) {
        self.counters.from_clients += 1;
        let len = framed.len().saturating_sub(HEADROOM);
        match self.checked(id, framed, len) {
            Ok((remote, packet, header)) => {
                self.track(id, &packet);
                self.transmit(now, remote.ip(), packet, header, framed, out);
            }
            Err(Breach::Malformed) => self.counters.client_malformed += 1,
            Err(Breach::Protocol) => self.counters.client_protocol += 1,
            Err(Breach::Source) => self.counters.client_source += 1,
            Err(Breach::Target) => self.counters.client_target += 1,
            Err(Breach::Offload) => self.counters.client_offload += 1,
        }
    }

    /// As [`from_client`](Self::from_client), for a message of `len` bytes of which only the first are in `framed`, at least
    /// [`HEAD_BYTES`]. It is for TCP that can go as it is, to a neighbour that is known: then `send` is called with the
    /// beginning of the frame, and the rest of the frame is the rest of the message.
    ///
    /// `false`: it is none of these, nothing was sent or counted, and [`from_client`](Self::from_client) has to be called.
    pub fn from_client_head(
        &mut self,
        now: Instant,
        id: LeaseId,
        framed: &mut [u8],
        len: usize,
        send: impl FnOnce(&[u8]) -> FrameFate,
        out: &mut impl Output,
    ) -> bool {
        let Ok((remote, packet, mut header)) = self.checked(id, framed, len) else {
            return false;
        };
        let is_tcp = matches!(packet.body, Body::Tcp { .. });
        if !is_tcp || need(&header, &packet, self.at.takes) != Need::Nothing {
            return false;
        }
        let network = self.at.network(remote.ip());
        let Some(hop) = network.and_then(|network| network.next_hop(remote.ip())) else {
            return false;
        };
        let Way::To(ethernet) = self.way(now, hop, out) else {
            return false;
        };
        self.counters.from_clients += 1;
        self.track(id, &packet);
        forget_size_of_one(&mut header, &packet);
        self.write_headers(framed, &packet, &header, ethernet);
        let fate = send(framed);
        self.count(fate, HEADROOM + len);
        true
    }

    /// Checks a message of `len` bytes, of which `framed` has the first.
    fn checked(
        &self,
        id: LeaseId,
        framed: &[u8],
        len: usize,
    ) -> Result<(SocketAddr, Packet, PacketHeader), Breach> {
        let message = framed.get(HEADROOM..).ok_or(Breach::Malformed)?;
        let lease = self.leases.get(id).ok_or(Breach::Malformed)?;
        let (header, bytes) = PacketHeader::parse(message).map_err(|_| Breach::Malformed)?;
        let len = len.saturating_sub(PACKET_HEADER_BYTES);
        let packet = Packet::parse_head(bytes, len).map_err(|_| Breach::Malformed)?;
        let mtu_bytes = usize::from(self.at.mtu_bytes);
        let remote = check(&self.leases, id, lease, &header, &packet, len, mtu_bytes)?;
        Ok((remote, packet, header))
    }

    /// A client's packet is going to be sent.
    fn track(&mut self, id: LeaseId, packet: &Packet) {
        if let (Some(lease), Body::Tcp { segment, .. }) = (self.leases.get_mut(id), packet.body) {
            lease.track.from_client(&segment);
        }
    }

    /// Puts a client's packet into a frame, or several.
    fn transmit(
        &mut self,
        now: Instant,
        to: IpAddr,
        packet: Packet,
        mut header: PacketHeader,
        framed: &mut [u8],
        out: &mut impl Output,
    ) {
        let finished = finish(
            &mut header,
            &packet,
            &mut framed[PACKET_AT..],
            self.at.takes,
        );
        let Some(completed) = finished else {
            return self.transmit_cut(now, to, &packet, &header, framed, out);
        };
        self.counters.checksums_completed += u64::from(completed);
        let Some(hop) = self.hop(to) else {
            return;
        };
        match self.way(now, hop, out) {
            Way::To(ethernet) => {
                self.write_headers(framed, &packet, &header, ethernet);
                self.put(out, framed);
            }
            Way::Unknown => {
                self.write_headers(framed, &packet, &header, [0; 6]);
                self.neighbours.hold(hop, framed.to_vec());
            }
        }
    }

    /// The way to a neighbour, who is asked for it where it is not known, or has not been heard of for long.
    fn way(&mut self, now: Instant, hop: IpAddr, out: &mut impl Output) -> Way {
        let (way, question) = self.neighbours.way(now, hop);
        question
            .into_iter()
            .for_each(|question| self.ask(question, out));
        way
    }

    /// Writes what is before a packet in its frame: the kernel's header, then that of Ethernet.
    fn write_headers(
        &self,
        framed: &mut [u8],
        packet: &Packet,
        header: &PacketHeader,
        to: Ethernet,
    ) {
        let kind = if packet.target.is_ipv4() {
            answers::ETHER_V4
        } else {
            answers::ETHER_V6
        };
        answers::write_ethernet(framed, to, self.at.ethernet, kind);
        framed[..FRAME_HEADER_BYTES].copy_from_slice(&to_kernel(header, packet));
    }

    fn transmit_cut(
        &mut self,
        now: Instant,
        to: IpAddr,
        packet: &Packet,
        header: &PacketHeader,
        framed: &[u8],
        out: &mut impl Output,
    ) {
        self.counters.packets_cut += 1;
        let mut cut = core::mem::take(&mut self.cut);
        for number in 0..segments(header, packet) {
            let len = write_segment(
                header,
                packet,
                &framed[PACKET_AT..],
                number,
                &mut cut[PACKET_AT..],
            );
            let Some(one) = cut.get_mut(..PACKET_AT + len) else {
                break;
            };
            let Ok(parsed) = Packet::parse(&one[PACKET_AT..]) else {
                break;
            };
            self.transmit(now, to, parsed, PacketHeader::default(), one, out);
        }
        self.cut = cut;
    }
}
