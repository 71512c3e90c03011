//! The gate: the lock under which descriptors get and lose their sockets.

use crate::process::at_fork::AT_FORK;
use crate::process::lock::Lock;

/// Held while a descriptor comes to have a socket state, or ceases to, while a hybrid stream is mapped, and
/// during a fork: a child's table has what is counted for it. Of one process; nothing is waited for while
/// it is held.
pub static GATE: &Lock = Lock::at(&AT_FORK.gate.0);

/// This thread is about to fork.
pub fn begin_fork() {
    core::mem::forget(GATE.hold());
}

/// It has.
pub fn end_fork() {
    GATE.reset();
}
