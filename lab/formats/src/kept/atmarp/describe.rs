//! An ATMARP packet as a tree.

use super::repr::{check_length_byte, check_types};
use super::{HEADER_BYTES, Packet, Slot, TypeLength, need};
use barewire_wire::tree::{Sink, Value};

/// Shows an ATMARP packet, as far as it is there.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open("ATMARP", first_bit..first_bit + bytes.len() * 8);
    match need(super::FORMAT, "header", bytes, HEADER_BYTES) {
        Ok(()) => describe_packet(&Packet::new_unchecked(bytes), bytes, first_bit, sink),
        Err(error) => {
            show_bytes("header", bytes, first_bit, sink);
            sink.wrong(error.shifted(first_bit));
        }
    }
    sink.close();
}

fn describe_packet(packet: &Packet<&[u8]>, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    let word = |byte: usize| first_bit + byte * 8..first_bit + byte * 8 + 16;
    sink.field("hrd", word(0), Value::Hex(packet.hardware().into()));
    sink.field("pro", word(2), Value::Hex(packet.protocol().into()));
    let types = check_types(packet);
    describe_length(packet, Slot::SenderNumber, first_bit, sink);
    describe_length(packet, Slot::SenderSubaddress, first_bit, sink);
    let operation = packet.operation();
    let code = Value::Code(u16::from(operation).into(), operation.name());
    sink.field("op", word(6), code);
    for slot in &Slot::ALL[2..] {
        describe_length(packet, *slot, first_bit, sink);
    }
    if let Err(error) = types {
        sink.wrong(error.shifted(first_bit));
    }
    for slot in Slot::ALL {
        if let Err(error) = check_length_byte(packet, slot) {
            sink.wrong(error.shifted(first_bit));
        }
    }
    describe_addresses(packet, bytes, first_bit, sink);
}

fn describe_length(packet: &Packet<&[u8]>, slot: Slot, first_bit: usize, sink: &mut dyn Sink) {
    let bit = first_bit + slot.length_byte() * 8;
    let byte = packet.length_byte(slot);
    let name = slot.names().0;
    if slot.is_protocol() {
        return sink.field(name, bit..bit + 8, Value::Uint(byte.into()));
    }
    let type_length = TypeLength(byte);
    let kind = if type_length.is_e164() {
        "E.164"
    } else {
        "NSAP format"
    };
    sink.open(name, bit..bit + 8);
    let e164 = type_length.is_e164().into();
    sink.field("type", bit + 1..bit + 2, Value::Code(e164, kind));
    let length = type_length.address_bytes() as u64;
    sink.field("length", bit + 2..bit + 8, Value::Uint(length));
    sink.close();
}

/// The addresses, up to the first that is not whole, and what stands behind them.
fn describe_addresses(packet: &Packet<&[u8]>, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    for slot in Slot::ALL {
        let (name, range) = (slot.names().1, packet.range(slot));
        if let Err(error) = need(super::FORMAT, name, bytes, range.end) {
            let bit = first_bit + range.start * 8;
            show_bytes(name, bytes.get(range.start..).unwrap_or(&[]), bit, sink);
            return sink.wrong(error.shifted(first_bit));
        }
        show_bytes(
            name,
            &bytes[range.clone()],
            first_bit + range.start * 8,
            sink,
        );
    }
    let end = packet.packet_bytes();
    show_bytes("trailing", &bytes[end..], first_bit + end * 8, sink);
}

/// Bytes as a field, unless there are none.
fn show_bytes(name: &str, bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    if !bytes.is_empty() {
        let bits = first_bit..first_bit + bytes.len() * 8;
        sink.field(name, bits, Value::Bytes(bytes));
    }
}
