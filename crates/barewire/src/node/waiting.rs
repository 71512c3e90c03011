//! What threads that wait at one node share: which of them sleeps in the kernel, whether the
//! owner's own event loop sleeps, and which connections are polled meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::config::Spin;
use crate::links::connection::ConnectionCore;
use crate::node::wait::Spinner;
use crate::tables::hot::HOT_MAX;

/// Who sleeps in the kernel for this node: one thread; others wait for it.
#[derive(Default)]
pub(crate) struct Gate {
    pub led: bool,
    pub generation: u64,
    /// Threads that wait at the gate.
    waiting: u32,
}

/// Connections whose peers do not ring.
#[derive(Default)]
struct Disarmed {
    connections: Vec<Arc<ConnectionCore>>,
    /// Looks in a row that found nothing.
    empty_looks: u32,
    /// With which of them the next look begins.
    next: usize,
    /// Events that were handed out and not counted yet.
    uncounted: u64,
}

/// What a look at connections whose peers do not ring came to.
pub(crate) struct Looked {
    /// Connections in which something is new.
    pub found: usize,
    /// Events to be counted now.
    pub to_count: u64,
}

/// Events that are counted at once: to count is an instruction that waits for all stores before it.
const COUNTED_AT_ONCE: u64 = 64;

/// Looks in a row that find nothing until peers are asked to ring again: of the order of a millisecond.
const EMPTY_LOOKS_MAX: u32 = 32 * 1024;

/// What threads that wait at one node share.
pub(crate) struct Waiting {
    gate: Mutex<Gate>,
    gate_opened: Condvar,
    /// Connections that are looked at directly and have to be armed before anything sleeps.
    disarmed: Mutex<Disarmed>,
    disarmed_count: AtomicUsize,
    /// Whether others come before those the next time.
    others_first: AtomicBool,
    /// The owner waits on our descriptor in a loop of its own.
    pub descriptor_used: AtomicBool,
    pub asleep_for_descriptor: AtomicBool,
    pub polls: AtomicU32,
    pub last_poll_ns: AtomicU64,
    pub spinner: Spinner,
}

impl Waiting {
    pub fn new(spin: Spin) -> Waiting {
        Waiting {
            gate: Mutex::default(),
            gate_opened: Condvar::new(),
            disarmed: Mutex::default(),
            disarmed_count: AtomicUsize::new(0),
            others_first: AtomicBool::new(false),
            descriptor_used: AtomicBool::new(false),
            asleep_for_descriptor: AtomicBool::new(false),
            polls: AtomicU32::new(0),
            last_poll_ns: AtomicU64::new(0),
            spinner: Spinner::new(spin),
        }
    }

    pub fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes the one thread that sleeps in the kernel, unless there is one.
    pub fn lead(&self) -> bool {
        !core::mem::replace(&mut self.gate().led, true)
    }

    /// Is it no more: the others look.
    pub fn step_down(&self) {
        let mut gate = self.gate();
        gate.led = false;
        gate.generation += 1;
        self.wake_those_at_gate(&gate);
    }

    /// Waits until somebody wakes those who do, for at most this time.
    pub fn wait_at_gate(&self, mut gate: MutexGuard<'_, Gate>, longest: Duration) {
        gate.waiting += 1;
        let waited = self.gate_opened.wait_timeout(gate, longest);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
    }

    /// Wakes them. Without anybody that would be a system call for nothing.
    pub fn wake_those_at_gate(&self, gate: &Gate) {
        if gate.waiting > 0 {
            self.gate_opened.notify_all();
        }
    }

    /// Whether connections are polled directly, and would not be rung for.
    #[inline]
    pub fn has_disarmed(&self) -> bool {
        // Relaxed: the count is only ever changed by handles of this node, whose owner then
        // polls.
        self.disarmed_count.load(Ordering::Relaxed) != 0
    }

    /// Remembers a connection whose receiver has told its peer not to ring. Whether whoever
    /// waits on the descriptor is to be woken for it.
    #[must_use]
    pub fn add_disarmed(&self, connection: &Arc<ConnectionCore>) -> bool {
        let mut disarmed = self.disarmed.lock().unwrap_or_else(PoisonError::into_inner);
        // An owner that never polls would else keep all that it ever had.
        let connections = &mut disarmed.connections;
        if connections.len() == connections.capacity() {
            connections.retain(|c| !c.is_gone());
        }
        connections.push(Arc::clone(connection));
        // Relaxed: see `has_disarmed`.
        self.disarmed_count
            .store(connections.len(), Ordering::Relaxed);
        drop(disarmed);
        // SeqCst fence, which pairs with that in `fall_asleep_for_descriptor`: either the owner, who may be
        // another thread, sees the count, or we see that it falls asleep.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        self.asleep_for_descriptor.load(Ordering::Relaxed)
    }

    /// Takes those connections, to have them armed; and how many events of theirs are to be counted now.
    pub fn take_disarmed(&self) -> (Vec<Arc<ConnectionCore>>, u64) {
        let mut disarmed = self.disarmed.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: see `has_disarmed`.
        self.disarmed_count.store(0, Ordering::Relaxed);
        let taken = core::mem::take(&mut *disarmed);
        (taken.connections, taken.uncounted)
    }

    /// Looks at those connections, and hands at most `max` in which something is new to `put`. Returns nothing if
    /// peers have to be asked to ring again.
    #[inline]
    pub fn look_at_disarmed(&self, max: usize, mut put: impl FnMut(u32)) -> Option<Looked> {
        let mut disarmed = self.disarmed.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = &disarmed.connections;
        let too_long = disarmed.empty_looks >= EMPTY_LOOKS_MAX;
        if too_long || connections.len() > HOT_MAX || connections.iter().any(|c| c.wants_room()) {
            return None;
        }
        let mut found = 0;
        // Where few are asked for, they take turns.
        let first = if disarmed.next < connections.len() {
            disarmed.next
        } else {
            0
        };
        let mut at = first;
        for _ in 0..connections.len() {
            let connection = &connections[at];
            at = if at + 1 < connections.len() {
                at + 1
            } else {
                0
            };
            if found < max && !connection.is_gone() && connection.tell_news() {
                put(connection.number);
                found += 1;
            }
        }
        disarmed.next = first + found;
        disarmed.uncounted += found as u64;
        disarmed.empty_looks = if found == 0 {
            disarmed.empty_looks + 1
        } else {
            0
        };
        let is_time = found == 0 || disarmed.uncounted >= COUNTED_AT_ONCE;
        let to_count = if is_time {
            core::mem::take(&mut disarmed.uncounted)
        } else {
            0
        };
        Some(Looked { found, to_count })
    }

    /// Whether connections that are looked at directly come before others this time: they take turns.
    #[inline]
    pub fn disarmed_first(&self) -> bool {
        // Relaxed: a mistake between threads costs a turn.
        let first = !self.others_first.load(Ordering::Relaxed);
        self.others_first.store(first, Ordering::Relaxed);
        first
    }

    /// Whether so many connections more may be looked at directly.
    pub fn has_place_for(&self, connections: usize) -> bool {
        // Relaxed: see `has_disarmed`. The owner's own loop sleeps too often for that to pay.
        self.disarmed_count.load(Ordering::Relaxed) + connections <= HOT_MAX
            && !self.descriptor_used.load(Ordering::Relaxed)
    }
}
