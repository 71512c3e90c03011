//! How the two ends of a TCP connection find each other, prove who they are, and come to
//! share a carrier. Those of a Unix socket do so in the same steps; what differs: `local`.
//!
//! 1. **Marks.** Our listening and connecting sockets do not loop multicasts back, which means
//!    nothing to TCP, is passed on to accepted sockets, and can be seen by whoever asks the
//!    kernel (`sock_diag`) for the other end of a connection. So does each end after some
//!    calls. A hint: it keeps programs that never meet another on board from looking further.
//! 2. **Meeting place.** If there is a mark, each end goes to the abstract Unix socket that is
//!    named by the connection's two addresses, in an order that both know. The first binds
//!    it, puts a sign on its connection that says so, and looks now and then for the second, who
//!    connects, leaves a greeting with the carrier's memory there, and goes on at once. The name
//!    lives in the network namespace, as the addresses do. Behind address translation the names
//!    differ, and nobody meets.
//! 3. **Proof.** Each end asks the kernel again whose the other end of this very
//!    TCP connection is, and compares with the credentials of who came to the meeting
//!    place, and with the socket cookies in the greeting. No descriptor is sent or taken before.
//!    The same user is not enough: any process could wait at the place, or come there.
//!    - The second end sends nothing unless the kernel tells it that the other end has the sign,
//!      both before it has connected and after. Only who has the socket can put it there; who does,
//!      holds the name; and it takes the sign away before it gives up the name.
//!    - The greeting comes with a descriptor of the sender's end that has no rights (`O_PATH`): to
//!      make one takes the socket, or the right to look into the process that has it.
//!
//! Whoever else comes to the place is shown out, and may try the other end's patience no longer
//! than [`LOOKS_MAX`] looks at [`VISITORS_A_LOOK`] visitors take. See also `retire`.
//!
//! A failure at any step leaves the connection with the kernel.
//!
//! Greeting, 40 bytes, native byte order; the memory's descriptor and the proof come with it:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `barewr2\0` |
//! | 8..16 | the sender's socket cookie |
//! | 16..24 | the cookie of the other end, as the sender sees it |
//! | 24..28 | ring size in bytes |
//! | 28..40 | 0 |

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::{Direction, Receiver, Sender, SharedMemory, UP};

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
    CAREFUL, DELAYS, HELD_BACK, LAST_SENT, LOCAL, NEVER_UP, NONBLOCKING, OPENER,
};
use crate::table::state::{State, Why};
use crate::table::stream_memory::{CARRIER_BYTES, RING_BYTES};
use crate::table::{
    admission, descriptors, process_refs, report,
    socket_state::{self, Record},
    sockets,
};
use crate::upgrade::{
    capability_mark,
    rendezvous::{self, Part},
    unix_streams,
    worth::{self, Decision, Moved},
};

/// Looks for the other end before we give up. The pauses between them double.
const LOOKS_MAX: u32 = 24;

/// Which way bytes went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the program.
    In,
    /// From it.
    Out,
}

/// Visitors that one look attends to.
const VISITORS_A_LOOK: u32 = 4;

/// Attempts to get to the place, or to hold it: the other end may come there between two steps.
const ATTEMPTS: u32 = 3;

/// So often a meeting place may be taken, and nobody listen there.
const NAME_TAKEN_MAX: u32 = 8;

const MAGIC: [u8; 8] = *b"barewr2\0";
const GREETING_BYTES: usize = 40;

/// After so many tries in which a Unix socket was shared, or only woke a thread, it is the kernel's.
const LOCAL_TRIES: u32 = 3;

/// Takes the mark away, and gives up the place.
pub fn unmark(fd: c_int, record: &Record) {
    end_seeking(fd, record);
    capability_mark::unmark(fd, record);
}

/// Called when bytes move on a socket that is not up. Goes a step towards it, now and then.
#[inline]
pub fn advance(fd: c_int, record: &'static Record, bytes: u64, way: Way) {
    let settings = settings::get();
    if settings.calls_before == NEVER && record.has(LAST_SENT) != (way == Way::Out) {
        turn(record, way);
    }
    // Relaxed, all, and in two steps: what two threads do at the same moment may count once.
    let calls = record.calls.load(Ordering::Relaxed).wrapping_add(1);
    record.calls.store(calls, Ordering::Relaxed);
    let bytes = record.bytes.load(Ordering::Relaxed) + bytes;
    record.bytes.store(bytes, Ordering::Relaxed);
    match record.state() {
        State::Candidate => {
            let turns = record.turns.load(Ordering::Relaxed);
            let moved = Moved {
                calls,
                bytes,
                turns,
            };
            consider(fd, record, &settings, &moved);
        }
        State::Seeking => {
            let looks = record.looks.load(Ordering::Relaxed);
            // The pauses double: at the calls after 0, 1, 2, 4, 8 ... of them.
            let next = 1 << looks.min(20);
            if record.has(LOCAL) && is_near(calls, next) {
                unix_streams::be_careful(record);
            }
            if calls >= next && record.claim(State::Seeking) {
                look(fd, record);
            }
        }
        _ => {}
    }
}

/// The direction of a connection's bytes has turned: what it moved is counted from here.
#[cold]
fn turn(record: &Record, way: Way) {
    record.set(LAST_SENT, way == Way::Out);
    if record.state() == State::Candidate {
        // Relaxed: as in `advance`.
        record.turns.fetch_add(1, Ordering::Relaxed);
        record.calls.store(0, Ordering::Relaxed);
        record.bytes.store(0, Ordering::Relaxed);
    }
}

fn consider(fd: c_int, record: &'static Record, settings: &Settings, moved: &Moved) {
    let is_local = record.has(LOCAL);
    let factor = if is_local {
        unix_streams::patience()
    } else {
        1
    };
    match worth::decide(settings, moved, factor) {
        Decision::Upgrade => {
            if is_local {
                unix_streams::be_careful(record);
            }
            begin(fd, record);
        }
        Decision::Never => {
            if record.change(State::Candidate, State::Plain) {
                record.note_why(Why::Profile);
                capability_mark::unmark(fd, record);
            }
        }
        Decision::NotYet => {
            let calls_needed = settings.calls_before.saturating_mul(factor);
            let bytes_needed = settings.bytes_before.saturating_mul(factor.into());
            let is_near = is_near(moved.calls, calls_needed) || is_near(moved.bytes, bytes_needed);
            if is_local && is_near {
                unix_streams::be_careful(record);
            }
        }
    }
}

/// Whether little is missing: a sixteenth, or less than a call.
fn is_near<T: Copy + Into<u64>>(count: T, needed: T) -> bool {
    let (count, needed) = (count.into(), needed.into());
    count + needed / 16 + 1 >= needed
}

/// Goes to the meeting place.
#[cold]
fn begin(fd: c_int, record: &'static Record) {
    // A socket that another process has too cannot change lanes behind its back.
    let is_shared = record.processes.load(Ordering::Relaxed) != 1;
    if is_shared {
        process_refs::check_in_parent(record);
    }
    if deferred_close::is_besieged() {
        return count_again(record);
    }
    if is_shared || unix_streams::is_wake_up(record) {
        return not_now(record, if is_shared { Why::Given } else { Why::WakeUp });
    }
    if !admission::may_come() || !record.claim(State::Candidate) {
        return;
    }
    if record.has(NEVER_UP) || (!record.has(LOCAL) && kernel::is_kernel_only(fd)) {
        return record.make_plain(Why::Usage);
    }
    if !kernel::take_part_in_barriers() {
        return record.make_plain(Why::NoBarriers);
    }
    end_seeking(fd, record);
    let ends = match ends(fd, record) {
        Ok(ends) if ends.peer.is_marked => ends,
        // Nobody has accepted it yet: whoever does may mark it.
        Ok(ends) if ends.peer.inode == 0 => return begin_later(record),
        Err(Why::None) => return begin_later(record),
        found => {
            unix_streams::missed(record);
            return record.make_plain(found.err().unwrap_or(Why::NotOnBoard));
        }
    };
    go_to_place(fd, record, ends);
}

fn go_to_place(fd: c_int, record: &'static Record, mut ends: Ends) {
    for _ in 0..ATTEMPTS {
        if let Some(socket) = kernel::connect_abstract(&ends.name) {
            let was_holder = ends.peer.is_holder;
            let asked = self::ends(fd, record);
            let is_holder = asked.as_ref().is_ok_and(|now| now.peer.is_holder);
            match asked {
                // It has come since we asked, perhaps after we connected: to whom, then?
                Ok(now) if is_holder && !was_holder => ends = now,
                Ok(now) => {
                    offer(fd, record, &now.peer, &socket);
                    return deferred_close::socket(socket);
                }
                Err(_) => {
                    refuse(record, Why::NotProven);
                    return deferred_close::socket(socket);
                }
            }
            deferred_close::socket(socket);
        } else if hold_place(fd, record, &ends.name) {
            record.calls.store(0, Ordering::Relaxed);
            record.looks.store(0, Ordering::Relaxed);
            return seek_on(fd, record);
        }
    }
    // The other end has the name and does not listen yet; or a stranger has it.
    if record.looks.fetch_add(1, Ordering::Relaxed) < NAME_TAKEN_MAX {
        return begin_later(record);
    }
    record.make_plain(Why::NoMeeting);
}

/// Takes the place, if nobody has it.
fn hold_place(fd: c_int, record: &'static Record, name: &Name) -> bool {
    let Some(socket) = kernel::bind_abstract(name) else {
        return false;
    };
    // The sign first: whoever connects looks for it.
    if !show_holder(fd, record, true) || !kernel::listen(&socket) {
        show_holder(fd, record, false);
        return false;
    }
    rendezvous::put(record, Part::Place, socket);
    true
}

/// Shows the other end that this one holds the meeting place, or that it does no more.
fn show_holder(fd: c_int, record: &Record, on: bool) -> bool {
    if record.has(LOCAL) {
        unix_sockets::set_holder(fd, on)
    } else {
        kernel::set_holder(fd, on)
    }
}

/// What keeps it from going up may pass. To count a Unix socket's calls costs what they gain soon:
/// with it is over after some tries.
fn not_now(record: &Record, why: Why) {
    record.note_why(why);
    // Relaxed: it stands for itself, until there are looks.
    let tries = record.looks.fetch_add(1, Ordering::Relaxed);
    if record.has(LOCAL) && tries >= LOCAL_TRIES && record.claim(State::Candidate) {
        return record.make_plain(why);
    }
    count_again(record);
}

fn begin_later(record: &Record) {
    count_again(record);
    let _ = record.unclaim(State::Candidate);
}

/// As if nothing had moved yet.
fn count_again(record: &Record) {
    record.set(CAREFUL, false);
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
        if !unix_sockets::is_simple(fd) {
            return Err(Why::Usage);
        }
        return unix_streams::ends(fd, record).map(|(name, peer)| Ends { name, peer });
    }
    let tuple = kernel::tuple(fd).ok_or(Why::Kind)?;
    let peer = kernel::other_end(&tuple).ok_or_else(|| absence(fd, Why::NotOnBoard))?;
    let name = tuple.meeting_place();
    Ok(Ends { name, peer })
}

/// Why there is nobody: one that has hung up could have been on board.
fn absence(fd: c_int, why: Why) -> Why {
    if kernel::is_hung_up(fd) {
        Why::Over
    } else {
        why
    }
}

/// The other end is at the meeting place: proves it, and leaves the carrier's memory there.
fn offer(fd: c_int, record: &'static Record, peer: &Peer, socket: &Owned) {
    // Who holds the place is the other end, or nobody that we know.
    if !peer.is_holder || !is_user_of(peer, socket) {
        return refuse(record, absence(fd, Why::NotProven));
    }
    let Some(proof) = fd_passing::proof_of(fd) else {
        return refuse(record, Why::NotProven);
    };
    let Some(memory) = fd_passing::sealed_memory(CARRIER_BYTES) else {
        return refuse(record, Why::NoMemory);
    };
    let Some(cookie) = kernel::cookie(fd) else {
        return refuse(record, Why::Kind);
    };
    let Some(mapping) = sockets::map(record, memory.raw()) else {
        return refuse(record, Why::NoMemory);
    };
    // Relaxed: published by Up.
    record.cookie.store(cookie, Ordering::Relaxed);
    let mut greeting = [0_u8; GREETING_BYTES];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..16].copy_from_slice(&cookie.to_ne_bytes());
    greeting[16..24].copy_from_slice(&peer.cookie.to_ne_bytes());
    greeting[24..28].copy_from_slice(&RING_BYTES.to_ne_bytes());
    // Up first: the other end may use the carrier as soon as it has the memory.
    if !go_up(fd, record, 0) {
        sockets::unmap(record, mapping);
        return begin_later(record);
    }
    if !fd_passing::send(socket.raw(), &greeting, [memory.raw(), proof.raw()]) {
        // Up all the same: the other end never says that it is, so all goes over the line.
        record.note_why(Why::NoMeeting);
    }
}

/// What became of a visitor.
enum Visit {
    /// It has left nothing yet, or it is no time to go up.
    NotYet,
    /// It is the other end, with which the socket is up.
    Up,
    /// It is somebody else.
    Stranger,
    /// It is the other end, with which the socket stays with the kernel.
    Refused(Why),
}

/// Looks whether the other end has come.
#[cold]
fn look(fd: c_int, record: &'static Record) {
    let looks = record.looks.fetch_add(1, Ordering::Relaxed);
    let Some(place) = rendezvous::get(record, Part::Place) else {
        // It was looked for by another process, or the program has closed our descriptor.
        return begin_anew(fd, record);
    };
    let mut waiting = None;
    for _ in 0..VISITORS_A_LOOK {
        let next = rendezvous::take(record, Part::Visitor).or_else(|| kernel::accept_now(place));
        let Some(visitor) = next else { break };
        match attend(fd, record, &visitor) {
            // The other end leaves its greeting at once: one that comes after it is more likely.
            Visit::NotYet => waiting
                .replace(visitor)
                .into_iter()
                .for_each(deferred_close::socket),
            Visit::Stranger => deferred_close::socket(visitor),
            Visit::Up => {
                deferred_close::greeted(visitor);
                waiting.into_iter().for_each(deferred_close::socket);
                return end_seeking(fd, record);
            }
            Visit::Refused(why) => {
                refuse(record, why);
                deferred_close::socket(visitor);
                waiting.into_iter().for_each(deferred_close::socket);
                return end_seeking(fd, record);
            }
        }
    }
    if let Some(visitor) = waiting {
        rendezvous::put(record, Part::Visitor, visitor);
    }
    if looks > LOOKS_MAX {
        end_seeking(fd, record);
        unix_streams::missed(record);
        return refuse(record, Why::NoMeeting);
    }
    // Until the next look is near.
    record.set(CAREFUL, false);
    seek_on(fd, record);
}

/// Until the next look; not if the socket was made the kernel's meanwhile.
fn seek_on(fd: c_int, record: &Record) {
    if !record.unclaim(State::Seeking) {
        end_seeking(fd, record);
    }
}

fn begin_anew(fd: c_int, record: &'static Record) {
    show_holder(fd, record, false);
    end_seeking(fd, record);
    begin_later(record);
}

/// Runs a call of the program's that makes a descriptor: if it may have no more of them, once more
/// without those that we have open.
pub fn with_room(call: impl Fn() -> c_int) -> c_int {
    real::keeping_errno(|| try_with_room(call))
}

fn try_with_room(call: impl Fn() -> c_int) -> c_int {
    let is_full = |result| result < 0 && errno() == libc::EMFILE;
    let mut result = call();
    if is_full(result) && quietly(give_up_places) {
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

/// Meeting places are closed so soon, if others are to do it.
const CLOSED_WITHIN_MS: u32 = 20;

/// Gives up all meeting places, for now. `false`: there was none.
#[cold]
fn give_up_places() -> bool {
    let mut any = false;
    descriptors::for_each_descriptor(0, u32::MAX, |fd, record| {
        if rendezvous::get(record, Part::Place).is_some() && record.claim(State::Seeking) {
            begin_anew(fd, record);
            any = true;
        }
    });
    any
}

/// Goes up with whoever has come, if that is the other end. Nothing of a stranger's is received.
fn attend(fd: c_int, record: &'static Record, visitor: &Owned) -> Visit {
    let Ok(ends) = ends(fd, record) else {
        return Visit::Refused(absence(fd, Why::NotProven));
    };
    if !is_user_of(&ends.peer, visitor) {
        return Visit::Stranger;
    }
    let mut greeting = [0_u8; GREETING_BYTES];
    match fd_passing::receive(visitor.raw(), &mut greeting) {
        Received::Nothing => Visit::NotYet,
        Received::Wrong(descriptors) => {
            let came = descriptors.into_iter().flatten();
            came.for_each(deferred_close::descriptor);
            Visit::Stranger
        }
        Received::Message([memory, proof]) => {
            let is_proof = fd_passing::is_proof(proof.raw(), fd, ends.peer.inode);
            let visit = if is_proof {
                take_offer(fd, record, &ends.peer, &greeting, &memory)
            } else {
                Visit::Stranger
            };
            deferred_close::descriptor(memory);
            deferred_close::descriptor(proof);
            visit
        }
    }
}

/// Goes up with what the other end has left.
fn take_offer(
    fd: c_int,
    record: &'static Record,
    peer: &Peer,
    greeting: &[u8; GREETING_BYTES],
    memory: &Owned,
) -> Visit {
    let Some(cookie) = kernel::cookie(fd) else {
        return Visit::Refused(Why::Kind);
    };
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&greeting[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    if greeting[..8] != MAGIC || word(8) != peer.cookie || word(16) != cookie {
        return Visit::Stranger;
    }
    let is_agreed = word(24) == u64::from(RING_BYTES);
    if !is_agreed || !fd_passing::is_sealed(memory.raw(), CARRIER_BYTES) {
        return Visit::Refused(Why::NoMemory);
    }
    let Some(mapping) = sockets::map(record, memory.raw()) else {
        return Visit::Refused(Why::NoMemory);
    };
    // Relaxed: published by Up.
    record.cookie.store(cookie, Ordering::Relaxed);
    if go_up(fd, record, 1) {
        return Visit::Up;
    }
    sockets::unmap(record, mapping);
    Visit::NotYet
}

/// Whether the user on `socket` is whose the other end of the connection is.
fn is_user_of(peer: &Peer, socket: &Owned) -> bool {
    // A socket that nobody has accepted yet has no inode.
    let is_known = peer.inode != 0 && kernel::is_one_user(peer.user);
    is_known && kernel::peer_user(socket.raw()) == Some(peer.user)
}

/// From here on the socket follows the carrier's protocol. Not if someone is in the middle
/// of a call, or has just closed it or given it away. The caller has claimed the step.
fn go_up(fd: c_int, record: &'static Record, side: u32) -> bool {
    let (Some(send), Some(recv)) = (record.send_lock.hold_for(5), record.recv_lock.hold_for(5))
    else {
        return false;
    };
    let alone = record.processes.load(Ordering::Relaxed) == 1;
    // Acquire: partner: the releases of those that count; what they read comes first.
    let is_read = record.direct_reads.load(Ordering::Acquire) != 0;
    // To have tokens sent at once would send bytes that wait for more.
    let may = alone && !is_read && !record.has(NEVER_UP | HELD_BACK);
    if record.state() != State::Stepping || !may || !kernel::take_part_in_barriers() {
        return false;
    }
    let positions = if record.has(LOCAL) {
        unix_streams::positions(fd, record, side)
    } else {
        kernel::stream_positions(fd, record.has(OPENER))
    };
    let Some((sent, read)) = positions else {
        return false;
    };
    record.set(NONBLOCKING, kernel::never_waits(fd));
    if !become_up(record, side, &send, &recv, sent, read) {
        return false;
    }
    drop(recv);
    drop(send);
    keep_tokens_fast(fd);
    unix_streams::met(record);
    report::upgraded();
    true
}

/// A token must not wait until what went before it is acknowledged: answers that go through
/// the ring acknowledge nothing. What the program has set it is shown, and gets back.
pub fn keep_tokens_fast(fd: c_int) {
    let up = descriptors::find(fd).filter(|record| record.state() == State::Up);
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

/// Not if the socket was made the kernel's a moment ago.
fn become_up(
    record: &'static Record,
    side: u32,
    send: &Held<'_>,
    recv: &Held<'_>,
    sent: u64,
    read: u64,
) -> bool {
    let out = Direction::from_side(side, RING_BYTES);
    socket_state::set_ends(
        record,
        send,
        recv,
        Sender::new(out, sent),
        Receiver::new(out.reversed(), read),
    );
    record.side.store(side, Ordering::Relaxed);
    record
        .line_checked_ns
        .store(clock::tick_ns(), Ordering::Relaxed);
    record.note_why(Why::None);
    // Other threads may be asleep on the line, in whatever call: until someone reads, the
    // other end is to wake them.
    let _ = record.receiver(recv).arm(&record.carrier());
    let is_up = record.unclaim(State::Up);
    if is_up {
        record.carrier().store(UP + side as usize, 1);
    }
    is_up
}

/// It will not go up any more. `false`: it has. Who is in the middle of a step finds out at its end.
pub fn stays_down(record: &'static Record) -> bool {
    loop {
        match record.state() {
            State::Up => return false,
            State::Listening | State::Plain => return true,
            State::Seeking if record.claim(State::Seeking) => {
                if let Some(fd) = descriptors::any_descriptor(record) {
                    end_seeking(fd, record);
                }
            }
            from if record.change(from, State::Plain) => {
                record.note_why(Why::Usage);
                return true;
            }
            _ => {}
        }
    }
}

fn refuse(record: &'static Record, why: Why) {
    report::refused();
    record.make_plain(why);
}

/// Gives up the meeting place.
pub fn end_seeking(fd: c_int, record: &Record) {
    if rendezvous::get(record, Part::Place).is_some() && !ids::is_borrower() {
        // Before the name: whoever takes that next is not the other end.
        show_holder(fd, record, false);
    }
    rendezvous::close(record);
}
