//! Pins: notes that a thread is using a descriptor, which a `close` in another thread waits for.
//!
//! A thread that waits on a set takes wake-up bytes off the kernel connection of a socket in it. A thread
//! that begins another program makes all sockets fall back to the kernel. Meanwhile a third thread may
//! close the descriptor, and a fourth may get its number for another socket, whose bytes would then be
//! taken. So a thread that uses the descriptor first notes a pin, and then checks whether the descriptor is
//! still that socket's (`descriptors::pin`). A thread that closes a descriptor first takes it out of the table,
//! and then waits until nobody has pinned it ([`wait_for`]). When it closes the last descriptor of a
//! socket, it waits for the pins of all of them ([`wait_for_all`]), so that the socket state is not reused
//! too early.
//!
//! Pins belong to one process. A child made by vfork shares them with its parent, but has descriptors of its
//! own: see `give_back`.
//!
//! A pin has 64 bits; 0 is none:
//!
//! | bits | what |
//! |---|---|
//! | 0..21 | descriptor, plus 1 |
//! | 21..37 | number of the socket state |
//! | 37..64 | thread |

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::process::{clock, ids, lock};
use crate::table::limits::{DESCRIPTORS_MAX, SOCKETS_MAX};
use crate::table::socket_state::SocketState;

/// Uses at a time; whoever comes on top waits.
const USES_MAX: usize = 64;
static USES: [AtomicU64; USES_MAX] = [const { AtomicU64::new(0) }; USES_MAX];
/// How many places, from the first on, have ever had a note: most programs need few, and each close looks at them.
static PLACES: AtomicUsize = AtomicUsize::new(0);

const RECORD_AT: u32 = DESCRIPTORS_MAX.ilog2() + 1;
const THREAD_AT: u32 = RECORD_AT + SOCKETS_MAX.ilog2();

/// How long a close waits. Much longer than a use takes.
const WAIT_NS: u64 = 30_000_000_000;
/// How often it looks whether whoever used it was killed, in a child made by vfork: then the note is
/// taken away.
const LOOK_ROUNDS: u32 = 1000;
/// How often it lets others run before it sleeps for so long at a time.
const YIELDS: u32 = 200;
const PAUSE_US: u32 = 50;

/// The descriptor stays the socket's until this is dropped.
pub struct Use(&'static AtomicU64);

impl Drop for Use {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `wait_for_those` and `wait_until_over`: what was done with the
        // descriptor comes before its close.
        self.0.store(0, Ordering::Release);
    }
}

/// Notes that this thread uses a descriptor. The caller then looks whether it is still the socket's.
pub fn note(fd: c_int, socket: &SocketState) -> Use {
    let note = u64::from(ids::thread_id()) << THREAD_AT
        | u64::from(socket.number()) << RECORD_AT
        | descriptor_bits(fd);
    let put = |place: &AtomicU64| {
        // Relaxed: the fence below orders it.
        place
            .compare_exchange(0, note, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    };
    let at = loop {
        if let Some(at) = USES.iter().position(put) {
            break at;
        }
        clock::yield_now();
    };
    let noted = Use(&USES[at]);
    // Relaxed: the fence below orders it.
    if PLACES.load(Ordering::Relaxed) <= at {
        PLACES.fetch_max(at + 1, Ordering::Relaxed);
    }
    // Pairs with the fence in `wait_for_those`: whoever closes sees the note, or we that it is closed.
    fence(Ordering::SeqCst);
    noted
}

fn descriptor_bits(fd: c_int) -> u64 {
    u64::from(fd.unsigned_abs() + 1)
}

/// A descriptor that has been taken out of the table is about to be closed.
pub fn wait_for(fd: c_int) {
    let mask = (1 << RECORD_AT) - 1;
    wait_for_those(|note| note & mask == descriptor_bits(fd));
}

/// The last descriptor of a socket's has been taken out of the table.
pub fn wait_for_all(socket: &SocketState) {
    let number = socket.number();
    wait_for_those(|note| is_of(note, number));
}

/// As [`wait_for`] and [`wait_for_all`].
pub fn wait_for_last(fd: c_int, socket: &SocketState) {
    let (mask, number) = ((1 << RECORD_AT) - 1, socket.number());
    wait_for_those(|note| note & mask == descriptor_bits(fd) || is_of(note, number));
}

/// Whether a note is of the socket state of this number.
const fn is_of(note: u64, number: u32) -> bool {
    note != 0 && note >> RECORD_AT & (SOCKETS_MAX - 1) as u64 == number as u64
}

fn wait_for_those(is_one: impl Fn(u64) -> bool) {
    // Pairs with the fence in `note`.
    fence(Ordering::SeqCst);
    let own = ids::thread_id();
    // A signal handler may close what its own thread is using.
    let is_of_others = |note: u64| is_one(note) && (note >> THREAD_AT) as u32 != own;
    // Relaxed: the fence orders it.
    for place in USES.iter().take(PLACES.load(Ordering::Relaxed)) {
        // Acquire pairs with the Release in the drop of `Use`.
        let note = place.load(Ordering::Acquire);
        if is_of_others(note) {
            wait_until_over(place, note);
        }
    }
}

#[cold]
fn wait_until_over(place: &AtomicU64, note: u64) {
    let until_ns = clock::now_ns() + WAIT_NS;
    let thread = (note >> THREAD_AT) as u32;
    for round in 1_u32.. {
        // Acquire pairs with the Release in the drop of `Use`.
        if place.load(Ordering::Acquire) != note {
            return;
        }
        let looks = round % LOOK_ROUNDS == 0;
        if looks && (!lock::is_at_work(thread) || clock::now_ns() > until_ns) {
            // Acquire pairs with nothing: whoever noted it is gone. It keeps the close behind.
            let _ = place.compare_exchange(note, 0, Ordering::Acquire, Ordering::Relaxed);
            return;
        }
        if round < YIELDS {
            clock::yield_now();
        } else {
            clock::sleep_us(PAUSE_US);
        }
    }
}

/// A child has none of its parent's other threads.
pub fn after_fork() {
    // Relaxed: nobody else is there. What is not written is still one page with the parent's.
    for place in USES.iter().filter(|it| it.load(Ordering::Relaxed) != 0) {
        place.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    use crate::table::state::State;
    use crate::table::{
        descriptors::{self, pin},
        references,
    };

    #[test]
    fn a_close_waits_for_a_use_and_no_use_begins_after_it() {
        static OVER: AtomicBool = AtomicBool::new(false);
        let socket = descriptors::add(9_020, State::Candidate).unwrap();
        let used = pin(9_020, socket).unwrap();
        // Another descriptor's is nobody's business.
        wait_for(9_021);
        references::leave(descriptors::detach(9_020).unwrap());
        let closer = std::thread::spawn(|| {
            wait_for(9_020);
            assert!(OVER.load(Ordering::SeqCst));
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        OVER.store(true, Ordering::SeqCst);
        drop(used);
        closer.join().unwrap();
        assert!(pin(9_020, socket).is_none());
    }

    #[test]
    fn the_last_close_waits_for_the_uses_of_all_descriptors() {
        static OVER: AtomicBool = AtomicBool::new(false);
        let socket = descriptors::add(9_024, State::Candidate).unwrap();
        descriptors::attach(9_025, socket);
        let used = pin(9_024, socket).unwrap();
        assert!(descriptors::detach(9_024).is_none());
        let closer = std::thread::spawn(|| {
            let socket = descriptors::detach(9_025).unwrap();
            wait_for(9_025);
            wait_for_all(socket);
            assert!(OVER.load(Ordering::SeqCst));
            references::leave(socket);
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        OVER.store(true, Ordering::SeqCst);
        drop(used);
        closer.join().unwrap();
    }

    #[test]
    fn a_close_waits_for_the_last_of_many_uses_too() {
        static STEP: AtomicU64 = AtomicU64::new(0);
        let socket = descriptors::add(9_030, State::Candidate).unwrap();
        let mut used: Vec<_> = (0..20).map(|_| pin(9_030, socket).unwrap()).collect();
        let last = used.pop().unwrap();
        drop(used);
        references::leave(descriptors::detach(9_030).unwrap());
        let closer = std::thread::spawn(|| {
            STEP.store(1, Ordering::SeqCst);
            wait_for(9_030);
            STEP.store(2, Ordering::SeqCst);
        });
        while STEP.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..1000 {
            std::thread::yield_now();
            assert_eq!(STEP.load(Ordering::SeqCst), 1);
        }
        drop(last);
        closer.join().unwrap();
    }

    #[test]
    fn its_own_thread_does_not_wait_for_itself() {
        let socket = descriptors::add(9_022, State::Candidate).unwrap();
        let used = pin(9_022, socket).unwrap();
        references::leave(descriptors::detach(9_022).unwrap());
        wait_for(9_022);
        drop(used);
    }
}
