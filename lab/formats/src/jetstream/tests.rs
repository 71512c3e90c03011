//! Jetstream frames: round trips, vectors by hand, each planted fault on its field.

use super::frame::{CODE_TOKEN, seal};
use super::*;
use crate::atm::Interface;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault};
use core::ops::Range;
use proptest::prelude::*;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// What [`describe`] shows.
#[derive(Default)]
struct Shown {
    depth: usize,
    fields: Vec<(String, Range<usize>)>,
    wrong: Vec<Error>,
}

impl Sink for Shown {
    fn open(&mut self, _name: &str, _bits: Range<usize>) {
        self.depth += 1;
    }
    fn close(&mut self) {
        self.depth -= 1;
    }
    fn field(&mut self, name: &str, bits: Range<usize>, _value: Value<'_>) {
        self.fields.push((name.to_string(), bits));
    }
    fn wrong(&mut self, error: Error) {
        self.wrong.push(error);
    }
}

fn shown(bytes: &[u8], first_bit: usize) -> Shown {
    let mut sink = Shown::default();
    describe(bytes, first_bit, &mut sink);
    assert_eq!(sink.depth, 0);
    sink
}

fn bytes_of(repr: &FrameRepr) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut Frame::new_checked(&mut bytes).expect("room"));
    bytes
}

fn parse(bytes: &[u8]) -> Result<FrameRepr, Error> {
    FrameRepr::parse(&Frame::new_checked(bytes)?)
}

fn sample() -> FrameRepr {
    let mut repr = FrameRepr::on_vc(3, node_vc(2, 5).expect("in range"), 96);
    repr.header.crc_present = false;
    repr
}

#[test]
fn the_header_stands_where_the_table_says() {
    let repr = HeaderRepr {
        crc_present: true,
        monitor: true,
        addr_type: AddrType::Vc,
        dst_rid: 7,
        src_rid: 12,
    };
    let mut header = Header::new_checked([0xff; 3]).expect("three bytes");
    repr.emit(&mut header);
    assert_eq!(header.into_inner(), [0b1101_0000, 0x07, 0x0c]);
    assert_eq!(repr.to_string(), "VC 12 -> 7 crc monitor");
}

#[test]
fn control_frames_are_four_words() {
    assert_eq!(
        bytes_of(&FrameRepr::token(3)),
        [0x22, 0, 3, 0, 0xdd, 0xff, 0xfc, 0xff]
    );
    let ring_up = FrameRepr::ring_up(5);
    assert_eq!(bytes_of(&ring_up), [0x21, 0, 0, 5, 0xde, 0xff, 0xff, 0xfa]);
    assert_eq!(ring_up.to_string(), "RING_UP, 5 hops");
    assert_eq!(CONTROL_BYTES / 2, fifo::START_WORDS);
}

#[test]
fn a_cell_behind_the_header_is_a_legal_frame() {
    // Cell 1/100, user data, AUU 0: header 00 10 06 40, HEC 4E (docs/sources/vectors.md).
    let mut bytes = vec![0x10, 0, 1, 0x00, 0x10, 0x06, 0x40, 0x4e];
    bytes.extend([0x6a; 48]);
    let repr = parse(&bytes).expect("a cell");
    assert_eq!(bytes.len(), CELL_FRAME_BYTES);
    let Kind::Data {
        cell_header,
        pdu_bytes,
    } = repr.kind
    else {
        panic!("data")
    };
    assert_eq!((cell_header.vc, pdu_bytes), (Vc { vpi: 1, vci: 100 }, 48));
    assert!(shown(&bytes, 0).wrong.is_empty());
    bytes.extend([0x6a; 48]);
    let error = parse(&bytes).expect_err("two cells without a user bit");
    assert_eq!(
        (error.field, error.first_bit, error.bit_count),
        ("PT", 52, 3)
    );
}

#[test]
fn the_longest_frame() {
    let repr = FrameRepr::on_vc(15, node_vc(0, 33).expect("in range"), PDU_BYTES_MAX);
    let mut bytes = bytes_of(&repr);
    assert_eq!(bytes.len(), FRAME_BYTES_MAX);
    assert_eq!(parse(&bytes), Ok(repr));
    bytes.extend([0; 4]);
    let error = parse(&bytes).expect_err("too long");
    assert!(matches!(
        error.fault,
        Fault::Long {
            allowed_bytes: PDU_BYTES_MAX,
            ..
        }
    ));
}

#[test]
fn every_vc_belongs_to_one_node() {
    let mut seen = vec![false; VC_SPACE];
    for rid in 0..=RID_MAX {
        for number in 0..VCS_PER_NODE {
            let vc = node_vc(rid, number).expect("in range");
            let index = vc_index(vc).expect("in the table");
            assert!(!core::mem::replace(&mut seen[index], true));
            assert_eq!(vc_rid(vc), Some(rid));
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
    assert_eq!(node_vc(16, 0), None);
    assert_eq!(node_vc(0, VCS_PER_NODE), None);
    assert_eq!(vc_index(Vc { vpi: 1, vci: 0 }), None);
    assert_eq!(
        vc_index(Vc {
            vpi: 0,
            vci: 0x8000
        }),
        None
    );
}

/// Each fault that can be planted in a bit or a length, and the field that must get the blame.
#[test]
fn planted_faults_are_found_on_their_field() {
    let data = bytes_of(&sample());
    let token = bytes_of(&FrameRepr::token(1));
    let blamed = |bytes: &[u8]| {
        let error = parse(bytes).expect_err("a planted fault");
        let shown = shown(bytes, 80);
        assert!(shown.wrong.contains(&error.shifted(80)), "{error}");
        (error.first_bit, error.bit_count)
    };
    let flipped = |bytes: &[u8], bit: usize| {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        bytes
    };
    for bit in 4..8 {
        assert_eq!(blamed(&flipped(&data, bit)), (4, 4));
    }
    for bit in 8..12 {
        assert_eq!(blamed(&flipped(&data, bit)), (8, 4));
    }
    for bit in 16..20 {
        assert_eq!(blamed(&flipped(&data, bit)), (16, 4));
    }
    assert_eq!(blamed(&flipped(&data, 2)), (2, 2));
    for bit in 24..64 {
        assert_eq!(blamed(&flipped(&data, bit)), (56, 8), "HEC");
    }
    assert_eq!(blamed(&data[..OVERHEAD_BYTES]), (64, 0));
    assert_eq!(blamed(&data[..OVERHEAD_BYTES + 6]), (64, 48));
    // No single bit of a control frame can change unseen, except into a data frame's type,
    // where the code that is left over, or the HEC, gives it away.
    for bit in 0..64 {
        blamed(&flipped(&token, bit));
        blamed(&flipped(&bytes_of(&FrameRepr::ring_up(4)), bit));
    }
    assert_eq!(blamed(&flipped(&token, 40)), (32, 32));
    for short in 0..OVERHEAD_BYTES {
        assert_eq!(blamed(&token[..short]), (short * 8, 64 - short * 8));
    }
    let mut long = token.clone();
    long.push(0);
    assert_eq!(blamed(&long), (64, 8));
}

#[test]
fn control_codes_are_checked_behind_a_good_complement() {
    let mut bytes = bytes_of(&FrameRepr::token(1));
    seal(&mut Frame::new_unchecked(&mut bytes), 7, 0);
    assert_eq!(parse(&bytes).expect_err("code 7").field, FIELD_CONTROL);
    seal(&mut Frame::new_unchecked(&mut bytes), CODE_TOKEN, 1);
    assert_eq!(parse(&bytes).expect_err("hops in a token").first_bit, 24);
}

fn any_repr() -> impl Strategy<Value = FrameRepr> {
    let header = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        0..16_u8,
        0..16_u8,
    );
    (header, any::<u32>(), 1..40_usize, 0..3_u8, any::<u8>()).prop_map(
        |((crc_present, monitor, by_vc, dst_rid, src_rid), word, words, kind, hop_count)| {
            let kind = match kind {
                0 => Kind::Data {
                    cell_header: atm::HeaderRepr {
                        payload_type: atm::PayloadType::USER_END,
                        ..atm::HeaderRepr::from_word(word, Interface::Uni)
                    },
                    pdu_bytes: words * PDU_WORD_BYTES,
                },
                1 => Kind::RingUp { hop_count },
                _ => Kind::Token,
            };
            let addr_type = match kind {
                Kind::Data { .. } if by_vc => AddrType::Vc,
                Kind::Data { .. } => AddrType::Rid,
                _ => AddrType::Control,
            };
            let header = HeaderRepr {
                crc_present,
                monitor,
                addr_type,
                dst_rid,
                src_rid,
            };
            FrameRepr { header, kind }
        },
    )
}

proptest! {
    #[test]
    fn frames_round_trip(repr in any_repr()) {
        let bytes = bytes_of(&repr);
        prop_assert_eq!(parse(&bytes), Ok(repr));
        let rest = Frame::new_checked(&bytes[..]).expect("headers").pdu().len();
        prop_assert_eq!(rest + OVERHEAD_BYTES, repr.buffer_len());
    }

    /// What parse refuses, describe reports, and without AAL5 inside the other way round.
    #[test]
    fn any_bytes_are_described_as_they_are_parsed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..80),
        plausible in any::<bool>(),
    ) {
        if plausible && bytes.len() > 2 {
            bytes[0] &= 0x70;
            bytes[1] &= 0x0f;
            bytes[2] &= 0x0f;
        }
        let refused = parse(&bytes);
        let wrong = shown(&bytes, 0).wrong;
        if let Err(error) = refused {
            prop_assert!(wrong.contains(&error), "{} {:?}", error, wrong);
        } else if bytes[0] & 0x80 == 0 {
            prop_assert!(wrong.is_empty());
        }
    }
}
