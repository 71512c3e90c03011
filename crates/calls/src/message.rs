//! Messages on sockets: bytes, and descriptors with them. What takes no flags does not wait.

use core::ffi::c_int;
use core::mem::zeroed;

use libc::{CMSG_DATA, CMSG_FIRSTHDR, CMSG_LEN, CMSG_NXTHDR, MSG_CTRUNC, MSG_TRUNC, iovec, msghdr};

use crate::{Result, call, option};

/// How many descriptors the kernel lets a message carry (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;

const CONTROL_BYTES: usize = control_bytes(DESCRIPTORS_MAX).next_multiple_of(8);

/// Room for so many descriptors beside a message, and for no more.
const fn control_bytes(descriptors: usize) -> usize {
    // SAFETY: no memory is looked at.
    let len = unsafe { CMSG_LEN(4 * descriptors as u32) };
    if descriptors == 0 { 0 } else { len as usize }
}

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A message of one part, with the first `control_len` of the control bytes.
fn message(part: &mut iovec, control: &mut Control, control_len: usize) -> msghdr {
    // SAFETY: zeros are a message without anything.
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control_len as _;
    message
}

/// Sends bytes and at most [`DESCRIPTORS_MAX`] descriptors in one message; returns how many bytes.
pub fn send(fd: c_int, bytes: &[u8], descriptors: &[c_int]) -> Result<usize> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(libc::EINVAL);
    }
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let len = control_bytes(descriptors.len());
    let message = message(&mut part, &mut control, len);
    // SAFETY: the message points to what lives until the call returns. A header is there only if there are control
    // bytes, and then all descriptors have room behind it.
    unsafe {
        let header = CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = len as _;
            let to = CMSG_DATA(header).cast();
            core::ptr::copy_nonoverlapping(descriptors.as_ptr(), to, descriptors.len());
        }
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as usize;
        let at = (&raw const message) as usize;
        call(libc::SYS_sendmsg, [fd as usize, at, flags])
    }
}

/// What was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// How many bytes.
    pub bytes: usize,
    /// How many descriptors. They are this process's, whatever else is wrong.
    pub descriptors: usize,
    /// `MSG_TRUNC`: it was longer than the room for its bytes. `MSG_CTRUNC`: there was more beside them than room.
    pub flags: c_int,
}

impl Received {
    /// Whether there was more than room.
    pub fn is_cut(self) -> bool {
        self.flags & (MSG_TRUNC | MSG_CTRUNC) != 0
    }
}

/// Receives a message, and descriptors that came with it: as many as there is room for, of which the kernel makes no
/// more. `flags`: `MSG_PEEK`, to leave it there to be received again.
pub fn receive(
    fd: c_int,
    into: &mut [u8],
    descriptors: &mut [c_int],
    flags: c_int,
) -> Result<Received> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let room = control_bytes(descriptors.len().min(DESCRIPTORS_MAX));
    let mut message = message(&mut part, &mut control, room);
    let at = (&raw mut message) as usize;
    let flags = (flags | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) as usize;
    // SAFETY: the message points to what lives until the call returns.
    let bytes = unsafe { call(libc::SYS_recvmsg, [fd as usize, at, flags]) }?;
    Ok(Received {
        bytes,
        descriptors: descriptors_of(&message, descriptors),
        flags: message.msg_flags,
    })
}

/// Copies the descriptors that the kernel has put beside a message; returns how many.
fn descriptors_of(message: &msghdr, to: &mut [c_int]) -> usize {
    let mut places = to.iter_mut();
    // SAFETY: the kernel has written whole headers, and what they say is behind them, in the control bytes.
    unsafe {
        let mut header = CMSG_FIRSTHDR(message).cast_const();
        while !header.is_null() {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            if kind == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let first = CMSG_DATA(header).cast::<c_int>();
                let count = ((*header).cmsg_len - CMSG_LEN(0) as usize) / size_of::<c_int>();
                for (nth, place) in (0..count).zip(&mut places) {
                    *place = first.add(nth).read_unaligned();
                }
            }
            header = CMSG_NXTHDR(message, header).cast_const();
        }
    }
    let left = places.len();
    to.len() - left
}

/// Whether there is a message, also one without a byte. Only for a socket that can receive no more: from now on
/// messages carry more than was sent.
pub fn is_there(fd: c_int) -> Result<bool> {
    // With this every message has something beside its bytes; an end has not.
    let _ = option::set(fd, libc::SOL_SOCKET, libc::SO_PASSCRED, 1);
    match receive(fd, &mut [], &mut [], libc::MSG_PEEK) {
        Ok(came) => Ok(came.is_cut()),
        Err(libc::EAGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Sends bytes, as `send` does, with its `flags`.
pub fn send_bytes(fd: c_int, bytes: &[u8], flags: c_int) -> Result<usize> {
    let (at, len, flags) = (bytes.as_ptr() as usize, bytes.len(), flags as usize);
    // SAFETY: `bytes` has `len` bytes, and there is no address.
    unsafe { call(libc::SYS_sendto, [fd as usize, at, len, flags]) }
}

/// Receives bytes, as `recv` does, with its `flags`.
pub fn receive_bytes(fd: c_int, into: &mut [u8], flags: c_int) -> Result<&[u8]> {
    let (at, len, flags) = (into.as_mut_ptr() as usize, into.len(), flags as usize);
    // SAFETY: `into` has `len` bytes, and no address is asked for.
    let len = unsafe { call(libc::SYS_recvfrom, [fd as usize, at, len, flags]) }?;
    Ok(&into[..len.min(into.len())])
}
