//! The receiver: from any offset, through errors, and over anything.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use barewire_units::{Graph, Rng};
use proptest::prelude::*;

use super::super::*;
use crate::cbn::{FRAME_BYTES, Frame, SLOTS};

#[test]
fn table() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Slipping --Header--> Framing\n\
         Slipping --Illegal--> Slipping\n\
         Framing --Illegal--> Framing\n\
         Framing --Header--> Framing\n\
         Framing --Complete--> Between\n\
         Framing --Astray--> Slipping\n\
         Between --Illegal--> Between\n\
         Between --Header--> Framing\n\
         Between --Astray--> Slipping\n"
    );
}

fn random_frame(rng: &mut Rng) -> Frame<[u8; FRAME_BYTES]> {
    let mut bytes = [0; FRAME_BYTES];
    rng.fill_bytes(&mut bytes[..148]);
    bytes[0] &= 0x0f;
    let mut frame = Frame::new_unchecked(bytes);
    frame.set_crc(0);
    for slot in 0..SLOTS {
        frame.set_full(slot, true);
    }
    frame.fill_crc();
    frame
}

fn empty_frame() -> Frame<[u8; FRAME_BYTES]> {
    Frame::new_unchecked([0; FRAME_BYTES])
}

/// Frames with a gap in front of each, as levels.
fn line_of(frames: &[Frame<[u8; FRAME_BYTES]>], gap: usize) -> Vec<bool> {
    let mut line = vec![0; (frames.len() + 1) * (FRAME_BLOCKS + gap) * 5 / 8 + 2];
    let mut encoder = Encoder::new();
    let mut at = 0;
    for frame in frames {
        at += encoder.gap(gap, &mut line[at..]).expect("room");
        at += encoder.frame(frame, &mut line[at..]).expect("room");
    }
    at += encoder.finish(&mut line[at..]).expect("room");
    let bits = frames.len() * (FRAME_BLOCKS + gap) * 5;
    assert_eq!(at, bits.div_ceil(8));
    let level = |bit: usize| line[bit / 8] << (bit % 8) & 0x80 != 0;
    (0..bits).map(level).collect()
}

/// Everything that a receiver tells, with the frames that go with it.
fn heard(levels: &[bool]) -> (Vec<Event>, Vec<[u8; FRAME_BYTES]>) {
    let line = super::packed(levels, false);
    let mut levels = Bits::in_range(&line, 0..levels.len());
    let mut receiver = Receiver::new();
    let (mut events, mut frames) = (Vec::new(), Vec::new());
    while let Some(event) = receiver.poll(&mut levels) {
        if matches!(event, Event::Frame { good: true, .. }) {
            frames.push(*receiver.frame().into_inner());
        }
        events.push(event);
    }
    (events, frames)
}

#[test]
fn frame_takes_1485_bits() {
    assert_eq!(FRAME_LINE_BITS, 1485);
    let line = line_of(&[random_frame(&mut Rng::from_seed(1))], 0);
    assert_eq!(line.len(), 1485);
}

/// From each of the bits of a frame and its gap: the first frame is lost where it is not
/// whole, one more to slipping, and from there on every frame comes.
#[test]
fn any_offset() {
    let mut rng = Rng::from_seed(2);
    let frames: Vec<_> = (0..4).map(|_| random_frame(&mut rng)).collect();
    let line = line_of(&frames, 9);
    let sent: Vec<_> = frames.iter().map(|frame| frame.into_inner()).collect();
    for offset in 0..(FRAME_BLOCKS + 9) * 5 + 1 {
        let (events, found) = heard(&line[offset..]);
        assert!(
            matches!(events[0], Event::Synchronised { .. }),
            "{events:?}"
        );
        assert!(found.len() >= 2, "offset {offset}: {}", found.len());
        assert!(sent.ends_with(&found));
        let header = |i: usize| (9 * 5 + i * (FRAME_BLOCKS + 9) * 5 - offset) as u64;
        assert_eq!(
            events.last(),
            Some(&Event::Frame {
                first_bit: header(3),
                code_errors: 0,
                good: true
            })
        );
        assert_eq!(events.len(), found.len() + 1);
    }
}

/// An empty ring is legal at every offset but for its headers: up to four of them are spent
/// on slipping.
#[test]
fn any_offset_of_an_empty_ring() {
    let line = line_of(&vec![empty_frame(); 7], 9);
    for offset in 0..(FRAME_BLOCKS + 9) * 5 + 1 {
        let (events, found) = heard(&line[offset..]);
        assert!(found.len() >= 2, "offset {offset}: {events:?}");
    }
}

/// One wrong level makes two wrong bits, side by side, and costs at most one frame.
#[test]
fn one_error_anywhere() {
    let mut rng = Rng::from_seed(3);
    let frames: Vec<_> = (0..4).map(|_| random_frame(&mut rng)).collect();
    let line = line_of(&frames, 4);
    let period = (FRAME_BLOCKS + 4) * 5;
    for bit in period..2 * period {
        let mut line = line.clone();
        line[bit] ^= true;
        let (events, found) = heard(&line);
        assert!(found.len() >= 3, "bit {bit}: {events:?}");
        for frame in found {
            assert!(frames.iter().any(|sent| sent.into_inner() == frame));
        }
    }
}

/// A bit that is lost or comes twice: the receiver slips back, within the frames that
/// [`CODE_ERRORS_MAX`] and four slips need.
#[test]
fn lost_and_doubled_bits() {
    let mut rng = Rng::from_seed(4);
    for frame in [empty_frame(), random_frame(&mut rng)] {
        let line = line_of(&vec![frame; 16], 6);
        for _ in 0..200 {
            let at = 3000 + rng.index(2000);
            let mut lost = line.clone();
            lost.remove(at);
            let mut doubled = line.clone();
            doubled.insert(at, line[at]);
            for line in [lost, doubled] {
                let (events, found) = heard(&line);
                let bad = CODE_ERRORS_MAX as usize + 1 + 4 + 1;
                assert!(found.len() + bad >= 16, "bit {at}: {events:?}");
                assert!(matches!(
                    events.last(),
                    Some(Event::Frame { good: true, .. })
                ));
            }
        }
    }
}

/// Random offset, one wrong level in two thousand, then silence and a clean line: no frame
/// that was not sent is good, and the line heals.
#[test]
fn random_errors() {
    let mut rng = Rng::from_seed(5);
    let (mut good, mut cut, mut code, mut sent_count) = (0, 0, 0, 0);
    for _ in 0..60 {
        let frames: Vec<_> = (0..12).map(|_| random_frame(&mut rng)).collect();
        let mut line = line_of(&frames, 1 + rng.index(12));
        for bit in &mut line {
            *bit ^= rng.ratio(1, 2000);
        }
        let clean = line_of(&frames[..3], 3);
        let offset = rng.index(1500);
        let levels = [&line[offset..], &[true; 40], &clean].concat();
        let (events, found) = heard(&levels);
        for frame in &found {
            assert!(frames.iter().any(|sent| sent.into_inner() == *frame));
        }
        let last = frames[2].into_inner();
        assert_eq!(found.last(), Some(&last));
        good += found.len();
        sent_count += frames.len();
        cut += events
            .iter()
            .filter(|event| matches!(event, Event::Cut { .. }))
            .count();
        code += events
            .iter()
            .filter(|event| matches!(event, Event::CodeError { .. }))
            .count();
    }
    assert!(
        good > sent_count / 4 && good < sent_count,
        "{good} of {sent_count}"
    );
    assert!(code > 100 && cut > 0, "{code} {cut}");
}

#[test]
fn code_errors_are_named() {
    let frame = empty_frame();
    let line = line_of(&[frame; 3], 4);
    // The first nibble of the second frame: 11110 read as 00110.
    let header = (FRAME_BLOCKS + 4 + 4) * 5;
    let mut line = line;
    line[header + 5] ^= true;
    let (events, _) = heard(&line);
    let symbol = Symbol::Illegal(0b00110);
    let first_bit = header as u64 + 5;
    assert!(
        events.contains(&Event::CodeError { first_bit, symbol }),
        "{events:?}"
    );
    let frame = Event::Frame {
        first_bit: header as u64,
        code_errors: 1,
        good: false,
    };
    assert!(events.contains(&frame), "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_levels(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        let mut receiver = Receiver::new();
        let mut levels = Bits::new(&bytes);
        let events: Vec<_> = std::iter::from_fn(|| receiver.poll(&mut levels)).collect();
        let bits = bytes.len() as u64 * 8;
        for event in events {
            let (Event::Synchronised { first_bit: at, .. }
            | Event::Frame { first_bit: at, .. }
            | Event::Cut { first_bit: at, .. }
            | Event::CodeError { first_bit: at, .. }
            | Event::Lost { bit: at }) = event;
            prop_assert!(at <= bits);
        }
    }

    /// However the levels are handed over, the events are the same.
    #[test]
    fn cuts_do_not_matter(seed: u64, cuts in prop::collection::vec(0_usize..3000, 0..5)) {
        let mut rng = Rng::from_seed(seed);
        let frames = [random_frame(&mut rng), random_frame(&mut rng)];
        let mut line = line_of(&frames, 3);
        let at = rng.index(line.len());
        line[at] ^= true;
        let (expected, _) = heard(&line);
        let bytes = super::packed(&line, false);
        let mut receiver = Receiver::new();
        let mut events = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([line.len()]) {
            let to = (from + cut).min(line.len());
            let mut levels = Bits::in_range(&bytes, from..to);
            while let Some(event) = receiver.poll(&mut levels) {
                events.push(event);
            }
            from = to;
        }
        prop_assert_eq!(events, expected);
    }
}
