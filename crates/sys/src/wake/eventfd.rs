//! A counter in the kernel that wakes whoever waits for it.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::fs::OFlags;
use rustix::io::{Errno as Raw, ReadWriteFlags};

use crate::error::{BadDescriptor, Result, SysError, on};

/// An eventfd: not blocking, closed on exec.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
    /// What a signal adds to the counter.
    step: u64,
}

impl EventFd {
    /// Makes one, not signalled.
    ///
    /// # Errors
    /// No descriptors or no memory left.
    pub fn new() -> Result<EventFd> {
        EventFd::with_count(0)
    }

    /// Makes one for a peer to signal, that an [`Epoll`](super::Epoll) set has with
    /// [`Interest::READ_EDGE`](super::Interest::READ_EDGE). It is always readable, so the set tells of it once at the
    /// beginning. It must never be drained: see [`EventFd::signal`].
    ///
    /// # Errors
    /// No descriptors or no memory left.
    pub fn new_for_peers() -> Result<EventFd> {
        EventFd::with_count(1)
    }

    fn with_count(count: u32) -> Result<EventFd> {
        let fd = rustix::event::eventfd(count, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(on("make an eventfd"))?;
        Ok(EventFd { fd, step: 1 })
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
        Ok(EventFd { fd, step: 0 })
    }

    /// Wakes whoever waits for it. Signalled already is success too.
    ///
    /// A peer can make the descriptor blocking and the counter full, so that the next increment would block. So one
    /// from a peer is signalled by adding 0 to its counter. That does not block, and tells sets that have it
    /// edge-triggered, as long as the counter is not 0 ([`EventFd::new_for_peers`]). Only a counter that the kernel itself
    /// has overrun blocks it, which takes asynchronous I/O (`IOCB_FLAG_RESFD`).
    ///
    /// # Errors
    /// Only if the kernel lacks memory or the descriptor is broken.
    pub fn signal(&self) -> Result<()> {
        const WHAT: &str = "signal an eventfd";
        loop {
            match rustix::io::write(&self.fd, &self.step.to_ne_bytes()) {
                Ok(_) | Err(Raw::AGAIN) => return Ok(()),
                Err(Raw::INTR) => {}
                Err(errno) => return Err(SysError::new(WHAT, errno)),
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
            step: self.step,
        })
    }

    /// The descriptor alone.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
