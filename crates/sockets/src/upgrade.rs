//! How the two ends of a TCP connection find each other, prove who they are, and come to
//! share a carrier. Those of a Unix socket do so in the same steps; what differs: `local`.
//!
//! 1. **Marks.** Our listening and connecting sockets do not loop multicasts back, which means
//!    nothing to TCP, is passed on to accepted sockets, and can be seen by whoever asks the
//!    kernel (`sock_diag`) for the other end of a connection. So does each end after some
//!    calls. A hint: it keeps programs that never meet another on board from looking further.
//! 2. **Meeting place.** If there is a mark, each end goes to the abstract Unix socket that is
//!    named by the connection's two addresses, in an order that both know. The first binds
//!    it and looks now and then for the second, who connects, leaves a greeting with the
//!    carrier's memory there, and goes on at once. The name lives in the network namespace,
//!    as the addresses do. Behind address translation the names differ, and nobody meets.
//! 3. **Proof.** Each end asks the kernel again whose the other end of this very
//!    TCP connection is, and compares with the credentials of who came to the meeting
//!    place, and with the socket cookies in the greeting. No descriptor is sent before.
//!
//! A failure at any step leaves the connection with the kernel.
//!
//! Greeting, 40 bytes, native byte order; the memory's descriptor comes with it:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `barewr1\0` |
//! | 8..16 | the sender's socket cookie |
//! | 16..24 | the cookie of the other end, as the sender sees it |
//! | 24..28 | ring size in bytes |
//! | 28..40 | 0 |

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::{Direction, Receiver, Sender, SharedMemory, UP};

use crate::kernel::{self, Name, Owned, Peer};
use crate::lock::Held;
use crate::memory::{self, CARRIER_BYTES, RING_BYTES};
use crate::record::{
    self, CAREFUL, DELAYS, LOCAL, MET, NEVER_UP, NONBLOCKING, OPENER, Record, State, Why,
};
use crate::{local, process, report, seeker, settings};

/// Looks for the other end before we give up. The pauses between them double.
const LOOKS_MAX: u32 = 24;

const MAGIC: [u8; 8] = *b"barewr1\0";
const GREETING_BYTES: usize = 40;

/// So many times as many calls and bytes for a Unix socket: the kernel is quicker with it, and
/// slower to say who has the other end.
const LOCAL_FACTOR: u32 = 4;

/// Marks a socket before it listens or connects.
pub fn mark(fd: c_int) -> bool {
    kernel::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0)
}

/// Called when bytes move on a socket that is not up. Goes a step towards it, now and then.
#[inline]
pub fn advance(fd: c_int, record: &'static Record, bytes: u64) {
    let calls = record.calls.fetch_add(1, Ordering::Relaxed) + 1;
    let moved = record.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
    match record.state() {
        State::Candidate => {
            let reached = |part: u32| {
                let settings = settings::get();
                let factor = if record.has(LOCAL) { LOCAL_FACTOR } else { 1 };
                calls >= settings.calls_before.saturating_mul(factor) / part
                    || moved
                        >= settings.bytes_before.saturating_mul(factor.into()) / u64::from(part)
            };
            if !record.has(CAREFUL) && reached(2) {
                record.set(CAREFUL, true);
            }
            if reached(1) {
                begin(fd, record);
            }
        }
        State::Seeking => {
            let looks = record.looks.load(Ordering::Relaxed);
            // The pauses double: at the calls after 0, 1, 2, 4, 8 ... of them.
            let calls = record.calls.load(Ordering::Relaxed);
            if calls >= 1 << looks.min(20) && record.claim(State::Seeking) {
                look(fd, record);
            }
        }
        _ => {}
    }
}

/// Goes to the meeting place.
#[cold]
fn begin(fd: c_int, record: &'static Record) {
    // A socket that another process has too cannot change lanes behind its back.
    let is_shared = record.processes.load(Ordering::Relaxed) != 1;
    if is_shared || local::is_wake_up(record) {
        record.note_why(if is_shared { Why::Given } else { Why::WakeUp });
        return count_again(record);
    }
    if !record.claim(State::Candidate) {
        return;
    }
    if record.has(NEVER_UP) {
        return record.make_plain(Why::Usage);
    }
    end_seeking(record);
    let ends = match ends(fd, record) {
        Ok(ends) if ends.peer.is_marked => ends,
        Ok(_) => return record.make_plain(Why::NotOnBoard),
        Err(Why::None) => {
            count_again(record);
            return record.unclaim(State::Candidate);
        }
        Err(why) => return record.make_plain(why),
    };
    // Twice: the other end may come to the place between our two attempts.
    for _ in 0..2 {
        if let Some(socket) = kernel::connect_abstract(&ends.name) {
            return offer(fd, record, &socket);
        }
        if let Some(socket) = kernel::listen_abstract(&ends.name) {
            seeker::put(record, socket);
            record.calls.store(0, Ordering::Relaxed);
            record.looks.store(0, Ordering::Relaxed);
            return record.set_state(State::Seeking);
        }
    }
    record.make_plain(Why::NoMeeting);
}

/// As if nothing had moved yet.
fn count_again(record: &Record) {
    record.calls.store(0, Ordering::Relaxed);
    record.bytes.store(0, Ordering::Relaxed);
}

/// The two ends of a connection.
struct Ends {
    /// Where they meet.
    name: Name,
    /// Who has the other.
    peer: Peer,
}

/// Asks the kernel for the other end. The reason [`Why::None`]: not yet.
fn ends(fd: c_int, record: &Record) -> Result<Ends, Why> {
    if record.has(LOCAL) {
        if !kernel::unix::is_simple(fd) {
            return Err(Why::Usage);
        }
        return local::ends(fd, record).map(|(name, peer)| Ends { name, peer });
    }
    let tuple = kernel::tuple(fd).ok_or(Why::Kind)?;
    let peer = kernel::other_end(&tuple).ok_or(Why::NotOnBoard)?;
    let name = tuple.meeting_place();
    Ok(Ends { name, peer })
}

/// The other end is at the meeting place: proves it, and leaves the carrier's memory there.
fn offer(fd: c_int, record: &'static Record, socket: &Owned) {
    let Some(peer) = proven_peer(fd, record, socket) else {
        return refuse(record, Why::NotProven);
    };
    let Some(memory) = kernel::sealed_memory(CARRIER_BYTES) else {
        return refuse(record, Why::NoMemory);
    };
    let Some(cookie) = kernel::cookie(fd) else {
        return refuse(record, Why::Kind);
    };
    if !memory::map_carrier(record.number(), memory.raw()) {
        return refuse(record, Why::NoMemory);
    }
    let mut greeting = [0_u8; GREETING_BYTES];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..16].copy_from_slice(&cookie.to_ne_bytes());
    greeting[16..24].copy_from_slice(&peer.cookie.to_ne_bytes());
    greeting[24..28].copy_from_slice(&RING_BYTES.to_ne_bytes());
    // Up first: the other end may use the carrier as soon as it has the memory.
    if !go_up(fd, record, 0) {
        memory::unmap_carrier(record.number());
        count_again(record);
        return record.unclaim(State::Candidate);
    }
    if !kernel::send_with_descriptor(socket.raw(), &greeting, memory.raw()) {
        // Up all the same: the other end never says that it is, so all goes over the line.
        record.note_why(Why::NoMeeting);
    }
}

/// Looks whether the other end has come.
#[cold]
fn look(fd: c_int, record: &'static Record) {
    let looks = record.looks.fetch_add(1, Ordering::Relaxed);
    let Some(own) = seeker::get(record) else {
        // It was looked for by another process, or the program has closed our descriptor.
        return begin_anew(record);
    };
    let come = if record.has(MET) {
        record.set(MET, false);
        seeker::take(record)
    } else {
        kernel::accept_now(own)
    };
    let Some(socket) = come else {
        return look_again(record, looks);
    };
    let mut greeting = [0_u8; GREETING_BYTES];
    let Some(memory) = kernel::receive_with_descriptor(socket.raw(), &mut greeting) else {
        // It is not there yet.
        return look_later(record, socket, looks);
    };
    match take_offer(fd, record, &socket, &greeting, &memory) {
        Ok(true) => end_seeking(record),
        Ok(false) => look_later(record, socket, looks),
        Err(why) => {
            end_seeking(record);
            refuse(record, why);
        }
    }
}

fn begin_anew(record: &'static Record) {
    record.set(MET, false);
    count_again(record);
    record.unclaim(State::Candidate);
}

/// The next look goes on with whoever has come.
fn look_later(record: &'static Record, come: Owned, looks: u32) {
    record.set(MET, true);
    seeker::put(record, come);
    look_again(record, looks);
}

fn look_again(record: &'static Record, looks: u32) {
    if looks > LOOKS_MAX {
        end_seeking(record);
        return refuse(record, Why::NoMeeting);
    }
    record.unclaim(State::Seeking);
}

/// Goes up with what the other end has left. `false`: not now.
fn take_offer(
    fd: c_int,
    record: &'static Record,
    socket: &Owned,
    greeting: &[u8; GREETING_BYTES],
    memory: &Owned,
) -> Result<bool, Why> {
    let peer = proven_peer(fd, record, socket).ok_or(Why::NotProven)?;
    let cookie = kernel::cookie(fd).ok_or(Why::Kind)?;
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&greeting[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    if greeting[..8] != MAGIC || word(8) != peer.cookie || word(16) != cookie {
        return Err(Why::NotProven);
    }
    if word(24) != u64::from(RING_BYTES) || !kernel::is_sealed(memory.raw(), CARRIER_BYTES) {
        return Err(Why::NoMemory);
    }
    if !memory::map_carrier(record.number(), memory.raw()) {
        return Err(Why::NoMemory);
    }
    let is_up = go_up(fd, record, 1);
    if !is_up {
        memory::unmap_carrier(record.number());
    }
    Ok(is_up)
}

/// Who is at the other end of the connection, if that is who is on `socket`.
fn proven_peer(fd: c_int, record: &Record, socket: &Owned) -> Option<Peer> {
    let peer = ends(fd, record).ok()?.peer;
    let user = kernel::peer_user(socket.raw())?;
    // A socket that nobody has accepted yet has no inode; users that our user namespace
    // does not know all look like the overflow user.
    let known = peer.inode != 0 && user != kernel::OVERFLOW_USER;
    (known && peer.user == user).then_some(peer)
}

/// From here on the socket follows the carrier's protocol. Not if someone is in the middle
/// of a call, or has just closed it or given it away. The caller has claimed the step.
fn go_up(fd: c_int, record: &'static Record, side: u32) -> bool {
    let (Some(send), Some(recv)) = (record.send_lock.hold_for(5), record.recv_lock.hold_for(5))
    else {
        return false;
    };
    let alone = record.processes.load(Ordering::Relaxed) == 1;
    let may = alone && !record.has(NEVER_UP);
    if record.state() != State::Stepping || !may || !kernel::take_part_in_barriers() {
        return false;
    }
    let positions = if record.has(LOCAL) {
        local::positions(fd, record, side)
    } else {
        kernel::stream_positions(fd, record.has(OPENER))
    };
    let Some((sent, read)) = positions else {
        return false;
    };
    record.set(NONBLOCKING, kernel::never_waits(fd));
    become_up(record, side, &send, &recv, sent, read);
    drop(recv);
    drop(send);
    keep_tokens_fast(fd);
    report::upgraded();
    true
}

/// A token must not wait until what went before it is acknowledged: answers that go through
/// the ring acknowledge nothing. What the program has set it is shown, and gets back.
pub fn keep_tokens_fast(fd: c_int) {
    let up = record::find(fd).filter(|record| record.state() == State::Up);
    let Some(record) = up.filter(|record| !record.has(LOCAL)) else {
        return;
    };
    let delays = kernel::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY) == Some(0);
    record.set(DELAYS, delays);
    if delays {
        kernel::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    }
}

/// Gives the line back as the program wanted it.
pub fn restore_delays(fd: c_int, record: &Record) {
    if record.has(DELAYS) {
        record.set(DELAYS, false);
        kernel::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
    }
}

fn become_up(
    record: &'static Record,
    side: u32,
    send: &Held<'_>,
    recv: &Held<'_>,
    sent: u64,
    read: u64,
) {
    let out = Direction::from_side(side, RING_BYTES);
    record::set_ends(
        record,
        send,
        recv,
        Sender::new(out, sent),
        Receiver::new(out.reversed(), read),
    );
    record.side.store(side, Ordering::Relaxed);
    record
        .line_checked_ns
        .store(process::now_ns(), Ordering::Relaxed);
    record.note_why(Why::None);
    // Other threads may be asleep on the line, in whatever call: until someone reads, the
    // other end is to wake them.
    let _ = record.receiver(recv).arm(&record.carrier());
    record.set_state(State::Up);
    record.carrier().store(UP + side as usize, 1);
}

fn refuse(record: &'static Record, why: Why) {
    report::refused();
    record.make_plain(why);
}

/// Closes the socket at the meeting place.
pub fn end_seeking(record: &Record) {
    drop(seeker::take(record));
    record.set(MET, false);
}
