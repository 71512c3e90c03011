//! The carrier: one direction of a stream that changes between ring and line while the
//! receiver reads, sleeps or gives the line away. The sender's and the receiver's own code
//! runs; the flaws are in what they are given.
//!
//! What the models do not show: a line that is full, and reads of more than one byte. The
//! simulation in `tests/carrier.rs` does. The light fence is none, except where the ring is
//! ended: then both halves are whole.

use barewire_fabric::carrier::{Direction, Lane, Next, Receiver, Sender, SharedMemory};
use loom::thread;

use crate::carrier_memory::{Call, Flaw, HEAD, Item, Side, TAIL, TOKENS, WANTED};
use crate::{check_caught, check_within};

/// What a sender is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Send the next byte, by whichever lane is in use.
    Byte,
    /// Go up, if that can be now.
    Up,
    /// Go back to the line.
    Down,
    /// From now on the line takes no token, or takes them again.
    Full(bool),
}

use Op::{Byte, Down, Full, Up};

/// The sender, and how far its stream got.
struct Sending {
    sender: Sender,
    side: Side,
    is_full: bool,
}

impl Sending {
    fn new(side: &Side) -> Sending {
        Sending {
            sender: Sender::new(DIRECTION, 0),
            side: side.clone(),
            is_full: false,
        }
    }

    /// Does what it is told, until something would have to wait.
    fn run(&mut self, script: &[Op]) -> bool {
        script
            .iter()
            .all(|op| !self.side.is_dead() && self.step(*op))
    }

    fn step(&mut self, op: Op) -> bool {
        match op {
            Up if self.sender.lane() == Lane::Line => {
                let up = self
                    .side
                    .during(Call::TryRing, |side| self.sender.try_ring(side));
                assert_eq!(up.err(), None);
            }
            Down if self.sender.lane() == Lane::Ring => self.sender.leave_ring(&self.side),
            Byte => return self.byte(),
            Full(is_full) => self.is_full = is_full,
            Up | Down => {}
        }
        true
    }

    fn byte(&mut self) -> bool {
        if self.sender.lane() == Lane::Ring {
            let ours = self.sender.room(&self.side).expect("a sound receiver") > 0
                && self.sender.enter_ring(&self.side);
            if ours {
                self.ring_byte();
                return true;
            }
            self.sender.leave_ring(&self.side);
        }
        self.line_byte()
    }

    fn ring_byte(&mut self) {
        self.sender.put(&self.side, &[self.sender.position() as u8]);
        let before = self.sender;
        let call = Call::Publish(self.sender.epoch());
        if self.side.during(call, |side| self.sender.publish(side, 0)) {
            if self.is_full {
                self.fail_token(before);
                self.sender.leave_ring(&self.side);
            } else {
                self.side.send(Item::Token);
            }
        }
    }

    fn fail_token(&mut self, before: Sender) {
        if self.side.flaw() != Flaw::TokenTakenBack {
            return self.sender.token_failed();
        }
        self.sender = before;
        self.side.store(TOKENS, self.side.load(TOKENS) - 1);
    }

    fn line_byte(&mut self) -> bool {
        if self.sender.owes_token() {
            if self.is_full {
                return false;
            }
            if self.side.flaw() != Flaw::OwedForgotten {
                self.side.send(Item::Token);
            }
            self.sender.token_sent();
        }
        let may = self
            .side
            .during(Call::MayUseLine, |side| self.sender.may_use_line(side));
        if self.side.flaw() != Flaw::NoQuiesce && may != Ok(true) {
            assert_eq!(may.err(), None);
            return false;
        }
        self.side.send(Item::Byte(self.sender.position()));
        self.sender.sent_on_line(1);
        true
    }
}

const DIRECTION: Direction = Direction::from_side(0, 64);

/// What came of a look for the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Something,
    Nothing,
    End,
}

/// The receiver, which knows what the next byte is.
struct Receiving {
    receiver: Receiver,
    side: Side,
    /// Reads the line while it is armed, as a second thread does.
    reads_armed: bool,
    /// It was told that the line has ended, and believes it.
    has_ended: bool,
}

impl Receiving {
    fn new(side: &Side) -> Receiving {
        Receiving {
            receiver: Receiver::new(DIRECTION, 0),
            side: side.clone(),
            reads_armed: false,
            has_ended: false,
        }
    }

    /// Takes one byte or one token, if there is one.
    fn look(&mut self) -> Found {
        if self.has_ended {
            return Found::End;
        }
        let next = self
            .side
            .during(Call::Next, |side| self.receiver.next(side));
        let item = match next {
            Ok(Next::Ring(_)) => {
                let mut byte = [0];
                self.receiver.copy(&self.side, 0, &mut byte);
                assert_eq!(u64::from(byte[0]), self.receiver.position());
                self.receiver.took(&self.side, 1);
                return Found::Something;
            }
            Ok(Next::Line(_)) => {
                let item = self.side.receive();
                let bytes = u64::from(item.is_ok());
                let byte = Item::Byte(self.receiver.position());
                self.receiver.read_line(&self.side, bytes);
                assert_eq!(item.unwrap_or(byte), byte);
                item
            }
            Ok(Next::Tokens(_)) => {
                let item = self.side.receive();
                assert_eq!(item.unwrap_or(Item::Token), Item::Token);
                self.receiver.took_tokens(u64::from(item.is_ok()));
                item
            }
            Ok(Next::Empty) => match self.side.peek() {
                // A token that next() did not know of yet.
                Ok(_) => Err(false),
                ended => ended,
            },
            Err(broken) => panic!("assertion `left == right` failed: {broken}"),
        };
        match item {
            Ok(_) => Found::Something,
            Err(false) => Found::Nothing,
            Err(true) => {
                let believes = self.side.flaw() == Flaw::EndBelieved;
                self.has_ended = believes || !self.receiver.has_news(&self.side);
                if self.has_ended {
                    Found::End
                } else {
                    Found::Something
                }
            }
        }
    }

    /// Gets ready to sleep. `false`: something has come, do not.
    fn falls_asleep(&mut self) -> bool {
        let asleep = self.side.during(Call::Arm, |side| self.receiver.arm(side));
        if asleep && self.side.flaw() == Flaw::DisarmedAsleep {
            self.receiver.disarm(&self.side);
        }
        asleep
    }

    /// Looks so often; sleeps where nothing is, if it may, until the line is readable.
    /// Returns whether it sleeps.
    fn run(&mut self, looks: u32, may_sleep: bool) -> bool {
        for _ in 0..looks {
            if self.look() == Found::Nothing && may_sleep && self.falls_asleep() {
                if self.reads_armed && self.look() == Found::Something {
                    continue;
                }
                if self.side.peek().is_err() {
                    return true;
                }
            }
            if !self.reads_armed {
                self.receiver.disarm(&self.side);
            }
        }
        false
    }

    /// Takes all that is there yet. Only when the sender is done.
    fn drain(&mut self) {
        while self.look() == Found::Something {}
    }
}

/// A run of both sides.
#[derive(Clone, Copy)]
struct Model {
    /// Before the receiver begins.
    before: &'static [Op],
    script: &'static [Op],
    looks: u32,
    sleeps: bool,
    reads_armed: bool,
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
            preemptions: None,
        }
    }

    fn body(self, flaw: Flaw) {
        let side = Side::new(flaw);
        let mut sending = Sending::new(&side);
        let mut receiving = Receiving::new(&side);
        receiving.reads_armed = self.reads_armed;
        sending.run(self.before);
        let thread = thread::spawn(move || {
            sending.run(self.script);
            // What a full line did not take it takes by now.
            sending.is_full = false;
            if sending.sender.owes_token() {
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

/// The receiver reads the line while the sender goes up and comes back.
const READS_ACROSS: Model = Model::new(&[Up, Byte, Down, Byte], 2);

#[test]
fn line_bytes_wait_for_reader_of_an_earlier_epoch() {
    READS_ACROSS.holds();
}

#[test]
fn line_used_too_early_is_caught() {
    READS_ACROSS.catches(&[Flaw::NoQuiesce, Flaw::QuiesceFences, Flaw::LineFence]);
}

/// A byte on each lane, there and back and there again.
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

/// The sender wakes the receiver and goes back to the line.
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

#[test]
fn token_taken_for_data_is_caught() {
    TOKEN_THEN_DATA.catches(&[Flaw::TokensAtForgotten]);
}

/// The receiver goes to sleep on the line at the moment that the sender goes up.
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

/// One thread of the receiver's sleeps on the line while another reads it.
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

/// The line does not take the token; the sender goes back to it when it does again.
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

/// The sender sends two bytes; the receiver, armed, ends the ring and gives the line to
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
    // Up to two bytes and the tokens for them.
    for _ in 0..4 {
        if !over || given {
            break;
        }
        let next = side.during(Call::Next, |side| receiving.receiver.next(side));
        match next {
            Ok(Next::Empty) => given = true,
            Ok(Next::Line(_)) => {
                receiving.receiver.read_line(&receiving.side, 0);
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

/// The sender is killed after so many stores; the kernel then ends the line.
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

/// Both lanes, and both changes.
const LAST_WORDS: &[Op] = &[Byte, Up, Byte, Down, Byte];
/// More stores than those make, with the most tokens.
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
