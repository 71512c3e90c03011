//! What two VIs say to each other: the data of a request to connect, and records, each of which is one message of the
//! connection.
//!
//! All numbers are little-endian. Each record begins with 24 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind |
//! | 1 | flags: bit 0, there is immediate data |
//! | 2..4 | zero |
//! | 4..8 | immediate data (`Send`, `Write`), length in bytes (`Read`), bits of a status (`Refused`), else zero |
//! | 8..12 | how many receives the sender of the record has posted on this connection, modulo 2³² |
//! | 12..16 | memory handle at the receiver (`Write`, `Read`), else zero |
//! | 16..24 | address at the receiver (`Write`, `Read`), a number (`Done`, `Data`, `Refused`), else zero |
//!
//! | kind | what | then follow |
//! |---|---|---|
//! | 1 `Hello` | the first record of who accepts | the attributes of its VI: 8 bytes |
//! | 2 `Credit` | receives were posted | |
//! | 3 `Send` | a message | its bytes |
//! | 4 `Write` | an RDMA write | its bytes |
//! | 5 `Read` | a request for an RDMA read | |
//! | 6 `Data` | the answer to the read of this number | the bytes |
//! | 7 `Done` | all sends and writes up to this number are in memory: reliable reception only | |
//! | 8 `Refused` | the operation of this number failed here, and the connection ends | |
//!
//! Numbers count the records `Send`, `Write` and `Read` of a direction, from 1.
//!
//! The data of a request: `VIPL`, version, model (0 client, 1 peer), two zero bytes; the attributes of the VI; then two
//! addresses, the own one and the one that is asked for: device, length of the discriminator, discriminator in 16
//! bytes.
//!
//! | bytes of attributes | what |
//! |---|---|
//! | 0..2 | reliability level |
//! | 2, 3 | whether RDMA writes, and reads, are enabled: 0 or 1 |
//! | 4..8 | most bytes of a transfer |

use crate::address::{Address, DISCRIMINATOR_BYTES_MAX, Model};

/// The bytes that every record begins with.
pub(crate) const HEAD_BYTES: usize = 24;
/// Bytes of attributes.
pub(crate) const ATTRIBUTES_BYTES: usize = 8;
/// The longest beginning of a record that has to be read.
pub(crate) const FIRST_BYTES: usize = HEAD_BYTES + ATTRIBUTES_BYTES;

const MAGIC: [u8; 5] = *b"VIPL\x01";
const ADDRESS_BYTES: usize = 2 + DISCRIMINATOR_BYTES_MAX;
/// Bytes of the data of a request.
pub(crate) const REQUEST_BYTES: usize = 8 + ATTRIBUTES_BYTES + 2 * ADDRESS_BYTES;

const HELLO: u8 = 1;
const CREDIT: u8 = 2;
const SEND: u8 = 3;
const WRITE: u8 = 4;
const READ: u8 = 5;
const DATA: u8 = 6;
const DONE: u8 = 7;
const REFUSED: u8 = 8;

/// What one end tells the other of its VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) reliability: u16,
    pub(crate) rdma_write: bool,
    pub(crate) rdma_read: bool,
    pub(crate) transfer_bytes_max: u32,
}

impl Told {
    pub(crate) fn write(&self) -> [u8; ATTRIBUTES_BYTES] {
        let mut bytes = [0; ATTRIBUTES_BYTES];
        bytes[..2].copy_from_slice(&self.reliability.to_le_bytes());
        bytes[2] = self.rdma_write.into();
        bytes[3] = self.rdma_read.into();
        bytes[4..].copy_from_slice(&self.transfer_bytes_max.to_le_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Told> {
        let bytes: &[u8; ATTRIBUTES_BYTES] = bytes.try_into().ok()?;
        (bytes[2] <= 1 && bytes[3] <= 1).then(|| Told {
            reliability: u16::from_le_bytes([bytes[0], bytes[1]]),
            rdma_write: bytes[2] == 1,
            rdma_read: bytes[3] == 1,
            transfer_bytes_max: word(bytes, 4),
        })
    }
}

/// A record, without the bytes of messages and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Hello(Told),
    Credit,
    Send {
        immediate: Option<u32>,
    },
    Write {
        immediate: Option<u32>,
        handle: u32,
        address: u64,
    },
    Read {
        len_bytes: u32,
        handle: u32,
        address: u64,
    },
    Data {
        number: u64,
    },
    Done {
        number: u64,
    },
    Refused {
        number: u64,
        status: u32,
    },
}

impl Record {
    /// Its beginning, with the number of receives that the sender has posted.
    pub(crate) fn head(&self, posted: u32) -> [u8; HEAD_BYTES] {
        let flag = |immediate: &Option<u32>| u8::from(immediate.is_some());
        let (kind, flags, low, handle, high) = match self {
            Record::Hello(_) => (HELLO, 0, 0, 0, 0),
            Record::Credit => (CREDIT, 0, 0, 0, 0),
            Record::Send { immediate } => {
                (SEND, flag(immediate), immediate.unwrap_or_default(), 0, 0)
            }
            Record::Write {
                immediate,
                handle,
                address,
            } => {
                let low = immediate.unwrap_or_default();
                (WRITE, flag(immediate), low, *handle, *address)
            }
            Record::Read {
                len_bytes,
                handle,
                address,
            } => (READ, 0, *len_bytes, *handle, *address),
            Record::Data { number } => (DATA, 0, 0, 0, *number),
            Record::Done { number } => (DONE, 0, 0, 0, *number),
            Record::Refused { number, status } => (REFUSED, 0, *status, 0, *number),
        };
        let mut head = [0; HEAD_BYTES];
        (head[0], head[1]) = (kind, flags);
        head[4..8].copy_from_slice(&low.to_le_bytes());
        head[8..12].copy_from_slice(&posted.to_le_bytes());
        head[12..16].copy_from_slice(&handle.to_le_bytes());
        head[16..].copy_from_slice(&high.to_le_bytes());
        head
    }

    /// Reads it from the first bytes of a message of `len_bytes`, with the number of receives; `None` if it is none.
    pub(crate) fn read(first: &[u8; FIRST_BYTES], len_bytes: usize) -> Option<(Record, u32)> {
        let body_bytes = len_bytes.checked_sub(HEAD_BYTES)?;
        let (kind, flags) = (first[0], first[1]);
        let (low, posted, handle) = (word(first, 4), word(first, 8), word(first, 12));
        let high = u64::from(word(first, 16)) | u64::from(word(first, 20)) << 32;
        let immediate = (flags & 1 != 0).then_some(low);
        let has_body = matches!(kind, SEND | WRITE | DATA);
        let whole = match kind {
            HELLO => body_bytes == ATTRIBUTES_BYTES,
            _ => has_body || body_bytes == 0,
        };
        if first[2..4] != [0, 0] || flags > 1 || !whole {
            return None;
        }
        let record = match kind {
            HELLO => Record::Hello(Told::read(&first[HEAD_BYTES..])?),
            CREDIT => Record::Credit,
            SEND => Record::Send { immediate },
            WRITE => Record::Write {
                immediate,
                handle,
                address: high,
            },
            READ => Record::Read {
                len_bytes: low,
                handle,
                address: high,
            },
            DATA => Record::Data { number: high },
            DONE => Record::Done { number: high },
            REFUSED => Record::Refused {
                number: high,
                status: low,
            },
            _ => return None,
        };
        Some((record, posted))
    }
}

/// The data of a request to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) model: Model,
    pub(crate) told: Told,
    /// Who asks.
    pub(crate) from: Address,
    /// Who is asked for.
    pub(crate) to: Address,
}

impl Asked {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        bytes.extend(MAGIC);
        bytes.extend([u8::from(self.model == Model::Peer), 0, 0]);
        bytes.extend(self.told.write());
        for address in [&self.from, &self.to] {
            let mut padded = [0; DISCRIMINATOR_BYTES_MAX];
            let len = address.discriminator.len();
            padded[..len].copy_from_slice(&address.discriminator);
            bytes.extend([address.device, len as u8]);
            bytes.extend(padded);
        }
        bytes
    }

    /// Reads it; `None` if it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Asked> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        if bytes.len() != REQUEST_BYTES || rest[0] > 1 || rest[1..3] != [0, 0] {
            return None;
        }
        let (told, addresses) = rest[3..].split_at(ATTRIBUTES_BYTES);
        let (from, to) = addresses.split_at(ADDRESS_BYTES);
        Some(Asked {
            model: match rest[0] {
                0 => Model::ClientServer,
                _ => Model::Peer,
            },
            told: Told::read(told)?,
            from: address(from)?,
            to: address(to)?,
        })
    }
}

fn address(bytes: &[u8]) -> Option<Address> {
    let discriminator = bytes[2..].get(..usize::from(bytes[1]))?;
    Address::read(&crate::address::host_of(bytes[0])?, discriminator)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told() -> impl Strategy<Value = Told> {
        any::<(u16, bool, bool, u32)>().prop_map(|(reliability, rdma_write, rdma_read, max)| Told {
            reliability,
            rdma_write,
            rdma_read,
            transfer_bytes_max: max,
        })
    }

    fn records() -> impl Strategy<Value = Record> {
        prop_oneof![
            told().prop_map(Record::Hello),
            Just(Record::Credit),
            any::<Option<u32>>().prop_map(|immediate| Record::Send { immediate }),
            any::<(Option<u32>, u32, u64)>().prop_map(|(immediate, handle, address)| {
                Record::Write {
                    immediate,
                    handle,
                    address,
                }
            }),
            any::<(u32, u32, u64)>().prop_map(|(len_bytes, handle, address)| Record::Read {
                len_bytes,
                handle,
                address
            }),
            any::<u64>().prop_map(|number| Record::Data { number }),
            any::<u64>().prop_map(|number| Record::Done { number }),
            any::<(u64, u32)>().prop_map(|(number, status)| Record::Refused { number, status }),
        ]
    }

    fn addresses() -> impl Strategy<Value = Address> {
        (0..10_u8, proptest::collection::vec(any::<u8>(), 0..=16)).prop_map(
            |(device, discriminator)| Address {
                device,
                discriminator,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in records(), posted in any::<u32>()) {
            let mut first = [0; FIRST_BYTES];
            first[..HEAD_BYTES].copy_from_slice(&record.head(posted));
            let mut len_bytes = HEAD_BYTES;
            if let Record::Hello(told) = record {
                first[HEAD_BYTES..].copy_from_slice(&told.write());
                len_bytes += ATTRIBUTES_BYTES;
            }
            prop_assert_eq!(Record::read(&first, len_bytes), Some((record, posted)));
            prop_assert_eq!(Record::read(&first, HEAD_BYTES - 1), None);
        }

        #[test]
        fn no_bytes_panic(first in any::<[u8; FIRST_BYTES]>(), kind in 0..10_u8, len in 0..100_usize) {
            let mut first = first;
            first[0] = kind;
            let _ = Record::read(&first, len);
        }

        #[test]
        fn requests_are_read(peer in any::<bool>(), told in told(), from in addresses(), to in addresses()) {
            let model = if peer { Model::Peer } else { Model::ClientServer };
            let asked = Asked { model, told, from, to };
            let bytes = asked.write();
            prop_assert_eq!(Asked::read(&bytes), Some(asked));
            prop_assert_eq!(Asked::read(&bytes[1..]), None);
        }

        #[test]
        fn no_request_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60), good in any::<bool>()) {
            let mut bytes = bytes;
            if good {
                bytes.splice(0..bytes.len().min(5), MAGIC);
                bytes.resize(REQUEST_BYTES, 0);
            }
            let _ = Asked::read(&bytes);
        }
    }
}
