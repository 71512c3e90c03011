//! Asks the kernel who is at the other end of a Unix socket.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use barewire_calls::{self as calls, option};

use super::Socket;
use crate::error::{Result, on};
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
        option::peer_credentials(self.fd.as_raw_fd())
            .map_err(on("ask who is at the other end (SO_PEERCRED)"))
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
        let mut groups = vec![0; 4 * 64];
        let len = match self.option(SO_PEERGROUPS, &mut groups) {
            Err(libc::ERANGE) => {
                groups.resize(4 * MOST_GROUPS, 0);
                self.option(SO_PEERGROUPS, &mut groups)
            }
            other => other,
        };
        match len {
            Ok(len) => {
                let words = groups[..len].chunks_exact(4);
                let number = |word: &[u8]| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
                Ok(words.map(number).collect())
            }
            Err(libc::ENOPROTOOPT | libc::ENODATA) => Ok(Vec::new()),
            Err(errno) => Err(on("ask for the peer's groups (SO_PEERGROUPS)")(errno)),
        }
    }

    /// A descriptor of the process at the other end, which becomes readable
    /// when that ends; closed on exec. `None` if the process is gone already,
    /// or cannot be seen. Before Linux 6.5 it is found by its pid, which may
    /// have been given to another process if the peer is gone already.
    pub fn peer_pidfd(&self) -> Option<OwnedFd> {
        match option::get(self.fd.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD) {
            Ok(fd) if fd >= 0 => {
                // SAFETY: the kernel has just made this descriptor for us
                // (closed on exec), and nobody else knows it.
                Some(unsafe { OwnedFd::from_raw_fd(fd) })
            }
            Err(libc::ENOPROTOOPT) => {
                let pid = self.peer_credentials().ok()?.pid;
                pidfd_open(pid).ok()
            }
            _ => None,
        }
    }

    fn option(&self, name: i32, into: &mut [u8]) -> calls::Result<usize> {
        option::get_bytes(self.fd.as_raw_fd(), libc::SOL_SOCKET, name, into)
    }
}
