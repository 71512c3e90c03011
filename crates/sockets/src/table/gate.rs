//! The lock under which descriptors come and go.

use crate::process::lock::Lock;

/// Held while a descriptor comes to have a record, or ceases to, while a carrier is mapped, and during
/// a fork: a child's table has what is counted for it. Of one process; nothing is waited for while it is held.
pub static GATE: Lock = Lock::new();

/// This thread is about to fork.
pub fn begin_fork() {
    core::mem::forget(GATE.hold());
}

/// It has.
pub fn end_fork() {
    GATE.reset();
}
