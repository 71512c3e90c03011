//! A Jetstream frame as a tree of fields; the layout stands in the parent module.

use super::frame::{
    CODE_RING_UP, CODE_TOKEN, check_pdu_bytes, check_user_bit, control_kind, reserved_addr_type,
};
use super::{
    AddrType, CELL_FRAME_BYTES, CONTROL_BYTES, FIELD_ADDR_TYPE, FIELD_CONTROL, FORMAT, Frame,
    HEADER_BYTES, Header, HeaderRepr, OVERHEAD_BYTES,
};
use crate::aal5;
use crate::atm::{self, Interface};
use barewire_wire::Error;
use barewire_wire::tree::{Sink, Value};

/// Shows the frame in `bytes`, which begin at `first_bit` of the whole input. A PDU whose
/// header has CRC set is shown as AAL5.
pub fn describe(bytes: &[u8], first_bit: usize, sink: &mut dyn Sink) {
    sink.open(FORMAT, first_bit..first_bit + bytes.len() * 8);
    if let Ok(header) = Header::new_checked(bytes) {
        describe_header(&header, first_bit, sink);
    }
    match Frame::new_checked(bytes) {
        Ok(frame) if frame.header().addr_type() == AddrType::Control => {
            describe_control(&frame, first_bit, sink);
        }
        Ok(frame) => describe_data(&frame, first_bit, sink),
        Err(error) => sink.wrong(error.shifted(first_bit)),
    }
    sink.close();
}

fn wrong_if(result: Result<(), Error>, first_bit: usize, sink: &mut dyn Sink) {
    if let Err(error) = result {
        sink.wrong(error.shifted(first_bit));
    }
}

fn describe_header(header: &Header<&[u8]>, first_bit: usize, sink: &mut dyn Sink) {
    let bits = |from: usize, to: usize| first_bit + from..first_bit + to;
    sink.open("Jetstream header", bits(0, HEADER_BYTES * 8));
    sink.field("CRC", bits(0, 1), Value::Flag(header.crc_present()));
    sink.field("MONITOR", bits(1, 2), Value::Flag(header.monitor()));
    let addr_type = header.addr_type();
    let name = match addr_type {
        AddrType::Rid => "RID",
        AddrType::Vc => "VC",
        AddrType::Control => "control",
        AddrType::Unknown(_) => "reserved",
    };
    let code = Value::Code(addr_type.bits().into(), name);
    sink.field(FIELD_ADDR_TYPE, bits(2, 4), code);
    let name = match (addr_type, header.control()) {
        (AddrType::Control, CODE_RING_UP) => "RING_UP",
        (AddrType::Control, CODE_TOKEN) => "token",
        (AddrType::Control, _) => "reserved",
        _ => "none",
    };
    let code = Value::Code(header.control().into(), name);
    sink.field(FIELD_CONTROL, bits(4, 8), code);
    sink.field(
        "DST_RID",
        bits(12, 16),
        Value::Uint(header.dst_rid().into()),
    );
    sink.field(
        "SRC_RID",
        bits(20, 24),
        Value::Uint(header.src_rid().into()),
    );
    wrong_if(HeaderRepr::parse(header).map(drop), first_bit, sink);
    if let AddrType::Unknown(code) = addr_type {
        sink.wrong(reserved_addr_type(code).shifted(first_bit));
    }
    sink.close();
}

fn describe_control(frame: &Frame<&[u8]>, first_bit: usize, sink: &mut dyn Sink) {
    let (_, complement) = frame.halves();
    let hops = Value::Uint(frame.hop_count().into());
    let bits = |from: usize, to: usize| first_bit + from..first_bit + to;
    sink.field("HOP_COUNT", bits(24, 32), hops);
    let complement = Value::Hex(complement.into());
    sink.field("complement", bits(32, CONTROL_BYTES * 8), complement);
    wrong_if(control_kind(frame).map(drop), first_bit, sink);
}

fn describe_data(frame: &Frame<&[u8]>, first_bit: usize, sink: &mut dyn Sink) {
    let pdu = frame.pdu();
    let cell_header_bit = first_bit + HEADER_BYTES * 8;
    sink.open("B-ISDN header", cell_header_bit..cell_header_bit + 40);
    let header = frame.cell_header();
    let header = atm::describe_header(Interface::Uni, &header, cell_header_bit, sink);
    sink.close();
    let payload_type = header.payload_type;
    wrong_if(check_user_bit(payload_type, pdu.len()), first_bit, sink);
    wrong_if(check_pdu_bytes(pdu.len()), first_bit, sink);
    let pdu_first_bit = first_bit + OVERHEAD_BYTES * 8;
    if frame.header().crc_present() {
        aal5::describe(pdu, pdu_first_bit, sink);
        return;
    }
    let is_cell = OVERHEAD_BYTES + pdu.len() == CELL_FRAME_BYTES;
    let name = if is_cell { "cell payload" } else { "PDU" };
    let bits = pdu_first_bit..pdu_first_bit + pdu.len() * 8;
    sink.field(name, bits, Value::Bytes(pdu));
}
