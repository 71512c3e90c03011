//! The suite of the message queue and the byte stream over a fabric's windows.

use std::collections::VecDeque;
use std::thread;

use barewire_fabric::frame::region_bytes;
use barewire_fabric::memory::{Incoming, Outgoing};
use barewire_fabric::queue::Next;
use barewire_fabric::ring::publish_state;
use barewire_fabric::{
    MessageReceiver, MessageSender, RingReceiver, RingSender, SendProgress, StreamReceiver,
    StreamSender,
};

use crate::fabric::{Side, Windows};
use crate::help::{eventually, good, pattern};
use crate::suite::cases;

cases! {
    /// Order, boundaries, sizes, credit, the end; messages and bytes.
    cases for Windows:
        messages_of_any_size_arrive_in_order,
        batches_keep_their_boundaries,
        long_messages_are_put_together,
        a_full_ring_refuses_and_credit_reopens_it,
        nothing_is_left_behind_at_the_end,
        a_stream_keeps_its_bytes,
        random_traffic_matches_a_plain_queue,
        arming_is_seen_by_one_side_or_the_other,
}

type Sender<F> = MessageSender<<F as Windows>::Out, <F as Windows>::In>;
type Receiver<F> = MessageReceiver<<F as Windows>::In, <F as Windows>::Out>;

/// A window that something else is stored through afterwards.
struct Lent<'a, T>(&'a T);

impl<T: Outgoing> Outgoing for Lent<'_, T> {
    fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }
    fn write(&self, offset: usize, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }
    fn write_measured(&self, offset: usize, bytes: &[u8]) -> u64 {
        self.0.write_measured(offset, bytes)
    }
    fn write_past_caches(&self, offset: usize, bytes: &[u8]) {
        self.0.write_past_caches(offset, bytes);
    }
    fn write_u64(&self, offset: usize, value: u64) {
        self.0.write_u64(offset, value);
    }
    fn publish_u64(&self, offset: usize, value: u64) {
        self.0.publish_u64(offset, value);
    }
}

impl<T: Incoming> Incoming for Lent<'_, T> {
    fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }
    fn read(&self, offset: usize, into: &mut [u8]) {
        self.0.read(offset, into);
    }
    fn read_u64(&self, offset: usize) -> u64 {
        self.0.read_u64(offset)
    }
    fn observe_u64(&self, offset: usize) -> u64 {
        self.0.observe_u64(offset)
    }
}

const MESSAGE_MAX: usize = 1 << 20;

/// A queue from the first side to the second, and both sides' fences.
fn queue<F: Windows>(ring: usize) -> (Sender<F>, Receiver<F>, F::Fence, F::Fence) {
    let [a, b] = F::windows(region_bytes(ring));
    let Side { out, inn, fences } = a;
    let sender = MessageSender::new(RingSender::new(out, inn, ring));
    let receiver = RingReceiver::new(b.inn, b.out, ring);
    let receiver = MessageReceiver::new(receiver, MESSAGE_MAX);
    (sender, receiver, fences, b.fences)
}

fn try_recv<F: Windows>(receiver: &mut Receiver<F>) -> Option<Vec<u8>> {
    let next = good(receiver.next_message());
    let message = match &next {
        Next::Nothing => return None,
        Next::InPlace(at) => {
            let mut message = vec![0; at.len_bytes];
            receiver.copy_out(at, &mut message);
            message
        }
        Next::Assembled => receiver.assembled().to_vec(),
    };
    receiver.done(&next);
    Some(message)
}

#[track_caller]
fn recv<F: Windows>(receiver: &mut Receiver<F>) -> Vec<u8> {
    let mut got = None;
    eventually::<F>("a message", || {
        got = try_recv::<F>(receiver);
        got.is_some()
    });
    got.unwrap_or_default()
}

#[track_caller]
fn send<F: Windows>(sender: &mut Sender<F>, message: &[u8]) {
    let mut progress = SendProgress::default();
    eventually::<F>("room", || good(sender.send_part(message, &mut progress)));
}

const SIZES: [usize; 17] = [
    0, 1, 7, 8, 55, 56, 57, 63, 64, 120, 121, 248, 500, 1016, 1024, 4000, 100_000,
];

fn messages_of_any_size_arrive_in_order<F: Windows>() {
    for ring in [1024, 4096, 1 << 16] {
        let (mut sender, mut receiver, ..) = queue::<F>(ring);
        let message = |i: usize| pattern(i as u64, SIZES[i % SIZES.len()]);
        thread::scope(|scope| {
            scope.spawn(move || (0..200).for_each(|i| send::<F>(&mut sender, &message(i))));
            for i in 0..200 {
                assert!(recv::<F>(&mut receiver) == message(i), "message {i}");
            }
        });
        assert_eq!(try_recv::<F>(&mut receiver), None);
    }
}

fn batches_keep_their_boundaries<F: Windows>() {
    let (mut sender, mut receiver, ..) = queue::<F>(4096);
    for round in 0..200_u64 {
        let lens = (0..20).map(|i| (round as usize * 7 + i * 13) % 90);
        let messages: Vec<_> = lens.map(|len| pattern(round, len)).collect();
        let mut sent = 0;
        let mut got = 0;
        eventually::<F>("a batch", || {
            sent += good(sender.send_batch(&messages[sent..]));
            while let Some(message) = try_recv::<F>(&mut receiver) {
                assert_eq!(message, messages[got], "round {round}, message {got}");
                got += 1;
            }
            got == messages.len()
        });
    }
}

fn long_messages_are_put_together<F: Windows>() {
    let (mut sender, mut receiver, ..) = queue::<F>(1024);
    let long = pattern(3, 300_000);
    thread::scope(|scope| {
        let long = &long;
        scope.spawn(move || {
            send::<F>(&mut sender, long);
            send::<F>(&mut sender, b"after");
        });
        assert!(recv::<F>(&mut receiver) == *long);
        assert_eq!(recv::<F>(&mut receiver), b"after");
    });
}

fn a_full_ring_refuses_and_credit_reopens_it<F: Windows>() {
    let (mut sender, mut receiver, ..) = queue::<F>(1024);
    for round in 0..50_u64 {
        let mut sent = 0;
        while good(sender.send_frame(&[round as u8, sent])) {
            sent += 1;
            assert!(sent < 16, "more than the ring holds");
        }
        assert!(sent >= 8, "only {sent} of 15 lines");
        for i in 0..sent {
            assert_eq!(recv::<F>(&mut receiver), [round as u8, i]);
        }
        eventually::<F>("credit", || good(sender.ring().reserve(56)).is_some());
    }
}

/// The word that says «no more» is never seen before the last message.
fn nothing_is_left_behind_at_the_end<F: Windows>() {
    for round in 0..300_u64 {
        let [a, b] = F::windows(region_bytes(1024));
        let (inn, out) = (b.inn, b.out);
        let mut receiver = MessageReceiver::new(RingReceiver::new(inn, out, 1024), MESSAGE_MAX);
        let count = 1 + round % 9;
        thread::scope(|scope| {
            scope.spawn(move || {
                let ring = RingSender::new(Lent(&a.out), Lent(&a.inn), 1024);
                let mut sender = MessageSender::new(ring);
                for i in 0..count {
                    assert!(good(sender.send_frame(&i.to_ne_bytes())));
                }
                publish_state(&a.out, barewire_fabric::frame::STATE_FINISHED);
            });
            let mut got = 0_u64;
            eventually::<F>("the end", || {
                let over = receiver.ring().peer_finished();
                while let Some(message) = try_recv::<F>(&mut receiver) {
                    assert_eq!(message, got.to_ne_bytes());
                    got += 1;
                }
                over
            });
            assert_eq!(got, count, "messages before the end");
        });
    }
}

fn a_stream_keeps_its_bytes<F: Windows>() {
    let ring = 4096;
    let [a, b] = F::windows(region_bytes(ring));
    let data = pattern(8, 400_000);
    let expected = data.clone();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writer = StreamSender::new(RingSender::new(a.out, a.inn, ring));
            let mut at = 0;
            eventually::<F>("everything written", || {
                let piece = (at * 31 % 3000 + 1).min(data.len() - at);
                at += good(writer.write(&data[at..at + piece]));
                at == data.len()
            });
        });
        let mut reader = StreamReceiver::new(RingReceiver::new(b.inn, b.out, ring));
        let mut got = Vec::new();
        let mut piece = vec![0; 1777];
        eventually::<F>("everything read", || {
            let want = got.len() * 17 % 1777 + 1;
            let len = good(reader.read(&mut piece[..want]));
            got.extend_from_slice(&piece[..len]);
            got.len() >= expected.len()
        });
        assert!(got == expected);
    });
}

fn random_traffic_matches_a_plain_queue<F: Windows>() {
    for seed in 0..20 {
        let mut rng = barewire_units::Rng::from_seed(seed);
        let (mut sender, mut receiver, ..) = queue::<F>(1024 << (seed % 3));
        let max = sender.ring().frame_bytes_max();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        for step in 0..2000 {
            if rng.below(2) == 0 {
                let len = rng.below(max as u64 + 1) as usize;
                let message = pattern(step, len);
                if good(sender.send_frame(&message)) {
                    model.push_back(message);
                } else {
                    assert!(!model.is_empty(), "seed {seed}: an empty ring is full");
                    assert_eq!(Some(recv::<F>(&mut receiver)), model.pop_front());
                }
            } else if let Some(expected) = model.pop_front() {
                assert_eq!(recv::<F>(&mut receiver), expected, "seed {seed}");
            } else {
                assert_eq!(try_recv::<F>(&mut receiver), None, "seed {seed}");
            }
        }
    }
}

/// A receiver that arms and finds nothing is rung for the message that comes.
fn arming_is_seen_by_one_side_or_the_other<F: Windows>() {
    const ROUNDS: u64 = 3000;
    let (mut sender, mut receiver, light, heavy) = queue::<F>(4096);
    let step = std::sync::Barrier::new(2);
    let rung = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    let mut missed = 0;
    thread::scope(|scope| {
        let (step, rung) = (&step, &rung);
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                step.wait();
                let sent = good(sender.send_frame(b"news"));
                // Credit comes late on some fabrics; a round without a message is none.
                rung.store(!sent || sender.ring().must_ring(&light), order);
                step.wait();
                step.wait();
            }
        });
        for _ in 0..ROUNDS {
            step.wait();
            let found = receiver.ring().arm(&heavy);
            step.wait();
            missed += u32::from(!found && !rung.load(order));
            receiver.ring().disarm();
            let mut left = rung.load(order) || found;
            while try_recv::<F>(&mut receiver).is_some() {
                left = false;
            }
            // It is on its way: give it the time it needs.
            if left {
                eventually::<F>("the message", || try_recv::<F>(&mut receiver).is_some());
            }
            step.wait();
        }
    });
    assert_eq!(missed, 0, "messages for which nobody rang");
}
