//! Futexes on memory shared between processes.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::io::Errno as Raw;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::error::{Result, SysError, on};

/// Sleeps while `word` is `expected`, until woken or `timeout` has passed
/// (`None`: for good). Works across processes that map the same memory. False
/// if the time is up; true otherwise, also by chance: look at `word` again.
///
/// # Errors
/// Only if the kernel lacks futexes.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Result<bool> {
    let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
    loop {
        let left = deadline.map(|d| timespec(d.saturating_duration_since(Instant::now())));
        match futex::wait(word, Flags::empty(), expected, left.as_ref()) {
            Ok(()) | Err(Raw::AGAIN) => return Ok(true),
            Err(Raw::TIMEDOUT) => return Ok(false),
            Err(Raw::INTR) => {}
            Err(errno) => return Err(SysError::new("wait on a futex", errno)),
        }
    }
}

/// Wakes up to `count` sleepers on `word`, in any process; gives how many.
///
/// # Errors
/// Only if the kernel lacks futexes.
pub fn futex_wake(word: &AtomicU32, count: u32) -> Result<usize> {
    futex::wake(word, Flags::empty(), count).map_err(on("wake a futex"))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
