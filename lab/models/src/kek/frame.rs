//! What goes over a link: a segment with its headers.

use barewire_proto::shaping::{ETHERTYPE_IPV4, Packet};

/// IPv4 and TCP headers with the timestamps of RFC 1323. Derived: 9000 - 8948.
pub const HEADER_BYTES: u64 = 52;
/// Ethernet header, which the queueing disciplines count.
const ETHERNET_BYTES: u64 = 14;
/// Frame check sequence.
const CHECK_BYTES: u64 = 4;
/// The shortest frame, its check sequence included. Source: IEEE 802.3.
const STORED_BYTES_MIN: u64 = 64;
/// Preamble and gap between frames, which only the wire sees.
const GAP_BYTES: u64 = 20;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Bytes of the stream from `seq` on.
    Data {
        /// Number of the first byte.
        seq: u64,
        /// Bytes.
        len: u64,
    },
    /// An acknowledgement without data.
    Ack {
        /// The next byte wanted.
        ack: u64,
        /// The first byte that may not be sent.
        edge: u64,
    },
    /// A packet of IP that a program outside the model sends.
    Packet {
        /// Its number.
        id: u64,
        /// Bytes, from the IP header on.
        len: u64,
        /// A segment of TCP without data: no program sends or reads it.
        is_ack: bool,
    },
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The host that sends it.
    pub from: u8,
    /// The host it is for.
    pub to: u8,
    /// The connection.
    pub flow: u8,
    /// What it carries.
    pub body: Body,
}

impl Frame {
    /// From the Ethernet header to the end of the data.
    #[must_use]
    pub const fn queued_bytes(&self) -> u64 {
        match self.body {
            Body::Data { len, .. } => ETHERNET_BYTES + HEADER_BYTES + len,
            Body::Ack { .. } => ETHERNET_BYTES + HEADER_BYTES,
            Body::Packet { len, .. } => ETHERNET_BYTES + len,
        }
    }

    /// What is kept in a card or switch.
    #[must_use]
    pub const fn stored_bytes(&self) -> u64 {
        let bytes = self.queued_bytes() + CHECK_BYTES;
        // Frames of the streams are longer.
        match bytes < STORED_BYTES_MIN {
            true => STORED_BYTES_MIN,
            false => bytes,
        }
    }

    /// What it takes of the wire.
    #[must_use]
    pub const fn wire_bytes(&self) -> u64 {
        self.stored_bytes() + GAP_BYTES
    }

    /// The packet for a queueing discipline: an IPv4 header to 10.0.0.`to`.
    #[must_use]
    pub fn packet(&self, id: u64) -> Packet {
        let mut bytes = vec![0_u8; 20];
        bytes[0] = 0x45;
        bytes[12..16].copy_from_slice(&[10, 0, 0, self.from]);
        bytes[16..20].copy_from_slice(&[10, 0, 0, self.to]);
        Packet {
            id,
            len_bytes: self.queued_bytes() as u32,
            protocol: ETHERTYPE_IPV4,
            bytes,
        }
    }
}
