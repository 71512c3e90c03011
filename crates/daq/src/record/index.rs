//! The index of a file of events, and its tail.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::format::{
    INDEX_ENTRY_BYTES, INDEX_HEAD_BYTES, INDEX_MAGIC, RecordError, TAIL_BYTES, TAIL_MAGIC,
};
use crate::wire::{crc32c, u32_at, u64_at};

const HEAD_BYTES: u64 = INDEX_HEAD_BYTES as u64;
const ENTRY_BYTES: u64 = INDEX_ENTRY_BYTES as u64;

/// What the last bytes of a file say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// Where the index begins.
    pub index_at: u64,
    crc: u32,
    /// Magic and padding are as they are written.
    is_right: bool,
}

/// The tail; what stands in its place if there is none. `None`: the file is too short.
pub(super) fn read_tail(file: &mut (impl Read + Seek), len_bytes: u64) -> io::Result<Option<Tail>> {
    let Some(at) = len_bytes.checked_sub(TAIL_BYTES as u64) else {
        return Ok(None);
    };
    let mut tail = [0; TAIL_BYTES];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut tail)?;
    Ok(Some(Tail {
        index_at: u64_at(&tail, 0),
        crc: u32_at(&tail, 8),
        is_right: &tail[16..] == TAIL_MAGIC && tail[12..16] == [0; 4],
    }))
}

/// Whether there is a tail, perhaps with a damaged place or check code.
pub(super) fn has_tail(tail: Option<&Tail>) -> bool {
    tail.is_some_and(|it| it.is_right)
}

/// What the first bytes of something say about an index in a file of `len_bytes`, if it begins
/// at `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    /// It begins with INDX.
    pub magic: bool,
    /// It ends with the file, by the number of its entries.
    pub fits: bool,
    /// It ends behind the file, by the number of its entries.
    pub is_longer: bool,
}

pub(super) fn look(first: &[u8], at: u64, len_bytes: u64) -> Looks {
    let entries = first.get(8..16).map_or(0, |it| u64_at(it, 0));
    let head_and_tail = HEAD_BYTES + TAIL_BYTES as u64;
    let bytes = entries.saturating_mul(ENTRY_BYTES);
    let end = at.saturating_add(head_and_tail).saturating_add(bytes);
    let magic_there = first.len().min(INDEX_MAGIC.len());
    Looks {
        magic: first[..magic_there] == INDEX_MAGIC[..magic_there],
        fits: first.len() >= 16 && end == len_bytes,
        is_longer: end > len_bytes,
    }
}

/// Where the index is, if tail and index agree about it, but for one of the three: place in the
/// tail, magic, and number of entries.
pub(super) fn find(
    file: &mut (impl Read + Seek),
    tail: Option<&Tail>,
    len_bytes: u64,
) -> io::Result<Option<u64>> {
    let Some(tail) = tail else {
        return Ok(None);
    };
    let at = tail.index_at;
    let room = len_bytes.saturating_sub(TAIL_BYTES as u64 + HEAD_BYTES);
    if at > room || (room - at) % ENTRY_BYTES != 0 {
        return Ok(None);
    }
    let mut first = [0; INDEX_HEAD_BYTES];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut first)?;
    let looks = look(&first, at, len_bytes);
    let is_there = (looks.magic && (looks.fits || tail.is_right)) || (looks.fits && tail.is_right);
    Ok(is_there.then_some(at))
}

/// An index whose check code is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// Events, and where their records begin.
    pub entries: Vec<(u64, u64)>,
    /// The tail is right too.
    pub tail_is_right: bool,
}

/// The index that begins at `at`; `None` if it is damaged.
pub(super) fn load(
    file: &mut (impl Read + Seek),
    at: u64,
    len_bytes: u64,
) -> io::Result<Option<Index>> {
    let Some(tail) = read_tail(file, len_bytes)? else {
        return Ok(None);
    };
    let Some(bytes) = len_bytes.checked_sub(at.saturating_add(TAIL_BYTES as u64)) else {
        return Ok(None);
    };
    let mut index = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(bytes).read_to_end(&mut index)?;
    let is_whole = bytes >= HEAD_BYTES && (bytes - HEAD_BYTES) % ENTRY_BYTES == 0;
    if !is_whole || index.len() as u64 != bytes || crc32c(&index) != tail.crc {
        return Ok(None);
    }
    let entries = index[INDEX_HEAD_BYTES..].chunks_exact(INDEX_ENTRY_BYTES);
    Ok(Some(Index {
        entries: entries.map(|it| (u64_at(it, 0), u64_at(it, 8))).collect(),
        tail_is_right: tail.is_right && tail.index_at == at,
    }))
}

/// The index: events, and where their records begin; `None` if there is none that is whole.
///
/// # Errors
///
/// The file cannot be read.
pub fn read_index(path: &Path) -> Result<Option<Vec<(u64, u64)>>, RecordError> {
    let file = File::open(path)?;
    let len_bytes = file.metadata()?.len();
    index_in(file, len_bytes)
}

/// As [`read_index`], of anything that has `len_bytes`.
///
/// # Errors
///
/// It cannot be read.
pub fn index_in(
    mut file: impl Read + Seek,
    len_bytes: u64,
) -> Result<Option<Vec<(u64, u64)>>, RecordError> {
    let Some(tail) = read_tail(&mut file, len_bytes)? else {
        return Ok(None);
    };
    let index = load(&mut file, tail.index_at, len_bytes)?;
    Ok(index.filter(|it| it.tail_is_right).map(|it| it.entries))
}
