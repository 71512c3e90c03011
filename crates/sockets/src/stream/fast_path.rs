//! The fast path of the commonest calls: one buffer, an upgraded socket, and nothing to consider but the
//! byte ring. A program that polls waits for exactly this code. All other cases take the slow path in
//! `receiving` and `sending`.

use core::ffi::c_int;

use barewire_fabric::hybrid::{LEAVING, Path, Sender, SharedMemory};
use libc::{iovec, ssize_t};

use crate::process::lock::Held;
use crate::process::{clock, fault};
use crate::stream::buffers::{PIECE_BYTES, Parts, slice, slice_mut};
use crate::stream::calls::{count_bytes, is_peer_leaving};
use crate::stream::wake_bytes::publish;
use crate::stream::{capture, empty_reads, lost_bytes, order, recall};
use crate::system::real::fail;
use crate::table::descriptors;
use crate::table::flags::{CHECK_KERNEL, FALLEN_BACK, LOW_WATER, NONBLOCKING, UNIX, WRITE_SHUT};
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::stream_memory::StreamMemory;

/// Flags that change nothing here, or are considered.
const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// As `receiving::receive`. `None`: nothing was done, take the slow path.
#[inline]
pub fn receive(fd: c_int, socket: &SocketState, parts: Parts<'_>, flags: c_int) -> Option<ssize_t> {
    let part = only_buffer(socket, parts, flags, LOW_WATER | UNIX)?;
    let held = socket
        .recv_lock
        .try_hold()
        .filter(|_| is_still_upgraded(fd, socket))?;
    let memory = socket.memory();
    match socket.receiver(&held).simple_bytes(&memory)? {
        0 if flags & libc::MSG_DONTWAIT != 0 || socket.has(NONBLOCKING) => {
            report_empty(socket, &held)
        }
        0 => None,
        bytes => take_from_ring(socket, &memory, part, bytes, &held),
    }
}

/// The buffer, if there is exactly one, nothing else is to consider, and none of these flag `bits` is set.
#[inline]
fn only_buffer<'a>(
    socket: &SocketState,
    parts: Parts<'a>,
    flags: c_int,
    bits: u32,
) -> Option<&'a iovec> {
    let [part] = parts else { return None };
    let is_plain = flags & !FLAGS == 0
        && part.iov_len > 0
        && socket.state() == State::Upgraded
        && !socket.has(bits)
        && !capture::is_on();
    is_plain.then_some(part)
}

/// The same question again, under a lock of the socket. A relay may have taken its place.
#[inline]
fn is_still_upgraded(fd: c_int, socket: &SocketState) -> bool {
    socket.state() == State::Upgraded && descriptors::is_of(fd, socket)
}

#[inline]
fn take_from_ring(
    socket: &SocketState,
    memory: &StreamMemory,
    part: &iovec,
    bytes: u64,
    held: &Held<'_>,
) -> Option<ssize_t> {
    let len = part.iov_len.min(bytes as usize);
    // A sleeper that comes now arms the receiver itself.
    let is_alone = socket.sleepers.get() == 0;
    if !is_alone || !fault::can_overwrite(part.iov_base, len) {
        return None;
    }
    let moving = held.begin_moving();
    let receiver = socket.receiver(held);
    // SAFETY: the program's buffer, which is there.
    receiver.copy(memory, 0, unsafe { slice_mut(part, 0, len) });
    receiver.took(memory, len as u64);
    count_bytes(&socket.ring_bytes_in, len);
    order::heard_of(receiver.direction().kernel_used(memory));
    moving.end();
    Some(len as ssize_t)
}

/// The byte ring is empty: reports that, if nothing else is to consider.
#[inline]
fn report_empty(socket: &SocketState, held: &Held<'_>) -> Option<ssize_t> {
    let is_well = socket.pending_error.get() == 0 && may_skip_kernel(socket);
    let may_report_empty =
        is_well && !recall::is_recall_asked(socket) && empty_reads::may_report_empty(socket, held);
    may_report_empty.then(|| fail(libc::EAGAIN))
}

/// Whether the kernel connection need not be polled: the other end has not announced that it leaves, and
/// the connection was polled since the last tick.
#[inline]
pub fn may_skip_kernel(socket: &SocketState) -> bool {
    let memory = socket.memory();
    let leaves = memory.load(LEAVING) | memory.load(LEAVING + 1) != 0;
    let checked_ns = socket.kernel_checked_ns.get();
    !leaves && !socket.has(CHECK_KERNEL) && clock::tick_ns() == checked_ns
}

/// Whether a send need not poll the kernel connection: something came from the other end since the last
/// send, or a send has polled since the last tick.
#[inline]
fn is_peer_known_there(socket: &SocketState, sender: &Sender) -> bool {
    let heard = socket.ring_bytes_in.get();
    if socket.heard_bytes.get() != heard && !socket.probe.must_be_timed() {
        socket.heard_bytes.set(heard);
        lost_bytes::note_there(socket, sender);
        return true;
    }
    socket.send_checked_ns.get() == clock::tick_ns()
}

/// Whether nothing has come from the other end since the last send: the program sends one way.
#[inline]
pub fn sends_one_way(socket: &SocketState) -> bool {
    socket.heard_bytes.get() == socket.ring_bytes_in.get()
}

/// Something came over the kernel connection.
pub fn note_heard_from_kernel(socket: &SocketState) {
    // So many bytes no ring has had.
    socket.heard_bytes.set(u64::MAX);
}

/// Something is about to be sent. If anything came since the last send, the other end was there at that
/// time. That says nothing about what is sent now.
pub fn note_send(socket: &SocketState, sender: &Sender) {
    let heard = socket.ring_bytes_in.get();
    if socket.heard_bytes.get() != heard {
        socket.heard_bytes.set(heard);
        lost_bytes::note_there(socket, sender);
    }
}

/// As `sending::send`. `None`: nothing was done, take the slow path.
#[inline]
pub fn send(fd: c_int, socket: &SocketState, parts: Parts<'_>, flags: c_int) -> Option<ssize_t> {
    let part = only_buffer(socket, parts, flags, FALLEN_BACK | WRITE_SHUT | UNIX)?;
    // Under the lock again: another thread may have said meanwhile that this is the end.
    let held = socket
        .send_lock
        .try_hold()
        .filter(|_| is_still_upgraded(fd, socket) && !socket.has(WRITE_SHUT))?;
    let memory = socket.memory();
    let sender = socket.sender(&held);
    let len = part.iov_len;
    let is_one_way = sends_one_way(socket);
    let is_simple = sender.path() == Path::Ring
        && len <= PIECE_BYTES
        && sender.room_known() >= len as u64
        && !sender.receiver_sleeps(&memory)
        && !is_peer_leaving(socket, &memory, &held)
        && is_peer_known_there(socket, sender)
        && fault::can_read(part.iov_base, len);
    if !is_simple {
        return None;
    }
    // SAFETY: the program's buffer, which is there.
    let bytes = unsafe { slice(part, 0, len) };
    let moving = held.begin_moving();
    let put = put(fd, socket, &memory, sender, bytes, is_one_way);
    moving.end();
    put
}

/// Puts the bytes into the ring, and shows them to the other end, unless that wants the kernel connection.
#[inline(always)]
fn put(
    fd: c_int,
    socket: &SocketState,
    memory: &StreamMemory,
    sender: &mut Sender,
    bytes: &[u8],
    is_one_way: bool,
) -> Option<ssize_t> {
    // Last: whoever has entered puts something.
    if !sender.enter_ring(memory) {
        return None;
    }
    sender.put(memory, bytes);
    if is_one_way {
        sender.fetch_ahead(memory, bytes.len());
    }
    count_bytes(&socket.ring_bytes_out, bytes.len());
    publish(fd, sender, memory, bytes);
    Some(bytes.len() as ssize_t)
}
