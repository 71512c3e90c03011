//! A message byte by byte, round trips, and planted faults.

use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::kept::llc::tests::Lines;

const CONNECT: MessageRepr = MessageRepr {
    source: 7,
    destination: 0x0102,
    source_reference: 0x1122_3344,
    destination_reference: 0,
    body: Body::Connect {
        receive_at: Port {
            vci: 0x1234,
            channel: 3,
        },
        service: 0xfe,
    },
};

const CONNECT_BYTES: [u8; 32] = [
    0x4d, 0x4e, 1, 1, 0, 7, 1, 2, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0x12, 0x34, 3, 0, 0, 0, 0, 0,
    0, 0, 0, 0xfe, 0, 0, 0x56, 0x0f,
];

#[test]
fn a_connect_byte_by_byte() {
    assert_eq!(CONNECT.to_bytes(), CONNECT_BYTES);
    assert!(checksum::sum(&CONNECT_BYTES).is_valid());
    let message = Message::new_checked(CONNECT_BYTES).unwrap();
    assert_eq!(MessageRepr::parse(&message), Ok(CONNECT));
    assert_eq!(
        CONNECT.to_string(),
        "MSNL 7/287454020 to 258/0: connect to service 0xfe, receiving at VCI 4660 on channel 3"
    );
}

/// Sets a byte, mends the checksum, and gives the one fault that both `parse` and `describe` find.
#[track_caller]
fn planted(mut bytes: [u8; 32], place: usize, byte: u8) -> (&'static str, Range<usize>) {
    bytes[place] = byte;
    let mut message = Message::new_unchecked(bytes);
    message.fill_checksum();
    let error = MessageRepr::parse(&message).expect_err("a fault");
    let bits = error.first_bit..error.first_bit + error.bit_count;
    let line = format!("! {} {}..{}", error.field, bits.start + 8, bits.end + 8);
    let bytes = message.into_inner();
    assert_eq!(Lines::faults(|sink| describe(&bytes, 8, sink)), [line]);
    (error.field, bits)
}

#[test]
fn each_fault_is_on_its_field() {
    assert_eq!(planted(CONNECT_BYTES, 0, 0), ("magic", 0..16));
    assert_eq!(planted(CONNECT_BYTES, 2, 2), ("version", 16..24));
    let mut anonymous = CONNECT_BYTES;
    anonymous[8..11].fill(0);
    assert_eq!(planted(anonymous, 11, 0), ("source reference", 64..96));
    for body in [Body::Reject(Reason::NoResources), Body::Closed] {
        let (source_reference, destination_reference) = (0, 5);
        let stateless = MessageRepr {
            source_reference,
            destination_reference,
            body,
            ..CONNECT
        };
        let message = Message::new_unchecked(stateless.to_bytes());
        assert_eq!(MessageRepr::parse(&message), Ok(stateless));
    }
    let mut low = CONNECT_BYTES;
    low[16] = 0;
    assert_eq!(planted(low, 17, 31), ("vci", 128..144));
    assert_eq!(planted(CONNECT_BYTES, 18, 4), ("channel", 144..152));
    assert_eq!(planted(CONNECT_BYTES, 19, 1), ("reason", 152..160));
    assert_eq!(planted(CONNECT_BYTES, 29, 1), ("reserved", 224..240));
    let body = Body::Close(Reason::TimedOut);
    let close = MessageRepr { body, ..CONNECT }.to_bytes();
    assert_eq!(planted(close, 16, 1), ("vci", 128..144));
    assert_eq!(planted(close, 18, 1), ("channel", 144..152));
    assert_eq!(planted(close, 27, 1), ("service", 160..224));
}

#[test]
fn every_single_bit_that_flips_is_found() {
    for bit in 0..256 {
        let mut bytes = CONNECT_BYTES;
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let faults = Lines::faults(|sink| describe(&bytes, 0, sink));
        assert_eq!(
            faults.last().map(|line| &line[..],),
            Some("! checksum 240..256")
        );
        let message = Message::new_unchecked(bytes);
        assert!(MessageRepr::parse(&message).is_err(), "{bit}");
    }
}

#[test]
fn a_message_has_its_length() {
    let error = Message::new_checked(&CONNECT_BYTES[..31]).expect_err("short");
    assert_eq!((error.field, error.first_bit), ("message", 248));
    assert_eq!(
        Lines::faults(|sink| describe(&CONNECT_BYTES[..31], 0, sink)),
        ["! message 248..256"]
    );
    let mut long = Vec::from(CONNECT_BYTES);
    long.push(0);
    let error = MessageRepr::parse(&Message::new_checked(&long).unwrap()).expect_err("long");
    assert_eq!(
        (error.field, error.first_bit, error.bit_count),
        ("message", 256, 8)
    );
}

#[test]
fn codes_keep_their_numbers() {
    for number in 0..=255 {
        assert_eq!(u8::from(Reason::from(number)), number);
        let message = MessageRepr {
            body: Body::Unknown(number),
            ..CONNECT
        };
        let bytes = message.to_bytes();
        let kind = Message::new_unchecked(bytes).body().kind();
        assert_eq!(kind, number);
    }
}

fn body() -> impl Strategy<Value = Body> {
    let port = (DATA_VCI_MIN.., 0..CHANNELS).prop_map(|(vci, channel)| Port { vci, channel });
    let reason = any::<u8>().prop_map(Reason::from);
    prop_oneof![
        (port.clone(), any::<u64>()).prop_map(|(receive_at, service)| Body::Connect {
            receive_at,
            service
        }),
        port.prop_map(|receive_at| Body::Accept { receive_at }),
        reason.clone().prop_map(Body::Reject),
        reason.prop_map(Body::Close),
        Just(Body::Closed),
        Just(Body::Confirm),
        Just(Body::Probe),
        (8..=255_u8).prop_map(Body::Unknown),
    ]
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(
        (source, destination) in any::<(u16, u16)>(),
        source_reference in 1..=u32::MAX,
        destination_reference in any::<u32>(),
        body in body(),
    ) {
        let repr = MessageRepr {
            source, destination, source_reference, destination_reference, body,
        };
        let mut bytes = vec![0xee; repr.buffer_len()];
        repr.emit(&mut Message::new_unchecked(&mut bytes));
        prop_assert_eq!(MessageRepr::parse(&Message::new_checked(&bytes).unwrap()), Ok(repr));
        prop_assert_eq!(Lines::faults(|sink| describe(&bytes, 0, sink)), [""; 0]);
    }

    #[test]
    fn nothing_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..40), mend in any::<bool>()) {
        if mend && bytes.len() >= MESSAGE_BYTES {
            bytes[..3].copy_from_slice(&CONNECT_BYTES[..3]);
            bytes[3] %= 9;
            Message::new_unchecked(&mut bytes).fill_checksum();
        }
        if let Ok(message) = Message::new_checked(&bytes) {
            let _ = MessageRepr::parse(&message).map(|repr| repr.to_string());
        }
        Lines::of(|sink| describe(&bytes, 5, sink));
    }
}
