//! Asks the kernel who is at the other end of a Unix socket.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Socket;
use crate::error::{Errno, Result, on};
use crate::process::{Credentials, pidfd_open};

const SO_PEERGROUPS: i32 = 59;
const SO_PEERPIDFD: i32 = 77;

impl Socket {
    /// Who connected, or listened: as it was then, even if that process has
    /// ended or changed its user since. The pid is 0 where the peer lives in
    /// a pid namespace that cannot be seen from here.
    ///
    /// # Errors
    /// Only if the socket is broken.
    pub fn peer_credentials(&self) -> Result<Credentials> {
        // Not through rustix, for which a pid is never 0.
        let mut raw = [0i32; 3];
        get_option(self.as_fd(), libc::SO_PEERCRED, &mut raw)
            .map_err(on("ask who is at the other end (SO_PEERCRED)"))?;
        let [pid, uid, gid] = raw;
        Ok(Credentials {
            pid,
            uid: uid as u32,
            gid: gid as u32,
        })
    }

    /// The supplementary groups of the process at the other end, as they were
    /// when it connected or listened; empty where the kernel (before Linux
    /// 4.13) does not tell.
    ///
    /// # Errors
    /// Only if the socket is broken.
    pub fn peer_groups(&self) -> Result<Vec<u32>> {
        /// As many as Linux lets a process have (NGROUPS_MAX).
        const MOST_GROUPS: usize = 65_536;
        let mut groups = vec![0i32; 64];
        let count = match get_option(self.as_fd(), SO_PEERGROUPS, &mut groups) {
            Err(Errno(libc::ERANGE)) => {
                groups.resize(MOST_GROUPS, 0);
                get_option(self.as_fd(), SO_PEERGROUPS, &mut groups)
            }
            other => other,
        };
        match count {
            Ok(count) => {
                groups.truncate(count);
                Ok(groups.into_iter().map(|gid| gid as u32).collect())
            }
            Err(Errno(libc::ENOPROTOOPT | libc::ENODATA)) => Ok(Vec::new()),
            Err(errno) => Err(on("ask for the peer's groups (SO_PEERGROUPS)")(errno)),
        }
    }

    /// A descriptor of the process at the other end, which becomes readable
    /// when that ends; closed on exec. `None` if the process is gone already,
    /// or cannot be seen. Before Linux 6.5 it is found by its pid, which may
    /// have been given to another process if the peer is gone already.
    pub fn peer_pidfd(&self) -> Option<OwnedFd> {
        let mut raw = [-1i32; 1];
        match get_option(self.as_fd(), SO_PEERPIDFD, &mut raw) {
            Ok(1) if raw[0] >= 0 => {
                // SAFETY: the kernel has just made this descriptor for us
                // (closed on exec), and nobody else knows it.
                Some(unsafe { OwnedFd::from_raw_fd(raw[0]) })
            }
            Err(Errno(libc::ENOPROTOOPT)) => {
                let pid = self.peer_credentials().ok()?.pid;
                pidfd_open(pid).ok()
            }
            _ => None,
        }
    }
}

/// Reads a socket option made of words of 4 bytes; gives how many came.
fn get_option(fd: BorrowedFd<'_>, option: i32, words: &mut [i32]) -> Result<usize, Errno> {
    let mut len = size_of_val(words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `words`, any value of
    // which is valid, and the length to `len`.
    let result = unsafe {
        let words = words.as_mut_ptr().cast::<c_void>();
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            words,
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(Errno::last());
    }
    Ok((len as usize / size_of::<i32>()).min(words.len()))
}
