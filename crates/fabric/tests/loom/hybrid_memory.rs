//! A hybrid stream's memory over loom atomics, the kernel's line between the same two threads, and
//! the flaws that both can be given.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use barewire_fabric::hybrid::{CONTROL_BYTES, SharedMemory, TAKE_BACK, UP, WANT_KERNEL};
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of direction 0, as the table in `hybrid.rs` has them.
pub const HEAD: usize = 128;
const SEEN: usize = 129;
/// The first word of short bytes, and the only one: no model shows more than 8 bytes at once. Once HEAD is dated, it is
/// SINCE.
const SHORT: usize = 130;
const KERNEL: usize = 131;
const SHORT_DATED: usize = 132;
pub const EPOCH: usize = 1;
pub const WAKE_BYTES: usize = 2;
const IN_RING: usize = 25;
const BOUND: usize = 8;
const WAKE_BYTES_AT: usize = 12;
pub const TAIL: usize = 16;
pub const REACHED: usize = 17;
const ARMED: usize = 24;
/// Always 1 in the models.
const ORDERED: usize = 26;
const READS_KERNEL: usize = 18;
/// The receiver is side 1.
pub const WANTED: usize = WANT_KERNEL + 1;
const ASKED: usize = TAKE_BACK + 1;
/// Words of one direction, of those below 64, and from one head line to the other.
const DIRECTION_WORDS: usize = 32;
const WORDS_APART: usize = 16;
/// TAIL of the direction back.
const BACK_TAIL: usize = DIRECTION_WORDS + TAIL;
/// Where the number of short bytes stands in HEAD.
const SHORT_SHIFT: u32 = 56;

/// What can be wrong. One that is named for a fence leaves that fence out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    #[default]
    None,
    /// `Sender::publish`.
    PublishFence,
    /// `Sender::try_ring`.
    TryRingFence,
    /// All of the sender's between EPOCH and READS_KERNEL: in `try_ring`, `publish` and
    /// `may_use_kernel`. Any one of them would do.
    QuiesceFences,
    /// `Receiver::next`, before it reads the kernel connection.
    LineFence,
    /// `Receiver::arm`.
    ArmFence,
    /// `Sender::enter_ring`.
    LightFence,
    /// `Receiver::end_ring`.
    HeavyFence,
    /// `Sender::mark` does not look at READS_KERNEL.
    MarkBlind,
    /// All stores are relaxed.
    StoresRelaxed,
    /// The receiver loads EPOCH before HEAD.
    EpochBeforeHead,
    /// EPOCH is stored before BOUND.
    BoundLate,
    /// WAKE_BYTES_AT is not stored.
    TokensAtForgotten,
    /// IN_RING is cleared before the receiver is looked at.
    InRingEarly,
    /// The kernel connection is used without a look at READS_KERNEL.
    NoQuiesce,
    /// The sender does not look at ARMED again once it is up.
    UpAndArmed,
    /// Neither look.
    UpWithoutLook,
    /// Neither look, and wake-up bytes go to whoever is armed in any epoch.
    UpWithoutLookTokenInAnyEpoch,
    /// The receiver sleeps without a second look.
    NoSecondLook,
    /// The receiver is not armed when it sleeps.
    DisarmedAsleep,
    /// The wake-up byte that was owed is never sent.
    OwedForgotten,
    /// The wake-up byte that the kernel connection did not take is taken back.
    TokenTakenBack,
    /// The end of the kernel connection is believed without a look at the ring.
    EndBelieved,
    /// The kernel connection is given away although the sender may be in the ring.
    EndRingUnanswered,
    /// `Receiver::arm_past` arms in the receiver's own epoch, whatever the sender's.
    ArmOwnEpoch,
    /// `Receiver::arm_past` does not look at EPOCH again.
    NoSecondEpoch,
    /// `Receiver::arm_past` does not look at HEAD again.
    NoSecondHead,
    /// `Receiver::ask_to_take_back` and `Sender::wake`.
    AskFences,
    /// `Sender::begin_to_take_back` stores TAKING whether it is asked or not.
    TakesUnasked,
    /// `Receiver::withdraw` stores 0 whether the sender has begun or not.
    WithdrawnUnseen,
    /// WANT_KERNEL is stored before TAKE_BACK.
    RequestLate,
    /// The answer is stored before HEAD and EPOCH.
    AnswerEarly,
    /// HEAD is stored after the answer in `Sender::took_back`.
    HeadAfterAnswer,
    /// BOUND is as if nothing had been taken back.
    BoundWhole,
    /// Bytes taken back in part do not count as wake-up bytes.
    PartForgotten,
    /// `Receiver::ring_has_bytes` does not look at WAKE_BYTES.
    TokensOverlooked,
    /// HEAD still tells of the short bytes before while the next ones are stored.
    ShortBytesLeft,
    /// The receiver does not look at HEAD again behind short bytes.
    NoLookBehindShort,
}

/// What is on the kernel connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The stream's byte of this position.
    Byte(u64),
    /// A wake-up byte.
    Token,
}

struct Shared {
    words: Vec<(usize, AtomicU64)>,
    /// The ring's first bytes; no model uses more.
    ring: [AtomicU64; 4],
    /// Items sent; [`ENDED`] is set behind them. Only ever changed by read-modify-write, which
    /// sees the latest, as a system call does.
    sent: AtomicU64,
    /// No loom object: `sent` orders it.
    items: Mutex<Vec<Item>>,
}

const ENDED: u64 = 1 << 32;

/// Which call of the protocol is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// One that has no flaw of its own.
    Other,
    /// `Sender::publish`, in this epoch.
    Publish(u64),
    /// `Sender::try_ring`.
    TryRing,
    /// `Sender::may_use_kernel`.
    MayUseLine,
    /// `Receiver::next`.
    Next,
    /// `Receiver::arm`.
    Arm,
    /// `Receiver::arm_past`, in this epoch of the receiver's.
    ArmPast { own_epoch: u64, head: u64 },
    /// `Receiver::ask_to_take_back`.
    AskBack,
    /// `Receiver::withdraw`.
    Withdraw,
    /// `Sender::begin_to_take_back`.
    BeginToTakeBack,
    /// `Sender::took_back`, of so many bytes.
    TookBack(u64),
    /// `Sender::wake`.
    Rouse,
    /// `Receiver::ring_has_bytes`.
    RingHasBytes,
    /// `Sender::mark`.
    Mark,
    /// `Receiver::copy`.
    Copy,
}

/// What one side sees of the memory and of the kernel connection.
#[derive(Clone)]
pub struct Side {
    shared: Arc<Shared>,
    flaw: Flaw,
    has_barrier: bool,
    call: Cell<Call>,
    /// EPOCH as loaded too early.
    early: Cell<Option<u64>>,
    /// A store that comes too late: after the one of which word.
    late: Cell<Option<(usize, u64, usize)>>,
    /// HEAD and EPOCH as last loaded by `Receiver::next`.
    last: [Cell<u64>; 2],
    /// Loads of ARMED in this call.
    armed_looks: Cell<u32>,
    /// Stores and sends until this side dies: what it does afterwards does not happen.
    life: Cell<u64>,
    /// Items received.
    received: Cell<u64>,
    /// Something was taken from the direction back before each send: all are answers. How often that was asked.
    answers: Option<Cell<u64>>,
}

impl Side {
    /// A fresh hybrid stream, in which both sides are up.
    pub fn new(flaw: Flaw) -> Side {
        Side::with_directions(1, flaw)
    }

    /// As [`Side::new`], with so many directions.
    pub fn with_directions(directions: usize, flaw: Flaw) -> Side {
        let of_one = [1, 2, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 24, 25];
        let head_line = [HEAD, SEEN, SHORT, KERNEL, SHORT_DATED];
        let used = (0..directions)
            .flat_map(|number| {
                let low = of_one.map(|word| number * DIRECTION_WORDS + word);
                let high = head_line.map(|word| number * WORDS_APART + word);
                low.into_iter().chain(high)
            })
            .chain([WANTED, ASKED]);
        Side {
            shared: Arc::new(Shared {
                words: used.map(|index| (index, AtomicU64::new(0))).collect(),
                ring: [(); 4].map(|()| AtomicU64::new(u64::MAX)),
                sent: AtomicU64::new(0),
                items: Mutex::default(),
            }),
            flaw,
            has_barrier: false,
            call: Cell::new(Call::Other),
            early: Cell::new(None),
            late: Cell::new(None),
            last: [Cell::new(0), Cell::new(0)],
            armed_looks: Cell::new(0),
            life: Cell::new(u64::MAX),
            received: Cell::new(0),
            answers: None,
        }
    }

    /// All that this side sends are answers.
    pub fn answers(&mut self) {
        self.answers = Some(Cell::new(0));
    }

    /// The flaw.
    pub fn flaw(&self) -> Flaw {
        self.flaw
    }

    /// The receiver ends the ring: then the light fence is one.
    pub fn has_barrier(&mut self) {
        self.has_barrier = true;
    }

    /// Makes a call of the protocol, with what is wrong with it.
    pub fn during<T>(&self, call: Call, body: impl FnOnce(&Side) -> T) -> T {
        self.call.set(call);
        self.armed_looks.set(0);
        self.early.set(None);
        let result = body(self);
        self.call.set(Call::Other);
        result
    }

    /// This side dies after so many stores and sends.
    pub fn dies_after(&self, stores: u64) {
        self.life.set(stores);
    }

    /// Whether it has died.
    pub fn is_dead(&self) -> bool {
        self.life.get() == 0
    }

    fn lives(&self) -> bool {
        let left = self.life.get();
        self.life.set(left.saturating_sub(1));
        left > 0
    }

    fn word(&self, index: usize) -> Option<&AtomicU64> {
        let found = self.shared.words.iter().find(|(at, _)| *at == index);
        found.map(|(_, word)| word)
    }

    fn put(&self, index: usize, value: u64) {
        let order = match self.flaw {
            Flaw::StoresRelaxed => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        let word = self.word(index).expect("a word of the model");
        word.store(value, order);
    }

    fn get(&self, index: usize) -> u64 {
        if let (Some(asked), BACK_TAIL) = (&self.answers, index) {
            asked.set(asked.get() + 1);
            return asked.get();
        }
        match self.word(index) {
            Some(word) => word.load(Ordering::Acquire),
            None => u64::from([UP, UP + 1, ORDERED].contains(&index)),
        }
    }

    /// Puts an item on the kernel connection.
    pub fn send(&self, item: Item) {
        if self.lives() {
            self.shared.items.lock().expect("no panic").push(item);
            self.shared.sent.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends the kernel connection, as the kernel does when a process closes it or dies.
    pub fn end_line(&self) {
        self.shared.sent.fetch_or(ENDED, Ordering::AcqRel);
    }

    /// Takes the next item; `Err(true)` at the end of the kernel connection, `Err(false)` if there is none.
    pub fn receive(&self) -> Result<Item, bool> {
        let item = self.peek()?;
        self.received.set(self.received.get() + 1);
        Ok(item)
    }

    /// Items ever sent.
    pub fn items(&self) -> u64 {
        self.shared.sent.fetch_add(0, Ordering::AcqRel) % ENDED
    }

    /// As [`Side::receive`], and leaves it there.
    pub fn peek(&self) -> Result<Item, bool> {
        let sent = self.shared.sent.fetch_add(0, Ordering::AcqRel);
        if self.received.get() < sent % ENDED {
            let items = self.shared.items.lock().expect("no panic");
            return Ok(items[self.received.get() as usize]);
        }
        Err(sent >= ENDED)
    }

    /// Whether this look at ARMED is one that is left out.
    fn looks_away(&self) -> bool {
        let look = self.armed_looks.get();
        self.armed_looks.set(look + 1);
        match self.flaw {
            Flaw::UpAndArmed => look == 1,
            Flaw::UpWithoutLook | Flaw::UpWithoutLookTokenInAnyEpoch => true,
            _ => false,
        }
    }

    /// The word after which the store of this one comes, if it is to be late.
    fn comes_after(&self, index: usize) -> Option<usize> {
        match (self.flaw, self.call.get(), index) {
            (Flaw::BoundLate, _, BOUND..WAKE_BYTES_AT) => Some(EPOCH),
            (Flaw::RequestLate, Call::AskBack, ASKED) => Some(WANTED),
            (Flaw::HeadAfterAnswer, Call::TookBack(_), HEAD) => Some(ASKED),
            _ => None,
        }
    }

    /// EPOCH loaded ahead of HEAD, if that is the flaw.
    fn load_in_next(&self, index: usize) -> u64 {
        if self.flaw == Flaw::EpochBeforeHead {
            if index == HEAD {
                self.early.set(Some(self.get(EPOCH)));
            } else if let Some(early) = self.early.take() {
                return early;
            }
        }
        let value = self.get(index);
        self.last[usize::from(index == EPOCH)].set(value);
        value
    }
}

impl SharedMemory for Side {
    fn load(&self, index: usize) -> u64 {
        match (self.call.get(), index) {
            (Call::Next, HEAD | EPOCH) => self.load_in_next(index),
            (Call::Arm, HEAD | EPOCH) if self.flaw == Flaw::NoSecondLook => {
                self.last[usize::from(index == EPOCH)].get()
            }
            (Call::ArmPast { head, .. }, HEAD) if self.flaw == Flaw::NoSecondHead => head,
            (Call::ArmPast { .. }, EPOCH) if self.flaw == Flaw::NoSecondEpoch => {
                let first = self.early.get().unwrap_or_else(|| self.get(EPOCH));
                self.early.set(Some(first));
                first
            }
            (Call::Mark, READS_KERNEL) if self.flaw == Flaw::MarkBlind => 0,
            (Call::Copy, HEAD) if self.flaw == Flaw::NoLookBehindShort => {
                let first = self.early.get().unwrap_or_else(|| self.get(HEAD));
                self.early.set(Some(first));
                first
            }
            (Call::RingHasBytes, WAKE_BYTES) if self.flaw == Flaw::TokensOverlooked => 0,
            (Call::TryRing, ARMED) if self.looks_away() => 0,
            (Call::Publish(epoch), ARMED) if self.flaw == Flaw::UpWithoutLookTokenInAnyEpoch => {
                match self.get(ARMED) {
                    0 => 0,
                    _ => epoch + 1,
                }
            }
            _ => self.get(index),
        }
    }

    fn store(&self, index: usize, value: u64) {
        if !self.lives() {
            return;
        }
        if let Some(after) = self.comes_after(index) {
            return self.late.set(Some((index, value, after)));
        }
        let value = match (self.flaw, self.call.get(), index) {
            (Flaw::TokensAtForgotten, _, WAKE_BYTES_AT..TAIL) => return,
            (Flaw::ShortBytesLeft, _, HEAD) if value >> SHORT_SHIFT == 0 => return,
            (Flaw::ArmOwnEpoch, Call::ArmPast { own_epoch, .. }, ARMED) => own_epoch + 1,
            (Flaw::BoundWhole, Call::TookBack(whole), BOUND..WAKE_BYTES_AT) => value + whole,
            (Flaw::AnswerEarly, Call::TookBack(_), HEAD) => {
                self.put(ASKED, 0);
                value
            }
            _ => value,
        };
        self.put(index, value);
        if index == HEAD && self.flaw == Flaw::InRingEarly {
            self.put(IN_RING, 0);
        }
        if let Some((late, value, after)) = self.late.get() {
            if after == index {
                self.late.set(None);
                self.put(late, value);
            }
        }
    }

    fn swap_if(&self, index: usize, old: u64, new: u64) -> bool {
        if !self.lives() {
            return false;
        }
        let word = self.word(index).expect("a word of the model");
        match (self.flaw, self.call.get()) {
            (Flaw::UpWithoutLookTokenInAnyEpoch, _) if new == 0 => {
                return word.swap(0, Ordering::AcqRel) != 0;
            }
            (Flaw::TakesUnasked, Call::BeginToTakeBack)
            | (Flaw::WithdrawnUnseen, Call::Withdraw) => {
                self.put(index, new);
                return true;
            }
            _ => {}
        }
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn fence(&self) {
        let left_out = match self.call.get() {
            Call::Publish(_) => matches!(self.flaw, Flaw::PublishFence | Flaw::QuiesceFences),
            Call::TryRing => matches!(self.flaw, Flaw::TryRingFence | Flaw::QuiesceFences),
            Call::MayUseLine => self.flaw == Flaw::QuiesceFences,
            Call::Next => self.flaw == Flaw::LineFence,
            Call::Arm | Call::ArmPast { .. } => self.flaw == Flaw::ArmFence,
            Call::AskBack | Call::Rouse => self.flaw == Flaw::AskFences,
            // The request orders as much.
            Call::BeginToTakeBack | Call::Mark => false,
            Call::Withdraw | Call::TookBack(_) | Call::RingHasBytes | Call::Copy | Call::Other => {
                unreachable!("a fence in no call that has one")
            }
        };
        if !left_out {
            fence(Ordering::SeqCst);
        }
    }

    fn light_fence(&self) {
        if self.has_barrier && self.flaw != Flaw::LightFence {
            fence(Ordering::SeqCst);
        }
    }

    fn heavy_fence(&self) -> bool {
        if self.flaw != Flaw::HeavyFence {
            fence(Ordering::SeqCst);
        }
        true
    }

    /// One number stands for each byte: its position in the stream.
    fn copy_in(&self, offset: usize, bytes: &[u8]) {
        if !self.lives() {
            return;
        }
        for (byte, value) in self.shared.ring[offset - CONTROL_BYTES..].iter().zip(bytes) {
            // Relaxed, as the copies of bytes are.
            byte.store(u64::from(*value), Ordering::Relaxed);
        }
    }

    fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        for (byte, value) in self.shared.ring[offset - CONTROL_BYTES..].iter().zip(bytes) {
            *value = byte.load(Ordering::Relaxed) as u8;
        }
    }
}
