//! The queue and the stream against a plain oracle: any sequence of operations on one
//! thread gives what a `VecDeque` gives.
//!
//! The soak runs for ever new sequences from a seed; `BAREWIRE_SEED` sets it, a failure
//! prints it.

#[path = "common/memory.rs"]
mod memory;

use std::collections::VecDeque;

use barewire_fabric::frame::{Kind, LINE_BYTES, STATE_COPIES, STATE_DEAF, STATE_FINISHED};
use barewire_fabric::queue::{Fragments, Next};
use barewire_fabric::ring::{Taken, frame_bytes_max, publish_state};
use barewire_fabric::{
    MessageReceiver, MessageSender, RingReceiver, RingSender, SendProgress, StreamReceiver,
    StreamSender, Violation,
};
use barewire_units::Rng;
use memory::{FullFences, Region, content};
use proptest::prelude::*;

const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// One step of a run over a queue. Sizes are in 1/256 of the ring where large.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A message in one frame; longer than a frame, it is cut to one.
    Send(usize),
    /// A message of any length, in as many parts as it takes.
    SendLong(usize),
    /// Several messages of up to so many bytes at once.
    Batch(usize, usize),
    /// Takes up to so many messages.
    Receive(usize),
    /// Looks at the next message twice and leaves it.
    Peek,
    /// Arms and disarms either side.
    Arm,
}

/// Both ends of a queue, and what should be in it.
struct Run {
    sender: MessageSender<Region, Region>,
    receiver: MessageReceiver<Region, Region>,
    oracle: VecDeque<Vec<u8>>,
    /// A long message that is not in the ring completely, and how much of it is.
    under_way: Option<(Vec<u8>, SendProgress)>,
    number: u64,
    receives: u64,
    /// Messages that went straight into a buffer.
    taken_in_fragments: u64,
}

impl Run {
    fn new(sender: RingSender<Region, Region>, receiver: RingReceiver<Region, Region>) -> Run {
        Run {
            sender: MessageSender::new(sender),
            receiver: MessageReceiver::new(receiver, MESSAGE_BYTES_MAX),
            oracle: VecDeque::new(),
            under_way: None,
            number: 0,
            receives: 0,
            taken_in_fragments: 0,
        }
    }

    fn fresh(ring_bytes: usize) -> Run {
        let (sender, receiver) = Region::ends(ring_bytes);
        Run::new(sender, receiver)
    }

    /// With a reader that copies messages out, so that long ones come in pieces.
    fn with_pieces(ring_bytes: usize) -> Run {
        let (there, back) = (Region::new(ring_bytes), Region::new(ring_bytes));
        publish_state(&back, STATE_COPIES);
        let sender = RingSender::new(there.clone(), back.clone(), ring_bytes);
        let mut run = Run::new(sender, RingReceiver::new(there, back, ring_bytes));
        assert!(!run.sender.ring().peer_deaf());
        run
    }

    fn message(&mut self, len: usize) -> Vec<u8> {
        self.number += 1;
        let ring = self.sender.ring();
        let next_lap = ring.head_lines() + (ring.ring_bytes() / LINE_BYTES) as u64;
        content(self.number, len, next_lap)
    }

    fn step(&mut self, op: Op) -> Result<(), Violation> {
        if !matches!(op, Op::Receive(_) | Op::Peek | Op::Arm) && self.under_way.is_some() {
            return self.go_on();
        }
        match op {
            Op::Send(len) => {
                let len = len.min(self.sender.ring().frame_bytes_max());
                let message = self.message(len);
                if self.sender.send_frame(&message)? {
                    self.oracle.push_back(message);
                } else {
                    assert!(!self.oracle.is_empty(), "an empty ring is full");
                }
            }
            Op::SendLong(len) => {
                let message = self.message(len);
                self.under_way = Some((message, SendProgress::default()));
                self.go_on()?;
            }
            Op::Batch(count, len) => {
                let messages: Vec<_> = (0..count).map(|i| self.message(len * i / count)).collect();
                let sent = self.sender.send_batch(&messages)?;
                let max = self.sender.ring().frame_bytes_max();
                if self.oracle.is_empty() && messages.first().is_some_and(|m| m.len() <= max) {
                    assert!(sent > 0, "an empty ring is full");
                }
                self.oracle.extend(messages.into_iter().take(sent));
            }
            Op::Receive(count) => {
                for _ in 0..count {
                    if !self.receive()? {
                        break;
                    }
                }
            }
            Op::Peek => {
                let first = self.receiver.next_message()?;
                assert_eq!(first, self.receiver.next_message()?);
                assert_eq!(first == Next::Nothing, self.oracle.is_empty());
            }
            Op::Arm => {
                let ready = self.receiver.ring().arm(&FullFences);
                assert!(self.sender.ring().must_ring(&FullFences));
                self.receiver.ring().disarm();
                assert!(!self.sender.ring().must_ring(&FullFences));
                assert_eq!(ready, !self.receiver.ring().is_empty());
                let room = self.sender.ring().arm(&FullFences, 100)?;
                assert!(self.receiver.ring().must_ring(&FullFences));
                self.sender.ring().disarm();
                assert!(!self.receiver.ring().must_ring(&FullFences));
                assert_eq!(room, self.sender.ring().reserve(100)?.is_some());
            }
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Violation> {
        let Some((message, mut progress)) = self.under_way.take() else {
            return Ok(());
        };
        if self.sender.send_part(&message, &mut progress)? {
            assert_eq!(progress.sent_bytes, message.len());
            self.oracle.push_back(message);
        } else {
            self.under_way = Some((message, progress));
        }
        Ok(())
    }

    /// Takes one message; whether there was one.
    fn receive(&mut self) -> Result<bool, Violation> {
        if let Some(bytes) = self.receive_fragments()? {
            self.check(&bytes);
            return Ok(true);
        }
        let next = self.receiver.next_message()?;
        let bytes = match &next {
            Next::Nothing => {
                assert!(
                    self.oracle.is_empty(),
                    "{} messages lost",
                    self.oracle.len()
                );
                return Ok(false);
            }
            Next::Assembled => self.receiver.assembled().to_vec(),
            Next::InPlace(located) => {
                let mut bytes = vec![0; located.len_bytes];
                self.receiver.copy_out(located, &mut bytes);
                bytes
            }
        };
        assert!(self.receiver.maybe_ready());
        self.receiver.done(&next);
        self.check(&bytes);
        Ok(true)
    }

    fn check(&mut self, received: &[u8]) {
        let expected = self.oracle.pop_front().expect("a message of nobody");
        assert!(received == expected, "{} bytes differ", expected.len());
    }

    /// Takes a long message straight into a buffer, of which the length is another one each time, while the sender
    /// goes on with it, but not always to its end.
    fn receive_fragments(&mut self) -> Result<Option<Vec<u8>>, Violation> {
        self.receives += 1;
        let ring_bytes = self.sender.ring().ring_bytes() as u64;
        let mut into = vec![0; (self.receives * 7919 % (4 * ring_bytes)) as usize];
        let mut taken_bytes = 0;
        for _ in 0..self.receives % 5 {
            match self.receiver.take_fragments(&mut into, &mut taken_bytes)? {
                Fragments::All => {
                    into.truncate(taken_bytes);
                    self.taken_in_fragments += 1;
                    return Ok(Some(into));
                }
                Fragments::Some => self.go_on()?,
                Fragments::Nothing | Fragments::Other => break,
            }
        }
        self.receiver.put_together(&into[..taken_bytes])?;
        Ok(None)
    }

    /// Ends the connection: all that was sent arrives, then the end and nothing else.
    fn finish(mut self) -> Result<(), Violation> {
        while self.receive()? || self.under_way.is_some() {
            self.go_on()?;
        }
        assert!(!self.receiver.cut_off() && !self.receiver.maybe_ready());
        assert_eq!(self.receiver.next_message()?, Next::Nothing);
        assert_eq!(
            self.sender.ring().head_lines(),
            self.receiver.ring().tail_lines()
        );
        Ok(())
    }
}

fn any_op(ring_bytes: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..200_usize).prop_map(Op::Send),
        3 => (0..ring_bytes / 4).prop_map(Op::Send),
        2 => (0..3 * ring_bytes).prop_map(Op::SendLong),
        2 => (0..12_usize, 0..150_usize).prop_map(|(count, len)| Op::Batch(count, len)),
        1 => (0..6_usize, 0..ring_bytes / 3).prop_map(|(count, len)| Op::Batch(count, len)),
        6 => (0..12_usize).prop_map(Op::Receive),
        1 => Just(Op::Peek),
        1 => Just(Op::Arm),
    ]
}

fn any_run() -> impl Strategy<Value = (usize, Vec<Op>)> {
    (10..=16_u32).prop_flat_map(|bits| {
        let ring_bytes = 1 << bits;
        let ops = prop::collection::vec(any_op(ring_bytes), 0..300);
        (Just(ring_bytes), ops)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_queue_is_a_queue((ring_bytes, ops) in any_run()) {
        let mut run = Run::fresh(ring_bytes);
        for op in ops {
            run.step(op).unwrap();
        }
        run.finish().unwrap();
    }

    #[test]
    fn a_queue_is_a_queue_in_pieces((ring_bytes, ops) in any_run()) {
        let mut run = Run::with_pieces(32 * ring_bytes);
        for op in ops {
            run.step(op).unwrap();
        }
        run.finish().unwrap();
    }

    #[test]
    fn a_stream_is_a_stream(
        bits in 10..=16_u32,
        sizes in prop::collection::vec((0..20_000_usize, 0..20_000_usize), 0..100),
    ) {
        stream(Region::ends(1 << bits), &sizes);
    }
}

/// Writes and reads pieces of these sizes.
fn stream(ends: memory::Ends, sizes: &[(usize, usize)]) {
    let mut sender = StreamSender::new(ends.0);
    let mut receiver = StreamReceiver::new(ends.1);
    let mut oracle: VecDeque<u8> = VecDeque::new();
    let mut buffer = vec![0; 20_000];
    for (number, (write, read)) in (0..).zip(sizes) {
        let bytes = content(number, *write, number);
        let written = sender.write(&bytes).unwrap();
        // Not even a full ring of frames with one byte each refuses an empty reader.
        assert!(written > 0 || bytes.is_empty() || receiver.maybe_ready());
        oracle.extend(&bytes[..written]);
        let got = receiver.read(&mut buffer[..*read]).unwrap();
        assert_eq!(got, oracle.len().min(*read));
        assert!(oracle.drain(..got).eq(buffer[..got].iter().copied()));
    }
    while receiver.maybe_ready() {
        let got = receiver.read(&mut buffer).unwrap();
        assert!(oracle.drain(..got).eq(buffer[..got].iter().copied()));
    }
    assert!(oracle.is_empty());
}

fn seed() -> u64 {
    let set = std::env::var("BAREWIRE_SEED").ok();
    set.map_or(0x0ba5_e11e, |seed| seed.parse().expect("a number"))
}

fn random_op(rng: &mut Rng, ring_bytes: u64) -> Op {
    let len = match rng.below(4) {
        0 => rng.below(9),
        1 => rng.below(200),
        2 => rng.below(ring_bytes / 4),
        _ => rng.below(2) * rng.below(ring_bytes * 3),
    } as usize;
    match rng.below(12) {
        0..=3 => Op::Send(len),
        4 => Op::SendLong(len),
        5 | 6 => Op::Batch(rng.below(20) as usize, len),
        7 => Op::Peek,
        8 => Op::Arm,
        _ => Op::Receive(rng.below(20) as usize),
    }
}

#[test]
fn soak() {
    let seed = seed();
    println!("BAREWIRE_SEED={seed}");
    let root = Rng::from_seed(seed);
    for number in 0..28 {
        let mut rng = root.fork_nth("soak", number);
        let ring_bytes = 1024 << (number % 7);
        let mut run = Run::fresh(ring_bytes);
        for _ in 0..4_000 {
            run.step(random_op(&mut rng, ring_bytes as u64)).unwrap();
        }
        assert!(run.taken_in_fragments > 0);
        run.finish().unwrap();
    }
}

/// Of a message in pieces the reader has the first ones while the last are written; as a whole it is there or not.
#[test]
fn a_message_in_pieces_is_all_or_nothing() {
    const RING_BYTES: usize = 1 << 18;
    let mut run = Run::with_pieces(RING_BYTES);
    let frames = |run: &mut Run, len: usize| {
        let message = run.message(len);
        assert!(run.sender.send_frame(&message).unwrap());
        let mut frames = 1;
        while let Some(frame) = run.receiver.ring().peek().unwrap() {
            run.receiver.ring().release(&frame);
            if frame.kind == Kind::Whole {
                break;
            }
            frames += 1;
        }
        frames
    };
    assert_eq!(
        [16_383, 16_384, 20_000].map(|len| frames(&mut run, len)),
        [1, 4, 5]
    );
    assert_eq!(frames(&mut run, 40_000), 5);
    // A reader that sleeps gets it as a whole, and so does one that copies the last one while the next is written.
    run.receiver.ring().arm(&FullFences);
    assert_eq!(frames(&mut run, 16_384), 1);
    run.receiver.ring().disarm();
    run.sender.ring().set_one_way(true);
    assert_eq!(frames(&mut run, 16_384), 1);
    run.sender.ring().set_one_way(false);
    // Until the ring is full, no message is in it in part.
    let message = run.message(50_000);
    let mut sent = 0;
    while run.sender.send_frame(&message).unwrap() {
        sent += 1;
    }
    assert!(sent >= 4);
    run.oracle = vec![message; sent].into();
    run.finish().unwrap();
}

/// Brings a ring to a position of at least `lines` by empty frames, which cost no copying.
fn advance(
    sender: &mut RingSender<Region, Region>,
    receiver: &mut RingReceiver<Region, Region>,
    lines: u64,
) {
    let max = frame_bytes_max(sender.ring_bytes());
    while sender.head_lines() < lines {
        let slot = sender.reserve(max).unwrap().expect("an empty ring");
        sender.publish(slot, Kind::Whole, max);
        let frame = receiver.peek().unwrap().expect("a frame");
        receiver.release(&frame);
    }
}

/// The header holds 24 bits of the position: they wrap without anyone noticing.
#[test]
fn the_position_in_the_header_wraps() {
    const WRAP: u64 = 1 << 24;
    for ring_bytes in [4096, 65536] {
        let (mut sender, mut receiver) = Region::ends(ring_bytes);
        advance(&mut sender, &mut receiver, WRAP - 300);
        assert!(sender.head_lines() < WRAP);
        let mut run = Run::new(sender, receiver);
        let mut rng = Rng::from_seed(seed());
        while run.sender.ring().head_lines() < WRAP + 3000 {
            run.step(random_op(&mut rng, 4096)).unwrap();
        }
        run.finish().unwrap();
    }
}

/// What was written into a place that was then given up is taken for no frame, behind a message of one line either.
#[test]
fn a_place_given_up_leaves_nothing_behind() {
    let (there, back) = (Region::new(4096), Region::new(4096));
    let mut sender = MessageSender::new(RingSender::new(there.clone(), back.clone(), 4096));
    let ring = RingReceiver::new(there, back, 4096);
    let mut receiver = MessageReceiver::new(ring, 1 << 20);
    let mut buffer = [0; 8];
    for lap in 0..100_u64 {
        let message = lap.to_le_bytes();
        assert_eq!(sender.send_frame(&message), Ok(true));
        let slot = sender.ring().reserve(300).unwrap().expect("room");
        sender.ring().fill(&slot, 0, &[0xff; 300]);
        assert_eq!(sender.send_frame(&message), Ok(true));
        for _ in 0..2 {
            // The short way, unless the place was behind a skipped end of the ring.
            if receiver.take(&mut buffer) != Taken::Message(8) {
                let next = receiver.next_message().unwrap();
                let Next::InPlace(located) = &next else {
                    panic!("{next:?} in lap {lap}");
                };
                receiver.copy_out(located, &mut buffer);
                receiver.done(&next);
            }
            assert_eq!(buffer, message);
        }
        assert_eq!(receiver.next_message(), Ok(Next::Nothing));
    }
}

#[test]
fn the_end_comes_after_the_last_message() {
    let (there, back) = (Region::new(1024), Region::new(1024));
    let sender = RingSender::new(there.clone(), back.clone(), 1024);
    let receiver = RingReceiver::new(there.clone(), back.clone(), 1024);
    let mut run = Run::new(sender, receiver);
    run.step(Op::Send(100)).unwrap();
    assert!(!run.receiver.ring().peer_finished());
    publish_state(&there, STATE_FINISHED);
    assert!(run.receiver.ring().peer_finished() && !run.receiver.ring().is_empty());
    assert!(!run.sender.ring().peer_deaf());
    publish_state(&back, STATE_DEAF);
    assert!(run.sender.ring().peer_deaf());
    run.step(Op::Receive(1)).unwrap();
    assert!(
        run.receiver.ring().arm(&FullFences),
        "an end is something to see"
    );
    run.finish().unwrap();
}

/// A writer that stops inside a long message leaves it cut off.
#[test]
fn a_message_can_be_cut_off() {
    let mut run = Run::fresh(1024);
    run.step(Op::SendLong(5000)).unwrap();
    assert!(run.under_way.is_some());
    assert_eq!(run.receiver.next_message(), Ok(Next::Nothing));
    assert!(run.receiver.cut_off());
}

/// After a frame is published shorter than it was reserved and filled, the reader must not
/// take what was filled behind it for a header.
#[test]
fn a_frame_may_be_published_shorter_than_it_was_filled() {
    let (mut sender, mut receiver) = Region::ends(1024);
    advance(&mut sender, &mut receiver, 3);
    let slot = sender.reserve(190).unwrap().unwrap();
    sender.fill(&slot, 0, &[0xff; 190]);
    sender.publish(slot, Kind::Whole, 8);
    let frame = receiver.peek().unwrap().expect("a frame");
    receiver.release(&frame);
    assert_eq!(receiver.peek(), Ok(None));
}

/// The same after a place that was filled and never published.
#[test]
fn a_filled_place_may_be_given_up() {
    let (mut sender, mut receiver) = Region::ends(1024);
    advance(&mut sender, &mut receiver, 3);
    let slot = sender.reserve(190).unwrap().unwrap();
    sender.fill(&slot, 0, &[0xff; 190]);
    let slot = sender.reserve(8).unwrap().unwrap();
    sender.publish(slot, Kind::Whole, 8);
    let frame = receiver.peek().unwrap().expect("a frame");
    receiver.release(&frame);
    assert_eq!(receiver.peek(), Ok(None));
}
