//! A bridge to ordinary hosts under any frames of the network and any messages of its clients: nothing panics, a client
//! gets only packets of its lease, and only packets with an address of the bridge leave.
#![no_main]

use std::net::{IpAddr, SocketAddr};

use barewire_proto::edge::answers::{ETHER_V4, PACKET_AT};
use barewire_proto::edge::bridge::{Bridge, FrameFate, HEAD_BYTES, HEADROOM, Output};
use barewire_proto::edge::flow::HashKey;
use barewire_proto::edge::leases::{LeaseId, Limits};
use barewire_proto::edge::message::{Answer, Ask, PACKET_HEADER_BYTES, PacketHeader, Protocol, Takes};
use barewire_proto::edge::network::{Attachment, Network};
use barewire_proto::edge::packet::Packet;
use barewire_units::{Duration, Instant, Rng};
use libfuzzer_sys::fuzz_target;

const OWN: [u8; 6] = [2, 0, 0, 0, 0, 9];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Checks what the bridge puts out.
struct Out {
    own: [IpAddr; 2],
    leases: Vec<(LeaseId, Protocol, SocketAddr)>,
}

impl Output for Out {
    fn frame(&mut self, frame: &[u8]) -> FrameFate {
        assert!(frame.len() >= PACKET_AT && frame[16..22] == OWN);
        if frame[22..24] == ETHER_V4.to_be_bytes() {
            let packet = Packet::parse(&frame[PACKET_AT..]).expect("a packet");
            assert!(self.own.contains(&packet.source));
        }
        FrameFate::Sent
    }

    fn message(&mut self, lease: LeaseId, message: &[u8]) -> bool {
        let (_, bytes) = PacketHeader::parse(message).expect("a message");
        let packet = Packet::parse(bytes).expect("a packet");
        let (_, protocol, local) = self.leases.iter().find(|it| it.0 == lease).expect("a live lease");
        if let Some((of, _, port)) = packet.ports() {
            assert_eq!((of, packet.target, port), (*protocol, local.ip(), local.port()));
        }
        true
    }
}

fn bridge() -> Bridge {
    let v4 = Network { address: [10, 0, 0, 9].into(), prefix: 24, gateway: Some([10, 0, 0, 1].into()) };
    let v6 = Network { address: "fd00::9".parse().expect("an address"), prefix: 64, gateway: None };
    let at = Attachment { ethernet: OWN, v4: Some(v4), v6: Some(v6), mtu_bytes: 1500, takes: Takes::NOTHING };
    let limits = Limits { leases_max: 8, waits_max: 4, time_wait: Duration::from_s(2), ..Limits::default() };
    Bridge::new(at, limits, [HashKey::new([1, 2]), HashKey::new([3, 4])], Rng::from_seed(5))
}

fuzz_target!(|data: &[u8]| {
    if let Ok(ask) = Ask::parse(data) {
        assert_eq!(ask.to_bytes(), data);
    }
    if let Ok(answer) = Answer::parse(data) {
        assert_eq!(answer.to_bytes().as_ref(), data);
    }
    let own = ["10.0.0.9", "fd00::9"].map(|text| text.parse().expect("an address"));
    let (mut bridge, mut out) = (bridge(), Out { own, leases: Vec::new() });
    let (mut now, mut rest) = (Instant::ORIGIN, data);
    // Inputs: a kind, a length, and so many bytes.
    while let [kind, len, more @ ..] = rest {
        let (input, after) = more.split_at(usize::from(*len).min(more.len()));
        rest = after;
        match kind % 6 {
            // The kernel's header, the kind of frame, and what is in it.
            0 | 1 => {
                let mut frame = [&input[..input.len().min(10)], &[0; 10][input.len().min(10)..]].concat();
                frame.extend(OWN.iter().chain(&PEER));
                frame.extend(input.get(10..).unwrap_or_default());
                bridge.from_network(now, &mut frame, &mut out);
            }
            2 | 3 => {
                let Some(&(lease, ..)) = out.leases.get(usize::from(kind / 6) % out.leases.len().max(1)) else {
                    continue;
                };
                let mut framed = [&[0; HEADROOM], input].concat();
                if let Some(first) = framed.get_mut(HEADROOM).filter(|_| input.len() >= PACKET_HEADER_BYTES) {
                    *first = 4;
                }
                // As in the program: what is long enough is seen by its beginning first.
                let (len, own) = (framed.len() - HEADROOM, out.own);
                let mut begins = framed[..framed.len().min(HEADROOM + HEAD_BYTES)].to_vec();
                let rest = &framed[begins.len()..];
                let send = |begins: &[u8]| {
                    let mut check = Out { own, leases: Vec::new() };
                    check.frame(&[begins, rest].concat())
                };
                let is_sent = bridge.from_client_head(now, lease, &mut begins, len, send, &mut Out { own, leases: Vec::new() });
                if !is_sent {
                    bridge.from_client(now, lease, &mut framed, &mut out);
                }
            }
            4 => {
                if let Some((id, granted)) = Ask::parse(input).ok().and_then(|ask| bridge.grant(u32::from(kind / 128), &ask).ok()) {
                    out.leases.push((id, granted.protocol, granted.local));
                }
            }
            _ => {
                now = now.saturating_add(Duration::from_ms(u64::from(*len) * 10));
                bridge.handle_time(now, &mut out);
                if kind % 4 == 1 && !out.leases.is_empty() {
                    let (id, ..) = out.leases.remove(0);
                    bridge.end(now, id, &mut out);
                }
            }
        }
        assert_eq!(bridge.leases().len(), out.leases.len());
        assert!(bridge.leases().waits() <= 4);
    }
});
