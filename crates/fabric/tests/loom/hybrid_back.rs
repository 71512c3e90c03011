//! Taking back: the receiver asks for what it has not read of the ring, and the sender sends it
//! over the kernel connection, or a part of it, or is asked too late, or no more.
//!
//! No flaw here is the fence in `Sender::begin_to_take_back` or the order of HEAD and EPOCH in
//! `Sender::took_back`: without either all models hold, since whoever asks does not read.

use barewire_fabric::hybrid::{Answer, Next, Receiver, Sender, SharedMemory};
use loom::thread;

use crate::hybrid_ends::Op::{self, Byte, Down, Up};
use crate::hybrid_ends::{DIRECTION, Found, Receiving, Sending};
use crate::hybrid_memory::{Call, Flaw, HEAD, Item, Side, TAIL};
use crate::{check_caught, check_within};

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// It was not made, or is no more there.
    Not,
    /// The bytes are on the kernel connection.
    Taken,
    /// The sender is at it yet.
    Waiting,
}

impl Receiving {
    /// As whoever lets a socket go: no read is in progress, and none follows before the answer.
    fn asks(&mut self) -> bool {
        let next = self
            .side
            .during(Call::Next, |side| self.receiver.next(side));
        if let Ok(Next::Kernel(_)) = next {
            self.receiver.read_kernel(&self.side, 0);
        }
        self.side
            .during(Call::AskBack, |side| self.receiver.ask_to_take_back(side))
    }

    /// Looks for the answer so often, and then asks no more.
    fn hears(&mut self, looks: u32, may_be_refused: bool) -> Asked {
        for look in 0..looks {
            if look > 0 {
                thread::yield_now();
            }
            match self.receiver.answer(&self.side) {
                Answer::Taken => return Asked::Taken,
                Answer::Refused => {
                    assert!(may_be_refused, "waits for what was refused");
                    break;
                }
                Answer::None | Answer::Taking => {}
            }
        }
        self.withdraws()
    }

    fn withdraws(&mut self) -> Asked {
        match self.receiver.answer(&self.side) {
            Answer::Taken => Asked::Taken,
            Answer::None | Answer::Refused if self.withdraw() => Asked::Not,
            _ => Asked::Waiting,
        }
    }

    fn withdraw(&self) -> bool {
        self.side
            .during(Call::Withdraw, |side| self.receiver.withdraw(side))
    }

    /// Whether nothing is in the ring, nor will be, and no wake-up byte on the kernel connection: as in `let_go`.
    fn ring_is_over(&mut self) -> bool {
        // Up to two wake-up bytes.
        for _ in 0..3 {
            if !self.receiver.end_ring(&self.side) {
                return false;
            }
            let next = self
                .side
                .during(Call::Next, |side| self.receiver.next(side));
            match next {
                Ok(Next::Kernel(_)) => {
                    self.receiver.read_kernel(&self.side, 0);
                    let has_bytes = |side: &Side| self.receiver.ring_has_bytes(side);
                    return !self.side.during(Call::RingHasBytes, has_bytes);
                }
                Ok(Next::Empty) => return true,
                Ok(Next::WakeBytes(_)) if self.side.receive().is_ok() => {
                    self.receiver.took_wake_bytes(1)
                }
                _ => return false,
            }
        }
        false
    }
}

/// A run of both sides.
#[derive(Clone, Copy)]
struct Back {
    /// Before the receiver begins; it then reads so often, and sleeps past an edge, if it does.
    before: &'static [Op],
    reads: u32,
    sleeps: bool,
    /// Then, and what the kernel connection takes of what is to be taken back.
    script: &'static [Op],
    room: u64,
    /// How often the receiver looks for the answer.
    looks: u32,
    preemptions: Option<usize>,
}

impl Back {
    const fn new(before: &'static [Op], reads: u32, script: &'static [Op]) -> Back {
        Back {
            before,
            reads,
            sleeps: false,
            script,
            room: u64::MAX,
            looks: 1,
            preemptions: Some(4),
        }
    }

    fn begin(self, side: &Side) -> (Sending, Receiving) {
        let mut sending = Sending::new(side);
        let mut receiving = Receiving::new(side);
        sending.room = self.room;
        sending.run(self.before);
        for _ in 0..self.reads {
            assert_eq!(receiving.look(), Found::Something);
        }
        if self.sleeps {
            let head = side.load(HEAD);
            assert!(receiving.falls_asleep_past(head));
        }
        (sending, receiving)
    }

    fn may_be_refused(self) -> bool {
        self.room != u64::MAX || self.script.contains(&Down)
    }

    /// The receiver reads on when it has its answer.
    fn reads_on(self, flaw: Flaw) {
        let side = Side::new(flaw);
        let (mut sending, mut receiving) = self.begin(&side);
        let thread = thread::spawn(move || {
            sending.run(self.script);
            sending
        });
        let mut asked = Asked::Not;
        if receiving.asks() {
            asked = receiving.hears(self.looks, self.may_be_refused());
        }
        if asked != Asked::Waiting {
            let _ = receiving.look();
            let _ = receiving.look();
        }
        let mut sending = thread.join().unwrap();
        if asked == Asked::Waiting {
            let settled = receiving.withdraws();
            assert!(settled != Asked::Waiting, "waits for an answer");
        }
        // Asked for the kernel connection, and no more to take back: it goes on there, and nowhere else.
        assert!(sending.run(&[Byte]), "waits for the line");
        let sent = sending.sender.position();
        receiving.drain();
        assert_eq!(receiving.receiver.position(), sent);
        assert_eq!(receiving.side.receive(), Err(false));
    }

    /// The receiver gives the kernel connection to someone who takes every byte for one of the stream.
    fn gives_away(self, flaw: Flaw) {
        let mut side = Side::new(flaw);
        side.has_barrier();
        let (mut sending, mut receiving) = self.begin(&side);
        let thread = thread::spawn(move || {
            sending.run(self.script);
            sending
        });
        let asked = receiving.asks();
        let mut over = receiving.ring_is_over();
        let mut waits = false;
        if asked {
            let answer = receiving.hears(self.looks, true);
            waits = answer == Asked::Waiting;
            over = !waits && (over || answer == Asked::Taken) && receiving.ring_is_over();
            let whole = over || answer != Asked::Taken || self.sleeps;
            assert!(whole, "waits for what is there");
        }
        let mut sending = thread.join().unwrap();
        if waits {
            let taken = receiving.withdraws() == Asked::Taken;
            over = taken && receiving.ring_is_over();
            assert_eq!(over || self.sleeps, taken || self.sleeps);
        }
        assert!(sending.run(&[Byte]), "waits for the line");
        let sent = sending.sender.position();
        if !over {
            receiving.drain();
            return assert_eq!(receiving.receiver.position(), sent);
        }
        assert_eq!(side.load(HEAD), side.load(TAIL), "the ring is over");
        let mut position = receiving.receiver.position();
        while let Ok(item) = receiving.side.receive() {
            assert_eq!(item, Item::Byte(position));
            position += 1;
        }
        assert_eq!(position, sent);
    }
}

fn holds(model: Back, body: fn(Back, Flaw)) {
    check_within(model.preemptions, move || body(model, Flaw::None));
}

fn catches(model: Back, body: fn(Back, Flaw), flaws: &[Flaw]) {
    for flaw in flaws.iter().copied() {
        check_caught(&format!("{flaw:?}"), move || body(model, flaw));
    }
}

/// Two bytes in the ring, one of them read; the sender sends on while it is asked.
const SENDS_ON: Back = Back::new(&[Up, Byte, Byte], 1, &[Byte, Byte]);

/// The same with a receiver that waits longer, and a sender that looks once more.
const WAITS: Back = Back {
    looks: 2,
    ..Back::new(&[Up, Byte, Byte], 1, &[Byte, Op::Answer])
};

#[test]
fn bytes_taken_back_come_once_and_in_order() {
    holds(SENDS_ON, Back::reads_on);
    holds(WAITS, Back::reads_on);
}

#[test]
fn taking_back_beside_a_reader_is_caught() {
    catches(
        SENDS_ON,
        Back::reads_on,
        &[Flaw::TakesUnasked, Flaw::WithdrawnUnseen],
    );
}

#[test]
fn wrong_answer_is_caught() {
    catches(
        WAITS,
        Back::reads_on,
        &[
            Flaw::AnswerEarly,
            Flaw::BoundWhole,
            Flaw::RequestLate,
            Flaw::StoresRelaxed,
        ],
    );
}

/// The kernel connection takes one byte of two.
const PART: Back = Back {
    room: 1,
    preemptions: Some(5),
    ..Back::new(&[Up, Byte, Byte], 0, &[Op::Answer, Byte])
};

#[test]
fn bytes_taken_back_in_part_come_once_and_in_order() {
    holds(PART, Back::reads_on);
}

#[test]
fn part_taken_for_data_is_caught() {
    catches(PART, Back::reads_on, &[Flaw::PartForgotten]);
}

/// The sender leaves the ring by itself, or answers after that.
const TOO_LATE: Back = Back {
    preemptions: None,
    ..Back::new(&[Up, Byte, Byte], 1, &[Down, Op::Answer, Byte])
};

#[test]
fn request_beside_a_change_of_lane_loses_nothing() {
    holds(TOO_LATE, Back::reads_on);
}

/// A byte of the kernel connection is unread.
const BEHIND: Back = Back::new(&[Byte, Up, Byte], 0, &[Byte, Byte]);

#[test]
fn bytes_taken_back_behind_an_unread_line_come_in_order() {
    holds(BEHIND, Back::reads_on);
}

#[test]
fn line_is_given_away_with_what_was_taken_back() {
    holds(SENDS_ON, Back::gives_away);
    holds(BEHIND, Back::gives_away);
    holds(PART, Back::gives_away);
}

#[test]
fn line_given_away_without_what_was_taken_back_is_caught() {
    catches(
        WAITS,
        Back::gives_away,
        &[Flaw::HeadAfterAnswer, Flaw::AnswerEarly],
    );
}

/// The receiver sleeps past an edge, behind the sender: a wake-up byte may lie behind the unread byte
/// of the kernel connection, and in front of what is taken back.
const BEHIND_A_TOKEN: Back = Back {
    sleeps: true,
    ..BEHIND
};

#[test]
fn line_with_a_token_behind_unread_bytes_is_not_given_away() {
    holds(BEHIND_A_TOKEN, Back::gives_away);
    holds(BEHIND_A_TOKEN, Back::reads_on);
}

#[test]
fn line_given_away_with_a_token_is_caught() {
    catches(
        BEHIND_A_TOKEN,
        Back::gives_away,
        &[Flaw::TokensOverlooked, Flaw::TokensAtForgotten],
    );
}

/// The other side's thread sleeps until it can read; it is asked to take bytes back.
fn asks_a_sleeper(flaw: Flaw) {
    let side = Side::with_directions(2, flaw);
    let mut sending = Sending::new(&side);
    let mut receiving = Receiving::new(&side);
    sending.run(&[Up, Byte]);
    // The way back, which is in the ring, too.
    let mut asker = Sender::new(DIRECTION.reversed(), 0);
    let mut sleeper = Receiver::new(DIRECTION.reversed(), 0);
    let up = side.during(Call::TryRing, |side| asker.try_ring(side));
    assert_eq!(up, Ok(true));
    let next = side.during(Call::Next, |side| sleeper.next(side));
    assert_eq!(next, Ok(Next::Empty));
    let other = side.clone();
    let thread = thread::spawn(move || {
        let asleep = other.during(Call::Arm, |side| sleeper.arm(side));
        sending.run(&[Op::Answer]);
        asleep
    });
    assert!(receiving.asks());
    let roused = side.during(Call::Rouse, |side| asker.wake(side));
    let asleep = thread.join().unwrap();
    let answered = receiving.receiver.answer(&side) == Answer::Taken;
    assert!(answered || roused || !asleep, "asleep while asked");
}

#[test]
fn sleeper_is_asked() {
    check_within(None, || asks_a_sleeper(Flaw::None));
}

#[test]
fn sleeper_that_is_not_asked_is_caught() {
    for flaw in [Flaw::AskFences, Flaw::ArmFence] {
        check_caught(&format!("{flaw:?}"), move || asks_a_sleeper(flaw));
    }
}
