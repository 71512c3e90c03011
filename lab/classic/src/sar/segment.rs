//! Cuts a whole message into cells of the caller's buffer.
//!
//! Headers are computed once per circuit, the payload is copied in whole chunks, and the
//! CRC-32 of AAL5 runs over the contiguous payload. A message of AAL5 has at least one
//! byte: an empty one could not be told from an abort.
//! Source: itu-i363-3 and itu-i363-5, sender procedures.

use barewire_formats::aal5::{self, Crc32, TRAILER_BYTES, Trailer, TrailerRepr};
use barewire_formats::aal34::{
    self, CPCS_HEADER_BYTES, CPCS_TRAILER_BYTES, CpcsRepr, MID_MAX, SEGMENT_BYTES,
    SEQUENCE_MODULUS, SarPdu, SarRepr, SegmentType,
};
use barewire_formats::atm::{
    CELL_BYTES, HEADER_BYTES, HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType,
};

/// Why a message can not be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// An AAL5 message of no bytes.
    #[error("an AAL5 message of no bytes")]
    Empty,
    /// It has more bytes than Length can say.
    #[error(
        "a message of {payload_bytes} bytes, at most {} are allowed",
        aal5::PAYLOAD_BYTES_MAX
    )]
    TooLong {
        /// Bytes of the message.
        payload_bytes: usize,
    },
    /// The caller's buffer is too short.
    #[error("{needed_bytes} bytes are needed for the cells, there are {have_bytes}")]
    Buffer {
        /// Bytes of all cells.
        needed_bytes: usize,
        /// Bytes of the buffer.
        have_bytes: usize,
    },
}

/// Cells of an AAL5 message.
#[must_use]
pub const fn aal5_cells(payload_bytes: usize) -> usize {
    aal5::pdu_bytes(payload_bytes) / PAYLOAD_BYTES
}

/// Cells of an AAL3/4 message.
#[must_use]
pub const fn aal34_cells(payload_bytes: usize) -> usize {
    aal34::pdu_bytes(payload_bytes).div_ceil(SEGMENT_BYTES)
}

/// Length of an AAL5 message as the field has it.
pub(super) fn aal5_length(payload_bytes: usize) -> Result<u16, SegmentError> {
    match aal34_length(payload_bytes)? {
        0 => Err(SegmentError::Empty),
        length => Ok(length),
    }
}

/// Length of an AAL3/4 message as the field has it.
pub(super) fn aal34_length(payload_bytes: usize) -> Result<u16, SegmentError> {
    u16::try_from(payload_bytes).map_err(|_| SegmentError::TooLong { payload_bytes })
}

fn checked_buffer(cells: &mut [u8], count: usize) -> Result<&mut [u8], SegmentError> {
    let (needed_bytes, have_bytes) = (count * CELL_BYTES, cells.len());
    cells.get_mut(..needed_bytes).ok_or(SegmentError::Buffer {
        needed_bytes,
        have_bytes,
    })
}

/// The two headers of an AAL5 circuit: of every cell but the last, and of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aal5Segmenter {
    more: [u8; HEADER_BYTES],
    last: [u8; HEADER_BYTES],
}

impl Aal5Segmenter {
    /// Cells get this header; the end mark in its payload type is set as it must be.
    #[must_use]
    pub const fn new(header: HeaderRepr, interface: Interface) -> Self {
        let code = header.payload_type.get();
        let mut more = header;
        more.payload_type = PayloadType::new(code & !PayloadType::USER_END.get());
        let mut last = header;
        last.payload_type = PayloadType::new(code | PayloadType::USER_END.get());
        Self {
            more: more.to_bytes(interface),
            last: last.to_bytes(interface),
        }
    }

    /// Writes the cells of a message one after another, and says how many.
    ///
    /// # Errors
    /// [`SegmentError`]; then nothing is written.
    pub fn segment(&self, payload: &[u8], uu: u8, cells: &mut [u8]) -> Result<usize, SegmentError> {
        let length = aal5_length(payload.len())?;
        let count = aal5_cells(payload.len());
        let cells = checked_buffer(cells, count)?;
        let rest_bytes = payload.len() % PAYLOAD_BYTES;
        let (chunks, rest) = payload.split_at(payload.len() - rest_bytes);
        let mut slots = cells.chunks_exact_mut(CELL_BYTES);
        // The chunk first: a zip that ends takes nothing more from its second side.
        for (chunk, slot) in chunks.chunks_exact(PAYLOAD_BYTES).zip(&mut slots) {
            write_cell(slot, self.more, chunk);
        }
        // What is left is one cell, or two where the trailer does not fit behind the rest.
        let mut tail = [0; 2 * PAYLOAD_BYTES];
        let tail = &mut tail[..aal5::pdu_bytes(rest_bytes)];
        tail[..rest_bytes].copy_from_slice(rest);
        let mut crc = Crc32::new();
        crc.update(payload);
        close_aal5(tail, rest_bytes, uu, length, crc);
        let headers = [self.more, self.last];
        let headers = &headers[2 - tail.len() / PAYLOAD_BYTES..];
        for ((chunk, slot), header) in tail.chunks_exact(PAYLOAD_BYTES).zip(slots).zip(headers) {
            write_cell(slot, *header, chunk);
        }
        Ok(count)
    }

    /// One cell, the last of its message or not.
    pub(super) fn cell(&self, last: bool, chunk: &[u8; PAYLOAD_BYTES]) -> [u8; CELL_BYTES] {
        let mut cell = [0; CELL_BYTES];
        write_cell(&mut cell, if last { self.last } else { self.more }, chunk);
        cell
    }

    /// The cell that gives up a message of which `sent` were sent: its cells, one after
    /// another, of which the CRC-32 of the abort covers the payload.
    #[must_use]
    pub fn abort(&self, sent: &[u8]) -> [u8; CELL_BYTES] {
        let mut crc = Crc32::new();
        for cell in sent.chunks_exact(CELL_BYTES) {
            crc.update(&cell[HEADER_BYTES..]);
        }
        self.abort_after(crc)
    }

    /// The same where `crc` has covered the payload of the cells that were sent.
    pub(super) fn abort_after(&self, crc: Crc32) -> [u8; CELL_BYTES] {
        let mut chunk = [0; PAYLOAD_BYTES];
        close_aal5(&mut chunk, 0, 0, 0, crc);
        self.cell(true, &chunk)
    }
}

/// Writes the trailer at the end of `tail`; `crc` has covered the payload, which ends
/// after the first `rest_bytes` of it, and a pad of zeros stands behind.
pub(super) fn close_aal5(tail: &mut [u8], rest_bytes: usize, uu: u8, length: u16, mut crc: Crc32) {
    let at = tail.len() - TRAILER_BYTES;
    let mut repr = TrailerRepr {
        uu,
        cpi: 0,
        length,
        crc32: 0,
    };
    repr.emit(&mut Trailer::new_unchecked(&mut tail[at..]));
    crc.update(&tail[rest_bytes..at + 4]);
    repr.crc32 = crc.finish();
    repr.emit(&mut Trailer::new_unchecked(&mut tail[at..]));
}

fn write_cell(cell: &mut [u8], header: [u8; HEADER_BYTES], chunk: &[u8]) {
    let (front, back) = cell.split_at_mut(HEADER_BYTES);
    front.copy_from_slice(&header);
    back.copy_from_slice(chunk);
}

/// A sender on one MID of an AAL3/4 circuit: its header, and what it counts.
#[derive(Clone, Debug)]
pub struct Aal34Segmenter {
    header: [u8; HEADER_BYTES],
    mid: u16,
    sequence: u8,
    tag: u8,
}

impl Aal34Segmenter {
    /// Cells get this header and MID, of which the low 10 bits count. Sequence numbers
    /// and tags begin at 0.
    #[must_use]
    pub const fn new(header: HeaderRepr, interface: Interface, mid: u16) -> Self {
        Self {
            header: header.to_bytes(interface),
            mid: mid & MID_MAX,
            sequence: 0,
            tag: 0,
        }
    }

    /// Writes the cells of a message one after another, and says how many.
    ///
    /// # Errors
    /// [`SegmentError`]; then nothing is written.
    pub fn segment(&mut self, payload: &[u8], cells: &mut [u8]) -> Result<usize, SegmentError> {
        let length = aal34_length(payload.len())?;
        let count = aal34_cells(payload.len());
        let cells = checked_buffer(cells, count)?;
        let repr = self.next_message(length);
        let message = Message { repr, payload };
        for (i, cell) in cells.chunks_exact_mut(CELL_BYTES).enumerate() {
            let start = i * SEGMENT_BYTES;
            let count_bytes = (repr.buffer_len() - start).min(SEGMENT_BYTES);
            let mut pdu = self.with_header(cell);
            message.read(start, pdu.segment_mut());
            let segment_type = segment_type(i == 0, i + 1 == count);
            self.fill(&mut pdu, segment_type, count_bytes);
        }
        Ok(count)
    }

    /// The cell that gives up a message of which `sent` were sent: its cells, one after
    /// another. The next message goes on behind them.
    #[must_use]
    pub fn abort(&mut self, sent: &[u8]) -> [u8; CELL_BYTES] {
        if let Some(last) = sent.chunks_exact(CELL_BYTES).last() {
            let last = SarPdu::new_unchecked(&last[HEADER_BYTES..]);
            self.sequence = (last.sequence() + 1) % SEQUENCE_MODULUS;
        }
        self.abort_next()
    }

    /// The same where the last number given was that of the last cell sent.
    pub(super) fn abort_next(&mut self) -> [u8; CELL_BYTES] {
        self.cell(SegmentType::Eom, &[])
    }

    /// One cell with these bytes, at most 44; an EOM without any is an abort.
    pub(super) fn cell(&mut self, segment_type: SegmentType, bytes: &[u8]) -> [u8; CELL_BYTES] {
        let mut cell = [0; CELL_BYTES];
        let mut pdu = self.with_header(&mut cell);
        let count_bytes = bytes.len().min(SEGMENT_BYTES);
        pdu.segment_mut()[..count_bytes].copy_from_slice(&bytes[..count_bytes]);
        self.fill(&mut pdu, segment_type, count_bytes);
        cell
    }

    /// What surrounds the next message; its tag is then used.
    pub(super) fn next_message(&mut self, length: u16) -> CpcsRepr {
        let repr = CpcsRepr::new(self.tag, length);
        self.tag = self.tag.wrapping_add(1);
        repr
    }

    /// Writes the header of a cell and gives the rest.
    fn with_header<'a>(&self, cell: &'a mut [u8]) -> SarPdu<&'a mut [u8]> {
        let (front, back) = cell.split_at_mut(HEADER_BYTES);
        front.copy_from_slice(&self.header);
        SarPdu::new_unchecked(back)
    }

    /// Writes what surrounds a segment of `count_bytes`; its number is then used.
    fn fill(&mut self, pdu: &mut SarPdu<&mut [u8]>, segment_type: SegmentType, count_bytes: usize) {
        let repr = SarRepr {
            segment_type,
            sequence: self.sequence,
            mid: self.mid,
            payload_bytes: count_bytes as u8,
        };
        self.sequence = (self.sequence + 1) % SEQUENCE_MODULUS;
        repr.emit(pdu);
    }
}

/// Which segment it is that is the first, the last, both or neither.
pub(super) const fn segment_type(first: bool, last: bool) -> SegmentType {
    match (first, last) {
        (true, true) => SegmentType::Ssm,
        (true, false) => SegmentType::Bom,
        (false, true) => SegmentType::Eom,
        (false, false) => SegmentType::Com,
    }
}

/// A CPCS-PDU of AAL3/4 that stands nowhere in one piece.
struct Message<'a> {
    repr: CpcsRepr,
    payload: &'a [u8],
}

impl Message<'_> {
    /// The bytes from `start` on, and zeros behind the end.
    fn read(&self, start: usize, segment: &mut [u8; SEGMENT_BYTES]) {
        let whole = start
            .checked_sub(CPCS_HEADER_BYTES)
            .and_then(|at| self.payload.get(at..at + SEGMENT_BYTES));
        match whole {
            Some(chunk) => segment.copy_from_slice(chunk),
            None => self.read_edge(start, segment),
        }
    }

    /// The same where header, pad or trailer are among them.
    fn read_edge(&self, start: usize, segment: &mut [u8; SEGMENT_BYTES]) {
        segment.fill(0);
        let trailer_at = self.repr.buffer_len() - CPCS_TRAILER_BYTES;
        let parts = [
            (0, &self.repr.header()[..]),
            (CPCS_HEADER_BYTES, self.payload),
            (trailer_at, &self.repr.trailer()[..]),
        ];
        for (at, bytes) in parts {
            // Where the part begins before the segment, some of it was sent already.
            let sent = start.saturating_sub(at).min(bytes.len());
            let to = at.saturating_sub(start).min(SEGMENT_BYTES);
            let count = (bytes.len() - sent).min(SEGMENT_BYTES - to);
            segment[to..to + count].copy_from_slice(&bytes[sent..sent + count]);
        }
    }
}
