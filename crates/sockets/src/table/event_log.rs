//! What the log tells of sockets: upgrades, why others stay with the kernel or go back to it, and peers that are lost.
//! See `process::log`.

use barewire_cpu::probes::sockets as probes;
use barewire_units::log::Level;

use crate::process::log;
use crate::table::descriptors;
use crate::table::socket_name::SocketName;
use crate::table::socket_state::{self, SocketState};
use crate::table::state::{Reason, State};

/// Has all reasons logged that are noted from now on. For the constructor.
pub fn set_up() {
    if log::is_wanted(Level::Error) {
        socket_state::observe_reasons(reason_noted);
    }
}

/// How much it matters that a socket is not upgraded for this reason.
const fn level(reason: Reason) -> Level {
    match reason {
        Reason::Broken => Level::Error,
        Reason::NoRendezvous
        | Reason::NoBarriers
        | Reason::NotProven
        | Reason::NoMemory
        | Reason::Sandboxed
        | Reason::UnseenIoUring => Level::Warn,
        Reason::None
        | Reason::PeerNotUpgraded
        | Reason::Over
        | Reason::Usage
        | Reason::HandedOff
        | Reason::Kind
        | Reason::WakeUp
        | Reason::IoUring
        | Reason::Multipath
        | Reason::Profile => Level::Info,
    }
}

/// Another reason than before is noted for a socket.
fn reason_noted(socket: &SocketState, reason: Reason) {
    let what = match (socket.state(), reason) {
        (State::Upgraded, Reason::Broken) => "ends",
        (State::Upgraded, _) => "goes back to the kernel",
        (State::Kernel, _) => "stays with the kernel",
        _ => "is not upgraded for now",
    };
    tell(
        level(reason),
        socket,
        format_args!("{what}: {}", reason.text()),
    );
}

/// The socket is upgraded now.
pub fn upgraded(fd: i32, socket: &SocketState) {
    let (calls, bytes) = (socket.calls.get(), socket.bytes.get());
    probes::upgraded(fd, calls, bytes);
    tell(
        Level::Info,
        socket,
        format_args!("is upgraded after {calls} calls, {bytes} B"),
    );
}

/// The other end has gone without a word.
pub fn peer_lost(socket: &SocketState, unread_bytes: u64) {
    probes::peer_lost(socket.number(), unread_bytes);
    tell(
        Level::Warn,
        socket,
        format_args!(
            "the other end was killed, crashed or became another program, with {unread_bytes} B unread"
        ),
    );
}

fn tell(level: Level, socket: &SocketState, what: core::fmt::Arguments<'_>) {
    if !log::is_wanted(level) {
        return;
    }
    match descriptors::any_descriptor(socket) {
        Some(fd) => {
            let name = SocketName { fd, socket };
            log::line(level, format_args!("fd {fd} {name}: {what}"));
        }
        None => log::line(level, format_args!("a socket: {what}")),
    }
}
