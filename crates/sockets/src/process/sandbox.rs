//! Programs that are confined by a filter of system calls (seccomp(2)).
//!
//! A filter lets a program make the calls that its author has thought of. This library makes
//! others: a socket that looks for its other end asks for options, one that sleeps arms and peeks.
//! Whoever is confined would be refused them, or killed.
//!
//! | state | from | what |
//! |---|---|---|
//! | unknown | start | no socket has been seen; whether a filter was inherited has not been asked |
//! | open | no filter, or one that lets this library live | sockets are carried |
//! | leaving | the program is about to set a filter | no socket comes on board, all go back to the kernel |
//! | confined | it has, or one was inherited that kills | the library makes no call that the program did not make |
//!
//! **A filter that the program sets** we see coming, in `prctl` and `syscall`: before it is there
//! all sockets of the process go back to the kernel, as before another program begins. Then the
//! table of descriptors is hidden: no hook finds anything in it, and each passes its call on as it
//! came. So it is also if the filter is for one thread only, or that of a child made by vfork,
//! which has our memory: both lose speed, never a call. The handler for faults goes as well. If there
//! is no filter after all, of this thread or another, new sockets are carried again. Children have a
//! copy of all this.
//!
//! **A filter that was inherited** came from a container, a service manager, or a sandbox that
//! begins programs. Those of containers answer what they do not like with an error, as the kernel
//! would, and there programs are to be carried; those of service managers kill as a rule. The
//! filter itself cannot be read without privileges. So, before the first socket, a copy of this
//! process makes every call that this library makes for itself ([`probe`]): if that is killed, this
//! process is confined from the start. A program without sockets pays nothing, one without a filter
//! the reading of a line. A kernel without `/proc` is probed, too.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::process::clock;

const UNKNOWN: u32 = 0;
const OPEN: u32 = 1;
const LEAVING: u32 = 2;
const CONFINED: u32 = 3;
/// Bits of the state, where above them stand, while it is confined: the one before, and how many
/// filters there are, or are about to be. An inherited one is counted, too.
const STATES: u32 = 3;
const BEFORE: u32 = 1 << 2;
const FILTER: u32 = 1 << 3;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
/// Whether all sockets have left, or are about to: also if no filter was set after all.
static ALL_LEFT: AtomicBool = AtomicBool::new(false);

/// Whether sockets may come on board, as far as filters are concerned; `find_out` says so if that is
/// not known yet.
#[inline]
pub fn is_open_or(find_out: impl FnOnce() -> bool) -> bool {
    // Relaxed, here and below: whoever changes it to confined has hidden the table before, and its
    // own calls come behind.
    match STATE.load(Ordering::Relaxed) {
        OPEN => true,
        UNKNOWN => find_out(),
        _ => false,
    }
}

/// Whether this library is to make no call of its own.
#[inline]
pub fn is_confined() -> bool {
    STATE.load(Ordering::Relaxed) & STATES == CONFINED
}

/// Whether it may make those that it has been found to survive: it has sockets, or had.
pub fn is_open() -> bool {
    STATE.load(Ordering::Relaxed) == OPEN
}

/// Whether all sockets there were went back to the kernel at some time, and calls on them went on.
pub fn all_left() -> bool {
    // Acquire: partner: the release in begin.
    ALL_LEFT.load(Ordering::Acquire)
}

/// Notes whether this library lives with the filter that was inherited. Returns whether this is the
/// first to find out: another thread may have found the same, or begun to leave.
pub fn note_found(lives: bool) -> bool {
    let state = if lives { OPEN } else { CONFINED + FILTER };
    let found = STATE.compare_exchange(UNKNOWN, state, Ordering::Relaxed, Ordering::Relaxed);
    found.is_ok()
}

/// One filter more. If it is the first, the caller takes all sockets back to the kernel, and gets the
/// state before.
pub fn begin_leaving() -> Option<u32> {
    leave(&STATE)
}

/// All sockets are about to leave.
pub fn note_all_left() {
    // Release: partner: the acquire in all_left: before any socket leaves.
    ALL_LEFT.store(true, Ordering::Release);
}

/// They have left: from now on the library makes no call of its own. `before`: the state that
/// [`begin_leaving`] gave.
pub fn note_confined(before: u32) {
    STATE.store(CONFINED + before * BEFORE + FILTER, Ordering::Relaxed);
}

/// One filter less. If it was the only one, the caller gets the state before, and calls
/// [`note_state`] when the tables are in place again.
pub fn begin_to_come_back() -> Option<u32> {
    come_back(&STATE)
}

/// The state is this one again.
pub fn note_state(before: u32) {
    STATE.store(before, Ordering::Relaxed);
}

/// Whether in a state sockets are carried.
pub const fn is_open_state(state: u32) -> bool {
    state == OPEN
}

/// One filter more. If it is the first, the state is now leaving, and the caller gets the one before.
fn leave(state: &AtomicU32) -> Option<u32> {
    loop {
        let now = state.load(Ordering::Relaxed);
        let change = |to| state.compare_exchange(now, to, Ordering::Relaxed, Ordering::Relaxed);
        match now & STATES {
            // Another thread is at it, and waits for nobody for long.
            LEAVING => clock::give_way(),
            CONFINED if change(now + FILTER).is_ok() => return None,
            UNKNOWN | OPEN if change(LEAVING).is_ok() => return Some(now),
            _ => {}
        }
    }
}

/// One filter less. If it was the only one, the state is now leaving, and the caller gets the one
/// before.
fn come_back(state: &AtomicU32) -> Option<u32> {
    loop {
        let now = state.load(Ordering::Relaxed);
        let is_last = now / FILTER == 1;
        let to = if is_last { LEAVING } else { now - FILTER };
        let change = state.compare_exchange(now, to, Ordering::Relaxed, Ordering::Relaxed);
        if change.is_ok() {
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
            let state = AtomicU32::new(before);
            assert_eq!(leave(&state), Some(before));
            state.store(CONFINED + before * BEFORE + FILTER, Ordering::Relaxed);
            assert_eq!(leave(&state), None);
            assert_eq!(come_back(&state), None);
            assert_eq!(state.load(Ordering::Relaxed) & STATES, CONFINED);
            assert_eq!(come_back(&state), Some(before));
            assert_eq!(state.load(Ordering::Relaxed), LEAVING);
        }
    }

    #[test]
    fn an_inherited_filter_stays() {
        let state = AtomicU32::new(CONFINED + FILTER);
        assert_eq!((leave(&state), come_back(&state)), (None, None));
        assert_eq!(state.load(Ordering::Relaxed), CONFINED + FILTER);
    }
}
