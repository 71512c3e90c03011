//! Deferred close: descriptors that a stranger may have touched are closed so that nobody can make the
//! program wait.
//!
//! A `close` can block for as long as the file wants: a TCP socket that lingers for unsent bytes, a
//! file of a file system whose server does not answer. Anybody can send such a descriptor to a socket that
//! can be reached, and whoever discards the message unread is the one who blocks. So the library
//! shuts its own sockets down first. If one then holds an unexpected message, a thread of its own closes it.
//! The same goes for received descriptors that are not what was agreed.

use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::sync::atomic::{AtomicU32, Ordering};

use barewire_calls::process::without_signals;
use barewire_calls::{descriptor, memory, message, name};

use crate::system::{fd_passing, kernel::Owned};

/// Threads that close at a time.
const THREADS_MAX: u32 = 8;
static THREADS: AtomicU32 = AtomicU32::new(0);

/// Whether so many descriptors are being closed that no new ones should be exposed to strangers.
pub fn is_overloaded() -> bool {
    // Relaxed: a hint.
    THREADS.load(Ordering::Relaxed) >= THREADS_MAX
}

/// A child has none of its parent's threads.
pub fn after_fork() {
    for place in core::iter::once(&THREADS).chain(&WAITING) {
        // Relaxed: nobody else is there. What is not written is still one page with the parent's.
        if place.load(Ordering::Relaxed) != 0 {
            place.store(0, Ordering::Relaxed);
        }
    }
}

/// Closes a rendezvous socket, and the connections to it that were not accepted.
pub fn rendezvous_socket(own: Owned) {
    shut(&own);
    loop {
        match name::accept(own.raw()) {
            Ok(visitor) => {
                let visitor = Owned::moved(visitor);
                shut(&visitor);
                close_shut(visitor);
            }
            Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => return close_in_thread(own),
            Err(_) => return close_shut(own),
        }
    }
}

/// As [`rendezvous_socket`], for one whose first message was received and is as agreed.
pub fn greeted_socket(own: Owned) {
    shut(&own);
    fd_passing::skip_message(own.raw());
    close_shut(own);
}

/// From here on nobody can connect to it or send anything to it.
fn shut(own: &Owned) {
    descriptor::shut(own.raw(), libc::SHUT_RDWR);
}

fn close_shut(own: Owned) {
    if message::is_there(own.raw()).unwrap_or(false) {
        close_in_thread(own);
    }
}

/// Closes a descriptor that came from another process.
pub fn received_descriptor(theirs: Owned) {
    let is_quick = memory::seals(theirs.raw()).is_ok() || fd_passing::is_only_a_name(theirs.raw());
    if !is_quick {
        close_in_thread(theirs);
    }
}

/// Descriptors that wait for a thread, plus 1; 0: a free place.
static WAITING: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// Closes it in a thread of its own, or in one that already closes others. If there is no place, it stays
/// open: that is a small price beside a program that blocks.
fn close_in_thread(slow: Owned) {
    let fd = slow.into_raw().unsigned_abs();
    for place in &WAITING {
        // SeqCst pairs with the loads in `close_waiting`: a thread that ends sees this descriptor, or `is_one_more`
        // sees that it ends. The Release in it pairs with the Acquire of `take`.
        let put = place.compare_exchange(0, fd + 1, Ordering::SeqCst, Ordering::Relaxed);
        if put.is_ok() {
            break;
        }
    }
    if is_one_more() && !begin_thread() {
        // Relaxed: nothing was closed. What another thread left to this one stays open until the next call.
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn begin_thread() -> bool {
    // SAFETY: all that is passed lives until the calls return; the thread gets a number.
    unsafe {
        let mut attributes: libc::pthread_attr_t = zeroed();
        if libc::pthread_attr_init(&raw mut attributes) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = zeroed();
        let none = core::ptr::null_mut();
        // The program's signals are for its own threads.
        let result = without_signals(|| {
            libc::pthread_create(&raw mut thread, &raw const attributes, close_waiting, none)
        });
        libc::pthread_attr_destroy(&raw mut attributes);
        result == 0
    }
}

extern "C" fn close_waiting(_: *mut c_void) -> *mut c_void {
    // Acquire pairs with the exchange in `close_in_thread`.
    let take = |place: &AtomicU32| place.swap(0, Ordering::Acquire).checked_sub(1);
    loop {
        while let Some(fd) = WAITING.iter().find_map(take) {
            drop(Owned::from_raw(fd as c_int));
        }
        // SeqCst pairs, here and below, with the count in `is_one_more` and the exchange in `close_in_thread`. What
        // was put while this was one of too many is seen here.
        THREADS.fetch_sub(1, Ordering::SeqCst);
        let waits = |place: &AtomicU32| place.load(Ordering::SeqCst) != 0;
        if !WAITING.iter().any(waits) || !is_one_more() {
            return core::ptr::null_mut();
        }
    }
}

/// Counts one more thread that closes, unless there are enough.
fn is_one_more() -> bool {
    let one_more = |count| (count < THREADS_MAX).then(|| count + 1);
    // SeqCst pairs with `fetch_sub` in `close_waiting`: who finds enough threads has put its descriptor before one
    // of them looks for the last time.
    let counted = THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
    counted.is_ok()
}
