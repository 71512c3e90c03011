//! A packet byte by byte, round trips, and planted faults.

use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::kept::llc::tests::Lines;

const NSAP: [u8; 20] = [
    0x47, 0, 5, 0x80, 0xff, 0xe1, 0, 0, 0, 0xf2, 0x1a, 0x26, 0xb1, 0, 0x20, 0xea, 0, 0, 0x54, 0,
];

/// An ATMARP reply: NSAP-format sender, E.164 target with an NSAP-format subaddress.
fn reply() -> Vec<u8> {
    let mut bytes = vec![0, 0x13, 8, 0, 20, 0, 0, 2, 4, 0x40 | 11, 20, 4];
    bytes.extend(NSAP);
    bytes.extend([10, 0, 0, 1]);
    bytes.extend(b"44122333444");
    bytes.extend(NSAP);
    bytes.extend([10, 0, 0, 2]);
    bytes
}

#[test]
fn a_reply_byte_by_byte() {
    let bytes = reply();
    let packet = Packet::new_checked(&bytes[..]).unwrap();
    let repr = PacketRepr::parse(&packet).unwrap();
    let expected = PacketRepr {
        operation: Operation::Reply,
        sender: Party {
            number: AtmAddress::nsap(&NSAP).unwrap(),
            subaddress: AtmAddress::NONE,
            ip: Some([10, 0, 0, 1]),
        },
        target: Party {
            number: AtmAddress::e164(b"44122333444").unwrap(),
            subaddress: AtmAddress::nsap(&NSAP).unwrap(),
            ip: Some([10, 0, 0, 2]),
        },
    };
    assert_eq!(repr, expected);
    let nsap = "47000580ffe1000000f21a26b10020ea00005400";
    assert_eq!(
        repr.to_string(),
        format!("ATMARP reply from 10.0.0.1 at {nsap} about 10.0.0.2 at +44122333444/{nsap}")
    );
    let mut emitted = vec![0; repr.buffer_len()];
    repr.emit(&mut Packet::new_unchecked(&mut emitted));
    assert_eq!(emitted, bytes);
    assert!(AtmAddress::nsap(&[0; 64]).is_none());
}

/// On a PVC: no ATM addresses, and the target's IP address is what is asked for.
#[test]
fn an_inverse_request_may_give_nothing() {
    let bytes = [0, 0x13, 8, 0, 0, 0, 0, 8, 4, 0, 0, 0, 10, 0, 0, 1];
    let packet = Packet::new_checked(&bytes).unwrap();
    let repr = PacketRepr::parse(&packet).unwrap();
    assert_eq!(
        repr.to_string(),
        "InATMARP request from 10.0.0.1 at - about - at -"
    );
    assert_eq!(packet.packet_bytes(), bytes.len());
}

#[test]
fn operations_keep_their_numbers() {
    for number in 0..300 {
        assert_eq!(u16::from(Operation::from(number)), number);
    }
    assert_eq!(Operation::from(10), Operation::Nak);
    assert_eq!(
        Operation::from(3).to_string(),
        "ATMARP operation unknown (3)"
    );
}

#[test]
fn each_fault_is_on_its_field() {
    let good = reply();
    assert_eq!(Lines::faults(|sink| describe(&good, 0, sink)), [""; 0]);
    for (byte, flip, field, bits) in [
        (1, 1, "hrd", 0..16),
        (2, 1, "pro", 16..32),
        (4, 0x80, "shtl", 32..40),
        (5, 0x80, "sstl", 40..48),
        (9, 0x80, "thtl", 72..80),
        (10, 0x80, "tstl", 80..88),
        (11, 2, "tpln", 88..96),
    ] {
        let mut bytes = good.clone();
        bytes[byte] ^= flip;
        bytes.extend([0; 2]);
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        let error = PacketRepr::parse(&packet).expect_err(field);
        let found = error.first_bit..error.first_bit + error.bit_count;
        assert_eq!((error.field, found), (field, bits.clone()));
        let line = format!("! {field} {}..{}", bits.start + 64, bits.end + 64);
        assert_eq!(Lines::faults(|sink| describe(&bytes, 64, sink)), [line]);
    }
}

#[test]
fn every_length_that_is_too_short_is_found() {
    let good = reply();
    let ends = [
        (12, "header"),
        (32, "sha"),
        (36, "spa"),
        (47, "tha"),
        (67, "tsa"),
        (71, "tpa"),
    ];
    for len in 0..good.len() {
        let (end, field) = ends.into_iter().find(|&(end, _)| len < end).unwrap();
        let error = Packet::new_checked(&good[..len]).expect_err("too short");
        assert_eq!((error.field, error.first_bit), (field, len * 8));
        let line = format!("! {field} {}..{}", len * 8, end * 8);
        assert_eq!(
            Lines::faults(|sink| describe(&good[..len], 0, sink)),
            [line]
        );
    }
}

fn address() -> impl Strategy<Value = (bool, Vec<u8>)> {
    (
        any::<bool>(),
        proptest::collection::vec(any::<u8>(), 0..=63),
    )
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(
        operation in any::<u16>(),
        atm in proptest::array::uniform4(address()),
        ip in any::<[Option<[u8; 4]>; 2]>(),
    ) {
        let atm = |place: usize| {
            let (e164, bytes) = &atm[place];
            let make = if *e164 { AtmAddress::e164 } else { AtmAddress::nsap };
            make(bytes).unwrap()
        };
        let repr = PacketRepr {
            operation: operation.into(),
            sender: Party { number: atm(0), subaddress: atm(1), ip: ip[0] },
            target: Party { number: atm(2), subaddress: atm(3), ip: ip[1] },
        };
        let mut bytes = vec![0xee; repr.buffer_len()];
        repr.emit(&mut Packet::new_unchecked(&mut bytes));
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        prop_assert_eq!(PacketRepr::parse(&packet), Ok(repr));
        prop_assert_eq!(packet.packet_bytes(), bytes.len());
        prop_assert_eq!(Lines::faults(|sink| describe(&bytes, 0, sink)), [""; 0]);
    }

    #[test]
    fn nothing_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), small in any::<bool>()) {
        if small {
            // Lengths that fit, mostly.
            bytes.iter_mut().take(HEADER_BYTES).for_each(|byte| *byte %= 32);
        }
        if let Ok(packet) = Packet::new_checked(&bytes[..]) {
            let _ = PacketRepr::parse(&packet).map(|repr| repr.to_string());
        }
        Lines::of(|sink| describe(&bytes, 3, sink));
    }
}
