//! Entries that no well-behaved library writes, and those that the tests with programs do not
//! bring about.

use std::convert::Infallible;

use barewire_wire::capture::{Output, Reader};

use super::attached::{Entry, entries};
use super::tcp::Packets;

struct To(Vec<u8>);

impl Output for To {
    type Error = Infallible;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

const fn entry(kind: u32, position: u64, bytes: &[u8]) -> Entry<'_> {
    Entry {
        kind,
        connection: [7, 1],
        position,
        time_ns: 1,
        bytes,
    }
}

fn names() -> Vec<u8> {
    let mut names = vec![0; 56];
    for at in [10, 11, 28, 29] {
        names[at] = 0xff;
    }
    names[12..18].copy_from_slice(&[127, 0, 0, 1, 0, 80]);
    names[30..36].copy_from_slice(&[127, 0, 0, 1, 0, 81]);
    names
}

/// Sequence number behind that of the SYN, flags and length of the bytes, of each packet.
fn packets(given: &[Entry<'_>]) -> Vec<(u32, u8, usize)> {
    let mut packets = Packets::new(To(Vec::new())).unwrap();
    for entry in given {
        packets.add(entry).unwrap();
    }
    let mut first = [0; 2];
    let file = &packets.output().0;
    let one = |packet: &[u8]| {
        let number = u32::from_be_bytes(packet[24..28].try_into().unwrap());
        let whose = usize::from(packet[21] & 1);
        if packet[33] & 2 != 0 {
            first[whose] = number;
        }
        let header_bytes = 20 + usize::from(packet[32] >> 4) * 4;
        (
            number.wrapping_sub(first[whose]),
            packet[33],
            packet.len() - header_bytes,
        )
    };
    let all = Reader::new(file).map(|packet| packet.unwrap().data);
    all.map(one).collect()
}

#[test]
fn what_was_lost_is_a_gap_and_a_reset_is_told() {
    let names = names();
    let given = [
        entry(1, 0, &names),
        entry(2, 0, b"abc"),
        entry(2, 10, b"defg"),
        entry(4, 20, b""),
        entry(6, 0, b""),
        // Nothing follows.
        entry(3, 0, b"late"),
    ];
    let (syn, fin, reset) = (2, 0x11, 0x14);
    assert_eq!(
        packets(&given),
        [
            (0, syn, 0),
            (0, syn | 0x10, 0),
            (1, 0x10, 0),
            (1, 0x18, 3),
            (11, 0x18, 4),
            (21, fin, 0),
            (1, reset, 0),
        ]
    );
}

#[test]
fn what_makes_no_sense_is_passed_over() {
    let names = names();
    assert!(packets(&[entry(2, 0, b"of nobody")]).is_empty());
    assert!(packets(&[entry(1, 0, &names[..30])]).is_empty());
    let mut other = entry(3, 0, b"another use");
    other.connection = [7, 2];
    let opened = packets(&[entry(1, 0, &names)]).len();
    let given = [
        entry(1, 0, &names),
        other,
        entry(99, 0, b"?"),
        entry(1, 0, &names),
    ];
    assert_eq!(packets(&given).len(), opened);
}

#[test]
fn entries_that_are_cut_are_left_out() {
    let mut bytes = vec![0_u8; 256];
    bytes[12] = 70;
    assert_eq!(entries(&bytes).count(), 2);
    assert_eq!(entries(&bytes).next().unwrap().bytes.len(), 70);
    for len in 0..192 {
        assert_eq!(entries(&bytes[..len]).count(), 0);
    }
    bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(entries(&bytes).count(), 0);
}
