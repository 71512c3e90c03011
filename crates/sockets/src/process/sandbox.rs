//! Programs in a sandbox: a filter of system calls (seccomp(2)).
//!
//! A filter permits the calls that the program's author has thought of. This library makes others: an
//! upgrade reads socket options, a thread that sleeps arms and peeks. In a sandbox these calls would
//! fail, or kill the program.
//!
//! | state | from | what |
//! |---|---|---|
//! | unknown | start | there was no socket yet; nobody has asked whether a filter was inherited |
//! | open | no filter, or one that the library survives | sockets are carried |
//! | leaving | the program is about to set a filter | no socket is upgraded, all fall back to the kernel |
//! | sandboxed | it has set one, or inherited one that kills | the library makes no call that the program did not make |
//!
//! **A filter that the program sets** is seen in advance, in `prctl` and `syscall`. Before it takes effect,
//! all sockets of the process fall back to the kernel, as before another program begins. Then the table of
//! descriptors is hidden: no interposed function finds anything in it, and each passes its call on. This is
//! also done if the filter is for one thread only, or for a child made by vfork, which shares this memory:
//! both lose speed, never a call. The handler for faults is removed as well. If no filter was set after
//! all, new sockets are carried again. Children have a copy of this state.
//!
//! **A filter that was inherited** came from a container, a service manager, or a sandbox that begins
//! programs. Containers' filters answer unwanted calls with an error, and programs there are to be carried.
//! Service managers' filters usually kill. Without privileges nobody can read the filter itself. So, before
//! the first socket, a copy of this process makes every call that the library makes for itself
//! (`sandbox_probe`). If the copy is killed, this process counts as sandboxed from the start. A program
//! without sockets pays nothing. One without a filter pays for reading a line. On a kernel without `/proc`
//! the copy is made too.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::process::clock;
use crate::process::words::Lone;

const UNKNOWN: u32 = 0;
const OPEN: u32 = 1;
const LEAVING: u32 = 2;
const SANDBOXED: u32 = 3;
/// Bits of the state, where above them stand, while it is sandboxed: the one before, and how many
/// filters there are, or are about to be. An inherited one is counted, too.
const STATES: u32 = 3;
const BEFORE: u32 = 1 << 2;
const FILTER: u32 = 1 << 3;

/// Whoever sets a filter hides the table of descriptors first, then changes this, then sets the filter. Of a filter
/// that was inherited the library finds out before there is a socket.
static STATE: Lone<AtomicU32> = Lone::new(AtomicU32::new(UNKNOWN));
/// Whether all sockets have left, or are about to: also if no filter was set after all.
static ALL_LEFT: AtomicBool = AtomicBool::new(false);

/// Whether sockets may be upgraded, as far as filters are concerned; `find_out` says so if that is
/// not known yet.
#[inline]
pub fn is_open_or(find_out: impl FnOnce() -> bool) -> bool {
    match STATE.get() {
        OPEN => true,
        UNKNOWN => find_out(),
        _ => false,
    }
}

/// Whether the library must make no call of its own.
#[inline]
pub fn is_sandboxed() -> bool {
    STATE.get() & STATES == SANDBOXED
}

/// Whether it may make the calls that it is known to survive.
pub fn is_open() -> bool {
    STATE.get() == OPEN
}

/// Whether all sockets fell back to the kernel at some time while calls on them went on.
pub fn all_left() -> bool {
    // Acquire pairs with the Release in `note_all_left`.
    ALL_LEFT.load(Ordering::Acquire)
}

/// Notes whether the library survives the inherited filter. Returns whether this is the first to find out:
/// another thread may have found out too, or begun to leave.
pub fn note_found(lives: bool) -> bool {
    let state = if lives { OPEN } else { SANDBOXED + FILTER };
    STATE.exchange(UNKNOWN, state)
}

/// One filter more. If it is the first, returns the previous state, and the caller makes all sockets fall
/// back.
pub fn begin_leaving() -> Option<u32> {
    leave(&STATE)
}

/// All sockets are about to fall back.
pub fn note_all_left() {
    // Release pairs with the Acquire in `all_left`: it is set before any socket leaves.
    ALL_LEFT.store(true, Ordering::Release);
}

/// They have left: from now on the library makes no call of its own. `before`: the state that
/// [`begin_leaving`] gave.
pub fn note_sandboxed(before: u32) {
    STATE.set(SANDBOXED + before * BEFORE + FILTER);
}

/// One filter less. If it was the only one, the caller gets the state before, and calls
/// [`note_state`] when the tables are in place again.
pub fn begin_to_come_back() -> Option<u32> {
    come_back(&STATE)
}

/// Back to this state.
pub fn note_state(before: u32) {
    STATE.set(before);
}

/// Whether sockets are carried in a state.
pub const fn is_open_state(state: u32) -> bool {
    state == OPEN
}

/// One filter more. If it is the first, the state is now leaving, and the caller gets the one before.
fn leave(state: &Lone<AtomicU32>) -> Option<u32> {
    loop {
        let now = state.get();
        let change = |to| state.exchange(now, to);
        match now & STATES {
            // Another thread is at it, and waits for nobody for long.
            LEAVING => clock::yield_now(),
            SANDBOXED if change(now + FILTER) => return None,
            UNKNOWN | OPEN if change(LEAVING) => return Some(now),
            _ => {}
        }
    }
}

/// One filter less. If it was the only one, the state is now leaving, and the caller gets the one
/// before.
fn come_back(state: &Lone<AtomicU32>) -> Option<u32> {
    loop {
        let now = state.get();
        let is_last = now / FILTER == 1;
        let to = if is_last { LEAVING } else { now - FILTER };
        if state.exchange(now, to) {
            return is_last.then_some(now / BEFORE % 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_does_not_undo_the_filter_of_another() {
        for before in [UNKNOWN, OPEN] {
            let state = Lone::new(AtomicU32::new(before));
            assert_eq!(leave(&state), Some(before));
            state.set(SANDBOXED + before * BEFORE + FILTER);
            assert_eq!(leave(&state), None);
            assert_eq!(come_back(&state), None);
            assert_eq!(state.get() & STATES, SANDBOXED);
            assert_eq!(come_back(&state), Some(before));
            assert_eq!(state.get(), LEAVING);
        }
    }

    #[test]
    fn an_inherited_filter_stays() {
        let state = Lone::new(AtomicU32::new(SANDBOXED + FILTER));
        assert_eq!((leave(&state), come_back(&state)), (None, None));
        assert_eq!(state.get(), SANDBOXED + FILTER);
    }
}
