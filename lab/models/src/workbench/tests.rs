//! Pieces through the card, whole or not at all.

use barewire_units::Rate;
use proptest::prelude::*;

use super::*;

const FRAMING: Framing = Framing {
    rate: Rate::from_mbps(100),
    payload_bytes: 48,
    least_bytes: 48,
    overhead_bytes: 5,
    trailer_bytes: 8,
};

fn piece(message: u32, from: u16, bytes: u64) -> Piece {
    Piece {
        message,
        from,
        to: 0,
        offset: 0,
        bytes,
        last: true,
    }
}

fn transmitter(fifo_bytes: u64, straight_through: bool) -> Transmitter {
    Transmitter::new(TransmitterConfig {
        framing: FRAMING,
        fifo_bytes,
        straight_through,
    })
}

/// All frames of a piece.
fn frames(piece: Piece) -> Vec<Frame> {
    let mut transmitter = transmitter(u64::MAX, false);
    transmitter.start(piece);
    transmitter.arrive(piece.bytes);
    std::iter::from_fn(|| transmitter.poll()).collect()
}

fn receiver(taker: Taker, fifo_bytes: u64, buffers: usize) -> Receiver {
    let config = ReceiverConfig {
        taker,
        fifo_bytes,
        buffers,
        descriptor_bytes: 4,
    };
    Receiver::new(config)
}

/// Whether the frame was taken.
fn give(receiver: &mut Receiver, frame: Frame) -> bool {
    let taken = receiver.handle_frame(&frame).is_ok();
    if taken {
        receiver.store(frame);
    }
    taken
}

#[test]
fn the_trailer_may_need_a_frame_of_its_own() {
    let bytes = |piece| {
        let cut = frames(piece).into_iter();
        cut.map(|frame| (frame.bytes, frame.body_bytes, frame.last))
            .collect::<Vec<_>>()
    };
    assert_eq!(bytes(piece(0, 1, 40)), [(40, 48, true)]);
    assert_eq!(bytes(piece(0, 1, 41)), [(41, 48, false), (0, 1, true)]);
    assert_eq!((FRAMING.frames(40), FRAMING.frames(41)), (1, 2));
    assert_eq!((FRAMING.frame_bytes(1), FRAMING.frame_bytes(48)), (53, 53));
    // Two cells of 424 bits each for 41 bytes.
    let bps = FRAMING.payload_bps(41, 41);
    assert!((bps - 41.0 / 106.0 * 1e8).abs() < 1e3, "{bps}");
}

#[test]
fn a_frame_waits_for_its_bytes_unless_the_card_is_an_aperture() {
    let mut whole = transmitter(100, false);
    let mut through = transmitter(100, true);
    for transmitter in [&mut whole, &mut through] {
        transmitter.start(piece(0, 1, 60));
        transmitter.arrive(20);
    }
    assert_eq!(whole.poll(), None);
    let first = through.poll().expect("what there is");
    assert_eq!((first.bytes, first.last), (20, false));
    assert_eq!((through.poll(), through.room_bytes()), (None, 80));
    through.sent(&first);
    assert_eq!(through.room_bytes(), 100);
    whole.arrive(28);
    assert_eq!(whole.poll().map(|frame| frame.bytes), Some(48));
    assert_eq!(whole.poll(), None);
    whole.arrive(12);
    let last = whole.poll().expect("the rest");
    assert_eq!((last.bytes, last.body_bytes, last.last), (12, 20, true));
    assert_eq!(whole.frames(), 2);
}

#[test]
fn a_piece_with_a_lost_frame_does_not_arrive_and_holds_nothing() {
    let mut receiver = receiver(Taker::Processor, 96, 0);
    let cut = frames(piece(7, 1, 150));
    // Four frames of 48, 48, 48 and 6: the third finds the FIFO full.
    let taken: Vec<bool> = cut.iter().map(|&f| give(&mut receiver, f)).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert_eq!(receiver.waiting(), 0);
    // The next piece of that sender shows that the end of this one is lost.
    let next = piece(8, 1, 0);
    assert!(give(&mut receiver, frames(next)[0]));
    assert_eq!(receiver.take(), Some(next));
    receiver.release(&next);
    let stats = receiver.stats();
    assert_eq!(
        (stats.no_room, stats.of_broken_pieces, stats.delivered),
        (2, 2, 1)
    );
    for frame in frames(piece(9, 2, 80)) {
        assert!(give(&mut receiver, frame), "all of the FIFO is free again");
    }
    assert_eq!(receiver.waiting(), 1);
}

#[test]
fn an_engine_without_a_buffer_waits() {
    let mut receiver = receiver(Taker::Engine, 100, 1);
    let first = piece(0, 1, 30);
    let second = piece(1, 2, 60);
    assert!(give(&mut receiver, frames(first)[0]));
    assert!(give(&mut receiver, frames(second)[0]));
    // 30 bytes and the descriptor, in bursts of 16.
    let mut moved = Vec::new();
    while let Some(bytes) = receiver.begin_burst(16) {
        assert_eq!(receiver.begin_burst(16), None, "one at a time");
        receiver.end_burst(bytes);
        moved.push(bytes);
    }
    assert_eq!(moved, [16, 16, 2]);
    assert_eq!(receiver.take(), Some(first));
    assert!(receiver.wants_buffer());
    assert!(give(&mut receiver, frames(second)[1]));
    assert!(!give(&mut receiver, frames(piece(2, 3, 45))[0]));
    assert_eq!(receiver.stats().no_buffer, 1);
    receiver.release(&first);
    assert!(!receiver.wants_buffer());
    while let Some(bytes) = receiver.begin_burst(16) {
        receiver.end_burst(bytes);
    }
    assert_eq!(receiver.take(), Some(second));
}

proptest! {
    /// Whatever is lost on the way, frames are accounted for, and the pieces that arrive are
    /// whole; without losses all do.
    #[test]
    fn frames_are_accounted_for(
        pieces in prop::collection::vec((1_u16..4, 0_u64..400), 1..20),
        lose in prop::collection::vec(any::<bool>(), 200),
        engine in any::<bool>(),
        lossy in any::<bool>(),
    ) {
        let taker = if engine { Taker::Engine } else { Taker::Processor };
        let mut receiver = receiver(taker, 1 << 20, 64);
        let (mut offered, mut arrived) = (0_u64, 0);
        let mut lost = lose.into_iter().cycle();
        for (number, &(from, bytes)) in (0..).zip(&pieces) {
            for frame in frames(piece(number, from, bytes)) {
                if lossy && lost.next() == Some(true) {
                    continue;
                }
                offered += 1;
                prop_assert!(give(&mut receiver, frame));
                while let Some(bytes) = receiver.begin_burst(64) {
                    receiver.end_burst(bytes);
                }
            }
            while let Some(piece) = receiver.take() {
                receiver.release(&piece);
                arrived += 1;
            }
        }
        let stats = receiver.stats();
        prop_assert_eq!(stats.frames, offered);
        let open: u64 = receiver.open_frames();
        prop_assert_eq!(stats.delivered + stats.of_broken_pieces + open, offered);
        if !lossy {
            prop_assert_eq!(arrived, pieces.len());
        }
    }
}
