//! A counter in the kernel that wakes whoever waits for it.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::{Errno as Raw, ReadWriteFlags};

use crate::error::{BadDescriptor, Result, SysError, on};

/// An eventfd: not blocking, closed on exec.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
    /// A peer has it too and can make it blocking, or full, at any time.
    from_peer: bool,
}

impl EventFd {
    /// Makes one, not signalled.
    ///
    /// # Errors
    /// No descriptors or no memory left.
    pub fn new() -> Result<EventFd> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(on("make an eventfd"))?;
        Ok(EventFd {
            fd,
            from_peer: false,
        })
    }

    /// Accepts a descriptor that a peer sent, if it is an eventfd, and makes
    /// it non-blocking.
    ///
    /// # Errors
    /// What is wrong with it; `CannotVerify` where /proc is not mounted.
    pub fn from_peer(fd: OwnedFd) -> Result<EventFd, BadDescriptor> {
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let target = std::fs::read_link(link).map_err(|_| BadDescriptor::CannotVerify)?;
        if target.as_os_str() != "anon_inode:[eventfd]" {
            return Err(BadDescriptor::NotEventFd);
        }
        let os = |errno: Raw| BadDescriptor::Os(errno.into());
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(os)?;
        if !flags.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(os)?;
        }
        Ok(EventFd {
            fd,
            from_peer: true,
        })
    }

    /// Wakes whoever waits for it. Signalled already is success too.
    ///
    /// On one from a peer a poll comes first, because the peer can make the
    /// counter full and the descriptor blocking; a peer that does both just
    /// between the two calls can still hold this thread up.
    ///
    /// # Errors
    /// Only if the kernel lacks memory or the descriptor is broken.
    pub fn signal(&self) -> Result<()> {
        const WHAT: &str = "signal an eventfd";
        if self.from_peer && !self.has_room().map_err(on(WHAT))? {
            return Ok(());
        }
        loop {
            match rustix::io::write(&self.fd, &1u64.to_ne_bytes()) {
                Ok(_) | Err(Raw::AGAIN) => return Ok(()),
                Err(Raw::INTR) => {}
                Err(errno) => return Err(SysError::new(WHAT, errno)),
            }
        }
    }

    fn has_room(&self) -> rustix::io::Result<bool> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
        loop {
            match rustix::event::poll(&mut fds, Some(&ZERO)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Raw::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Takes the signal back: gives how often it was signalled since the last
    /// time, 0 if not at all. Never blocks, even if a peer that has it made it
    /// blocking (except before Linux 5.8).
    ///
    /// # Errors
    /// Only if the descriptor is broken.
    pub fn drain(&self) -> Result<u64> {
        let mut count = [0u8; 8];
        loop {
            match self.read_now(&mut count) {
                Ok(8) => return Ok(u64::from_ne_bytes(count)),
                Ok(_) | Err(Raw::AGAIN) => return Ok(0),
                Err(Raw::INTR) => {}
                Err(errno) => return Err(SysError::new("drain an eventfd", errno)),
            }
        }
    }

    fn read_now(&self, count: &mut [u8; 8]) -> rustix::io::Result<usize> {
        /// Tells preadv2 to use the current position, as there is none here.
        const NO_OFFSET: u64 = u64::MAX;
        let mut bufs = [IoSliceMut::new(&mut count[..])];
        match rustix::io::preadv2(&self.fd, &mut bufs, NO_OFFSET, ReadWriteFlags::NOWAIT) {
            Err(Raw::OPNOTSUPP | Raw::NOSYS | Raw::INVAL | Raw::SPIPE | Raw::PERM) => {
                rustix::io::read(&self.fd, count)
            }
            other => other,
        }
    }

    /// A second descriptor for the same counter.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn try_clone(&self) -> Result<EventFd> {
        let fd =
            rustix::io::fcntl_dupfd_cloexec(&self.fd, 3).map_err(on("duplicate an eventfd"))?;
        Ok(EventFd {
            fd,
            from_peer: self.from_peer,
        })
    }

    /// The descriptor alone.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

const ZERO: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
