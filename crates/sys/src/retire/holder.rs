//! A thread with a table of descriptors of its own, which closes by ending.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::process::{getpid, start_thread};

/// Pauses between two looks whether the thread is gone.
const PAUSE_FIRST: Duration = Duration::from_micros(50);
const PAUSE_LONGEST: Duration = Duration::from_millis(50);

/// Closes sockets without lingering for what they, or others in messages to them, have not
/// sent. Returns when that is done.
pub(super) fn close_by_exit(sockets: Vec<OwnedFd>) {
    let numbers: Vec<RawFd> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let Some(holder) = Holder::start(numbers) else {
        return drop(sockets);
    };
    // The holder has duplicates, so this closes no file.
    drop(sockets);
    holder.end();
}

struct Holder {
    thread: i32,
    /// Dropped to have it end.
    go: Sender<()>,
}

impl Holder {
    /// `None` where this does not work; nothing is changed then.
    fn start(numbers: Vec<RawFd>) -> Option<Holder> {
        let (tell, told) = channel();
        let (go, wait) = channel();
        start_thread("barewire-close", move || hold(&numbers, &tell, &wait)).ok()?;
        // An error: the thread ended without having them all.
        let thread = told.recv().ok()?;
        Some(Holder { thread, go })
    }

    /// Lets it end, and waits until it has: its files are closed after its last words.
    fn end(self) {
        drop(self.go);
        let mut pause = PAUSE_FIRST;
        while is_there(self.thread) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }
}

/// Takes duplicates into a table of this thread alone, and keeps them until told to go.
fn hold(numbers: &[RawFd], tell: &Sender<i32>, wait: &Receiver<()>) {
    if take_all(numbers).is_some() {
        // SAFETY: no pointers.
        let thread = unsafe { libc::gettid() };
        if tell.send(thread).is_ok() {
            // An error: the other end is gone, which is the word to go.
            let _ = wait.recv();
        }
    }
}

fn take_all(numbers: &[RawFd]) -> Option<()> {
    let call = |number, a: i64, b: i64, c: i64| {
        // SAFETY: none of the three calls below takes a pointer.
        let result = unsafe { libc::syscall(number, a, b, c) };
        i32::try_from(result).ok().filter(|result| *result >= 0)
    };
    // A table of this thread's own, without what is in the process's. It fails before it
    // closes anything: the process has other threads, so the table is shared.
    let all = i64::from(u32::MAX);
    let unshare = i64::from(libc::CLOSE_RANGE_UNSHARE);
    call(libc::SYS_close_range, 0, all, unshare)?;
    let process = call(libc::SYS_pidfd_open, i64::from(getpid()), 0, 0)?;
    for number in numbers {
        let (process, number) = (i64::from(process), i64::from(*number));
        call(libc::SYS_pidfd_getfd, process, number, 0)?;
    }
    Some(())
}

/// Whether a thread of this process is there, also if it is ending.
fn is_there(thread: i32) -> bool {
    // SAFETY: no pointers; signal 0 does nothing.
    unsafe { libc::syscall(libc::SYS_tgkill, getpid(), thread, 0) == 0 }
}
