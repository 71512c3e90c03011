//! Tells a program that the user wants it to end (SIGINT, SIGTERM), in place of ending it.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::{Errno, Result, SysError};

/// From now on SIGINT, SIGTERM and SIGHUP do not end this process.
///
/// Programs that are started meanwhile inherit that.
#[derive(Debug)]
pub struct Interrupt(OwnedFd);

impl std::os::fd::AsFd for Interrupt {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interrupt {
    /// Holds the signals back from this thread. Call it before there are others.
    ///
    /// # Errors
    /// `TooManyDescriptors`, `OutOfMemory`.
    pub fn catch() -> Result<Interrupt> {
        const WHAT: &str = "catch signals (signalfd)";
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `set` is ours, and made a set by the first call before it is read.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(SysError::new(WHAT, Errno::last()));
        }
        // SAFETY: a new descriptor, which is nobody else's.
        Ok(Interrupt(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for one of the signals, or until the time is over. Returns whether one has come.
    #[must_use]
    pub fn wait(&self, longest: Duration) -> bool {
        let timeout = rustix::event::Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        let mut fds = [rustix::event::PollFd::new(
            &self.0,
            rustix::event::PollFlags::IN,
        )];
        matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..))
    }
}
