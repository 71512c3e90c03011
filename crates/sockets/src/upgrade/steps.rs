//! The steps of an upgrade: how the two ends of a TCP connection find each other, prove who they are, and
//! come to share a hybrid stream. Unix sockets take the same steps; `unix_streams` says what differs.
//!
//! 1. **Capability mark.** The library clears `IP_MULTICAST_LOOP` on listening and connecting sockets. That
//!    option means nothing to TCP, accepted sockets inherit it, and anybody who asks the kernel for the other
//!    end of a connection (`sock_diag`) can see it. Each end asks after some calls. The mark is only a hint: if
//!    it is missing, the other end does not have the library, and this end searches no further.
//! 2. **Rendezvous.** If the mark is there, each end goes to the abstract Unix socket that is named by the
//!    connection's two addresses, in an order that both know. The first end binds it, sets the holder mark
//!    (`IP_RECVERR_RFC4884`) on its connection, and checks from time to time whether the second end has come.
//!    The second end
//!    connects, leaves a greeting with the hybrid stream's memory there, and goes on at once. The name
//!    lives in the network namespace, as the addresses do. Behind address translation the names differ, and
//!    the ends do not meet.
//! 3. **Proof.** Each end asks the kernel again who has the other end of this very TCP connection. It
//!    compares the answer with the credentials of the process at the rendezvous socket, and with the socket
//!    cookies in the greeting. No descriptor is sent or taken before. The same user is not enough: any
//!    process could wait at the rendezvous socket, or connect to it.
//!    - The second end sends nothing unless the kernel shows it the holder mark on the other end, both
//!      before and after it connects. Only a process that has the socket can set that mark. It holds the
//!      name while the mark is set, and removes the mark before it gives up the name.
//!    - The greeting comes with a descriptor of the sender's end that carries no rights (`O_PATH`). Only a
//!      process that has the socket, or may look into a process that has it, can make one.
//!
//! Anybody else who connects is turned away, and can delay the upgrade no longer than [`LOOKS_MAX`] checks
//! with [`VISITORS_A_LOOK`] visitors each. See also `deferred_close`.
//!
//! A failure at any step leaves the connection with the kernel.
//!
//! Greeting, 40 bytes, native byte order; the memory's descriptor and the proof come with it:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `barewr5\0`; the digit is the version, which the names of rendezvous sockets have, too |
//! | 8..16 | the sender's socket cookie |
//! | 16..24 | the cookie of the other end, as the sender sees it |
//! | 24..28 | size of a byte ring in bytes |
//! | 28..40 | 0 |

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_calls::{barrier, option};
use barewire_fabric::hybrid::{Receiver, Sender, SharedMemory, UP};

use crate::process::lock::Held;
use crate::process::{
    clock, deferred_close, ids,
    settings::{self, NEVER, Settings},
};
use crate::system::cancel::quietly;
use crate::system::{
    fd_passing::{self, Received},
    kernel::{self, Name, Owned, Peer},
    real::{self, errno},
    unix_sockets,
};
use crate::table::flags::{
    LAST_SENT, MARK_LOOK_1, MARK_LOOK_2, MARKED, MORE_TO_COME, NAGLE, NEAR_UPGRADE, NEVER_UPGRADE,
    NO_READS_ALONE, NONBLOCKING, OPENER, UNIX,
};
use crate::table::state::{Reason, State};
use crate::table::stream_memory::{RING_BYTES, STREAM_MEMORY_BYTES};
use crate::table::{
    admission, descriptors, directions, event_log, process_refs, report,
    socket_state::{self, SocketState},
    sockets,
};
use crate::upgrade::{
    capability_mark,
    enrol::{self, CALLS_BEFORE_MARK},
    patience,
    rendezvous::{self, Part},
    unix_streams,
    worth::{self, Decision, Moved},
};

/// Calls between two checks of the first end for the second: they double up to this. A check costs less than a
/// call that moves bytes. With pauses that doubled for ever, a second end that came in the middle of a long pause was found
/// only after as many calls again: a sender of 8 B went on with the kernel for up to 100 ms.
const PAUSE_CALLS_MAX: u32 = 1 << PAUSE_SHIFT_MAX;
const PAUSE_SHIFT_MAX: u32 = 8;

/// How often the first end checks for the second before it gives up: after 4 million calls.
const LOOKS_MAX: u32 = 16_384;

/// Which way bytes went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the program.
    In,
    /// From it.
    Out,
}

/// How many visitors one check attends to.
const VISITORS_A_LOOK: u32 = 4;

/// Attempts to connect to the rendezvous socket, or to bind it: the other end may come in between.
const ATTEMPTS: u32 = 3;

/// How often the name may be taken while nobody listens there.
const NAME_TAKEN_MAX: u32 = 8;

const MAGIC: [u8; 8] = *b"barewr5\0";
const GREETING_BYTES: usize = 40;

/// After so many tries a Unix socket that is shared, or only wakes a thread, stays with the kernel.
const LOCAL_TRIES: u32 = 3;

/// Removes the capability mark, and closes the rendezvous socket.
pub fn unmark(fd: c_int, socket: &SocketState) {
    leave_rendezvous(fd, socket);
    capability_mark::unmark(fd, socket);
}

/// Called when bytes move on a socket that is not upgraded. Takes a step towards the upgrade, at times.
#[inline]
pub fn advance(fd: c_int, socket: &'static SocketState, bytes: u64, way: Way) {
    let settings = settings::get();
    if settings.calls_before == NEVER && socket.has(LAST_SENT) != (way == Way::Out) {
        note_turn(socket, way);
    }
    // In two steps: what two threads do at the same moment may count once.
    let calls = socket.calls.get().wrapping_add(1);
    socket.calls.set(calls);
    let bytes = socket.bytes.get() + bytes;
    socket.bytes.set(bytes);
    match socket.state() {
        State::Candidate => {
            if calls >= CALLS_BEFORE_MARK && !socket.has(MARKED | UNIX) {
                mark_opener(fd, socket);
            }
            let turns = socket.turns.get();
            let moved = Moved {
                calls,
                bytes,
                turns,
            };
            consider(fd, socket, &settings, &moved);
        }
        State::AtRendezvous => {
            let looks = socket.looks.get();
            let next = next_check(looks);
            if socket.has(UNIX) && is_near(calls, next) {
                unix_streams::expect_upgrade(socket);
            }
            if calls >= next && socket.claim(State::AtRendezvous) {
                check_for_visitor(fd, socket);
            }
        }
        _ => {}
    }
}

/// After how many calls to check for the second end, after so many checks.
const fn next_check(looks: u32) -> u32 {
    match looks.checked_sub(PAUSE_SHIFT_MAX) {
        None => 1 << looks,
        Some(more) => PAUSE_CALLS_MAX * (1 + more),
    }
}

/// The direction of a connection's bytes has turned: what it moved is counted from here.
#[cold]
fn note_turn(socket: &SocketState, way: Way) {
    socket.set(LAST_SENT, way == Way::Out);
    if socket.state() == State::Candidate {
        socket.turns.add(1);
        socket.calls.set(0);
        socket.bytes.set(0);
    }
}

fn consider(fd: c_int, socket: &'static SocketState, settings: &Settings, moved: &Moved) {
    let is_local = socket.has(UNIX);
    let factor = patience::factor(socket) << (LATE_MARK_SHIFT * mark_looks(socket));
    match worth::decide(settings, moved, factor) {
        Decision::Upgrade => {
            if is_local {
                unix_streams::expect_upgrade(socket);
            }
            begin(fd, socket);
        }
        Decision::Never => {
            if socket.change(State::Candidate, State::Kernel) {
                socket.note_reason(Reason::Profile);
                capability_mark::unmark(fd, socket);
            }
        }
        Decision::NotYet => {
            let calls_needed = settings.calls_before.saturating_mul(factor);
            let bytes_needed = settings.bytes_before.saturating_mul(factor.into());
            let is_near = is_near(moved.calls, calls_needed) || is_near(moved.bytes, bytes_needed);
            if is_local && is_near {
                unix_streams::expect_upgrade(socket);
            }
        }
    }
}

/// Whether little is missing: a sixteenth, or less than one call.
fn is_near<T: Copy + Into<u64>>(count: T, needed: T) -> bool {
    let (count, needed) = (count.into(), needed.into());
    count + needed / 16 + 1 >= needed
}

/// Begins the upgrade: goes to the rendezvous socket.
#[cold]
fn begin(fd: c_int, socket: &'static SocketState) {
    // A socket that another process has too cannot change paths behind its back.
    let is_shared = socket.process_count_alone() != 1;
    if is_shared {
        process_refs::check_in_parent(socket);
    }
    if deferred_close::is_overloaded() {
        return count_again(socket);
    }
    if is_shared || unix_streams::is_wake_up(socket) {
        return postpone(
            socket,
            if is_shared {
                Reason::HandedOff
            } else {
                Reason::WakeUp
            },
        );
    }
    if !admission::may_upgrade() || !socket.claim(State::Candidate) {
        return;
    }
    if socket.has(NEVER_UPGRADE) || (!socket.has(UNIX) && kernel::is_kernel_only(fd)) {
        return socket.leave_to_kernel_because(Reason::Usage);
    }
    if !barrier::take_part() {
        return socket.leave_to_kernel_because(Reason::NoBarriers);
    }
    if !socket.has(MARKED | UNIX) && !enrol::mark_opener(fd, socket) {
        return socket.leave_to_kernel_because(Reason::Kind);
    }
    leave_rendezvous(fd, socket);
    let ends = match ends(fd, socket) {
        Ok(ends) if ends.peer.is_marked => ends,
        // Nobody has accepted it yet: whoever does may mark it.
        Ok(ends) if ends.peer.inode == 0 => return begin_again_later(socket),
        Err(Reason::None) => return begin_again_later(socket),
        found => {
            patience::missed(socket);
            if found.is_ok() && may_be_marked_late(socket) {
                socket.note_reason(Reason::PeerNotUpgraded);
                return begin_again_later(socket);
            }
            return socket.leave_to_kernel_because(found.err().unwrap_or(Reason::PeerNotUpgraded));
        }
    };
    go_to_rendezvous(fd, socket, ends);
}

/// Marks a socket that has connected, unless another thread is at it.
#[cold]
fn mark_opener(fd: c_int, socket: &SocketState) {
    if !socket.claim(State::Candidate) {
        return;
    }
    if enrol::mark_opener(fd, socket) {
        let _ = socket.unclaim(State::Candidate);
    } else {
        socket.leave_to_kernel_because(Reason::Kind);
    }
}

/// Each time that the mark is missing, the connection needs 8 times the calls and bytes: a shift by so many bits.
const LATE_MARK_SHIFT: u32 = 3;

/// Whether the other end has no library, as far as is known, and will not be looked for in the next calls: then the
/// kernel may execute reads alone, which no upgrade can happen in.
#[inline]
pub fn is_upgrade_far(socket: &SocketState) -> bool {
    let is_candidate = socket.state() == State::Candidate && socket.has(MARK_LOOK_1);
    is_candidate && !socket.has(UNIX | NO_READS_ALONE) && {
        let settings = settings::get();
        let factor = patience::factor(socket) << (LATE_MARK_SHIFT * mark_looks(socket));
        let needed = settings.calls_before.saturating_mul(factor);
        !is_near(socket.calls.get(), needed)
    }
}

/// How often an end that accepted has found no mark on the one that connected.
fn mark_looks(socket: &SocketState) -> u32 {
    u32::from(socket.has(MARK_LOOK_1)) + u32::from(socket.has(MARK_LOOK_2))
}

/// Whether the other end may get its mark later: one that connected may have read in few calls what was sent
/// in many. Counts the looks, of which there are three.
fn may_be_marked_late(socket: &SocketState) -> bool {
    let next = match mark_looks(socket) {
        _ if socket.has(UNIX | OPENER) => return false,
        0 => MARK_LOOK_1,
        1 => MARK_LOOK_2,
        _ => return false,
    };
    socket.set(next, true);
    true
}

fn go_to_rendezvous(fd: c_int, socket: &'static SocketState, mut ends: Ends) {
    for _ in 0..ATTEMPTS {
        if let Some(link) = kernel::connect_abstract(&ends.name) {
            let was_holder = ends.peer.is_holder;
            let asked = self::ends(fd, socket);
            let is_holder = asked.as_ref().is_ok_and(|now| now.peer.is_holder);
            match asked {
                // It has come since we asked, perhaps after we connected: to whom, then?
                Ok(now) if is_holder && !was_holder => ends = now,
                Ok(now) => {
                    offer(fd, socket, &now.peer, &link);
                    return deferred_close::rendezvous_socket(link);
                }
                Err(_) => {
                    refuse(socket, Reason::NotProven);
                    return deferred_close::rendezvous_socket(link);
                }
            }
            deferred_close::rendezvous_socket(link);
        } else if hold_rendezvous(fd, socket, &ends.name) {
            socket.calls.set(0);
            socket.bytes.set(0);
            socket.looks.set(0);
            return wait_for_next_check(fd, socket);
        }
    }
    // The other end has the name and does not listen yet; or a stranger has it.
    if socket.looks.add(1) < NAME_TAKEN_MAX {
        return begin_again_later(socket);
    }
    socket.leave_to_kernel_because(Reason::NoRendezvous);
}

/// Binds the rendezvous socket, if its name is free.
fn hold_rendezvous(fd: c_int, socket: &'static SocketState, name: &Name) -> bool {
    let Some(link) = kernel::bind_abstract(name) else {
        return false;
    };
    // The sign first: whoever connects looks for it.
    if !show_holder(fd, socket, true) || !kernel::listen(&link) {
        show_holder(fd, socket, false);
        return false;
    }
    rendezvous::put(socket, Part::Place, link);
    true
}

/// Shows the other end that this one holds the rendezvous socket, or that it does no longer.
fn show_holder(fd: c_int, socket: &SocketState, on: bool) -> bool {
    if socket.has(UNIX) {
        unix_sockets::set_holder(fd, on)
    } else {
        kernel::set_holder(fd, on)
    }
}

/// The obstacle may pass: the upgrade begins again later. A Unix socket gives up after some tries, since
/// counting its calls soon costs more than it gains.
fn postpone(socket: &SocketState, reason: Reason) {
    socket.note_reason(reason);
    let tries = socket.looks.add(1);
    if socket.has(UNIX) && tries >= LOCAL_TRIES && socket.claim(State::Candidate) {
        return socket.leave_to_kernel_because(reason);
    }
    count_again(socket);
}

fn begin_again_later(socket: &SocketState) {
    count_again(socket);
    let _ = socket.unclaim(State::Candidate);
}

/// Counts calls and bytes from zero.
fn count_again(socket: &SocketState) {
    socket.set(NEAR_UPGRADE, false);
    socket.calls.set(0);
    socket.bytes.set(0);
}

/// The other end of a connection.
struct Ends {
    /// Where they meet.
    name: Name,
    /// Who has the other.
    peer: Peer,
}

/// Asks the kernel for the other end. The reason [`Reason::None`]: not yet.
fn ends(fd: c_int, socket: &SocketState) -> Result<Ends, Reason> {
    if socket.has(UNIX) {
        if !unix_sockets::is_simple(fd) {
            return Err(Reason::Usage);
        }
        return unix_streams::ends(fd, socket).map(|(name, peer)| Ends { name, peer });
    }
    let tuple = kernel::tuple(fd).ok_or(Reason::Kind)?;
    let peer =
        kernel::other_end(&tuple).ok_or_else(|| reason_for_absence(fd, Reason::PeerNotUpgraded))?;
    let name = tuple.rendezvous_name();
    Ok(Ends { name, peer })
}

/// The reason why there is no other end. One that has hung up could have been upgraded.
fn reason_for_absence(fd: c_int, reason: Reason) -> Reason {
    if kernel::is_hung_up(fd) {
        Reason::Over
    } else {
        reason
    }
}

/// The other end holds the rendezvous socket: proves this end, and leaves the hybrid stream's memory there.
fn offer(fd: c_int, socket: &'static SocketState, peer: &Peer, link: &Owned) {
    // Who holds the place is the other end, or nobody that we know.
    if !peer.is_holder || !is_user_of(peer, link) {
        return refuse(socket, reason_for_absence(fd, Reason::NotProven));
    }
    let Some(proof) = fd_passing::proof_of(fd) else {
        return refuse(socket, Reason::NotProven);
    };
    let Some(memory) = fd_passing::sealed_memory(STREAM_MEMORY_BYTES) else {
        return refuse(socket, Reason::NoMemory);
    };
    let Some(cookie) = kernel::cookie(fd) else {
        return refuse(socket, Reason::Kind);
    };
    let Some(mapping) = sockets::map(socket, memory.raw()) else {
        return refuse(socket, Reason::NoMemory);
    };
    socket.set_cookie(cookie);
    let mut greeting = [0_u8; GREETING_BYTES];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..16].copy_from_slice(&cookie.to_ne_bytes());
    greeting[16..24].copy_from_slice(&peer.cookie.to_ne_bytes());
    greeting[24..28].copy_from_slice(&RING_BYTES.to_ne_bytes());
    // Up first: the other end may use the hybrid stream as soon as it has the memory.
    if !upgrade(fd, socket, 0) {
        sockets::unmap(socket, mapping);
        return begin_again_later(socket);
    }
    if !fd_passing::send(link.raw(), &greeting, [memory.raw(), proof.raw()]) {
        // Up all the same: the other end never says that it is, so all goes over the kernel connection.
        socket.note_reason(Reason::NoRendezvous);
    }
}

/// What became of a visitor.
enum Visit {
    /// It has left nothing yet, or this is no time for an upgrade.
    NotYet,
    /// It is the other end, and the socket is upgraded.
    Up,
    /// It is somebody else.
    Stranger,
    /// It is the other end, with which the socket stays with the kernel.
    Refused(Reason),
}

/// Checks whether the other end has come to the rendezvous socket.
#[cold]
fn check_for_visitor(fd: c_int, socket: &'static SocketState) {
    let looks = socket.looks.add(1);
    let Some(place) = rendezvous::get(socket, Part::Place) else {
        // It was looked for by another process, or the program has closed our descriptor.
        return restart(fd, socket);
    };
    let mut waiting = None;
    for _ in 0..VISITORS_A_LOOK {
        let next = rendezvous::take(socket, Part::Visitor).or_else(|| kernel::accept_now(place));
        let Some(visitor) = next else { break };
        match attend_to_visitor(fd, socket, &visitor) {
            // The other end leaves its greeting at once: one that comes after it is more likely.
            Visit::NotYet => waiting
                .replace(visitor)
                .into_iter()
                .for_each(deferred_close::rendezvous_socket),
            Visit::Stranger => deferred_close::rendezvous_socket(visitor),
            Visit::Up => {
                deferred_close::greeted_socket(visitor);
                waiting
                    .into_iter()
                    .for_each(deferred_close::rendezvous_socket);
                return leave_rendezvous(fd, socket);
            }
            Visit::Refused(reason) => {
                refuse(socket, reason);
                deferred_close::rendezvous_socket(visitor);
                waiting
                    .into_iter()
                    .for_each(deferred_close::rendezvous_socket);
                return leave_rendezvous(fd, socket);
            }
        }
    }
    if let Some(visitor) = waiting {
        rendezvous::put(socket, Part::Visitor, visitor);
    }
    if looks > LOOKS_MAX {
        leave_rendezvous(fd, socket);
        patience::missed(socket);
        return refuse(socket, Reason::NoRendezvous);
    }
    // Until the next look is near.
    socket.set(NEAR_UPGRADE, false);
    wait_for_next_check(fd, socket);
}

/// Waits for the next check, unless the socket was left to the kernel meanwhile.
fn wait_for_next_check(fd: c_int, socket: &SocketState) {
    if !socket.unclaim(State::AtRendezvous) {
        leave_rendezvous(fd, socket);
    }
}

fn restart(fd: c_int, socket: &'static SocketState) {
    show_holder(fd, socket, false);
    leave_rendezvous(fd, socket);
    begin_again_later(socket);
}

/// Runs a call of the program that makes a descriptor. If the process has too many, closes the rendezvous
/// sockets and tries again.
pub fn with_room(call: impl Fn() -> c_int) -> c_int {
    real::keeping_errno(|| try_with_room(call))
}

fn try_with_room(call: impl Fn() -> c_int) -> c_int {
    let is_full = |result| result < 0 && errno() == libc::EMFILE;
    let mut result = call();
    if is_full(result) && quietly(give_up_rendezvous) {
        // Another thread may be the one that closes them.
        for _ in 0..CLOSED_WITHIN_MS {
            result = call();
            if !is_full(result) {
                break;
            }
            quietly(|| clock::sleep_us(1000));
        }
    }
    result
}

/// How long the call waits for another thread to close rendezvous sockets.
const CLOSED_WITHIN_MS: u32 = 20;

/// Closes all rendezvous sockets for now. `false`: there were none.
#[cold]
fn give_up_rendezvous() -> bool {
    let mut any = false;
    descriptors::for_each_descriptor(0, u32::MAX, |fd, socket| {
        if rendezvous::get(socket, Part::Place).is_some() && socket.claim(State::AtRendezvous) {
            restart(fd, socket);
            any = true;
        }
    });
    any
}

/// Upgrades the connection if the visitor is the other end. Receives nothing from a stranger.
fn attend_to_visitor(fd: c_int, socket: &'static SocketState, visitor: &Owned) -> Visit {
    let Ok(ends) = ends(fd, socket) else {
        return Visit::Refused(reason_for_absence(fd, Reason::NotProven));
    };
    if !is_user_of(&ends.peer, visitor) {
        return Visit::Stranger;
    }
    let mut greeting = [0_u8; GREETING_BYTES];
    match fd_passing::receive(visitor.raw(), &mut greeting) {
        Received::Nothing => Visit::NotYet,
        Received::Wrong(descriptors) => {
            let came = descriptors.into_iter().flatten();
            came.for_each(deferred_close::received_descriptor);
            Visit::Stranger
        }
        Received::Message([memory, proof]) => {
            let is_proof = fd_passing::is_proof(proof.raw(), fd, ends.peer.inode);
            let visit = if is_proof {
                take_offer(fd, socket, &ends.peer, &greeting, &memory)
            } else {
                Visit::Stranger
            };
            deferred_close::received_descriptor(memory);
            deferred_close::received_descriptor(proof);
            visit
        }
    }
}

/// Upgrades the connection with the memory that the other end has left.
fn take_offer(
    fd: c_int,
    socket: &'static SocketState,
    peer: &Peer,
    greeting: &[u8; GREETING_BYTES],
    memory: &Owned,
) -> Visit {
    let Some(cookie) = kernel::cookie(fd) else {
        return Visit::Refused(Reason::Kind);
    };
    let mut ring_bytes = [0; 4];
    ring_bytes.copy_from_slice(&greeting[24..28]);
    let ring_bytes = u32::from_ne_bytes(ring_bytes);
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&greeting[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    if greeting[..8] != MAGIC || word(8) != peer.cookie || word(16) != cookie {
        return Visit::Stranger;
    }
    if ring_bytes != RING_BYTES || !fd_passing::is_sealed(memory.raw(), STREAM_MEMORY_BYTES) {
        return Visit::Refused(Reason::NoMemory);
    }
    let Some(mapping) = sockets::map(socket, memory.raw()) else {
        return Visit::Refused(Reason::NoMemory);
    };
    socket.set_cookie(cookie);
    if upgrade(fd, socket, 1) {
        return Visit::Up;
    }
    sockets::unmap(socket, mapping);
    Visit::NotYet
}

/// Whether the process at the other end of `link` belongs to the user who has the connection's other end.
fn is_user_of(peer: &Peer, link: &Owned) -> bool {
    // A socket that nobody has accepted yet has no inode.
    let is_known = peer.inode != 0 && kernel::is_one_user(peer.user);
    is_known && option::peer_credentials(link.raw()).is_ok_and(|it| it.uid == peer.user)
}

/// From here on the socket is upgraded. Not if a thread is in the middle of a call, or another has just
/// closed the socket or handed it off. The caller has claimed the step.
fn upgrade(fd: c_int, socket: &'static SocketState, side: u32) -> bool {
    let (Some(send), Some(recv)) = (socket.send_lock.hold_for(5), socket.recv_lock.hold_for(5))
    else {
        return false;
    };
    // A fork counts the child under the gate, which this thread has held since to map the memory. So a child that
    // was made before is seen, and one that is made later has the memory.
    let alone = socket.process_count_alone() == 1;
    // Acquire pairs with the Release in the drop of `receiving::ReadPastUs`: what such a read took comes first.
    let is_read = socket.direct_reads.load(Ordering::Acquire) != 0;
    if is_read {
        socket.set(NO_READS_ALONE, true);
    }
    // To have wake-up bytes sent at once would send bytes that wait for more.
    let may = alone && !is_read && !socket.has(NEVER_UPGRADE | MORE_TO_COME);
    if socket.state() != State::Stepping || !may || !barrier::take_part() {
        return false;
    }
    let positions = if socket.has(UNIX) {
        unix_streams::positions(fd, socket, side)
    } else {
        kernel::stream_positions(fd, socket.has(OPENER))
    };
    let Some((sent, read)) = positions else {
        return false;
    };
    socket.set(NONBLOCKING, kernel::never_waits(fd));
    if !set_up_stream(socket, side, &send, &recv, sent, read) {
        return false;
    }
    drop(recv);
    drop(send);
    keep_wake_bytes_fast(fd);
    report::upgraded();
    event_log::upgraded(fd, socket);
    true
}

/// Turns off Nagle's algorithm. A wake-up byte must not wait for an acknowledgement of what went before:
/// answers in the byte ring acknowledge nothing. The program still sees the value that it has set, and gets
/// it back.
pub fn keep_wake_bytes_fast(fd: c_int) {
    let up = descriptors::find(fd).filter(|socket| socket.state() == State::Upgraded);
    let Some(socket) = up.filter(|socket| !socket.has(UNIX)) else {
        return;
    };
    let delays = kernel::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY) == Some(0);
    socket.set(NAGLE, delays);
    if delays {
        kernel::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    }
}

/// Gives the kernel connection the value that the program wants.
pub fn restore_delays(fd: c_int, socket: &SocketState) {
    if socket.has(NAGLE) {
        socket.set(NAGLE, false);
        kernel::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
    }
}

/// Sets up both ends of the hybrid stream, unless the socket was left to the kernel a moment ago.
fn set_up_stream(
    socket: &'static SocketState,
    side: u32,
    send: &Held<'_>,
    recv: &Held<'_>,
    sent: u64,
    read: u64,
) -> bool {
    let out = directions::direction(side);
    socket_state::set_ends(
        socket,
        send,
        recv,
        Sender::new(out, sent),
        Receiver::new(out.reversed(), read),
    );
    socket.set_side(side);
    socket.kernel_checked_ns.set(clock::tick_ns());
    socket.note_reason(Reason::None);
    // Other threads may be asleep on the kernel connection, in whatever call: until someone reads, the
    // other end is to wake them.
    let _ = socket.receiver(recv).arm(&socket.memory());
    let is_up = socket.unclaim(State::Upgraded);
    if is_up {
        socket.memory().store(UP + side as usize, 1);
    }
    is_up
}

/// Leaves the socket to the kernel for good. `false`: it is already upgraded. A thread in the middle of a
/// step finds out at the end of the step.
pub fn rule_out_upgrade(socket: &'static SocketState) -> bool {
    loop {
        match socket.state() {
            State::Upgraded => return false,
            State::Listening | State::Kernel => return true,
            State::AtRendezvous if socket.claim(State::AtRendezvous) => {
                if let Some(fd) = descriptors::any_descriptor(socket) {
                    leave_rendezvous(fd, socket);
                }
            }
            from if socket.change(from, State::Kernel) => {
                socket.note_reason(Reason::Usage);
                return true;
            }
            _ => {}
        }
    }
}

fn refuse(socket: &'static SocketState, reason: Reason) {
    report::refused();
    socket.leave_to_kernel_because(reason);
}

/// Closes the rendezvous socket and removes the mark of its holder.
pub fn leave_rendezvous(fd: c_int, socket: &SocketState) {
    if rendezvous::get(socket, Part::Place).is_some() && !ids::is_vfork_child() {
        // Before the name: whoever takes that next is not the other end.
        show_holder(fd, socket, false);
    }
    rendezvous::close(socket);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_checks_double_up_to_the_longest() {
        let pauses: Vec<u32> = (0..LOOKS_MAX)
            .map(|looks| next_check(looks + 1) - next_check(looks))
            .collect();
        assert_eq!(pauses[..4], [1, 2, 4, 8]);
        assert!(pauses.iter().all(|pause| *pause <= PAUSE_CALLS_MAX));
        assert!(next_check(LOOKS_MAX) > 4_000_000);
    }
}
