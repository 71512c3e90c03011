//! Patience: how much more a connection must move before it looks for its other end, since earlier ones gained
//! nothing. The connections of a program are alike. Where their other ends have no library, or where they are
//! over before the upgrade has paid, an upgrade only costs time.

use core::sync::atomic::AtomicU32;

use crate::process::words::Lone;
use crate::table::flags::UNIX;
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::upgrade::worth::{self, Moved};

/// A Unix socket needs so many times the calls and bytes of TCP: the kernel is faster with it, and slower
/// to tell who has the other end.
const UNIX_FACTOR: u32 = 4;
/// The factor doubles with each connection that gained nothing, and is halved by each that gained. So many
/// count at most, of TCP and of Unix sockets.
const MISSES_MAX: [u32; 2] = [4, 6];

/// How many more connections gained nothing than gained, of TCP and of Unix sockets.
static MISSES: [Lone<AtomicU32>; 2] = [const { Lone::new(AtomicU32::new(0)) }; 2];

fn kind(socket: &SocketState) -> usize {
    usize::from(socket.has(UNIX))
}

/// The factor for the calls and bytes that the settings ask for.
pub fn factor(socket: &SocketState) -> u32 {
    let kind = kind(socket);
    [1, UNIX_FACTOR][kind] << MISSES[kind].get()
}

/// The other end did not come.
pub fn missed(socket: &SocketState) {
    note(socket, false);
}

/// A connection ends that was upgraded, or whose other end has not come yet.
pub fn ended(socket: &SocketState) {
    match socket.state() {
        State::AtRendezvous => note(socket, false),
        State::Upgraded => note(socket, has_paid(socket)),
        _ => {}
    }
}

fn has_paid(socket: &SocketState) -> bool {
    let before = Moved {
        calls: socket.calls.get(),
        bytes: socket.bytes.get(),
        turns: 0,
    };
    let in_rings = socket.ring_bytes_out.get() + socket.ring_bytes_in.get();
    worth::has_paid(&before, in_rings)
}

fn note(socket: &SocketState, is_gain: bool) {
    let kind = kind(socket);
    let change = |misses: u32| match is_gain {
        true => misses.checked_sub(1),
        false => (misses < MISSES_MAX[kind]).then_some(misses + 1),
    };
    MISSES[kind].update(change);
}
