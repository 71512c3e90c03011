//! Uses of a descriptor beside the program's own calls on it.
//!
//! A thread that waits on a set takes tokens off the line of a socket in it, and a thread that begins
//! another program takes all sockets back to the kernel. Meanwhile a third may close the descriptor,
//! and a fourth get its number for another socket, whose bytes would then be taken. So such a use
//! is noted, and [`begin`] looks whether the descriptor is still the socket's; whoever closes it
//! takes it out of the table first, and then waits ([`wait_for`]) until no use of it is noted. Who
//! closes the last of a socket's descriptors waits for the uses of all of them ([`wait_for_all`]): so
//! the record stays what it is, too.
//!
//! All of it is the process's own. A child made by vfork has it in common with its parent, but not
//! the kernel's descriptors: see `lifetime::give_back`.
//!
//! A note, 64 bits; 0 for none:
//!
//! | bits | what |
//! |---|---|
//! | 0..21 | descriptor, plus 1 |
//! | 21..37 | number of the record |
//! | 37..64 | thread |

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::process::{clock, ids, lock};
use crate::table::limits::{DESCRIPTORS_MAX, RECORDS_MAX};
use crate::table::socket_state::Record;

/// Uses at a time; whoever comes on top waits.
const USES_MAX: usize = 64;
static USES: [AtomicU64; USES_MAX] = [const { AtomicU64::new(0) }; USES_MAX];

const RECORD_AT: u32 = DESCRIPTORS_MAX.ilog2() + 1;
const THREAD_AT: u32 = RECORD_AT + RECORDS_MAX.ilog2();

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
        // Release: partner: the loads in wait_for. What was done with it comes before its close.
        self.0.store(0, Ordering::Release);
    }
}

/// Notes that this thread uses a descriptor. The caller then looks whether it is still the socket's.
pub fn note(fd: c_int, record: &Record) -> Use {
    let note = u64::from(ids::thread_id()) << THREAD_AT
        | u64::from(record.number()) << RECORD_AT
        | descriptor_bits(fd);
    let put = |place: &AtomicU64| {
        place
            .compare_exchange(0, note, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    };
    let place = loop {
        if let Some(place) = USES.iter().find(|place| put(place)) {
            break place;
        }
        clock::give_way();
    };
    let noted = Use(place);
    // Partner: the fence in wait_for: whoever closes sees the note, or we that it is closed.
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
pub fn wait_for_all(record: &Record) {
    let number = record.number();
    wait_for_those(|note| {
        note != 0 && note >> RECORD_AT & u64::from(RECORDS_MAX - 1) == number.into()
    });
}

fn wait_for_those(is_one: impl Fn(u64) -> bool) {
    // Partner: the fence in begin.
    fence(Ordering::SeqCst);
    let own = ids::thread_id();
    // A signal handler may close what its own thread is using.
    let is_of_others = |note: u64| is_one(note) && (note >> THREAD_AT) as u32 != own;
    for place in &USES {
        // Acquire, all: partner: the release in drop.
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
        if place.load(Ordering::Acquire) != note {
            return;
        }
        let looks = round % LOOK_ROUNDS == 0;
        if looks && (!lock::is_at_work(thread) || clock::now_ns() > until_ns) {
            let _ = place.compare_exchange(note, 0, Ordering::Acquire, Ordering::Relaxed);
            return;
        }
        if round < YIELDS {
            clock::give_way();
        } else {
            clock::sleep_us(PAUSE_US);
        }
    }
}

/// A child has none of its parent's other threads.
pub fn after_fork() {
    // Relaxed: nobody else is there.
    USES.iter()
        .for_each(|place| place.store(0, Ordering::Relaxed));
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
        let record = descriptors::add(9_020, State::Candidate).unwrap();
        let used = pin(9_020, record).unwrap();
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
        assert!(pin(9_020, record).is_none());
    }

    #[test]
    fn the_last_close_waits_for_the_uses_of_all_descriptors() {
        static OVER: AtomicBool = AtomicBool::new(false);
        let record = descriptors::add(9_024, State::Candidate).unwrap();
        descriptors::attach(9_025, record);
        let used = pin(9_024, record).unwrap();
        assert!(descriptors::detach(9_024).is_none());
        let closer = std::thread::spawn(|| {
            let record = descriptors::detach(9_025).unwrap();
            wait_for(9_025);
            wait_for_all(record);
            assert!(OVER.load(Ordering::SeqCst));
            references::leave(record);
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        OVER.store(true, Ordering::SeqCst);
        drop(used);
        closer.join().unwrap();
    }

    #[test]
    fn its_own_thread_does_not_wait_for_itself() {
        let record = descriptors::add(9_022, State::Candidate).unwrap();
        let used = pin(9_022, record).unwrap();
        references::leave(descriptors::detach(9_022).unwrap());
        wait_for(9_022);
        drop(used);
    }
}
