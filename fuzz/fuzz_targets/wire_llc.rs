//! LLC/SNAP, VC multiplexing, ATMARP and MSNL messages: what is parsed is emitted again, and
//! anything is shown.
#![no_main]

use barewire_formats::llc::{self, EtherType, HeaderRepr, VcMux};
use barewire_formats::{atmarp, msnl};
use barewire_fuzz::faults;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, bytes)) = data.split_first() else {
        return;
    };
    let fcs = first & 1 == 1;
    faults(|sink| {
        llc::describe(bytes, first.into(), sink);
        llc::describe_vc_mux(VcMux::BridgedEthernet { fcs }, bytes, 0, sink);
        llc::describe_vc_mux(VcMux::Routed(EtherType::Arp), bytes, 0, sink);
        msnl::describe(bytes, 0, sink);
    });
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
