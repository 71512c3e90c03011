//! Messages that carry descriptors between two ends, shared memory to hand over, and the proof that a
//! process has a socket.

use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::mem::zeroed;

use crate::system::text::Line;
use crate::system::{
    kernel::{self, Owned},
    real,
};

/// Descriptors in a greeting.
pub const DESCRIPTORS: usize = 2;

const CONTROL_BYTES: usize = 64;

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: no memory is looked at.
const CONTROL_LEN: usize = unsafe { libc::CMSG_LEN(4 * DESCRIPTORS as u32) } as usize;
const _: () = assert!(CONTROL_LEN <= CONTROL_BYTES);

/// Sends bytes and descriptors in one message, without waiting.
pub fn send(fd: c_int, bytes: &[u8], descriptors: [c_int; DESCRIPTORS]) -> bool {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the message points to what lives until the call returns, and the descriptors are
    // within the control bytes.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = CONTROL_LEN as _;
        libc::CMSG_DATA(header)
            .cast::<[c_int; DESCRIPTORS]>()
            .write_unaligned(descriptors);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        real::sendmsg(fd, &raw const message, flags) == bytes.len() as isize
    }
}

/// What [`receive`] found.
pub enum Received {
    /// Nothing yet.
    Nothing,
    /// A message that filled the bytes, with its descriptors.
    Message([Owned; DESCRIPTORS]),
    /// Something else, with the descriptors that came with it, or the other side has gone.
    Wrong([Option<Owned>; DESCRIPTORS]),
}

/// Receives a message that fills `bytes` and has as many descriptors as [`send`] sends, without
/// waiting. It stays there to be received again.
pub fn receive(fd: c_int, bytes: &mut [u8]) -> Received {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: as in send. There is room for so many descriptors, and the kernel makes no more.
    let (len, message_flags) = unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_CMSG_CLOEXEC;
        let len = real::recvmsg(fd, &raw mut message, flags);
        (len, message.msg_flags)
    };
    if len < 0 {
        return if matches!(real::errno(), libc::EAGAIN | libc::EINTR) {
            Received::Nothing
        } else {
            Received::Wrong([None, None])
        };
    }
    let descriptors = descriptors_in(&control);
    let cut = message_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    match descriptors {
        [Some(first), Some(second)] if !cut && len == bytes.len() as isize => {
            Received::Message([first, second])
        }
        others => Received::Wrong(others),
    }
}

/// The descriptors that came: they are this process's, whatever else is wrong.
fn descriptors_in(control: &Control) -> [Option<Owned>; DESCRIPTORS] {
    let base = control.0.as_ptr();
    // SAFETY: header and descriptors are within the control bytes, which are zeros where the
    // kernel wrote nothing.
    unsafe {
        let header = base.cast::<libc::cmsghdr>();
        let is_rights =
            (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS;
        let count = (*header)
            .cmsg_len
            .saturating_sub(libc::CMSG_LEN(0) as usize)
            / 4;
        let first = libc::CMSG_DATA(header).cast::<c_int>();
        core::array::from_fn(|nth| {
            (is_rights && nth < count).then(|| Owned::from_raw(first.add(nth).read_unaligned()))
        })
    }
}

/// Proves to another process that this one has the socket: a descriptor that can only show what it is of.
pub fn proof_of(fd: c_int) -> Option<Owned> {
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
    let mut path = Line::new();
    write!(path, "/proc/self/fd/{fd}\0").ok()?;
    let path = path.as_bytes().as_ptr() as usize;
    let folder = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with a zero.
    let opened = unsafe { real::syscall(libc::SYS_openat, folder, path, flags, 0, 0, 0) };
    if let Some(proof) = Owned::checked(opened as c_int) {
        return Some(proof);
    }
    // Where there is no /proc, as in a folder that the program has made its root.
    let flags = (libc::AT_EMPTY_PATH | libc::O_CLOEXEC) as usize;
    let empty = c"".as_ptr() as usize;
    // SAFETY: as above.
    let opened = unsafe { real::syscall(libc::SYS_open_tree, fd as usize, empty, flags, 0, 0, 0) };
    Owned::checked(opened as c_int)
}

/// Whether a proof is of the socket with this inode. `own`: any socket of ours.
pub fn is_proof(proof: c_int, own: c_int, inode: u32) -> bool {
    let status = |fd: c_int| {
        // Without a question to whoever serves the file: it need not answer.
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        // SAFETY: `status` is ours to write.
        unsafe {
            let mut status: libc::statx = zeroed();
            let result = libc::statx(fd, c"".as_ptr(), flags, libc::STATX_INO, &raw mut status);
            (result == 0).then_some(status)
        }
    };
    let (Some(found), Some(own)) = (status(proof), status(own)) else {
        return false;
    };
    // All sockets of a host are on one device, and nothing else is.
    let device = |status: &libc::statx| (status.stx_dev_major, status.stx_dev_minor);
    device(&found) == device(&own) && found.stx_ino == u64::from(inode)
}

/// Whether a descriptor can only show what it is of.
pub fn is_only_a_name(fd: c_int) -> bool {
    // SAFETY: no pointers.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
    flags >= 0 && flags & libc::O_PATH != 0
}

/// Whether there is a message. For a socket that can receive no more; its flags are changed.
pub fn has_message(fd: c_int) -> bool {
    // With this every message has something beside its bytes, also one of no bytes; an end has not.
    kernel::set_option(fd, libc::SOL_SOCKET, libc::SO_PASSCRED, 1);
    // SAFETY: a message without room for anything.
    let (len, flags) = unsafe {
        let mut message: libc::msghdr = zeroed();
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        let len = real::recvmsg(fd, &raw mut message, flags);
        (len, message.msg_flags)
    };
    len > 0 || flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0
}

/// Discards a message unread.
pub fn skip_message(fd: c_int) {
    let mut byte = 0_u8;
    let into = (&raw mut byte).cast::<c_void>();
    // SAFETY: one byte of ours.
    unsafe { real::recv(fd, into, 1, libc::MSG_DONTWAIT) };
}

const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Zeroed memory of a fixed size that can be passed to another process.
pub fn sealed_memory(len: usize) -> Option<Owned> {
    if file_bytes_max() < len as u64 {
        // To grow the memory beyond the limit would end the program (SIGXFSZ).
        return None;
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero.
    let memory =
        Owned::checked(unsafe { libc::memfd_create(c"barewire-carrier".as_ptr(), flags) })?;
    // SAFETY: no pointers.
    let sealed = unsafe {
        libc::ftruncate(memory.raw(), len as libc::off_t) == 0
            && real::fcntl(memory.raw(), libc::F_ADD_SEALS, SEALS as usize) == 0
    };
    sealed.then_some(memory)
}

/// The longest file that this process may make. Shared memory is a file to the kernel.
pub fn file_bytes_max() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is ours to write.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// The seals of memory; `None` if it is none.
pub fn seals(fd: c_int) -> Option<c_int> {
    // SAFETY: no pointers.
    let seals = unsafe { real::fcntl(fd, libc::F_GET_SEALS, 0) };
    (seals >= 0).then_some(seals)
}

/// Whether memory has this size and keeps it.
pub fn is_sealed(fd: c_int, len: usize) -> bool {
    let is_fixed = seals(fd).is_some_and(|seals| {
        seals & SEALS == SEALS && seals & (libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE) == 0
    });
    // SAFETY: `status` is ours to write.
    is_fixed
        && unsafe {
            let mut status: libc::stat = zeroed();
            libc::fstat(fd, &raw mut status) == 0 && status.st_size == len as libc::off_t
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::unix_sockets;

    fn pair() -> (Owned, Owned) {
        let mut fds = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: two numbers are written.
        let result = unsafe { real::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) };
        assert_eq!(result, 0);
        (Owned::from_raw(fds[0]), Owned::from_raw(fds[1]))
    }

    fn inode(fd: c_int) -> u32 {
        unix_sockets::inode(fd).unwrap()
    }

    #[test]
    fn a_proof_is_of_its_socket_only() {
        let (one, other) = pair();
        let proof = proof_of(one.raw()).unwrap();
        assert!(is_only_a_name(proof.raw()) && !is_only_a_name(one.raw()));
        assert!(is_proof(proof.raw(), other.raw(), inode(one.raw())));
        assert!(!is_proof(proof.raw(), other.raw(), inode(other.raw())));
        // The number alone proves nothing: files of other systems have numbers, too.
        let memory = sealed_memory(4096).unwrap();
        assert!(!is_proof(memory.raw(), other.raw(), inode(memory.raw())));
    }

    #[test]
    fn what_was_left_is_received_whole_or_not_at_all() {
        let (one, other) = pair();
        let memory = sealed_memory(4096).unwrap();
        let proof = proof_of(one.raw()).unwrap();
        let mut bytes = [0; 3];
        assert!(matches!(
            receive(other.raw(), &mut bytes),
            Received::Nothing
        ));
        assert!(send(one.raw(), b"abc", [memory.raw(), proof.raw()]));
        for _ in 0..2 {
            let Received::Message([first, second]) = receive(other.raw(), &mut bytes) else {
                panic!("there is a message");
            };
            assert_eq!(&bytes, b"abc");
            assert!(is_sealed(first.raw(), 4096) && !is_sealed(first.raw(), 8192));
            assert!(is_only_a_name(second.raw()));
        }
        assert!(matches!(
            receive(other.raw(), &mut [0; 2]),
            Received::Wrong(_)
        ));
        assert!(matches!(
            receive(other.raw(), &mut [0; 4]),
            Received::Wrong(_)
        ));
        skip_message(other.raw());
        assert!(!has_message(other.raw()));
        // One without a byte is one as well.
        // SAFETY: no byte is read.
        let result = unsafe { real::send(one.raw(), core::ptr::null(), 0, 0) };
        assert_eq!(result, 0);
        // SAFETY: no pointers.
        unsafe { real::shutdown(other.raw(), libc::SHUT_RDWR) };
        assert!(has_message(other.raw()));
        skip_message(other.raw());
        assert!(!has_message(other.raw()));
    }
}
