//! The vectors of docs/sources/vectors.md, round trips, and every single fault on its own field.

use core::ops::Range;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::aal5::shown::Shown;
use barewire_wire::{Error, Fault};

/// The SAR-PDU that carries `segment`.
fn sar(repr: SarRepr, segment: &[u8]) -> [u8; 48] {
    let mut bytes = [0xee; 48];
    bytes[2..2 + segment.len()].copy_from_slice(segment);
    repr.emit(&mut SarPdu::new_unchecked(&mut bytes[..]));
    bytes
}

fn parse_sar(bytes: &[u8]) -> Result<SarRepr, Error> {
    SarRepr::parse(&SarPdu::new_checked(bytes)?)
}

/// The CPCS-PDU that carries `payload`.
fn cpcs(repr: CpcsRepr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xee; repr.buffer_len()];
    bytes[4..4 + payload.len()].copy_from_slice(payload);
    repr.emit(&mut CpcsPdu::new_checked(&mut bytes[..]).expect("whole words"));
    bytes
}

fn parse_cpcs(bytes: &[u8]) -> Result<CpcsRepr, Error> {
    CpcsRepr::parse(&CpcsPdu::new_checked(bytes)?)
}

fn counting(bytes: u8) -> Vec<u8> {
    (1..=bytes).collect()
}

const BOM: SarRepr = SarRepr {
    segment_type: SegmentType::Bom,
    sequence: 3,
    mid: 0x155,
    payload_bytes: 44,
};

#[test]
fn the_cells_as_published_stand() {
    let message = cpcs(CpcsRepr::new(0xa5, 40), &counting(40));
    let bom = sar(BOM, &message[..44]);
    assert_eq!(bom[..6], [0x8d, 0x55, 0x00, 0xa5, 0x00, 0x28]);
    assert_eq!(bom[6..46], counting(40));
    assert_eq!(bom[46..], [0xb2, 0xb8]);

    let eom = SarRepr {
        segment_type: SegmentType::Eom,
        sequence: 4,
        mid: 0x155,
        payload_bytes: 4,
    };
    let eom = sar(eom, &message[44..]);
    assert_eq!(eom[..6], [0x51, 0x55, 0x00, 0xa5, 0x00, 0x28]);
    assert_eq!(eom[6..46], [0; 40]);
    assert_eq!(eom[46..], [0x12, 0xbf]);

    let message = cpcs(CpcsRepr::new(1, 32), &counting(32));
    let ssm = SarRepr {
        segment_type: SegmentType::Ssm,
        sequence: 0,
        mid: 1,
        payload_bytes: 40,
    };
    let ssm = sar(ssm, &message);
    let end = [0x00, 0x01, 0x00, 0x20, 0, 0, 0, 0, 0xa3, 0x50];
    assert_eq!(ssm[38..], end);

    let abort = sar(SarRepr::abort(5, 0x155), &[]);
    assert_eq!(abort[..2], [0x55, 0x55]);
    assert_eq!(abort[2..46], [0; 44]);
    assert_eq!(abort[46..], [0xfd, 0xfe]);
    assert!(parse_sar(&abort).expect("an abort").is_abort());
}

/// What is planted, and the field and bits that must be blamed.
type Planted = (fn(&mut [u8]), &'static str, Range<usize>);

fn set_length(pdu: &mut [u8], segment_type: SegmentType, length: u8) {
    let mut pdu = SarPdu::new_unchecked(pdu);
    pdu.set_segment_type(segment_type);
    pdu.set_length(length);
    pdu.fill_crc10();
}

#[test]
fn each_planted_fault_of_a_segment_is_blamed_on_its_field() {
    let cases: [Planted; 10] = [
        (|pdu| pdu[0] ^= 0x80, "crc10", 374..384),
        (|pdu| pdu[20] ^= 1, "crc10", 374..384),
        (|pdu| pdu[47] ^= 1, "crc10", 374..384),
        (|pdu| set_length(pdu, SegmentType::Bom, 43), "li", 368..374),
        (|pdu| set_length(pdu, SegmentType::Com, 45), "li", 368..374),
        (|pdu| set_length(pdu, SegmentType::Com, 63), "li", 368..374),
        (|pdu| set_length(pdu, SegmentType::Eom, 3), "li", 368..374),
        (|pdu| set_length(pdu, SegmentType::Eom, 62), "li", 368..374),
        (|pdu| set_length(pdu, SegmentType::Ssm, 7), "li", 368..374),
        (|pdu| set_length(pdu, SegmentType::Ssm, 63), "li", 368..374),
    ];
    for (plant, field, bits) in cases {
        let mut bytes = sar(BOM, &[7; 44]);
        plant(&mut bytes);
        let error = parse_sar(&bytes).expect_err(field);
        assert_eq!(error.field, field);
        assert_eq!(error.first_bit..error.first_bit + error.bit_count, bits);
        let mut shown = Shown::default();
        describe(&bytes, 40, &mut shown);
        assert_eq!(shown.errors, [error.shifted(40)]);
        shown.assert_closed(40..424);
    }
}

#[test]
fn each_planted_fault_of_a_message_is_blamed_on_its_field() {
    let cases: [Planted; 6] = [
        (|pdu| pdu[0] = 1, "cpi", 0..8),
        (|pdu| pdu[44] = 1, "al", 44 * 8..45 * 8),
        (|pdu| pdu[45] ^= 1, "etag", 45 * 8..46 * 8),
        (|pdu| pdu[1] ^= 1, "etag", 45 * 8..46 * 8),
        (
            |pdu| {
                pdu[2..4].copy_from_slice(&[0, 50]);
                pdu[47] = 41;
            },
            "length",
            46 * 8..48 * 8,
        ),
        (|pdu| pdu[47] = 36, "pad", 40 * 8..44 * 8),
    ];
    for (plant, field, bits) in cases {
        assert_planted(plant, field, bits);
    }
    assert_planted(|pdu| pdu[3] = 36, "basize", 16..32);
}

#[track_caller]
fn assert_planted(plant: fn(&mut [u8]), field: &str, bits: Range<usize>) {
    let mut bytes = cpcs(CpcsRepr::new(9, 37), &counting(37));
    assert_eq!(bytes.len(), 48);
    plant(&mut bytes);
    let error = parse_cpcs(&bytes).expect_err(field);
    assert_eq!(error.field, field);
    assert_eq!(error.first_bit..error.first_bit + error.bit_count, bits);
    let mut shown = Shown::default();
    describe_cpcs(&bytes, 8, &mut shown);
    assert_eq!(shown.errors, [error.shifted(8)]);
    shown.assert_closed(8..8 + 48 * 8);
}

#[test]
fn sizes_that_no_pdu_has_are_refused() {
    let sar_fault = |len| {
        SarPdu::new_checked(vec![0; len])
            .map(|_| ())
            .map_err(|e| e.fault)
    };
    let short = |needed_bytes, have_bytes| {
        Err(Fault::Short {
            needed_bytes,
            have_bytes,
        })
    };
    assert_eq!(sar_fault(47), short(48, 47));
    let long = |allowed_bytes, have_bytes| {
        Err(Fault::Long {
            allowed_bytes,
            have_bytes,
        })
    };
    assert_eq!(sar_fault(49), long(48, 49));
    let cpcs_fault = |len| {
        CpcsPdu::new_checked(vec![0; len])
            .map(|_| ())
            .map_err(|e| e.fault)
    };
    assert_eq!(cpcs_fault(0), short(8, 0));
    assert_eq!(cpcs_fault(9), short(12, 9));
    assert_eq!(cpcs_fault(65_544), Ok(()));
    assert_eq!(cpcs_fault(65_548), long(65_544, 65_548));
}

#[test]
fn they_show_themselves() {
    assert_eq!(BOM.to_string(), "AAL3/4 BOM sn=3 mid=341 44 bytes");
    let abort = SarRepr::abort(5, 1);
    assert_eq!(abort.to_string(), "AAL3/4 EOM sn=5 mid=1 abort");
    let repr = CpcsRepr {
        cpi: 1,
        tag: 2,
        buffer_allocation: 10,
        payload_bytes: 3,
    };
    assert_eq!(
        repr.to_string(),
        "AAL3/4 3 bytes tag=0x02 basize=10 cpi=0x01"
    );
    let mut shown = Shown::default();
    describe(&sar(BOM, &[0; 44]), 0, &mut shown);
    describe_cpcs(&cpcs(CpcsRepr::new(1, 3), b"abc"), 0, &mut shown);
    let expected = [
        "st 0..2",
        "sn 2..6",
        "mid 6..16",
        "segment 16..368",
        "li 368..374",
        "crc10 374..384",
        "cpi 0..8",
        "btag 8..16",
        "basize 16..32",
        "payload 32..56",
        "pad 56..64",
        "al 64..72",
        "etag 72..80",
        "length 80..96",
    ];
    assert_eq!(shown.lines(), expected);
    assert_eq!(shown.errors, []);
}

/// Any segment that the format allows.
fn any_sar() -> impl Strategy<Value = SarRepr> {
    let kind = prop_oneof![
        Just((SegmentType::Bom, 44_u8..=44)),
        Just((SegmentType::Com, 44..=44)),
        Just((SegmentType::Eom, 4..=44)),
        Just((SegmentType::Eom, 0..=0)),
        Just((SegmentType::Ssm, 8..=44)),
    ];
    let kind = kind.prop_flat_map(|(segment_type, lengths)| (Just(segment_type), lengths));
    (kind, 0_u8..16, 0_u16..1024).prop_map(|((segment_type, payload_bytes), sequence, mid)| {
        SarRepr {
            segment_type,
            sequence,
            mid,
            payload_bytes,
        }
    })
}

proptest! {
    #[test]
    fn a_segment_parses_back(repr in any_sar(), segment in prop::array::uniform32(any::<u8>())) {
        let count = usize::from(repr.payload_bytes).min(32);
        let bytes = sar(repr, &segment[..count]);
        prop_assert_eq!(parse_sar(&bytes), Ok(repr));
        let view = SarPdu::new_unchecked(&bytes[..]);
        prop_assert_eq!(&view.segment()[..count], &segment[..count]);
        prop_assert!(view.segment()[usize::from(repr.payload_bytes)..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_message_parses_back(
        payload in proptest::collection::vec(any::<u8>(), 0..500),
        tag: u8,
        spare in 0_u16..9,
    ) {
        let repr = CpcsRepr {
            buffer_allocation: payload.len() as u16 + spare,
            ..CpcsRepr::new(tag, payload.len() as u16)
        };
        let bytes = cpcs(repr, &payload);
        prop_assert_eq!(parse_cpcs(&bytes), Ok(repr));
        let view = CpcsPdu::new_unchecked(&bytes);
        prop_assert_eq!(view.payload(), &payload[..]);
        prop_assert!(view.pad().len() < 4 && view.pad().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        sealed: bool,
        first_bit in 0_usize..1000,
    ) {
        let mut bytes = bytes;
        if sealed && bytes.len() >= 48 {
            bytes.truncate(48);
            SarPdu::new_unchecked(&mut bytes[..]).fill_crc10();
        }
        let bits = first_bit..first_bit + bytes.len() * 8;
        let mut shown = Shown::default();
        describe(&bytes, first_bit, &mut shown);
        shown.assert_closed(bits.clone());
        prop_assert_eq!(parse_sar(&bytes).is_err(), !shown.errors.is_empty());
        let mut shown = Shown::default();
        describe_cpcs(&bytes, first_bit, &mut shown);
        shown.assert_closed(bits);
        prop_assert_eq!(parse_cpcs(&bytes).is_err(), !shown.errors.is_empty());
        if let Err(error) = parse_cpcs(&bytes) {
            prop_assert!(shown.errors.contains(&error.shifted(first_bit)));
        }
    }
}
