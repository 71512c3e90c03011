//! The capture memory: while `barewire capture` runs, each call puts a copy of the bytes that the
//! program sent or received into memory of this process, and the capturer takes it from there.
//!
//! The capturer reads and writes this process's memory (`/proc/PID/mem`), which the kernel
//! permits to everybody who may trace the process. So there is no descriptor, no name, and no memory
//! that another could see. The addresses are reserved at start, and take memory only during a capture.
//!
//! | word | written by | what |
//! |---|---|---|
//! | 0 HEAD | library | bytes of the area ever given to entries |
//! | 1 TAIL, 2 | capturer | bytes of it that are free again, and the same inverted: it may be seen half written |
//! | 3 BEAT | capturer | changes while the capturer lives |
//! | 4, 5 LOST | library | pieces and bytes that did not fit, ever |
//! | 6 SECRET | capturer | a random number, other than 0, of this capture |
//! | 8, 9 | library | the BEAT that was seen last, and when |
//! | 10 | library | the TAIL that was seen whole last |
//!
//! The area follows at byte 4096. An entry begins at a multiple of 64 bytes and may go on at
//! the area's begin. First it is given its place (HEAD), then it is filled in, and at last its
//! stamp is stored: many threads and signal handlers write at once, and none waits.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | stamp: (HEAD before it, plus 1) xor SECRET. No byte of a stream can pass for it |
//! | 8..12, 12..16 | [`Kind`]; bytes of the stream behind this header |
//! | 16..20, 20..24 | number of the socket state, and which use of it |
//! | 24..32 | position in the stream, of what was sent or received while somebody captured |
//! | 32..40 | nanoseconds since 1970 began |
//!
//! A capturer that is too slow loses entries: a gap in the positions, and a count. If it has gone,
//! the next call on a socket notices, and gives the memory back. While nobody captures, a call costs
//! one more load, of a cache line that it needs anyway.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use barewire_calls::clock::now_ns;
use barewire_calls::memory::advise;
use libc::ssize_t;

use crate::process::words::{AtStart, Lone};
use crate::process::{clock, memory};
use crate::stream::buffers::{Parts, for_each_stretch, slice, total};
use crate::system::{kernel, real};
use crate::table::flags::OPENER;
use crate::table::slots;
use crate::table::socket_state::SocketState;
use crate::table::status::CaptureArea;

/// Bytes of the area: a power of 2.
pub const AREA_BYTES: usize = 16 << 20;
const CONTROL_BYTES: usize = 4096;
const HEADER_BYTES: usize = 64;
/// Longest piece of a stream in an entry: with headers, an IP packet.
const PIECE_BYTES: usize = 32 << 10;
/// Bytes read from a file at once.
const FILE_CHUNK_BYTES: usize = 16 << 10;

const HEAD: usize = 0;
const TAIL: usize = 1;
const BEAT: usize = 3;
const LOST_PIECES: usize = 4;
const LOST_BYTES: usize = 5;
const SECRET: usize = 6;
const SEEN_BEAT: usize = 8;
const SEEN_AT_NS: usize = 9;
const SEEN_TAIL: usize = 10;

/// Values of the word that turns capturing on: somebody captures.
const ON: u32 = 1;
/// Somebody has just stopped.
const STOPPED: u32 = 2;

/// A capturer that has not stirred for so long has gone.
const GONE_NS: u64 = 2_000_000_000;
/// How long the end of the process waits for the capturer to take the rest.
const REST_WAIT_ROUNDS: u32 = 100;
/// The pause between two checks of that.
const REST_WAIT_US: u32 = 500;

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// Which connection: own address (16 bytes, IPv4 as in IPv6) and port (2, big endian),
    /// those of the other end, 1 if this end opened it; then the positions, 8 bytes each.
    Names = 1,
    /// The program sent these bytes.
    Sent = 2,
    /// It received these.
    Received = 3,
    /// It sends no more.
    SendEnd = 4,
    /// The other end sends no more.
    ReceiveEnd = 5,
    /// The connection was reset.
    Reset = 6,
    /// No process has the socket any more.
    Closed = 7,
}

/// Where the memory is; 0 if there is none.
static MEMORY: AtStart<AtomicUsize> = AtStart::new(AtomicUsize::new(0));

/// Bytes that [`set_up`] takes.
pub const PRIVATE_BYTES: usize = memory::private_bytes(CONTROL_BYTES + AREA_BYTES);

/// Reserves the memory. Without it nothing can be captured, and nothing else is amiss.
pub fn set_up() {
    if let Some(at) = memory::part_private(CONTROL_BYTES + AREA_BYTES) {
        MEMORY.set(at as usize);
    }
}

/// For outsiders: where the memory is, and the word that turns it on.
pub fn addresses() -> CaptureArea {
    CaptureArea {
        address: MEMORY.get(),
        bytes: AREA_BYTES,
        switch: core::ptr::from_ref(slots::captured()) as usize,
    }
}

/// Whether somebody captures.
#[inline]
pub fn is_on() -> bool {
    slots::captured().get() != 0
}

/// A call of the program's sent the first `result` bytes of these, if any.
#[cold]
pub fn sent(fd: c_int, socket: &SocketState, parts: Parts<'_>, result: ssize_t) {
    let Ok(bytes @ 1..) = usize::try_from(result) else {
        return;
    };
    with_area(|area| area.pieces(fd, socket, Kind::Sent, parts, bytes));
}

/// The first `result` bytes went out of a file; `after` is the offset behind them, if it is not
/// the file's own. They are read again: a file that changes meanwhile is captured as it is then.
#[cold]
pub fn sent_from_file(
    fd: c_int,
    socket: &SocketState,
    file: c_int,
    after: Option<&libc::off64_t>,
    result: ssize_t,
) {
    let Ok(bytes @ 1..) = usize::try_from(result) else {
        return;
    };
    with_area(|area| {
        let mut chunk = [0_u8; FILE_CHUNK_BYTES];
        // SAFETY: no pointers.
        let after = after.map_or_else(
            || unsafe { libc::lseek64(file, 0, libc::SEEK_CUR) },
            |it| *it,
        );
        let mut done = 0;
        while done < bytes {
            let from = after - (bytes - done) as libc::off64_t;
            let len = chunk.len().min(bytes - done);
            // SAFETY: `chunk` has `len` bytes.
            let read = unsafe { real::pread64(file, chunk.as_mut_ptr().cast(), len, from) };
            let Ok(read @ 1..) = usize::try_from(read) else {
                break;
            };
            let part = libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: read,
            };
            area.pieces(fd, socket, Kind::Sent, &[part], read);
            done += read;
        }
        sent_unseen(socket, (bytes - done) as ssize_t);
    });
}

/// Bytes went out that are not seen here: from a pipe.
#[cold]
pub fn sent_unseen(socket: &SocketState, result: ssize_t) {
    if let Ok(bytes) = u64::try_from(result) {
        socket.captured_bytes[0].add(bytes);
    }
}

/// A call of the program's returned `result`, with that many bytes in these.
#[cold]
pub fn received(fd: c_int, socket: &SocketState, parts: Parts<'_>, flags: c_int, result: ssize_t) {
    if flags & libc::MSG_PEEK != 0 {
        return;
    }
    let error = real::errno();
    with_area(|area| match usize::try_from(result) {
        Ok(0) if total(parts) > 0 => area.event(fd, socket, Kind::ReceiveEnd),
        Ok(0) => {}
        Ok(bytes) if flags & libc::MSG_TRUNC != 0 => {
            // Thrown away unseen.
            socket.captured_bytes[1].add(bytes as u64);
        }
        Ok(bytes) => area.pieces(fd, socket, Kind::Received, parts, bytes),
        Err(_) if error == libc::ECONNRESET => area.event(fd, socket, Kind::Reset),
        Err(_) => {}
    });
}

/// The program sends no more on this socket.
#[cold]
pub fn send_ended(fd: c_int, socket: &SocketState) {
    with_area(|area| area.event(fd, socket, Kind::SendEnd));
}

/// No process has it any more; the descriptor is still open.
#[cold]
pub fn closed(fd: c_int, socket: &SocketState) {
    with_area(|area| {
        // Of a connection that nothing was said of, nothing is said now.
        if socket.captured_by.get() == area.id() {
            area.event(fd, socket, Kind::Closed);
        }
    });
}

/// The process ends: gives the capturer a little time to take the rest, which goes with it.
pub fn end() {
    if !is_on() {
        return;
    }
    with_area(|area| {
        for _ in 0..REST_WAIT_ROUNDS {
            let head = area.word(HEAD).get();
            if area.tail() == head {
                break;
            }
            clock::sleep_us(REST_WAIT_US);
        }
    });
}

/// For a process that gives the memory back: nothing can be captured any more.
pub fn forget_memory() {
    slots::captured().set(0);
    MEMORY.set(0);
}

/// A child is not captured with its parent.
pub fn forget() {
    if is_on() {
        slots::captured().set(0);
        if let Some(area) = Area::find() {
            area.give_back();
        }
    }
}

/// Puts something into the area, if somebody captures still. Leaves `errno` alone.
fn with_area(put: impl FnOnce(Area)) {
    let saved = real::errno();
    if let Some(area) = Area::find().filter(|area| area.is_wanted()) {
        put(area);
    }
    real::set_errno(saved);
}

/// The reserved memory.
#[derive(Clone, Copy)]
struct Area {
    base: *mut u8,
}

/// What an entry's header says of where its bytes belong.
struct Header {
    kind: Kind,
    position: u64,
    time_ns: u64,
}

impl Area {
    fn find() -> Option<Area> {
        let base = MEMORY.get() as *mut u8;
        (!base.is_null()).then_some(Area { base })
    }

    /// A word that stands for itself.
    fn word(&self, index: usize) -> &'static Lone<AtomicU64> {
        // SAFETY: a word of the one kind is an atomic as well.
        unsafe { &*core::ptr::from_ref(self.ordered(index)).cast() }
    }

    /// A word with which others become visible.
    fn ordered(&self, index: usize) -> &'static AtomicU64 {
        assert!(index < CONTROL_BYTES / 8);
        // SAFETY: in the reserved memory, which is never unmapped and aligned to a page; its
        // first page is reached as words only.
        unsafe { &*self.base.add(index * 8).cast::<AtomicU64>() }
    }

    /// Of this capture: what a socket state notes when its names were told.
    fn id(&self) -> u32 {
        // Another process stored it, before it turned this on.
        (self.word(SECRET).get() as u32).max(1)
    }

    /// Whether the capturer lives; turns it off if not.
    fn is_wanted(&self) -> bool {
        let now_ns = clock::now_ns();
        let beat = self.word(BEAT).get();
        // Acquire pairs with the Release below: with a beat comes the time at which it was seen.
        let alive = if self.ordered(SEEN_BEAT).load(Ordering::Acquire) == beat {
            now_ns.saturating_sub(self.word(SEEN_AT_NS).get()) < GONE_NS
        } else {
            self.word(SEEN_AT_NS).set(now_ns);
            // Release pairs with the Acquire above, in another thread.
            self.ordered(SEEN_BEAT).store(beat, Ordering::Release);
            true
        };
        match slots::captured().get() {
            ON if alive => true,
            state @ (ON | STOPPED) => {
                if slots::captured().exchange(state, 0) {
                    self.give_back();
                }
                false
            }
            _ => false,
        }
    }

    /// The area takes no memory any more. A thread that is writing there takes some of it again.
    fn give_back(&self) {
        // SAFETY: the area is ours, and whoever still looks there bears zeros.
        unsafe {
            let area = self.base.add(CONTROL_BYTES);
            let _ = advise(area.cast(), AREA_BYTES, libc::MADV_DONTNEED);
        }
    }

    /// TAIL, or an earlier one while the capturer is just writing it.
    fn tail(&self) -> u64 {
        // Acquire, both, pairs with the capturer's stores. It is another process, and stores through the kernel, when
        // it has copied what was there before.
        let tail = self.ordered(TAIL).load(Ordering::Acquire);
        if self.ordered(TAIL + 1).load(Ordering::Acquire) != !tail {
            // Whichever it is, it was free when it was seen.
            return self.word(SEEN_TAIL).get();
        }
        self.word(SEEN_TAIL).set(tail);
        tail
    }

    /// A place for so many bytes, if there is one.
    fn reserve(&self, bytes: usize) -> Option<u64> {
        let mut head = self.word(HEAD).get();
        loop {
            let used = head.wrapping_sub(self.tail());
            if used > (AREA_BYTES - bytes) as u64 {
                return None;
            }
            // Whoever gets a place writes to it alone, and the stamp tells of that.
            if self.word(HEAD).exchange(head, head + bytes as u64) {
                return Some(head);
            }
            head = self.word(HEAD).get();
        }
    }

    /// Copies to a position of the area, round its end.
    fn copy(&self, position: u64, bytes: &[u8]) {
        let at = position as usize % AREA_BYTES;
        let (first, rest) = bytes.split_at(bytes.len().min(AREA_BYTES - at));
        // SAFETY: both within the area, in a place that `reserve` gave to this thread alone; the
        // program's buffers are elsewhere.
        unsafe {
            let area = self.base.add(CONTROL_BYTES);
            core::ptr::copy_nonoverlapping(first.as_ptr(), area.add(at), first.len());
            core::ptr::copy_nonoverlapping(rest.as_ptr(), area, rest.len());
        }
    }

    /// Puts an entry with `bytes` bytes, which `fill` copies from the position it is given.
    fn put(
        &self,
        socket: &SocketState,
        header: &Header,
        bytes: usize,
        fill: impl FnOnce(&Area, u64),
    ) -> bool {
        let place_bytes = (HEADER_BYTES + bytes).next_multiple_of(HEADER_BYTES);
        let Some(at) = self.reserve(place_bytes) else {
            self.word(LOST_PIECES).add(1);
            self.word(LOST_BYTES).add(bytes as u64);
            return false;
        };
        let generation = socket.generation();
        let mut words = [0_u8; 32];
        words[..4].copy_from_slice(&(header.kind as u32).to_ne_bytes());
        words[4..8].copy_from_slice(&(bytes as u32).to_ne_bytes());
        words[8..12].copy_from_slice(&socket.number().to_ne_bytes());
        words[12..16].copy_from_slice(&generation.to_ne_bytes());
        words[16..24].copy_from_slice(&header.position.to_ne_bytes());
        words[24..].copy_from_slice(&header.time_ns.to_ne_bytes());
        self.copy(at + 8, &words);
        fill(self, at + HEADER_BYTES as u64);
        let stamp = (at + 1) ^ self.word(SECRET).get();
        // SAFETY: at a multiple of 64 bytes in the area, in the place that is ours.
        let place = unsafe {
            let area = self.base.add(CONTROL_BYTES);
            &*area.add(at as usize % AREA_BYTES).cast::<AtomicU64>()
        };
        // Release pairs with the capturer, which reads the stamp in one call of the kernel's and the entry in the
        // next: it finds the entry whole.
        place.store(stamp, Ordering::Release);
        true
    }

    /// Says once which connection a socket state is.
    fn name(&self, fd: c_int, socket: &SocketState) {
        if socket.captured_by.get() == self.id() {
            return;
        }
        let Some(tuple) = kernel::tuple(fd) else {
            return;
        };
        let mut bytes = [0; 56];
        let ends = tuple.ends();
        for (place, end) in bytes.chunks_exact_mut(18).zip(ends) {
            let address = match end.ip() {
                core::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                core::net::IpAddr::V6(v6) => v6,
            };
            place[..16].copy_from_slice(&address.octets());
            place[16..].copy_from_slice(&end.port().to_be_bytes());
        }
        bytes[36] = u8::from(socket.has(OPENER));
        for (place, position) in bytes[40..].chunks_exact_mut(8).zip(&socket.captured_bytes) {
            place.copy_from_slice(&position.get().to_ne_bytes());
        }
        let header = Header {
            kind: Kind::Names,
            position: 0,
            time_ns: now_ns(libc::CLOCK_REALTIME),
        };
        if self.put(socket, &header, bytes.len(), |area, at| {
            area.copy(at, &bytes);
        }) {
            // Told twice is no harm.
            socket.captured_by.set(self.id());
        }
    }

    fn event(&self, fd: c_int, socket: &SocketState, kind: Kind) {
        self.name(fd, socket);
        let direction = usize::from(kind == Kind::ReceiveEnd);
        let header = Header {
            kind,
            position: socket.captured_bytes[direction].get(),
            time_ns: now_ns(libc::CLOCK_REALTIME),
        };
        self.put(socket, &header, 0, |_, _| {});
    }

    fn pieces(&self, fd: c_int, socket: &SocketState, kind: Kind, parts: Parts<'_>, bytes: usize) {
        self.name(fd, socket);
        let direction = usize::from(kind == Kind::Received);
        let position = socket.captured_bytes[direction].add(bytes as u64);
        let time_ns = now_ns(libc::CLOCK_REALTIME);
        for done in (0..bytes).step_by(PIECE_BYTES) {
            let len = PIECE_BYTES.min(bytes - done);
            let header = Header {
                kind,
                position: position + done as u64,
                time_ns,
            };
            self.put(socket, &header, len, |area, mut at| {
                for_each_stretch(parts, done, len, |part, skip, len| {
                    // SAFETY: the program's buffer, within the call that it gave it to.
                    area.copy(at, unsafe { slice(part, skip, len) });
                    at += len as u64;
                });
            });
        }
    }
}
