//! LLC/SNAP, VC multiplexing, ATMARP and MSNL messages: what is parsed is emitted again, and
//! anything is shown.
#![no_main]

use core::ops::Range;

use barewire_wire::Error;
use barewire_wire::llc::{self, EtherType, HeaderRepr, VcMux};
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{atmarp, msnl};
use libfuzzer_sys::fuzz_target;

/// How many groups are open.
#[derive(Default)]
struct Depth(usize);

impl Sink for Depth {
    fn open(&mut self, _: &str, _: Range<usize>) {
        self.0 += 1;
    }
    fn close(&mut self) {
        self.0 -= 1;
    }
    fn field(&mut self, _: &str, bits: Range<usize>, _: Value<'_>) {
        assert!(self.0 > 0 && bits.start <= bits.end);
    }
    fn wrong(&mut self, _: Error) {
        assert!(self.0 > 0);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else {
        return;
    };
    let mut depth = Depth::default();
    let fcs = first & 1 == 1;
    llc::describe(bytes, first.into(), &mut depth);
    llc::describe_vc_mux(VcMux::BridgedEthernet { fcs }, bytes, 0, &mut depth);
    llc::describe_vc_mux(VcMux::Routed(EtherType::Arp), bytes, 0, &mut depth);
    msnl::describe(bytes, 0, &mut depth);
    assert_eq!(depth.0, 0);
    round_trip_llc(bytes);
    round_trip_atmarp(bytes);
    round_trip_msnl(bytes);
});

fn round_trip_llc(bytes: &[u8]) {
    let Ok(packet) = llc::Packet::new_checked(bytes) else {
        return;
    };
    if let Ok(repr) = HeaderRepr::parse(&packet) {
        let mut again = vec![0; repr.buffer_len()];
        repr.emit(&mut llc::Packet::new_unchecked(&mut again));
        assert_eq!(again, bytes[..repr.buffer_len()]);
        assert_eq!(packet.payload(), &bytes[repr.buffer_len()..]);
    }
}

fn round_trip_atmarp(bytes: &[u8]) {
    let Ok(packet) = atmarp::Packet::new_checked(bytes) else {
        return;
    };
    if let Ok(repr) = atmarp::PacketRepr::parse(&packet) {
        let mut again = vec![0; repr.buffer_len()];
        repr.emit(&mut atmarp::Packet::new_unchecked(&mut again));
        assert_eq!(again, bytes[..repr.buffer_len()]);
    }
}

fn round_trip_msnl(bytes: &[u8]) {
    let Ok(message) = msnl::Message::new_checked(bytes) else {
        return;
    };
    if let Ok(repr) = msnl::MessageRepr::parse(&message) {
        let known = !matches!(repr.body, msnl::Body::Unknown(_));
        assert!(!known || repr.to_bytes() == bytes);
    }
}
