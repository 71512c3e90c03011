//! From ring to ATM: the cells of a frame, made as they are asked for.

use barewire_formats::aal34::{
    SEGMENT_BYTES, SEQUENCE_MODULUS, SarPdu, SarRepr, SegmentType, pdu_bytes,
};
use barewire_formats::atm::{
    CELL_BYTES, Cell, HEADER_BYTES, HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType,
};

use super::config::{Adaptation, Connection};

/// The cells of a frame.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: &'a [u8],
    first: bool,
    /// Header of all cells but the last, and of the last.
    headers: [[u8; HEADER_BYTES]; 2],
    sar: Option<Sar>,
}

/// What the next SAR-PDU of AAL3/4 has in its header.
#[derive(Clone, Copy, Debug)]
struct Sar {
    mid: u16,
    sequence: u8,
}

impl<'a> Cells<'a> {
    /// The cells of `pdu` with `header`, which has the VC of the ATM port; sequence numbers go
    /// on from those of `connection`. `None` if the PDU does not make cells.
    pub(super) fn new(
        pdu: &'a [u8],
        header: HeaderRepr,
        interface: Interface,
        connection: &mut Connection,
    ) -> Option<Self> {
        let payload_type = header.payload_type;
        let one_cell = pdu.len() == PAYLOAD_BYTES;
        let whole_cells = !pdu.is_empty() && pdu.len() % PAYLOAD_BYTES == 0;
        let cleared = PayloadType::new(payload_type.get() & 0b110);
        let (fits, last, sar) = match connection.adaptation {
            _ if !payload_type.is_user() => (one_cell, payload_type, None),
            Adaptation::Cells if one_cell => (true, payload_type, None),
            Adaptation::Cells => (whole_cells, cleared, None),
            Adaptation::Aal5 => (whole_cells, payload_type, None),
            Adaptation::Aal34 { mid } => {
                let sequence = connection.sequence;
                let sar = Sar { mid, sequence };
                (pdu.len() >= pdu_bytes(0), cleared, Some(sar))
            }
        };
        let with = |payload_type| {
            let header = HeaderRepr {
                payload_type,
                ..header
            };
            header.to_bytes(interface)
        };
        let cells = Self {
            rest: pdu,
            first: true,
            headers: [with(cleared), with(last)],
            sar,
        };
        if fits && sar.is_some() {
            let next = usize::from(connection.sequence) + cells.len();
            // Below 16.
            connection.sequence = (next % usize::from(SEQUENCE_MODULUS)) as u8;
        }
        fits.then_some(cells)
    }

    fn piece_bytes(&self) -> usize {
        if self.sar.is_some() {
            SEGMENT_BYTES
        } else {
            PAYLOAD_BYTES
        }
    }
}

impl Iterator for Cells<'_> {
    type Item = [u8; CELL_BYTES];

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = self.piece_bytes().min(self.rest.len());
        let (piece, rest) = self.rest.split_at(bytes);
        let first = core::mem::replace(&mut self.first, false);
        self.rest = rest;
        let last = rest.is_empty();
        let mut bytes = [0; CELL_BYTES];
        let mut cell = Cell::new_unchecked(&mut bytes);
        cell.set_header_bytes(self.headers[usize::from(last)]);
        match &mut self.sar {
            None => cell.payload_mut().copy_from_slice(piece),
            Some(sar) => sar.emit(piece, (first, last), cell.payload_mut()),
        }
        Some(bytes)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let cells = self.rest.len().div_ceil(self.piece_bytes());
        (cells, Some(cells))
    }
}

impl ExactSizeIterator for Cells<'_> {}

impl Sar {
    /// Makes the SAR-PDU with `piece`, and counts.
    fn emit(&mut self, piece: &[u8], ends: (bool, bool), payload: &mut [u8; PAYLOAD_BYTES]) {
        let mut pdu = SarPdu::new_unchecked(payload);
        pdu.segment_mut()[..piece.len()].copy_from_slice(piece);
        let repr = SarRepr {
            segment_type: match ends {
                (true, true) => SegmentType::Ssm,
                (true, false) => SegmentType::Bom,
                (false, true) => SegmentType::Eom,
                (false, false) => SegmentType::Com,
            },
            sequence: self.sequence,
            mid: self.mid,
            // At most 44.
            payload_bytes: piece.len() as u8,
        };
        repr.emit(&mut pdu);
        self.sequence = (self.sequence + 1) % SEQUENCE_MODULUS;
    }
}
