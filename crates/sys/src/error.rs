//! What can go wrong in a system call, worded so that a user can act on it.

use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd};

/// The result of a call in this crate.
pub type Result<T, E = SysError> = std::result::Result<T, E>;

/// An error number of the operating system, shown with its usual text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The error number that the last C library call of this thread left.
    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i32> for Errno {
    fn from(number: i32) -> Errno {
        Errno(number)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

/// A system call failed. Every variant says what was attempted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SysError {
    /// The process or the system has no descriptors left (EMFILE, ENFILE), or
    /// too many are in flight between sockets (ETOOMANYREFS).
    #[error(
        "{what}: {errno}; raise the limit on open descriptors (`ulimit -n`, or LimitNOFILE in a \
         service file; fs.file-max if the whole system is out)"
    )]
    TooManyDescriptors {
        /// What was attempted.
        what: &'static str,
        /// EMFILE, ENFILE or ETOOMANYREFS.
        errno: Errno,
    },
    /// The kernel would not give the memory (ENOMEM, ENOSPC, ENOBUFS).
    #[error(
        "{what}: {errno}; free memory, raise the memory limit (cgroup memory.max, `ulimit -v`), \
         or ask for fewer or smaller rings"
    )]
    OutOfMemory {
        /// What was attempted.
        what: &'static str,
        /// ENOMEM, ENOSPC or ENOBUFS.
        errno: Errno,
    },
    /// More memory was to be kept from being swapped out than this process may lock (ENOMEM,
    /// EPERM or EAGAIN of mlock).
    #[error(
        "lock {len_bytes} bytes of memory (mlock): {errno}; RLIMIT_MEMLOCK lets this process lock {} \
         in all; raise it (`ulimit -l`, or LimitMEMLOCK in a service file), give the program \
         CAP_IPC_LOCK, lock less, or, if the limit is not it, free memory",
        limit(*.limit_bytes)
    )]
    LockedMemoryLimit {
        /// How much was to be locked, in bytes.
        len_bytes: u64,
        /// How much the process may lock in all, in bytes; `None`: any amount.
        limit_bytes: Option<u64>,
        /// ENOMEM, EPERM or EAGAIN.
        errno: Errno,
    },
    /// There is no such NUMA node with memory, or this process may not use it.
    #[error(
        "there is no NUMA node {node} with memory that this process may use; nodes with memory: \
         {present} (/sys/devices/system/node/has_memory; a cpuset may allow fewer)"
    )]
    NoNumaNode {
        /// The node asked for.
        node: u32,
        /// Those that there are, as the kernel lists them.
        present: String,
    },
    /// Not all of the memory could be had on huge pages.
    #[error(
        "put {len_bytes} bytes on huge pages (madvise): {errno}; that takes whole huge pages of \
         /sys/kernel/mm/transparent_hugepage/hpage_pmd_size bytes, free memory in one piece, Linux \
         6.1 or newer, and shmem_enabled in the same folder not `deny`; or only try them"
    )]
    NoHugePages {
        /// How much was asked for, in bytes.
        len_bytes: u64,
        /// What the kernel said; EINVAL also if it is no whole number of huge pages.
        errno: Errno,
    },
    /// This kernel lacks the call, or a sandbox hides it.
    #[error("{what}: {errno}; it needs {needs}, and a sandbox (seccomp) that allows it")]
    Unsupported {
        /// What was attempted.
        what: &'static str,
        /// The oldest kernel that has it.
        needs: &'static str,
        /// ENOSYS, EINVAL or the like.
        errno: Errno,
    },
    /// Not allowed (EPERM, EACCES).
    #[error("{what}: {errno}; run as the owner of the target, or as root")]
    PermissionDenied {
        /// What was attempted.
        what: &'static str,
        /// EPERM or EACCES.
        errno: Errno,
    },
    /// The process is gone, or never was (ESRCH, or ENOENT under /proc).
    #[error("{what}: there is no process {pid}, or it no longer has this open")]
    NoSuchProcess {
        /// What was attempted.
        what: &'static str,
        /// The process asked for.
        pid: i32,
    },
    /// Another socket already has this abstract name (EADDRINUSE).
    #[error(
        "abstract socket name `{name}` is taken: another process listens on it; stop it, or use another name"
    )]
    AddressInUse {
        /// The name, with bytes that are no UTF-8 replaced.
        name: String,
    },
    /// Nobody listens on this abstract name (ECONNREFUSED).
    #[error(
        "nobody listens on abstract socket name `{name}`; start the listener first (and in the same network namespace)"
    )]
    NoListener {
        /// The name, with bytes that are no UTF-8 replaced.
        name: String,
    },
    /// The listener has as many connections waiting as it takes; try again.
    #[error(
        "the listener on abstract socket name `{name}` is busy: its backlog is full; try again shortly"
    )]
    Busy {
        /// The name, with bytes that are no UTF-8 replaced.
        name: String,
    },
    /// The other end of the socket is closed.
    #[error("{what}: the other end has closed the connection")]
    Hangup {
        /// What was attempted.
        what: &'static str,
    },
    /// An argument that can never work, found before or by the kernel.
    #[error("{what}: {reason}")]
    InvalidArgument {
        /// What was attempted.
        what: &'static str,
        /// What is wrong with the argument.
        reason: &'static str,
    },
    /// A descriptor is not what it must be.
    #[error("unusable descriptor: {0}")]
    BadDescriptor(#[from] BadDescriptor),
    /// Any other failure.
    #[error("{what}: {errno}")]
    Os {
        /// What was attempted.
        what: &'static str,
        /// The error number.
        errno: Errno,
    },
}

impl SysError {
    /// Sorts an error number into the variant that helps most.
    pub(crate) fn new(what: &'static str, errno: impl Into<Errno>) -> SysError {
        let errno = errno.into();
        match errno.0 {
            libc::EMFILE | libc::ENFILE | libc::ETOOMANYREFS => {
                SysError::TooManyDescriptors { what, errno }
            }
            libc::ENOMEM | libc::ENOSPC | libc::ENOBUFS => SysError::OutOfMemory { what, errno },
            libc::EPERM | libc::EACCES => SysError::PermissionDenied { what, errno },
            _ => SysError::Os { what, errno },
        }
    }

    /// The error number behind this error, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            SysError::TooManyDescriptors { errno, .. }
            | SysError::OutOfMemory { errno, .. }
            | SysError::LockedMemoryLimit { errno, .. }
            | SysError::NoHugePages { errno, .. }
            | SysError::Unsupported { errno, .. }
            | SysError::PermissionDenied { errno, .. }
            | SysError::Os { errno, .. } => Some(errno.0),
            SysError::NoSuchProcess { .. } => Some(libc::ESRCH),
            SysError::AddressInUse { .. } => Some(libc::EADDRINUSE),
            SysError::NoListener { .. } => Some(libc::ECONNREFUSED),
            SysError::Busy { .. } => Some(libc::EAGAIN),
            SysError::Hangup { .. } => Some(libc::EPIPE),
            SysError::InvalidArgument { .. } | SysError::NoNumaNode { .. } => Some(libc::EINVAL),
            SysError::BadDescriptor(_) => None,
        }
    }
}

impl From<SysError> for std::io::Error {
    fn from(error: SysError) -> std::io::Error {
        let kind = match error.errno() {
            Some(errno) => std::io::Error::from_raw_os_error(errno).kind(),
            None => std::io::ErrorKind::InvalidData,
        };
        std::io::Error::new(kind, error)
    }
}

/// A limit in bytes, for people.
fn limit(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "any amount".to_owned(), |bytes| format!("{bytes} bytes"))
}

/// Shorthand to turn a kernel error into a [`SysError`] in a `map_err`.
pub(crate) fn on<E: Into<Errno>>(what: &'static str) -> impl Fn(E) -> SysError {
    move |errno| SysError::new(what, errno)
}

/// The descriptor that a call of `barewire_calls` has made.
pub(crate) fn new_fd(made: barewire_calls::Result<i32>) -> Result<OwnedFd, i32> {
    // SAFETY: new, and nobody else's.
    made.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Why a descriptor that came from a peer is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDescriptor {
    /// Not shared memory made by `memfd_create`.
    #[error("it is not a memfd")]
    NotMemfd,
    /// A memfd on huge pages, whose memory may be missing when touched.
    #[error("it is a memfd on huge pages, which may fault when touched")]
    HugePages,
    /// The size could still change: F_SEAL_SHRINK or F_SEAL_GROW is missing.
    #[error("its size is not sealed (F_SEAL_SHRINK and F_SEAL_GROW are needed)")]
    SizeNotSealed,
    /// The size is not the one agreed on.
    #[error("its size is {actual} bytes where {expected} were agreed on")]
    WrongSize {
        /// The size agreed on, in bytes.
        expected: u64,
        /// The size it has, in bytes.
        actual: u64,
    },
    /// The size agreed on is zero, no multiple of 8, or beyond the cap.
    #[error("a size of {0} bytes is not possible (a nonzero multiple of 8, at most 2^40)")]
    ImpossibleSize(u64),
    /// It was opened without the access that is needed.
    #[error("it is not open for the access that is needed")]
    WrongAccess,
    /// It must be written to, and is sealed against that.
    #[error("it is sealed against writing")]
    SealedAgainstWriting,
    /// Not an eventfd.
    #[error("it is not an eventfd")]
    NotEventFd,
    /// What it is cannot be told, because /proc is not mounted here.
    #[error("what it is cannot be verified: /proc is not mounted or not readable here")]
    CannotVerify,
    /// The kernel refused to tell about it.
    #[error("the kernel would not say what it is: {0}")]
    Os(Errno),
}
