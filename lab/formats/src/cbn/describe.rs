//! Frame and cell as trees of fields, and the cell of the Fast Ring. Bit tables in [the parent
//! module](super) and in [`cfr`].
//!
//! Source: cbn91, Fig 4 and Fig 5, section on the ring.

use core::ops::Range;

use super::cfr::{self, CfrCell};
use super::frame::{CRC_BITS, HEADER_BITS, PAD_BITS};
use super::{BODY_BYTES, CELL_BYTES, Cell, FRAME_BYTES, Frame, SLOTS, SlotFlags};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault, need};

/// A group whose bytes may end early: fields that are not all there are left out.
struct Walk<'a> {
    sink: &'a mut dyn Sink,
    /// Where the group begins in the whole input.
    first_bit: usize,
    /// Bits of the group that are there.
    have_bits: usize,
}

impl Walk<'_> {
    fn absolute(&self, bits: Range<usize>) -> Range<usize> {
        bits.start + self.first_bit..bits.end + self.first_bit
    }

    fn field(&mut self, name: &str, bits: Range<usize>, value: Value<'_>) {
        if bits.end <= self.have_bits {
            let bits = self.absolute(bits);
            self.sink.field(name, bits, value);
        }
    }

    /// Reports what `outcome` says, if the field is there at all.
    fn check(&mut self, outcome: Result<(), Error>) {
        let there = |error: &Error| error.first_bit + error.bit_count <= self.have_bits;
        if let Some(error) = outcome.err().filter(there) {
            self.sink.wrong(error.shifted(self.first_bit));
        }
    }

    /// Reports a wrong length.
    fn length(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            self.sink.wrong(error.shifted(self.first_bit));
        }
    }
}

/// `bytes` with zeros behind, cut to `N`.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut whole = [0; N];
    let len = bytes.len().min(N);
    whole[..len].copy_from_slice(&bytes[..len]);
    whole
}

/// What is wrong with the length of `bytes`, where `allowed_bytes` must stand.
fn check_length(format: &'static str, bytes: &[u8], allowed_bytes: usize) -> Result<(), Error> {
    need(format, "end", bytes, allowed_bytes)?;
    if bytes.len() == allowed_bytes {
        return Ok(());
    }
    let fault = Fault::Long {
        allowed_bytes,
        have_bytes: bytes.len(),
    };
    let bits = allowed_bytes * 8..bytes.len() * 8;
    Err(Error::new(format, "end", bits, fault))
}

/// Shows a frame; each slot as the cell of Fig 4.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let whole: [u8; FRAME_BYTES] = padded(bytes);
    let frame = Frame::new_unchecked(&whole);
    sink.open("CBN frame", first_bit..first_bit + bytes.len() * 8);
    let mut walk = Walk {
        sink,
        first_bit,
        have_bits: bytes.len() * 8,
    };
    let header = Value::Hex(u64::from(frame.header()));
    walk.field("header", HEADER_BITS, header);
    walk.check(frame.check_header());
    show_flags(&mut walk, &frame, "full", 4, |flags| flags.full);
    show_flags(&mut walk, &frame, "monitor passed", 8, |flags| {
        flags.monitor_passed
    });
    show_flags(&mut walk, &frame, "type", 12, |flags| flags.slot_type);
    for slot in 0..SLOTS {
        let begin = 2 + slot * CELL_BYTES;
        let rest = bytes.get(begin..).unwrap_or_default();
        let cell = &rest[..rest.len().min(CELL_BYTES)];
        if !cell.is_empty() {
            show_cell("slot", cell, first_bit + begin * 8, Ok(()), walk.sink);
        }
    }
    show_flags(&mut walk, &frame, "response", 1168, |flags| flags.response);
    show_flags(&mut walk, &frame, "qualifier", 1172, |flags| {
        flags.qualifier
    });
    walk.field("crc", CRC_BITS, Value::Hex(u64::from(frame.crc())));
    walk.check(frame.check_crc());
    walk.field("pad", PAD_BITS, Value::Hex(u64::from(frame.pad())));
    walk.check(frame.check_pad());
    walk.length(check_length("cbn", bytes, FRAME_BYTES));
    walk.sink.close();
}

/// One group of four flags, from `bit` on.
fn show_flags(
    walk: &mut Walk<'_>,
    frame: &Frame<&[u8; FRAME_BYTES]>,
    name: &str,
    bit: usize,
    flag: fn(SlotFlags) -> bool,
) {
    if bit + SLOTS > walk.have_bits {
        return;
    }
    walk.sink.open(name, walk.absolute(bit..bit + SLOTS));
    for (slot, label) in ["slot 0", "slot 1", "slot 2", "slot 3"].iter().enumerate() {
        let value = Value::Flag(flag(frame.flags(slot)));
        walk.field(label, bit + slot..bit + slot + 1, value);
    }
    walk.sink.close();
}

/// Shows a cell as Fig 4 draws it.
pub fn describe_cell(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let length = check_length("cbn-cell", bytes, CELL_BYTES);
    show_cell("CBN cell", bytes, first_bit, length, sink);
}

fn show_cell(
    name: &str,
    bytes: &[u8],
    first_bit: usize,
    length: Result<(), Error>,
    sink: &mut dyn Sink,
) {
    let whole: [u8; CELL_BYTES] = padded(bytes);
    let cell = Cell::new_unchecked(&whole);
    sink.open(name, first_bit..first_bit + bytes.len() * 8);
    let mut walk = Walk {
        sink,
        first_bit,
        have_bits: bytes.len() * 8,
    };
    walk.field("VCI", 0..16, Value::Hex(u64::from(cell.vci())));
    walk.field("SAR", 16..32, Value::Hex(u64::from(cell.sar())));
    show_body(&mut walk, "payload", bytes);
    walk.length(length);
    walk.sink.close();
}

/// The body of a cell, as much of it as there is.
fn show_body(walk: &mut Walk<'_>, name: &str, bytes: &[u8]) {
    let body = bytes.get(4..).unwrap_or_default();
    let body = &body[..body.len().min(BODY_BYTES)];
    if !body.is_empty() {
        walk.field(name, 32..32 + body.len() * 8, Value::Bytes(body));
    }
}

/// Shows a cell as MSDL reads it.
pub fn describe_msdl(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let whole: [u8; CELL_BYTES] = padded(bytes);
    let cell = Cell::new_unchecked(&whole);
    let msdl = cell.msdl();
    sink.open("MSDL cell", first_bit..first_bit + bytes.len() * 8);
    let mut walk = Walk {
        sink,
        first_bit,
        have_bits: bytes.len() * 8,
    };
    walk.field("VCI", 0..16, Value::Hex(u64::from(msdl.vci)));
    walk.field("sequence", 16..24, Value::Uint(u64::from(msdl.sequence)));
    walk.check(msdl.check_sequence());
    walk.field("RID", 24..30, Value::Hex(u64::from(msdl.rid)));
    walk.field("part", 30..31, Value::Flag(msdl.part));
    walk.field("start", 31..32, Value::Flag(msdl.start));
    show_body(&mut walk, "body", bytes);
    if msdl.part {
        let valid = Value::Uint(u64::from(cell.body()[BODY_BYTES - 1]));
        walk.field("valid", 280..288, valid);
        walk.check(msdl.valid_bytes(cell.body()).map(drop));
    }
    walk.length(check_length("msdl", bytes, CELL_BYTES));
    walk.sink.close();
}

/// Shows a cell of the Fast Ring.
pub fn describe_cfr(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let whole: [u8; cfr::CELL_BYTES] = padded(bytes);
    let cell = CfrCell::new_unchecked(&whole);
    sink.open("CFR cell", first_bit..first_bit + bytes.len() * 8);
    let mut walk = Walk {
        sink,
        first_bit,
        have_bits: bytes.len() * 8,
    };
    walk.field("address", 0..16, Value::Hex(u64::from(cell.vci())));
    let data = bytes.get(cfr::ADDRESS_BYTES..).unwrap_or_default();
    let data = &data[..data.len().min(cfr::DATA_BYTES)];
    if !data.is_empty() {
        walk.field("data", 16..16 + data.len() * 8, Value::Bytes(data));
    }
    walk.length(check_length("cfr", bytes, cfr::CELL_BYTES));
    walk.sink.close();
}
