//! Both directions of a hybrid stream, whose four ends are stepped in any order, a call of the
//! protocol or of the kernel at a time. The lines are small and late, the rings 64 bytes, and
//! each end does now and then what programs do: peek, read little, sleep, be woken for
//! nothing, leave the ring, ask for the kernel connection, give it away.

use std::collections::VecDeque;

use barewire_fabric::hybrid::{
    AHEAD_MAX, Ahead, Dates, Direction, Next, Path, Receiver, Sender, SharedMemory, WANT_KERNEL,
};
use barewire_units::Rng;

use crate::memory::{Memory, byte_at};

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// The kernel connection is used without asking whether it may be.
    NoQuiesce,
    /// A wake-up byte is announced, and not sent.
    TokenLost,
    /// The wake-up byte that the kernel connection did not take is never sent.
    OwedForgotten,
    /// The wake-up byte that the kernel connection did not take is taken back.
    TokenTakenBack,
    /// The receiver reads the kernel connection beyond the end of the epoch.
    LimitIgnored,
    /// The receiver counts wake-up bytes, and leaves them on the kernel connection.
    TokensLeft,
}

const RING_BYTES: u32 = 64;
/// When bytes came: no short bytes.
const SINCE: u64 = 1 << 40;
const DATES: Dates = Dates {
    since: SINCE,
    kernel_used: SINCE,
};
/// Words of direction 0, and how far those of direction 1 lie behind them.
const WAKE_BYTES: usize = 2;
const ARMED: usize = 24;
const DIRECTION_WORDS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Token,
    Byte(u8),
}

/// The kernel's connection, one way.
struct Line {
    items: VecDeque<Item>,
    /// Of those, how many have arrived.
    arrived: usize,
    room: usize,
    /// How many it ever took, with those from before the hybrid stream.
    took: u64,
}

impl Line {
    fn send(&mut self, item: Item) -> bool {
        let fits = self.items.len() < self.room;
        if fits {
            self.items.push_back(item);
            self.took += 1;
        }
        fits
    }

    fn deliver(&mut self, rng: &mut Rng) {
        let late = self.items.len() - self.arrived;
        self.arrived += rng.index(late + 1);
    }

    fn receive(&mut self) -> Option<Item> {
        self.arrived = self.arrived.checked_sub(1)?;
        self.items.pop_front()
    }
}

/// What a sender is in the middle of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Idle,
    InRing,
    Put,
    TokenDue,
    OnLine,
}

/// What a receiver is in the middle of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    Awake,
    Ring(u64),
    Line(u64),
    Tokens(u64),
    Nothing,
    Asleep,
    /// It wants to give the kernel connection away.
    Ending,
    /// Somebody else reads the kernel connection, and knows nothing of the hybrid stream.
    Given,
}

/// One direction: both its ends and its line.
struct Way {
    number: u32,
    sender: Sender,
    /// As it was before it announced its last wake-up byte.
    before_token: Sender,
    receiver: Receiver,
    line: Line,
    sending: Sending,
    receiving: Receiving,
    /// Bytes that the program at the end has had.
    read: u64,
    /// What was put and not published.
    put: Vec<u8>,
    flaw: Flaw,
}

type Outcome = Result<(), String>;

impl Way {
    fn new(direction: Direction, rng: &mut Rng, flaw: Flaw) -> Way {
        let number = direction.sender_side() as u32;
        let begin = rng.below(1_000);
        Way {
            number,
            sender: Sender::new(direction, begin),
            before_token: Sender::new(direction, begin),
            receiver: Receiver::new(direction, begin),
            line: Line {
                items: VecDeque::new(),
                arrived: 0,
                room: 1 + rng.index(40),
                took: begin,
            },
            sending: Sending::Idle,
            receiving: Receiving::Awake,
            read: begin,
            put: Vec::new(),
            flaw,
        }
    }

    fn check(&mut self, item: Item) -> Outcome {
        let expected = Item::Byte(byte_at(self.number, self.read));
        if item != expected {
            return Err(format!("{item:?} at {}, not {expected:?}", self.read));
        }
        self.read += 1;
        Ok(())
    }

    fn next_bytes(&self, len: usize) -> Vec<u8> {
        let from = self.sender.position();
        (from..from + len as u64)
            .map(|position| byte_at(self.number, position))
            .collect()
    }

    // ------------------------------------------------------------------------------ sender

    fn step_sender(&mut self, memory: &Memory, rng: &mut Rng, may_begin: bool) -> Outcome {
        match self.sending {
            Sending::Idle if self.sender.owes_wake_byte() => self.pay_token(),
            Sending::Idle if !may_begin => {}
            Sending::Idle => return self.begin(memory, rng),
            Sending::InRing => {
                let room = self
                    .sender
                    .room(memory)
                    .map_err(|broken| broken.to_string())?;
                let len = 1 + rng.index(room as usize);
                let bytes = self.next_bytes(len);
                self.sender.put(memory, &bytes);
                // A piece that is shown at once, if there is room for another.
                if len < room as usize && rng.below(3) == 0 {
                    self.sender.show(memory);
                } else {
                    self.sending = Sending::Put;
                    self.put = bytes;
                }
            }
            Sending::Put => {
                self.before_token = self.sender;
                self.sender.date(memory, || DATES);
                let wake_byte = self.sender.publish(memory, 0, &self.put);
                self.put.clear();
                self.sending = if wake_byte {
                    Sending::TokenDue
                } else {
                    Sending::Idle
                };
            }
            Sending::TokenDue => {
                // The kernel may be short of memory for a moment.
                let sent = !rng.ratio(1, 10) && self.line.send(Item::Token);
                if self.flaw != Flaw::TokenLost && !sent {
                    self.fail_token(memory);
                    self.sender.leave_ring(memory);
                } else {
                    self.sender.wake_byte_sent();
                }
                self.sending = Sending::Idle;
            }
            Sending::OnLine => {
                let len = 1 + rng.index(30);
                let bytes = self.next_bytes(len);
                let sent = bytes
                    .into_iter()
                    .take_while(|&byte| self.line.send(Item::Byte(byte)))
                    .count();
                // Who sends may end before it counts.
                if rng.ratio(1, 4) {
                    assert!(self.sender.recover(memory, self.line.took));
                } else {
                    self.sender.sent_by_kernel(sent as u64);
                }
                self.sending = Sending::Idle;
            }
        }
        Ok(())
    }

    fn fail_token(&mut self, memory: &Memory) {
        if self.flaw != Flaw::TokenTakenBack {
            return self.sender.wake_byte_failed();
        }
        self.sender = self.before_token;
        let words = self.number as usize * DIRECTION_WORDS;
        memory.store(words + WAKE_BYTES, memory.load(words + WAKE_BYTES) - 1);
        memory.swap_if(words + ARMED, 0, self.sender.epoch() + 1);
    }

    fn pay_token(&mut self) {
        if self.flaw == Flaw::OwedForgotten || self.line.send(Item::Token) {
            self.sender.wake_byte_sent();
        }
    }

    fn begin(&mut self, memory: &Memory, rng: &mut Rng) -> Outcome {
        let broken = |broken| format!("{broken}");
        if self.sender.path() == Path::Kernel {
            if rng.ratio(3, 4) && self.sender.try_ring(memory).map_err(broken)? {
                return Ok(());
            }
            let may = self.sender.may_use_kernel(memory).map_err(broken)?;
            if may || self.flaw == Flaw::NoQuiesce {
                self.sending = Sending::OnLine;
            }
            return Ok(());
        }
        let full = self.sender.room(memory).map_err(broken)? == 0;
        if full || rng.ratio(1, 6) || !self.sender.enter_ring(memory) {
            self.sender.leave_ring(memory);
        } else {
            self.sending = Sending::InRing;
        }
        Ok(())
    }

    // ---------------------------------------------------------------------------- receiver

    fn step_receiver(&mut self, memory: &Memory, rng: &mut Rng) -> Outcome {
        let direction = self.receiver.direction();
        if rng.ratio(1, 300) {
            direction.want_order(memory);
        }
        let since = direction.since(memory);
        if since % SINCE != 0 {
            return Err(format!("{since} is no date"));
        }
        match self.receiving {
            Receiving::Awake => {
                if rng.ratio(7, 8) {
                    self.receiver.disarm(memory);
                }
                if rng.ratio(1, 4) {
                    self.look_ahead(memory)?;
                }
                return self.look(memory);
            }
            Receiving::Ring(bytes) => return self.read_ring(memory, rng, bytes),
            Receiving::Line(limit) => return self.read_kernel(memory, rng, limit),
            Receiving::Tokens(count) => return self.take_tokens(rng, count),
            Receiving::Nothing if rng.ratio(1, 2) => self.receiving = Receiving::Awake,
            Receiving::Nothing if self.receiver.arm(memory) => self.receiving = Receiving::Asleep,
            Receiving::Nothing => {
                // What kept it awake it can get on with: so no wait is a busy one.
                let before = self.receiver;
                self.look(memory)?;
                let gets_on =
                    before != self.receiver || matches!(self.receiving, Receiving::Ring(_));
                return gets_on
                    .then_some(())
                    .ok_or("kept awake for nothing".to_owned());
            }
            Receiving::Asleep => {
                if self.line.arrived > 0 || rng.ratio(1, 500) {
                    self.receiving = Receiving::Awake;
                }
            }
            Receiving::Ending => return self.end(memory),
            Receiving::Given => {
                if let Some(item) = self.line.receive() {
                    return self.check(item);
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, memory: &Memory) -> Outcome {
        let polled = self.receiver.simple_bytes(memory);
        let next = self.receiver.next(memory);
        let is_same = match polled {
            Some(0) => next == Ok(Next::Empty),
            Some(bytes) => next == Ok(Next::Ring(bytes)),
            None => true,
        };
        if !is_same {
            return Err(format!(
                "simple_bytes() saw {polled:?}, and then came {next:?}"
            ));
        }
        self.receiving = match next.map_err(|broken| broken.to_string())? {
            Next::Ring(bytes) => Receiving::Ring(bytes),
            Next::Kernel(limit) => Receiving::Line(limit),
            Next::WakeBytes(count) => Receiving::Tokens(count),
            Next::Empty => Receiving::Nothing,
        };
        Ok(())
    }

    /// Peeks at all that there is, in both paths, and counts it.
    fn look_ahead(&self, memory: &Memory) -> Outcome {
        let (in_ring, wake_bytes) = self.receiver.unread(memory);
        let on_line = (self.line.arrived as u64).saturating_sub(wake_bytes);
        if in_ring + on_line > self.sender.position() - self.read {
            return Err(format!("{in_ring} and {on_line} bytes are unread"));
        }
        let none = Ahead {
            path: Path::Kernel,
            bytes: 0,
            wake_bytes: 0,
        };
        let mut epochs = [none; AHEAD_MAX];
        let count = self.receiver.ahead(memory, &mut epochs);
        if count != self.receiver.epochs_ahead(memory) {
            return Err(format!("{count} epochs ahead"));
        }
        let mut line = self.line.items.iter().take(self.line.arrived);
        let (mut at, mut from_ring) = (self.read, 0);
        let mut expect = |item| {
            let expected = Item::Byte(byte_at(self.number, at));
            at += 1;
            let peeked = format!("{item:?} peeked at {}, not {expected:?}", at - 1);
            (item == expected).then_some(()).ok_or(peeked)
        };
        for epoch in &epochs[..count] {
            if epoch.path == Path::Ring {
                let mut into = vec![0; epoch.bytes as usize];
                self.receiver.copy(memory, from_ring, &mut into);
                from_ring += epoch.bytes;
                into.into_iter().map(Item::Byte).try_for_each(&mut expect)?;
            } else {
                let most = usize::try_from(epoch.bytes).unwrap_or(usize::MAX);
                let there: Vec<_> = line.by_ref().take(most).copied().collect();
                let is_all = there.len() == most;
                there.into_iter().try_for_each(&mut expect)?;
                if !is_all {
                    return Ok(());
                }
            }
            if line
                .by_ref()
                .take(epoch.wake_bytes as usize)
                .any(|item| *item != Item::Token)
            {
                return Err("a byte taken for a wake_byte ahead".to_owned());
            }
        }
        if line.next().is_some() {
            return Err("more on the line than is ahead".to_owned());
        }
        Ok(())
    }

    fn read_ring(&mut self, memory: &Memory, rng: &mut Rng, bytes: u64) -> Outcome {
        let mut into = vec![0; 1 + rng.index(bytes as usize)];
        self.receiver.copy(memory, 0, &mut into);
        self.receiving = Receiving::Awake;
        if rng.ratio(1, 8) {
            // A peek.
            return Ok(());
        }
        for byte in &into {
            self.check(Item::Byte(*byte))?;
        }
        self.receiver.took(memory, into.len() as u64);
        Ok(())
    }

    fn read_kernel(&mut self, memory: &Memory, rng: &mut Rng, limit: u64) -> Outcome {
        let most = match self.flaw {
            Flaw::LimitIgnored => 30,
            _ => limit.min(30),
        };
        let wanted = rng.below(most + 1);
        let mut bytes = 0;
        while bytes < wanted {
            let Some(item) = self.line.receive() else {
                break;
            };
            self.check(item)?;
            bytes += 1;
        }
        self.receiver.read_kernel(memory, bytes);
        self.receiving = match bytes {
            0 if wanted > 0 => Receiving::Nothing,
            _ => Receiving::Awake,
        };
        Ok(())
    }

    fn take_tokens(&mut self, rng: &mut Rng, count: u64) -> Outcome {
        let mut taken = 0;
        let wanted = 1 + rng.below(count);
        if self.flaw == Flaw::TokensLeft {
            taken = wanted;
        }
        while taken < wanted {
            match self.line.receive() {
                None => break,
                Some(Item::Token) => taken += 1,
                Some(byte) => return Err(format!("{byte:?} taken for a wake_byte")),
            }
        }
        self.receiver.took_wake_bytes(taken);
        self.receiving = match taken {
            0 => Receiving::Nothing,
            _ => Receiving::Awake,
        };
        Ok(())
    }

    /// Ends the ring, reads what is in it, and gives the kernel connection away.
    fn end(&mut self, memory: &Memory) -> Outcome {
        if !self.receiver.end_ring(memory) {
            return Ok(());
        }
        match self
            .receiver
            .next(memory)
            .map_err(|broken| broken.to_string())?
        {
            Next::Ring(bytes) => {
                let mut into = vec![0; bytes as usize];
                self.receiver.copy(memory, 0, &mut into);
                for byte in into {
                    self.check(Item::Byte(byte))?;
                }
                self.receiver.took(memory, bytes);
            }
            Next::WakeBytes(_) => match self.line.receive() {
                None => {}
                Some(Item::Token) => self.receiver.took_wake_bytes(1),
                Some(byte) => return Err(format!("{byte:?} taken for a wake_byte")),
            },
            Next::Kernel(u64::MAX) => {
                self.receiver.read_kernel(memory, 0);
                self.receiving = Receiving::Given;
            }
            Next::Kernel(_) => {
                let item = self.line.receive();
                item.map_or(Ok(()), |item| self.check(item))?;
                self.receiver.read_kernel(memory, u64::from(item.is_some()));
            }
            Next::Empty => self.receiving = Receiving::Given,
        }
        Ok(())
    }

    /// Whoever sleeps has nothing to wait for but what is yet to be sent.
    fn check_wait(&self) -> Outcome {
        let waits = self.receiving == Receiving::Asleep && self.line.items.is_empty();
        let idle = self.sending == Sending::Idle && !self.sender.owes_wake_byte();
        if waits && idle && self.read != self.sender.position() {
            let sent = self.sender.position();
            return Err(format!("waits for byte {} of {sent}", self.read));
        }
        Ok(())
    }
}

/// A connection of so many steps; what went wrong, or how often it changed paths.
pub fn run(seed: u64, steps: u32, flaw: Flaw) -> Result<u64, String> {
    let mut rng = Rng::from_seed(seed);
    let memory = Memory::new(RING_BYTES);
    let ways = [0, 1].map(|side| Direction::from_side(side, RING_BYTES));
    let mut ways = ways.map(|direction| Way::new(direction, &mut rng, flaw));
    for _ in 0..steps {
        let way = &mut ways[rng.index(2)];
        let what = rng.below(16);
        // Now and then the others have to wait for a while.
        let times = if rng.ratio(1, 8) { rng.below(20) } else { 1 };
        for _ in 0..times {
            match what {
                0..7 => way.step_sender(&memory, &mut rng, true)?,
                7..14 => way.step_receiver(&memory, &mut rng)?,
                _ => way.line.deliver(&mut rng),
            }
            way.check_wait()?;
        }
        if rng.ratio(1, 100) {
            // A side asks for the kernel connection for a while.
            let wanted = u64::from(rng.ratio(1, 3));
            memory.store(WANT_KERNEL + rng.index(2), wanted);
        }
    }
    let gives_away = [rng.ratio(1, 2), rng.ratio(1, 2)];
    for (way, gives) in ways.iter_mut().zip(gives_away) {
        finish(way, &memory, &mut rng, gives)?;
    }
    Ok(ways[0].sender.epoch() + ways[1].sender.epoch())
}

/// Nothing more is begun, or the kernel connection is given away while the sender goes on for a while; all
/// that was sent is read.
fn finish(way: &mut Way, memory: &Memory, rng: &mut Rng, gives_away: bool) -> Outcome {
    let mut asks = gives_away;
    for step in 0..2_000 {
        if asks && matches!(way.receiving, Receiving::Awake | Receiving::Nothing) {
            way.receiving = Receiving::Ending;
            asks = false;
        }
        way.step_sender(memory, rng, gives_away && step < 500)?;
        way.line.deliver(rng);
        way.step_receiver(memory, rng)?;
        way.check_wait()?;
        way.line.arrived = way.line.items.len();
    }
    if way.read != way.sender.position() || !way.line.items.is_empty() {
        let (read, sent) = (way.read, way.sender.position());
        return Err(format!(
            "{read} of {sent} bytes, {} items left",
            way.line.items.len()
        ));
    }
    Ok(())
}
