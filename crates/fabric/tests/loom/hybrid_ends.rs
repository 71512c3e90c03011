//! Both ends of one direction of a hybrid stream, as the models use them: the sender's and the
//! receiver's own code, and the bytes of the stream, which are its positions.

use barewire_fabric::hybrid::{Direction, Next, Path, Receiver, Sender, SharedMemory};

use crate::hybrid_memory::{Call, Flaw, Item, REACHED, Side, WAKE_BYTES};

/// What a sender is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Send the next byte, by whichever path is in use.
    Byte,
    /// Go up, if that can be now.
    Up,
    /// Go back to the kernel connection.
    Down,
    /// From now on the kernel connection takes no wake-up byte, or takes them again.
    Full(bool),
    /// Any call: it takes bytes back, if that is asked.
    Answer,
    /// Have a wake-up byte follow what is unread in the ring.
    Mark,
}

use Op::{Answer, Byte, Down, Full, Mark, Up};

/// The sender, and how far its stream got.
pub struct Sending {
    pub sender: Sender,
    pub side: Side,
    pub is_full: bool,
    /// Bytes taken back that the kernel connection takes.
    pub room: u64,
}

impl Sending {
    pub fn new(side: &Side) -> Sending {
        Sending {
            sender: Sender::new(DIRECTION, 0),
            side: side.clone(),
            is_full: false,
            room: u64::MAX,
        }
    }

    /// Does what it is told, until something would have to wait.
    pub fn run(&mut self, script: &[Op]) -> bool {
        script
            .iter()
            .all(|op| !self.side.is_dead() && self.step(*op))
    }

    fn step(&mut self, op: Op) -> bool {
        match op {
            Up if self.sender.path() == Path::Kernel => {
                let up = self
                    .side
                    .during(Call::TryRing, |side| self.sender.try_ring(side));
                assert_eq!(up.err(), None);
            }
            Down if self.sender.path() == Path::Ring => self.sender.leave_ring(&self.side),
            Byte => return self.byte(),
            Full(is_full) => self.is_full = is_full,
            Answer => drop(self.take_back()),
            Mark => self.mark(),
            Up | Down => {}
        }
        true
    }

    fn byte(&mut self) -> bool {
        if self.sender.path() == Path::Ring {
            let ours = self.sender.room(&self.side).expect("a sound receiver") > 0
                && self.sender.enter_ring(&self.side);
            if ours {
                self.ring_byte();
                return true;
            }
            if !self.take_back() {
                self.sender.leave_ring(&self.side);
            }
        }
        self.line_byte()
    }

    fn ring_byte(&mut self) {
        let bytes = [self.sender.position() as u8];
        self.sender.put(&self.side, &bytes);
        self.sender.show(&self.side);
        let before = self.sender;
        let call = Call::Publish(self.sender.epoch());
        if self
            .side
            .during(call, |side| self.sender.publish(side, 0, &bytes))
        {
            if self.is_full {
                self.fail_token(before);
                self.sender.leave_ring(&self.side);
            } else {
                self.side.send(Item::Token);
            }
        }
    }

    fn mark(&mut self) {
        let before = self.sender;
        if !self.side.during(Call::Mark, |side| self.sender.mark(side)) {
            return;
        }
        if self.is_full {
            self.fail_token(before);
            self.sender.leave_ring(&self.side);
        } else {
            self.side.send(Item::Token);
        }
    }

    fn fail_token(&mut self, before: Sender) {
        if self.side.flaw() != Flaw::TokenTakenBack {
            return self.sender.wake_byte_failed();
        }
        self.sender = before;
        self.side.store(WAKE_BYTES, self.side.load(WAKE_BYTES) - 1);
    }

    /// Takes back what the receiver asks for. Returns whether that was all.
    fn take_back(&mut self) -> bool {
        if !self.sender.is_take_back_asked(&self.side) {
            return false;
        }
        let begun = self.side.during(Call::BeginToTakeBack, |side| {
            self.sender.begin_to_take_back(side)
        });
        let Some(whole) = begun.expect("a sound receiver") else {
            return false;
        };
        let sent = whole.min(self.room);
        for at in 0..sent {
            let mut byte = [0];
            self.sender.copy_back(&self.side, at, &mut byte);
            self.side.send(Item::Byte(byte[0].into()));
        }
        let before = self.sender;
        let call = Call::TookBack(whole);
        let all = self
            .side
            .during(call, |side| self.sender.took_back(side, sent));
        if !all && self.side.flaw() == Flaw::PartForgotten {
            self.sender = before;
        }
        all
    }

    pub fn line_byte(&mut self) -> bool {
        if self.sender.owes_wake_byte() {
            if self.is_full {
                return false;
            }
            if self.side.flaw() != Flaw::OwedForgotten {
                self.side.send(Item::Token);
            }
            self.sender.wake_byte_sent();
        }
        let may = self
            .side
            .during(Call::MayUseLine, |side| self.sender.may_use_kernel(side));
        if self.side.flaw() != Flaw::NoQuiesce && may != Ok(true) {
            assert_eq!(may.err(), None);
            return false;
        }
        self.side.send(Item::Byte(self.sender.position()));
        self.sender.sent_by_kernel(1);
        true
    }
}

/// The direction of the models.
pub const DIRECTION: Direction = Direction::from_side(0, 64);

/// What came of a look for the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Something,
    Nothing,
    End,
}

/// The receiver, which knows what the next byte is.
pub struct Receiving {
    pub receiver: Receiver,
    pub side: Side,
    /// Reads the kernel connection while it is armed, as a second thread does.
    pub reads_armed: bool,
    /// Takes wake-up bytes off the kernel connection while the ring has bytes, as a wait does.
    pub takes_early: bool,
    /// It was told that the kernel connection has ended, and believes it.
    pub has_ended: bool,
}

impl Receiving {
    pub fn new(side: &Side) -> Receiving {
        Receiving {
            receiver: Receiver::new(DIRECTION, 0),
            side: side.clone(),
            reads_armed: false,
            takes_early: false,
            has_ended: false,
        }
    }

    /// Takes one byte or one wake-up byte, if there is one.
    pub fn look(&mut self) -> Found {
        if self.has_ended {
            return Found::End;
        }
        // A program's reads look first.
        let next = self
            .side
            .during(Call::Next, |side| match self.receiver.simple_bytes(side) {
                Some(0) => Ok(Next::Empty),
                Some(bytes) => Ok(Next::Ring(bytes)),
                None => self.receiver.next(side),
            });
        let item = match next {
            Ok(Next::Ring(_)) => {
                if self.takes_early && self.receiver.wake_bytes_ahead(&self.side) > 0 {
                    let item = self.side.receive();
                    assert_eq!(item.unwrap_or(Item::Token), Item::Token);
                    self.receiver.took_wake_bytes(u64::from(item.is_ok()));
                }
                let mut byte = [0];
                self.side
                    .during(Call::Copy, |side| self.receiver.copy(side, 0, &mut byte));
                assert_eq!(u64::from(byte[0]), self.receiver.position());
                self.receiver.took(&self.side, 1);
                return Found::Something;
            }
            Ok(Next::Kernel(_)) => {
                let item = self.side.receive();
                let bytes = u64::from(item.is_ok());
                let byte = Item::Byte(self.receiver.position());
                self.receiver.read_kernel(&self.side, bytes);
                assert_eq!(item.unwrap_or(byte), byte);
                item
            }
            Ok(Next::WakeBytes(_)) => {
                let item = self.side.receive();
                // A byte that was taken back in part only has come through the ring.
                let had = |item| matches!(item, Item::Byte(at) if at < self.receiver.position());
                let wake_byte = item.ok().filter(|item| !had(*item));
                assert_eq!(wake_byte.unwrap_or(Item::Token), Item::Token);
                self.receiver.took_wake_bytes(u64::from(item.is_ok()));
                item
            }
            Ok(Next::Empty) => match self.side.peek() {
                // A wake-up byte that next() did not know of yet.
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
                self.has_ended = believes || !self.receiver.is_ready(&self.side);
                if self.has_ended {
                    Found::End
                } else {
                    Found::Something
                }
            }
        }
    }

    /// Gets ready to sleep. `false`: something has come, do not.
    pub fn falls_asleep(&mut self) -> bool {
        let asleep = self.side.during(Call::Arm, |side| self.receiver.arm(side));
        if asleep && self.side.flaw() == Flaw::DisarmedAsleep {
            self.receiver.disarm(&self.side);
        }
        asleep
    }

    /// As [`Receiving::falls_asleep`], for whoever knows of what was in the ring up to `head`.
    pub fn falls_asleep_past(&mut self, head: u64) -> bool {
        let own_epoch = self.side.load(REACHED);
        let call = Call::ArmPast { own_epoch, head };
        self.side
            .during(call, |side| self.receiver.arm_past(side, head))
    }

    /// Looks so often; sleeps where nothing is, if it may, until the kernel connection is readable.
    /// Returns whether it sleeps.
    pub fn run(&mut self, looks: u32, may_sleep: bool) -> bool {
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
    pub fn drain(&mut self) {
        while self.look() == Found::Something {}
    }
}
