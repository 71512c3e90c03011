//! The headers of a segment as they stand on the line: LLC/SNAP, IPv4, TCP with the timestamp
//! option of RFC 1323. The data behind them are zeros.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | LLC/SNAP, EtherType 0x0800 (rfc2684) |
//! | 8..28 | IPv4, from 10.0.0.(1 + host) to another, protocol 6 |
//! | 28..60 | TCP: port 1024 + stream to port 5001 or back, two NOPs and the timestamps |
//!
//! The timestamp is the sender's clock in milliseconds. Its echo is zero: the model times
//! segments without it.

use barewire_units::Instant;
use barewire_wire::checksum;

/// Bytes in front of the data.
pub const HEADER_BYTES: usize = LLC_BYTES + IP_BYTES + TCP_BYTES;
const LLC_BYTES: usize = 8;
const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 32;
const PORT_FIRST: u16 = 1_024;
const PORT: u16 = 5_001;
const FLAGS_ACK: u8 = 0x10;

/// What the headers say.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub from: usize,
    pub to: usize,
    pub stream: usize,
    /// Whether it goes from the stream's sender to its receiver.
    pub from_sender: bool,
    pub sequence: u64,
    pub acknowledged: u64,
    /// As it stands in the header, shifted.
    pub window: u16,
    pub data_bytes: usize,
    pub now: Instant,
}

impl Header {
    /// The headers, with their checksums over data of zeros.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..LLC_BYTES].copy_from_slice(&[0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x00]);
        let (ip, tcp) = bytes[LLC_BYTES..].split_at_mut(IP_BYTES);
        let total = (IP_BYTES + TCP_BYTES + self.data_bytes) as u16;
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[6] = 0x40;
        ip[8] = 64;
        ip[9] = 6;
        ip[12..16].copy_from_slice(&address(self.from));
        ip[16..20].copy_from_slice(&address(self.to));
        let sum = checksum::checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        self.emit_tcp(tcp);
        let mut pseudo = Vec::from(&ip[12..20]);
        pseudo.extend([0, 6]);
        pseudo.extend(((TCP_BYTES + self.data_bytes) as u16).to_be_bytes());
        pseudo.extend_from_slice(tcp);
        let sum = checksum::checksum(&pseudo);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The headers and the data.
    pub fn to_packet(self) -> Vec<u8> {
        let mut bytes = self.to_bytes();
        bytes.resize(HEADER_BYTES + self.data_bytes, 0);
        bytes
    }

    fn emit_tcp(self, tcp: &mut [u8]) {
        let own = PORT_FIRST.wrapping_add(self.stream as u16);
        let (source, destination) = if self.from_sender {
            (own, PORT)
        } else {
            (PORT, own)
        };
        tcp[0..2].copy_from_slice(&source.to_be_bytes());
        tcp[2..4].copy_from_slice(&destination.to_be_bytes());
        tcp[4..8].copy_from_slice(&(self.sequence as u32).to_be_bytes());
        tcp[8..12].copy_from_slice(&(self.acknowledged as u32).to_be_bytes());
        tcp[12] = (TCP_BYTES as u8 / 4) << 4;
        tcp[13] = FLAGS_ACK;
        tcp[14..16].copy_from_slice(&self.window.to_be_bytes());
        tcp[20..24].copy_from_slice(&[1, 1, 8, 10]);
        let ms = self.now.since_origin().as_ms() as u32;
        tcp[24..28].copy_from_slice(&ms.to_be_bytes());
    }
}

fn address(host: usize) -> [u8; 4] {
    [10, 0, (host >> 8) as u8, (host as u8).wrapping_add(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_carry_good_checksums() {
        let header = Header {
            from: 1,
            to: 2,
            stream: 3,
            from_sender: false,
            sequence: 5_000_000_000,
            acknowledged: 7,
            window: 100,
            data_bytes: 14_336,
            now: Instant::ORIGIN,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), HEADER_BYTES);
        let ip = &bytes[8..28];
        assert!(checksum::sum(ip).is_valid());
        let mut segment = Vec::from(&ip[12..20]);
        segment.extend([0, 6]);
        segment.extend(((32 + 14_336) as u16).to_be_bytes());
        segment.extend_from_slice(&bytes[28..]);
        segment.resize(segment.len() + 14_336, 0);
        assert!(checksum::sum(&segment).is_valid());
        assert_eq!(&bytes[28..32], &[0x13, 0x89, 0x04, 0x03]);
    }
}
