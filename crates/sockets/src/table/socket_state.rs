//! The socket state: what the library knows of one socket.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use barewire_cpu::probes::sockets as probes;
use barewire_fabric::hybrid::{Direction, Receiver, Sender};

use crate::process::lock::{Held, Lock};
use crate::process::words::{AtStart, Guarded, Lone};
use crate::table::kernel_probe::Probe;
use crate::table::ring_full_rests::Looks;
use crate::table::state::{Reason, State};
use crate::table::stream_memory::{self, StreamMemory};

/// What the library knows of a socket. In memory that processes with the socket share.
#[repr(C, align(128))]
pub struct SocketState {
    state: AtomicU32,
    reason: Lone<AtomicU32>,
    flags: AtomicU32,
    /// Processes that have the socket. See `process_refs`.
    pub processes: AtomicU32,
    /// How many sockets this state has stood for before. It changes while no process has the socket.
    generation: Lone<AtomicU32>,
    /// Calls that moved bytes before the upgrade.
    pub calls: Lone<AtomicU32>,
    /// Turns of direction before the upgrade, where only streams are upgraded. See `worth`.
    pub turns: Lone<AtomicU32>,
    /// How often the other end was looked for.
    pub looks: Lone<AtomicU32>,
    /// This end's side of the hybrid stream: 0 or 1.
    side: AtomicU32,
    /// Threads that sleep until the kernel reports the socket as readable.
    pub sleepers: Lone<AtomicU32>,
    /// Bytes moved before the upgrade.
    pub bytes: Lone<AtomicU64>,
    /// When a reader last asked whether the kernel connection has ended, by `clock::tick_ns`.
    pub kernel_checked_ns: Lone<AtomicU64>,
    /// When a sender last asked that, under the send lock.
    pub send_checked_ns: Guarded<AtomicU64>,
    /// What `ring_bytes_in` was at the last send.
    pub heard_bytes: Lone<AtomicU64>,
    /// The state of `kernel_probe`, under the send lock.
    pub probe: Probe,
    /// Bytes ever put into the ring when the other end was last known to be alive.
    pub put_when_there: Lone<AtomicU64>,
    /// The pending error; 0 if there is none.
    pub pending_error: Lone<AtomicI32>,
    /// Bytes put into the ring.
    pub ring_bytes_out: Lone<AtomicU64>,
    /// Bytes taken from the ring.
    pub ring_bytes_in: Lone<AtomicU64>,
    /// Guards `sender`.
    pub send_lock: Lock,
    /// Guards `receiver`.
    pub recv_lock: Lock,
    sender: UnsafeCell<Sender>,
    receiver: UnsafeCell<Receiver>,
    /// The next free socket state, plus 1, while this one is free. Under the lock of `sockets`.
    pub next_free: Guarded<AtomicU32>,
    /// The last capture that has the addresses of this connection.
    pub captured_by: Lone<AtomicU32>,
    /// Bytes sent and received while somebody captured.
    pub captured_bytes: [Lone<AtomicU64>; 2],
    /// For a Unix socket, as the next six: bytes sent before the upgrade, under the send lock.
    pub kernel_bytes_out: Lone<AtomicU64>,
    /// Bytes read before the upgrade. See `unix_streams` for what else is counted there.
    pub kernel_bytes_in: AtomicU64,
    /// Inode of the other end; 0 if it is not known.
    pub other_inode: Lone<AtomicU32>,
    /// The size of its receive buffer before it was marked.
    pub receive_buffer: Lone<AtomicU32>,
    /// The number of the socket state of a pair's other end, plus 1.
    pub pair: Lone<AtomicU32>,
    /// And its generation.
    pub pair_generation: Lone<AtomicU32>,
    /// Reads in progress that the kernel executes alone.
    pub direct_reads: AtomicU32,
    /// The program's low-water mark, with the flag `LOW_WATER`.
    pub low_water: Lone<AtomicU32>,
    /// For `stream::empty_reads`, as the next four, under the receive lock: empty reads, and wake-up
    /// bytes taken by the last of them.
    pub empty_reads: Guarded<AtomicU32>,
    /// The thread that made them.
    pub empty_reads_by: Guarded<AtomicU32>,
    /// How often that thread had slept by then.
    pub empty_reads_sleeps: Guarded<AtomicU64>,
    /// And how long it had been busy.
    pub empty_reads_busy_ns: Guarded<AtomicU64>,
    /// Position of the stream at the last of them.
    pub empty_reads_at: Guarded<AtomicU64>,
    /// The state of `stream::ring_full_wait`, under the send lock.
    pub ring_full_rests: Looks,
    /// The kernel's cookie of the socket, from the upgrade on.
    cookie: AtomicU64,
    /// How often the count of bytes read was corrected by the kernel's, under the receive lock.
    pub recounts: Lone<AtomicU32>,
    /// 1 while this state is free. Under the lock of `sockets`.
    pub is_free: Guarded<AtomicU32>,
    /// How much of `ring_bytes_out` and `ring_bytes_in` the sums of `report` contain.
    pub bytes_reported: [Lone<AtomicU64>; 2],
    /// The `posix_spawn` actions that duplicate the socket for another program; 0 for none.
    pub named_by: Lone<AtomicU64>,
}

/// Offset of the upgrade's state, for readers outside the process. See `status`.
pub const STATE_AT: usize = core::mem::offset_of!(SocketState, state);
/// Offset of the side.
pub const SIDE_AT: usize = core::mem::offset_of!(SocketState, side);
/// Offset of the reason.
pub const REASON_AT: usize = core::mem::offset_of!(SocketState, reason);
/// Offset of the flags.
pub const FLAGS_AT: usize = core::mem::offset_of!(SocketState, flags);

// SAFETY: sender and receiver are reached under their locks only; all else is atomic.
unsafe impl Sync for SocketState {}

impl SocketState {
    /// How far the upgrade has got.
    pub fn state(&self) -> State {
        // Acquire pairs with the Release in `set_state` and `change`: with Upgraded come both ends of the stream.
        State::from_u32(self.state.load(Ordering::Acquire))
    }

    /// Changes the state from `from`. Returns whether it was that.
    pub fn change(&self, from: State, to: State) -> bool {
        let (old, new) = (from as u32, to as u32);
        // AcqRel pairs with itself, with the Acquire in `state` and with the Release in `set_state`.
        let changed = self
            .state
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }

    /// Changes the state from `from` to [`State::Stepping`], for one thread only.
    pub fn claim(&self, from: State) -> bool {
        self.change(from, State::Stepping)
    }

    /// Gives a claim back. `false` if the socket was made the kernel's meanwhile.
    #[must_use]
    pub fn unclaim(&self, to: State) -> bool {
        self.change(State::Stepping, to)
    }

    /// Why it is the kernel's, if it is.
    pub fn reason(&self) -> Reason {
        Reason::from_u32(self.reason.get())
    }

    /// Changes what it is at.
    pub fn set_state(&self, state: State) {
        // Release pairs with the Acquire in `state`.
        self.state.store(state as u32, Ordering::Release);
    }

    /// It is the kernel's alone from now on.
    pub fn leave_to_kernel_because(&self, reason: Reason) {
        let before = self.reason.swap(reason as u32);
        self.set_state(State::Kernel);
        self.observe_reason(before, reason);
    }

    /// Notes why it is not accelerated, without a change of state.
    pub fn note_reason(&self, reason: Reason) {
        let before = self.reason.swap(reason as u32);
        self.observe_reason(before, reason);
    }

    fn observe_reason(&self, before: u32, reason: Reason) {
        if before != reason as u32 && reason != Reason::None {
            match self.state() {
                State::Upgraded => probes::fell_back(self.number(), reason.text()),
                _ => probes::not_upgraded(self.number(), reason.text()),
            }
            if let Some(observe) = OBSERVER.get() {
                observe(self, reason);
            }
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        // Relaxed: the flags stand for themselves.
        self.flags.load(Ordering::Relaxed) & flag != 0
    }

    /// As [`SocketState::has`], in one order with all that is SeqCst.
    pub fn has_now(&self, flag: u32) -> bool {
        // SeqCst pairs with what the caller names.
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    /// Sets or clears a flag.
    pub fn set(&self, flag: u32, on: bool) {
        // Relaxed: the flags stand for themselves.
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
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// It is free, and will be another socket.
    pub fn next_generation(&self) {
        self.generation.add(1);
    }

    /// How many processes have the socket. What those did with it that have it no more is seen.
    #[inline]
    pub fn process_count(&self) -> u32 {
        // Acquire pairs with the AcqRel by which a process leaves, in `references::others_have` and
        // `sockets::uncount`.
        self.processes.load(Ordering::Acquire)
    }

    /// As [`SocketState::process_count`], for who asks for nothing but the number.
    #[inline]
    pub fn process_count_alone(&self) -> u32 {
        // Relaxed: the number stands for itself.
        self.processes.load(Ordering::Relaxed)
    }

    /// This end's side of the hybrid stream: 0 or 1. For who has found the socket upgraded.
    #[inline]
    pub fn side(&self) -> u32 {
        // Relaxed: it is set before the AcqRel with which `change` makes the socket upgraded. That one pairs with
        // the Acquire in `state`.
        self.side.load(Ordering::Relaxed)
    }

    /// The kernel's cookie of the socket. For who has found the socket upgraded.
    pub fn cookie(&self) -> u64 {
        // Relaxed: as in `side`.
        self.cookie.load(Ordering::Relaxed)
    }

    /// The socket is about to be upgraded, with this side.
    pub fn set_side(&self, side: u32) {
        // Relaxed: as in `side`.
        self.side.store(side, Ordering::Relaxed);
    }

    /// It is about to be upgraded, and has this cookie.
    pub fn set_cookie(&self, cookie: u64) {
        // Relaxed: as in `side`.
        self.cookie.store(cookie, Ordering::Relaxed);
    }

    /// Its number.
    #[inline]
    pub fn number(&self) -> u32 {
        let first = SOCKETS.get();
        // SAFETY: all socket states lie in one array.
        let offset = unsafe { core::ptr::from_ref(self).offset_from(first) };
        offset.unsigned_abs() as u32
    }

    /// Where its hybrid stream is mapped, or would be.
    pub fn memory(&self) -> StreamMemory {
        stream_memory::memory(self.number())
    }

    /// Begins anew, as another socket.
    pub fn reset(&self, state: State) {
        for word in [
            &self.reason,
            &self.calls,
            &self.turns,
            &self.looks,
            &self.sleepers,
            &self.captured_by,
            &self.other_inode,
            &self.receive_buffer,
            &self.pair,
            &self.low_water,
            &self.recounts,
        ] {
            word.set(0);
        }
        for word in [
            &self.bytes,
            &self.kernel_checked_ns,
            &self.heard_bytes,
            &self.put_when_there,
            &self.named_by,
            &self.ring_bytes_out,
            &self.ring_bytes_in,
            &self.bytes_reported[0],
            &self.bytes_reported[1],
            &self.captured_bytes[0],
            &self.captured_bytes[1],
            &self.kernel_bytes_out,
        ] {
            word.set(0);
        }
        // Relaxed: nobody else has this socket state yet. The Release in `descriptors::enter` publishes these three
        // and the others.
        self.flags.store(0, Ordering::Relaxed);
        self.direct_reads.store(0, Ordering::Relaxed);
        self.kernel_bytes_in.store(0, Ordering::Relaxed);
        self.send_checked_ns.set(0);
        self.empty_reads.set(0);
        self.empty_reads_by.set(0);
        self.empty_reads_sleeps.set(0);
        self.empty_reads_busy_ns.set(0);
        self.empty_reads_at.set(0);
        self.pending_error.set(0);
        self.probe.forget();
        self.ring_full_rests.forget();
        self.send_lock.begin_anew();
        self.recv_lock.begin_anew();
        self.set_state(state);
        // Release pairs with the Acquire in `sockets::count_again`: whoever sees that somebody has it sees its
        // generation.
        self.processes.store(1, Ordering::Release);
    }
}

/// Called when another reason is noted for a socket.
static OBSERVER: OnceLock<fn(&SocketState, Reason)> = OnceLock::new();

/// Has `observe` called for each reason that is noted. For the constructor.
pub fn observe_reasons(observe: fn(&SocketState, Reason)) {
    let _ = OBSERVER.set(observe);
}

/// The socket states; null if they could not be reserved: then nothing is upgraded.
pub static SOCKETS: AtStart<AtomicPtr<SocketState>> =
    AtStart::new(AtomicPtr::new(core::ptr::null_mut()));

/// Makes the two ends of a socket state that is about to be [`State::Upgraded`].
pub fn set_ends(
    socket: &SocketState,
    send: &Held<'_>,
    recv: &Held<'_>,
    sender: Sender,
    receiver: Receiver,
) {
    *socket.sender(send) = sender;
    *socket.receiver(recv) = receiver;
}

const _: () = assert!(size_of::<Direction>() == 8 && size_of::<SocketState>() <= 384);
