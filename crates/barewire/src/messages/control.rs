//! The messages on a link's control channel.
//!
//! One message per `SOCK_SEQPACKET` datagram, little-endian, at most [`MESSAGE_BYTES_MAX`].
//!
//! ```text
//! | u8 type | fields                                                     | descriptors   |
//! | 1 Hello    | u32 version, u64 x 2 node id, u32 flags, u32 link source | page, eventfd? |
//! | 2 Segment  | u32 number, u64 bytes                                    | memfd          |
//! | 3 Open     | u32 connection, region, u32 source, u64 message max,     |                |
//! |            | u16 + name, u16 + data                                   |                |
//! | 4 Accept   | u32 connection (of the opener), u32 own connection,      |                |
//! |            | region, u32 source, u64 message max                      |                |
//! | 5 Reject   | u32 connection (of the opener), u8 code, u16 + reason    |                |
//! | 6 Detach   | u32 connection (of the receiver of this message)         |                |
//! | 7 Abandon  | u32 connection (of the opener, who sends it)             |                |
//! | 8 Grant    | u32 connection (of the receiver), u32 aperture,          | memory, watch, |
//! |            | u64 cookie, u64 bytes, u32 tripwires, u8 rights,         | counts,        |
//! |            | u32 tripwires of the receiver on the sender's stores     | receiver's     |
//! | 9 Release  | u32 aperture (of the receiver)                           |                |
//! | 10 Revoke  | u32 aperture (of the sender)                             |                |
//! | 11 OutOfBand | u32 connection (of the receiver), u16 + data           |                |
//! | 12 Bye     |                                                          |                |
//! | 13 Wake    |                                                          |                |
//! region: u32 segment, u64 offset, u32 ring bytes
//! Reject of connection 2^32 - 1: of the whole link, which ends
//! ```
//! Source: own design (`docs/decisions/0001`).

use crate::config::{NAME_BYTES_MAX, OUT_OF_BAND_BYTES_MAX, REQUEST_DATA_BYTES_MAX};

/// Version of everything two sides must agree on: these messages and the layouts in
/// shared memory.
pub(crate) const VERSION: u32 = 5;
/// Longest control message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8192;
/// Hello flag: the sender's heavy fence is membarrier, so our light fence may be none.
pub(crate) const FLAG_MEMBARRIER: u32 = 1;

const REASON_BYTES_MAX: usize = 1024;

/// A connection's region in the sender's arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionRef {
    pub segment: u32,
    pub offset: u64,
    pub ring_bytes: u32,
}

/// The connection of a [`Message::Reject`] that ends the whole link.
pub(crate) const THE_LINK: u32 = u32::MAX;

/// Whether a message that begins with this byte has descriptors.
pub(crate) fn may_carry_descriptors(kind: u8) -> bool {
    matches!(kind, 1 | 2 | 8)
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RejectCode {
    /// By the application.
    Application = 0,
    /// No such name here (any more).
    NoSuchName = 1,
    /// By the listener's policy.
    Policy = 2,
    /// Too many requests or connections.
    Busy = 3,
    /// Another version of the protocol.
    Version = 4,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Hello {
        version: u32,
        node_id: [u64; 2],
        flags: u32,
        source: u32,
    },
    Segment {
        number: u32,
        len_bytes: u64,
    },
    Open {
        connection: u32,
        region: RegionRef,
        source: u32,
        message_bytes_max: u64,
        name: &'a str,
        data: &'a [u8],
    },
    Accept {
        connection: u32,
        own: u32,
        region: RegionRef,
        source: u32,
        message_bytes_max: u64,
    },
    Reject {
        connection: u32,
        code: RejectCode,
        reason: &'a str,
    },
    Detach {
        connection: u32,
    },
    Abandon {
        connection: u32,
    },
    Grant {
        connection: u32,
        aperture: u32,
        cookie: u64,
        len_bytes: u64,
        tripwires: u32,
        writable: bool,
        receiver_tripwires: u32,
    },
    Release {
        aperture: u32,
    },
    Revoke {
        aperture: u32,
    },
    OutOfBand {
        connection: u32,
        data: &'a [u8],
    },
    Bye,
    Wake,
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }
    fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn bytes(mut self, bytes: &[u8]) -> Self {
        // Callers have checked the length against limits far below 64 KiB.
        self.0
            .extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }
    fn region(self, region: &RegionRef) -> Self {
        self.u32(region.segment)
            .u64(region.offset)
            .u32(region.ring_bytes)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }
    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = usize::from(self.u16()?);
        if len > max {
            return None;
        }
        self.take(len)
    }
    fn text(&mut self, max: usize) -> Option<&'a str> {
        core::str::from_utf8(self.bytes(max)?).ok()
    }
    fn region(&mut self) -> Option<RegionRef> {
        Some(RegionRef {
            segment: self.u32()?,
            offset: self.u64()?,
            ring_bytes: self.u32()?,
        })
    }
}

impl<'a> Message<'a> {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let w = Writer(Vec::with_capacity(64));
        match self {
            Message::Hello {
                version,
                node_id,
                flags,
                source,
            } => w
                .u8(1)
                .u32(*version)
                .u64(node_id[0])
                .u64(node_id[1])
                .u32(*flags)
                .u32(*source),
            Message::Segment { number, len_bytes } => w.u8(2).u32(*number).u64(*len_bytes),
            Message::Open {
                connection,
                region,
                source,
                message_bytes_max,
                name,
                data,
            } => w
                .u8(3)
                .u32(*connection)
                .region(region)
                .u32(*source)
                .u64(*message_bytes_max)
                .bytes(name.as_bytes())
                .bytes(data),
            Message::Accept {
                connection,
                own,
                region,
                source,
                message_bytes_max,
            } => w
                .u8(4)
                .u32(*connection)
                .u32(*own)
                .region(region)
                .u32(*source)
                .u64(*message_bytes_max),
            Message::Reject {
                connection,
                code,
                reason,
            } => w
                .u8(5)
                .u32(*connection)
                .u8(*code as u8)
                .bytes(cut(reason, REASON_BYTES_MAX).as_bytes()),
            Message::Detach { connection } => w.u8(6).u32(*connection),
            Message::Abandon { connection } => w.u8(7).u32(*connection),
            Message::Grant {
                connection,
                aperture,
                cookie,
                len_bytes,
                tripwires,
                writable,
                receiver_tripwires,
            } => w
                .u8(8)
                .u32(*connection)
                .u32(*aperture)
                .u64(*cookie)
                .u64(*len_bytes)
                .u32(*tripwires)
                .u8(u8::from(*writable))
                .u32(*receiver_tripwires),
            Message::Release { aperture } => w.u8(9).u32(*aperture),
            Message::Revoke { aperture } => w.u8(10).u32(*aperture),
            Message::OutOfBand { connection, data } => w.u8(11).u32(*connection).bytes(data),
            Message::Bye => w.u8(12),
            Message::Wake => w.u8(13),
        }
        .0
    }

    /// Reads a message; `None` if it is none, or has bytes left over.
    pub fn parse(bytes: &'a [u8]) -> Option<Message<'a>> {
        let mut r = Reader(bytes);
        let message = match r.u8()? {
            1 => Message::Hello {
                version: r.u32()?,
                node_id: [r.u64()?, r.u64()?],
                flags: r.u32()?,
                source: r.u32()?,
            },
            2 => Message::Segment {
                number: r.u32()?,
                len_bytes: r.u64()?,
            },
            3 => Message::Open {
                connection: r.u32()?,
                region: r.region()?,
                source: r.u32()?,
                message_bytes_max: r.u64()?,
                name: r.text(NAME_BYTES_MAX)?,
                data: r.bytes(REQUEST_DATA_BYTES_MAX)?,
            },
            4 => Message::Accept {
                connection: r.u32()?,
                own: r.u32()?,
                region: r.region()?,
                source: r.u32()?,
                message_bytes_max: r.u64()?,
            },
            5 => Message::Reject {
                connection: r.u32()?,
                code: match r.u8()? {
                    1 => RejectCode::NoSuchName,
                    2 => RejectCode::Policy,
                    3 => RejectCode::Busy,
                    4 => RejectCode::Version,
                    _ => RejectCode::Application,
                },
                reason: r.text(REASON_BYTES_MAX)?,
            },
            6 => Message::Detach {
                connection: r.u32()?,
            },
            7 => Message::Abandon {
                connection: r.u32()?,
            },
            8 => Message::Grant {
                connection: r.u32()?,
                aperture: r.u32()?,
                cookie: r.u64()?,
                len_bytes: r.u64()?,
                tripwires: r.u32()?,
                writable: r.u8()? != 0,
                receiver_tripwires: r.u32()?,
            },
            9 => Message::Release { aperture: r.u32()? },
            10 => Message::Revoke { aperture: r.u32()? },
            11 => Message::OutOfBand {
                connection: r.u32()?,
                data: r.bytes(OUT_OF_BAND_BYTES_MAX)?,
            },
            12 => Message::Bye,
            13 => Message::Wake,
            _ => return None,
        };
        r.0.is_empty().then_some(message)
    }
}

/// The longest prefix of `text` of at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Message<'static>> {
        let region = RegionRef {
            segment: 1,
            offset: 64,
            ring_bytes: 4096,
        };
        vec![
            Message::Hello {
                version: VERSION,
                node_id: [1, 2],
                flags: 3,
                source: 4,
            },
            Message::Segment {
                number: 5,
                len_bytes: 6,
            },
            Message::Open {
                connection: 7,
                region,
                source: 8,
                message_bytes_max: 9,
                name: "name",
                data: b"data",
            },
            Message::Accept {
                connection: 10,
                own: 11,
                region,
                source: 12,
                message_bytes_max: 13,
            },
            Message::Reject {
                connection: 14,
                code: RejectCode::Busy,
                reason: "no",
            },
            Message::Detach { connection: 15 },
            Message::Abandon { connection: 16 },
            Message::Grant {
                connection: 17,
                aperture: 18,
                cookie: 19,
                len_bytes: 20,
                tripwires: 21,
                writable: true,
                receiver_tripwires: 30,
            },
            Message::Release { aperture: 22 },
            Message::Revoke { aperture: 23 },
            Message::OutOfBand {
                connection: 24,
                data: b"psst",
            },
            Message::Bye,
            Message::Wake,
        ]
    }

    #[test]
    fn messages_round_trip_and_no_prefix_is_a_message() {
        for message in samples() {
            let bytes = message.encode();
            assert_eq!(Message::parse(&bytes), Some(message));
            for len in 0..bytes.len() {
                assert_eq!(Message::parse(&bytes[..len]), None);
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(Message::parse(&longer), None);
        }
    }

    #[test]
    fn the_longest_message_fits() {
        let open = Message::Open {
            connection: 0,
            region: RegionRef {
                segment: 0,
                offset: 0,
                ring_bytes: 0,
            },
            source: 0,
            message_bytes_max: 0,
            name: &"n".repeat(NAME_BYTES_MAX),
            data: &vec![0; REQUEST_DATA_BYTES_MAX],
        };
        assert!(open.encode().len() <= MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let reason = "ä".repeat(2000);
        let message = Message::Reject {
            connection: 0,
            code: RejectCode::Application,
            reason: &reason,
        };
        let bytes = message.encode();
        let Some(Message::Reject { reason, .. }) = Message::parse(&bytes) else {
            panic!("not parsed");
        };
        assert_eq!(reason.len(), REASON_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn what_parses_encodes_to_what_parses(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(message) = Message::parse(&bytes) {
                let again = message.encode();
                prop_assert_eq!(Message::parse(&again), Some(message));
            }
        }
    }
}
