//! Headers as RFC 2684 prints them, round trips, and planted faults.

use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;
use std::{format, string};

use core::ops::Range;
use proptest::prelude::*;

use super::*;
use barewire_wire::tree::{Sink, Value};

/// A tree as lines: `path first..end value`, and `! field first..end` for faults.
#[derive(Default)]
pub(crate) struct Lines {
    path: Vec<String>,
    pub(crate) lines: Vec<string::String>,
}

impl Sink for Lines {
    fn open(&mut self, name: &str, _: Range<usize>) {
        self.path.push(name.to_string());
    }
    fn close(&mut self) {
        self.path
            .pop()
            .expect("a group closed that was never opened");
    }
    fn field(&mut self, name: &str, bits: Range<usize>, value: Value<'_>) {
        let value = match value {
            Value::Uint(number) => format!("{number}"),
            Value::Hex(number) => format!("{number:#x}"),
            Value::Code(number, name) => format!("{number:#x} {name}"),
            other => format!("{other:?}"),
        };
        self.lines
            .push(format!("{name} {}..{} {value}", bits.start, bits.end));
    }
    fn wrong(&mut self, error: Error) {
        let end = error.first_bit + error.bit_count;
        self.lines
            .push(format!("! {} {}..{end}", error.field, error.first_bit));
    }
}

impl Lines {
    pub(crate) fn of(describe: impl FnOnce(&mut dyn Sink)) -> Vec<String> {
        let mut lines = Self::default();
        describe(&mut lines);
        assert!(lines.path.is_empty(), "a group was left open");
        lines.lines
    }

    pub(crate) fn faults(describe: impl FnOnce(&mut dyn Sink)) -> Vec<String> {
        let mut lines = Self::of(describe);
        lines.retain(|line| line.starts_with('!'));
        lines
    }
}

#[track_caller]
fn header(bytes: &[u8]) -> HeaderRepr {
    let packet = Packet::new_checked(bytes).expect("a whole header");
    HeaderRepr::parse(&packet).expect("a good header")
}

#[track_caller]
fn fault(bytes: &[u8]) -> (&'static str, Range<usize>) {
    let error = Packet::new_checked(bytes)
        .and_then(|packet| HeaderRepr::parse(&packet))
        .expect_err("a fault");
    let bits = error.first_bit..error.first_bit + error.bit_count;
    let shown = Lines::faults(|sink| describe(bytes, 800, sink));
    let line = format!("! {} {}..{}", error.field, bits.start + 800, bits.end + 800);
    assert_eq!(shown, [line]);
    (error.field, bits)
}

const IPV4: [u8; 9] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45];
const BRIDGED: [u8; 10] = [0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 0];

#[test]
fn vectors() {
    assert_eq!(header(&IPV4), HeaderRepr::Routed(EtherType::Ipv4));
    assert_eq!(Packet::new_unchecked(IPV4).payload(), [0x45]);
    assert_eq!(header(&BRIDGED), HeaderRepr::BridgedEthernet { fcs: false });
    let mut with_fcs = BRIDGED;
    with_fcs[7] = 1;
    assert_eq!(header(&with_fcs), HeaderRepr::BridgedEthernet { fcs: true });
    let ipv6 = [0xaa, 0xaa, 3, 0, 0, 0, 0x86, 0xdd];
    assert_eq!(header(&ipv6), HeaderRepr::Routed(EtherType::Ipv6));
    assert_eq!(
        header(&[0xfe, 0xfe, 3, 0x81]),
        HeaderRepr::Iso { nlpid: 0x81 }
    );
    assert_eq!(
        Packet::new_unchecked([0xfe, 0xfe, 3, 0x81, 7]).payload(),
        [0x81, 7]
    );
}

#[test]
fn what_is_unknown_survives() {
    let cisco = [0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0];
    let repr = header(&cisco);
    assert_eq!(repr.to_string(), "LLC/SNAP OUI 00-00-0c PID 0x2000");
    let token_ring = [0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 9];
    let (oui, pid) = (OUI_BRIDGED, 9);
    assert_eq!(header(&token_ring), HeaderRepr::Unknown { oui, pid });
    let odd = [0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0x47];
    assert_eq!(header(&odd).to_string(), "LLC/SNAP EtherType 0x8847");
}

#[test]
fn each_fault_is_on_its_field() {
    let planted = |byte: usize| {
        let mut bytes = BRIDGED;
        bytes[byte] ^= 0x10;
        fault(&bytes)
    };
    assert_eq!(planted(0), ("dsap", 0..8));
    assert_eq!(planted(1), ("ssap", 8..16));
    assert_eq!(planted(2), ("control", 16..24));
    assert_eq!(planted(8), ("pad", 64..80));
    assert_eq!(planted(9), ("pad", 64..80));
    assert_eq!(
        fault(&[0xfe, 0xfe, 0x13, 0x81, 0, 0, 0, 0]),
        ("control", 16..24)
    );
    assert_eq!(
        fault(&[0xfe, 0xaa, 0x03, 0x81, 0, 0, 0, 0]),
        ("ssap", 8..16)
    );
    assert_eq!(fault(&BRIDGED[..9]), ("pad", 72..80));
    assert_eq!(fault(&BRIDGED[..7]), ("snap", 56..64));
    assert_eq!(fault(&[]), ("llc", 0..32));
}

#[test]
fn a_bridged_frame_is_shown_and_its_check_sequence_checked() {
    let mut bytes = Vec::from(BRIDGED);
    bytes[7] = 1;
    // Destination, source, type, and a payload of "123456789" with its own CRC-32 below.
    bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes.extend(b"123456789");
    let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&bytes[10..]);
    bytes.extend(crc.to_le_bytes());
    let good = Lines::of(|sink| describe(&bytes, 0, sink));
    assert_eq!(Lines::faults(|sink| describe(&bytes, 0, sink)), [""; 0]);
    assert!(good.contains(&"pid 48..64 0x1 bridged Ethernet, FCS".to_string()));
    let fcs = bytes.len() * 8 - 32..bytes.len() * 8;
    for byte in 10..bytes.len() {
        bytes[byte] ^= 0x40;
        let faults = Lines::faults(|sink| describe(&bytes, 0, sink));
        assert_eq!(faults, [format!("! fcs {}..{}", fcs.start, fcs.end)]);
        bytes[byte] ^= 0x40;
    }
    let mux = VcMux::BridgedEthernet { fcs: true };
    assert_eq!(mux.payload(&bytes[8..]), Ok(&bytes[10..]));
    assert_eq!(
        Lines::faults(|sink| describe_vc_mux(mux, &bytes[8..], 0, sink)),
        [""; 0]
    );
    assert_eq!(
        Lines::faults(|sink| describe(&bytes[..27], 0, sink)),
        ["! frame 216..224"]
    );
}

#[test]
fn vc_multiplexing_adds_nothing_or_padding() {
    let routed = VcMux::Routed(EtherType::Ipv4);
    assert_eq!(routed.payload(&[0x45, 0]), Ok(&[0x45, 0][..]));
    assert_eq!(routed.to_string(), "VC-multiplexed IPv4");
    let bridged = VcMux::BridgedEthernet { fcs: false };
    assert_eq!(bridged.payload(&[0, 0, 7]), Ok(&[7][..]));
    for (pdu, bits) in [(&[0, 1, 7][..], 0..16), (&[0][..], 8..16), (&[][..], 0..16)] {
        let error = bridged.payload(pdu).expect_err("no good padding");
        assert_eq!(
            (error.field, error.first_bit, error.bit_count),
            ("pad", bits.start, bits.len())
        );
        let faults = Lines::faults(|sink| describe_vc_mux(bridged, pdu, 0, sink));
        assert_eq!(faults[0], format!("! pad {}..{}", bits.start, bits.end));
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(
        repr in prop_oneof![
            any::<u16>().prop_map(|number| HeaderRepr::Routed(number.into())),
            any::<bool>().prop_map(|fcs| HeaderRepr::BridgedEthernet { fcs }),
            any::<u8>().prop_map(|nlpid| HeaderRepr::Iso { nlpid }),
            (any::<[u8; 3]>(), any::<u16>())
                .prop_filter("has a name", |&(oui, pid)| oui != [0; 3] && !pad_follows(oui, pid))
                .prop_map(|(oui, pid)| HeaderRepr::Unknown { oui, pid }),
        ],
        mut payload in proptest::collection::vec(any::<u8>(), 1..40),
    ) {
        if let HeaderRepr::Iso { nlpid } = repr {
            payload[0] = nlpid;
        }
        let mut bytes = vec![0xee; repr.buffer_len()];
        bytes.extend(&payload);
        repr.emit(&mut Packet::new_unchecked(&mut bytes));
        let packet = Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(HeaderRepr::parse(&packet), Ok(repr));
        prop_assert_eq!(packet.header_bytes(), repr.buffer_len());
        prop_assert_eq!(packet.payload(), &payload);
    }

    #[test]
    fn nothing_panics(
        begin in 0_usize..6,
        tail in proptest::collection::vec(any::<u8>(), 0..60),
        fcs in any::<bool>(),
    ) {
        let mut bytes = vec![];
        bytes.extend([&[][..], &LLC_SNAP, &LLC_ISO, &BRIDGED, &IPV4[..8], &BRIDGED[..7]][begin]);
        bytes.extend(tail);
        if let Ok(packet) = Packet::new_checked(&bytes) {
            let _ = (packet.payload(), HeaderRepr::parse(&packet).map(|repr| repr.to_string()));
            let _ = Packet::new_unchecked(bytes.clone()).payload_mut();
        }
        Lines::of(|sink| describe(&bytes, 7, sink));
        for mux in [VcMux::Routed(EtherType::Arp), VcMux::BridgedEthernet { fcs }] {
            Lines::of(|sink| describe_vc_mux(mux, &bytes, 7, sink));
        }
    }
}
