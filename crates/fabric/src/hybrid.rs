//! The hybrid stream: a byte stream between two processes that goes through a ring in shared memory or
//! over a kernel connection. It changes between these two *paths*, in each direction by itself, at any
//! moment, and loses, doubles or reorders no byte.
//!
//! The *kernel connection* exists first and stays. The stream of a direction is cut into *epochs*: in even
//! ones the bytes go over the kernel connection, in odd ones through the ring. The sender closes an epoch by
//! storing the stream's position and incrementing EPOCH. The receiver goes on to the next epoch when it has
//! read up to that position.
//!
//! ```text
//! SENDER    kernel -> ring  ring empty, receiver awake:  BOUND = position, EPOCH + 1
//!           ring -> kernel  ring full, fall back, ...:   BOUND, WAKE_BYTES_AT = .., EPOCH + 1;
//!                           no byte over the kernel before `may_use_kernel`
//!           ring write      IN_RING = 1; copy; HEAD (perhaps in pieces); fence; ARMED taken -> WAKE_BYTES + 1;
//!                           IN_RING = 0; one byte over the kernel if a wake-up byte was announced
//! RECEIVER  kernel epoch    READS_KERNEL = 1; fence; EPOCH unchanged -> read any, else to BOUND
//!           ring epoch      read to HEAD; empty -> take the wake-up bytes that were announced
//!           before a sleep  ARMED = its epoch; fence; poll again
//! ```
//!
//! A *wake-up byte* is a byte on the kernel connection that is not data. It makes the kernel report the
//! connection as readable to any thread that waits there, in whatever way. The sender sends one only if the
//! receiver armed in this very ring epoch. The receiver reads the kernel connection for data only when it is
//! done with that epoch and its wake-up bytes. So it never takes a wake-up byte for data. If the kernel
//! connection has no room for a wake-up byte, the sender does not withdraw it, since the receiver may be about
//! to read it. The sender sends it before any other byte. So the receiver never takes data for a wake-up byte.
//!
//! Why does a byte that is read from the kernel connection belong to the epoch that the reader assumes? The
//! sender increments EPOCH, fences and loads READS_KERNEL. The receiver sets READS_KERNEL, fences and loads
//! EPOCH. At least one of them sees the store of the other.
//!
//! | direction, word | written by | what it is |
//! |---|---|---|
//! | 1 EPOCH | sender | epochs closed |
//! | 2 WAKE_BYTES | sender | wake-up bytes ever announced |
//! | 3 PROCESSOR | sender | 1 + where it ran when it put bytes; 0: not known. A hint |
//! | 8..12 BOUND | sender | stream position at the end of epoch `e`, at `e mod 4` |
//! | 12..16 WAKE_BYTES_AT | sender | wake-up bytes announced by the end of epoch `e` |
//! | 16 TAIL | receiver | bytes ever taken from the ring |
//! | 17 REACHED | receiver | the epoch that it reads |
//! | 18 READS_KERNEL | receiver | 1 while it may be reading the kernel connection |
//! | 24 ARMED | both | 1 + the epoch in which the receiver sleeps; 0: awake |
//! | 25 IN_RING | sender | 1 while it puts bytes into the ring: not in the cache line that the receiver polls |
//! | 26 ORDERED | receiver | 1: it waits for other connections as well, so it wants SINCE, and [`Sender::mark`] |
//! | 128 HEAD | sender | bits 0 to 55: bytes ever put into the ring; bits 56 to 62: how many of the last of them are short bytes; bit 63: dated |
//! | 129 SEEN | sender | TAIL of the direction back, when bytes were last put: saves the other side a load of TAIL |
//! | 130 SINCE | sender | dated: when the oldest bytes of the ring came, by the clock of the callers; 0: not known. For order only |
//! | 131 KERNEL | sender | dated: stored with SINCE: when it, or whoever it heard of, last used the kernel; 0: never known. For order only |
//! | behind these | sender | short bytes, copies of at most 48 bytes of the ring (32 if dated), to the end of the cache line: see `hybrid/head_line.rs` |
//!
//! Of the words below 64, direction 0 begins at word 0, direction 1 at word 32. Words 64 to 71 belong to the two sides
//! ([`UP`], [`LEAVING`], [`WANT_KERNEL`], [`TAKE_BACK`], by side). Words from 128 on are the *head lines*, one of each
//! direction. The rings follow at byte 4096.
//!
//! *Head lines.* A sender always puts its bytes into the ring. It also copies them to its head line as *short bytes*,
//! if they fit there and are an answer: that is, if it has taken bytes of the other side since it last sent.
//!
//! ```text
//! SENDER    HEAD = as before, without short bytes; short bytes; HEAD = new position, with their number
//! RECEIVER  HEAD; if all that it has not taken are short bytes: load them; HEAD again: unchanged -> they are those
//!           else: from the ring, which always has them
//! ```
//!
//! The sender changes HEAD before it stores the short bytes of a later message. So a receiver that loads one of those
//! finds that HEAD has changed. The same value of HEAD with short bytes can come again only if bytes were taken back, and
//! then the receiver is not in the middle of a copy. A sender that finds ORDERED set for the first time withdraws its
//! short bytes. From then on it dates its bytes, and its short bytes leave the place of SINCE and KERNEL free.
//! [The figures](../../../docs/decisions/0031-short-bytes-beside-head.md).
//!
//! A receiver can end the ring by itself ([`Receiver::end_ring`]). It stores WANT_KERNEL, has every processor
//! pass a barrier, and waits for IN_RING to be 0. A sender stores IN_RING and then loads WANT_KERNEL, and
//! clears IN_RING when the last wake-up byte is announced. So from then on nothing is put into the ring,
//! and only announced wake-up bytes are sent. A receiver that has read them all may hand the kernel
//! connection to a program that knows nothing of this protocol.
//!
//! If it has not read everything, it asks the sender to *take back* the rest, which is still in the
//! ring, and to send it over the kernel connection:
//!
//! ```text
//! RECEIVER  alone with its end, not reading the kernel connection, from here to the answer:
//!           TAKE_BACK = the sender's epoch, of the ring, its own or the next; WANT_KERNEL = 1;
//!           fence; a wake-up byte to the other side's receiver, if that is armed in our ring epoch
//! SENDER    TAKE_BACK = its own epoch, taken -> TAKING; fence; HEAD - TAIL bytes over the kernel;
//!           all:  HEAD = TAIL, BOUND = position - them, EPOCH + 1; TAKE_BACK = 0
//!           some: they count as wake-up bytes; TAKE_BACK = REFUSED
//! RECEIVER  its request is still there after a while: withdraws it, and does without
//! ```
//!
//! Bytes taken back come on the kernel connection before any later ones, and behind the wake-up bytes of
//! their epoch, all of which the receiver knows of. So the receiver finds a ring epoch without any byte left, and
//! goes on with the kernel connection. If the kernel connection takes only some of the bytes, all of them
//! are still in the ring. Those on the kernel connection are then not data, which is what wake-up bytes are.
//!
//! *Order.* A receiver that waits for several connections reports them to its program in the order of SINCE.
//! The sender stores SINCE before HEAD when it puts bytes into an empty ring. So a receiver that sees the bytes sees
//! when they came, and sees the HEAD of everybody who had sent before. For bytes that the kernel
//! carries elsewhere there is no such word. So a sender that is about to send something through the kernel
//! first sends a wake-up byte for what lies unread in its rings ([`Sender::mark`]). The kernel then reports
//! both in their order. A receiver that finds bytes in a ring has to ask the kernel first only if KERNEL is later than its
//! last question. The sender may send that wake-up byte whether the receiver is armed or not. There is one
//! exception: it does not while the receiver may be in the middle of a read of the kernel connection that it
//! began before this epoch. A wrong time from the other side can change when a program hears of that side's
//! bytes, never whether.
//!
//! The other side is not trusted: what it wrote is read once and checked ([`Broken`]). It can spoil its own
//! connection only. Source: own design (`docs/decisions/0005`).

mod head_line;
mod receiver;
mod sender;

use head_line::{DATED, HEAD, HEAD_LINES, KERNEL, SINCE, WORDS_APART, distance, position_in};

pub use head_line::SHORT_BYTES_MAX;
pub use receiver::{AHEAD_MAX, Ahead, Answer, Next, Receiver};
pub use sender::{Dates, Sender};

/// Memory that two processes share, and may both write at any time.
///
/// Contract: `load` acquires, `store` releases, `swap_if` is a compare-and-swap that does
/// both; `fence` orders everything before it before everything after it. Copies are of
/// bytes that may change meanwhile. Offsets are always within [`CONTROL_BYTES`] and two rings.
pub trait SharedMemory {
    /// Loads word `index`.
    fn load(&self, index: usize) -> u64;
    /// Stores word `index`.
    fn store(&self, index: usize, value: u64);
    /// Stores `new` in word `index` if it is `old`; says whether it was.
    fn swap_if(&self, index: usize, old: u64, new: u64) -> bool;
    /// A full fence.
    fn fence(&self);
    /// The light half of an asymmetric fence, for whoever is in a hurry.
    fn light_fence(&self);
    /// The heavy half: when it returns, every thread that has memory in common with this one
    /// has passed a full fence. `false` if the system has no such thing.
    fn heavy_fence(&self) -> bool;
    /// Copies `bytes` to byte `offset`.
    fn copy_in(&self, offset: usize, bytes: &[u8]);
    /// As `copy_in`; how many processor cycles that took, or 0 where nobody can say or there is no way past the caches.
    fn copy_in_measured(&self, offset: usize, bytes: &[u8]) -> u64 {
        self.copy_in(offset, bytes);
        0
    }
    /// As `copy_in`; where the memory has a way past the caches, that way ([`crate::copying`]).
    fn copy_in_past_caches(&self, offset: usize, bytes: &[u8]) {
        self.copy_in(offset, bytes);
    }
    /// Copies from byte `offset` into `bytes`.
    fn copy_out(&self, offset: usize, bytes: &mut [u8]);
    /// Stores `bytes` from word `first` on, after all that was stored or loaded before, and in any order among themselves.
    /// What is left of the last word may be anything.
    fn store_bytes(&self, first: usize, bytes: &[u8]) {
        for (index, chunk) in (first..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.store(index, u64::from_le_bytes(word));
        }
    }
    /// Loads `bytes` from word `first` on, in any order among themselves, and before all that is loaded or stored later.
    fn load_bytes(&self, first: usize, bytes: &mut [u8]) {
        for (index, chunk) in (first..).zip(bytes.chunks_mut(8)) {
            let word = self.load(index).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
    /// A hint that bytes from byte `offset` on will be stored soon.
    fn prefetch_for_writing(&self, _offset: usize, _len_bytes: usize) {}
}

/// Bytes in front of the first ring.
pub const CONTROL_BYTES: usize = 4096;
const EPOCH: usize = 1;
const WAKE_BYTES: usize = 2;
const PROCESSOR: usize = 3;
const IN_RING: usize = 25;
const BOUND: usize = 8;
const WAKE_BYTES_AT: usize = 12;
const TAIL: usize = 16;
const REACHED: usize = 17;
const READS_KERNEL: usize = 18;
const ARMED: usize = 24;
const ORDERED: usize = 26;
const DIRECTION_WORDS: usize = 32;

/// Word, by side: 1 when that side follows this protocol.
pub const UP: usize = 64;
/// Word, by side: 1 when that side has closed, shut down or lost its end of the kernel connection.
pub const LEAVING: usize = 66;
/// Word, by side: 1 when that side asks the other to use the kernel connection from now on.
pub const WANT_KERNEL: usize = 68;

/// Word, by side: the epoch of the ring that this side asks the other to take back what is
/// left of; or `TAKING` or `REFUSED`; 0: it asks for nothing.
pub const TAKE_BACK: usize = 70;
/// The other side is at it. Epochs of the ring are odd: these are none.
const TAKING: u64 = 2;
/// The other side does not, or the kernel connection did not take it all.
const REFUSED: u64 = 4;

/// One direction of a hybrid stream, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Direction {
    /// 0 from side 0 to side 1; 1 back.
    number: u8,
    /// A power of two.
    ring_bytes: u32,
}

impl Direction {
    /// The direction that `side` sends in, with a ring of `ring_bytes` (a power of two).
    ///
    /// # Panics
    /// If `side` is neither 0 nor 1, or the ring no power of two of at least 64 bytes.
    #[must_use]
    #[inline]
    pub const fn from_side(side: u32, ring_bytes: u32) -> Self {
        assert!(side < 2 && ring_bytes.is_power_of_two() && ring_bytes >= 64);
        Self {
            number: side as u8,
            ring_bytes,
        }
    }

    /// The direction back.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            number: 1 - self.number,
            ring_bytes: self.ring_bytes,
        }
    }

    /// The side that sends in it.
    #[must_use]
    pub const fn sender_side(self) -> usize {
        self.number as usize
    }

    /// Bytes that its ring takes.
    #[must_use]
    pub const fn ring_bytes(self) -> u64 {
        self.ring_bytes as u64
    }

    /// Whether its receiver may find something, as far as can be seen from outside of it: what
    /// it has taken and reached it says itself.
    #[must_use]
    pub fn is_ready(self, memory: &impl SharedMemory) -> bool {
        self.head(memory) != position_in(memory.load(self.word(TAIL)))
            || memory.load(self.word(EPOCH)) != memory.load(self.word(REACHED))
    }

    /// Whether its sender puts bytes into the ring at this time.
    #[must_use]
    pub fn is_in_ring(self, memory: &impl SharedMemory) -> bool {
        path(memory.load(self.word(EPOCH))) == Path::Ring
    }

    /// Bytes in its ring that were not read, as both ends say.
    #[must_use]
    pub fn in_ring(self, memory: &impl SharedMemory) -> u64 {
        let tail = memory.load(self.word(TAIL));
        self.put_since(memory, tail)
    }

    /// Bytes put into its ring since there had been as many as `position`.
    #[must_use]
    pub fn put_since(self, memory: &impl SharedMemory, position: u64) -> u64 {
        distance(position, self.head(memory))
    }

    /// Where its sender ran when it last put bytes, as it says: see [`Sender::publish`].
    #[must_use]
    pub fn processor(self, memory: &impl SharedMemory) -> u64 {
        memory.load(self.word(PROCESSOR))
    }

    /// Whether the kernel connection holds nothing but wake-up bytes, and the end of the stream: its bytes go through the ring,
    /// and the receiver has read all that went over the kernel connection before.
    #[must_use]
    pub fn has_wake_bytes_only(self, memory: &impl SharedMemory) -> bool {
        let epoch = memory.load(self.word(EPOCH));
        path(epoch) == Path::Ring && memory.load(self.word(REACHED)) == epoch
    }

    /// When the oldest bytes of its ring came, as its sender says; 0: not known.
    #[must_use]
    pub fn since(self, memory: &impl SharedMemory) -> u64 {
        self.date(memory, SINCE)
    }

    /// When its sender, or whoever that heard of, last used the kernel before the oldest bytes of its ring
    /// came, as it says; 0: not known to have.
    #[must_use]
    pub fn kernel_used(self, memory: &impl SharedMemory) -> u64 {
        self.date(memory, KERNEL)
    }

    fn date(self, memory: &impl SharedMemory, word: usize) -> u64 {
        match memory.load(self.word(HEAD)) & DATED {
            0 => 0,
            _ => memory.load(self.word(word)),
        }
    }

    /// The receiver waits for others as well: from now on it is told when bytes came.
    pub fn want_order(self, memory: &impl SharedMemory) {
        memory.store(self.word(ORDERED), 1);
    }

    /// Bytes ever put into its ring, as its sender says: the lower 56 bits of their number.
    #[must_use]
    #[inline]
    pub fn head(self, memory: &impl SharedMemory) -> u64 {
        position_in(memory.load(self.word(HEAD)))
    }

    const fn word(self, word: usize) -> usize {
        let apart = if word < HEAD_LINES {
            DIRECTION_WORDS
        } else {
            WORDS_APART
        };
        // The mask changes nothing: it shows the compiler that the word lies in front of the rings.
        (self.number & 1) as usize * apart + word
    }

    const fn at_epoch(self, word: usize, epoch: u64) -> usize {
        self.word(word) + (epoch % KEPT_EPOCHS) as usize
    }

    /// Where byte `position` of the ring lies, and how many follow it without a wrap.
    const fn place(self, position: u64) -> (usize, usize) {
        let size = self.ring_bytes as usize;
        let at = position as usize & (size - 1);
        (CONTROL_BYTES + self.number as usize * size + at, size - at)
    }
}

/// Bytes of shared memory that a hybrid stream with rings of `ring_bytes` takes.
#[must_use]
pub const fn memory_bytes(ring_bytes: u32) -> usize {
    CONTROL_BYTES + 2 * ring_bytes as usize
}

/// Ends of epochs that are kept: the receiver is never so far behind.
const KEPT_EPOCHS: u64 = 4;

/// What of a stream goes where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Over the kernel connection.
    Kernel,
    /// Through the ring.
    Ring,
}

const fn path(epoch: u64) -> Path {
    if epoch % 2 == 0 {
        Path::Kernel
    } else {
        Path::Ring
    }
}

/// The other side wrote what no sound one writes. The connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// More bytes in the ring than it holds.
    Head {
        /// Bytes that would be in the ring.
        used_bytes: u64,
    },
    /// Bytes were taken from the ring that had not been put there, or put back.
    Tail {
        /// Bytes taken, as the receiver says.
        taken: u64,
        /// Bytes put.
        put: u64,
    },
    /// An epoch before the last one seen, or too far from the receiver's.
    Epoch {
        /// What was found.
        found: u64,
        /// The own one.
        own: u64,
    },
    /// An epoch of the ring that ends where no byte of it can be.
    Bound {
        /// Bytes that the epoch would have yet.
        left_bytes: u64,
    },
    /// Fewer wake-up bytes than have been taken.
    WakeBytes,
    /// Bytes on the kernel connection, in an epoch of the ring, that are no wake-up bytes.
    Stray,
}

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Head { used_bytes } => write!(f, "{used_bytes} bytes in the ring"),
            Self::Tail { taken, put } => write!(f, "{taken} bytes taken of {put}"),
            Self::Epoch { found, own } => write!(f, "epoch {found} beside epoch {own}"),
            Self::Bound { left_bytes } => {
                write!(f, "an epoch of the ring with {left_bytes} bytes to come")
            }
            Self::WakeBytes => f.write_str("fewer wake-up bytes than were taken"),
            Self::Stray => f.write_str("bytes on the kernel connection that were not announced"),
        }
    }
}

impl core::error::Error for Broken {}
