//! What this library knows of one socket.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use barewire_fabric::hybrid::{Direction, Receiver, Sender};

use crate::process::lock::{Held, Lock};
use crate::table::kernel_probe::Probe;
use crate::table::ring_full_rests::Looks;
use crate::table::state::{State, Why};
use crate::table::stream_memory::{self, Carrier};

/// A socket.
#[repr(C, align(128))]
pub struct Record {
    state: AtomicU32,
    why: AtomicU32,
    flags: AtomicU32,
    /// Processes that have it. See `members`.
    pub processes: AtomicU32,
    /// Counts the uses of this record that are over.
    pub generation: AtomicU32,
    /// Calls that moved bytes, before it was up.
    pub calls: AtomicU32,
    /// Turns of direction before it was up, where only streams are upgraded. See `worth`.
    pub turns: AtomicU32,
    /// Looks for the other end so far.
    pub looks: AtomicU32,
    /// Which side of its carrier it is: 0 or 1.
    pub side: AtomicU32,
    /// Threads that sleep until the kernel calls it readable.
    pub sleepers: AtomicU32,
    /// Bytes moved, before it was up.
    pub bytes: AtomicU64,
    /// When the kernel was last asked whether the line has ended, by [`crate::process::tick_ns`].
    pub line_checked_ns: AtomicU64,
    /// The same, by who sends.
    pub send_checked_ns: AtomicU64,
    /// What `ring_bytes_in` was at the last send.
    pub heard_bytes: AtomicU64,
    /// What `stream::probe` remembers.
    pub probe: Probe,
    /// Bytes ever put into the ring when the other end was last known to be there.
    pub put_when_there: AtomicU64,
    /// An error of the line that the program has not been told of yet.
    pub line_error: AtomicI32,
    /// Bytes put into and taken from the ring.
    pub ring_bytes_out: AtomicU64,
    /// As above.
    pub ring_bytes_in: AtomicU64,
    /// Guards `sender`.
    pub send_lock: Lock,
    /// Guards `receiver`.
    pub recv_lock: Lock,
    sender: UnsafeCell<Sender>,
    receiver: UnsafeCell<Receiver>,
    pub next_free: AtomicU32,
    /// The last capture that was told which connection this is.
    pub captured_by: AtomicU32,
    /// Bytes sent and received while somebody captured.
    pub captured_bytes: [AtomicU64; 2],
    /// Of a Unix socket, as all that follows: bytes sent before it was up, under the send lock.
    pub line_out: AtomicU64,
    /// Bytes read before it was up. See `local` for what else is counted there.
    pub line_in: AtomicU64,
    /// Inode of the other end; 0 if it is not known.
    pub other_inode: AtomicU32,
    /// What its receive buffer was before the mark.
    pub receive_buffer: AtomicU32,
    /// Number of the record of the other end of a pair, plus 1, and its generation.
    pub pair: AtomicU32,
    /// As above.
    pub pair_generation: AtomicU32,
    /// Reads in progress that the kernel does as if this library were not there.
    pub direct_reads: AtomicU32,
    /// The program's low-water mark, with [`LOW_WATER`].
    pub low_water: AtomicU32,
    /// Of `stream::in_vain`, as the four that follow, under the receive lock: reads in a row that
    /// found nothing.
    pub in_vain: AtomicU32,
    /// The thread that did.
    pub in_vain_by: AtomicU32,
    /// How often that thread had slept after some of them.
    pub in_vain_sleeps: AtomicU64,
    /// And how long it had been busy.
    pub in_vain_busy_ns: AtomicU64,
    /// Position of the stream at the last of them.
    pub in_vain_at: AtomicU64,
    /// Of `stream::room`.
    pub looks_for_room: Looks,
    /// The kernel's name for the socket, from when it goes up.
    pub cookie: AtomicU64,
    /// Counts how often what was read of the line was asked of the kernel, under the receive lock.
    pub recounts: AtomicU32,
    /// 1 while it is among the free ones.
    pub is_free: AtomicU32,
    /// What of `ring_bytes_out` and `ring_bytes_in` is in the sums of `report`.
    pub bytes_reported: [AtomicU64; 2],
    /// The spawn actions of this process that duplicate it for another program; 0 for none.
    pub named_by: AtomicU64,
}

/// Where outsiders find what they may read. See `status`.
pub const STATE_AT: usize = core::mem::offset_of!(Record, state);
/// As above.
pub const WHY_AT: usize = core::mem::offset_of!(Record, why);
/// As above.
pub const FLAGS_AT: usize = core::mem::offset_of!(Record, flags);

// SAFETY: sender and receiver are reached under their locks only; all else is atomic.
unsafe impl Sync for Record {}

impl Record {
    /// What it is at.
    pub fn state(&self) -> State {
        // Acquire: partner: the release in set_state; with Up come sender and receiver.
        State::from_u32(self.state.load(Ordering::Acquire))
    }

    /// Changes what it is at, if it is at `from`. Returns whether it was.
    pub fn change(&self, from: State, to: State) -> bool {
        let (old, new) = (from as u32, to as u32);
        // AcqRel: as in state and set_state.
        let changed = self
            .state
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Changes what it is at from `from` to [`State::Stepping`], for one thread only.
    pub fn claim(&self, from: State) -> bool {
        self.change(from, State::Stepping)
    }

    /// Gives a claim back. `false` if the socket was made the kernel's meanwhile.
    #[must_use]
    pub fn unclaim(&self, to: State) -> bool {
        self.change(State::Stepping, to)
    }

    /// Why it is the kernel's, if it is.
    pub fn why(&self) -> Why {
        // Relaxed: for display only.
        Why::from_u32(self.why.load(Ordering::Relaxed))
    }

    /// Changes what it is at.
    pub fn set_state(&self, state: State) {
        // Release: partner: the acquire in state.
        self.state.store(state as u32, Ordering::Release);
    }

    /// It is the kernel's alone from now on.
    pub fn make_plain(&self, why: Why) {
        // Relaxed: for display only.
        self.why.store(why as u32, Ordering::Relaxed);
        self.set_state(State::Plain);
    }

    /// Notes why it is not accelerated, without a change of state.
    pub fn note_why(&self, why: Why) {
        // Relaxed: for display only.
        self.why.store(why as u32, Ordering::Relaxed);
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        // Relaxed: the flags stand for themselves.
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// As [`Record::has`], in one order with all that is SeqCst.
    pub fn has_now(&self, flag: u32) -> bool {
        // SeqCst: partner: whoever calls this names it.
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    /// Sets or clears a flag.
    pub fn set(&self, flag: u32, on: bool) {
        // Relaxed: as above.
        if on {
            self.flags.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// The sending end. The lock proves that it is ours.
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock that is held makes it exclusive"
    )]
    pub fn sender<'a>(&'a self, _held: &'a Held<'_>) -> &'a mut Sender {
        // SAFETY: whoever holds the send lock is alone; see Lock.
        unsafe { &mut *self.sender.get() }
    }

    /// The receiving end. The lock proves that it is ours.
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock that is held makes it exclusive"
    )]
    pub fn receiver<'a>(&'a self, _held: &'a Held<'_>) -> &'a mut Receiver {
        // SAFETY: whoever holds the receive lock is alone; see Lock.
        unsafe { &mut *self.receiver.get() }
    }

    /// Which socket it is, of those that it was.
    pub fn generation(&self) -> u32 {
        // Relaxed: it does not change while somebody has it; else it is compared only.
        self.generation.load(Ordering::Relaxed)
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        let first = RECORDS.load(Ordering::Relaxed);
        // SAFETY: all records lie in one array.
        let offset = unsafe { core::ptr::from_ref(self).offset_from(first) };
        offset.unsigned_abs() as u32
    }

    /// Where its carrier is mapped, or would be.
    pub fn carrier(&self) -> Carrier {
        stream_memory::carrier(self.number())
    }

    /// Begins anew, as another socket.
    pub fn reset(&self, state: State) {
        // Relaxed, all but the count: nobody else has this record yet; the descriptor's entry
        // publishes it.
        for word in [
            &self.why,
            &self.flags,
            &self.calls,
            &self.turns,
            &self.looks,
            &self.sleepers,
            &self.captured_by,
            &self.other_inode,
            &self.receive_buffer,
            &self.pair,
            &self.direct_reads,
            &self.low_water,
            &self.in_vain,
            &self.in_vain_by,
            &self.recounts,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.bytes,
            &self.line_checked_ns,
            &self.send_checked_ns,
            &self.heard_bytes,
            &self.put_when_there,
            &self.named_by,
            &self.ring_bytes_out,
            &self.ring_bytes_in,
            &self.bytes_reported[0],
            &self.bytes_reported[1],
            &self.captured_bytes[0],
            &self.captured_bytes[1],
            &self.line_out,
            &self.line_in,
            &self.in_vain_sleeps,
            &self.in_vain_busy_ns,
            &self.in_vain_at,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.line_error.store(0, Ordering::Relaxed);
        self.probe.forget();
        self.looks_for_room.forget();
        self.send_lock.begin_anew();
        self.recv_lock.begin_anew();
        self.set_state(state);
        // Release: partner: count_again; whoever sees that somebody has it sees which use it is.
        self.processes.store(1, Ordering::Release);
    }
}

/// The records; null if they could not be reserved: then nothing is on board.
pub static RECORDS: AtomicPtr<Record> = AtomicPtr::new(core::ptr::null_mut());

/// Makes the two ends of a record that is about to be [`State::Up`].
pub fn set_ends(
    record: &Record,
    send: &Held<'_>,
    recv: &Held<'_>,
    sender: Sender,
    receiver: Receiver,
) {
    *record.sender(send) = sender;
    *record.receiver(recv) = receiver;
}

const _: () = assert!(size_of::<Direction>() == 8 && size_of::<Record>() <= 384);
