//! A thread with a table of descriptors of its own, which closes by ending.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use barewire_calls::{call, process};

use crate::process::start_thread;

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
    thread: u32,
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
        while process::has_thread(process::id(), self.thread) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }
}

/// Takes duplicates into a table of this thread alone, and keeps them until told to go.
fn hold(numbers: &[RawFd], tell: &Sender<u32>, wait: &Receiver<()>) {
    if take_all(numbers).is_some() && tell.send(process::thread_id()).is_ok() {
        // An error: the other end is gone, which is the word to go.
        let _ = wait.recv();
    }
}

fn take_all(numbers: &[RawFd]) -> Option<()> {
    let call = |number, given: [usize; 3]| {
        // SAFETY: none of the three calls below takes a pointer.
        unsafe { call(number, given) }.ok()
    };
    // A table of this thread's own, without what is in the process's. It fails before it
    // closes anything: the process has other threads, so the table is shared.
    let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
    call(libc::SYS_close_range, [0, u32::MAX as usize, unshare])?;
    let process = call(libc::SYS_pidfd_open, [process::id() as usize, 0, 0])?;
    for number in numbers {
        call(libc::SYS_pidfd_getfd, [process, *number as usize, 0])?;
    }
    Some(())
}
