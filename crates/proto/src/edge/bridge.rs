//! The bridge: frames of the network in, packets of clients out, and the other way round.
//!
//! A packet from the network goes to
//!
//! 1. the lease of its connection,
//! 2. otherwise the connection in TIME-WAIT, which answers by itself ([`super::waiting`]); a SYN that opens it anew goes on,
//! 3. otherwise the lease that listens at its port: of TCP only a SYN, which opens a connection,
//! 4. otherwise nobody: TCP is answered with a RST, UDP with an ICMP error, as a host does.
//!
//! A listening client answers a SYN so: it asks for a lease of that connection, and gives the SYN, which it has, to the
//! new connection. Nothing has to be sent again.
//!
//! An ICMP error goes to the lease of the connection that it is about; of UDP otherwise to the one that listens there.
//! Fragments go to nobody. The bridge answers pings. What it answers to strangers is bounded in number, goes back to the
//! Ethernet address that the question came from, and makes no entry in any table.

mod outgoing;

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use barewire_units::{Duration, Instant, Rng};

use super::answers::{self, AnswerBudget, Arp, Discovery, PACKET_AT, Sender};
use super::counters::Counters;
use super::flow::{Flow, HashKey, PortKey};
use super::leases::{LeaseId, Leases, Limits};
use super::message::{
    Ask, Checksum, Granted, PACKET_BYTES_MAX, PACKET_HEADER_BYTES, PacketHeader, Protocol, Refusal,
    Takes,
};
use super::neighbours::{Ethernet, Heard, Neighbours, Question, Way};
use super::network::Attachment;
use super::offload::{FRAME_HEADER_BYTES, finish, from_kernel, is_right, segments, write_segment};
use super::packet::{Body, Packet, PacketFault, Segment, embedded_flow, tcp_flags};
use super::track::Ending;
use super::waiting::{TcpAnswer, is_opening};

pub use outgoing::HEAD_BYTES;

/// Bytes before a client's message in the buffer that it is handed over in.
pub const HEADROOM: usize = PACKET_AT - PACKET_HEADER_BYTES;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFate {
    /// The device has it.
    Sent,
    /// The device has no room.
    NoRoom,
    /// The device does not take it.
    Refused,
}

/// Where the bridge puts what it has.
pub trait Output {
    /// A frame for the network: the kernel's header ([`super::offload`]), then the Ethernet frame.
    fn frame(&mut self, frame: &[u8]) -> FrameFate;

    /// A message for the client of a lease. `false`: its queue is full, and the message is dropped.
    fn message(&mut self, lease: LeaseId, message: &[u8]) -> bool;
}

/// A bridge.
#[derive(Debug)]
pub struct Bridge {
    at: Attachment,
    leases: Leases,
    neighbours: Neighbours,
    counters: Counters,
    /// Answers to strangers.
    budget: AnswerBudget,
    /// Room for one segment.
    cut: Vec<u8>,
}

/// A packet that came, as it lies in its buffer.
struct Came<'a> {
    from: Ethernet,
    packet: Packet,
    header: PacketHeader,
    /// The kernel's header, the Ethernet header, the packet; padding is cut off.
    framed: &'a mut [u8],
}

impl Came<'_> {
    fn bytes(&self) -> &[u8] {
        &self.framed[PACKET_AT..]
    }

    /// Whether its checksum has been verified, or is right.
    fn is_right(&self) -> bool {
        self.header.checksum != Checksum::Present || is_right(&self.packet, self.bytes())
    }
}

impl Bridge {
    /// A bridge. Nobody outside may know the keys, nor what `rng`, which chooses ports, has been made from.
    #[must_use]
    pub fn new(at: Attachment, limits: Limits, keys: [HashKey; 2], rng: Rng) -> Self {
        let cut = vec![0; PACKET_AT + usize::from(at.mtu_bytes)];
        Self {
            at,
            leases: Leases::new(limits, keys[0], rng),
            neighbours: Neighbours::new(keys[1]),
            counters: Counters::default(),
            budget: AnswerBudget::default(),
            cut,
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Its leases.
    #[must_use]
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Its neighbours.
    #[must_use]
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Tells the network which Ethernet address the bridge has.
    pub fn announce(&mut self, out: &mut impl Output) {
        let networks = [self.at.v4, self.at.v6];
        for network in networks.into_iter().flatten() {
            let sender = Sender {
                ethernet: self.at.ethernet,
                address: network.address,
            };
            self.put(out, &answers::announcement(sender));
        }
    }

    /// Grants or refuses what a user asks for.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn grant(&mut self, owner: u32, ask: &Ask) -> Result<(LeaseId, Granted), Refusal> {
        let granted = self.try_grant(owner, ask);
        match granted {
            Ok(_) => self.counters.granted += 1,
            Err(_) => self.counters.refused += 1,
        }
        granted
    }

    fn try_grant(&mut self, owner: u32, ask: &Ask) -> Result<(LeaseId, Granted), Refusal> {
        let network = self.at.network(ask.remote.ip()).ok_or(Refusal::NoRoute)?;
        if !ask.is_listening() && network.next_hop(ask.remote.ip()).is_none() {
            return Err(Refusal::NoRoute);
        }
        let id = self.leases.grant(owner, ask, network.address)?;
        let local = self.leases.get(id).ok_or(Refusal::BadRequest)?.local;
        let granted = Granted {
            protocol: ask.protocol,
            takes: Takes::ALL,
            local,
            mtu_bytes: self.at.mtu_bytes,
            packet_bytes_max: PACKET_BYTES_MAX as u32,
        };
        Ok((id, granted))
    }

    /// A client has gone, or has given its lease back.
    pub fn end(&mut self, now: Instant, id: LeaseId, out: &mut impl Output) {
        let Some(ended) = self.leases.end(now, id) else {
            return;
        };
        self.counters.ended += 1;
        self.counters.waits_cut_short += u64::from(ended.cut_short);
        let Some(flow) = ended.lease.flow().filter(|_| ended.ending == Ending::Abort) else {
            return;
        };
        let answer = TcpAnswer {
            sequence: ended.lease.track.client_next(),
            acknowledgment: ended.lease.track.peer_next(),
            flags: tcp_flags::RST | tcp_flags::ACK,
        };
        let frame = answers::tcp_segment([[0; 6], self.at.ethernet], &flow, answer);
        self.counters.resets_sent += 1;
        self.send_to(now, flow.remote.ip(), frame, out);
    }

    /// Does what is due.
    pub fn handle_time(&mut self, now: Instant, out: &mut impl Output) {
        self.leases.handle_time(now);
        while let Some(question) = self.neighbours.handle_time(now) {
            self.ask(question, out);
        }
        self.counters.unresolved += self.neighbours.take_dropped();
        for framed in self.neighbours.take_unanswered() {
            self.tell_unanswered(&framed, out);
        }
    }

    /// Time counts from `by` later on: the instants of later calls are so much smaller. An [`Instant`] goes no further than
    /// 213 days.
    pub fn rebase(&mut self, by: Duration) {
        self.leases.rebase(by);
        self.neighbours.rebase(by);
        self.budget.rebase(by);
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let both = [self.leases.next_deadline(), self.neighbours.next_deadline()];
        both.into_iter().flatten().min()
    }

    /// A frame has come. `framed` begins with the kernel's header, all zeros if the device has none. It is changed.
    pub fn from_network(&mut self, now: Instant, framed: &mut [u8], out: &mut impl Output) {
        self.counters.frames_in += 1;
        self.counters.bytes_in += framed.len().saturating_sub(FRAME_HEADER_BYTES) as u64;
        let Some(ethernet) = framed.get(FRAME_HEADER_BYTES..PACKET_AT) else {
            self.counters.malformed += 1;
            return;
        };
        let [a, b, c, d, e, f, g, h, i, j, k, l, kind @ ..] = ethernet else {
            return;
        };
        let (to, from) = ([*a, *b, *c, *d, *e, *f], [*g, *h, *i, *j, *k, *l]);
        let is_group = to[0] & 1 != 0;
        if (to != self.at.ethernet && !is_group) || from[0] & 1 != 0 || from == self.at.ethernet {
            self.counters.unclaimed += 1;
            return;
        }
        match u16::from_be_bytes([kind[0], kind[1]]) {
            answers::ETHER_ARP => self.arp(now, &framed[PACKET_AT..], out),
            answers::ETHER_V4 | answers::ETHER_V6 => self.ip(now, from, framed, out),
            _ => self.counters.unclaimed += 1,
        }
    }

    fn arp(&mut self, now: Instant, bytes: &[u8], out: &mut impl Output) {
        let Some((arp, network)) = Arp::parse(bytes).zip(self.at.v4) else {
            self.counters.unclaimed += 1;
            return;
        };
        let is_for_us = network.address == arp.target;
        let (ethernet, sender) = arp.sender;
        let sender = IpAddr::from(sender);
        if network.next_hop(sender) == Some(sender) {
            self.hear(now, sender, ethernet, arp.is_reply && is_for_us, out);
        }
        if is_for_us && !arp.is_reply && self.may_answer(now) {
            let reply = Arp {
                is_reply: true,
                sender: (self.at.ethernet, arp.target),
                target: arp.sender.1,
            };
            self.counters.neighbour_answers += 1;
            self.put(out, &reply.frame(ethernet));
        }
    }

    /// Somebody says which Ethernet address it has.
    fn hear(
        &mut self,
        now: Instant,
        of: IpAddr,
        address: Ethernet,
        is_answer: bool,
        out: &mut impl Output,
    ) {
        match self.neighbours.hear(now, of, address, is_answer) {
            Heard::Unasked => self.counters.neighbour_unasked += u64::from(is_answer),
            Heard::Answer(held) => {
                for mut frame in held {
                    if let Some(to) = frame.get_mut(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + 6) {
                        to.copy_from_slice(&address);
                    }
                    self.put(out, &frame);
                }
            }
        }
    }

    fn ip(&mut self, now: Instant, from: Ethernet, framed: &mut [u8], out: &mut impl Output) {
        let Some((packet, header)) = self.read(framed) else {
            return;
        };
        let framed = &mut framed[..PACKET_AT + packet.total_bytes];
        let came = Came {
            from,
            packet,
            header,
            framed,
        };
        match packet.body {
            Body::Icmp { kind, code } => self.icmp(now, &came, kind, code, out),
            Body::Fragment => self.counters.fragments += 1,
            Body::Other(_) => self.counters.unclaimed += 1,
            Body::Tcp { segment, .. } => self.transport(now, came, Some(segment), out),
            Body::Udp { .. } => self.transport(now, came, None, out),
        }
    }

    /// A packet for an address of the bridge, with what is left open in it. `None`: it has been counted.
    fn read(&mut self, framed: &[u8]) -> Option<(Packet, PacketHeader)> {
        let packet = match Packet::parse(&framed[PACKET_AT..]) {
            Ok(packet) => packet,
            Err(
                PacketFault::Short
                | PacketFault::Version
                | PacketFault::Length
                | PacketFault::HeaderChecksum,
            ) => {
                self.counters.malformed += 1;
                return None;
            }
        };
        if !self.is_for_us(&packet) {
            self.counters.unclaimed += 1;
            return None;
        }
        let kernel = framed.first_chunk::<FRAME_HEADER_BYTES>()?;
        match from_kernel(kernel, &packet) {
            Ok(header) => Some((packet, header)),
            Err(_) => {
                self.counters.malformed += 1;
                None
            }
        }
    }

    /// Whether a packet is for the bridge, and comes from what may be a host. Questions for an Ethernet address go to
    /// a group, and may come from a host that has no address yet.
    fn is_for_us(&self, packet: &Packet) -> bool {
        let is_question = matches!(
            packet.body,
            Body::Icmp {
                kind: answers::SOLICITATION,
                ..
            }
        ) && packet.source.is_ipv6();
        let Some(network) = self.at.network(packet.target) else {
            return false;
        };
        let is_link_local =
            matches!(packet.source, IpAddr::V6(source) if source.segments()[0] & 0xffc0 == 0xfe80);
        let is_host = network.is_host(packet.source) && packet.source != network.address;
        let is_group = matches!(packet.target, IpAddr::V6(target) if target.is_multicast());
        (is_host || is_link_local || is_question)
            && (network.address == packet.target || (is_question && is_group))
    }

    fn icmp(&mut self, now: Instant, came: &Came<'_>, kind: u8, code: u8, out: &mut impl Output) {
        let (packet, bytes) = (&came.packet, came.bytes());
        if !answers::icmp_is_right(packet, bytes) {
            self.counters.malformed += 1;
            return;
        }
        match (packet.source, kind) {
            (IpAddr::V4(_), 8) | (IpAddr::V6(_), 128) if code == 0 => {
                if self.may_answer(now) {
                    self.counters.answers_sent += 1;
                    let frame = answers::echo_reply(self.at.ethernet, came.from, packet, bytes);
                    self.put(out, &frame);
                }
            }
            (IpAddr::V6(source), answers::SOLICITATION | answers::ADVERTISEMENT) => {
                let discovery = Discovery::parse(&bytes[packet.header_bytes..]);
                let is_valid = packet.hops == answers::HOPS_ON_LINK && code == 0;
                match discovery.filter(|_| is_valid) {
                    Some(discovery) => {
                        self.discovery(now, came.from, (source, kind), discovery, out)
                    }
                    None => self.counters.malformed += 1,
                }
            }
            // Unreachable, time exceeded, parameter problem; of version 6 also too big.
            (IpAddr::V4(_), 3 | 11 | 12) | (IpAddr::V6(_), 1..=4) => self.icmp_error(came, out),
            _ => self.counters.unclaimed += 1,
        }
    }

    fn discovery(
        &mut self,
        now: Instant,
        from: Ethernet,
        (source, kind): (Ipv6Addr, u8),
        said: Discovery,
        out: &mut impl Output,
    ) {
        let Some(network) = self.at.v6 else {
            return;
        };
        let is_near = |of: IpAddr| network.next_hop(of) == Some(of);
        if kind == answers::ADVERTISEMENT {
            let about = IpAddr::from(said.about);
            if let Some(address) = said.address.filter(|_| is_near(about)) {
                self.hear(now, about, address, said.is_solicited, out);
            }
            return;
        }
        if let Some(address) = said.address.filter(|_| is_near(source.into())) {
            self.hear(now, source.into(), address, false, out);
        }
        if network.address == IpAddr::from(said.about) && self.may_answer(now) {
            self.counters.neighbour_answers += 1;
            let frame = answers::advertisement(self.at.ethernet, said.about, source, from);
            self.put(out, &frame);
        }
    }

    fn icmp_error(&mut self, came: &Came<'_>, out: &mut impl Output) {
        let bytes = came.bytes();
        match self.lease_of_quoted(&bytes[came.packet.header_bytes + 8..]) {
            Some(lease) => self.give_icmp(lease, bytes, out),
            None => self.counters.unclaimed += 1,
        }
    }

    /// The lease that has sent the packet that an ICMP error quotes.
    fn lease_of_quoted(&self, quoted: &[u8]) -> Option<LeaseId> {
        let (protocol, source, source_port, target, target_port) = embedded_flow(quoted)?;
        let local = SocketAddr::new(source, source_port);
        let flow = Flow {
            protocol,
            local,
            remote: SocketAddr::new(target, target_port),
        };
        let listening = || {
            self.leases
                .listening(&PortKey::of(protocol, local))
                .filter(|_| protocol == Protocol::Udp)
        };
        self.leases
            .connected(&flow)
            .or_else(listening)
            .filter(|_| self.at.is_own(source))
    }

    fn give_icmp(&mut self, lease: LeaseId, packet: &[u8], out: &mut impl Output) {
        let header = PacketHeader {
            checksum: Checksum::Verified,
            segment_bytes: 0,
        };
        let mut message = header.to_bytes().to_vec();
        message.extend_from_slice(packet);
        self.give(lease, &message, out);
    }

    /// The host that a packet waited for does not answer: its client is told.
    fn tell_unanswered(&mut self, framed: &[u8], out: &mut impl Output) {
        let Some(bytes) = framed.get(PACKET_AT..) else {
            return;
        };
        let (Some(lease), Ok(packet)) = (self.lease_of_quoted(bytes), Packet::parse(bytes)) else {
            return;
        };
        let frame = answers::host_unreachable(self.at.ethernet, &packet, bytes);
        self.give_icmp(lease, &frame[PACKET_AT..], out);
    }

    fn transport(
        &mut self,
        now: Instant,
        came: Came<'_>,
        segment: Option<Segment>,
        out: &mut impl Output,
    ) {
        let Some((protocol, source_port, target_port)) = came.packet.ports() else {
            return;
        };
        let local = SocketAddr::new(came.packet.target, target_port);
        let flow = Flow {
            protocol,
            local,
            remote: SocketAddr::new(came.packet.source, source_port),
        };
        if let Some(lease) = self.leases.connected(&flow) {
            if let Some((held, segment)) = self.leases.get_mut(lease).zip(segment) {
                held.track.from_peer(&segment);
            }
            return self.deliver(lease, came, out);
        }
        let listening = self.leases.listening(&PortKey::of(protocol, local));
        if let Some((wait, segment)) = self.leases.waiting(&flow).copied().zip(segment) {
            if listening.is_none() || !wait.may_open_anew(&segment) {
                if let Some(answer) = wait.answer(&segment).filter(|_| came.is_right()) {
                    self.answer_tcp(now, came.from, &flow, answer, out);
                }
                return;
            }
        }
        match listening {
            Some(lease) if segment.as_ref().is_none_or(is_opening) => {
                self.deliver(lease, came, out)
            }
            _ => self.answer_stranger(now, &came, &flow, segment, out),
        }
    }

    /// Nobody has the port, or the connection.
    fn answer_stranger(
        &mut self,
        now: Instant,
        came: &Came<'_>,
        flow: &Flow,
        segment: Option<Segment>,
        out: &mut impl Output,
    ) {
        self.counters.unclaimed += 1;
        if !came.is_right() {
            return;
        }
        match segment {
            Some(segment) if segment.has(tcp_flags::RST) => {}
            Some(segment) => {
                // RFC 9293, 3.10.7.1.
                let answer = match segment.has(tcp_flags::ACK) {
                    true => TcpAnswer {
                        sequence: segment.acknowledgment,
                        acknowledgment: 0,
                        flags: tcp_flags::RST,
                    },
                    false => TcpAnswer {
                        sequence: 0,
                        acknowledgment: segment.sequence_end(),
                        flags: tcp_flags::RST | tcp_flags::ACK,
                    },
                };
                self.answer_tcp(now, came.from, flow, answer, out);
            }
            None if self.may_answer(now) => {
                self.counters.answers_sent += 1;
                let frame = answers::port_unreachable(
                    self.at.ethernet,
                    came.from,
                    &came.packet,
                    came.bytes(),
                );
                self.put(out, &frame);
            }
            None => {}
        }
    }

    fn answer_tcp(
        &mut self,
        now: Instant,
        to: Ethernet,
        flow: &Flow,
        answer: TcpAnswer,
        out: &mut impl Output,
    ) {
        if self.may_answer(now) {
            self.counters.answers_sent += 1;
            let frame = answers::tcp_segment([to, self.at.ethernet], flow, answer);
            self.put(out, &frame);
        }
    }

    /// Whether one more answer to a stranger may be sent.
    fn may_answer(&mut self, now: Instant) -> bool {
        let may = self.budget.take(now);
        self.counters.answers_suppressed += u64::from(!may);
        may
    }

    /// Gives a packet to the client of a lease, cut and completed as far as that takes it.
    fn deliver(&mut self, lease: LeaseId, came: Came<'_>, out: &mut impl Output) {
        let takes = self
            .leases
            .get(lease)
            .map_or(Takes::NOTHING, |lease| lease.takes);
        let Came {
            packet,
            mut header,
            framed,
            ..
        } = came;
        if let Some(completed) = finish(&mut header, &packet, &mut framed[PACKET_AT..], takes) {
            self.counters.checksums_completed += u64::from(completed);
            framed[HEADROOM..PACKET_AT].copy_from_slice(&header.to_bytes());
            return self.give(lease, &framed[HEADROOM..], out);
        }
        // New checksums must not hide that the old one was wrong.
        if header.checksum == Checksum::Present && !is_right(&packet, &framed[PACKET_AT..]) {
            self.counters.malformed += 1;
            return;
        }
        self.counters.packets_cut += 1;
        let mut cut = core::mem::take(&mut self.cut);
        // Segments of another network may be longer than those here.
        let longest = PACKET_AT + packet.header_bytes + 60 + usize::from(header.segment_bytes);
        cut.resize(cut.len().max(longest), 0);
        let plain = PacketHeader {
            checksum: Checksum::Verified,
            segment_bytes: 0,
        }
        .to_bytes();
        cut[HEADROOM..PACKET_AT].copy_from_slice(&plain);
        for number in 0..segments(&header, &packet) {
            let len = write_segment(
                &header,
                &packet,
                &framed[PACKET_AT..],
                number,
                &mut cut[PACKET_AT..],
            );
            self.give(lease, &cut[HEADROOM..PACKET_AT + len], out);
        }
        self.cut = cut;
    }

    fn give(&mut self, lease: LeaseId, message: &[u8], out: &mut impl Output) {
        match out.message(lease, message) {
            true => self.counters.delivered += 1,
            false => self.counters.queue_full += 1,
        }
    }

    /// The host that a packet goes to next. A lease to listen may send anywhere.
    fn hop(&mut self, to: IpAddr) -> Option<IpAddr> {
        let hop = self.at.network(to).and_then(|network| network.next_hop(to));
        self.counters.client_target += u64::from(hop.is_none());
        hop
    }

    /// Sends a frame of the bridge's own to where it has to go.
    fn send_to(&mut self, now: Instant, to: IpAddr, mut frame: Vec<u8>, out: &mut impl Output) {
        let Some(hop) = self.hop(to) else {
            return;
        };
        let (way, question) = self.neighbours.way(now, hop);
        match way {
            Way::To(ethernet) => {
                frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + 6].copy_from_slice(&ethernet);
                self.put(out, &frame);
            }
            Way::Unknown => self.neighbours.hold(hop, frame),
        }
        question
            .into_iter()
            .for_each(|question| self.ask(question, out));
    }

    fn ask(&mut self, question: Question, out: &mut impl Output) {
        if let Some(sender) = self.at.sender(question.about) {
            self.put(out, &answers::question(sender, question.about, question.to));
        }
    }

    fn put(&mut self, out: &mut impl Output, frame: &[u8]) {
        let fate = out.frame(frame);
        self.count(fate, frame.len());
    }

    /// Counts a frame of so many bytes, with the kernel's header.
    fn count(&mut self, fate: FrameFate, len: usize) {
        match fate {
            FrameFate::Sent => {
                self.counters.frames_out += 1;
                self.counters.bytes_out += (len - FRAME_HEADER_BYTES) as u64;
            }
            FrameFate::NoRoom => self.counters.device_full += 1,
            FrameFate::Refused => self.counters.device_refused += 1,
        }
    }
}

#[cfg(test)]
mod tests;
