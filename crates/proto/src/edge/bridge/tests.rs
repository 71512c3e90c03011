//! The bridge between a made-up network and made-up clients.

mod beginnings;

use std::vec;
use std::vec::Vec;

use barewire_units::Rng;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use barewire_units::Duration;

use super::super::network::Network;
use super::super::packet::write_header;
use super::*;
use tcp_flags::{ACK, FIN, RST, SYN};

const OWN: Ethernet = [2, 0, 0, 0, 0, 9];
const PEER: Ethernet = [2, 0, 0, 0, 0, 1];

/// What the bridge has put out.
#[derive(Default)]
struct Out {
    frames: Vec<Vec<u8>>,
    messages: Vec<(LeaseId, Vec<u8>)>,
    is_full: bool,
}

impl Output for Out {
    fn frame(&mut self, frame: &[u8]) -> FrameFate {
        self.frames.push(frame.to_vec());
        FrameFate::Sent
    }

    fn message(&mut self, lease: LeaseId, message: &[u8]) -> bool {
        if !self.is_full {
            self.messages.push((lease, message.to_vec()));
        }
        !self.is_full
    }
}

struct Place {
    bridge: Bridge,
    out: Out,
    now: Instant,
}

fn address(is_v6: bool, last: u8) -> IpAddr {
    match is_v6 {
        false => IpAddr::from([10, 0, 0, last]),
        true => IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
    }
}

fn place(takes: Takes) -> Place {
    let network = |is_v6: bool, prefix| Network {
        address: address(is_v6, 9),
        prefix,
        gateway: None,
    };
    let at = Attachment {
        ethernet: OWN,
        v4: Some(network(false, 24)),
        v6: Some(network(true, 64)),
        mtu_bytes: 1500,
        takes,
    };
    Place {
        bridge: Bridge::new(
            at,
            Limits::default(),
            [HashKey::new([1, 2]), HashKey::new([3, 4])],
            Rng::from_seed(7),
        ),
        out: Out::default(),
        now: Instant::ORIGIN,
    }
}

/// An IP packet of a protocol between two ends, with the right checksum.
fn packet(
    source: SocketAddr,
    target: SocketAddr,
    tcp: Option<(u32, u32, u8)>,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; 80];
    let (protocol, header_bytes) = if tcp.is_some() { (6, 20) } else { (17, 8) };
    let at = write_header(
        &mut bytes,
        source.ip(),
        target.ip(),
        protocol,
        64,
        header_bytes + payload.len(),
    );
    bytes.truncate(at + header_bytes);
    let behind = &mut bytes[at..];
    behind[..2].copy_from_slice(&source.port().to_be_bytes());
    behind[2..4].copy_from_slice(&target.port().to_be_bytes());
    match tcp {
        Some((sequence, acknowledgment, flags)) => {
            behind[4..8].copy_from_slice(&sequence.to_be_bytes());
            behind[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
            behind[12..14].copy_from_slice(&[5 << 4, flags]);
        }
        None => behind[4..6].copy_from_slice(&((8 + payload.len()) as u16).to_be_bytes()),
    }
    bytes.extend_from_slice(payload);
    let parsed = Packet::parse(&bytes).expect("a packet");
    super::super::offload::complete(&parsed, &mut bytes);
    bytes
}

fn framed(to: Ethernet, from: Ethernet, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; PACKET_AT];
    let kind = if packet[0] >> 4 == 4 {
        answers::ETHER_V4
    } else {
        answers::ETHER_V6
    };
    answers::write_ethernet(&mut frame, to, from, kind);
    frame.extend_from_slice(packet);
    frame
}

impl Place {
    fn network_sends(&mut self, packet: &[u8]) {
        let mut frame = framed(OWN, PEER, packet);
        self.bridge
            .from_network(self.now, &mut frame, &mut self.out);
    }

    fn client_sends(&mut self, id: LeaseId, header: PacketHeader, packet: &[u8]) {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&header.to_bytes());
        buffer.extend_from_slice(packet);
        self.bridge
            .from_client(self.now, id, &mut buffer, &mut self.out);
    }

    /// The only frame that has been put out, behind the kernel's header.
    fn frame(&mut self) -> Vec<u8> {
        assert_eq!(self.out.frames.len(), 1, "{:?}", self.out.frames);
        self.out.frames.remove(0).split_off(FRAME_HEADER_BYTES)
    }

    /// The packet in the only frame, which has left nothing open, with its headers.
    fn packet(&mut self) -> (Vec<u8>, Packet) {
        let bytes = self.frame().split_off(14);
        let packet = Packet::parse(&bytes).expect("a packet");
        assert!(is_right(&packet, &bytes));
        (bytes, packet)
    }

    fn segment(&mut self) -> Segment {
        match self.packet().1.body {
            Body::Tcp { segment, .. } => segment,
            other => panic!("{other:?}"),
        }
    }

    /// Lets the bridge learn the address of a peer, which it has just asked for.
    fn learn(&mut self, is_v6: bool) {
        let question = self.frame();
        let answer = match is_v6 {
            false => {
                assert_eq!(question[12..14], [8, 6]);
                let arp = Arp {
                    is_reply: true,
                    sender: (PEER, [10, 0, 0, 1].into()),
                    target: [10, 0, 0, 9].into(),
                };
                arp.frame(OWN)
            }
            true => {
                assert_eq!(question[..6], [0x33, 0x33, 0xff, 0, 0, 1]);
                let (IpAddr::V6(own), IpAddr::V6(peer)) = (address(true, 9), address(true, 1))
                else {
                    unreachable!()
                };
                answers::advertisement(PEER, peer, own, OWN)
            }
        };
        self.bridge
            .from_network(self.now, &mut answer.clone(), &mut self.out);
    }
}

fn peer(is_v6: bool) -> SocketAddr {
    SocketAddr::new(address(is_v6, 1), 7)
}

fn lease(place: &mut Place, protocol: Protocol, is_v6: bool) -> (LeaseId, SocketAddr) {
    let (id, granted) = place
        .bridge
        .grant(5, &Ask::connect(protocol, peer(is_v6)))
        .expect("a lease");
    (id, granted.local)
}

#[test]
fn datagrams_go_both_ways() {
    for is_v6 in [false, true] {
        let mut place = place(Takes::ALL);
        let (id, local) = lease(&mut place, Protocol::Udp, is_v6);
        let out = packet(local, peer(is_v6), None, b"to the peer");
        place.client_sends(id, PacketHeader::default(), &out);
        // It waits until the address of the peer is known.
        place.learn(is_v6);
        let frame = place.frame();
        assert_eq!(
            (&frame[..6], &frame[6..12], &frame[14..]),
            (&PEER[..], &OWN[..], &out[..])
        );
        place.client_sends(id, PacketHeader::default(), &out);
        assert_eq!(place.packet().0, out);

        // The frame has padding.
        let back = packet(peer(is_v6), local, None, b"back");
        place.network_sends(&[&back[..], &[0; 14]].concat());
        let message = [&PacketHeader::default().to_bytes()[..], &back].concat();
        assert_eq!(place.out.messages, [(id, message)]);
        place.out.is_full = true;
        place.network_sends(&back);
        assert_eq!(
            (
                place.bridge.counters().delivered,
                place.bridge.counters().queue_full
            ),
            (1, 1)
        );
    }
}

#[test]
fn clients_see_only_their_own() {
    let mut place = place(Takes::ALL);
    let (one, first) = lease(&mut place, Protocol::Udp, false);
    let (two, second) = lease(&mut place, Protocol::Udp, false);
    assert_ne!(first, second);
    place.network_sends(&packet(peer(false), first, None, b"1"));
    place.network_sends(&packet(peer(false), second, None, b"2"));
    let of = |message: &(LeaseId, Vec<u8>)| (message.0, message.1[message.1.len() - 1]);
    assert_eq!(
        place.out.messages.iter().map(of).collect::<Vec<_>>(),
        [(one, b'1'), (two, b'2')]
    );
    // Another port of the same host is nobody's.
    let stranger = SocketAddr::new(address(false, 1), 8);
    place.network_sends(&packet(stranger, first, None, b"3"));
    assert_eq!(place.out.messages.len(), 2);
    let (bytes, unreachable) = place.packet();
    assert_eq!(unreachable.body, Body::Icmp { kind: 3, code: 3 });
    assert!(answers::icmp_is_right(&unreachable, &bytes));
}

#[test]
fn what_a_client_may_not_send_is_dropped_and_counted() {
    let mut place = place(Takes::ALL);
    let (id, local) = lease(&mut place, Protocol::Udp, false);
    let (_, other) = lease(&mut place, Protocol::Udp, false);
    let good = packet(local, peer(false), None, b"x");
    let plain = PacketHeader::default();
    place.client_sends(
        id,
        plain,
        &packet(
            SocketAddr::new(address(false, 8), local.port()),
            peer(false),
            None,
            b"x",
        ),
    );
    place.client_sends(id, plain, &packet(other, peer(false), None, b"x"));
    assert_eq!(place.bridge.counters().client_source, 2);
    place.client_sends(
        id,
        plain,
        &packet(local, SocketAddr::new(address(false, 2), 7), None, b"x"),
    );
    assert_eq!(place.bridge.counters().client_target, 1);
    place.client_sends(
        id,
        plain,
        &packet(local, peer(false), Some((1, 2, ACK)), b"x"),
    );
    assert_eq!(place.bridge.counters().client_protocol, 1);
    place.client_sends(id, plain, &packet(local, peer(false), None, &[0; 1480]));
    let open = Checksum::Open {
        start: 20,
        offset: 4,
    };
    place.client_sends(
        id,
        PacketHeader {
            checksum: open,
            segment_bytes: 0,
        },
        &good,
    );
    place.client_sends(
        id,
        PacketHeader {
            checksum: Checksum::Present,
            segment_bytes: 100,
        },
        &good,
    );
    assert_eq!(place.bridge.counters().client_offload, 3);
    place.client_sends(id, plain, &[&good[..], &[0]].concat());
    place.client_sends(id, plain, &good[..good.len() - 1]);
    place.client_sends(id, plain, &[]);
    let mut fragment = good.clone();
    fragment[6] = 0x20;
    let check =
        barewire_wire::checksum::updated(u16::from_be_bytes([good[10], good[11]]), 0x4000, 0x2000);
    fragment[10..12].copy_from_slice(&check.to_be_bytes());
    place.client_sends(id, plain, &fragment);
    assert_eq!(place.bridge.counters().client_malformed, 4);
    assert!(place.out.frames.is_empty(), "nothing has left");
    place.client_sends(id, plain, &good);
    place.learn(false);
    assert_eq!(place.packet().0, good);
}

#[test]
fn strangers_are_answered_as_by_a_host_and_not_without_end() {
    for is_v6 in [false, true] {
        let mut place = place(Takes::ALL);
        let nobody = SocketAddr::new(address(is_v6, 9), 81);
        place.network_sends(&packet(peer(is_v6), nobody, Some((70, 0, SYN)), b""));
        let answer = place.segment();
        assert_eq!(
            (answer.flags, answer.sequence, answer.acknowledgment),
            (RST | ACK, 0, 71)
        );
        place.network_sends(&packet(peer(is_v6), nobody, Some((70, 99, ACK)), b"x"));
        let answer = place.segment();
        assert_eq!((answer.flags, answer.sequence), (RST, 99));
        place.network_sends(&packet(peer(is_v6), nobody, Some((70, 99, RST)), b""));
        let mut broken = packet(peer(is_v6), nobody, Some((70, 0, SYN)), b"data");
        *broken.last_mut().expect("a byte") ^= 1;
        place.network_sends(&broken);
        assert!(place.out.frames.is_empty());
        for _ in 0..3000 {
            place.network_sends(&packet(peer(is_v6), nobody, Some((70, 0, SYN)), b""));
        }
        assert_eq!(place.out.frames.len(), 998);
        place.now = place.now.saturating_add(Duration::from_ms(10));
        place.network_sends(&packet(peer(is_v6), nobody, Some((70, 0, SYN)), b""));
        assert_eq!(place.out.frames.len(), 999);
        assert!(place.bridge.neighbours().is_empty());
    }
}

#[test]
fn pings_and_questions_are_answered() {
    let mut place = place(Takes::ALL);
    let request = Arp {
        is_reply: false,
        sender: (PEER, [10, 0, 0, 1].into()),
        target: [10, 0, 0, 9].into(),
    };
    place
        .bridge
        .from_network(place.now, &mut request.frame([0xff; 6]), &mut place.out);
    let reply = place.frame();
    let arp = Arp::parse(&reply[14..]).expect("an answer");
    assert_eq!(
        (arp.is_reply, arp.sender, &reply[..6]),
        (true, (OWN, [10, 0, 0, 9].into()), &PEER[..])
    );
    let elsewhere = Arp {
        target: [10, 0, 0, 8].into(),
        ..request
    };
    place
        .bridge
        .from_network(place.now, &mut elsewhere.frame([0xff; 6]), &mut place.out);
    assert!(place.out.frames.is_empty());

    let sender = Sender {
        ethernet: PEER,
        address: address(true, 1),
    };
    let mut question = answers::question(sender, address(true, 9), None);
    place
        .bridge
        .from_network(place.now, &mut question, &mut place.out);
    let (bytes, packet) = place.packet();
    assert_eq!((packet.target, packet.hops), (address(true, 1), 255));
    let said = Discovery::parse(&bytes[40..]).expect("an answer");
    assert_eq!((said.address, said.is_solicited), (Some(OWN), true));

    for (is_v6, kind, answered) in [(false, 8, 0), (true, 128, 129)] {
        let ping = [kind, 0, 0, 0, 1, 2, 0, 1, b'p', b'i', b'n', b'g'];
        let mut bytes = vec![0; 40];
        let number = if is_v6 { 58 } else { 1 };
        let at = write_header(
            &mut bytes,
            address(is_v6, 1),
            address(is_v6, 9),
            number,
            64,
            ping.len(),
        );
        bytes.truncate(at);
        bytes.extend(ping);
        let parsed = Packet::parse(&bytes).expect("a packet");
        let pseudo = if is_v6 {
            parsed.pseudo_sum(58)
        } else {
            Default::default()
        };
        let check = pseudo
            .combine(barewire_wire::checksum::sum(&bytes[at..]))
            .checksum();
        bytes[at + 2..at + 4].copy_from_slice(&check.to_be_bytes());
        place.network_sends(&bytes);
        let (bytes, pong) = place.packet();
        assert_eq!(
            pong.body,
            Body::Icmp {
                kind: answered,
                code: 0
            }
        );
        assert!(answers::icmp_is_right(&pong, &bytes));
        assert!(bytes.ends_with(&[1, 2, 0, 1, b'p', b'i', b'n', b'g']));
    }
}

/// A connection that is open, with the peer's address known: the client has sent up to 101, the peer up to 501.
fn opened(place: &mut Place) -> (LeaseId, SocketAddr) {
    let (id, local) = lease(place, Protocol::Tcp, false);
    place.client_sends(
        id,
        PacketHeader::default(),
        &packet(local, peer(false), Some((100, 0, SYN)), b""),
    );
    place.learn(false);
    place.segment();
    place.network_sends(&packet(
        peer(false),
        local,
        Some((500, 101, SYN | ACK)),
        b"",
    ));
    assert_eq!(place.out.messages.len(), 1);
    place.out.messages.clear();
    (id, local)
}

/// An ICMP message "too big" of the other host about a packet, with an MTU.
fn too_big(about: &[u8], mtu_bytes: u16) -> Vec<u8> {
    let parsed = Packet::parse(about).expect("a packet");
    let frame = answers::port_unreachable(PEER, OWN, &parsed, about);
    let mut bytes = frame[PACKET_AT..].to_vec();
    let outer = Packet::parse(&bytes).expect("a packet");
    let (number, kind) = match outer.source {
        IpAddr::V4(_) => (1, [3, 4, 0, 0]),
        IpAddr::V6(_) => (58, [2, 0, 0, 0]),
    };
    let icmp = &mut bytes[outer.header_bytes..];
    icmp[..4].copy_from_slice(&kind);
    icmp[6..8].copy_from_slice(&mtu_bytes.to_be_bytes());
    let mut sum = match outer.source {
        IpAddr::V4(_) => barewire_wire::checksum::Sum::default(),
        IpAddr::V6(_) => outer.pseudo_sum(number),
    };
    sum.update(icmp);
    icmp[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    bytes
}

#[test]
fn a_connection_hears_that_its_packets_are_too_big() {
    for is_v6 in [false, true] {
        let mut place = place(Takes::ALL);
        let (id, local) = lease(&mut place, Protocol::Tcp, is_v6);
        let (_, other) = lease(&mut place, Protocol::Tcp, is_v6);
        assert_ne!(local, other);
        let sent = packet(local, peer(is_v6), Some((7, 1, ACK)), b"long");
        let message = too_big(&sent, 1280);
        place.network_sends(&message);
        let (of, given) = place.out.messages.pop().expect("it was given");
        assert_eq!(of, id);
        let (header, bytes) = PacketHeader::parse(&given).expect("a message");
        assert_eq!((header.checksum, bytes), (Checksum::Verified, &message[..]));
        // About a packet to somebody else, of a port that nobody has, or with a wrong checksum.
        let elsewhere = SocketAddr::new(address(is_v6, 3), 80);
        let nobody = SocketAddr::new(local.ip(), 9);
        let mut broken = message;
        let last = broken.len() - 1;
        broken[last] ^= 1;
        for message in [
            too_big(&packet(local, elsewhere, Some((7, 1, ACK)), b""), 1280),
            too_big(&packet(nobody, peer(is_v6), Some((7, 1, ACK)), b""), 1280),
            broken,
        ] {
            place.network_sends(&message);
            assert!(place.out.messages.is_empty());
        }
    }
}

#[test]
fn a_client_hears_that_nobody_has_the_address() {
    for is_v6 in [false, true] {
        let mut place = place(Takes::ALL);
        let (id, local) = lease(&mut place, Protocol::Tcp, is_v6);
        let syn = packet(local, peer(is_v6), Some((7, 0, SYN)), b"");
        place.client_sends(id, PacketHeader::default(), &syn);
        for _ in 0..2 {
            place.now = place.now.saturating_add(Duration::from_s(1));
            place.bridge.handle_time(place.now, &mut place.out);
            assert!(place.out.messages.is_empty());
        }
        place.now = place.now.saturating_add(Duration::from_s(1));
        place.bridge.handle_time(place.now, &mut place.out);
        let (of, given) = place.out.messages.pop().expect("it is told");
        assert!(of == id && place.out.messages.is_empty());
        let (header, bytes) = PacketHeader::parse(&given).expect("a message");
        let icmp = Packet::parse(bytes).expect("a packet");
        let said = if is_v6 { (1, 3) } else { (3, 1) };
        assert!(matches!(icmp.body, Body::Icmp { kind, code } if (kind, code) == said));
        assert!(answers::icmp_is_right(&icmp, bytes));
        assert_eq!(
            (header.checksum, icmp.target),
            (Checksum::Verified, local.ip())
        );
        assert_eq!(bytes[icmp.header_bytes + 8..], syn);
        // Of one that is no more, nobody is told.
        place.client_sends(id, PacketHeader::default(), &syn);
        place.bridge.end(place.now, id, &mut place.out);
        for _ in 0..3 {
            place.now = place.now.saturating_add(Duration::from_s(1));
            place.bridge.handle_time(place.now, &mut place.out);
        }
        assert!(place.out.messages.is_empty());
    }
}

#[test]
fn a_client_that_goes_resets_its_peer() {
    let mut place = place(Takes::ALL);
    let (id, local) = opened(&mut place);
    place.bridge.end(place.now, id, &mut place.out);
    let reset = place.segment();
    assert_eq!(
        (reset.flags, reset.sequence, reset.acknowledgment),
        (RST | ACK, 101, 501)
    );
    // The peer had more: it answers a wrong number with an acknowledgment, and gets the right one.
    place.network_sends(&packet(peer(false), local, Some((501, 90, ACK)), b""));
    let reset = place.segment();
    assert_eq!((reset.flags, reset.sequence), (RST, 90));
    place.network_sends(&packet(peer(false), local, Some((501, 0, RST)), b""));
    assert!(place.out.frames.is_empty());
    let same = Ask {
        local_port: local.port(),
        ..Ask::connect(Protocol::Tcp, peer(false))
    };
    assert_eq!(
        place.bridge.grant(5, &same),
        Err(Refusal::TimeWait(local.port()))
    );
    place.now = place.now.saturating_add(Duration::from_s(60));
    place.bridge.handle_time(place.now, &mut place.out);
    assert!(place.bridge.grant(5, &same).is_ok());
}

#[test]
fn an_orderly_end_waits_and_answers_a_fin_that_comes_again() {
    let mut place = place(Takes::ALL);
    let (id, local) = opened(&mut place);
    place.client_sends(
        id,
        PacketHeader::default(),
        &packet(local, peer(false), Some((101, 501, ACK | FIN)), b""),
    );
    place.segment();
    let fin = packet(peer(false), local, Some((501, 102, ACK | FIN)), b"");
    place.network_sends(&fin);
    place.bridge.end(place.now, id, &mut place.out);
    assert!(place.out.frames.is_empty(), "no RST");
    place.network_sends(&fin);
    let answer = place.segment();
    assert_eq!(
        (answer.flags, answer.sequence, answer.acknowledgment),
        (ACK, 102, 502)
    );
    place.network_sends(&packet(peer(false), local, Some((502, 102, ACK)), b""));
    assert!(place.out.frames.is_empty());
    assert_eq!(place.bridge.counters().resets_sent, 0);
}

#[test]
fn a_server_gets_what_opens_a_connection() {
    let mut place = place(Takes::ALL);
    let (server, granted) = place
        .bridge
        .grant(5, &Ask::listen(Protocol::Tcp, 8080, false))
        .expect("a port");
    let syn = packet(peer(false), granted.local, Some((500, 0, SYN)), b"");
    place.network_sends(&syn);
    assert_eq!(
        place.out.messages.remove(0),
        (
            server,
            [&PacketHeader::default().to_bytes()[..], &syn].concat()
        )
    );
    // What belongs to no connection is not the server's.
    place.network_sends(&packet(
        peer(false),
        granted.local,
        Some((500, 9, ACK)),
        b"",
    ));
    assert_eq!(place.segment().flags, RST);
    let ask = Ask {
        local_port: 8080,
        ..Ask::connect(Protocol::Tcp, peer(false))
    };
    let (id, _) = place.bridge.grant(5, &ask).expect("the connection");
    place.client_sends(
        id,
        PacketHeader::default(),
        &packet(granted.local, peer(false), Some((900, 501, SYN | ACK)), b""),
    );
    place.learn(false);
    assert_eq!(place.segment().acknowledgment, 501);
    // From now on the server has no part in it.
    place.client_sends(
        server,
        PacketHeader::default(),
        &packet(granted.local, peer(false), Some((901, 501, RST)), b""),
    );
    assert_eq!(place.bridge.counters().client_target, 1);
    place.network_sends(&packet(
        peer(false),
        granted.local,
        Some((501, 901, ACK)),
        b"",
    ));
    assert_eq!(place.out.messages[0].0, id);
}

#[test]
fn large_packets_are_cut_where_the_device_or_the_client_takes_none() {
    let payload: Vec<u8> = (0..6000_u16).map(|at| at as u8).collect();
    for takes in [Takes::ALL, Takes::NOTHING] {
        let mut place = place(takes);
        let (id, local) = opened(&mut place);
        let large = packet(local, peer(false), Some((101, 501, ACK)), &payload);
        let open = PacketHeader {
            checksum: Checksum::Open {
                start: 20,
                offset: 16,
            },
            segment_bytes: 1448,
        };
        place.client_sends(id, open, &large);
        assert_eq!(
            place.out.frames.len(),
            if takes == Takes::ALL { 1 } else { 5 }
        );
        let mut together = Vec::new();
        for frame in &place.out.frames {
            assert_eq!(frame[1] == 1, takes == Takes::ALL);
            let packet = Packet::parse(&frame[PACKET_AT..]).expect("a packet");
            assert!(takes == Takes::ALL || is_right(&packet, &frame[PACKET_AT..]));
            together.extend_from_slice(&frame[PACKET_AT + 40..]);
        }
        assert_eq!(together, payload);
        place.client_sends(
            id,
            PacketHeader {
                segment_bytes: 1461,
                ..open
            },
            &large,
        );
        assert_eq!(place.bridge.counters().client_offload, 1);
    }
    for takes in [Takes::ALL, Takes::NOTHING] {
        let mut place = place(Takes::ALL);
        let ask = Ask {
            takes,
            ..Ask::connect(Protocol::Tcp, peer(false))
        };
        let (id, granted) = place.bridge.grant(5, &ask).expect("a lease");
        let large = packet(peer(false), granted.local, Some((501, 101, ACK)), &payload);
        let mut frame = framed(OWN, PEER, &large);
        frame[..2].copy_from_slice(&[1, 1]);
        for (at, word) in [(4, 1448_u16), (6, 34), (8, 16)] {
            frame[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        place
            .bridge
            .from_network(place.now, &mut frame, &mut place.out);
        let mut together = Vec::new();
        for (lease, message) in &place.out.messages {
            let (header, bytes) = PacketHeader::parse(message).expect("a packet");
            assert_eq!(
                (*lease, header.segment_bytes != 0),
                (id, takes == Takes::ALL)
            );
            together.extend_from_slice(&bytes[40..]);
        }
        assert_eq!(
            (together == payload, place.out.messages.len()),
            (true, if takes == Takes::ALL { 1 } else { 5 })
        );
    }
}

proptest! {
    /// Whatever comes from both sides: nothing panics, and a message only goes to a lease whose packet it carries.
    #[test]
    fn any_frames_and_messages_stay_in_their_lanes(
        inputs in prop::collection::vec((0_u8..5, any::<(usize, u8)>(), any::<[u8; FRAME_HEADER_BYTES]>(), 0_u8..64), 0..60),
    ) {
        let mut place = place(Takes::NOTHING);
        let (tcp, local) = opened(&mut place);
        let (udp, local_udp) = lease(&mut place, Protocol::Udp, true);
        for (what, (at, change), kernel, flags) in inputs {
            let payload = vec![flags; usize::from(flags) * 50];
            let mut bytes = match what {
                0 => packet(peer(false), local, Some((501, 101, flags)), &payload),
                1 => packet(peer(true), local_udp, None, &payload),
                2 => packet(local, peer(false), Some((101, 501, flags)), &payload),
                _ => packet(local_udp, peer(true), None, &payload),
            };
            let at = at % bytes.len();
            bytes[at] ^= change;
            if what < 2 {
                let mut frame = framed(OWN, PEER, &bytes);
                frame[..FRAME_HEADER_BYTES].copy_from_slice(&kernel);
                place.bridge.from_network(place.now, &mut frame, &mut place.out);
            } else {
                let mut buffer = vec![0; HEADROOM];
                buffer.extend_from_slice(&kernel[..8]);
                buffer[HEADROOM] = if flags & 1 == 0 { 4 } else { kernel[0] };
                buffer.extend_from_slice(&bytes);
                place.bridge.from_client(place.now, if what == 2 { tcp } else { udp }, &mut buffer, &mut place.out);
            }
            place.now = place.now.saturating_add(Duration::from_ms(u64::from(flags)));
            place.bridge.handle_time(place.now, &mut place.out);
        }
        for (lease, message) in &place.out.messages {
            let (_, bytes) = PacketHeader::parse(message).expect("a packet");
            let packet = Packet::parse(bytes).expect("a packet");
            prop_assert_eq!(packet.total_bytes, bytes.len());
            let expected = if *lease == tcp { (peer(false), local) } else { (peer(true), local_udp) };
            if let Some((_, source_port, target_port)) = packet.ports() {
                let ends = (SocketAddr::new(packet.source, source_port), SocketAddr::new(packet.target, target_port));
                prop_assert_eq!(ends, expected);
            }
        }
        for frame in &place.out.frames {
            prop_assert!(frame.len() <= PACKET_AT + 1500);
            prop_assert_eq!(&frame[FRAME_HEADER_BYTES + 6..FRAME_HEADER_BYTES + 12], &OWN[..]);
            if let Ok(packet) = Packet::parse(&frame[PACKET_AT..]) {
                prop_assert!(packet.source == local.ip() || packet.source == local_udp.ip());
            }
        }
    }
}
