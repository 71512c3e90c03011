//! What differs for Unix stream sockets. Connections and pairs of them are carried as those of TCP are,
//! with the kernel's socket as the kernel connection.
//!
//! | | TCP | Unix |
//! |---|---|---|
//! | name of the rendezvous socket | the two addresses | the two inodes (`sock_diag`) |
//! | capability mark | `IP_MULTICAST_LOOP` is off | size of the receive buffer, which has no effect there |
//! | positions in the stream | the kernel counts | counted here, from the first byte on |
//! | control data | means nothing | over the kernel connection, with its bytes; a socket that asks for credentials stays with the kernel |
//! | closed with bytes unread | a reset | the LEAVING word is `UNREAD`: the other end reports the error (`lost_bytes`) |
//!
//! **Positions.** The kernel counts no bytes of a Unix socket. So only sockets whose whole life the library
//! has seen are carried. Before the second end is upgraded, it checks that no bytes went past the library:
//! what each end has sent must be what the other has read and has yet to read. Until the second end is
//! upgraded, the first end keeps two words of the hybrid stream up to date:
//!
//! | word, by side | what |
//! |---|---|
//! | 504 [`SENT`] | bytes sent; [`IN_CALL`]: it is in the middle of a call that sends |
//! | 506 [`READ`] | bytes read |
//!
//! While the first end sleeps in a send, its word says `IN_CALL`, and the second end cannot compare. So a first
//! end that writes without a pause sends without blocking. It waits for room between two sends
//! ([`wait_for_room`]), when its word is up to date.
//!
//! **Wake-ups.** A pair with both ends in one process, of which one end only writes, wakes an event loop.
//! It would gain nothing, and is left alone. After some tries this is final, since counting its calls
//! costs time too. The same goes for a socket that several processes have all the time.

use core::ffi::c_int;
use core::sync::atomic::{Ordering, fence};

use barewire_fabric::hybrid::{SharedMemory, UP};
use libc::ssize_t;

use crate::process::{clock, settings};
use crate::system::{kernel, own_descriptors, real, unix_sockets};
use crate::table::flags::{NEAR_UPGRADE, UNIX};
use crate::table::limits::SOCKETS_MAX;
use crate::table::socket_state::SocketState;
use crate::table::state::{Reason, State};
use crate::table::stream_memory::StreamMemory;
use crate::table::{descriptors, sockets};

const SENT: usize = 504;
const READ: usize = 506;
const IN_CALL: u64 = u64::MAX;

/// A Unix socket has been connected. It can be carried, since the library sees its whole life.
pub fn enter(fd: c_int) -> Option<&'static SocketState> {
    let socket = descriptors::add(fd, State::Candidate)?;
    socket.set(UNIX, true);
    own_descriptors::note_highest(fd);
    Some(socket)
}

/// The two ends of a pair.
pub fn enter_pair(fds: [c_int; 2]) {
    let (Some(a), Some(b)) = (enter(fds[0]), enter(fds[1])) else {
        return;
    };
    for (one, other) in [(a, b), (b, a)] {
        // No other thread knows these descriptors yet.
        one.pair_generation.set(other.generation());
        one.pair.set(other.number() + 1);
    }
}

/// Whether a socket is a Unix stream socket that can be carried.
pub fn is_carried(fd: c_int) -> bool {
    settings::get().unix && unix_sockets::is_stream(fd)
}

/// Before the first call that moves bytes: shows the other end that this one has the library. A connection
/// that moves no bytes does not pay for that.
pub fn mark_first(fd: c_int, socket: &SocketState) {
    if socket.has(UNIX) && socket.receive_buffer.get() == 0 {
        mark(fd, socket);
    }
}

fn mark(fd: c_int, socket: &SocketState) {
    // One that cannot be marked is not tried again.
    let before = unix_sockets::mark(fd).unwrap_or(1);
    socket.receive_buffer.set(before);
}

/// Removes the mark.
pub fn unmark(fd: c_int, socket: &SocketState) {
    let before = socket.receive_buffer.swap(0);
    if before > 1 {
        // The kernel doubles what it is told.
        kernel::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, (before / 2) as c_int);
    }
}

/// The program has set the size of the receive buffer.
pub fn receive_buffer_set(fd: c_int) {
    let marked = |socket: &&SocketState| socket.receive_buffer.get() != 0;
    if let Some(socket) = descriptors::find(fd).filter(marked) {
        mark(fd, socket);
    }
}

/// The size of the receive buffer as the program sees it.
pub fn shown_receive_buffer(socket: &SocketState, size: c_int) -> c_int {
    if socket.has(UNIX) && unix_sockets::is_marked(size.unsigned_abs()) {
        return socket.receive_buffer.get() as c_int;
    }
    size
}

/// In [`SocketState::kernel_bytes_in`]: one read in progress that the kernel does as if this library were not
/// there. The bits below count bytes.
const DIRECT: u64 = 1 << 48;

/// Bytes read so far.
fn bytes_in(socket: &SocketState) -> u64 {
    // Relaxed: the number stands for itself.
    socket.kernel_bytes_in.load(Ordering::Relaxed) & (DIRECT - 1)
}

fn may_read_directly(socket: &SocketState) -> bool {
    let is_waiting = matches!(socket.state(), State::Candidate | State::AtRendezvous);
    is_waiting && socket.has(UNIX) && !socket.has_now(NEAR_UPGRADE)
}

/// Has the kernel execute a whole read on a socket that is not upgraded, without a lock, even if it blocks.
/// Not when an upgrade is near: it cannot happen in the middle of such a read.
#[inline]
pub fn read_directly(
    fd: c_int,
    socket: &SocketState,
    flags: c_int,
    read: impl FnOnce() -> ssize_t,
) -> Option<ssize_t> {
    if !may_read_directly(socket) {
        return None;
    }
    mark_first(fd, socket);
    let generation = socket.generation();
    // SeqCst, as is the look at NEAR_UPGRADE behind it, pairs with the fence in `positions`. The upgrading thread has
    // set that flag before: so it sees this read, or there is none.
    socket.kernel_bytes_in.fetch_add(DIRECT, Ordering::SeqCst);
    let result = may_read_directly(socket).then(read);
    let bytes = counted(result.unwrap_or(0), flags);
    let done = bytes.wrapping_sub(DIRECT);
    if socket.generation() == generation {
        // Release pairs with the Acquire in `positions`: the read comes first.
        socket.kernel_bytes_in.fetch_add(done, Ordering::Release);
    }
    result
}

/// The socket may soon be upgraded: from now on the kernel executes no read alone.
pub fn expect_upgrade(socket: &SocketState) {
    if !socket.has(NEAR_UPGRADE) {
        socket.set(NEAR_UPGRADE, true);
    }
}

/// Whether this is one end of a pair, the other end belongs to this process too, and bytes have gone one
/// way only.
pub fn is_wake_up(socket: &SocketState) -> bool {
    let pair = socket.pair.get().checked_sub(1);
    let Some(pair) = pair.filter(|number| *number < SOCKETS_MAX) else {
        return false;
    };
    let other = sockets::by_number(pair);
    let is_here = other.generation() == socket.pair_generation.get() && descriptors::is_own(pair);
    is_here && (socket.kernel_bytes_out.get() == 0 || bytes_in(socket) == 0)
}

/// Counts the bytes that a socket sent before its upgrade. Under the send lock.
pub fn count_out(socket: &SocketState, result: ssize_t) {
    if result > 0 && socket.has(UNIX) {
        let before = socket.kernel_bytes_out.get();
        let bytes = result.unsigned_abs() as u64;
        socket.kernel_bytes_out.set(before + bytes);
    }
}

/// Bytes of the stream that a read has taken.
const fn counted(result: ssize_t, flags: c_int) -> u64 {
    if result < 0 || flags & libc::MSG_PEEK != 0 {
        return 0;
    }
    result.unsigned_abs() as u64
}

/// As above, of bytes read, under the receive lock. A direct read may be in progress.
pub fn count_in(socket: &SocketState, result: ssize_t, flags: c_int) {
    let bytes = counted(result, flags);
    if bytes > 0 && socket.has(UNIX) {
        // Relaxed: `positions` has the lock that this thread holds.
        socket.kernel_bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of the stream sent and read so far, for a socket that is about to be upgraded as `side`. The
/// memory is mapped, and both locks are held. `None`: the ends do not agree, or one is in the middle of a
/// call.
pub fn positions(fd: c_int, socket: &SocketState, side: u32) -> Option<(u64, u64)> {
    // Pairs with the SeqCst count in `read_directly`.
    fence(Ordering::SeqCst);
    // Acquire pairs with the Release in `read_directly`.
    let read = socket.kernel_bytes_in.load(Ordering::Acquire);
    if read >= DIRECT {
        return None;
    }
    let sent = socket.kernel_bytes_out.get();
    let memory = socket.memory();
    if side == 0 {
        memory.store(READ, read);
        memory.store(SENT, sent);
        return Some((sent, read));
    }
    for _ in 0..ROUNDS {
        if agrees(fd, socket, &memory, sent, read) {
            return Some((sent, read));
        }
        clock::sleep_us(ROUND_US);
    }
    None
}

/// Looks at the first end's words, and pauses between them: it may be about to store one.
const ROUNDS: u32 = 4;
const ROUND_US: u32 = 50;

/// Whether each end has sent what the other has read and has yet to read. `sent` and `read` belong to side 1,
/// which neither sends nor reads meanwhile.
fn agrees(fd: c_int, socket: &SocketState, memory: &StreamMemory, sent: u64, read: u64) -> bool {
    let other_sent = memory.load(SENT);
    let arrived = unix_sockets::unread(fd).map(|bytes| read + bytes);
    if memory.load(SENT) != other_sent || arrived != Some(other_sent) {
        return false;
    }
    let other_read = memory.load(READ);
    let other = socket.other_inode.get();
    let other_unread = unix_sockets::unread_of(other);
    memory.load(READ) == other_read && other_unread.map(|bytes| other_read + bytes) == Some(sent)
}

/// Whether the first end has to publish its positions for the second.
fn must_publish(socket: &SocketState, memory: &StreamMemory, side: usize) -> bool {
    socket.has(UNIX) && side == 0 && memory.load(UP + 1) == 0
}

/// Publishes the position of the outgoing stream. `None`: bytes are about to be sent over the kernel
/// connection.
pub fn publish_sent(socket: &SocketState, side: usize, sent: Option<u64>) {
    let memory = socket.memory();
    if must_publish(socket, &memory, side) {
        memory.store(SENT + side, sent.unwrap_or(IN_CALL));
    }
}

/// Whether the second end may be about to read this end's positions.
pub fn is_awaited(socket: &SocketState) -> bool {
    let side = socket.side() as usize;
    must_publish(socket, &socket.memory(), side)
}

/// How long [`wait_for_room`] waits before the kernel does.
const ROOM_WAIT_NS: i64 = 2_000_000;

/// Waits a little for room on the kernel connection. A signal that comes meanwhile counts as one that comes
/// just before the program's call.
pub fn wait_for_room(fd: c_int) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: ROOM_WAIT_NS,
    };
    // SAFETY: one descriptor; a set that is ours to fill.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        real::ppoll(&raw mut poll, 1, &raw const time, &raw const all) > 0
    }
}

/// Publishes that bytes were read from the kernel connection, up to `read`.
pub fn publish_read(socket: &SocketState, side: usize, read: u64) {
    let memory = socket.memory();
    if must_publish(socket, &memory, side) {
        memory.store(READ + side, read);
    }
}

/// Whether the other end has neither sent nor read anything, so that it may have no mark yet. It has
/// `unread` bytes.
fn is_silent(socket: &SocketState, unread: u64) -> bool {
    bytes_in(socket) == 0 && socket.kernel_bytes_out.get() == unread
}

/// The two ends, and who has the other.
///
/// # Errors
/// [`Reason::None`]: nobody has accepted it yet, or read or written anything. Other reasons hold for good.
pub fn ends(fd: c_int, socket: &SocketState) -> Result<(kernel::Name, kernel::Peer), Reason> {
    // It never changes once it is known.
    let known = socket.other_inode.get();
    match unix_sockets::look_up(fd, known) {
        unix_sockets::Found::Pair(_, peer, unread)
            if !peer.is_marked && is_silent(socket, unread) =>
        {
            Err(Reason::None)
        }
        unix_sockets::Found::Pair(pair, peer, _) => {
            socket.other_inode.set(pair.other);
            Ok((pair.rendezvous_name(), peer))
        }
        unix_sockets::Found::NotAccepted => Err(Reason::None),
        unix_sockets::Found::Nothing => Err(Reason::PeerNotUpgraded),
    }
}
