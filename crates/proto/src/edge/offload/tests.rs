//! What is left open is completed as if it had never been open, and cut as if it had been sent in segments.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::packet::write_header;
use super::*;

fn addresses(is_v6: bool) -> [IpAddr; 2] {
    match is_v6 {
        true => ["fd00::1", "fd00::2"].map(|text| text.parse().expect("an address")),
        false => ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address")),
    }
}

/// A TCP packet with options of four bytes and an open checksum.
fn tcp(is_v6: bool, flags: u8, payload: &[u8]) -> (Vec<u8>, Packet) {
    let [source, target] = addresses(is_v6);
    let mut bytes = vec![0; 64];
    let behind = 24 + payload.len();
    let at = write_header(&mut bytes, source, target, 6, 64, behind);
    bytes.resize(at + 24, 0);
    bytes[at..at + 4].copy_from_slice(&[0, 80, 0x12, 0x34]);
    bytes[at + 4..at + 8].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
    bytes[at + 12] = 6 << 4;
    bytes[at + 13] = flags;
    bytes.extend_from_slice(payload);
    let packet = Packet::parse(&bytes).expect("a packet");
    let pseudo = packet.pseudo_sum(6).value();
    bytes[at + 16..at + 18].copy_from_slice(&pseudo.to_be_bytes());
    (bytes, packet)
}

fn open(packet: &Packet, segment_bytes: u16) -> PacketHeader {
    let checksum = Checksum::Open {
        start: packet.header_bytes as u16,
        offset: 16,
    };
    PacketHeader {
        checksum,
        segment_bytes,
    }
}

proptest! {
    #[test]
    fn segments_carry_what_the_large_packet_does(
        is_v6: bool, payload in prop::collection::vec(any::<u8>(), 1..5000), size in 1_u16..1500,
    ) {
        let flags = tcp_flags::ACK | tcp_flags::FIN | tcp_flags::PSH | tcp_flags::CWR;
        let (bytes, packet) = tcp(is_v6, flags, &payload);
        let header = open(&packet, size);
        prop_assert_eq!(check(&header, &packet), Ok(()));
        let (mut together, mut into) = (Vec::new(), vec![0; 1600]);
        let count = segments(&header, &packet);
        for number in 0..count {
            let len = write_segment(&header, &packet, &bytes, number, &mut into);
            let one = Packet::parse(&into[..len]).expect("a packet");
            let Body::Tcp { segment, .. } = one.body else { panic!("not TCP") };
            prop_assert!(is_right(&one, &into[..len]));
            prop_assert_eq!(one.total_bytes, len);
            prop_assert!(segment.payload_bytes >= 1 && segment.payload_bytes <= usize::from(size));
            let at = 0xffff_ff00_u32.wrapping_add(together.len() as u32);
            prop_assert_eq!(segment.sequence, at);
            let is_last = number + 1 == count;
            prop_assert_eq!(segment.has(tcp_flags::FIN) && segment.has(tcp_flags::PSH), is_last);
            prop_assert_eq!(segment.has(tcp_flags::CWR), number == 0);
            together.extend_from_slice(&into[len - segment.payload_bytes..len]);
        }
        prop_assert_eq!(together, payload);
    }

    #[test]
    fn the_kernel_header_comes_back(is_v6: bool, is_open: bool, size in 0_u16..2000) {
        let (_, packet) = tcp(is_v6, tcp_flags::ACK, &[1; 3000]);
        let mut header = open(&packet, size);
        if !is_open {
            header = PacketHeader::default();
        }
        prop_assert_eq!(from_kernel(&to_kernel(&header, &packet), &packet), Ok(header));
    }

    #[test]
    fn any_kernel_header_fits_or_is_an_error(is_v6: bool, bytes: [u8; FRAME_HEADER_BYTES]) {
        let (mut packet_bytes, packet) = tcp(is_v6, tcp_flags::ACK, &[1; 3000]);
        if let Ok(mut header) = from_kernel(&bytes, &packet) {
            let mut into = vec![0; 4000];
            for number in 0..segments(&header, &packet) {
                if header.segment_bytes != 0 {
                    write_segment(&header, &packet, &packet_bytes, number, &mut into);
                }
            }
            finish(&mut header, &packet, &mut packet_bytes, Takes::NOTHING);
        }
    }
}

#[test]
fn an_open_checksum_is_completed_if_need_be() {
    for is_v6 in [false, true] {
        let (mut bytes, packet) = tcp(is_v6, tcp_flags::ACK, b"odd");
        let mut header = open(&packet, 1000);
        assert_eq!(
            finish(&mut header, &packet, &mut bytes, Takes::ALL),
            Some(false)
        );
        assert_eq!(header, open(&packet, 0));
        assert!(!is_right(&packet, &bytes));
        assert_eq!(
            finish(&mut header, &packet, &mut bytes, Takes::NOTHING),
            Some(true)
        );
        assert_eq!(header, PacketHeader::default());
        assert!(is_right(&packet, &bytes));
        bytes[packet.header_bytes + 5] ^= 1;
        assert!(!is_right(&packet, &bytes));
    }
}

#[test]
fn a_large_packet_is_not_given_to_who_takes_none() {
    let (mut bytes, packet) = tcp(false, tcp_flags::ACK, &[7; 3000]);
    let mut header = open(&packet, 1000);
    let only_open = Takes {
        open_checksum: true,
        large_tcp: false,
    };
    assert_eq!(finish(&mut header, &packet, &mut bytes, only_open), None);
    assert_eq!(
        finish(&mut header, &packet, &mut bytes, Takes::ALL),
        Some(false)
    );
    assert_eq!(segments(&header, &packet), 3);
    let (_, syn) = tcp(false, tcp_flags::SYN, &[7; 3000]);
    assert_eq!(check(&open(&syn, 1000), &syn), Err(DoesNotFit));
}
