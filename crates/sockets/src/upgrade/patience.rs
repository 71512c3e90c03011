//! Patience: how much more a connection must move before it looks for its other end, since earlier ones gained
//! nothing. The connections of a program are alike. Where their other ends have no library, or where they are
//! over before the upgrade has paid, an upgrade only costs time.

use core::sync::atomic::{AtomicU32, Ordering};

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
static MISSES: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

fn kind(socket: &SocketState) -> usize {
    usize::from(socket.has(UNIX))
}

/// The factor for the calls and bytes that the settings ask for.
pub fn factor(socket: &SocketState) -> u32 {
    let kind = kind(socket);
    // Relaxed: a hint.
    [1, UNIX_FACTOR][kind] << MISSES[kind].load(Ordering::Relaxed)
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
    // Relaxed: all four, since nobody moves bytes any more.
    let before = Moved {
        calls: socket.calls.load(Ordering::Relaxed),
        bytes: socket.bytes.load(Ordering::Relaxed),
        turns: 0,
    };
    // Relaxed: as above.
    let out = socket.ring_bytes_out.load(Ordering::Relaxed);
    worth::has_paid(&before, out + socket.ring_bytes_in.load(Ordering::Relaxed))
}

fn note(socket: &SocketState, is_gain: bool) {
    let kind = kind(socket);
    let change = |misses: u32| match is_gain {
        true => misses.checked_sub(1),
        false => (misses < MISSES_MAX[kind]).then_some(misses + 1),
    };
    // Relaxed: a hint.
    let _ = MISSES[kind].fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
}
