//! The table of descriptors: the number of the socket state of each.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::process::words::{AtStart, Lone};
use crate::system::own_descriptors::HIGHEST;
use crate::table::limits::DESCRIPTORS_MAX;
use crate::table::socket_state::SOCKETS;

/// Where the socket states are, the table of descriptors, and the highest of these.
pub fn addresses() -> (usize, usize, usize) {
    let states = SOCKETS.get() as usize;
    // Relaxed: set up before, by this thread.
    let descriptors = TABLE.descriptors.load(Ordering::Relaxed) as usize;
    (states, descriptors, (&raw const HIGHEST) as usize)
}

/// The table of descriptors; and whether somebody captures, which every call looks at, too.
static TABLE: Table = Table {
    descriptors: AtomicPtr::new(core::ptr::null_mut()),
    captured: Lone::new(AtomicU32::new(0)),
};

/// In one cache line.
#[repr(C, align(16))]
struct Table {
    /// Number of the socket state of each descriptor, plus 1; 0 for none.
    descriptors: AtomicPtr<AtomicU32>,
    captured: Lone<AtomicU32>,
}

/// The word that turns capturing on. See `capture`.
#[inline]
pub fn captured() -> &'static Lone<AtomicU32> {
    &TABLE.captured
}

/// From now on descriptors can have socket states.
pub fn publish(descriptors: *mut AtomicU32) {
    AT.set(descriptors);
    // Release pairs with the Acquire in `slot`: whoever sees the table sees what is set up before.
    TABLE.descriptors.store(descriptors, Ordering::Release);
}

/// The table's memory is given back.
pub fn forget() {
    AT.set(core::ptr::null_mut());
    hide();
}

/// Where the table of descriptors is, also while it is hidden.
static AT: AtStart<AtomicPtr<AtomicU32>> = AtStart::new(AtomicPtr::new(core::ptr::null_mut()));

/// From now on no descriptor has a socket state, and none gets one.
pub fn hide() {
    // Relaxed: who still sees the table may use it, as a moment ago.
    TABLE
        .descriptors
        .store(core::ptr::null_mut(), Ordering::Relaxed);
}

/// No longer.
pub fn show() {
    // Release pairs with the Acquire in `slot`, as that of `publish` does.
    TABLE.descriptors.store(AT.get(), Ordering::Release);
}

/// Whether nothing can have a socket state: the table is hidden, or there is none.
pub fn is_hidden() -> bool {
    // Relaxed: nothing is read there.
    TABLE.descriptors.load(Ordering::Relaxed).is_null()
}

/// A descriptor of our own, for the socket state of that number.
pub const OWN: u32 = 1 << 31;

/// In place of a number: the program has just made this socket of TCP, which has no socket state yet. A hint,
/// since a descriptor can be closed past this library.
const NEW_TCP: u32 = OWN;

/// The program has made a socket of TCP.
pub fn note_new_tcp(fd: i32) {
    if let Some(slot) = slot(fd) {
        // Relaxed: it stands for itself.
        slot.store(NEW_TCP, Ordering::Relaxed);
    }
}

/// Whether the program has made this socket of TCP a moment ago. It is told once.
pub fn take_new_tcp(fd: i32) -> bool {
    // Relaxed: it stands for itself.
    let found = slot(fd).filter(|slot| slot.load(Ordering::Relaxed) == NEW_TCP);
    found
        .inspect(|slot| slot.store(0, Ordering::Relaxed))
        .is_some()
}

#[inline]
pub fn slot(fd: i32) -> Option<&'static AtomicU32> {
    // Acquire pairs with the Release in `publish` and `show`.
    let table = TABLE.descriptors.load(Ordering::Acquire);
    if table.is_null() || fd.unsigned_abs() >= DESCRIPTORS_MAX || fd < 0 {
        return None;
    }
    // SAFETY: the table has DESCRIPTORS_MAX words, and is never unmapped.
    Some(unsafe { &*table.add(fd.unsigned_abs() as usize) })
}
