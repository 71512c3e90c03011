//! Messages of clients of which the bridge sees only the beginning.

use super::*;

proptest! {
    /// A message of which the bridge sees only the beginning leaves as one that it sees as a whole, or is left alone.
    #[test]
    fn the_beginning_of_a_message_is_enough_or_changes_nothing(
        inputs in prop::collection::vec((any::<(u16, u8)>(), 0_u8..4, 0_u16..1600, 0_u8..64), 0..20),
        takes_all: bool,
    ) {
        let takes = if takes_all { Takes::ALL } else { Takes::NOTHING };
        let (mut whole, mut head) = (place(takes), place(takes));
        let (id, local) = opened(&mut whole);
        prop_assert_eq!(opened(&mut head), (id, local));
        for ((at, change), kind, segment_bytes, flags) in inputs {
            let payload = vec![flags; usize::from(flags) * 150];
            let mut message = match kind {
                0 => PacketHeader::default(),
                _ => PacketHeader { checksum: Checksum::Open { start: 20, offset: 16 }, segment_bytes },
            }.to_bytes().to_vec();
            message.extend(packet(local, peer(false), Some((101, 501, ACK | flags & 8)), &payload));
            // Often in a header.
            let at = usize::from(at) % if kind == 1 { message.len() } else { 80.min(message.len()) };
            message[at] ^= if kind == 2 { change } else { 0 };
            let (mut framed, len) = ([&[0; HEADROOM], &message[..]].concat(), message.len());
            let mut begins = framed[..framed.len().min(HEADROOM + HEAD_BYTES)].to_vec();
            whole.bridge.from_client(whole.now, id, &mut framed, &mut whole.out);
            let before = *head.bridge.counters();
            let rest = &message[len.min(HEAD_BYTES)..];
            let mut frames = Vec::new();
            let send = |begins: &[u8]| {
                frames.push([begins, rest].concat());
                FrameFate::Sent
            };
            if head.bridge.from_client_head(head.now, id, &mut begins, len, send, &mut head.out) {
                prop_assert_eq!(frames.len(), 1);
                head.out.frames.append(&mut frames);
            } else {
                prop_assert!(frames.is_empty());
                prop_assert_eq!(*head.bridge.counters(), before);
                let mut framed = [&[0; HEADROOM], &message[..]].concat();
                head.bridge.from_client(head.now, id, &mut framed, &mut head.out);
            }
            prop_assert_eq!(&head.out.frames, &whole.out.frames);
            prop_assert_eq!(head.bridge.counters(), whole.bridge.counters());
        }
        // The RST to the peer has the number that comes next.
        for place in [&mut whole, &mut head] {
            place.bridge.end(place.now, id, &mut place.out);
        }
        prop_assert_eq!(&head.out.frames, &whole.out.frames);
    }
}

#[test]
fn the_beginning_of_a_packet_is_read_as_the_whole() {
    for is_v6 in [false, true] {
        let local = SocketAddr::new(address(is_v6, 9), 4000);
        let bytes = packet(local, peer(is_v6), Some((101, 501, ACK)), &[7; 300]);
        let whole = Packet::parse(&bytes).expect("a packet");
        for len in whole.header_bytes + 20..bytes.len() {
            assert_eq!(Packet::parse_head(&bytes[..len], bytes.len()), Ok(whole));
            assert_eq!(Packet::parse(&bytes[..len]), Err(PacketFault::Short));
        }
        for len in 0..whole.header_bytes + 20 {
            let read = Packet::parse_head(&bytes[..len], bytes.len());
            assert_eq!(read, Err(PacketFault::Short));
        }
    }
}

#[test]
fn a_long_packet_leaves_by_its_beginning_once_its_neighbour_is_known() {
    for is_v6 in [false, true] {
        let mut place = place(Takes::ALL);
        let (id, local) = lease(&mut place, Protocol::Tcp, is_v6);
        let payload = [7; 6000];
        let large = packet(local, peer(is_v6), Some((101, 501, ACK)), &payload);
        let start = if is_v6 { 40 } else { 20 };
        let header = PacketHeader {
            checksum: Checksum::Open { start, offset: 16 },
            segment_bytes: 1000,
        };
        let message = [&header.to_bytes()[..], &large].concat();
        let mut sent = Vec::new();
        for is_known in [false, true] {
            let mut begins = [&[0; HEADROOM], &message[..HEAD_BYTES]].concat();
            let send = |begins: &[u8]| {
                sent.push([begins, &message[HEAD_BYTES..]].concat());
                FrameFate::NoRoom
            };
            let (bridge, out) = (&mut place.bridge, &mut place.out);
            let is_sent =
                bridge.from_client_head(place.now, id, &mut begins, message.len(), send, out);
            assert_eq!(is_sent, is_known);
            if !is_known {
                place.learn(is_v6);
            }
        }
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][PACKET_AT..], large);
        assert_eq!(sent[0][FRAME_HEADER_BYTES..][..6], PEER);
        assert_eq!(sent[0][1], if is_v6 { 4 } else { 1 });
        assert_eq!(place.bridge.counters().from_clients, 1);
        assert_eq!(place.bridge.counters().device_full, 1);
    }
}
