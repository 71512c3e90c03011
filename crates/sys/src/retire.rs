//! Closes descriptors that strangers have chosen, in threads of its own.
//!
//! A `close` takes as long as the file makes it take: a TCP socket that lingers for bytes it has not
//! sent, a file of a file system whose server does not answer. Anybody who can reach a Unix
//! socket of this process can send such a descriptor. The process that drops its last reference
//! waits. It does so also by closing a socket with unread messages, or by receiving a message
//! without room for its descriptors. So a thread for which others wait closes nothing that
//! somebody else has sent.
//!
//! A thread that ends does not linger (the kernel skips that for a thread that exits). So a
//! batch of sockets is closed by a thread that has a table of descriptors of its own, takes
//! duplicates, and ends. Where the kernel or a sandbox does not allow this, an ordinary
//! thread waits.

mod holder;

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::fork_generation;
use crate::process::start_thread;
use crate::socket::Socket;
use crate::wake::EventFd;

/// Threads that close at a time.
const THREADS_MAX: u32 = 8;
/// With more that waits for each thread, there is one more.
const ITEMS_PER_THREAD: usize = 8;
/// Sockets that one thread closes together.
const BATCH_MAX: usize = 64;
/// With so much that waits, nothing new should be let in.
const WAITING_MAX: usize = 1024;

enum Item {
    /// To be closed without lingering.
    Socket(OwnedFd),
    /// Any other descriptor, or memory.
    Other(Box<dyn Send>),
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Taken by a thread and not closed yet.
    closing: usize,
    threads: u32,
    /// Somebody waits until there is room again.
    was_full: bool,
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    /// Signalled when there is room again.
    bell: Option<EventFd>,
}

impl Pool {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes what is to be closed, and never waits itself. Clones share threads and queue.
///
/// The threads exist only while there is something to close. If none can be started, what is
/// there stays open until the next attempt ([`Retirer::is_full`] is one).
#[derive(Clone, Default)]
pub struct Retirer(Arc<Pool>);

impl fmt::Debug for Retirer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retirer").finish_non_exhaustive()
    }
}

impl Retirer {
    /// `bell` is signalled when [`Retirer::is_full`] was true and no longer is.
    pub fn new(bell: EventFd) -> Retirer {
        Retirer(Arc::new(Pool {
            queue: Mutex::default(),
            bell: Some(bell),
        }))
    }

    /// Ends a connection for both sides and closes it: at once if nothing unread is in it.
    pub fn socket(&self, socket: Socket) {
        // From here on nothing can be added to what is there.
        socket.shutdown();
        if socket.has_unread() {
            self.add([Item::Socket(socket.into_fd())]);
        }
    }

    /// Closes descriptors.
    pub fn descriptors(&self, fds: impl IntoIterator<Item = OwnedFd>) {
        // To ask a file for its options is no question to whoever serves it.
        let is_socket = |fd: &OwnedFd| rustix::net::sockopt::socket_type(fd).is_ok();
        self.add(fds.into_iter().map(|fd| match is_socket(&fd) {
            true => Item::Socket(fd),
            false => Item::Other(Box::new(fd)),
        }));
    }

    /// Drops something that takes its time, such as large mappings.
    pub fn later(&self, what: Box<dyn Send>) {
        self.add([Item::Other(what)]);
    }

    fn add(&self, items: impl IntoIterator<Item = Item>) {
        let mut queue = self.0.queue();
        queue.items.extend(items);
        self.start(&mut queue);
    }

    /// What is not closed yet.
    pub fn waiting(&self) -> usize {
        let queue = self.0.queue();
        queue.items.len() + queue.closing
    }

    /// Whether so much waits that nothing new should be let in.
    pub fn is_full(&self) -> bool {
        let mut queue = self.0.queue();
        self.start(&mut queue);
        queue.was_full = queue.items.len() >= WAITING_MAX;
        queue.was_full
    }

    /// Starts a thread if there is work for one more: if none is there, or if so much waits
    /// that those that are there must be stuck.
    fn start(&self, queue: &mut Queue) {
        let enough = queue.items.len() <= queue.threads as usize * ITEMS_PER_THREAD;
        if queue.items.is_empty() || enough || queue.threads >= THREADS_MAX {
            return;
        }
        let pool = Arc::clone(&self.0);
        if start_thread("barewire-close", move || close_all(&pool)).is_ok() {
            queue.threads += 1;
        }
    }
}

fn close_all(pool: &Pool) {
    loop {
        let batch = {
            let mut queue = pool.queue();
            let batch = take(&mut queue.items);
            queue.closing += batch.len();
            if batch.is_empty() {
                queue.threads -= 1;
                return;
            }
            batch
        };
        let count = batch.len();
        close(batch);
        let mut queue = pool.queue();
        queue.closing -= count;
        let has_room = queue.was_full && queue.items.len() < WAITING_MAX;
        queue.was_full &= !has_room;
        drop(queue);
        if let Some(bell) = pool.bell.as_ref().filter(|_| has_room) {
            // Failing means that the counter is full: then it wakes all the same.
            let _ = bell.signal();
        }
    }
}

/// As many sockets as are closed together, or one other item.
fn take(items: &mut VecDeque<Item>) -> Vec<Item> {
    let is_socket = |item: &&Item| matches!(item, Item::Socket(_));
    let sockets = items.iter().take(BATCH_MAX).take_while(is_socket).count();
    let count = sockets.max(1).min(items.len());
    items.drain(..count).collect()
}

fn close(batch: Vec<Item>) {
    let mut sockets = Vec::new();
    for item in batch {
        match item {
            Item::Socket(socket) => sockets.push(socket),
            Item::Other(other) => drop(other),
        }
    }
    if !sockets.is_empty() {
        holder::close_by_exit(sockets);
    }
}

/// A socket that is retired when it is dropped. In a forked child it is closed and nothing
/// else: it is the parent's connection.
#[derive(Debug)]
pub struct Guarded {
    socket: ManuallyDrop<Socket>,
    retirer: Retirer,
    generation: u32,
}

impl Guarded {
    /// Guards a socket.
    pub fn new(socket: Socket, retirer: &Retirer) -> Guarded {
        Guarded {
            socket: ManuallyDrop::new(socket),
            retirer: retirer.clone(),
            generation: fork_generation(),
        }
    }
}

impl Deref for Guarded {
    type Target = Socket;
    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl AsFd for Guarded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: taken once, here; nobody can look at it afterwards.
        let socket = unsafe { ManuallyDrop::take(&mut self.socket) };
        if fork_generation() == self.generation {
            self.retirer.socket(socket);
        }
    }
}
