//! Cells on the line, as captures of link type ERF hold them: Wireshark shows those by
//! itself, without the HEC, for which that format has no room.

use barewire_formats::atm::{
    CELL_BYTES, Cell, HEADER_BYTES, HeaderRepr, Interface, PAYLOAD_BYTES, PayloadType, Vc,
};
use barewire_units::Instant;
use barewire_wire::capture::LinkType;
use barewire_wire::capture::erf::{Kind, RecordRepr};

use crate::experiment::LinkCapture;

/// The circuit of the benchmark: the first that is not reserved.
pub const BENCHMARK: Vc = Vc { vpi: 0, vci: 32 };
/// The HEC is the last byte of a header.
const BEFORE_HEC: usize = HEADER_BYTES - 1;

/// The line, before its first cell.
pub fn line(packets: usize) -> LinkCapture {
    LinkCapture::new("line", LinkType::ERF, packets)
}

/// A cell of the benchmark. The model counts bytes and has none, so the payload is zeros.
pub fn model_cell(at: Instant) -> Vec<u8> {
    let mut cell = Cell::new_unchecked([0; CELL_BYTES]);
    HeaderRepr::user(BENCHMARK, PayloadType::USER).emit(&mut cell, Interface::Uni);
    record(at, &cell.into_inner())
}

/// A cell as it was on the line.
pub fn record(at: Instant, cell: &[u8; CELL_BYTES]) -> Vec<u8> {
    let header = RecordRepr {
        time_ns: at.since_origin().as_ns(),
        kind: Kind::Cell,
        interface: 0,
        payload_bytes: (BEFORE_HEC + PAYLOAD_BYTES) as u16,
        wire_bytes: CELL_BYTES as u16,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(&cell[..BEFORE_HEC]);
    bytes.extend_from_slice(&cell[HEADER_BYTES..]);
    bytes
}
