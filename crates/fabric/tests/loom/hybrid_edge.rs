//! Edge-triggered waits: the receiver knows of what is in the ring, has not read it, perhaps
//! not even what went over the kernel connection before it, and sleeps until there is more.

use barewire_fabric::hybrid::SharedMemory;
use loom::thread;

use crate::hybrid_ends::Op::{self, Byte, Down, Full, Up};
use crate::hybrid_ends::{Found, Receiving, Sending};
use crate::hybrid_memory::{EPOCH, Flaw, HEAD, Side, TAIL};
use crate::{check_caught, check_within};

/// A run of both sides.
#[derive(Clone, Copy)]
struct Edge {
    /// Before the receiver begins; it then reads so often.
    before: &'static [Op],
    reads: u32,
    script: &'static [Op],
    /// How often it waits.
    waits: u32,
    /// How often it reads after each wait that is over.
    looks: u32,
    /// It reads while it is armed, as a second thread does.
    reads_armed: bool,
    preemptions: Option<usize>,
}

impl Edge {
    const fn new(before: &'static [Op], reads: u32, script: &'static [Op]) -> Edge {
        Edge {
            before,
            reads,
            script,
            waits: 1,
            looks: 2,
            reads_armed: false,
            preemptions: Some(4),
        }
    }

    fn body(self, flaw: Flaw) {
        let side = Side::new(flaw);
        let mut sending = Sending::new(&side);
        let mut receiving = Receiving::new(&side);
        sending.run(self.before);
        for _ in 0..self.reads {
            assert_eq!(receiving.look(), Found::Something);
        }
        let thread = thread::spawn(move || {
            sending.run(self.script);
            // What a full line did not take it takes by now.
            sending.is_full = false;
            if sending.sender.owes_wake_byte() {
                sending.line_byte();
            }
            sending.sender.position()
        });
        let asleep = self.receive(&mut receiving);
        let sent = thread.join().unwrap();
        if let Some(told) = asleep {
            let head = side.load(HEAD);
            let wakes = side.items() != told.items || head == told.head;
            assert!(wakes, "waits for byte {head} of the ring");
        }
        receiving.drain();
        assert_eq!(receiving.receiver.position(), sent);
        assert_eq!(receiving.side.receive(), Err(false));
    }

    /// Waits, and reads a little after each wait. Returns what it knew of when it sleeps yet.
    fn receive(self, receiving: &mut Receiving) -> Option<Told> {
        for _ in 0..self.waits {
            let told = Told::now(&receiving.side);
            let epoch = receiving.side.load(EPOCH);
            let asleep = receiving.falls_asleep_past(told.head);
            let side = &receiving.side;
            if asleep && side.items() == told.items {
                return Some(told);
            }
            let is_new = ![told.head, side.load(TAIL)].contains(&side.load(HEAD));
            let is_news = asleep || is_new || side.load(EPOCH) != epoch;
            assert!(is_news, "waits for what it has had");
            if !self.reads_armed {
                receiving.receiver.disarm(&receiving.side);
            }
            for _ in 0..self.looks {
                receiving.look();
            }
        }
        None
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

/// What the receiver's program has been told of.
struct Told {
    items: u64,
    head: u64,
}

impl Told {
    /// The kernel connection first, as a wait does it: so a wake-up byte for what is in HEAD may yet come.
    fn now(side: &Side) -> Told {
        Told {
            items: side.items(),
            head: side.load(HEAD),
        }
    }
}

/// A byte on the kernel connection and one in the ring, both told of and neither read.
const BEHIND: Edge = Edge {
    preemptions: None,
    ..Edge::new(&[Byte, Up, Byte], 0, &[Byte])
};

#[test]
fn receiver_behind_the_sender_is_woken() {
    BEHIND.holds();
}

#[test]
fn edge_without_a_token_is_caught() {
    BEHIND.catches(&[
        Flaw::ArmOwnEpoch,
        Flaw::NoSecondHead,
        Flaw::ArmFence,
        Flaw::PublishFence,
    ]);
}

/// The same with a byte of the ring read, and one that is not.
const UNREAD: Edge = Edge {
    waits: 2,
    looks: 1,
    ..Edge::new(&[Up, Byte, Byte], 1, &[Byte, Byte])
};

#[test]
fn receiver_with_an_unread_ring_is_woken() {
    UNREAD.holds();
}

/// The sender goes up while the receiver arms.
const ACROSS: Edge = Edge {
    preemptions: Some(5),
    ..Edge::new(&[Byte], 0, &[Up, Byte])
};

#[test]
fn edge_across_a_switch_is_noticed() {
    ACROSS.holds();
}

#[test]
fn edge_lost_across_a_switch_is_caught() {
    ACROSS.catches(&[
        Flaw::NoSecondEpoch,
        Flaw::ArmFence,
        Flaw::TryRingFence,
        Flaw::UpWithoutLook,
    ]);
}

/// Back on the kernel connection while the receiver waits, reads on armed, and waits again: the wake-up bytes of an
/// epoch of the ring lie between bytes of the kernel connection.
const TOKEN_THEN_DATA: Edge = Edge {
    waits: 2,
    reads_armed: true,
    ..Edge::new(&[Byte, Up, Byte], 0, &[Byte, Down, Byte, Up, Byte])
};

#[test]
fn token_behind_an_unread_line_is_no_data() {
    TOKEN_THEN_DATA.holds();
}

#[test]
fn token_behind_an_unread_line_taken_for_data_is_caught() {
    TOKEN_THEN_DATA.catches(&[Flaw::TokensAtForgotten]);
}

/// The sender is two epochs ahead.
const FAR_BEHIND: Edge = Edge::new(&[Byte, Up, Down, Up, Byte], 0, &[Byte]);

#[test]
fn receiver_two_epochs_behind_is_woken() {
    FAR_BEHIND.holds();
}

#[test]
fn receiver_two_epochs_behind_left_asleep_is_caught() {
    FAR_BEHIND.catches(&[Flaw::ArmOwnEpoch, Flaw::NoSecondHead]);
}

/// The kernel connection does not take the wake-up byte; the sender goes back to it when it does again.
const TOKEN_FAILS: Edge = Edge::new(&[Byte, Up, Byte], 0, &[Full(true), Byte, Full(false), Byte]);

#[test]
fn token_for_an_edge_that_the_line_did_not_take_comes_later() {
    TOKEN_FAILS.holds();
}

#[test]
fn token_for_an_edge_forgotten_is_caught() {
    TOKEN_FAILS.catches(&[Flaw::OwedForgotten]);
}

/// The program was told of the first byte, and read the second with it: nothing is new.
const READ_ON: Edge = Edge::new(&[Up, Byte, Byte], 2, &[Byte]);

#[test]
fn receiver_that_read_more_than_it_was_told_of_sleeps() {
    check_within(READ_ON.preemptions, || {
        let side = Side::new(Flaw::None);
        let mut sending = Sending::new(&side);
        let mut receiving = Receiving::new(&side);
        sending.run(READ_ON.before);
        receiving.drain();
        assert!(receiving.falls_asleep_past(1), "waits for what it has had");
        let thread = thread::spawn(move || sending.run(READ_ON.script));
        assert!(thread.join().unwrap());
        assert_eq!(side.items(), 1);
    });
    READ_ON.holds();
}
