//! The descriptors of rendezvous sockets. They stay open between two calls of the program while a
//! connection looks for its other end. Each connection has up to two.
//!
//! Unlike the socket states they belong to one process: a child has copies, and closes them. A program that
//! closes descriptors it does not know may close these as well. Then the library forgets them, since
//! the program's next socket may get the number.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::process::words::Lone;
use crate::process::{deferred_close, ids, memory};
use crate::system::kernel::Owned;
use crate::table::descriptors;
use crate::table::limits::SOCKETS_MAX;
use crate::table::socket_state::SocketState;

/// Which of the two descriptors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The rendezvous socket itself.
    Place = 0,
    /// A connection to it, which may come from the other end.
    Visitor = 1,
}

const PARTS: usize = 2;

/// By number of the socket state, then part: the descriptor plus 1; 0 for none.
static SEEKERS: AtomicPtr<Lone<AtomicU32>> = AtomicPtr::new(core::ptr::null_mut());
/// Whether there ever was one, in this process or one that it is a child of.
static ANY: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));

const TABLE_BYTES: usize = SOCKETS_MAX as usize * PARTS * 4;
/// Bytes that [`set_up`] takes.
pub const PRIVATE_BYTES: usize = memory::private_bytes(TABLE_BYTES);

/// Reserves the table.
pub fn set_up() -> bool {
    let Some(table) = memory::part_private(TABLE_BYTES) else {
        return false;
    };
    // Release pairs with the Acquire in `slot`.
    SEEKERS.store(table.cast(), Ordering::Release);
    true
}

/// Only who has claimed the socket's step comes here, or its last closer.
fn slot(number: u32, part: Part) -> &'static Lone<AtomicU32> {
    // Acquire pairs with the Release in `set_up`, without which there are no socket states.
    let table = SEEKERS.load(Ordering::Acquire);
    // SAFETY: the table has PARTS words for each of SOCKETS_MAX, and is never unmapped.
    unsafe { &*table.add(number as usize * PARTS + part as usize) }
}

/// Keeps a descriptor for a socket, which has none of that part.
pub fn put(socket: &SocketState, part: Part, link: Owned) {
    let fd = link.into_raw();
    descriptors::note_own(fd, socket);
    ANY.set(true);
    slot(socket.number(), part).set(fd.unsigned_abs() + 1);
}

/// The descriptor for a socket, if this process has one.
pub fn get(socket: &SocketState, part: Part) -> Option<c_int> {
    let found = slot(socket.number(), part).get();
    Some(found.checked_sub(1)? as c_int)
}

/// Gives up the descriptor for a socket. A child made by vfork leaves it to its parent, which owns the table.
pub fn take(socket: &SocketState, part: Part) -> Option<Owned> {
    if get(socket, part).is_none() || ids::is_vfork_child() {
        return None;
    }
    let found = slot(socket.number(), part).swap(0);
    let fd = found.checked_sub(1)? as c_int;
    descriptors::forget_own(fd);
    Some(Owned::from_raw(fd))
}

/// Closes the descriptors for a socket.
pub fn close(socket: &SocketState) {
    for part in [Part::Place, Part::Visitor] {
        take(socket, part)
            .into_iter()
            .for_each(deferred_close::rendezvous_socket);
    }
}

/// The program closes such a descriptor, which it does not know of.
pub fn lost(number: u32, fd: c_int) {
    for part in [Part::Place, Part::Visitor] {
        slot(number, part).exchange(fd.unsigned_abs() + 1, 0);
    }
    descriptors::forget_own(fd);
}

/// A child closes its copies.
#[inline]
pub fn after_fork() {
    if ANY.get() {
        close_copies();
    }
}

#[cold]
fn close_copies() {
    descriptors::for_each_own(|socket| {
        for part in [Part::Place, Part::Visitor] {
            drop(take(socket, part));
        }
    });
}
