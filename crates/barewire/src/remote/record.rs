//! What two proxies say to each other, over an ordered stream of bytes.
//!
//! ```text
//! greeting (once, each way, before anything else; crate::remote::greeting)
//!
//! record (24 bytes of header, then the payload)
//! | offset | size | what                                                             |
//! |      0 |    1 | kind                                                             |
//! |      1 |    3 | zero                                                             |
//! |      4 |    4 | payload bytes                                                    |
//! |      8 |    4 | of what: see below                                               |
//! |     12 |    8 | where                                                            |
//! |     20 |    4 | number                                                           |
//!
//! kinds for connections; of what: a connection, by the number that the receiver of the record gave it; where: offset in
//! the receiver's region (4 bytes), offset of the header position behind the frame (4 bytes); number: of 2 and 3, how much
//! of the connection this side has stored, in lines of its ring since the beginning, the low half; else zero
//! | 1 Control | payload: a control message as between processes; all other fields zero    |
//! | 2 Frame   | payload: a frame of the ring from its header on, to be stored at offset    |
//! | 3 Word    | payload: 8 bytes, to be stored at offset: CREDIT or STATE                  |
//! | 4 Ping    | no payload: shows that this side is there. Connection: a number; offset: 0 |
//! |           | asks the other side to send it back at once with offset 1                  |
//!
//! kinds for apertures, to the owner; of what: an aperture, by its owner's number; where: an offset in it
//! | 5 Put     | payload: bytes to be stored. Number: 1 if that is a whole put, which fires tripwires, else 0 |
//! | 6 Fire    | payload: u64 length of a put that has come in pieces; fires tripwires. Number: zero          |
//! |           | never more than the pieces that have come for this aperture and not fired                     |
//! | 7 Get     | payload: u32 length of what is asked for. Number: ticket                                     |
//! | 8 Access  | payload: u64 operation, two u64 operands; to the word at the offset. Number: ticket          |
//! |           | operation 0 load, 1 store the first, 2 add the first, 3 replace the first by the second      |
//! | 9 Arm     | payload: u64 length, u32 tripwire: on the owner's stores. Number: ticket                     |
//! | 10 Disarm | no payload. Of what: a tripwire. Where, number: zero                                         |
//!
//! kinds for apertures, from the owner
//! | 11 Answer | of what: ticket. Where: 0 done, 1 the aperture is withdrawn, 2 no room for a tripwire,       |
//! |           | 3 no room for one at this place. Number: for 2, how many there may be                        |
//! |           | payload, if done: of a Get the bytes, of an Access u64 what the word was, of an Arm none     |
//! | 12 Fired  | of what: a tripwire. Payload: u64 how often it has fired since the last such record          |
//! ```
//! All numbers are little-endian, those of Access too; frames, words and bytes are in the byte order of both hosts, which is
//! the same (the greeting checks it).
//!
//! Records 5 to 10 are carried out in the order in which they come. Each of 7 to 9 is answered once, in that order. The
//! answers to what one side has asked for are at most [`ANSWER_BYTES_MAX`] at a time, each counted with [`OVERHEAD_BYTES`].
//! Whoever asks for more, for what lies outside an aperture or for an aperture that was not granted to it, breaks the
//! protocol. So does whoever answers what was not asked. An aperture that was withdrawn may be spoken of until it is
//! given back. Source: own design (`docs/decisions/0035`).
//!
//! [`ANSWER_BYTES_MAX`]: crate::links::far::ANSWER_BYTES_MAX
//! [`OVERHEAD_BYTES`]: crate::links::far::OVERHEAD_BYTES

use barewire_fabric::frame::{CREDIT, HEADER_BYTES, STATE};

use crate::links::far::PIECE_BYTES;
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
    Put,
    Fire,
    Get,
    Access,
    Arm,
    Disarm,
    Answer,
    Fired,
}

/// The kinds, by their numbers less 1.
const KINDS: [Kind; 12] = [
    Kind::Control,
    Kind::Frame,
    Kind::Word,
    Kind::Ping,
    Kind::Put,
    Kind::Fire,
    Kind::Get,
    Kind::Access,
    Kind::Arm,
    Kind::Disarm,
    Kind::Answer,
    Kind::Fired,
];

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub payload_bytes: usize,
    /// Of what: a connection, an aperture, a ticket, a tripwire.
    pub connection: u32,
    /// The halves of where.
    pub offset: usize,
    pub next_offset: usize,
    pub number: u32,
}

impl Head {
    pub fn control(payload_bytes: usize) -> Head {
        Head {
            kind: Kind::Control,
            payload_bytes,
            connection: 0,
            offset: 0,
            next_offset: 0,
            number: 0,
        }
    }

    /// Of a kind for apertures.
    pub fn access(kind: Kind, of: u32, place: u64, number: u32, payload_bytes: usize) -> Head {
        Head {
            kind,
            payload_bytes,
            connection: of,
            offset: place as u32 as usize,
            next_offset: (place >> 32) as usize,
            number,
        }
    }

    /// Where, as one number.
    pub fn place(&self) -> u64 {
        (self.next_offset as u64) << 32 | self.offset as u64
    }

    /// `stored_lines`: of the connection.
    pub fn word(connection: u32, offset: usize, stored_lines: u32) -> Head {
        Head {
            kind: Kind::Word,
            payload_bytes: 8,
            connection,
            offset,
            next_offset: 0,
            number: stored_lines,
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
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        // Regions are at most 256 MiB, other payloads far shorter; halves of where are halves.
        let words = [
            kind.map_or(0, |at| at as u32 + 1),
            self.payload_bytes as u32,
            self.connection,
            self.offset as u32,
            self.next_offset as u32,
            self.number,
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
        let kind = (word(0) as usize)
            .checked_sub(1)
            .and_then(|at| KINDS.get(at));
        let kind = *kind.ok_or("record of an unknown kind")?;
        let head = Head {
            kind,
            payload_bytes: word(1) as usize,
            connection: word(2),
            offset: word(3) as usize,
            next_offset: word(4) as usize,
            number: word(5),
        };
        let is_length_right = match kind {
            Kind::Control => (1..=MESSAGE_BYTES_MAX).contains(&head.payload_bytes),
            Kind::Frame => head.payload_bytes >= HEADER_BYTES,
            Kind::Word | Kind::Fire | Kind::Fired => head.payload_bytes == 8,
            Kind::Ping | Kind::Disarm => head.payload_bytes == 0,
            Kind::Put => (1..=PIECE_BYTES).contains(&head.payload_bytes),
            Kind::Get => head.payload_bytes == 4,
            Kind::Access => head.payload_bytes == 24,
            Kind::Arm => head.payload_bytes == 12,
            Kind::Answer => head.payload_bytes <= PIECE_BYTES,
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
            number: 0,
        };
        let put = Head::access(Kind::Put, 3, u64::MAX - 5, 1, PIECE_BYTES);
        let fired = Head::access(Kind::Fired, 9, 0, 0, 8);
        for head in [
            frame,
            Head::control(1),
            Head::word(7, STATE, 5),
            Head::ping(3),
            Head::pong(u32::MAX),
            put,
            fired,
        ] {
            assert_eq!(Head::parse(&head.encode()), Ok(head));
        }
        assert_eq!(put.place(), u64::MAX - 5);
        for (at, kind) in KINDS.into_iter().enumerate() {
            let bytes = Head::access(kind, 0, 0, 0, 0).encode();
            assert_eq!(usize::from(bytes[0]), at + 1);
        }
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let refused = |head: Head| Head::parse(&head.encode()).unwrap_err();
        assert!(refused(Head::control(0)).contains("length"));
        assert!(refused(Head::control(MESSAGE_BYTES_MAX + 1)).contains("length"));
        assert!(refused(Head::word(1, 8, 0)).contains("may not store"));
        let neither = Head {
            offset: 2,
            ..Head::ping(1)
        };
        assert!(refused(neither).contains("neither"));
        for (kind, bytes) in [
            (Kind::Put, 0),
            (Kind::Put, PIECE_BYTES + 1),
            (Kind::Get, 8),
            (Kind::Access, 16),
            (Kind::Arm, 8),
            (Kind::Disarm, 4),
            (Kind::Answer, PIECE_BYTES + 1),
            (Kind::Fired, 0),
        ] {
            assert!(refused(Head::access(kind, 1, 0, 0, bytes)).contains("length"));
        }
        let mut bytes = Head::ping(1).encode();
        bytes[0] = 0;
        assert!(Head::parse(&bytes).unwrap_err().contains("unknown"));
        bytes[0] = 13;
        assert!(Head::parse(&bytes).unwrap_err().contains("unknown"));
    }
}
