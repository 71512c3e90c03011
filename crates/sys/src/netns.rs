//! Network namespaces without names. A namespace lasts as long as a process holds it, runs in it, or
//! has a socket of it. When its holder is killed, it ends with its links and queues.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A network namespace.
#[derive(Debug)]
pub struct NetNamespace {
    fd: OwnedFd,
}

impl NetNamespace {
    /// A new one, empty but for a loopback interface that is down.
    ///
    /// # Errors
    /// Not root (`CAP_SYS_ADMIN`); no namespaces in this kernel or sandbox.
    pub fn create() -> io::Result<Self> {
        // A thread of its own moves into it, and ends.
        let made = std::thread::spawn(|| {
            // SAFETY: only the network of this thread changes, neither memory nor descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Self::current()
        });
        made.join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }

    /// That of the calling thread.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> io::Result<Self> {
        let fd = File::open("/proc/thread-self/ns/net")?.into();
        Ok(Self { fd })
    }

    /// Moves the calling thread into it: its new sockets and children are there. Those that it
    /// has stay where they are, and so do other threads.
    ///
    /// # Errors
    /// Not root (`CAP_SYS_ADMIN`).
    pub fn enter(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(self.fd.as_fd(), network)?)
    }

    /// Has the calling thread do something in it, and return to where it was.
    ///
    /// # Errors
    /// As [`enter`](Self::enter). If the way back is closed, the thread stays in it.
    pub fn visit<R>(&self, work: impl FnOnce() -> R) -> io::Result<R> {
        let home = Self::current()?;
        self.enter()?;
        let done = work();
        home.enter()?;
        Ok(done)
    }

    /// Does something in it on a thread of its own.
    ///
    /// # Errors
    /// As [`enter`](Self::enter); or what `work` has.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                self.enter()?;
                work()
            });
            done.join()
                .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    }
}

impl AsFd for NetNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
