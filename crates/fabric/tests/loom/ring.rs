//! The ring and the message queue: what arrives is what was sent, whole and in order,
//! whatever one side does while the other works, and wherever one of them stops.

use barewire_fabric::frame::{
    HEADER_BYTES, Kind, LINE_BYTES, RING_BYTES_MIN, lines_for, pack, payload_offset,
};
use barewire_fabric::queue::Next;
use barewire_fabric::{
    MessageReceiver, MessageSender, RingReceiver, RingSender, SendProgress, Violation,
};
use loom::thread;

use crate::window::{Flaw, Life, Window};
use crate::{check, check_caught, fails};

/// Lines of the ring of all models, the smallest there is.
pub const LINES: u64 = (RING_BYTES_MIN / LINE_BYTES) as u64;

pub type Sender = MessageSender<Window, Window>;
pub type Receiver = MessageReceiver<Window, Window>;

/// Both ends of a fresh queue; each with its own flaw.
pub fn pair(sender: Flaw, receiver: Flaw) -> (Sender, Receiver) {
    let (there, back) = (Window::new(RING_BYTES_MIN), Window::new(RING_BYTES_MIN));
    let (s, r) = ends(&there.with(sender), &there.with(receiver), &back);
    (MessageSender::new(s), MessageReceiver::new(r, 4096))
}

type Ends = (RingSender<Window, Window>, RingReceiver<Window, Window>);

fn ends(out: &Window, inn: &Window, back: &Window) -> Ends {
    (
        RingSender::new(out.clone(), back.clone(), RING_BYTES_MIN),
        RingReceiver::new(inn.clone(), back.clone(), RING_BYTES_MIN),
    )
}

/// A message of `len` bytes that is `tag` at both ends and, wherever a header could stand
/// on the next lap, a valid header of a one-line frame for there.
pub fn message(sender: &mut Sender, tag: u64, len: usize) -> Vec<u8> {
    let mut words = vec![0_u64; len / 8];
    let head = sender.ring().head_lines();
    let to_end = LINES - head % LINES;
    let skip = if lines_for(payload_offset(len), len) > to_end {
        to_end
    } else {
        0
    };
    for line in 1..lines_for(payload_offset(len), len) {
        let word = (line as usize * LINE_BYTES - payload_offset(len)) / 8;
        words[word] = pack(Kind::Whole, HEADER_BYTES, 8, head + skip + line + LINES);
    }
    words[0] = tag;
    if let Some(last) = words.last_mut() {
        *last = tag;
    }
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Takes the next message; `early` gives it back before it is read, which is a flaw.
pub fn receive(receiver: &mut Receiver, early: bool) -> Result<Option<Vec<u8>>, Violation> {
    let next = receiver.next_message()?;
    let bytes = match &next {
        Next::Nothing => return Ok(None),
        Next::Assembled => receiver.assembled().to_vec(),
        Next::InPlace(located) => {
            if early {
                receiver.done(&next);
            }
            let mut bytes = vec![0; located.len_bytes];
            receiver.copy_out(located, &mut bytes);
            if early {
                return Ok(Some(bytes));
            }
            bytes
        }
    };
    receiver.done(&next);
    Ok(Some(bytes))
}

/// Sends and receives until the sender stands at line `head`, leaving crafted headers
/// behind on every line. One thread: it adds no interleavings.
pub fn advance(sender: &mut Sender, receiver: &mut Receiver, head: u64) {
    while sender.ring().head_lines() < head {
        let left = head - sender.ring().head_lines();
        let len = if left >= 4 { 3 * LINE_BYTES } else { 8 };
        let message = message(sender, 77, len);
        assert_eq!(sender.send_frame(&message), Ok(true));
        assert_eq!(receive(receiver, false), Ok(Some(message)));
    }
}

/// What a model of an exchange does.
#[derive(Clone, Copy)]
struct Script {
    sender: Flaw,
    receiver: Flaw,
    /// The receiver gives frames back before it reads them.
    early: bool,
    /// Where the sender stands when the two threads start.
    start: u64,
    /// Sizes of messages that are in the ring at that time already.
    before: &'static [usize],
    /// Sizes of the messages that the sender tries to send, each in one attempt.
    sizes: &'static [usize],
    /// How often the receiver looks while the sender works.
    looks: usize,
}

impl Script {
    /// Line 29 of 32: one line, then a frame that does not fit in the two left, hence a
    /// skip, and one line more.
    const WRAP: Script = Script {
        sender: Flaw::None,
        receiver: Flaw::None,
        early: false,
        start: 29,
        before: &[],
        sizes: &[8, 184, 8],
        looks: 4,
    };
    /// A ring with no line free. The receiver gives back four lines; the sender fills one,
    /// then two of them.
    const FULL: Script = Script {
        start: 16,
        before: &[192, 192, 192, 120, 8],
        sizes: &[8, 72, 8],
        looks: 3,
        ..Script::WRAP
    };
    /// Frames of one line, of two and of one across lines with crafted headers.
    const PLAIN: Script = Script {
        start: 18,
        sizes: &[8, 72, 8],
        ..Script::WRAP
    };

    fn with(self, sender: Flaw, receiver: Flaw) -> Script {
        Script {
            sender,
            receiver,
            ..self
        }
    }

    /// Runs it once. Received is what was sent, in order, and nothing is left over.
    fn run(self) {
        let (mut sender, mut receiver) = pair(self.sender, self.receiver);
        advance(&mut sender, &mut receiver, self.start);
        let mut sent = Vec::new();
        for (tag, len) in (100..).zip(self.before) {
            let message = message(&mut sender, tag, *len);
            assert_eq!(sender.send_frame(&message), Ok(true));
            sent.push(message);
        }
        let thread = thread::spawn(move || {
            let mut sent = Vec::new();
            for (tag, len) in (1..).zip(self.sizes) {
                let message = message(&mut sender, tag, *len);
                if !sender.send_frame(&message).expect("honest credit") {
                    break;
                }
                sent.push(message);
            }
            sent
        });
        let mut received = Vec::new();
        for _ in 0..self.looks {
            received.extend(receive(&mut receiver, self.early).expect("honest frames"));
        }
        sent.extend(thread.join().expect("the sender's thread"));
        while let Some(message) = receive(&mut receiver, self.early).expect("honest frames") {
            received.push(message);
        }
        assert_eq!(sent, received);
    }
}

#[test]
fn frames_arrive_whole_and_in_order() {
    check(|| Script::PLAIN.run());
}

#[test]
fn frames_arrive_across_the_wrap() {
    check(|| Script::WRAP.run());
}

#[test]
fn a_full_ring_is_reused_only_after_it_was_read() {
    check(|| Script::FULL.run());
}

#[test]
fn a_relaxed_publication_is_caught() {
    check_caught("header published relaxed", || {
        Script::PLAIN.with(Flaw::PublishRelaxed, Flaw::None).run();
    });
}

#[test]
fn a_relaxed_observation_is_caught() {
    check_caught("header observed relaxed", || {
        Script::PLAIN.with(Flaw::None, Flaw::ObserveRelaxed).run();
    });
}

#[test]
fn an_omitted_clear_is_caught() {
    check_caught("next header not cleared", || {
        Script::PLAIN.with(Flaw::ClearOmitted, Flaw::None).run();
    });
}

#[test]
fn a_late_clear_is_caught() {
    check_caught("next header cleared after publishing", || {
        Script::PLAIN.with(Flaw::ClearLate, Flaw::None).run();
    });
}

#[test]
fn credit_before_reading_is_caught() {
    check_caught("credit published before the frame is read", || {
        Script {
            early: true,
            ..Script::FULL
        }
        .run();
    });
}

#[test]
fn relaxed_credit_is_caught() {
    check_caught("credit published relaxed", || {
        let there = Window::new(RING_BYTES_MIN);
        let back = Window::new(RING_BYTES_MIN);
        let flawed = back.with(Flaw::PublishRelaxed);
        credit_guards_the_payload(&there, &flawed, &back);
    });
    check_caught("credit observed relaxed", || {
        let there = Window::new(RING_BYTES_MIN);
        let back = Window::new(RING_BYTES_MIN);
        let flawed = back.with(Flaw::ObserveRelaxed);
        credit_guards_the_payload(&there, &back, &flawed);
    });
}

#[test]
fn credit_guards_what_is_being_read() {
    check(|| {
        let there = Window::new(RING_BYTES_MIN);
        let back = Window::new(RING_BYTES_MIN);
        credit_guards_the_payload(&there, &back, &back);
    });
}

/// The writer's stores into a line that was given back must not overtake the reader's
/// loads. Loom does not let a load see a store made later, so the order is inverted: the
/// reader *stores* a word of its own before it gives credit, where a real one would have
/// loaded, and the writer must see it.
fn credit_guards_the_payload(there: &Window, reader_out: &Window, writer_in: &Window) {
    use barewire_fabric::memory::{Incoming, Outgoing};
    const UNUSED: usize = 32;

    let mut sender = RingSender::new(there.clone(), writer_in.clone(), RING_BYTES_MIN);
    let mut receiver = RingReceiver::new(there.clone(), reader_out.clone(), RING_BYTES_MIN);
    for _ in 0..3 {
        let slot = sender.reserve(192).unwrap().unwrap();
        sender.publish(slot, Kind::Whole, 192);
    }
    let (out, inn) = (reader_out.clone(), writer_in.clone());
    let thread = thread::spawn(move || {
        let frame = receiver.peek().unwrap().unwrap();
        out.write_u64(UNUSED, 1);
        assert!(receiver.release(&frame));
    });
    if let Some(slot) = sender.reserve(192).unwrap() {
        assert_eq!(inn.read_u64(UNUSED), 1, "lines reused while they are read");
        sender.publish(slot, Kind::Whole, 192);
    }
    thread.join().unwrap();
}

/// Two small messages in a packed frame, and one of two frames, put together by the
/// receiver.
fn packed_and_fragments(sender_flaw: Flaw, receiver_flaw: Flaw) {
    let (mut sender, mut receiver) = pair(sender_flaw, receiver_flaw);
    advance(&mut sender, &mut receiver, 30);
    let small = [message(&mut sender, 1, 8), message(&mut sender, 2, 8)];
    let long = message(&mut sender, 3, 256);
    let mut sent = small.to_vec();
    sent.push(long.clone());
    let thread = thread::spawn(move || {
        assert_eq!(sender.send_batch(&small), Ok(2));
        let mut progress = SendProgress::default();
        assert_eq!(sender.send_part(&long, &mut progress), Ok(true));
    });
    let mut received = Vec::new();
    for _ in 0..3 {
        received.extend(receive(&mut receiver, false).expect("honest frames"));
    }
    thread.join().expect("the sender's thread");
    while let Some(message) = receive(&mut receiver, false).expect("honest frames") {
        received.push(message);
    }
    // Of the long message only words at the ends of a transfer are real.
    assert_eq!(received.len(), 3);
    assert_eq!(received[..2], sent[..2]);
    assert_eq!(received[2].len(), 256);
    assert_eq!(received[2][..8], sent[2][..8]);
    assert_eq!(received[2][248..], sent[2][248..]);
}

#[test]
fn packed_frames_and_fragments_arrive() {
    check(|| packed_and_fragments(Flaw::None, Flaw::None));
}

#[test]
fn packed_frames_notice_relaxed_publication() {
    check_caught("packed frame published relaxed", || {
        packed_and_fragments(Flaw::PublishRelaxed, Flaw::None);
    });
}

/// A writer that dies after `stores` stores: the reader finds the first messages, whole,
/// then nothing, and no violation.
fn dying_writer(stores: u64, flaw: Flaw) {
    let there = Window::new(RING_BYTES_MIN);
    let back = Window::new(RING_BYTES_MIN);
    let (out, life): (Window, Life) = there.with(flaw).mortal();
    let (s, r) = ends(&out, &there, &back);
    let mut sender = MessageSender::new(s);
    let mut receiver = MessageReceiver::new(r, 4096);
    advance(&mut sender, &mut receiver, 29);
    life.begin(stores);
    let thread = thread::spawn(move || {
        let mut messages = Vec::new();
        for (tag, len) in [(1, 8), (2, 184), (3, 8)] {
            let message = message(&mut sender, tag, len);
            assert_eq!(sender.send_frame(&message), Ok(true));
            messages.push(message);
        }
        messages
    });
    let mut received = Vec::new();
    for _ in 0..3 {
        received.extend(receive(&mut receiver, false).expect("honest frames"));
    }
    let sent = thread.join().expect("the sender's thread");
    while let Some(message) = receive(&mut receiver, false).expect("honest frames") {
        received.push(message);
    }
    assert_eq!(received, sent[..received.len().min(sent.len())]);
    if life.left() > 0 {
        assert_eq!(received.len(), sent.len());
    }
    assert_eq!(receive(&mut receiver, false), Ok(None));
    assert!(!receiver.cut_off());
}

/// More stores than the writer of [`dying_writer`] makes.
const STORES_MAX: u64 = 24;

#[test]
fn a_writer_may_die_at_any_store() {
    for stores in 0..=STORES_MAX {
        check(move || dying_writer(stores, Flaw::None));
    }
}

#[test]
fn a_dying_writer_notices_late_and_omitted_clears() {
    for flaw in [Flaw::ClearLate, Flaw::ClearOmitted] {
        let caught = (0..=STORES_MAX).filter(|stores| {
            let stores = *stores;
            fails(move || dying_writer(stores, flaw))
        });
        assert_ne!(caught.count(), 0, "{flaw:?} goes unnoticed");
    }
}

/// A writer that dies inside a message of several frames leaves it cut off.
#[test]
fn a_writer_may_die_between_fragments() {
    for stores in 0..=16 {
        check(move || {
            let there = Window::new(RING_BYTES_MIN);
            let back = Window::new(RING_BYTES_MIN);
            let (out, life) = there.mortal();
            let (s, r) = ends(&out, &there, &back);
            let mut sender = MessageSender::new(s);
            let mut receiver = MessageReceiver::new(r, 4096);
            life.begin(stores);
            let thread = thread::spawn(move || {
                let message = message(&mut sender, 5, 256);
                let mut progress = SendProgress::default();
                assert_eq!(sender.send_part(&message, &mut progress), Ok(true));
            });
            let early = receive(&mut receiver, false).expect("honest frames");
            thread.join().expect("the sender's thread");
            let late = receive(&mut receiver, false).expect("honest frames");
            match early.or(late) {
                Some(whole) => assert_eq!(whole.len(), 256),
                None => assert!(life.left() == 0),
            }
            assert_eq!(receive(&mut receiver, false), Ok(None));
        });
    }
}

/// A reader that stops after `reads` messages: the writer stops in time, and what was not
/// read stays as it was.
fn stalled_reader(reads: usize) {
    let (mut sender, mut receiver) = pair(Flaw::None, Flaw::None);
    advance(&mut sender, &mut receiver, 12);
    let thread = thread::spawn(move || {
        let mut sent = Vec::new();
        for tag in 1..10 {
            let message = message(&mut sender, tag, 192);
            match sender.send_frame(&message).expect("honest credit") {
                true => sent.push(message),
                false => break,
            }
        }
        assert!(sent.len() < 9, "the ring has four times four lines");
        sent
    });
    let mut received = Vec::new();
    for _ in 0..reads {
        received.extend(receive(&mut receiver, false).expect("honest frames"));
    }
    let at_rest = received.len();
    let sent = thread.join().expect("the sender's thread");
    assert!(sent.len() <= at_rest + 3, "more than the ring holds");
    while let Some(message) = receive(&mut receiver, false).expect("honest frames") {
        received.push(message);
    }
    assert_eq!(received, sent);
}

#[test]
fn a_writer_never_overwrites_what_is_unread() {
    for reads in 0..3 {
        check(move || stalled_reader(reads));
    }
}
