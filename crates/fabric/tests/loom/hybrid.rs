//! The hybrid stream: one direction of a stream that changes between ring and line while the
//! receiver reads, sleeps or gives the kernel connection away. The sender's and the receiver's own code
//! runs; the flaws are in what they are given.
//!
//! What the models do not show: a kernel connection that is full, and reads of more than one byte. The
//! simulation in `tests/hybrid.rs` does. The light fence is none, except where the ring is
//! ended: then both halves are whole.

use barewire_fabric::hybrid::{Next, SharedMemory};
use loom::thread;

use crate::hybrid_ends::Op::{self, Byte, Down, Full, Mark, Up};
use crate::hybrid_ends::{Found, Receiving, Sending};
use crate::hybrid_memory::{Call, Flaw, HEAD, Item, Side, TAIL, WANTED};
use crate::{check_caught, check_within};

/// A run of both sides.
#[derive(Clone, Copy)]
struct Model {
    /// Before the receiver begins.
    before: &'static [Op],
    script: &'static [Op],
    looks: u32,
    sleeps: bool,
    reads_armed: bool,
    takes_early: bool,
    preemptions: Option<usize>,
}

impl Model {
    const fn new(script: &'static [Op], looks: u32) -> Model {
        Model {
            before: &[],
            script,
            looks,
            sleeps: false,
            reads_armed: false,
            takes_early: false,
            preemptions: None,
        }
    }

    fn body(self, flaw: Flaw) {
        let side = Side::new(flaw);
        let mut sending = Sending::new(&side);
        let mut receiving = Receiving::new(&side);
        receiving.reads_armed = self.reads_armed;
        receiving.takes_early = self.takes_early;
        sending.run(self.before);
        let thread = thread::spawn(move || {
            sending.run(self.script);
            // What a full line did not take it takes by now.
            sending.is_full = false;
            if sending.sender.owes_wake_byte() {
                sending.line_byte();
            }
            sending.sender.position()
        });
        let asleep = receiving.run(self.looks, self.sleeps);
        let sent = thread.join().unwrap();
        if asleep && receiving.side.peek().is_err() {
            let read = receiving.receiver.position();
            assert!(read == sent, "waits for byte {read} of {sent}");
        }
        receiving.drain();
        assert_eq!(receiving.receiver.position(), sent);
        assert_eq!(receiving.side.receive(), Err(false));
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

/// The receiver reads the kernel connection while the sender goes up and comes back.
const READS_ACROSS: Model = Model::new(&[Up, Byte, Down, Byte], 2);

#[test]
fn line_bytes_wait_for_reader_of_an_earlier_epoch() {
    READS_ACROSS.holds();
}

#[test]
fn line_used_too_early_is_caught() {
    READS_ACROSS.catches(&[Flaw::NoQuiesce, Flaw::QuiesceFences, Flaw::LineFence]);
}

/// A byte on each path, there and back and there again.
const BOTH_LANES: Model = Model {
    preemptions: Some(4),
    ..Model::new(&[Byte, Up, Byte, Down, Byte, Up, Byte], 4)
};

#[test]
fn bytes_of_both_lanes_come_once_and_in_order() {
    BOTH_LANES.holds();
}

#[test]
fn words_in_the_wrong_order_are_caught() {
    BOTH_LANES.catches(&[Flaw::EpochBeforeHead, Flaw::BoundLate, Flaw::StoresRelaxed]);
}

/// The same with a receiver that sleeps where it finds nothing.
const SLEEPS_ON_BOTH: Model = Model {
    before: &[Up, Byte],
    sleeps: true,
    preemptions: Some(3),
    ..Model::new(&[Down, Byte, Up, Byte, Down, Byte, Up, Byte], 5)
};

#[test]
fn sleeper_is_woken_across_two_switches() {
    SLEEPS_ON_BOTH.holds();
}

/// The receiver sleeps in the ring.
const SLEEPS_IN_RING: Model = Model {
    before: &[Up],
    sleeps: true,
    preemptions: Some(4),
    ..Model::new(&[Byte, Byte], 3)
};

#[test]
fn sleeper_in_the_ring_is_woken() {
    SLEEPS_IN_RING.holds();
}

#[test]
fn lost_token_is_caught() {
    SLEEPS_IN_RING.catches(&[
        Flaw::PublishFence,
        Flaw::ArmFence,
        Flaw::NoSecondLook,
        Flaw::DisarmedAsleep,
    ]);
}

/// The sender wakes the receiver and goes back to the kernel connection.
const TOKEN_THEN_DATA: Model = Model {
    before: &[Up],
    sleeps: true,
    preemptions: Some(4),
    ..Model::new(&[Byte, Down, Byte], 3)
};

#[test]
fn token_is_no_data() {
    TOKEN_THEN_DATA.holds();
}

/// A wait takes wake-up bytes while the ring has bytes.
#[test]
fn token_taken_before_the_bytes_of_the_ring_is_no_data() {
    Model {
        takes_early: true,
        preemptions: Some(3),
        ..TOKEN_THEN_DATA
    }
    .holds();
    Model {
        takes_early: true,
        preemptions: Some(2),
        ..MARKS_ACROSS
    }
    .holds();
}

#[test]
fn token_taken_for_data_is_caught() {
    TOKEN_THEN_DATA.catches(&[Flaw::TokensAtForgotten]);
}

/// The receiver goes to sleep on the kernel connection at the moment that the sender goes up.
const SLEEPS_ACROSS: Model = Model {
    sleeps: true,
    ..Model::new(&[Up, Byte], 2)
};

#[test]
fn sleeper_on_the_line_is_woken_across_a_switch() {
    SLEEPS_ACROSS.holds();
}

#[test]
fn going_up_past_a_sleeper_is_caught() {
    SLEEPS_ACROSS.catches(&[
        Flaw::TryRingFence,
        Flaw::ArmFence,
        Flaw::NoSecondLook,
        Flaw::UpAndArmed,
        Flaw::UpWithoutLook,
    ]);
}

/// One thread of the receiver's sleeps on the kernel connection while another reads it.
const READS_BESIDE_SLEEPER: Model = Model {
    sleeps: true,
    reads_armed: true,
    preemptions: Some(4),
    ..Model::new(&[Up, Byte, Down, Byte], 2)
};

#[test]
fn sleeper_beside_a_reader_is_woken() {
    READS_BESIDE_SLEEPER.holds();
}

#[test]
fn token_for_a_reader_of_the_line_is_caught() {
    READS_BESIDE_SLEEPER.catches(&[Flaw::UpWithoutLook, Flaw::UpWithoutLookTokenInAnyEpoch]);
}

/// The kernel connection does not take the wake-up byte; the sender goes back to it when it does again.
const TOKEN_FAILS: Model = Model {
    before: &[Up],
    sleeps: true,
    preemptions: Some(4),
    ..Model::new(&[Full(true), Byte, Full(false), Byte], 3)
};

#[test]
fn token_that_the_line_did_not_take_comes_later() {
    TOKEN_FAILS.holds();
}

#[test]
fn token_forgotten_or_taken_back_is_caught() {
    TOKEN_FAILS.catches(&[Flaw::OwedForgotten, Flaw::TokenTakenBack]);
}

/// The sender goes up and has a wake-up byte follow what it puts, whatever the receiver does.
const MARKS_ACROSS: Model = Model {
    preemptions: Some(3),
    ..Model::new(&[Byte, Up, Byte, Mark, Down, Byte], 3)
};

#[test]
fn token_that_marks_is_no_data() {
    MARKS_ACROSS.holds();
}

#[test]
fn token_that_marks_amid_a_read_of_the_line_is_caught() {
    MARKS_ACROSS.catches(&[Flaw::MarkBlind]);
}

/// The same with a receiver that sleeps, and with one that reads while it is armed.
#[test]
fn token_that_marks_wakes_nobody_for_nothing() {
    Model {
        sleeps: true,
        preemptions: Some(2),
        ..MARKS_ACROSS
    }
    .holds();
    Model {
        sleeps: true,
        reads_armed: true,
        preemptions: Some(2),
        ..Model::new(&[Up, Byte, Mark, Byte], 2)
    }
    .holds();
}

/// The kernel connection does not take the wake-up byte.
#[test]
fn token_that_marks_may_fail() {
    Model {
        before: &[Up],
        sleeps: true,
        preemptions: Some(4),
        ..Model::new(&[Byte, Full(true), Mark, Full(false), Byte], 3)
    }
    .holds();
}

/// The sender sends two bytes; the receiver, armed, ends the ring and gives the kernel connection to
/// someone who takes every byte there for one of the stream.
fn gives_away(flaw: Flaw) {
    let mut side = Side::new(flaw);
    side.has_barrier();
    let mut sending = Sending::new(&side);
    let mut receiving = Receiving::new(&side);
    sending.run(&[Up]);
    receiving.drain();
    assert!(receiving.falls_asleep());
    let thread = thread::spawn(move || {
        sending.run(&[Byte, Byte]);
        sending.sender.position()
    });
    let mut receiver = receiving.receiver;
    let over = receiver.end_ring(&side) || flaw == Flaw::EndRingUnanswered;
    receiving.receiver = receiver;
    let mut given = false;
    // Up to two bytes and the wake-up bytes for them.
    for _ in 0..4 {
        if !over || given {
            break;
        }
        let next = side.during(Call::Next, |side| receiving.receiver.next(side));
        match next {
            Ok(Next::Empty) => given = true,
            Ok(Next::Kernel(_)) => {
                receiving.receiver.read_kernel(&receiving.side, 0);
                given = true;
            }
            _ if receiving.look() == Found::Nothing => break,
            _ => {}
        }
    }
    let sent = thread.join().unwrap();
    if !given {
        return receiving.drain();
    }
    assert_eq!(side.load(HEAD), side.load(TAIL), "the ring is over");
    let mut position = receiving.receiver.position();
    while let Ok(item) = receiving.side.receive() {
        assert_eq!(item, Item::Byte(position));
        position += 1;
    }
    assert_eq!(position, sent);
    assert_eq!(side.load(WANTED), 1);
}

#[test]
fn line_is_given_away_whole() {
    check_within(None, || gives_away(Flaw::None));
}

#[test]
fn line_given_away_too_early_is_caught() {
    for flaw in [
        Flaw::LightFence,
        Flaw::HeavyFence,
        Flaw::InRingEarly,
        Flaw::EndRingUnanswered,
    ] {
        check_caught(&format!("{flaw:?}"), move || gives_away(flaw));
    }
}

/// The sender is killed after so many stores; the kernel then ends the kernel connection.
fn killed(script: &'static [Op], stores: u64, flaw: Flaw) {
    let side = Side::new(flaw);
    let mut sending = Sending::new(&side);
    let mut receiving = Receiving::new(&side);
    let thread = thread::spawn(move || {
        let mut done = 0;
        sending.side.dies_after(stores);
        for op in script {
            sending.run(&[*op]);
            if sending.side.is_dead() {
                break;
            }
            done = sending.sender.position();
        }
        sending.side.end_line();
        (done, sending.side.is_dead())
    });
    receiving.run(2, true);
    let (done, died) = thread.join().unwrap();
    assert!(!died || stores < LAST_STORES);
    let mut looks = 0;
    while receiving.look() != Found::End {
        looks += 1;
        assert!(looks < 20, "waits for an end");
    }
    let read = receiving.receiver.position();
    assert!(read >= done, "waits for byte {read} of {done}");
}

/// Both paths, and both changes.
const LAST_WORDS: &[Op] = &[Byte, Up, Byte, Down, Byte];
/// More stores than those make, with the most wake-up bytes.
const LAST_STORES: u64 = 18;

#[test]
fn sender_killed_at_any_store_leaves_a_prefix() {
    for stores in 0..=LAST_STORES {
        check_within(Some(4), move || killed(LAST_WORDS, stores, Flaw::None));
    }
}

#[test]
fn end_of_the_line_before_the_end_of_the_ring_is_caught() {
    check_caught("the end of the line", || {
        killed(&[Up, Byte], u64::MAX, Flaw::EndBelieved)
    });
}
