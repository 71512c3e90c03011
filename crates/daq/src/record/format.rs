//! What the file of events is made of: heads, fragments, and a record in memory.

use std::io;

use crate::config::FRAGMENT_BYTES_MAX;
use crate::wire::{crc32c, u32_at, u64_at};

pub(super) const HEAD_MAGIC: &[u8; 8] = b"BWEVENT1";
pub(super) const TAIL_MAGIC: &[u8; 8] = b"BWEVEND1";
pub(super) const EVENT_MAGIC: &[u8; 4] = b"EVNT";
pub(super) const INDEX_MAGIC: &[u8; 4] = b"INDX";
pub(super) const FILE_HEAD_BYTES: usize = 32;
pub(super) const EVENT_HEAD_BYTES: usize = 32;
pub(super) const FRAGMENT_HEAD_BYTES: usize = 24;
pub(super) const TAIL_BYTES: usize = 24;
/// Bytes of the index before its entries, and of an entry.
pub(super) const INDEX_HEAD_BYTES: usize = 16;
pub(super) const INDEX_ENTRY_BYTES: usize = 16;

/// A fragment to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its source.
    pub source: u16,
    /// When its event was triggered, in ns.
    pub at_ns: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// An event as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The event.
    pub event: u64,
    /// Fragments that were missing when it was recorded.
    pub missing: u32,
    /// Fragments that were recorded and are damaged in the file.
    pub damaged: u32,
    /// The others: every one as it was recorded.
    pub fragments: Vec<Stored>,
}

/// Why something cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is none of ours.
    #[error("no file of events: {0}")]
    Foreign(&'static str),
    /// A record is spoilt.
    #[error("the record at byte {at}: {what}")]
    Spoilt {
        /// Where it begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// The head of a record, whose check code is right and whose numbers go together.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventHead {
    pub missing: u32,
    pub event: u64,
    /// Bytes of all fragments with their heads.
    pub bytes: u64,
    /// Number of fragments.
    pub count: u32,
}

impl EventHead {
    /// `None` if `bytes` is no head of a record.
    pub fn parse(bytes: &[u8; EVENT_HEAD_BYTES]) -> Option<Self> {
        if &bytes[..4] != EVENT_MAGIC || crc32c(&bytes[..28]) != u32_at(bytes, 28) {
            return None;
        }
        let head = Self {
            missing: u32_at(bytes, 4),
            event: u64_at(bytes, 8),
            bytes: u64_at(bytes, 16),
            count: u32_at(bytes, 24),
        };
        let heads_bytes = u64::from(head.count) * FRAGMENT_HEAD_BYTES as u64;
        (heads_bytes <= head.bytes && head.bytes <= u64::MAX >> 1).then_some(head)
    }
}

/// The head of a fragment. Whether it is right is known with its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentHead(pub [u8; FRAGMENT_HEAD_BYTES]);

impl FragmentHead {
    pub fn source(&self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    /// Whether it says that it belongs to this event.
    pub fn is_of(&self, event: u64) -> bool {
        self.0[2..4] == lower_bytes(event)
    }

    /// Bytes of its data; `None` if there are more than a fragment may have.
    pub fn data_bytes(&self) -> Option<u64> {
        Some(u64_at(&self.0, 16)).filter(|&it| it <= FRAGMENT_BYTES_MAX)
    }

    /// The fragment, if its check code is right.
    pub fn with(&self, data: Vec<u8>) -> Option<Stored> {
        let is_right = fragment_crc(&self.0, &data) == u32_at(&self.0, 4);
        is_right.then(|| Stored {
            source: self.source(),
            at_ns: u64_at(&self.0, 8),
            data,
        })
    }
}

/// Appends the record of an event.
pub fn append(into: &mut Vec<u8>, event: u64, missing: u32, fragments: &[Stored]) {
    let start = into.len();
    let bytes: usize = fragments
        .iter()
        .map(|it| FRAGMENT_HEAD_BYTES + it.data.len())
        .sum();
    into.reserve(EVENT_HEAD_BYTES + bytes);
    into.extend(EVENT_MAGIC);
    into.extend(missing.to_le_bytes());
    into.extend(event.to_le_bytes());
    into.extend((bytes as u64).to_le_bytes());
    let count = u32::try_from(fragments.len()).unwrap_or(u32::MAX);
    into.extend(count.to_le_bytes());
    let crc = crc32c(&into[start..]);
    into.extend(crc.to_le_bytes());
    for fragment in fragments {
        let head = fragment_head(event, fragment);
        into.extend(head);
        into.extend(&fragment.data);
    }
}

/// What a fragment holds of the number of its event: where bytes are lost, one of another event may
/// follow, good in itself.
fn lower_bytes(event: u64) -> [u8; 2] {
    (event as u16).to_le_bytes()
}

/// The head of `fragment`, which belongs to `event`, with the check code of all of it.
pub(super) fn fragment_head(event: u64, fragment: &Stored) -> [u8; FRAGMENT_HEAD_BYTES] {
    let mut head = [0; FRAGMENT_HEAD_BYTES];
    head[..2].copy_from_slice(&fragment.source.to_le_bytes());
    head[2..4].copy_from_slice(&lower_bytes(event));
    head[8..16].copy_from_slice(&fragment.at_ns.to_le_bytes());
    head[16..].copy_from_slice(&(fragment.data.len() as u64).to_le_bytes());
    let crc = fragment_crc(&head, &fragment.data);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    head
}

fn fragment_crc(head: &[u8; FRAGMENT_HEAD_BYTES], data: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&head[..4]);
    digest.update(&head[8..]);
    digest.update(data);
    digest.finalize() as u32
}

/// The record of an event at the beginning of `bytes`, and how many bytes it is; `None` if it
/// is not all there.
///
/// # Errors
///
/// It is none, or any of it is damaged.
pub fn parse(bytes: &[u8]) -> Result<Option<(Recorded, usize)>, RecordError> {
    let spoilt = |what| RecordError::Spoilt { at: 0, what };
    let magic_there = bytes.len().min(EVENT_MAGIC.len());
    if bytes[..magic_there] != EVENT_MAGIC[..magic_there] {
        return Err(spoilt("it does not begin with EVNT"));
    }
    let Some((first, rest)) = bytes.split_first_chunk::<EVENT_HEAD_BYTES>() else {
        return Ok(None);
    };
    let head = EventHead::parse(first).ok_or(spoilt("its head is none, or damaged"))?;
    let Some(mut left) = usize::try_from(head.bytes)
        .ok()
        .and_then(|it| rest.get(..it))
    else {
        return Ok(None);
    };
    let mut event = Recorded {
        event: head.event,
        missing: head.missing,
        ..Recorded::default()
    };
    for _ in 0..head.count {
        let fragment =
            take_fragment(head.event, &mut left).ok_or(spoilt("a fragment is damaged"))?;
        event.fragments.push(fragment);
    }
    if !left.is_empty() {
        return Err(spoilt("its fragments are not as long as it"));
    }
    Ok(Some((event, EVENT_HEAD_BYTES + head.bytes as usize)))
}

/// The fragment of `event` at the beginning of `bytes`, if it is all there and right.
fn take_fragment(event: u64, bytes: &mut &[u8]) -> Option<Stored> {
    let (head, rest) = bytes.split_first_chunk()?;
    let head = FragmentHead(*head);
    if !head.is_of(event) {
        return None;
    }
    let (data, rest) = rest.split_at_checked(usize::try_from(head.data_bytes()?).ok()?)?;
    *bytes = rest;
    head.with(data.to_vec())
}
