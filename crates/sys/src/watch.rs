//! One thread of the process that watches descriptors for those who do not wait for them.
//!
//! A process that has memory of another process learns of its death from a descriptor. But it may
//! only load and store, and never wait for a descriptor. So it hands the descriptor to a thread that
//! sleeps in the kernel and calls back. The first [`watch`] starts the thread. It ends a while
//! after the last [`Watch`] is dropped. One thread serves the whole process, and takes no signals.
//! A forked child starts its own.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::Result;
use crate::memory::fork_generation;
use crate::process::start_thread;
use crate::wake::{Epoll, EpollEvent, EventFd, Interest};

/// How long the thread stays when there is nothing to watch: to start one costs some ten
/// microseconds, and a program that imports once often does so again.
const LINGER: Duration = Duration::from_secs(1);
/// Token of the bell.
const BELL: u64 = 0;

/// What is called when there is news. In the watching thread: it must not wait.
pub type Told = Arc<dyn Fn() + Send + Sync>;
/// What is watched. The watch keeps it open.
pub type Watched = Arc<dyn AsFd + Send + Sync>;

#[derive(Default)]
struct Table {
    told: HashMap<u64, Told>,
    last_token: u64,
    running: bool,
}

struct Watcher {
    generation: u32,
    epoll: Epoll,
    /// Signalled when nothing is left to watch.
    bell: EventFd,
    table: Mutex<Table>,
}

/// Descriptors that are being watched. Dropping it ends that; a call that is under way may
/// still come.
pub struct Watch {
    watcher: &'static Watcher,
    token: u64,
    watched: Vec<Watched>,
}

/// Has the thread call `told` when one of `watched` has news: what its interest says, a
/// hang-up or an error. It is called once for each change, and once if there is news already.
///
/// # Errors
/// No thread can be started, or no descriptors or memory are left. Nothing is watched then.
pub fn watch(watched: Vec<(Watched, Interest)>, told: Told) -> Result<Watch> {
    let watcher = current()?;
    let mut table = watcher.table();
    watcher.start(&mut table)?;
    table.last_token += 1;
    let token = table.last_token;
    table.told.insert(token, told);
    drop(table);
    let mut watch = Watch {
        watcher,
        token,
        watched: Vec::with_capacity(watched.len()),
    };
    for (descriptor, interest) in watched {
        let once = Interest {
            edge: true,
            ..interest
        };
        // On failure the drop of `watch` takes back what was done.
        watcher.epoll.add(&*descriptor, token, once)?;
        watch.watched.push(descriptor);
    }
    Ok(watch)
}

/// Whether one of these has news now, which is what a [`watch`] would tell: one system call,
/// which does not wait.
pub fn has_news(watched: &[(BorrowedFd<'_>, Interest)]) -> bool {
    let wanted = |interest: &Interest| {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.readable);
        flags.set(PollFlags::OUT, interest.writable);
        flags
    };
    let mut fds: Vec<PollFd<'_>> = watched
        .iter()
        .map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, wanted(interest)))
        .collect();
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    loop {
        match poll(&mut fds, Some(&at_once)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            // The kernel has no memory for it: nothing is known.
            Err(_) => return false,
        }
    }
}

/// The watcher of this process. A child by fork has no thread of its parent's, and the lock
/// of the table may be held for ever there: it makes a watcher of its own.
fn current() -> Result<&'static Watcher> {
    static CURRENT: AtomicPtr<Watcher> = AtomicPtr::new(std::ptr::null_mut());
    let generation = fork_generation();
    // Acquire pairs with the AcqRel below: what it points to is visible.
    let mut seen = CURRENT.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or a watcher that was leaked below and is never freed.
        if let Some(watcher) = unsafe { seen.as_ref() } {
            if watcher.generation == generation {
                return Ok(watcher);
            }
        }
        let new = Box::into_raw(Box::new(Watcher::new(generation)?));
        // AcqRel pairs with the Acquire loads here and above.
        match CURRENT.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just leaked, and never freed from here on.
            Ok(_) => return Ok(unsafe { &*new }),
            Err(other) => {
                // SAFETY: made above, and known to nobody else.
                drop(unsafe { Box::from_raw(new) });
                seen = other;
            }
        }
    }
}

impl Watcher {
    fn new(generation: u32) -> Result<Watcher> {
        let epoll = Epoll::new()?;
        let bell = EventFd::new()?;
        epoll.add(&bell, BELL, Interest::READ)?;
        Ok(Watcher {
            generation,
            epoll,
            bell,
            table: Mutex::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&'static self, table: &mut Table) -> Result<()> {
        if !table.running {
            start_thread("barewire-watch", move || self.run())?;
            table.running = true;
        }
        Ok(())
    }

    fn run(&self) {
        let mut events = Vec::new();
        loop {
            let idle = self.table().told.is_empty();
            if self
                .epoll
                .wait(&mut events, idle.then_some(LINGER))
                .is_err()
            {
                // The kernel has no memory for it now.
                std::thread::sleep(LINGER);
            }
            for event in &events {
                self.handle(event);
            }
            let mut table = self.table();
            if idle && events.is_empty() && table.told.is_empty() {
                table.running = false;
                return;
            }
        }
    }

    fn handle(&self, event: &EpollEvent) {
        if event.token == BELL {
            // It can only fail if the descriptor is broken.
            let _ = self.bell.drain();
            return;
        }
        // Called without the lock: it may end this watch, or begin another.
        let told = self.table().told.get(&event.token).cloned();
        if let Some(told) = told {
            // A panic is told on stderr; it must not leave the others unwatched.
            let _ = catch_unwind(AssertUnwindSafe(|| told()));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The epoll set of a forked child is its parent's.
        if fork_generation() != self.watcher.generation {
            return;
        }
        for descriptor in &self.watched {
            // It can only fail for a descriptor that is not in the set.
            let _ = self.watcher.epoll.remove(&**descriptor);
        }
        let mut table = self.watcher.table();
        let told = table.told.remove(&self.token);
        let none_left = table.told.is_empty();
        drop(table);
        // What it holds may take locks of its own when dropped.
        drop(told);
        if none_left {
            // Failing means that the counter is full: then it wakes all the same.
            let _ = self.watcher.bell.signal();
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
