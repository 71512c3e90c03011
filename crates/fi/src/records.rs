//! What two endpoints say to each other: each record is one message of the connection between them.
//!
//! All numbers are little-endian. Each record begins with 16 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind |
//! | 1 | flags: bit 0, the message has data beside it; bit 1, it has a tag |
//! | 2..4 | zero |
//! | 4..8 | the data beside a message (`Whole`, `Long`); an error number or 0 (`Done`) |
//! | 8..16 | the tag of a message (`Whole`, `Long`); the number of a send (`Done`, `Pull`) or of a receive (`Piece`) |
//!
//! | kind | who sends it | then follow |
//! |---|---|---|
//! | 1 `Whole` | the sender of a message | the message |
//! | 2 `Long` | the sender of a message that is long, or whose delivery it wants to know | number of the send, length, address, address of the mark, mark: 8 bytes each |
//! | 3 `Done` | the receiver, when it has a long message | |
//! | 4 `Pull` | the receiver, when it can not read the sender's memory | number of the receive, bytes wanted: 8 bytes each |
//! | 5 `Piece` | the sender, after `Pull` or `Read`; in order | the bytes |
//! | 6 `Write` | who writes into the receiver's memory | key and address: 8 bytes each; the bytes |
//! | 7 `LongWrite` | the same, if they are many | key, address, and as for `Long` but for the number: 8 bytes each |
//! | 8 `Read` | who reads from the receiver's memory | key, address, length: 8 bytes each |
//! | 9 `Answer` | who has that memory, if no pieces come | |
//! | 10 `Atomic` | who has the receiver change its memory | key and address: 8 bytes each; elements to change it with, and as many to compare with |
//!
//! `Write` and `LongWrite` have the number of the write where a message has its tag, and are answered with `Done`. `Read`
//! and `Answer` have the number of the read there; `Answer` has the error number where `Done` has it. `Atomic` has there an
//! operation (1 byte), a type (1), and flags (1): bit 0, the old elements are wanted; bit 1, some to compare with come along.
//! It is answered as `Read` is if they are wanted, and as `Write` if not.
//!
//! A *mark* is a random number in the sender's memory. The receiver reads it before it trusts that it reads the memory
//! of the process that it means. An address of 0 says that the message lies in several places, and has to be pulled.

use crate::arithmetic::Kind;
use crate::regions::Place;

/// The bytes that every record begins with.
pub(crate) const HEAD_BYTES: usize = 16;
/// The longest record without the bytes of a message. Those of messages have at most 56 bytes, which with the queue's own
/// header fill one line.
pub(crate) const RECORD_BYTES_MAX: usize = HEAD_BYTES + 6 * 8;
/// The bytes of `Write` in front of those that are written.
pub(crate) const WRITE_HEAD_BYTES: usize = HEAD_BYTES + 2 * 8;

const WHOLE: u8 = 1;
const LONG: u8 = 2;
const DONE: u8 = 3;
const PULL: u8 = 4;
const PIECE: u8 = 5;
const WRITE: u8 = 6;
const LONG_WRITE: u8 = 7;
const READ: u8 = 8;
const ANSWER: u8 = 9;
const ATOMIC: u8 = 10;

const HAS_DATA: u8 = 1;
const HAS_TAG: u8 = 2;

/// What is said about a message besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Its tag, if it is a tagged message.
    pub(crate) tag: Option<u64>,
    /// The data beside it, if there is any.
    pub(crate) data: Option<u32>,
}

impl Label {
    fn flags(self) -> u8 {
        u8::from(self.data.is_some()) * HAS_DATA + u8::from(self.tag.is_some()) * HAS_TAG
    }

    /// The beginning of a record that is about such a message.
    #[inline]
    fn head_of(self, kind: u8) -> [u8; HEAD_BYTES] {
        let data = self.data.unwrap_or_default();
        head(kind, self.flags(), data, self.tag.unwrap_or_default())
    }

    /// The beginning of a `Whole` record: the message follows.
    #[inline]
    pub(crate) fn head(self) -> [u8; HEAD_BYTES] {
        self.head_of(WHOLE)
    }
}

/// Where a long message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Long {
    /// The number of the send, at the sender.
    pub(crate) send: u64,
    pub(crate) len_bytes: u64,
    /// Where it lies in the sender's memory; 0: in several places.
    pub(crate) address: u64,
    pub(crate) mark_address: u64,
    pub(crate) mark: u64,
}

/// A record. The bytes that follow `Whole` and `Piece` are not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Whole(Label),
    Long(Label, Long),
    Done {
        send: u64,
        error: u32,
    },
    Pull {
        send: u64,
        receive: u64,
        wanted_bytes: u64,
    },
    Piece {
        receive: u64,
    },
    Write {
        send: u64,
        data: Option<u32>,
        place: Place,
    },
    LongWrite {
        data: Option<u32>,
        place: Place,
        long: Long,
    },
    Read {
        receive: u64,
        place: Place,
        len_bytes: u64,
    },
    Answer {
        receive: u64,
        error: u32,
    },
    Atomic {
        number: u64,
        kind: Kind,
        wants_old: bool,
        compares: bool,
        place: Place,
    },
}

impl Record {
    /// Writes it, and returns its length in bytes.
    #[inline]
    pub(crate) fn write(&self, into: &mut [u8; RECORD_BYTES_MAX]) -> usize {
        let (head, words): (_, &[u64]) = match self {
            Record::Whole(label) => (label.head(), &[]),
            Record::Long(label, long) => (
                label.head_of(LONG),
                &[
                    long.send,
                    long.len_bytes,
                    long.address,
                    long.mark_address,
                    long.mark,
                ],
            ),
            Record::Done { send, error } => (head(DONE, 0, *error, *send), &[]),
            Record::Pull {
                send,
                receive,
                wanted_bytes,
            } => (head(PULL, 0, 0, *send), &[*receive, *wanted_bytes]),
            Record::Piece { receive } => (head(PIECE, 0, 0, *receive), &[]),
            Record::Write { send, data, place } => {
                (with_data(WRITE, *data, *send), &[place.key, place.address])
            }
            Record::LongWrite { data, place, long } => (
                with_data(LONG_WRITE, *data, long.send),
                &[
                    place.key,
                    place.address,
                    long.len_bytes,
                    long.address,
                    long.mark_address,
                    long.mark,
                ],
            ),
            Record::Read {
                receive,
                place,
                len_bytes,
            } => (
                head(READ, 0, 0, *receive),
                &[place.key, place.address, *len_bytes],
            ),
            Record::Answer { receive, error } => (head(ANSWER, 0, *error, *receive), &[]),
            Record::Atomic {
                number,
                kind,
                wants_old,
                compares,
                place,
            } => {
                let flags = u8::from(*wants_old) + 2 * u8::from(*compares);
                let low = u32::from_le_bytes([kind.op, kind.datatype, flags, 0]);
                (head(ATOMIC, 0, low, *number), &[place.key, place.address])
            }
        };
        into[..HEAD_BYTES].copy_from_slice(&head);
        for (at, word) in words.iter().enumerate() {
            into[HEAD_BYTES + 8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        }
        HEAD_BYTES + 8 * words.len()
    }

    /// Reads it from the first bytes of a message of `len_bytes`; `None` if it is none.
    #[inline]
    pub(crate) fn read(first: &[u8; RECORD_BYTES_MAX], len_bytes: usize) -> Option<Record> {
        let word = |at: usize| {
            let bytes = first[HEAD_BYTES + 8 * at..][..8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        if len_bytes < HEAD_BYTES || first[2..4] != [0, 0] {
            return None;
        }
        let (kind, flags) = (first[0], first[1]);
        let low = u32::from_le_bytes(first[4..8].try_into().expect("four bytes"));
        let high = u64::from_le_bytes(first[8..16].try_into().expect("eight bytes"));
        let label = Label {
            tag: (flags & HAS_TAG != 0).then_some(high),
            data: (flags & HAS_DATA != 0).then_some(low),
        };
        let words = (len_bytes - HEAD_BYTES) / 8;
        match kind {
            WHOLE => Some(Record::Whole(label)),
            LONG if words >= 5 => {
                let long = Long {
                    send: word(0),
                    len_bytes: word(1),
                    address: word(2),
                    mark_address: word(3),
                    mark: word(4),
                };
                Some(Record::Long(label, long))
            }
            DONE => Some(Record::Done {
                send: high,
                error: low,
            }),
            PULL if words >= 2 => Some(Record::Pull {
                send: high,
                receive: word(0),
                wanted_bytes: word(1),
            }),
            PIECE => Some(Record::Piece { receive: high }),
            WRITE | LONG_WRITE | READ | ANSWER | ATOMIC => {
                read_remote(kind, words, label.data, (low, high), word)
            }
            _ => None,
        }
    }
}

/// Reads a record about memory that peers read and write.
fn read_remote(
    kind: u8,
    words: usize,
    data: Option<u32>,
    (low, high): (u32, u64),
    word: impl Fn(usize) -> u64,
) -> Option<Record> {
    let place = || Place {
        key: word(0),
        address: word(1),
    };
    match kind {
        WRITE if words >= 2 => Some(Record::Write {
            send: high,
            data,
            place: place(),
        }),
        LONG_WRITE if words >= 6 => Some(Record::LongWrite {
            data,
            place: place(),
            long: Long {
                send: high,
                len_bytes: word(2),
                address: word(3),
                mark_address: word(4),
                mark: word(5),
            },
        }),
        READ if words >= 3 => Some(Record::Read {
            receive: high,
            place: place(),
            len_bytes: word(2),
        }),
        ANSWER => Some(Record::Answer {
            receive: high,
            error: low,
        }),
        ATOMIC if words >= 2 => {
            let [op, datatype, flags, _] = low.to_le_bytes();
            Some(Record::Atomic {
                number: high,
                kind: Kind { datatype, op },
                wants_old: flags & 1 != 0,
                compares: flags & 2 != 0,
                place: place(),
            })
        }
        _ => None,
    }
}

fn with_data(kind: u8, data: Option<u32>, high: u64) -> [u8; HEAD_BYTES] {
    let flags = u8::from(data.is_some()) * HAS_DATA;
    head(kind, flags, data.unwrap_or_default(), high)
}

#[inline]
fn head(kind: u8, flags: u8, low: u32, high: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    (head[0], head[1]) = (kind, flags);
    head[4..8].copy_from_slice(&low.to_le_bytes());
    head[8..].copy_from_slice(&high.to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records() -> impl Strategy<Value = Record> {
        let label = || {
            (any::<Option<u64>>(), any::<Option<u32>>()).prop_map(|(tag, data)| Label { tag, data })
        };
        let long =
            any::<[u64; 5]>().prop_map(|[send, len_bytes, address, mark_address, mark]| Long {
                send,
                len_bytes,
                address,
                mark_address,
                mark,
            });
        prop_oneof![
            label().prop_map(Record::Whole),
            (label(), long).prop_map(|(label, long)| Record::Long(label, long)),
            any::<(u64, u32)>().prop_map(|(send, error)| Record::Done { send, error }),
            any::<[u64; 3]>().prop_map(|[send, receive, wanted_bytes]| Record::Pull {
                send,
                receive,
                wanted_bytes
            }),
            any::<u64>().prop_map(|receive| Record::Piece { receive }),
            (any::<[u64; 3]>(), any::<Option<u32>>()).prop_map(|([send, key, address], data)| {
                let place = Place { key, address };
                Record::Write { send, data, place }
            }),
            (any::<[u64; 7]>(), any::<Option<u32>>()).prop_map(|(words, data)| {
                let [key, address, send, len_bytes, from, mark_address, mark] = words;
                let place = Place { key, address };
                let long = Long {
                    send,
                    len_bytes,
                    address: from,
                    mark_address,
                    mark,
                };
                Record::LongWrite { data, place, long }
            }),
            any::<[u64; 4]>().prop_map(|[receive, key, address, len_bytes]| Record::Read {
                receive,
                place: Place { key, address },
                len_bytes
            }),
            any::<(u64, u32)>().prop_map(|(receive, error)| Record::Answer { receive, error }),
            any::<([u64; 3], [u8; 2], [bool; 2])>().prop_map(|(words, kind, flags)| {
                let ([number, key, address], [datatype, op]) = (words, kind);
                Record::Atomic {
                    number,
                    kind: Kind { datatype, op },
                    wants_old: flags[0],
                    compares: flags[1],
                    place: Place { key, address },
                }
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in records()) {
            let mut bytes = [0; RECORD_BYTES_MAX];
            let len = record.write(&mut bytes);
            prop_assert_eq!(Record::read(&bytes, len), Some(record));
            prop_assert_eq!(Record::read(&bytes, HEAD_BYTES - 1), None);
        }

        #[test]
        fn no_bytes_panic(bytes in any::<[u8; 32]>(), kind in 0..12_u8, len in 0..100_usize) {
            let mut first = [0; RECORD_BYTES_MAX];
            first[..32].copy_from_slice(&bytes);
            first[0] = kind;
            let _ = Record::read(&first, len);
        }
    }
}
