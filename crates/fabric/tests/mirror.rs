//! A ring that is repeated elsewhere: whoever reads the copy receives what was sent into the original.

#[path = "common/memory.rs"]
mod memory;

use barewire_fabric::frame::{CONTROL_BYTES, CREDIT, HEADER_BYTES, LINE_BYTES};
use barewire_fabric::memory::{Incoming, Outgoing};
use barewire_fabric::queue::{Fragments, Next};
use barewire_fabric::ring::{Mirror, Tally, fits_ring, lines_between, publish_repeated};
use barewire_fabric::{MessageReceiver, MessageSender, RingReceiver, RingSender};
use memory::Region;
use proptest::prelude::*;

const RING_BYTES: usize = 1024;

/// Repeats what was published, as two proxies do; the copy of credit goes back.
fn repeat(mirror: &mut Mirror<Region>, copy: &Region, frames_max: usize) {
    for _ in 0..frames_max {
        let Some(frame) = mirror.peek().unwrap() else {
            return;
        };
        assert!(fits_ring(
            RING_BYTES,
            frame.offset,
            frame.len_bytes,
            frame.next_offset
        ));
        let mut payload = vec![0; frame.len_bytes - HEADER_BYTES];
        mirror
            .incoming()
            .read(frame.offset + HEADER_BYTES, &mut payload);
        copy.write(frame.offset + HEADER_BYTES, &payload);
        publish_repeated(copy, frame.offset, frame.next_offset, frame.header);
        let before = mirror.position();
        mirror.advance(&frame);
        let lines = lines_between(RING_BYTES, frame.offset, frame.next_offset);
        assert_eq!(before + lines, mirror.position());
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(usize),
    /// A place is taken and published shorter.
    Shorter(usize, usize),
    Batch(Vec<usize>),
    Repeat(usize),
    Receive(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..300_usize).prop_map(Op::Send),
        1 => (0..190_usize, 0..190_usize).prop_map(|(a, b)| Op::Shorter(a.max(b), a.min(b))),
        1 => prop::collection::vec(0..20_usize, 1..8).prop_map(Op::Batch),
        3 => (1..4_usize).prop_map(Op::Repeat),
        3 => (1..5_usize).prop_map(Op::Receive),
    ]
}

proptest! {
    #[test]
    fn the_copy_gives_what_was_sent(ops in prop::collection::vec(op(), 1..300)) {
        // `original` stands in for `copy`, which the reader owns; credit goes into `own`, which the writer owns, by way
        // of `credit`, into which the reader stores.
        let [original, copy, credit, own] = [(); 4].map(|()| Region::new(RING_BYTES));
        let ring = RingSender::new(original.clone(), own.clone(), RING_BYTES);
        let mut sender = MessageSender::new(ring);
        let ring = RingReceiver::new(copy.clone(), credit.clone(), RING_BYTES);
        let mut receiver = MessageReceiver::new(ring, 1 << 16);
        let mut counting = Mirror::new(original.clone(), RING_BYTES);
        let mut tally = Tally::default();
        let mut mirror = Mirror::new(original, RING_BYTES);
        let (mut sent, mut received, mut number) = (Vec::new(), Vec::new(), 0_u8);
        let message = |len: usize, number: &mut u8| {
            *number = number.wrapping_add(1);
            vec![*number; len]
        };
        for op in ops {
            match op {
                Op::Send(len) => {
                    let message = message(len.min(sender.frame_bytes_max()), &mut number);
                    if sender.send_frame(&message).unwrap() {
                        sent.push(message);
                    }
                }
                Op::Shorter(reserved, used) => {
                    let message = message(used, &mut number);
                    if let Some(slot) = sender.ring().reserve(reserved).unwrap() {
                        sender.ring().fill(&slot, 0, &message);
                        sender.ring().publish(slot, barewire_fabric::frame::Kind::Whole, used);
                        sent.push(message);
                    }
                }
                Op::Batch(lens) => {
                    let messages: Vec<_> = lens.iter().map(|len| message(*len, &mut number)).collect();
                    let count = sender.send_batch(&messages).unwrap();
                    sent.extend(messages.into_iter().take(count));
                }
                Op::Repeat(frames) => repeat(&mut mirror, &copy, frames),
                Op::Receive(count) => {
                    for _ in 0..count {
                        take(&mut receiver, &mut received);
                    }
                    // What the writer may use again from now on is counted before.
                    let read = credit.observe_u64(CREDIT);
                    counting.count(read, &mut tally).unwrap();
                    assert_eq!(counting.position(), read);
                    own.publish_u64(CREDIT, read);
                }
            }
        }
        repeat(&mut mirror, &copy, usize::MAX);
        while take(&mut receiver, &mut received) {}
        counting.count(u64::MAX, &mut tally).unwrap();
        prop_assert_eq!(tally.begun_bytes, 0);
        prop_assert_eq!(tally.messages, sent.len() as u64);
        prop_assert_eq!(tally.bytes, sent.iter().map(|it| it.len() as u64).sum::<u64>());
        prop_assert_eq!(sent, received);
    }

    /// Messages whose bytes go another way are published without them, and taken as if they were there.
    #[test]
    fn announced_messages_take_their_places(lens in prop::collection::vec(1..400_usize, 1..100)) {
        let [original, copy, credit, own] = [(); 4].map(|()| Region::new(RING_BYTES));
        let ring = RingSender::new(original.clone(), own.clone(), RING_BYTES);
        let mut sender = MessageSender::new(ring);
        let ring = RingReceiver::new(copy.clone(), credit.clone(), RING_BYTES);
        let mut receiver = MessageReceiver::new(ring, 1 << 16);
        let mut mirror = Mirror::new(original, RING_BYTES);
        let mut received = Vec::new();
        for len in lens {
            let len = len.min(sender.whole_message_bytes_max());
            if len % 3 == 0 {
                // An ordinary one between them.
                let message = vec![7; len.min(sender.frame_bytes_max())];
                prop_assert!(sender.send_frame(&message).unwrap());
                repeat(&mut mirror, &copy, usize::MAX);
                prop_assert!(take(&mut receiver, &mut received));
                prop_assert_eq!(received.pop().unwrap(), message);
            } else {
                prop_assert!(sender.announce(len).unwrap());
                let mut taken_bytes = 0;
                let mut is_whole = false;
                while let Some(frame) = mirror.peek().unwrap() {
                    publish_repeated(&copy, frame.offset, frame.next_offset, frame.header);
                    mirror.advance(&frame);
                    let (offset, payload_bytes) = frame.payload();
                    if frame.is_skip() {
                        prop_assert_eq!(payload_bytes, 0);
                        continue;
                    }
                    prop_assert!(!is_whole);
                    if taken_bytes == 0 {
                        prop_assert!(receiver.is_between_messages());
                        prop_assert!(receiver.take_stored(offset + 8, payload_bytes).is_err());
                        prop_assert!(receiver.take_stored(offset, payload_bytes - 1).is_err());
                        is_whole = receiver.take_stored(offset, payload_bytes).unwrap();
                        taken_bytes = payload_bytes;
                    } else {
                        let found = receiver.take_fragments(&mut [0; 400], &mut taken_bytes).unwrap();
                        is_whole = found == Fragments::All;
                    }
                }
                prop_assert!(is_whole);
                prop_assert_eq!(taken_bytes, len);
            }
            own.publish_u64(CREDIT, credit.observe_u64(CREDIT));
        }
    }

    #[test]
    fn nothing_outside_the_ring_fits(
        offset in 0..3000_usize, len_bytes in 0..3000_usize, next in 0..3000_usize
    ) {
        if fits_ring(RING_BYTES, offset, len_bytes, next) {
            let ring = CONTROL_BYTES..CONTROL_BYTES + RING_BYTES;
            prop_assert!(ring.contains(&offset) && offset % LINE_BYTES == 0);
            prop_assert!(offset + len_bytes <= ring.end && len_bytes >= HEADER_BYTES);
            prop_assert!(ring.contains(&next) && next % LINE_BYTES == 0);
            prop_assert!(next < offset || next >= offset + len_bytes);
        }
    }
}

/// Receives a message, if one is there.
fn take(receiver: &mut MessageReceiver<Region, Region>, received: &mut Vec<Vec<u8>>) -> bool {
    let next = receiver.next_message().unwrap();
    let message = match &next {
        Next::Nothing => return false,
        Next::InPlace(located) => {
            let mut bytes = vec![0; located.len_bytes];
            receiver.copy_out(located, &mut bytes);
            bytes
        }
        Next::Assembled => receiver.assembled().to_vec(),
    };
    receiver.done(&next);
    received.push(message);
    true
}
