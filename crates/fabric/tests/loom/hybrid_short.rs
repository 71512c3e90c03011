//! Short bytes: answers that go through the head line, too, while the receiver takes them from there or from the
//! ring.

use barewire_fabric::hybrid::{Dates, Sender};
use loom::thread;

use crate::hybrid_ends::{DIRECTION, Found, Receiving};
use crate::hybrid_memory::{Call, Flaw, Side};
use crate::{check_caught, check_within};

/// Sends bytes in messages of so many, each an answer; the receiver looks so often meanwhile.
#[derive(Clone, Copy)]
struct Short {
    messages: &'static [u64],
    looks: u32,
    /// From this message on the sender finds that the receiver wants to know when bytes came.
    dated_from: usize,
    preemptions: Option<usize>,
}

/// When bytes came: no number of a byte.
const SINCE: u64 = 1000;

/// Both ends, in the ring, after a first answer: no byte of the others is 0, which no date is either.
fn begun(flaw: Flaw) -> (Side, Sender, Receiving) {
    let mut side = Side::new(flaw);
    let mut receiving = Receiving::new(&side);
    side.answers();
    let mut sender = Sender::new(DIRECTION, 0);
    let is_up = side.during(Call::TryRing, |side| sender.try_ring(side));
    assert_eq!(is_up, Ok(true));
    send(&mut sender, &side, 1, false);
    assert_eq!(receiving.look(), Found::Something);
    (side, sender, receiving)
}

/// Sends so many bytes; `dated`: the receiver wants to know when they came.
fn send(sender: &mut Sender, side: &Side, len: u64, dated: bool) {
    let from = sender.position();
    let bytes: Vec<u8> = (from..from + len).map(|at| at as u8).collect();
    assert!(sender.enter_ring(side));
    sender.put(side, &bytes);
    if dated {
        sender.date(side, || Dates {
            since: SINCE,
            kernel_used: SINCE,
        });
    }
    let call = Call::Publish(sender.epoch());
    assert!(!side.during(call, |side| sender.publish(side, 0, &bytes)));
}

impl Short {
    fn body(self, flaw: Flaw) {
        let (side, mut sender, mut receiving) = begun(flaw);
        let thread = thread::spawn(move || {
            for (number, len) in self.messages.iter().enumerate() {
                send(&mut sender, &side, *len, number >= self.dated_from);
            }
            sender.position()
        });
        for _ in 0..self.looks {
            receiving.look();
        }
        if self.dated_from < self.messages.len() {
            let since = DIRECTION.since(&receiving.side);
            assert_eq!(since % SINCE, 0, "no date");
        }
        let sent = thread.join().unwrap();
        while receiving.look() == Found::Something {}
        assert_eq!(receiving.receiver.position(), sent);
    }

    fn holds(self) {
        check_within(self.preemptions, move || self.body(Flaw::None));
    }

    fn catches(self, flaws: &[Flaw]) {
        for flaw in flaws.iter().copied() {
            check_caught(&format!("{flaw:?}"), move || self.body(flaw));
        }
    }
}

/// The receiver takes one by one, from where it finds them.
const ONE_BY_ONE: Short = Short {
    messages: &[1, 1],
    looks: 2,
    dated_from: usize::MAX,
    preemptions: Some(4),
};

#[test]
fn short_bytes_come_once_and_in_order() {
    ONE_BY_ONE.holds();
}

#[test]
fn short_bytes_of_a_later_message_are_caught() {
    ONE_BY_ONE.catches(&[
        Flaw::ShortBytesLeft,
        Flaw::NoLookBehindShort,
        Flaw::StoresRelaxed,
    ]);
}

/// A part of a message is taken from the head line, the rest from the ring.
#[test]
fn parts_of_a_message_come_once_and_in_order() {
    Short {
        messages: &[2, 1],
        ..ONE_BY_ONE
    }
    .holds();
}

/// The sender dates what it sends from the second message on.
const DATED_LATER: Short = Short {
    messages: &[1, 1],
    looks: 2,
    dated_from: 1,
    preemptions: Some(4),
};

#[test]
fn dates_are_no_short_bytes() {
    DATED_LATER.holds();
}

#[test]
fn dates_among_short_bytes_are_caught() {
    DATED_LATER.catches(&[Flaw::ShortBytesLeft, Flaw::NoLookBehindShort]);
}

/// The sender is killed after so many stores, in the middle of an answer or of its first date. Another one takes over
/// and goes on behind what was shown.
fn taken_over(stores: u64, flaw: Flaw) {
    let (side, mut sender, mut receiving) = begun(flaw);
    let thread = thread::spawn(move || {
        side.dies_after(stores);
        send_if_alive(&mut sender, &side, false);
        send_if_alive(&mut sender, &side, true);
        side.dies_after(u64::MAX);
        // No byte went over the kernel connection.
        assert!(sender.recover(&side, 0), "waits for a sender");
        send(&mut sender, &side, 1, true);
        sender.position()
    });
    receiving.look();
    let sent = thread.join().unwrap();
    while receiving.look() == Found::Something {}
    assert_eq!(receiving.receiver.position(), sent);
}

/// As [`send`], which the sender may not survive.
fn send_if_alive(sender: &mut Sender, side: &Side, dated: bool) {
    if !side.is_dead() {
        send(sender, side, 1, dated);
    }
}

#[test]
fn sender_killed_in_the_middle_of_an_answer_is_followed_by_another() {
    for stores in 0..=20 {
        check_within(Some(3), move || taken_over(stores, Flaw::None));
    }
}
