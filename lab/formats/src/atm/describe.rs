//! Cells as trees of fields, faults included.

use core::ops::Range;

use super::{CELL_BYTES, Cell, FORMAT, HEADER_BYTES, HeaderRepr, IDLE_PAYLOAD_BYTE, Interface};
use super::{Kind, hec, oam};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault};

/// Shows the cells in `bytes`, one after another, with headers of the UNI.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    describe_cells(Interface::Uni, bytes, first_bit, sink);
}

/// Shows the cells in `bytes`, one after another, with headers of the NNI.
pub fn describe_nni(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    describe_cells(Interface::Nni, bytes, first_bit, sink);
}

fn describe_cells(interface: Interface, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let mut rest = bytes;
    let mut at = first_bit;
    loop {
        let (cell, after) = rest.split_at(rest.len().min(CELL_BYTES));
        describe_cell(interface, cell, at, sink);
        if after.is_empty() {
            return;
        }
        (rest, at) = (after, at + CELL_BYTES * 8);
    }
}

fn describe_cell(interface: Interface, cell: &[u8], at: usize, sink: &mut dyn Sink) {
    sink.open("cell", at..at + cell.len() * 8);
    let (header, payload) = cell.split_at(cell.len().min(HEADER_BYTES));
    sink.open("header", at..at + header.len() * 8);
    let repr = describe_header(interface, header, at, sink);
    sink.close();
    if !payload.is_empty() {
        describe_payload(repr.kind(), payload, at + HEADER_BYTES * 8, sink);
    }
    if let Err(error) = Cell::new_checked(cell) {
        sink.wrong(error.shifted(at));
    }
    sink.close();
}

/// Shows the fields of a header that end within `part` of it, into the group that is open: of
/// four bytes all but the HEC. Fields that are not there are zero in what it gives.
pub fn describe_header(
    interface: Interface,
    part: &[u8],
    at: usize,
    sink: &mut dyn Sink,
) -> HeaderRepr {
    let part = &part[..part.len().min(HEADER_BYTES)];
    let mut header = [0; HEADER_BYTES];
    header[..part.len()].copy_from_slice(part);
    let [b0, b1, b2, b3, _] = header;
    let repr = HeaderRepr::from_word(u32::from_be_bytes([b0, b1, b2, b3]), interface);
    describe_fields(repr, interface, part, at, sink);
    if part.len() == HEADER_BYTES {
        describe_hec(&header, at, sink);
    }
    repr
}

fn describe_fields(
    repr: HeaderRepr,
    interface: Interface,
    part: &[u8],
    at: usize,
    sink: &mut dyn Sink,
) {
    let vpi_first = match interface {
        Interface::Uni => 4,
        Interface::Nni => 0,
    };
    let payload_type = u64::from(repr.payload_type.get());
    let fields: [(&str, Range<usize>, Value<'_>); 5] = [
        ("GFC", 0..vpi_first, Value::Uint(repr.gfc.into())),
        ("VPI", vpi_first..12, Value::Uint(repr.vc.vpi.into())),
        ("VCI", 12..28, Value::Uint(repr.vc.vci.into())),
        (
            "PT",
            28..31,
            Value::Code(payload_type, repr.payload_type.name()),
        ),
        ("CLP", 31..32, Value::Flag(repr.loss_priority)),
    ];
    for (name, bits, value) in fields {
        if !bits.is_empty() && bits.end <= part.len() * 8 {
            sink.field(name, at + bits.start..at + bits.end, value);
        }
    }
}

fn describe_hec(header: &[u8; HEADER_BYTES], at: usize, sink: &mut dyn Sink) {
    sink.field("HEC", at + 32..at + 40, Value::Hex(header[4].into()));
    // The layout does not matter to the HEC.
    if let Err(error) = HeaderRepr::from_bytes(header, Interface::Uni) {
        sink.wrong(error.shifted(at));
    }
    if let hec::Verdict::SingleBit(bit) = hec::check(header) {
        let bit = at + usize::from(bit);
        sink.field("bit that the HEC accuses", bit..bit + 1, Value::Flag(true));
    }
}

fn describe_payload(kind: Kind, payload: &[u8], at: usize, sink: &mut dyn Sink) {
    if kind.is_oam() {
        return oam::describe(payload, at, sink);
    }
    let bits = at..at + payload.len() * 8;
    sink.field("payload", bits, Value::Bytes(payload));
    let filler = |&&byte: &&u8| byte == IDLE_PAYLOAD_BYTE;
    let filled_bytes = payload.iter().take_while(filler).count();
    if kind == Kind::Idle && filled_bytes < payload.len() {
        let bit = at + filled_bytes * 8;
        let fault = Fault::Value {
            found: payload[filled_bytes].into(),
            allowed: "6a in an idle cell",
        };
        sink.wrong(Error::new(FORMAT, "payload", bit..bit + 8, fault));
    }
}
