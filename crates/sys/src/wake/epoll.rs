//! Waiting for many descriptors at once, with timeouts in nanoseconds.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire_calls::call;
use rustix::event::epoll;

use crate::error::{Errno, Result, SysError, on};

/// How many events one wait brings at most; the rest come with the next.
const AT_ONCE: usize = 64;

/// What to wait for on a descriptor. Errors and hang-ups are always told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// There is something to read, or the other end has closed.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// Tell about each change once, and not for as long as it lasts.
    pub edge: bool,
}

impl Interest {
    /// Errors and hang-ups only.
    pub const NONE: Interest = Interest {
        readable: false,
        writable: false,
        edge: false,
    };
    /// Readable, for as long as it lasts.
    pub const READ: Interest = Interest {
        readable: true,
        writable: false,
        edge: false,
    };
    /// Readable, once for each change.
    pub const READ_EDGE: Interest = Interest {
        readable: true,
        writable: false,
        edge: true,
    };
    /// Writable, for as long as it lasts.
    pub const WRITE: Interest = Interest {
        readable: false,
        writable: true,
        edge: false,
    };
    /// Readable or writable, for as long as it lasts.
    pub const READ_WRITE: Interest = Interest {
        readable: true,
        writable: true,
        edge: false,
    };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
            self.readable,
        );
        flags.set(epoll::EventFlags::OUT, self.writable);
        flags.set(epoll::EventFlags::ET, self.edge);
        flags
    }
}

/// Something happened on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollEvent {
    /// The token it was added with.
    pub token: u64,
    /// There is something to read; for a pidfd: the process has ended.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The other end has closed, or there is an error.
    pub hangup: bool,
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// Makes an empty set.
    ///
    /// # Errors
    /// No descriptors or no memory left.
    pub fn new() -> Result<Epoll> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(on("make an epoll set"))?;
        Ok(Epoll { fd })
    }

    /// Adds a descriptor; its events carry `token`. Take it out again before
    /// closing it where another process has the same open file.
    ///
    /// # Errors
    /// It is in the set already, cannot be waited for, or the limit on
    /// watches (fs.epoll.max_user_watches) is reached.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.fd, fd, data, interest.flags()).map_err(on("add to an epoll set"))
    }

    /// Changes the token and the interest of a descriptor in the set. With
    /// `edge`, what is there already is told about once more.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::modify(&self.fd, fd, data, interest.flags()).map_err(on("change an epoll set"))
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn remove(&self, fd: impl AsFd) -> Result<()> {
        epoll::delete(&self.fd, fd).map_err(on("remove from an epoll set"))
    }

    /// Waits until something happens or `timeout` has passed (`None`: for
    /// good; zero: not at all), and puts up to 64 events in `out`, emptied
    /// before. Gives their number: 0 only once the time is up. Signals do not
    /// end the wait. To the nanosecond, except before Linux 5.11, where the
    /// timeout is rounded up to a millisecond.
    ///
    /// # Errors
    /// Only if the kernel lacks memory.
    pub fn wait(&self, out: &mut Vec<EpollEvent>, timeout: Option<Duration>) -> Result<usize> {
        out.clear();
        // A deadline beyond what the clock can tell is as good as none.
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut left = timeout;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        loop {
            match wait_once(self.fd.as_fd(), &mut events, left) {
                Ok(0) if deadline.is_none_or(|d| d > Instant::now()) => {}
                Ok(count) => {
                    out.extend(events[..count].iter().map(event_from));
                    return Ok(count);
                }
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(SysError::new("wait on an epoll set", errno)),
            }
            left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn event_from(event: &libc::epoll_event) -> EpollEvent {
    let flags = event.events;
    let any = |mask: i32| flags & mask as u32 != 0;
    EpollEvent {
        token: event.u64,
        readable: any(libc::EPOLLIN),
        writable: any(libc::EPOLLOUT),
        hangup: any(libc::EPOLLHUP | libc::EPOLLRDHUP | libc::EPOLLERR),
    }
}

type Events = [libc::epoll_event; AT_ONCE];

/// One wait, ended early by signals.
fn wait_once(
    epoll: BorrowedFd<'_>,
    events: &mut Events,
    timeout: Option<Duration>,
) -> Result<usize, Errno> {
    /// Found out at the first try: this kernel or sandbox lacks epoll_pwait2.
    static MILLISECONDS_ONLY: AtomicBool = AtomicBool::new(false);
    let whole = timeout.is_none_or(|t| t.subsec_nanos() % 1_000_000 == 0);
    // Relaxed: whoever does not see it yet finds it out again.
    if whole || MILLISECONDS_ONLY.load(Ordering::Relaxed) {
        return wait_ms(epoll, events, timeout);
    }
    match wait_ns(epoll, events, timeout.unwrap_or(Duration::MAX)) {
        Err(Errno(libc::ENOSYS | libc::EPERM)) => {
            // Relaxed: nothing else depends on it.
            MILLISECONDS_ONLY.store(true, Ordering::Relaxed);
            wait_ms(epoll, events, timeout)
        }
        other => other,
    }
}

/// epoll_pwait2, which rustix uses only where Linux 5.11 is taken for granted.
fn wait_ns(epoll: BorrowedFd<'_>, events: &mut Events, timeout: Duration) -> Result<usize, Errno> {
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let (fd, events_at) = (epoll.as_raw_fd() as usize, events.as_mut_ptr() as usize);
    let given = [fd, events_at, AT_ONCE, (&raw const timeout) as usize];
    // SAFETY: the kernel writes at most `AT_ONCE` events into `events`, and reads a timespec and
    // no signal set; all live for the call.
    unsafe { call(libc::SYS_epoll_pwait2, given) }.map_err(Errno)
}

/// epoll_wait, with the timeout rounded up to milliseconds.
fn wait_ms(
    epoll: BorrowedFd<'_>,
    events: &mut Events,
    timeout: Option<Duration>,
) -> Result<usize, Errno> {
    let timeout = match timeout {
        None => -1,
        Some(t) => i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
    };
    // SAFETY: the kernel writes at most `AT_ONCE` events into `events`.
    let count = unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            AT_ONCE as libc::c_int,
            timeout,
        )
    };
    usize::try_from(count).map_err(|_| Errno::last())
}
