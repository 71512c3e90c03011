//! What two relays say to each other, over an ordered stream of bytes.
//!
//! ```text
//! greeting (once, each way, before anything else; crate::remote::greeting)
//!
//! record (24 bytes of header, then the payload)
//! | offset | size | what                                                             |
//! |      0 |    1 | kind                                                             |
//! |      1 |    3 | zero                                                             |
//! |      4 |    4 | payload bytes                                                    |
//! |      8 |    4 | connection, by the number that the receiver of the record gave it|
//! |     12 |    4 | offset in the receiver's region                                  |
//! |     16 |    4 | offset of the header position behind the frame                   |
//! |     20 |    4 | zero                                                             |
//!
//! kind
//! | 1 Control | payload: a control message as between processes; offsets zero             |
//! | 2 Frame   | payload: a frame of the ring from its header on, to be stored at offset    |
//! | 3 Word    | payload: 8 bytes, to be stored at offset: CREDIT or STATE                  |
//! | 4 Ping    | no payload: shows that this side is there. Connection: a number; offset: 0 |
//! |           | asks the other side to send it back at once with offset 1                  |
//! ```
//! All numbers are little-endian; frames and words are in the byte order of both hosts, which is the same (the greeting
//! checks it). Source: own design (`docs/decisions/0035`).

use barewire_fabric::frame::{CREDIT, HEADER_BYTES, STATE};

use crate::messages::control::MESSAGE_BYTES_MAX;

/// Bytes of a record's header.
pub(crate) const HEADER: usize = 24;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Control,
    Frame,
    Word,
    Ping,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub payload_bytes: usize,
    pub connection: u32,
    pub offset: usize,
    pub next_offset: usize,
}

impl Head {
    pub fn control(payload_bytes: usize) -> Head {
        Head {
            kind: Kind::Control,
            payload_bytes,
            connection: 0,
            offset: 0,
            next_offset: 0,
        }
    }

    pub fn word(connection: u32, offset: usize) -> Head {
        Head {
            kind: Kind::Word,
            payload_bytes: 8,
            connection,
            offset,
            next_offset: 0,
        }
    }

    pub fn ping(number: u32) -> Head {
        Head {
            kind: Kind::Ping,
            connection: number,
            ..Head::control(0)
        }
    }

    /// The answer to a ping.
    pub fn pong(number: u32) -> Head {
        Head {
            offset: 1,
            ..Head::ping(number)
        }
    }

    pub fn encode(&self) -> [u8; HEADER] {
        let kind: u32 = match self.kind {
            Kind::Control => 1,
            Kind::Frame => 2,
            Kind::Word => 3,
            Kind::Ping => 4,
        };
        // Regions are at most 256 MiB, control messages far shorter.
        let words = [
            kind,
            self.payload_bytes as u32,
            self.connection,
            self.offset as u32,
            self.next_offset as u32,
            0,
        ];
        let mut bytes = [0; HEADER];
        for (at, word) in words.into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The header, if it is one: lengths are checked by kind, offsets of words are those that may be stored, offsets of
    /// frames are not yet checked against anything.
    pub fn parse(bytes: &[u8; HEADER]) -> Result<Head, &'static str> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at * 4..at * 4 + 4]);
            u32::from_le_bytes(word)
        };
        let kind = match word(0) {
            1 => Kind::Control,
            2 => Kind::Frame,
            3 => Kind::Word,
            4 => Kind::Ping,
            _ => return Err("record of an unknown kind"),
        };
        let head = Head {
            kind,
            payload_bytes: word(1) as usize,
            connection: word(2),
            offset: word(3) as usize,
            next_offset: word(4) as usize,
        };
        let is_length_right = match kind {
            Kind::Control => (1..=MESSAGE_BYTES_MAX).contains(&head.payload_bytes),
            Kind::Frame => head.payload_bytes >= HEADER_BYTES,
            Kind::Word => head.payload_bytes == 8,
            Kind::Ping => head.payload_bytes == 0,
        };
        if !is_length_right {
            return Err("record of an impossible length");
        }
        if kind == Kind::Ping && head.offset > 1 {
            return Err("ping that is neither question nor answer");
        }
        if kind == Kind::Word && ![CREDIT, STATE].contains(&head.offset) {
            return Err("word that the other host may not store");
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let frame = Head {
            kind: Kind::Frame,
            payload_bytes: 8 + 17,
            connection: u32::MAX,
            offset: 192,
            next_offset: 256,
        };
        let pings = [Head::ping(3), Head::pong(u32::MAX)];
        for head in [frame, Head::control(1), Head::word(7, STATE)]
            .into_iter()
            .chain(pings)
        {
            assert_eq!(Head::parse(&head.encode()), Ok(head));
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let refused = |head: Head| Head::parse(&head.encode()).unwrap_err();
        assert!(refused(Head::control(0)).contains("length"));
        assert!(refused(Head::control(MESSAGE_BYTES_MAX + 1)).contains("length"));
        assert!(refused(Head::word(1, 8)).contains("may not store"));
        let neither = Head {
            offset: 2,
            ..Head::ping(1)
        };
        assert!(refused(neither).contains("neither"));
        let mut bytes = Head::ping(1).encode();
        bytes[0] = 5;
        assert!(Head::parse(&bytes).unwrap_err().contains("unknown"));
    }
}
