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
//! which has our memory: both lose speed, never a call. If there is no filter after all, new
//! sockets are carried again. Children have a copy of all this.
//!
//! **A filter that was inherited** came from a container, a service manager, or a sandbox that
//! begins programs. Those of containers answer what they do not like with an error, as the kernel
//! would, and there programs are to be carried; those of service managers kill as a rule. The
//! filter itself cannot be read without privileges. So, before the first socket, a copy of this
//! process makes every call that this library makes for itself ([`probe`]): if that is killed, this
//! process is confined from the start. A program without sockets pays nothing, one without a filter
//! the reading of a line. A kernel without `/proc` is probed, too.

mod probe;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::hooks::lifetime;
use crate::{process, real, record, status};

const UNKNOWN: u32 = 0;
const OPEN: u32 = 1;
const LEAVING: u32 = 2;
const CONFINED: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Whether sockets may come on board. The first to ask finds out.
#[inline]
pub fn may_come() -> bool {
    // Relaxed, here and below: whoever changes it to confined has hidden the table before, and its
    // own calls come behind.
    match STATE.load(Ordering::Relaxed) {
        OPEN => true,
        // Where nothing can be carried, it does not matter.
        UNKNOWN => !record::is_hidden() && find_out(),
        _ => false,
    }
}

/// Whether this library is to make no call of its own.
#[inline]
pub fn is_confined() -> bool {
    STATE.load(Ordering::Relaxed) == CONFINED
}

/// Whether it may make those that it has been found to survive: it has sockets, or had.
pub fn is_open() -> bool {
    STATE.load(Ordering::Relaxed) == OPEN
}

#[cold]
fn find_out() -> bool {
    let saved = real::errno();
    let lives = !probe::is_filtered() || probe::lives();
    real::set_errno(saved);
    let state = if lives { OPEN } else { CONFINED };
    // Another thread may have found the same, or begun to leave.
    let found = STATE.compare_exchange(UNKNOWN, state, Ordering::Relaxed, Ordering::Relaxed);
    if found.is_ok() && !lives {
        record::hide();
        status::confined(true);
    }
    STATE.load(Ordering::Relaxed) == OPEN
}

/// The program is about to set a filter: all its sockets go back to the kernel. Whoever gets the
/// state before says if the filter was [`refused`]; it is `None` if there is a filter already.
pub fn begin() -> Option<Before> {
    let before = loop {
        let state = STATE.load(Ordering::Relaxed);
        if state == CONFINED {
            return None;
        }
        let leaving = STATE.compare_exchange(state, LEAVING, Ordering::Relaxed, Ordering::Relaxed);
        if state != LEAVING && leaving.is_ok() {
            break Before(state);
        }
        // Another thread is at it, and waits for nobody for long.
        process::give_way();
    };
    let saved = real::errno();
    // A look-up might need calls.
    real::look_up_all();
    lifetime::let_all_go();
    record::hide();
    status::confined(true);
    real::set_errno(saved);
    STATE.store(CONFINED, Ordering::Relaxed);
    Some(before)
}

/// The state before a filter.
pub struct Before(u32);

/// There is no filter after all: sockets may come on board again. Those that left are the kernel's.
pub fn refused(before: &Before) {
    record::show();
    status::confined(false);
    STATE.store(before.0, Ordering::Relaxed);
}
