//! What became of each connection: one line each, written when the last process lets go of it, if
//! `BAREWIRE_WHY` asks for it (`barewire run --why`).
//!
//! ```text
//! barewire: pid 71 fd 5 127.0.0.1:6379 - 127.0.0.1:40022: accelerated, ring 120 B out, 80 B in
//! barewire: pid 71 fd 6 127.0.0.1:6379 - 127.0.0.1:40024: kernel, the other end runs without barewire
//! barewire: pid 71 fd 7 unix:8112 - unix:8110: accelerated, ring 12 B out, 9 B in
//! ```
//!
//! Or, if `BAREWIRE_WHY_FORMAT` is `json`, one JSON object each, whose fields `docs/reference/json.md` describes:
//!
//! ```text
//! {"pid":71,"fd":5,"local":"127.0.0.1:6379","remote":"127.0.0.1:40022","inode":null,"other_inode":null,
//!  "state":"accelerated","why":"","ring_bytes":[120,80],"before":[16,1024]}
//! ```
//!
//! The lines go to a regular file that has one name, or to what standard error was at start. If that
//! descriptor has become something else, the lines are dropped.

use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64};

use barewire_calls::descriptor;
use barewire_calls::process::write_without_signals;

use crate::process::words::AtStart;
use crate::process::{ids, settings};
use crate::system::append::append;
use crate::system::text::Line;
use crate::system::{kernel, unix_sockets};
use crate::table::flags::{FALLEN_BACK, REASON_REPORTED, UNIX};
use crate::table::socket_name::SocketName;
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::table::{descriptors, report::Target};

/// Where to tell it.
static TARGET: Target = Target::nowhere();
/// Device and inode of standard error at start; 0 if it is not asked for.
static ERROR_DEVICE: AtStart<AtomicU64> = AtStart::new(AtomicU64::new(0));
static ERROR_INODE: AtStart<AtomicU64> = AtStart::new(AtomicU64::new(0));

/// Whether the lines are JSON.
static IS_JSON: AtStart<AtomicBool> = AtStart::new(AtomicBool::new(false));

fn standard_error() -> Option<(u64, u64)> {
    let status = descriptor::status(2).ok()?;
    Some((status.st_dev, status.st_ino))
}

/// Notes where to tell it, and what standard error is.
pub fn set_up() {
    if TARGET.read(c"BAREWIRE_WHY") == Some(c"-") {
        let (device, inode) = standard_error().unwrap_or((0, 0));
        ERROR_DEVICE.set(device);
        ERROR_INODE.set(inode);
    }
    IS_JSON.set(settings::variable(c"BAREWIRE_WHY_FORMAT") == Some(c"json"));
}

/// Tells what became of a socket, once. `fd` is a descriptor of it, still open.
pub fn tell(fd: i32, socket: &SocketState) {
    let Some(target) = TARGET.get() else { return };
    let state = socket.state();
    if matches!(state, State::Unconnected | State::Listening) || socket.has(REASON_REPORTED) {
        return;
    }
    socket.set(REASON_REPORTED, true);
    let mut line: Line = Line::new();
    // Nothing here can fail: a line that is too long is cut.
    let _ = if IS_JSON.get() {
        describe_as_json(&mut line, fd, socket, state)
    } else {
        describe(&mut line, fd, socket, state)
    };
    if target == c"-" {
        let at_start = (ERROR_DEVICE.get(), ERROR_INODE.get());
        if at_start.1 != 0 && standard_error() == Some(at_start) {
            let _ = write_without_signals(2, line.as_bytes());
        }
    } else {
        append(target, line.as_bytes());
    }
}

fn describe(line: &mut Line, fd: i32, socket: &SocketState, state: State) -> core::fmt::Result {
    write!(line, "barewire: pid {} fd {fd} ", ids::id())?;
    write!(line, "{}: ", SocketName { fd, socket })?;
    let (out, into) = (socket.ring_bytes_out.get(), socket.ring_bytes_in.get());
    let reason = socket.reason();
    let (calls, bytes) = (socket.calls.get(), socket.bytes.get());
    match state {
        State::Upgraded if socket.has(FALLEN_BACK) && reason != Reason::None => {
            write!(line, "accelerated, then kernel, {}", reason.text())?;
        }
        State::Upgraded => write!(line, "accelerated")?,
        State::Candidate if reason == Reason::None => {
            write!(
                line,
                "kernel, over before it was worth more: {calls} calls, {bytes} B"
            )?;
        }
        State::AtRendezvous => write!(line, "kernel, over before the other end was found")?,
        _ => write!(line, "kernel, {}", reason.text())?,
    }
    if out + into > 0 || state == State::Upgraded {
        write!(line, ", ring {out} B out, {into} B in")?;
    }
    writeln!(line)
}

/// Nothing in it has to be escaped: addresses, numbers, and texts of this library.
fn describe_as_json(
    line: &mut Line,
    fd: i32,
    socket: &SocketState,
    state: State,
) -> core::fmt::Result {
    write!(line, r#"{{"pid":{},"fd":{fd},"#, ids::id())?;
    match kernel::tuple(fd).map(|tuple| tuple.ends()) {
        Some([own, other]) => write!(line, r#""local":"{own}","remote":"{other}","#)?,
        None => write!(line, r#""local":null,"remote":null,"#)?,
    }
    let inodes = socket.has(UNIX).then(|| {
        let own = unix_sockets::inode(fd).unwrap_or(0);
        [own, socket.other_inode.get()]
    });
    for (name, inode) in ["inode", "other_inode"]
        .into_iter()
        .zip(inodes.unwrap_or([0; 2]))
    {
        match inode {
            0 => write!(line, r#""{name}":null,"#)?,
            _ => write!(line, r#""{name}":{inode},"#)?,
        }
    }
    let (before_why, why) = why(socket, state);
    let (out, into) = (socket.ring_bytes_out.get(), socket.ring_bytes_in.get());
    let (calls, bytes) = (socket.calls.get(), socket.bytes.get());
    let state = state.text();
    write!(line, r#""state":"{state}","why":"{before_why}{why}","#)?;
    writeln!(
        line,
        r#""ring_bytes":[{out},{into}],"before":[{calls},{bytes}]}}"#
    )
}

/// Why a socket was not upgraded until its end, in two parts, as `barewire ls` says it.
fn why(socket: &SocketState, state: State) -> (&'static str, &'static str) {
    let reason = socket.reason();
    match state {
        State::Upgraded if socket.has(FALLEN_BACK) && reason != Reason::None => {
            ("fell back to the kernel: ", reason.text())
        }
        State::Upgraded => ("", ""),
        State::Candidate if reason == Reason::None => ("", "over before it was worth more"),
        State::AtRendezvous => ("", Reason::Over.text()),
        _ => ("", reason.text()),
    }
}

/// Tells of all sockets that end with this process.
pub fn tell_all() {
    if TARGET.get().is_none() {
        return;
    }
    descriptors::for_each_descriptor(0, u32::MAX, |fd, socket| {
        // Another process that has it tells when it is done.
        if socket.process_count_alone() == 1 {
            tell(fd, socket);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_has_to_be_escaped_in_json() {
        let states = (0..8).map(|number| State::from_u32(number).text());
        let reasons = (0..24).map(|number| Reason::from_u32(number).text());
        for text in states.chain(reasons) {
            let is_plain = |one: char| (' '..='~').contains(&one) && !['"', '\\'].contains(&one);
            assert!(text.chars().all(is_plain), "{text}");
        }
    }
}
