//! A connection with a duplex line against a plain oracle: any sequence of operations of both sides on one thread gives
//! what two `VecDeque`s give, and a peer that scribbles over the line spoils its own connection only.

#[path = "common/memory.rs"]
mod memory;

use std::collections::VecDeque;

use barewire_fabric::frame::{DUPLEX, run_bytes};
use barewire_fabric::queue::Next;
use barewire_fabric::ring::{Taken, frame_bytes_max};
use barewire_fabric::{
    DUPLEX_BYTES_MAX, DuplexReceiver, DuplexSender, MessageReceiver, MessageSender, RingReceiver,
    RingSender, SendProgress, StreamReceiver, StreamSender, Turns, Violation,
};
use memory::{FullFences, Region, content};
use proptest::prelude::*;

const RING_BYTES: usize = 1024;
/// Most bytes of a message in the line and its run.
const RUN_BYTES: usize = run_bytes(RING_BYTES);
const MESSAGE_BYTES_MAX: usize = 1 << 16;

type Ends = (RingSender<Region, Region>, RingReceiver<Region, Region>);

/// Both ends of one side; the line is in the region of the side that opened.
fn ends(opened: bool, own: &Region, peer: &Region) -> Ends {
    ends_after(0, opened, own, peer)
}

fn ends_after(last: u32, opened: bool, own: &Region, peer: &Region) -> Ends {
    let turns = Turns::after(opened, last);
    let line = if opened { own } else { peer };
    let sender = RingSender::new(peer.clone(), own.clone(), RING_BYTES);
    let receiver = RingReceiver::new(own.clone(), peer.clone(), RING_BYTES);
    (
        sender.with_line(DuplexSender::new(line.clone(), RING_BYTES, turns.clone())),
        receiver.with_line(DuplexReceiver::new(line.clone(), RING_BYTES, turns)),
    )
}

struct Side {
    sender: MessageSender<Region, Region>,
    receiver: MessageReceiver<Region, Region>,
    /// What the other side has sent and we have not received.
    expected: VecDeque<Vec<u8>>,
    /// Messages received through the line.
    in_line: u64,
}

impl Side {
    fn new((sender, receiver): Ends) -> Side {
        Side {
            sender: MessageSender::new(sender),
            receiver: MessageReceiver::new(receiver, MESSAGE_BYTES_MAX),
            expected: VecDeque::new(),
            in_line: 0,
        }
    }

    /// Takes the next message by the short way, or else by the long one.
    fn take(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; RUN_BYTES];
        match self.receiver.take(&mut buffer) {
            Taken::Message(len) => Some(buffer[..len].to_vec()),
            Taken::Nothing => {
                assert!(!self.receiver.maybe_ready());
                None
            }
            Taken::Other => self.receive().expect("an honest peer"),
        }
    }

    fn receive(&mut self) -> Result<Option<Vec<u8>>, Violation> {
        let next = self.receiver.next_message()?;
        assert_eq!(next, self.receiver.next_message()?);
        let bytes = match &next {
            Next::Nothing => return Ok(None),
            Next::Assembled => self.receiver.assembled().to_vec(),
            Next::InPlace(located) => {
                let mut bytes = vec![0; located.len_bytes];
                self.receiver.copy_out(located, &mut bytes);
                self.in_line += u64::from(located.in_line);
                bytes
            }
        };
        self.receiver.done(&next);
        Ok(Some(bytes))
    }
}

fn pair() -> [Side; 2] {
    let (own, peer) = (Region::new(RING_BYTES), Region::new(RING_BYTES));
    [
        Side::new(ends(true, &own, &peer)),
        Side::new(ends(false, &peer, &own)),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Send(usize),
    SendInParts(usize),
    Batch(usize),
    Receive(usize),
    /// By the short way, and if that finds nothing, by the long one.
    Take,
    Arm,
    /// Takes a place in the ring and gives it up, which may skip to the beginning.
    Reserve(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..=DUPLEX_BYTES_MAX).prop_map(Op::Send),
        2 => (0..192_usize).prop_map(Op::Send),
        1 => (0..400_usize).prop_map(Op::SendInParts),
        1 => (1..5_usize).prop_map(Op::Batch),
        5 => (1..4_usize).prop_map(Op::Receive),
        5 => Just(Op::Take),
        1 => Just(Op::Arm),
        1 => (0..192_usize).prop_map(Op::Reserve),
    ]
}

/// One operation of side `at`.
fn step(sides: &mut [Side; 2], at: usize, op: Op, number: &mut u64) {
    let [first, second] = sides;
    let (own, other) = if at == 0 {
        (first, second)
    } else {
        (second, first)
    };
    let mut message = |len| {
        *number += 1;
        content(*number, len, 16)
    };
    match op {
        Op::Send(len) => {
            let message = message(len);
            if own.sender.send_frame(&message).expect("honest credit") {
                other.expected.push_back(message);
            }
        }
        Op::SendInParts(len) => {
            if !own
                .sender
                .ring()
                .has_room_for_message(len)
                .expect("honest credit")
            {
                return;
            }
            let message = message(len);
            let mut progress = SendProgress::default();
            let sent = own.sender.send_part(&message, &mut progress);
            assert_eq!(sent, Ok(true));
            other.expected.push_back(message);
        }
        Op::Batch(count) => {
            let messages: Vec<_> = (0..count).map(|it| message(it * 9)).collect();
            let sent = own.sender.send_batch(&messages).expect("honest credit");
            other.expected.extend(messages.into_iter().take(sent));
        }
        Op::Receive(count) => {
            for _ in 0..count {
                let found = own.receive().expect("an honest peer");
                assert_eq!(found, own.expected.pop_front());
            }
        }
        Op::Take => {
            let found = own.take();
            assert_eq!(found, own.expected.pop_front());
        }
        Op::Arm => {
            let is_ready = own.receiver.ring().arm(&FullFences) || own.receiver.maybe_ready();
            // A skip is something, too, and no message.
            assert!(is_ready || own.expected.is_empty());
            assert!(other.sender.ring().must_ring(&FullFences));
            own.receiver.ring().disarm();
        }
        Op::Reserve(len) => {
            let _ = own.sender.ring().reserve(len).expect("honest credit");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn both_ways_keep_their_order(ops in prop::collection::vec((0..2_usize, op()), 1..200)) {
        let mut sides = pair();
        let mut number = 0;
        for (at, op) in ops {
            step(&mut sides, at, op, &mut number);
        }
        for side in &mut sides {
            while let Some(found) = side.receive().expect("an honest peer") {
                prop_assert_eq!(Some(found), side.expected.pop_front());
            }
            prop_assert!(side.expected.is_empty());
        }
    }

    /// Whatever the line holds, nothing panics, a message is at most as long as the run, an error stays, and what is
    /// said to be ready can be received or is an error.
    #[test]
    fn a_spoiled_line_is_a_violation_or_a_message(
        words in prop::collection::vec((0..8_usize, any::<u64>(), 0..3_u64, 0..3_u64), 1..60)
    ) {
        let (own, peer) = (Region::new(RING_BYTES), Region::new(RING_BYTES));
        let mut side = Side::new(ends(true, &own, &peer));
        for (index, value, turn, position) in words {
            side.sender.send_frame(b"our turn").expect("honest credit");
            // A length in the line, or one in the run.
            let length = if value & 64 == 0 { value & 63 } else { 0xff };
            let near = (2 * side.in_line + 1 + turn) << 32 | position << 8 | length;
            own.spoil(DUPLEX / 8 + 1, value >> 8 & 511);
            let value = if index < 4 { near } else { value };
            own.spoil(DUPLEX / 8 + index % 4, value);
            match side.receive() {
                Ok(Some(bytes)) => prop_assert!(bytes.len() <= RUN_BYTES),
                Ok(None) => prop_assert!(!side.receiver.maybe_ready()),
                Err(violation) => {
                    prop_assert_eq!(side.receive().err(), Some(violation));
                    break;
                }
            }
        }
    }
}

#[test]
fn requests_and_replies_go_through_the_line() {
    let mut sides = pair();
    let mut number = 0;
    for len in (0..1000).map(|it| it % (frame_bytes_max(RING_BYTES) + 1)) {
        for at in [0, 1] {
            step(&mut sides, at, Op::Send(len), &mut number);
            step(&mut sides, 1 - at, Op::Receive(1), &mut number);
        }
    }
    assert_eq!([sides[0].in_line, sides[1].in_line], [1000, 1000]);
    let used = sides[0].sender.ring().head_lines() + sides[1].sender.ring().head_lines();
    assert_eq!(used, 0);
}

#[test]
fn turns_begin_anew_after_32_bits() {
    let (own, peer) = (Region::new(RING_BYTES), Region::new(RING_BYTES));
    let last = u32::MAX - 5;
    own.spoil(DUPLEX / 8, u64::from(last) << 32);
    let mut sides = [
        Side::new(ends_after(last, true, &own, &peer)),
        Side::new(ends_after(last, false, &peer, &own)),
    ];
    let mut number = 0;
    for _ in 0..10 {
        for at in [0, 1] {
            step(&mut sides, at, Op::Send(8), &mut number);
            step(&mut sides, at, Op::Receive(1), &mut number);
            step(&mut sides, 1 - at, Op::Receive(1), &mut number);
        }
    }
    assert_eq!([sides[0].in_line, sides[1].in_line], [10, 10]);
}

#[test]
fn a_message_that_was_not_released_stays_until_it_is() {
    let mut sides = pair();
    let mut number = 0;
    step(&mut sides, 0, Op::Send(8), &mut number);
    let [_, acceptor] = &mut sides;
    assert!(matches!(
        acceptor.receiver.next_message(),
        Ok(Next::InPlace(_))
    ));
    // Not our turn before the message has been given back: it would be overwritten.
    acceptor
        .sender
        .send_frame(b"through the ring")
        .expect("honest credit");
    assert!(acceptor.sender.ring().head_lines() > 0);
    let received = acceptor.receive().expect("an honest peer");
    assert_eq!(received, acceptor.expected.pop_front());
}

#[test]
fn a_line_in_the_middle_of_a_long_message_is_a_violation() {
    let (own, peer) = (Region::new(RING_BYTES), Region::new(RING_BYTES));
    let mut opener = Side::new(ends(true, &own, &peer));
    let mut acceptor = Side::new(ends(false, &peer, &own));
    let mut progress = SendProgress::default();
    // More than the ring holds: the end is not in it.
    let sent = opener.sender.send_part(&[1; 2000], &mut progress);
    assert_eq!(sent, Ok(false));
    assert_eq!(opener.sender.send_frame(b"too early"), Ok(true));
    assert!(matches!(
        acceptor.receive(),
        Err(Violation::Interleaved { .. })
    ));
}

#[test]
fn streams_use_the_line_and_keep_their_order() {
    let (own, peer) = (Region::new(RING_BYTES), Region::new(RING_BYTES));
    let (to_peer, from_peer) = ends(true, &own, &peer);
    let (to_own, from_own) = ends(false, &peer, &own);
    let mut writers = [StreamSender::new(to_peer), StreamSender::new(to_own)];
    let mut readers = [
        StreamReceiver::new(from_own),
        StreamReceiver::new(from_peer),
    ];
    let mut expected = [Vec::new(), Vec::new()];
    let mut found = [Vec::new(), Vec::new()];
    for round in 0..2000_u64 {
        for at in [0, 1] {
            let len = (round * 7 + at as u64) % 90;
            let bytes = content(round, len as usize, 16);
            let written = writers[at].write(&bytes).expect("honest credit");
            expected[at].extend_from_slice(&bytes[..written]);
            let mut buffer = [0; 64];
            let read = readers[at].read(&mut buffer[..1 + (round % 64) as usize]);
            let read = read.expect("an honest peer");
            found[at].extend_from_slice(&buffer[..read]);
        }
    }
    for at in [0, 1] {
        let mut rest = vec![0; 1 << 16];
        let read = readers[at].read(&mut rest).expect("an honest peer");
        found[at].extend_from_slice(&rest[..read]);
        assert!(found[at] == expected[at]);
    }
    // Some went through the line: fewer lines of the rings were used than pieces were written.
    assert!(writers[0].ring().head_lines() < 2000);
}
