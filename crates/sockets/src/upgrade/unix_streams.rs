//! What is different with Unix stream sockets: connections and pairs of them are carried as
//! those of TCP are, with the kernel's socket as the line.
//!
//! | | TCP | Unix |
//! |---|---|---|
//! | name of the meeting place | the two addresses | the two inodes (`sock_diag`) |
//! | mark | loops no multicasts back | size of the receive buffer, which means nothing to it |
//! | positions in the stream | the kernel counts | counted here, from the first byte on |
//! | control data | means nothing | over the line, with its bytes; who asks for credentials has the line for good |
//! | closed with bytes unread | a reset | LEAVING is `UNREAD`: the other end tells the error (`lost`) |
//!
//! **Positions.** The kernel counts no bytes of a Unix socket. So only those are carried whose
//! whole life this library has seen, and before the second end goes up it checks that nothing
//! went past it: what each has sent must be what the other has read and has yet to read. The
//! first end says in two words of the carrier how far it is, until the second is up:
//!
//! | word, by side | what |
//! |---|---|
//! | 504 [`SENT`] | bytes sent; [`IN_CALL`]: it is in the middle of a call that sends |
//! | 506 [`READ`] | bytes read |
//!
//! So a first end that writes without a pause does not wait for room in the kernel, but between
//! two calls ([`wait_for_room`]).
//!
//! **Wake-ups.** A pair with both ends in one process, of which one end only writes, wakes an
//! event loop: it would gain nothing, and is left alone. After some tries it is so for good, since
//! to count its calls costs as well; so is a socket that several processes have all the time.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use barewire_fabric::hybrid::{SharedMemory, UP};
use libc::ssize_t;

use crate::process::{clock, settings};
use crate::system::{kernel, own_descriptors, real, unix_sockets};
use crate::table::flags::{CAREFUL, LOCAL};
use crate::table::limits::RECORDS_MAX;
use crate::table::socket_state::Record;
use crate::table::state::{State, Why};
use crate::table::stream_memory::Carrier;
use crate::table::{descriptors, sockets};

const SENT: usize = 504;
const READ: usize = 506;
const IN_CALL: u64 = u64::MAX;

/// A Unix socket is connected: it may be carried from now on, since its whole life is seen.
pub fn enter(fd: c_int) -> Option<&'static Record> {
    let record = descriptors::add(fd, State::Candidate)?;
    record.set(LOCAL, true);
    own_descriptors::note_highest(fd);
    Some(record)
}

/// The two ends of a pair.
pub fn enter_pair(fds: [c_int; 2]) {
    let (Some(a), Some(b)) = (enter(fds[0]), enter(fds[1])) else {
        return;
    };
    for (one, other) in [(a, b), (b, a)] {
        // Relaxed: no other thread knows these descriptors yet.
        let generation = other.generation();
        one.pair_generation.store(generation, Ordering::Relaxed);
        one.pair.store(other.number() + 1, Ordering::Relaxed);
    }
}

/// Whether a socket is a Unix stream socket that may be carried.
pub fn is_carried(fd: c_int) -> bool {
    settings::get().unix && unix_sockets::is_stream(fd)
}

/// Before the first call that moves bytes: shows the other end that this one is on board. A
/// connection without any is spared it.
pub fn mark_first(fd: c_int, record: &Record) {
    // Relaxed, here and below: shown to the program only.
    if record.has(LOCAL) && record.receive_buffer.load(Ordering::Relaxed) == 0 {
        let saved = real::errno();
        mark(fd, record);
        real::set_errno(saved);
    }
}

fn mark(fd: c_int, record: &Record) {
    // One that cannot be marked is not tried again.
    let before = unix_sockets::mark(fd).unwrap_or(1);
    record.receive_buffer.store(before, Ordering::Relaxed);
}

/// Takes the mark away.
pub fn unmark(fd: c_int, record: &Record) {
    let before = record.receive_buffer.swap(0, Ordering::Relaxed);
    if before > 1 {
        // The kernel doubles what it is told.
        kernel::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, (before / 2) as c_int);
    }
}

/// The program has set the size of the receive buffer.
pub fn receive_buffer_set(fd: c_int) {
    let marked = |record: &&Record| record.receive_buffer.load(Ordering::Relaxed) != 0;
    if let Some(record) = descriptors::find(fd).filter(marked) {
        mark(fd, record);
    }
}

/// The size of the receive buffer as the program knows it.
pub fn shown_receive_buffer(record: &Record, size: c_int) -> c_int {
    if record.has(LOCAL) && unix_sockets::is_marked(size.unsigned_abs()) {
        return record.receive_buffer.load(Ordering::Relaxed) as c_int;
    }
    size
}

/// So many times as many calls and bytes as TCP it takes until a Unix socket looks for its other
/// end: the kernel is quicker with it, and slower to say who has the other end. Twice as many after
/// each time that there was nobody, since a program's sockets are alike; up to [`MISSES_MAX`] times.
const FACTOR: u32 = 4;
const MISSES_MAX: u32 = 6;

/// Looks in vain since somebody was met.
static MISSES: AtomicU32 = AtomicU32::new(0);

/// By how much the calls and bytes that TCP needs are to be multiplied.
pub fn patience() -> u32 {
    // Relaxed, here and below: a hint.
    FACTOR << MISSES.load(Ordering::Relaxed).min(MISSES_MAX)
}

/// A look for the other end was in vain.
pub fn missed(record: &Record) {
    if record.has(LOCAL) {
        MISSES.fetch_add(1, Ordering::Relaxed);
    }
}

/// The other end was found.
pub fn met(record: &Record) {
    if record.has(LOCAL) {
        MISSES.store(0, Ordering::Relaxed);
    }
}

/// In [`Record::line_in`]: one read in progress that the kernel does as if this library were not
/// there. The bits below count bytes.
const DIRECT: u64 = 1 << 48;

/// Bytes read so far, as of now.
fn bytes_in(record: &Record) -> u64 {
    record.line_in.load(Ordering::Relaxed) & (DIRECT - 1)
}

fn may_read_directly(record: &Record) -> bool {
    let is_waiting = matches!(record.state(), State::Candidate | State::Seeking);
    is_waiting && record.has(LOCAL) && !record.has_now(CAREFUL)
}

/// Has the kernel do all of a read of a socket that is not up, without a lock: also one that
/// waits. Not when the socket is near to going up, which it cannot in the middle of such a read.
#[inline]
pub fn read_directly(
    fd: c_int,
    record: &Record,
    flags: c_int,
    read: impl FnOnce() -> ssize_t,
) -> Option<ssize_t> {
    if !may_read_directly(record) {
        return None;
    }
    mark_first(fd, record);
    // SeqCst, and so is the look at CAREFUL: partner: the fence in positions. Who goes up has set
    // that before, so he sees this read, or there is none.
    let generation = record.generation();
    record.line_in.fetch_add(DIRECT, Ordering::SeqCst);
    let result = may_read_directly(record).then(read);
    let bytes = counted(result.unwrap_or(0), flags);
    // Release: partner: the acquire in positions; the bytes come first, or with it.
    let done = bytes.wrapping_sub(DIRECT);
    if record.generation() == generation {
        record.line_in.fetch_add(done, Ordering::Release);
    }
    result
}

/// The socket may soon go up: no read is the kernel's alone any more.
pub fn be_careful(record: &Record) {
    if !record.has(CAREFUL) {
        record.set(CAREFUL, true);
    }
}

/// Whether it is one end of a pair whose other end is in this process as well, and bytes have
/// gone one way only.
pub fn is_wake_up(record: &Record) -> bool {
    // Relaxed: set when it was made; the counters are looked at again.
    let pair = record.pair.load(Ordering::Relaxed).checked_sub(1);
    let Some(pair) = pair.filter(|number| *number < RECORDS_MAX) else {
        return false;
    };
    let other = sockets::by_number(pair);
    let generation = record.pair_generation.load(Ordering::Relaxed);
    let is_here = other.generation() == generation && descriptors::is_own(pair);
    is_here && (record.line_out.load(Ordering::Relaxed) == 0 || bytes_in(record) == 0)
}

/// A socket that is not up has sent so many bytes, if it has. Under its send lock.
pub fn count_out(record: &Record, result: ssize_t) {
    if result > 0 && record.has(LOCAL) {
        // Relaxed, both: under the lock.
        let before = record.line_out.load(Ordering::Relaxed);
        let bytes = result.unsigned_abs() as u64;
        record.line_out.store(before + bytes, Ordering::Relaxed);
    }
}

/// Bytes of the stream that a read has taken.
const fn counted(result: ssize_t, flags: c_int) -> u64 {
    if result < 0 || flags & libc::MSG_PEEK != 0 {
        return 0;
    }
    result.unsigned_abs() as u64
}

/// As above, of what was read, under its receive lock. A direct read may be in progress.
pub fn count_in(record: &Record, result: ssize_t, flags: c_int) {
    let bytes = counted(result, flags);
    if bytes > 0 && record.has(LOCAL) {
        record.line_in.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of the stream sent and read so far, of a socket that is about to go up as `side`. Its
/// carrier is mapped, and both of its locks are held. `None`: the ends do not agree, or one
/// is in the middle of a call.
pub fn positions(fd: c_int, record: &Record, side: u32) -> Option<(u64, u64)> {
    // SeqCst: partner: the count in read_directly.
    fence(Ordering::SeqCst);
    // Acquire: partner: the release in read_directly.
    let read = record.line_in.load(Ordering::Acquire);
    if read >= DIRECT {
        return None;
    }
    let sent = record.line_out.load(Ordering::Relaxed);
    let carrier = record.carrier();
    if side == 0 {
        carrier.store(READ, read);
        carrier.store(SENT, sent);
        return Some((sent, read));
    }
    for _ in 0..ROUNDS {
        if agrees(fd, record, &carrier, sent, read) {
            return Some((sent, read));
        }
        clock::sleep_us(ROUND_US);
    }
    None
}

/// Looks at the first end's words, and pauses between them: it may be about to store one.
const ROUNDS: u32 = 4;
const ROUND_US: u32 = 50;

/// Whether what each end has sent is what the other has read and has yet to read. `sent` and
/// `read`: of side 1, which neither sends nor reads meanwhile.
fn agrees(fd: c_int, record: &Record, carrier: &Carrier, sent: u64, read: u64) -> bool {
    let other_sent = carrier.load(SENT);
    let arrived = unix_sockets::unread(fd).map(|bytes| read + bytes);
    if carrier.load(SENT) != other_sent || arrived != Some(other_sent) {
        return false;
    }
    let other_read = carrier.load(READ);
    let other = record.other_inode.load(Ordering::Relaxed);
    let other_unread = unix_sockets::unread_of(other);
    carrier.load(READ) == other_read && other_unread.map(|bytes| other_read + bytes) == Some(sent)
}

/// Whether the first end has to tell the second how far it is.
fn must_tell(record: &Record, carrier: &Carrier, side: usize) -> bool {
    record.has(LOCAL) && side == 0 && carrier.load(UP + 1) == 0
}

/// The stream that goes out is at `sent`; `None`: bytes are about to be sent over the line.
pub fn tell_sent(record: &Record, side: usize, sent: Option<u64>) {
    let carrier = record.carrier();
    if must_tell(record, &carrier, side) {
        carrier.store(SENT + side, sent.unwrap_or(IN_CALL));
    }
}

/// Whether the second end may be about to look how far this one is.
pub fn is_awaited(record: &Record) -> bool {
    // Relaxed: with Up comes the side.
    let side = record.side.load(Ordering::Relaxed) as usize;
    must_tell(record, &record.carrier(), side)
}

/// How long [`wait_for_room`] waits: then the kernel does.
const ROOM_WAIT_NS: i64 = 2_000_000;

/// Waits for room on the line, for a little. A signal that comes meanwhile is as one that comes
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

/// Bytes were read from the line, up to `read`.
pub fn tell_read(record: &Record, side: usize, read: u64) {
    let carrier = record.carrier();
    if must_tell(record, &carrier, side) {
        carrier.store(READ + side, read);
    }
}

/// Whether the other end has neither sent nor read anything: it may have no mark yet. `unread`
/// bytes lie there.
fn is_silent(record: &Record, unread: u64) -> bool {
    bytes_in(record) == 0 && record.line_out.load(Ordering::Relaxed) == unread
}

/// The two ends, and who has the other.
///
/// # Errors
/// [`Why::None`]: nobody has accepted it yet, or read or written anything. Other reasons hold for good.
pub fn ends(fd: c_int, record: &Record) -> Result<(kernel::Name, kernel::Peer), Why> {
    // Relaxed: it never changes once it is known.
    let known = record.other_inode.load(Ordering::Relaxed);
    match unix_sockets::look_up(fd, known) {
        unix_sockets::Found::Pair(_, peer, unread)
            if !peer.is_marked && is_silent(record, unread) =>
        {
            Err(Why::None)
        }
        unix_sockets::Found::Pair(pair, peer, _) => {
            record.other_inode.store(pair.other, Ordering::Relaxed);
            Ok((pair.meeting_place(), peer))
        }
        unix_sockets::Found::NotAccepted => Err(Why::None),
        unix_sockets::Found::Nothing => Err(Why::NotOnBoard),
    }
}
