//! The parts of the sending side against plain models of them.

use super::board::Board;
use super::ring::Ring;
use super::rtt::{RTO_FIRST, RTO_MAX, RTO_MIN, Rtt};
use barewire_units::{Duration, Instant};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

const MSS: u64 = 100;

/// What happens to a board.
#[derive(Debug, Clone)]
enum Step {
    Push(u64),
    Acknowledge(u64),
    Sack(u64, u64),
    LoseAll,
    LoseFirst,
    Resend(u64),
    ResendLast,
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u64..500).prop_map(Step::Push),
        2 => (0_u64..800).prop_map(Step::Acknowledge),
        4 => (0_u64..1500, 0_u64..600).prop_map(|(from, len)| Step::Sack(from, len)),
        1 => Just(Step::LoseAll),
        2 => Just(Step::LoseFirst),
        3 => (1_u64..4).prop_map(|segments| Step::Resend(segments * MSS)),
        1 => Just(Step::ResendLast),
        1 => Just(Step::Forget),
    ]
}

/// Where a byte is, as far as the sender knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    InFlight,
    Sacked,
    Lost,
}

/// The sums of the board are those of a model that keeps every byte, except that a block counts by
/// whole segments only.
fn check_sums(board: &Board, bytes: &VecDeque<Byte>) {
    let count = |what| bytes.iter().filter(|&&byte| byte == what).count() as u64;
    assert_eq!(board.in_flight_bytes(), count(Byte::InFlight));
    assert_eq!(board.sacked_bytes(), count(Byte::Sacked));
    assert_eq!(board.lost_bytes(), count(Byte::Lost));
    assert_eq!(board.is_empty(), bytes.is_empty());
}

proptest! {
    #[test]
    fn a_board_counts_every_byte(steps in proptest::collection::vec(step(), 1..60)) {
        let mut board = Board::default();
        let mut bytes: VecDeque<Byte> = VecDeque::new();
        let (mut una, mut next) = (0_u64, 0_u64);
        let now = Instant::ORIGIN;
        for step in steps {
            match step {
                Step::Push(len) => {
                    board.push(next, next + len, now);
                    next += len;
                    bytes.extend((0..len).map(|_| Byte::InFlight));
                }
                Step::Acknowledge(len) => {
                    let until = (una + len).min(next);
                    let known = bytes.iter().take((until - una) as usize);
                    let fresh = known.filter(|&&byte| byte != Byte::Sacked).count() as u64;
                    let delivered = board.acknowledge(until, now, None);
                    prop_assert_eq!(delivered.bytes, fresh);
                    bytes.drain(..(until - una) as usize);
                    una = until;
                }
                Step::Sack(from, len) => {
                    let from = una + from;
                    let until = (from + len).min(next);
                    let before = board.sacked_bytes();
                    let mut delivered = Default::default();
                    board.sack((from, until), MSS, now, None, &mut delivered);
                    prop_assert_eq!(board.sacked_bytes(), before + delivered.bytes);
                    prop_assert!(delivered.bytes <= until.saturating_sub(from));
                    // Which bytes these are, the board alone knows.
                    take_over(&mut bytes, &board, una);
                }
                Step::LoseAll => {
                    board.lose(|_| true);
                    for byte in bytes.iter_mut().filter(|byte| **byte == Byte::InFlight) {
                        *byte = Byte::Lost;
                    }
                }
                Step::LoseFirst => {
                    board.lose_first();
                    take_over(&mut bytes, &board, una);
                }
                Step::Resend(bytes_max) => {
                    let first = bytes.iter().position(|&byte| byte == Byte::Lost);
                    let piece = board.resend_lost(bytes_max, now);
                    prop_assert_eq!(piece.is_some(), first.is_some());
                    if let (Some(piece), Some(first)) = (piece, first) {
                        prop_assert_eq!(piece.start, una + first as u64);
                        prop_assert!(piece.len() <= bytes_max);
                        for byte in bytes.iter_mut().skip(first).take(piece.len() as usize) {
                            prop_assert_eq!(*byte, Byte::Lost);
                            *byte = Byte::InFlight;
                        }
                    }
                }
                Step::ResendLast => {
                    if let Some(piece) = board.resend_last(MSS, now) {
                        prop_assert_eq!(piece.end, next);
                        prop_assert!(piece.len() <= MSS);
                    }
                }
                Step::Forget => {
                    board.forget_sacks();
                    for byte in bytes.iter_mut().filter(|byte| **byte == Byte::Sacked) {
                        *byte = Byte::InFlight;
                    }
                }
            }
            check_sums(&board, &bytes);
        }
    }

    #[test]
    fn a_ring_holds_what_was_put_in(steps in proptest::collection::vec((0_usize..80, 0_u64..80), 1..50)) {
        let mut ring = Ring::new(100);
        let mut model: VecDeque<u8> = VecDeque::new();
        let (mut start, mut byte) = (0_u64, 0_u8);
        for (len, release) in steps {
            let bytes: Vec<u8> = (0..len).map(|i| byte.wrapping_add(i as u8)).collect();
            let taken = ring.push(&bytes);
            prop_assert_eq!(taken, len.min(100 - model.len()));
            model.extend(&bytes[..taken]);
            byte = byte.wrapping_add(taken as u8);
            let released = release.min(model.len() as u64);
            start += released;
            model.drain(..released as usize);
            ring.release(start);
            let (first, second) = ring.get(start, 100);
            let all: Vec<u8> = first.iter().chain(second).copied().collect();
            prop_assert!(model.iter().eq(&all));
            prop_assert_eq!(ring.room(), 100 - model.len());
        }
        prop_assert_eq!(ring.get(start.wrapping_sub(1), 1).0.len(), 0);
    }
}

/// Reads the state of each byte from the board.
fn take_over(bytes: &mut VecDeque<Byte>, board: &Board, una: u64) {
    for piece in board.pieces() {
        let state = match (piece.is_sacked, piece.is_lost) {
            (true, _) => Byte::Sacked,
            (false, true) => Byte::Lost,
            (false, false) => Byte::InFlight,
        };
        for place in piece.start..piece.end {
            bytes[(place - una) as usize] = state;
        }
    }
}

#[test]
fn a_block_that_covers_parts_of_segments_counts_whole_ones() {
    let mut board = Board::default();
    board.push(0, 1000, Instant::ORIGIN);
    let mut delivered = Default::default();
    board.sack((150, 450), MSS, Instant::ORIGIN, None, &mut delivered);
    assert_eq!(delivered.bytes, 200);
    let sacked: Vec<_> = board
        .pieces()
        .filter(|piece| piece.is_sacked)
        .map(|piece| (piece.start, piece.end))
        .collect();
    assert_eq!(sacked, [(200, 400)]);
    // However many blocks come, there are no more pieces than segments.
    for from in 0..1000 {
        board.sack(
            (from, from + 150),
            MSS,
            Instant::ORIGIN,
            None,
            &mut delivered,
        );
    }
    assert!(board.pieces().count() <= 10);
}

#[test]
fn the_timeout_is_at_least_200_ms_and_doubles() {
    let mut rtt = Rtt::new();
    assert_eq!(rtt.timeout(), RTO_FIRST);
    for _ in 0..50 {
        rtt.sample(Duration::from_ms(1), Instant::ORIGIN);
    }
    assert_eq!(rtt.timeout(), RTO_MIN);
    assert_eq!(rtt.least(), Some(Duration::from_ms(1)));
    rtt.double();
    assert_eq!(rtt.timeout(), RTO_MIN * 2);
    for _ in 0..40 {
        rtt.double();
    }
    assert_eq!(rtt.timeout(), RTO_MAX);
    rtt.end_doubling();
    assert_eq!(rtt.timeout(), RTO_MIN);
    for _ in 0..50 {
        rtt.sample(Duration::from_ms(100), Instant::ORIGIN);
        rtt.sample(Duration::from_ms(300), Instant::ORIGIN);
    }
    // A path whose times vary gets the more patience.
    assert!(rtt.timeout() > Duration::from_ms(500), "{}", rtt.timeout());
}

#[test]
fn the_least_round_trip_time_is_forgotten_after_a_while_from_any_origin() {
    let (ms, s) = (Duration::from_ms, Duration::from_s);
    let mut rtt = Rtt::new();
    rtt.sample(ms(1), Instant::ORIGIN + s(1000));
    rtt.rebase(s(900));
    rtt.sample(ms(2), Instant::ORIGIN + s(400));
    assert_eq!(rtt.least(), Some(ms(1)));
    rtt.sample(ms(2), Instant::ORIGIN + s(401));
    assert_eq!(rtt.least(), Some(ms(2)));
}
