//! What a link needs of whoever plays the part of a node on another host, and the set of those of a node.
//!
//! They are not other processes, which run by themselves: somebody of this process has to drive them.

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use barewire_carrier::PeerIdentity;
use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_sys::clock::monotonic_ns;
use barewire_sys::wake::{Epoll, EventFd};

use crate::error::{Error, Result};
use crate::links::far::Far;
use crate::links::unconfirmed::Unconfirmed;

/// What is known of a node on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePeer {
    /// Its address and port, as the transport has it.
    pub address: String,
    /// Our own, as the other node sees us unless something between translates addresses.
    pub own_address: String,
    /// Who it has proved to be.
    pub identity: PeerIdentity,
    /// Its process, as it says.
    pub pid: u32,
    /// Transport and provider that carry the link, such as `tcp`.
    pub transport: String,
    /// Whether what the link carries is encrypted.
    pub is_encrypted: bool,
    /// How long it takes to hear from the other node, smoothed over the last signs of life: there, until the node or
    /// its thread looks, and back. `None` before the first.
    pub round_trip: Option<Duration>,
}

/// What plays the part of a node on another host.
pub(crate) trait Driven: Send + Sync {
    /// Sends what there is to send. Returns at once if another thread is about to.
    fn push(&self);
    /// Sends one message of the connection that our node rings for by `source` from where it lies, without storing it in the
    /// ring. `announce` publishes it there, but for its bytes, and says whether there was room. `false`: it was not sent,
    /// since there was no room, or something goes before it, or another thread is at work.
    fn send_direct(&self, source: u32, message: &[u8], announce: &mut dyn FnMut() -> bool) -> bool;
    /// As [`Driven::push`], and stores what has arrived.
    fn drive(&self);
    /// As [`Driven::drive`]. The payload of the next frame is perhaps stored in a buffer in place of the ring.
    fn drive_into(&self, buffer: &mut DirectBuffer<'_>);
    /// As [`Driven::drive`], but if another thread is at it, waits until it is done. Not to be called under a lock.
    fn settle(&self);
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
    /// After the link is down: how far the other host had what our node sent on a connection, which goes by our node's
    /// number.
    fn unconfirmed(&self, connection: u32) -> Option<Unconfirmed>;
    /// Its record in the counters page, if it has one.
    fn record(&self) -> Option<u32>;
    /// Accesses to the other host's memory.
    fn far(&self) -> &Arc<Far>;
    /// A tripwire on our node's stores has fired that the other host has set; its bit is from [`TRAPS_FROM`] on. As
    /// [`Driven::push`] otherwise. The other host is told of firings in the order of these calls.
    fn fired(&self, source: u32);
}

/// Shorter payloads are not stored in a [`DirectBuffer`]: they are copied in less time than the kernel takes to store in
/// several places.
pub(crate) const DIRECT_BYTES_MIN: usize = 4096;

/// Where a thread wants the next message of a connection, whose ring it has found empty.
pub(crate) struct DirectBuffer<'b> {
    /// The bit by which our node rings for the connection.
    pub source: u32,
    /// How far its ring has been read, in lines.
    pub tail_lines: u64,
    pub memory: &'b mut [u8],
    /// The frame that is published there now, though its payload is at the beginning of `memory`.
    pub stored: Option<StoredFrame>,
}

/// A frame whose payload is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredFrame {
    /// Where its payload belongs in the region.
    pub payload_offset: usize,
    pub payload_bytes: usize,
}

/// The bits from here on stand for tripwires that the other host has set on our stores. They are in no doorbell page.
pub(crate) const TRAPS_FROM: u32 = SOURCES_MAX - 32 * 1024;

/// Whether two handles are of one.
pub(crate) fn is_same(one: &Arc<dyn Driven>, other: &Arc<dyn Driven>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Some, as they were when it was taken. Whoever polls takes one each time.
pub(crate) type Snapshot = Arc<[Arc<dyn Driven>]>;

thread_local! {
    /// This thread waits, and drives all links of its node before each look.
    static DRIVES_ALL: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is the one that sleeps in the kernel for its node, or is about to.
    static LEADS: Cell<Leading> = const { Cell::new(Leading::No) };
}

/// While it is there, its thread drives all links before each look, so that a look needs to drive none.
pub(crate) struct DrivesAll {
    before: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl DrivesAll {
    pub fn begin() -> DrivesAll {
        DrivesAll {
            before: DRIVES_ALL.replace(true),
            _of_this_thread: PhantomData,
        }
    }

    /// Whether the calling thread does.
    #[inline]
    pub fn is_so() -> bool {
        DRIVES_ALL.get()
    }
}

impl Drop for DrivesAll {
    fn drop(&mut self) {
        DRIVES_ALL.set(self.before);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leading {
    No,
    Yes,
    /// And it has found something for its node since.
    Found,
}

/// While it is there, its thread is the one that sleeps in the kernel for its node. What this thread finds while it
/// drives a link wakes nobody: no other thread sleeps in the kernel, and when this one sleeps no more, those that wait for
/// it look.
pub(crate) struct Leads {
    _of_this_thread: PhantomData<*const ()>,
}

impl Leads {
    pub fn begin() -> Leads {
        LEADS.set(Leading::Yes);
        Leads {
            _of_this_thread: PhantomData,
        }
    }

    /// Whether something was found, so that the thread must not sleep: it may be for those that wait for it.
    pub fn has_found(&self) -> bool {
        LEADS.get() == Leading::Found
    }

    /// Something is there for the node. Whether the calling thread is the one that sleeps for it.
    pub fn note_found() -> bool {
        let leads = LEADS.get() != Leading::No;
        if leads {
            LEADS.set(Leading::Found);
        }
        leads
    }
}

impl Drop for Leads {
    fn drop(&mut self) {
        LEADS.set(Leading::No);
    }
}

/// Those of one node.
pub(crate) struct DrivenSet {
    /// Descriptors of their carriers.
    pub epoll: Epoll,
    all: Mutex<Snapshot>,
    /// The node is gone: nothing is added any more.
    is_closed: AtomicBool,
    count: AtomicUsize,
    /// When somebody who polls last drove them.
    last_driven_ns: AtomicU64,
    /// Threads that sleep on the descriptor, among others.
    sleepers: AtomicUsize,
    /// A link is polled so much that its carrier's descriptor tells the set nothing: the node's own thread looks whether
    /// somebody still polls.
    is_watched: AtomicBool,
    /// Wakes that thread.
    thread_bell: OnceLock<Arc<EventFd>>,
}

impl DrivenSet {
    pub fn new() -> Result<DrivenSet> {
        Ok(DrivenSet {
            epoll: Epoll::new()?,
            all: Mutex::new(Vec::new().into()),
            is_closed: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            last_driven_ns: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            is_watched: AtomicBool::new(false),
            thread_bell: OnceLock::new(),
        })
    }

    /// The node's own thread runs, and is woken by this.
    pub fn set_thread_bell(&self, bell: Arc<EventFd>) {
        // There is one thread.
        let _ = self.thread_bell.set(bell);
    }

    fn all(&self) -> MutexGuard<'_, Snapshot> {
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
        *all = all.iter().cloned().chain([driven]).collect();
        // Release pairs with the Acquire in `is_empty`.
        self.count.store(all.len(), Ordering::Release);
        true
    }

    pub fn remove(&self, driven: &Arc<dyn Driven>) {
        let mut all = self.all();
        let others = all.iter().filter(|other| !is_same(other, driven));
        *all = others.cloned().collect();
        // Release pairs with the Acquire in `is_empty`.
        self.count.store(all.len(), Ordering::Release);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        // Acquire pairs with the Release in `add`.
        self.count.load(Ordering::Acquire) == 0
    }

    /// All, as they are now.
    pub fn snapshot(&self) -> Snapshot {
        Arc::clone(&self.all())
    }

    /// Drives all, for a thread that polls.
    #[inline]
    pub fn drive(&self) {
        if !self.is_empty() {
            self.drive_all();
        }
    }

    /// As [`DrivenSet::drive`], if that is wanted now.
    #[inline]
    pub fn drive_if(&self, is_wanted: bool) {
        if is_wanted {
            self.drive();
        }
    }

    /// As [`DrivenSet::drive`]: one of them by [`Driven::drive_into`].
    pub fn drive_into(&self, one: &Arc<dyn Driven>, buffer: &mut DirectBuffer<'_>) {
        self.drive_each(|driven| match is_same(driven, one) {
            true => driven.drive_into(buffer),
            false => driven.drive(),
        });
    }

    #[cold]
    #[inline(never)]
    fn drive_all(&self) {
        self.drive_each(|driven| driven.drive());
    }

    fn drive_each(&self, mut drive: impl FnMut(&Arc<dyn Driven>)) {
        // Relaxed: a hint for the node's own thread.
        self.last_driven_ns.store(monotonic_ns(), Ordering::Relaxed);
        for driven in self.snapshot().iter() {
            drive(driven);
            if driven.has_ended() {
                self.remove(driven);
            }
        }
    }

    /// Something has come, to a thread that polls.
    pub fn note_arrival(&self, now_ns: u64) {
        // Relaxed: a hint for the node's own thread.
        self.last_driven_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether a carrier's descriptor may be left out while its link is polled. If so, the node's own thread has it
    /// tell again as soon as nobody polls. The caller has the lock of the link, which whoever goes to sleep takes after it
    /// was counted.
    pub fn may_leave_out(&self) -> bool {
        // Relaxed: ordered by the lock of the link.
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.watch()
    }

    /// Has the node's own thread drive all as soon as nobody polls. `false` if there is no such thread.
    pub fn watch(&self) -> bool {
        let Some(bell) = self.thread_bell.get() else {
            return false;
        };
        // AcqRel pairs with the swap in `end_watch`.
        if !self.is_watched.swap(true, Ordering::AcqRel) {
            // Failing means that the counter is full: then it wakes all the same.
            let _ = bell.signal();
        }
        true
    }

    /// For the node's own thread: whether it is to look within a moment if somebody still polls.
    pub fn is_watched(&self) -> bool {
        // Relaxed: its bell was rung.
        self.is_watched.load(Ordering::Relaxed)
    }

    /// For the node's own thread: nobody polls any more. It then has all descriptors tell again. Whoever leaves one out
    /// from now on rings the bell.
    pub fn end_watch(&self) {
        // AcqRel pairs with the swap in `may_leave_out`.
        self.is_watched.swap(false, Ordering::AcqRel);
    }

    /// For the node's own thread: drives all until there is nothing left that can be done at once.
    pub fn drive_until_idle(&self) {
        self.drive_until_no_more();
        // That was nobody who polls.
        self.leave_to_thread();
    }

    fn drive_until_no_more(&self) {
        loop {
            let all = self.snapshot();
            all.iter().for_each(|driven| driven.drive());
            for driven in all.iter().filter(|driven| driven.has_ended()) {
                self.remove(driven);
            }
            let is_idle = |driven: &Arc<dyn Driven>| driven.has_ended() || driven.may_sleep();
            if all.iter().all(is_idle) {
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

    /// A thread is about to sleep on our descriptor, among others: it counts as asleep until what this yields is dropped.
    pub fn begin_sleep(&self) -> Sleeper<'_> {
        // Relaxed: ordered by the locks of the links, see `may_leave_out`.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        Sleeper {
            set: self,
            may_sleep: self.may_sleep(),
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
        self.sleepers.load(Ordering::Relaxed) > 0 || self.was_driven_within(within)
    }

    /// Whether a thread that polls has driven them within this time.
    pub fn was_driven_within(&self, time: Duration) -> bool {
        // Relaxed: as in `drive_all`.
        let last_ns = self.last_driven_ns.load(Ordering::Relaxed);
        last_ns != 0 && monotonic_ns().saturating_sub(last_ns) < time.as_nanos() as u64
    }
}

/// A thread that sleeps on the descriptor of a set.
pub(crate) struct Sleeper<'s> {
    set: &'s DrivenSet,
    /// Whether it may. If not, there is something that the descriptor does not show.
    pub may_sleep: bool,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        // Relaxed: a link that is left out for a sleeper too many, or not for one, is found by the node's own thread.
        self.set.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsFd for DrivenSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_sleeps_for_others_knows_of_what_it_has_found() {
        assert!(!Leads::note_found());
        let leads = Leads::begin();
        assert!(!leads.has_found());
        assert!(Leads::note_found());
        assert!(leads.has_found());
        drop(leads);
        assert!(!Leads::note_found());
        assert!(!Leads::begin().has_found(), "a new sleep");
    }

    #[test]
    fn whoever_has_slept_counts_no_more() {
        let set = DrivenSet::new().unwrap();
        let long = Duration::from_secs(60);
        for _ in 0..3 {
            let (one, other) = (set.begin_sleep(), set.begin_sleep());
            assert!(one.may_sleep && set.is_left_to_others(long));
            drop(one);
            assert!(set.is_left_to_others(long));
            drop(other);
            assert!(!set.is_left_to_others(long));
        }
    }
}
