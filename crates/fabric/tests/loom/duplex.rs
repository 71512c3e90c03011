//! The duplex line beside the ring: what one side sends arrives whole and in its order, whichever way each message
//! takes, and whoever stops at any store.

use barewire_fabric::frame::{Kind, RING_BYTES_MIN};
use barewire_fabric::ring::Taken;
use barewire_fabric::{
    DuplexReceiver, DuplexSender, MessageReceiver, MessageSender, RingReceiver, RingSender, Turns,
};
use loom::thread;

use crate::ring::{Receiver, Sender, receive};
use crate::window::{Barrier, Flaw, Window};
use crate::{check, check_caught, check_within};

/// A message that lies in the run, if it goes through the line.
const LONG: usize = 64;
/// A message that lies in the line, if it goes through that.
const SHORT: usize = 16;
/// Nothing but its place in the order can be wrong with it.
const EMPTY: usize = 0;

/// Both directions at one end of a connection.
struct Side {
    sender: Sender,
    receiver: Receiver,
    received: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

/// What is wrong with which memory.
#[derive(Clone, Copy, Default)]
struct Flaws {
    /// The window through which the opening side sends in the line.
    line_out: Flaw,
    /// The window through which the accepting side receives from the line.
    line_in: Flaw,
    /// The window through which the opening side fills the ring.
    ring_out: Flaw,
    /// The window through which the accepting side reads the ring.
    ring_in: Flaw,
}

impl Side {
    fn new(
        opened: bool,
        [out, inn, back]: [&Window; 3],
        line_out: &Window,
        line_in: &Window,
    ) -> Side {
        let turns = Turns::new(opened);
        let send_line = DuplexSender::new(line_out.clone(), RING_BYTES_MIN, turns.clone());
        let receive_line = DuplexReceiver::new(line_in.clone(), RING_BYTES_MIN, turns);
        let sender = RingSender::new(out.clone(), inn.clone(), RING_BYTES_MIN);
        let receiver = RingReceiver::new(inn.clone(), back.clone(), RING_BYTES_MIN);
        Side {
            sender: MessageSender::new(sender.with_line(send_line)),
            receiver: MessageReceiver::new(receiver.with_line(receive_line), 4096),
            received: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn send(&mut self, tag: u64, len: usize) {
        let message = message(tag, len);
        assert_eq!(self.sender.send_frame(&message), Ok(true));
        self.sent.push(message);
    }

    /// As a sender does that builds the message in place: through the ring, whoever has the turn.
    fn send_through_ring(&mut self, tag: u64, len: usize) {
        let message = message(tag, len);
        let ring = self.sender.ring();
        let slot = ring.reserve(len).expect("honest frames").expect("room");
        ring.fill(&slot, 0, &message);
        ring.publish(slot, Kind::Whole, len);
        self.sent.push(message);
    }

    /// As a receiver does: by the short way, and if that finds nothing, by the long one.
    fn take(&mut self) -> bool {
        let mut buffer = [0; LONG];
        let found = match self.receiver.take(&mut buffer) {
            Taken::Message(len) => Some(buffer[..len].to_vec()),
            _ => receive(&mut self.receiver, false).expect("honest frames"),
        };
        let any = found.is_some();
        self.received.extend(found);
        any
    }
}

/// A message with its tag in the words at its ends: a window transfers no others.
fn message(tag: u64, len: usize) -> Vec<u8> {
    let mut message = vec![0; len];
    for word in [0, len.saturating_sub(8)] {
        if let Some(word) = message.get_mut(word..word + 8) {
            word.copy_from_slice(&tag.to_ne_bytes());
        }
    }
    message
}

/// The side that opens a connection, and the other one. The line is in the former's region.
fn wired(flaws: Flaws) -> (Side, Side) {
    let (own, peer) = (Window::new(RING_BYTES_MIN), Window::new(RING_BYTES_MIN));
    let opener = Side::new(
        true,
        [&peer.with(flaws.ring_out), &own, &peer],
        &own.with(flaws.line_out),
        &own,
    );
    let acceptor = Side::new(
        false,
        [&own, &peer.with(flaws.ring_in), &own],
        &own,
        &own.with(flaws.line_in),
    );
    (opener, acceptor)
}

/// What each side does, in turn; at the end everything has arrived in order.
fn exchange(
    flaws: Flaws,
    opens: impl FnOnce(&mut Side) + Send + 'static,
    accepts: impl FnOnce(&mut Side),
) {
    let (mut opener, mut acceptor) = wired(flaws);
    let thread = thread::spawn(move || {
        opens(&mut opener);
        opener
    });
    accepts(&mut acceptor);
    let mut opener = thread.join().expect("the opening side");
    while acceptor.take() {}
    while opener.take() {}
    assert_eq!(opener.sent, acceptor.received);
    assert_eq!(acceptor.sent, opener.received);
}

/// A message in the line, then one in the ring: the receiver looks at one, then at the other.
fn line_then_ring(flaws: Flaws, [first, second]: [usize; 2]) {
    exchange(
        flaws,
        move |opener| {
            opener.send(1, first);
            opener.send(2, second);
        },
        |acceptor| {
            acceptor.take();
            acceptor.take();
        },
    );
}

/// The ring first: the message in the line comes after a frame that may not be seen yet.
fn ring_then_line(flaws: Flaws, second: usize) {
    exchange(
        flaws,
        move |opener| {
            opener.send_through_ring(1, LONG);
            opener.send(2, second);
        },
        |acceptor| {
            acceptor.take();
            acceptor.take();
        },
    );
}

#[test]
fn messages_of_both_ways_arrive_in_order() {
    for first in [SHORT, LONG] {
        check(move || line_then_ring(Flaws::default(), [first, LONG]));
        check(move || line_then_ring(Flaws::default(), [first, EMPTY]));
        check(move || ring_then_line(Flaws::default(), first));
    }
}

/// Requests and replies, some of them long, and replies that were not asked for.
#[test]
fn turns_change_hands() {
    for len in [SHORT, LONG] {
        check_within(Some(3), move || turns_change_hands_with(len));
    }
}

fn turns_change_hands_with(len: usize) {
    exchange(
        Flaws::default(),
        move |opener| {
            opener.send(1, len);
            // Not our turn: through the ring.
            opener.send(2, SHORT);
            if opener.take() {
                opener.send(3, len);
                opener.send(4, LONG);
            }
        },
        move |acceptor| {
            // Never our turn before the first request.
            acceptor.send(11, SHORT);
            if acceptor.take() {
                acceptor.send(12, len);
                acceptor.take();
                acceptor.send(13, SHORT);
            }
        },
    );
}

#[test]
fn relaxed_headers_of_the_line_are_caught() {
    for first in [SHORT, LONG] {
        check_caught("header of the line published relaxed", move || {
            let line_out = Flaw::PublishRelaxed;
            let flaws = Flaws {
                line_out,
                ..Flaws::default()
            };
            line_then_ring(flaws, [first, LONG]);
        });
        check_caught("header of the line observed relaxed", move || {
            let line_in = Flaw::ObserveRelaxed;
            let flaws = Flaws {
                line_in,
                ..Flaws::default()
            };
            ring_then_line(flaws, first);
        });
    }
}

/// What was sent through the line before a frame has to be visible to whoever sees the frame.
#[test]
fn relaxed_headers_of_the_ring_are_caught_by_the_order() {
    check_caught("frame published relaxed behind the line", || {
        let ring_out = Flaw::PublishRelaxed;
        let flaws = Flaws {
            ring_out,
            ..Flaws::default()
        };
        line_then_ring(flaws, [SHORT, EMPTY]);
    });
    check_caught("frame observed relaxed before the line", || {
        let ring_in = Flaw::ObserveRelaxed;
        let flaws = Flaws {
            ring_in,
            ..Flaws::default()
        };
        line_then_ring(flaws, [SHORT, EMPTY]);
    });
}

/// A receiver that arms and finds nothing is rung for a message in the line.
fn armed(barrier: Barrier) {
    let (mut opener, mut acceptor) = wired(Flaws::default());
    let thread = thread::spawn(move || {
        opener.send(1, SHORT);
        opener.sender.ring().must_ring(&barrier)
    });
    let waits = !acceptor.receiver.ring().arm(&barrier);
    let rang = thread.join().expect("the opening side");
    assert!(!waits || rang, "waits for a message that is there");
}

#[test]
fn an_armed_receiver_is_rung_for_the_line() {
    check(|| armed(Barrier::WHOLE));
}

#[test]
fn missing_fences_are_caught_with_the_line() {
    check_caught("light fence", || {
        armed(Barrier {
            light: false,
            ..Barrier::WHOLE
        });
    });
    check_caught("heavy fence", || {
        armed(Barrier {
            heavy: false,
            ..Barrier::WHOLE
        });
    });
}

/// A side that dies at any store of a message in the line: the other one has the message whole, or nothing.
#[test]
fn a_side_may_die_while_it_writes_the_line() {
    for (len, stores) in [SHORT, LONG]
        .into_iter()
        .flat_map(|len| (0..=8).map(move |it| (len, it)))
    {
        check(move || {
            let (own, peer) = (Window::new(RING_BYTES_MIN), Window::new(RING_BYTES_MIN));
            let (line, life) = own.mortal();
            let mut opener = Side::new(true, [&peer, &own, &peer], &line, &own);
            let mut acceptor = Side::new(false, [&own, &peer, &own], &own, &own);
            life.begin(stores);
            let thread = thread::spawn(move || {
                opener.send(1, len);
                opener
            });
            acceptor.take();
            let opener = thread.join().expect("the opening side");
            acceptor.take();
            let arrived = acceptor.received.len();
            assert_eq!(acceptor.received, opener.sent[..arrived]);
            assert!(arrived == 1 || life.left() == 0);
            assert!(!acceptor.take());
        });
    }
}
