//! The line as a tree: frames and gaps with their bits, and each planted fault.

use std::format;
use std::string::String;

use super::*;
use crate::atm::tests::Collector;
use crate::cbn::{FRAME_BYTES, FrameRepr, SlotFlags};
use barewire_wire::Error;

/// A frame with something in its first slot.
fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = crate::cbn::Frame::new_unchecked([0; FRAME_BYTES]);
    frame.slot_mut(0)[..4].copy_from_slice(&[0x12, 0x34, 0x05, 0xa9]);
    let full = SlotFlags {
        full: true,
        ..SlotFlags::default()
    };
    let flags = [
        full,
        SlotFlags::default(),
        SlotFlags::default(),
        SlotFlags::default(),
    ];
    FrameRepr { flags }.emit(&mut frame);
    frame.into_inner()
}

/// Eight gap symbols, a frame and seven more, `count` times: 195 bytes each.
fn line(count: usize) -> Vec<u8> {
    let mut line = vec![0; count * 195];
    let mut encoder = Encoder::new();
    let mut at = 0;
    for _ in 0..count {
        at += encoder.gap(8, &mut line[at..]).unwrap();
        let frame = crate::cbn::Frame::new_unchecked(frame());
        at += encoder.frame(&frame, &mut line[at..]).unwrap();
        at += encoder.gap(7, &mut line[at..]).unwrap();
    }
    assert_eq!(at, line.len());
    line
}

/// What is written to a line that was low, as far as it fills bytes.
fn written(write: impl FnOnce(&mut Encoder, &mut [u8]) -> Result<usize, Error>) -> Vec<u8> {
    let mut line = vec![0; 1024];
    let mut encoder = Encoder::new();
    let mut at = write(&mut encoder, &mut line).unwrap();
    at += encoder.finish(&mut line[at..]).unwrap();
    line.truncate(at);
    line
}

fn shown(line: &[u8], at: usize) -> Collector {
    Collector::of(|sink| describe(line, at, sink))
}

/// Changes these bits of the blocks: all levels from there on.
fn flip(line: &mut [u8], bits: &[usize]) {
    for &bit in bits {
        for later in bit..line.len() * 8 {
            line[later / 8] ^= 0x80 >> (later % 8);
        }
    }
}

fn faults(seen: &Collector) -> Vec<(&'static str, usize, usize)> {
    let place = |error: &Error| (error.field, error.first_bit, error.bit_count);
    seen.errors.iter().map(place).collect()
}

#[test]
fn a_good_line_has_no_faults_and_every_part_its_bits() {
    let seen = shown(&line(2), 3);
    assert_eq!(seen.errors, []);
    for field in [
        "3..43 gap symbols Uint(8)",
        "43..48 syn Code(16, \"header\")",
        "48..1528 data blocks Uint(296)",
        "43..48 header Hex(0)",
        "63..83 VCI Hex(4660)",
        "83..103 SAR Hex(1449)",
        "1528..1603 gap symbols Uint(15)",
        "1603..1608 syn Code(16, \"header\")",
        "3088..3123 gap symbols Uint(7)",
    ] {
        assert!(
            seen.lines.contains(&String::from(field)),
            "{field} in {:?}",
            seen.lines
        );
    }
}

/// Gap symbols look the same at every offset: the first header may be missed where blocks do
/// not begin with the line, the second is always found.
#[test]
fn a_line_that_is_joined_anywhere_slips() {
    let good = line(2);
    for joined in 1..11 {
        let bits: Vec<bool> = (joined..good.len() * 8)
            .map(|bit| good[bit / 8] >> (7 - bit % 8) & 1 == 1)
            .collect();
        let whole_bytes = bits.len() / 8 * 8;
        let seen = shown(&packed(&bits[..whole_bytes], false), 0);
        let header = 1600 - joined;
        let syn = format!("{header}..{} syn Code(16, \"header\")", header + 5);
        assert!(seen.lines.contains(&syn), "{joined}: {:?}", seen.lines);
        let slips = seen.lines.iter().any(|line| line.contains(" slipping "));
        assert_eq!(slips, joined % 5 != 0, "{joined}");
        assert_eq!(seen.errors, []);
    }
}

#[test]
fn each_planted_fault_is_said_of_its_bits() {
    let mut wrong = line(1);
    flip(&mut wrong, &[61, 62, 63]);
    let broken = [("block", 60, 5), ("crc", 1510, 15)];
    assert_eq!(faults(&shown(&wrong, 0)), broken);

    // A data block in place of another: only the CRC can tell.
    let mut wrong = line(1);
    flip(&mut wrong, &[1001]);
    assert_eq!(faults(&shown(&wrong, 0)), [("crc", 1510, 15)]);

    // A gap symbol with a wrong bit is illegal, or data that belongs to no frame.
    let mut wrong = line(2);
    flip(&mut wrong, &[1526, 1527, 1528]);
    let seen = shown(&wrong, 0);
    assert_eq!(faults(&seen), [("block", 1525, 5)]);
}

#[test]
fn cut_frames_and_lost_blocks_are_told() {
    let good = line(2);
    let short = shown(&good[..100], 0);
    assert_eq!(faults(&short), [("frame", 800, 725)]);

    // A header inside a frame: the rest of it takes its place.
    let frame = crate::cbn::Frame::new_unchecked(frame());
    let cut = written(|encoder, line| {
        let mut at = encoder.gap(8, line)?;
        at += encoder.block(SYN, &mut line[at..])?;
        at += encoder.data(&[0x5a; 20], &mut line[at..])?;
        at += encoder.frame(&frame, &mut line[at..])?;
        Ok(at + encoder.gap(6, &mut line[at..])?)
    });
    let seen = shown(&cut, 0);
    assert_eq!(faults(&seen), [("frame", 245, 1280)]);
    assert!(
        seen.lines
            .contains(&String::from("245..250 syn Code(16, \"header\")"))
    );

    // Five illegal blocks inside a frame: the blocks are lost there.
    let lost = written(|encoder, line| {
        let mut at = encoder.gap(8, line)?;
        at += encoder.block(SYN, &mut line[at..])?;
        for _ in 0..5 {
            at += encoder.block(0b00110, &mut line[at..])?;
        }
        at += encoder.gap(2, &mut line[at..])?;
        Ok(at + encoder.frame(&frame, &mut line[at..])?)
    });
    let seen = shown(&lost, 0);
    assert_eq!(
        faults(&seen),
        [
            ("block", 45, 5),
            ("block", 50, 5),
            ("block", 55, 5),
            ("block", 60, 5),
            ("block", 65, 5),
            ("frame", 70, 1455),
            ("blocks", 70, 0),
        ]
    );
    assert!(
        seen.lines
            .contains(&String::from("80..85 syn Code(16, \"header\")"))
    );
}

#[test]
fn a_line_without_a_header_is_faulty() {
    for line in [&[][..], &[0xaa; 300], &[0; 9]] {
        assert_eq!(faults(&shown(line, 0)), [("syn", 0, line.len() * 8)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn anything_can_be_described(
        noise in prop::collection::vec((0_usize..390 * 8, any::<u8>()), 0..20),
        random in prop::collection::vec(any::<u8>(), 0..400),
        at in 0_usize..64,
    ) {
        let mut bytes = line(2);
        for (bit, byte) in noise {
            bytes[bit / 8] ^= byte;
        }
        for line in [&bytes, &random] {
            let seen = shown(line, at);
            let within = |e: &Error| e.first_bit >= at && e.first_bit <= at + line.len() * 8;
            prop_assert!(seen.errors.iter().all(within), "{:?}", seen.errors);
        }
    }
}
