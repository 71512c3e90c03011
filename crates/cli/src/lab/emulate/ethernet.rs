//! Between the Ethernet of a TAP device and the IP of an emulated network.
//!
//! ```text
//! Ethernet  destination 6, source 6, type 2 (0x0800 IPv4, 0x0806 ARP)
//! ARP       hardware 2 (1), protocol 2 (0x0800), sizes 2 (6, 4), operation 2 (1 asks, 2 answers),
//!           sender 6 + 4, target 6 + 4
//! ```
//! The network has no Ethernet addresses. So a question for the address of a station is answered here,
//! in its place, with an Ethernet address that is made of its number.
//!
//! Source: RFC 826, RFC 894.

use std::net::Ipv4Addr;

/// Bytes before the packet.
pub const HEADER_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
/// What an ARP packet for IPv4 over Ethernet begins with: it asks.
const ARP_ASKS: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ARP_BYTES: usize = 28;
const IPV4_HEADER_BYTES: usize = 20;

/// The address of a station.
pub const fn address(station: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, (station + 1) as u8)
}

/// The station that has an address.
pub const fn station(address: [u8; 4]) -> Option<u16> {
    match address {
        [10, 0, 0, 0 | 255] => None,
        [10, 0, 0, host] => Some(host as u16 - 1),
        _ => None,
    }
}

/// The Ethernet address that stands for a station: locally administered.
const fn hardware(station: u16) -> [u8; 6] {
    let [high, low] = station.to_be_bytes();
    [0x02, 0xba, 0x5e, 0, high, low]
}

/// What is in a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// A packet for a station.
    Packet { to: u16, packet: Vec<u8> },
    /// A question for the Ethernet address of a station: who asks, and the answer to it.
    Question { about: u16, answer: Vec<u8> },
    /// Nothing that an emulated network carries.
    Other,
}

/// Looks into a frame.
pub fn open(frame: &[u8]) -> Content {
    let Some((header, rest)) = frame.split_first_chunk::<HEADER_BYTES>() else {
        return Content::Other;
    };
    let kind = [header[12], header[13]];
    let found = match kind {
        IPV4 => packet(rest),
        ARP => question(rest),
        _ => None,
    };
    found.unwrap_or(Content::Other)
}

fn packet(rest: &[u8]) -> Option<Content> {
    let header = rest.first_chunk::<IPV4_HEADER_BYTES>()?;
    let bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || bytes < IPV4_HEADER_BYTES {
        return None;
    }
    let to = station([header[16], header[17], header[18], header[19]])?;
    // A short frame is filled up behind the packet.
    let packet = rest.get(..bytes)?.to_vec();
    Some(Content::Packet { to, packet })
}

fn question(rest: &[u8]) -> Option<Content> {
    let asks = rest.first_chunk::<ARP_BYTES>()?;
    if asks[..8] != ARP_ASKS {
        return None;
    }
    let (sender, target) = (&asks[8..18], [asks[24], asks[25], asks[26], asks[27]]);
    let about = station(target)?;
    let mut answer = Vec::with_capacity(HEADER_BYTES + ARP_BYTES);
    answer.extend_from_slice(&sender[..6]);
    answer.extend_from_slice(&hardware(about));
    answer.extend_from_slice(&ARP);
    answer.extend_from_slice(&ARP_ASKS[..7]);
    answer.push(2);
    answer.extend_from_slice(&hardware(about));
    answer.extend_from_slice(&target);
    answer.extend_from_slice(sender);
    Some(Content::Question { about, answer })
}

/// A packet in a frame for the kernel at a TAP device that has this Ethernet address.
pub fn wrap(kernel: [u8; 6], packet: &[u8], into: &mut Vec<u8>) {
    let sender = packet.get(12..16).and_then(|it| it.first_chunk::<4>());
    let from = sender.and_then(|it| station(*it)).unwrap_or(u16::MAX);
    into.clear();
    into.extend_from_slice(&kernel);
    into.extend_from_slice(&hardware(from));
    into.extend_from_slice(&IPV4);
    into.extend_from_slice(packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(to: [u8; 4], bytes: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(bytes)];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&bytes.to_be_bytes());
        packet[12..16].copy_from_slice(&[10, 0, 0, 3]);
        packet[16..20].copy_from_slice(&to);
        packet
    }

    #[test]
    fn a_packet_comes_out_as_it_went_in() {
        let packet = ip([10, 0, 0, 9], 33);
        let mut frame = Vec::new();
        wrap([1; 6], &packet, &mut frame);
        assert_eq!(frame[..12], [1, 1, 1, 1, 1, 1, 2, 0xba, 0x5e, 0, 0, 2]);
        frame.extend([0; 13]);
        assert_eq!(open(&frame), Content::Packet { to: 8, packet });
    }

    #[test]
    fn a_question_is_answered() {
        let mut frame = vec![0xff; 6];
        frame.extend([5; 6]);
        frame.extend(ARP);
        frame.extend(ARP_ASKS);
        frame.extend([5, 5, 5, 5, 5, 5, 10, 0, 0, 1]);
        frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        let Content::Question { about, answer } = open(&frame) else {
            panic!("a question");
        };
        assert_eq!((about, answer.len()), (1, 42));
        assert_eq!(answer[..12], [5, 5, 5, 5, 5, 5, 2, 0xba, 0x5e, 0, 0, 1]);
        assert_eq!(answer[20..22], [0, 2]);
        assert_eq!(answer[22..32], [2, 0xba, 0x5e, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(answer[32..], [5, 5, 5, 5, 5, 5, 10, 0, 0, 1]);
    }

    #[test]
    fn what_is_no_packet_for_a_station_is_left_alone() {
        let frame = |packet: &[u8]| {
            let mut frame = Vec::new();
            wrap([1; 6], packet, &mut frame);
            frame
        };
        let good = ip([10, 0, 0, 9], 40);
        for to in [
            [10, 0, 0, 0],
            [10, 0, 0, 255],
            [10, 0, 1, 2],
            [224, 0, 0, 1],
        ] {
            assert_eq!(open(&frame(&ip(to, 40))), Content::Other, "{to:?}");
        }
        for cut in 0..HEADER_BYTES + 40 {
            assert_eq!(open(&frame(&good)[..cut]), Content::Other, "{cut}");
        }
        let mut wrong = good.clone();
        wrong[0] = 0x65;
        assert_eq!(open(&frame(&wrong)), Content::Other);
        let mut wrong = good;
        wrong[3] = 19;
        assert_eq!(open(&frame(&wrong)), Content::Other);
    }
}
