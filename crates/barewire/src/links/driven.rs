//! What a link needs of whoever plays the part of a node on another host, and the set of those of a node.
//!
//! They are not other processes, which run by themselves: somebody of this process has to drive them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire_carrier::PeerIdentity;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::wake::Epoll;

use crate::error::{Error, Result};

/// What is known of a node on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePeer {
    /// Its address and port, as the transport has it.
    pub address: String,
    /// Who it has proved to be.
    pub identity: PeerIdentity,
    /// Its process, as it says.
    pub pid: u32,
    /// Transport and provider that carry the link, such as `tcp`.
    pub transport: String,
    /// Whether what the link carries is encrypted.
    pub is_encrypted: bool,
}

/// What plays the part of a node on another host.
pub(crate) trait Driven: Send + Sync {
    /// Sends what there is to send. Returns at once if another thread is about to.
    fn push(&self);
    /// As [`Driven::push`], and stores what has arrived.
    fn drive(&self);
    /// Time has passed. Shows the other host that we are there if nothing was sent for the first time, and ends the link
    /// if nothing came for the second, both in nanoseconds.
    fn tick(&self, ping_after_ns: u64, lost_after_ns: u64);
    /// Whether nothing is left to do.
    fn has_ended(&self) -> bool;
    /// Whether a thread may sleep on the set's descriptor. If not, it drives again.
    fn may_sleep(&self) -> bool;
    /// Who it is, once that is known.
    fn peer(&self) -> Option<RemotePeer>;
    /// Why the link to the other host is down, if it is.
    fn failure(&self) -> Option<Error>;
}

/// Whether two handles are of one.
pub(crate) fn is_same(one: &Arc<dyn Driven>, other: &Arc<dyn Driven>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Those of one node.
pub(crate) struct DrivenSet {
    /// Descriptors of their carriers.
    pub epoll: Epoll,
    all: Mutex<Vec<Arc<dyn Driven>>>,
    /// The node is gone: nothing is added any more.
    is_closed: AtomicBool,
    count: AtomicUsize,
    /// When somebody who polls last drove them.
    last_driven_ns: AtomicU64,
    /// A thread sleeps on the descriptor, among others.
    is_awaited: AtomicBool,
}

impl DrivenSet {
    pub fn new() -> Result<DrivenSet> {
        Ok(DrivenSet {
            epoll: Epoll::new()?,
            all: Mutex::default(),
            is_closed: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            last_driven_ns: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
        })
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<dyn Driven>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one; `false` if the node is gone.
    #[must_use]
    pub fn add(&self, driven: Arc<dyn Driven>) -> bool {
        let mut all = self.all();
        // Relaxed: the lock orders it.
        if self.is_closed.load(Ordering::Relaxed) {
            return false;
        }
        all.push(driven);
        // Release pairs with the Acquire in `is_empty`.
        self.count.store(all.len(), Ordering::Release);
        true
    }

    pub fn remove(&self, driven: &Arc<dyn Driven>) {
        let mut all = self.all();
        all.retain(|other| !is_same(other, driven));
        // Release pairs with the Acquire in `is_empty`.
        self.count.store(all.len(), Ordering::Release);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        // Acquire pairs with the Release in `add`.
        self.count.load(Ordering::Acquire) == 0
    }

    /// All, as they are now.
    pub fn snapshot(&self) -> Vec<Arc<dyn Driven>> {
        self.all().clone()
    }

    /// Drives all, for a thread that polls.
    #[inline]
    pub fn drive(&self) {
        if !self.is_empty() {
            self.drive_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn drive_all(&self) {
        // Relaxed: a hint for the node's own thread.
        self.last_driven_ns.store(monotonic_ns(), Ordering::Relaxed);
        // Otherwise another thread is at it.
        let Ok(mut all) = self.all.try_lock() else {
            return;
        };
        for driven in all.iter() {
            driven.drive();
        }
        if all.iter().any(|driven| driven.has_ended()) {
            all.retain(|driven| !driven.has_ended());
            // Release pairs with the Acquire in `is_empty`.
            self.count.store(all.len(), Ordering::Release);
        }
    }

    /// For the node's own thread: drives all until there is nothing left that can be done at once.
    pub fn drive_until_idle(&self) {
        loop {
            let all = self.snapshot();
            all.iter().for_each(|driven| driven.drive());
            all.iter()
                .filter(|driven| driven.has_ended())
                .for_each(|driven| self.remove(driven));
            if all
                .iter()
                .all(|driven| driven.has_ended() || driven.may_sleep())
            {
                return;
            }
        }
    }

    /// Our node goes away: sends what was accepted, for at most this time, and then lets go of all.
    pub fn linger(&self, longest: Duration) {
        let deadline_ns = monotonic_ns() + longest.as_nanos() as u64;
        let mut events = Vec::with_capacity(8);
        while !self.is_empty() && monotonic_ns() < deadline_ns {
            self.drive_all();
            if !self.is_empty() && self.may_sleep() {
                // Whatever comes of it is seen by the next look.
                let _ = self
                    .epoll
                    .wait(&mut events, Some(Duration::from_millis(10)));
            }
        }
    }

    /// Whether a thread may sleep on our descriptor. If not, it drives and tries again.
    pub fn may_sleep(&self) -> bool {
        self.is_empty() || self.snapshot().iter().all(|driven| driven.may_sleep())
    }

    /// The thread that waits for the node's events is about to sleep on our descriptor, among others. Whether it may.
    pub fn begin_sleep(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        // Relaxed: a hint for the node's own thread.
        self.is_awaited.store(true, Ordering::Relaxed);
        self.may_sleep()
    }

    /// It has woken.
    pub fn end_sleep(&self) {
        if !self.is_empty() {
            // Relaxed: a hint for the node's own thread.
            self.is_awaited.store(false, Ordering::Relaxed);
        }
    }

    /// Who has polled does not drive them for a while.
    pub fn leave_to_thread(&self) {
        // Relaxed: a hint for the node's own thread.
        self.last_driven_ns.store(0, Ordering::Relaxed);
    }

    /// Whether somebody is about to drive them: a thread that has polled within this time, or one that sleeps on our
    /// descriptor.
    pub fn is_left_to_others(&self, within: Duration) -> bool {
        // Relaxed: a hint.
        self.is_awaited.load(Ordering::Relaxed) || self.was_driven_within(within)
    }

    /// Whether a thread that polls has driven them within this time.
    pub fn was_driven_within(&self, time: Duration) -> bool {
        // Relaxed: as in `drive_all`.
        let last_ns = self.last_driven_ns.load(Ordering::Relaxed);
        last_ns != 0 && monotonic_ns().saturating_sub(last_ns) < time.as_nanos() as u64
    }
}

impl AsFd for DrivenSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
