//! The vectors, the proof of the CRC-12, and the round trips.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::cfr::{CfrCell, CfrRepr, SAR_UNKNOWN};
use super::*;
use barewire_wire::tree::{Sink, Value};
use barewire_wire::{Error, Fault};

/// Covered bits and CRC bits: the code word.
const CODE_BITS: std::ops::Range<usize> = 4..FRAME_BITS;

/// The test frame of docs/sources/vectors.md: a cell in slot 0, everything else zero.
fn test_frame() -> Frame<[u8; FRAME_BYTES]> {
    let mut frame = Frame::new_unchecked([0; FRAME_BYTES]);
    frame.set_full(0, true);
    let mut cell = Cell::new_unchecked(frame.slot_mut(0));
    cell.set_word(0x1234_05a9);
    *cell.body_mut() = core::array::from_fn(|i| i as u8);
    frame.fill_crc();
    frame
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 0x80 >> (bit % 8);
}

/// What a receiver sees of an error in `bit`: the CRC it computes, xor the one it finds.
fn syndrome(bit: usize) -> u16 {
    let mut bytes = [0; FRAME_BYTES];
    flip(&mut bytes, bit);
    let frame = Frame::new_unchecked(bytes);
    frame.compute_crc() ^ frame.crc()
}

/// The register, bit by bit, over the covered bits.
fn crc12_by_bits(bytes: &[u8], init: u16) -> u16 {
    (4..1176).fold(init, |register, bit| {
        let input = u16::from(bytes[bit / 8] >> (7 - bit % 8) & 1);
        let shifted = register << 1 & 0xfff;
        match register >> 11 ^ input {
            0 => shifted,
            _ => shifted ^ CRC_POLYNOMIAL,
        }
    })
}

#[test]
fn published_vectors() {
    assert_eq!(crc12(b"123456789"), 0xf5b);
    let frame = test_frame();
    assert_eq!(frame.crc(), 0x6e2);
    assert_eq!(crc12_by_bits(&frame.into_inner(), 0), 0x6e2);
    assert_eq!(crc12_by_bits(&frame.into_inner(), 0xfff), 0xfe7);
    let msdl = Msdl {
        vci: 0x1234,
        sequence: 5,
        rid: 0x2a,
        part: false,
        start: true,
    };
    assert_eq!(msdl.to_word(), 0x1234_05a9);
    let last = Msdl {
        sequence: 1,
        part: true,
        start: false,
        ..msdl
    };
    assert_eq!(last.to_word(), 0x1234_01aa);
}

/// The CRC is linear (`crc_is_linear`), so an error is seen exactly if its syndromes do not
/// cancel: that no one is zero and no two are equal is the proof for all frames.
#[test]
fn crc_sees_every_single_and_double_error() {
    let syndromes: Vec<u16> = CODE_BITS.map(syndrome).collect();
    assert_eq!(syndromes.len(), 1184);
    for (i, &one) in syndromes.iter().enumerate() {
        assert_ne!(one, 0, "bit {}", i + 4);
        let other = syndromes[..i].iter().position(|&other| other == one);
        assert_eq!(other, None, "bit {}", i + 4);
    }
}

/// Every burst of up to 12 bits: first bit flipped, any of the 11 behind it.
#[test]
fn crc_sees_every_burst_of_twelve_bits() {
    let syndromes: Vec<u16> = CODE_BITS.map(syndrome).collect();
    for (i, &first) in syndromes.iter().enumerate() {
        let behind = &syndromes[i + 1..syndromes.len().min(i + 12)];
        // Every sum of the syndromes behind, by Gray code: one flip a step.
        let mut sum = first;
        assert_ne!(sum, 0);
        for step in 1..1_usize << behind.len() {
            sum ^= behind[step.trailing_zeros() as usize];
            assert_ne!(sum, 0, "burst at bit {}", i + 4);
        }
    }
}

#[test]
fn header_and_pad_are_outside_the_crc() {
    for bit in (0..4).chain(1188..1192) {
        assert_eq!(syndrome(bit), 0);
    }
}

/// Every flag stands where the bit table says.
#[test]
fn flags_have_their_bits() {
    type Set = fn(&mut Frame<[u8; FRAME_BYTES]>, usize, bool);
    let groups: [(usize, Set); 5] = [
        (4, Frame::set_full),
        (8, Frame::set_monitor_passed),
        (12, Frame::set_slot_type),
        (1168, Frame::set_response),
        (1172, Frame::set_qualifier),
    ];
    for (group, set) in groups {
        for slot in 0..SLOTS {
            let mut expected = [0; FRAME_BYTES];
            flip(&mut expected, group + slot);
            let mut frame = Frame::new_unchecked([0; FRAME_BYTES]);
            set(&mut frame, slot, true);
            assert_eq!(frame.into_inner(), expected);
            set(&mut frame, slot, false);
            assert_eq!(frame.into_inner(), [0; FRAME_BYTES]);
        }
    }
}

/// Figure 4 counts the SAR bits as data, the text as header.
#[test]
fn both_views_of_the_cell_are_the_same_bits() {
    let frame = test_frame();
    let cell = frame.cell(0);
    assert_eq!((cell.vci(), cell.sar()), (0x1234, 0x05a9));
    assert_eq!(cell.data()[..2], [0x05, 0xa9]);
    assert_eq!(cell.data()[2..], cell.body()[..]);
    assert_eq!(cell.data().len() * 8, 272);
    assert_eq!(cell.msdl().to_word(), cell.word());
}

#[test]
fn faults_are_on_their_fields() {
    let parse = |bit: usize| {
        let mut bytes = test_frame().into_inner();
        flip(&mut bytes, bit);
        FrameRepr::parse(&Frame::new_unchecked(bytes))
            .map_err(|error| (error.field, error.first_bit))
    };
    assert_eq!(parse(2), Err(("header", 0)));
    assert_eq!(parse(700), Err(("crc", 1176)));
    assert_eq!(parse(1180), Err(("crc", 1176)));
    assert_eq!(parse(1190), Err(("pad", 1188)));
    let short = Frame::new_checked([0; 148]).unwrap_err();
    assert_eq!((short.field, short.first_bit), ("frame", 148 * 8));

    let mut cell = Cell::new_unchecked([0; CELL_BYTES]);
    let error = Msdl::parse(&cell).unwrap_err();
    assert_eq!((error.field, error.first_bit), ("sequence", 16));
    cell.set_word(0x1234_01aa);
    cell.body_mut()[31] = 31;
    assert_eq!(Msdl::parse(&cell).unwrap().valid_bytes(cell.body()), Ok(31));
    cell.body_mut()[31] = 32;
    let error = Msdl::parse(&cell).unwrap_err();
    assert_eq!((error.field, error.first_bit), ("valid", 280));
    assert_eq!(
        error.to_string(),
        "msdl: valid at byte 35: 0x20, where 0 to 31 may stand"
    );
}

#[test]
fn people_can_read_it() {
    let frame = test_frame();
    let repr = FrameRepr::parse(&frame).unwrap();
    assert_eq!(
        repr.to_string(),
        "CBN frame F=1000 M=0000 T=0000 R=0000 Q=0000"
    );
    let cell = frame.cell(0);
    assert_eq!(cell.to_string(), "CBN cell VCI 0x1234 SAR 0x05a9");
    assert_eq!(
        cell.msdl().to_string(),
        "MSDL VCI 0x1234 sequence 5 RID 0x2a start"
    );
    assert_eq!(
        CfrRepr::from_cbn(&cell).0.to_string(),
        "CFR cell VCI 0x1234"
    );
}

/// A sink that keeps the lines, and counts the groups that are open.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    errors: Vec<Error>,
    open: Vec<std::ops::Range<usize>>,
}

impl Sink for Lines {
    fn open(&mut self, name: &str, bits: std::ops::Range<usize>) {
        self.lines.push(format!("{name} {bits:?}"));
        self.open.push(bits);
    }
    fn close(&mut self) {
        self.open.pop().expect("a group");
    }
    fn field(&mut self, name: &str, bits: std::ops::Range<usize>, value: Value<'_>) {
        let group = self.open.last().expect("a group");
        assert!(group.start <= bits.start && bits.end <= group.end, "{name}");
        self.lines.push(format!("{name} {bits:?} {value:?}"));
    }
    fn wrong(&mut self, error: Error) {
        assert!(!self.open.is_empty());
        self.errors.push(error);
    }
}

fn shown(describe: fn(&[u8], usize, &mut dyn Sink), bytes: &[u8]) -> Lines {
    let mut lines = Lines::default();
    describe(bytes, 80, &mut lines);
    assert!(lines.open.is_empty());
    lines
}

#[test]
fn trees() {
    let bytes = test_frame().into_inner();
    let tree = shown(describe, &bytes);
    assert_eq!(tree.errors, []);
    let has = |line: &str| tree.lines.iter().any(|found| found == line);
    assert!(has("slot 0 84..85 Flag(true)"), "{:?}", tree.lines);
    assert!(has("VCI 96..112 Hex(4660)"), "{:?}", tree.lines);
    assert!(has("crc 1256..1268 Hex(1762)"), "{:?}", tree.lines);

    let tree = shown(describe_msdl, &bytes[2..38]);
    assert_eq!(tree.errors, []);
    assert_eq!(tree.lines[2], "sequence 96..104 Uint(5)");
    assert_eq!(tree.lines[3], "RID 104..110 Hex(42)");
}

#[test]
fn trees_report_faults_where_they_are() {
    let mut bytes = test_frame().into_inner();
    flip(&mut bytes, 800);
    bytes[0] |= 0x10;
    let fields: Vec<_> = shown(describe, &bytes)
        .errors
        .iter()
        .map(|error| (error.field, error.first_bit))
        .collect();
    assert_eq!(fields, [("header", 80), ("crc", 80 + 1176)]);

    let tree = shown(describe, &bytes[..20]);
    assert!(matches!(
        tree.errors.last().map(|error| error.fault),
        Some(Fault::Short {
            needed_bytes: 149,
            have_bytes: 20
        })
    ));
    let tree = shown(describe_cell, &[0; 40]);
    assert_eq!(tree.errors[0].first_bit, 80 + 288);
    let tree = shown(describe_msdl, &[0xff; 36]);
    assert_eq!(tree.errors[0].first_bit, 80 + 280);
    assert_eq!(tree.errors.len(), 1);
}

fn any_frame() -> impl Strategy<Value = [u8; FRAME_BYTES]> {
    prop::collection::vec(any::<u8>(), FRAME_BYTES)
        .prop_map(|bytes| bytes.try_into().expect("149 bytes"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frame_comes_back(bytes in any_frame()) {
        let mut frame = Frame::new_unchecked(bytes);
        let repr = FrameRepr { flags: core::array::from_fn(|slot| frame.flags(slot)) };
        repr.emit(&mut frame);
        prop_assert_eq!(FrameRepr::parse(&frame), Ok(repr));
        let bytes = frame.into_inner();
        let mut again = Frame::new_unchecked([0xff; FRAME_BYTES]);
        for slot in 0..SLOTS {
            *again.slot_mut(slot) = *frame.slot(slot);
        }
        repr.emit(&mut again);
        prop_assert_eq!(again.into_inner(), bytes);
        prop_assert_eq!(crc12_by_bits(&bytes, CRC_INIT), frame.crc());
    }

    #[test]
    fn crc_is_linear(one in any_frame(), other in any_frame()) {
        let crc = |bytes| Frame::new_unchecked(bytes).compute_crc();
        let sum = core::array::from_fn(|i| one[i] ^ other[i]);
        prop_assert_eq!(crc(sum), crc(one) ^ crc(other));
    }

    #[test]
    fn words_come_back(word: u32) {
        prop_assert_eq!(Msdl::from_word(word).to_word(), word);
    }

    #[test]
    fn cells_come_back_from_the_fast_ring(bytes: [u8; CELL_BYTES]) {
        let cell = Cell::new_unchecked(bytes);
        let (cfr, sar) = CfrRepr::from_cbn(&cell);
        let mut ring = CfrCell::new_unchecked([0; cfr::CELL_BYTES]);
        cfr.emit(&mut ring);
        let cfr = CfrRepr::parse(&CfrCell::new_checked(ring.into_inner()).unwrap()).unwrap();
        let mut back = Cell::new_unchecked([0; CELL_BYTES]);
        cfr.to_cbn(sar, &mut back);
        prop_assert_eq!(back, cell);
        cfr.to_cbn(SAR_UNKNOWN, &mut back);
        prop_assert_eq!((back.vci(), back.body()), (cell.vci(), cell.body()));
        prop_assert!(Msdl::parse(&back).is_err());
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(frame) = Frame::new_checked(&bytes) {
            let _ = FrameRepr::parse(&frame);
        }
        if let Ok(cell) = Cell::new_checked(&bytes) {
            let _ = Msdl::parse(&cell);
        }
        for describe in [describe, describe_cell, describe_msdl] {
            shown(describe, &bytes);
        }
    }
}

#[test]
fn a_fast_ring_cell_is_shown_with_its_length() {
    let shown =
        |bytes: &[u8]| crate::atm::tests::Collector::of(|sink| describe_cfr(bytes, 8, sink));
    let mut bytes = [0x5a; 35];
    bytes[..2].copy_from_slice(&[0x12, 0x34]);
    let seen = shown(&bytes[..34]);
    assert_eq!(seen.errors, []);
    assert!(
        seen.lines
            .iter()
            .any(|line| line == "8..24 address Hex(4660)")
    );
    assert!(
        seen.lines
            .iter()
            .any(|line| line.starts_with("24..280 data "))
    );
    let place = |bytes: &[u8]| {
        let [error] = shown(bytes).errors[..] else {
            panic!("one error");
        };
        (error.field, error.first_bit, error.bit_count)
    };
    assert_eq!(place(&bytes), ("end", 280, 8));
    assert_eq!(place(&bytes[..5]), ("end", 48, 29 * 8));
    assert_eq!(place(&[]), ("end", 8, 34 * 8));
}
