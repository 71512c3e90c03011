//! Messages that carry descriptors between two ends, shared memory to hand over, and the proof that a
//! process has a socket.

use core::ffi::c_int;
use core::mem::zeroed;

use barewire_calls::{call, descriptor, memory, message, process};

use crate::system::{kernel::Owned, text};

/// Descriptors in a greeting.
pub const DESCRIPTORS: usize = 2;

/// Sends bytes and descriptors in one message, without waiting.
pub fn send(fd: c_int, bytes: &[u8], descriptors: [c_int; DESCRIPTORS]) -> bool {
    message::send(fd, bytes, &descriptors) == Ok(bytes.len())
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
    let mut numbers = [-1; DESCRIPTORS];
    let came = match message::receive(fd, bytes, &mut numbers, libc::MSG_PEEK) {
        Ok(came) => came,
        Err(libc::EAGAIN | libc::EINTR) => return Received::Nothing,
        Err(_) => return Received::Wrong([None, None]),
    };
    // They are this process's, whatever else is wrong.
    let owned = |nth| (nth < came.descriptors).then(|| Owned::from_raw(numbers[nth]));
    match [owned(0), owned(1)] {
        [Some(first), Some(second)] if !came.is_cut() && came.bytes == bytes.len() => {
            Received::Message([first, second])
        }
        others => Received::Wrong(others),
    }
}

/// Proves to another process that this one has the socket: a descriptor that can only show what it is of.
pub fn proof_of(fd: c_int) -> Option<Owned> {
    let path = text::link_of(fd);
    let opened = descriptor::open_in(libc::AT_FDCWD, path.as_path(), libc::O_PATH, 0);
    Owned::checked(opened.or_else(|_| {
        // Where there is no /proc, as in a folder that the program has made its root.
        let flags = (libc::AT_EMPTY_PATH | libc::O_CLOEXEC) as usize;
        // SAFETY: the path ends with a zero.
        let opened = unsafe {
            call(
                libc::SYS_open_tree,
                [fd as usize, c"".as_ptr() as usize, flags],
            )
        };
        opened.map(|fd| fd as c_int)
    }))
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
    descriptor::flags(fd).is_ok_and(|flags| flags & libc::O_PATH != 0)
}

/// Discards a message unread.
pub fn skip_message(fd: c_int) {
    let _ = message::receive_bytes(fd, &mut [0], libc::MSG_DONTWAIT);
}

/// Zeroed memory of a fixed size that can be passed to another process.
pub fn sealed_memory(len: usize) -> Option<Owned> {
    if file_bytes_max() < len as u64 {
        // To grow the memory beyond the limit would end the program (SIGXFSZ).
        return None;
    }
    let made = Owned::checked(memory::create(c"barewire-carrier"))?;
    memory::set_len(made.raw(), len).ok()?;
    memory::add_seals(made.raw(), memory::FIXED).ok()?;
    Some(made)
}

/// The longest file that this process may make. Shared memory is a file to the kernel.
pub fn file_bytes_max() -> u64 {
    process::limit(libc::RLIMIT_FSIZE).map_or(0, |limit| limit.rlim_cur)
}

/// Whether memory has this size and keeps it.
pub fn is_sealed(fd: c_int, len: usize) -> bool {
    let no_writes = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
    memory::seals(fd).is_ok_and(|seals| seals & (memory::FIXED | no_writes) == memory::FIXED)
        && descriptor::status(fd).is_ok_and(|status| status.st_size == len as libc::off_t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{real, unix_sockets};

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
        assert_eq!(message::is_there(other.raw()), Ok(false));
        // One without a byte is one as well.
        assert_eq!(message::send_bytes(one.raw(), &[], 0), Ok(0));
        descriptor::shut(other.raw(), libc::SHUT_RDWR);
        assert_eq!(message::is_there(other.raw()), Ok(true));
        skip_message(other.raw());
        assert_eq!(message::is_there(other.raw()), Ok(false));
    }
}
