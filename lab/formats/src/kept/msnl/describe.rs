//! A signalling message as a tree.

use super::{FORMAT, MESSAGE_BYTES, Message, Range, bits, check, kind_name, need};
use barewire_wire::tree::{Sink, Value};

/// Shows a message, as far as it is there.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open("MSNL", first_bit..first_bit + bytes.len() * 8);
    match need(FORMAT, "message", bytes, MESSAGE_BYTES) {
        Ok(()) => describe_message(&Message::new_unchecked(bytes), first_bit, sink),
        Err(error) => {
            let bits = first_bit..first_bit + bytes.len() * 8;
            sink.field("message", bits, Value::Bytes(bytes));
            sink.wrong(error.shifted(first_bit));
        }
    }
    sink.close();
}

fn describe_message(message: &Message<&[u8]>, first_bit: usize, sink: &mut dyn Sink) {
    let mut field = |name, bits: Range<usize>, value| {
        sink.field(name, first_bit + bits.start..first_bit + bits.end, value);
    };
    let uint = |bits: Range<usize>| Value::Uint(message.get(bits));
    let hex = |bits: Range<usize>| Value::Hex(message.get(bits));
    let kind = message.kind();
    field("magic", bits::MAGIC, hex(bits::MAGIC));
    field("version", bits::VERSION, uint(bits::VERSION));
    field(
        "kind",
        bits::KIND,
        Value::Code(kind.into(), kind_name(kind)),
    );
    field("source", bits::SOURCE, uint(bits::SOURCE));
    field("destination", bits::DESTINATION, uint(bits::DESTINATION));
    for (name, bits) in [
        ("source reference", bits::SOURCE_REFERENCE),
        ("destination reference", bits::DESTINATION_REFERENCE),
        ("vci", bits::VCI),
        ("channel", bits::CHANNEL),
    ] {
        field(name, bits.clone(), uint(bits));
    }
    let reason = message.reason();
    field(
        "reason",
        bits::REASON,
        Value::Code(message.get(bits::REASON), reason.name()),
    );
    for (name, bits) in [
        ("service", bits::SERVICE),
        ("reserved", bits::RESERVED),
        ("checksum", bits::CHECKSUM),
    ] {
        field(name, bits.clone(), hex(bits));
    }
    for error in check(message).into_iter().flatten() {
        sink.wrong(error.shifted(first_bit));
    }
}
