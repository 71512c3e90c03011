//! The link to one other node: everything the data path needs to know of the peer.
//!
//! A [`Link`] is fixed once the two sides have said hello; only its status changes. What
//! it takes to run the control channel (arena, outbox, peer's segments) is kept by the
//! node, under its lock.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use barewire_cpu::probes::nodes as probes;
use barewire_fabric::doorbell;
use barewire_fabric::memory::Fences;
use barewire_shm::Window;
use barewire_shm::counters::{CounterPage, QueueCounter};
use barewire_sys::memory::fork_generation;
use barewire_sys::retire::Guarded;
use barewire_sys::wake::{EventFd, Interest, heavy_fence, light_fence};
use barewire_sys::watch::has_news;

use crate::error::{Credentials, Error, Misconduct};
use crate::links::cork::Cork;
use crate::links::driven::{Driven, Leads, TRAPS_FROM};
use crate::messages::control::Message;

/// How a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    Up = 0,
    /// The peer said good-bye.
    Left = 1,
    /// The peer's process died without a word.
    Died = 2,
    /// The peer broke the protocol and we closed the link.
    Misbehaved = 3,
}

pub(crate) struct Link {
    socket: Arc<Guarded>,
    /// Readable once the peer's process has ended; given back when the link is closed.
    pidfd: Mutex<Option<Arc<OwnedFd>>>,
    pub peer: Credentials,
    /// The peer's doorbell page.
    page: Window,
    /// The peer's eventfd; without one it is woken over the socket.
    waker: Option<EventFd>,
    /// The number of the peer's sleep that we woke last.
    last_woken: AtomicU64,
    /// Whether the light fence may be a compiler fence.
    asymmetric: bool,
    status: AtomicU32,
    misconduct: Mutex<Option<Misconduct>>,
    /// Why the peer wants no more of us.
    refusal: Mutex<Option<String>>,
    fork_generation: u32,
    counters: CounterPage,
    /// What plays the peer's part, if that is on another host.
    remote: Option<Arc<dyn Driven>>,
}

/// How the peer is woken.
pub(crate) struct WakeUp {
    /// Its doorbell page.
    pub page: Window,
    /// Its eventfd; without one it is woken over the socket.
    pub waker: Option<EventFd>,
    /// Whether the light fence may be a compiler fence.
    pub asymmetric: bool,
}

impl Link {
    pub fn new(
        socket: Arc<Guarded>,
        pidfd: Option<Arc<OwnedFd>>,
        peer: Credentials,
        wake_up: WakeUp,
        counters: CounterPage,
        remote: Option<Arc<dyn Driven>>,
    ) -> Link {
        Link {
            socket,
            pidfd: Mutex::new(pidfd),
            peer,
            page: wake_up.page,
            waker: wake_up.waker,
            last_woken: AtomicU64::new(0),
            asymmetric: wake_up.asymmetric,
            status: AtomicU32::new(Status::Up as u32),
            misconduct: Mutex::new(None),
            refusal: Mutex::new(None),
            fork_generation: fork_generation(),
            counters,
            remote,
        }
    }

    /// What plays the peer's part, if that is on another host.
    #[inline]
    pub fn remote(&self) -> Option<&Arc<dyn Driven>> {
        self.remote.as_ref()
    }

    /// Rings the peer's doorbell for `source` and wakes it if it sleeps.
    #[inline]
    pub fn ring(&self, source: u32) {
        if let Some(remote) = &self.remote {
            return self.ring_remote(remote, source);
        }
        let sleep = doorbell::ring(&self.page, source);
        if sleep % 2 == 1 {
            self.wake(sleep);
        }
    }

    /// As [`Link::ring`], but wakes nobody: whoever looks or drives next finds it.
    pub fn ring_later(&self, source: u32) {
        doorbell::ring(&self.page, source);
    }

    /// As [`Link::ring`], by a proxy of another host to its own node. The thread that drives it may be the one that sleeps
    /// for that node.
    pub fn ring_by_driver(&self, source: u32) {
        match Leads::note_found() {
            true => self.ring_later(source),
            false => self.ring(source),
        }
    }

    /// It never sleeps, and never runs by itself.
    fn ring_remote(&self, remote: &Arc<dyn Driven>, source: u32) {
        if source < TRAPS_FROM {
            doorbell::ring(&self.page, source);
            if !Cork::holds(remote) {
                remote.push();
            }
        } else {
            remote.fired(source);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self, sleep: u64) {
        // Relaxed: each sleep has its own number, and being woken twice does no harm.
        if self.last_woken.swap(sleep, Ordering::Relaxed) == sleep {
            return;
        }
        self.counters.add(QueueCounter::WakesSent, 1);
        probes::wakes_peer(self.peer.pid);
        // A failure here means that the peer is gone or its socket is full of things to
        // wake up for; both will be noticed elsewhere.
        let _ = match &self.waker {
            Some(eventfd) => eventfd.signal(),
            None => self.socket.send(&Message::Wake.encode(), &[]).map(|_| ()),
        };
    }

    /// Says in the peer's page that its stores into this aperture may be waited for. A heavy
    /// fence must follow.
    pub fn announce_waiting(&self, aperture: u32) {
        doorbell::announce_waiting(&self.page, aperture);
    }

    /// Whether a heavy fence on either side reaches the other.
    pub fn is_asymmetric(&self) -> bool {
        self.asymmetric
    }

    /// Whether the link can be used here.
    #[inline(always)]
    pub fn is_usable(&self) -> bool {
        self.is_up() && fork_generation() == self.fork_generation
    }

    /// Why it can not be used. Out of line: an error is long.
    #[cold]
    #[inline(never)]
    pub fn why_not(&self) -> Error {
        match self.is_up() {
            true => Error::Forked,
            false => self.reason(),
        }
    }

    /// Refuses to work in a child that inherited us.
    #[inline(always)]
    pub fn check_fork(&self) -> Result<(), Error> {
        if fork_generation() != self.fork_generation {
            return Err(Error::Forked);
        }
        Ok(())
    }

    /// Asks the kernel whether the peer has ended or hung up, which the status says only once
    /// somebody has looked. A system call.
    pub fn has_ended(&self) -> bool {
        let pidfd = self.pidfd.lock().unwrap_or_else(PoisonError::into_inner);
        has_ended(&self.socket, pidfd.as_deref())
    }

    #[inline(always)]
    pub fn is_up(&self) -> bool {
        // Acquire pairs with the Release of `close`: the reason is visible.
        self.status.load(Ordering::Acquire) == Status::Up as u32
    }

    /// The error that a closed link gives.
    #[cold]
    pub fn reason(&self) -> Error {
        if let Some(failure) = self.remote.as_ref().and_then(|remote| remote.failure()) {
            return failure;
        }
        let misconduct = *self
            .misconduct
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(reason)) = (misconduct, &*refusal) {
            let reason = reason.clone();
            return Error::Refused { reason };
        }
        // Acquire pairs with the Release of `close`.
        match (self.status.load(Ordering::Acquire), misconduct) {
            (_, Some(misconduct)) => Error::PeerMisbehaved(misconduct),
            (s, _) if s == Status::Died as u32 => Error::PeerDied { pid: self.peer.pid },
            _ => Error::PeerGone,
        }
    }

    /// The peer said why it is about to end the link.
    pub fn refused(&self, reason: &str) {
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        *refusal = Some(reason.to_owned());
    }

    /// Closes the link for the data path. The first reason stays.
    pub fn close(&self, status: Status, misconduct: Option<Misconduct>) {
        {
            let mut reason = self
                .misconduct
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if self.is_up() {
                *reason = misconduct;
            }
        }
        // Release pairs with the Acquire of `check`. Relaxed: on failure nothing is read.
        let _ = self.status.compare_exchange(
            Status::Up as u32,
            status as u32,
            Ordering::Release,
            Ordering::Relaxed,
        );
        drop(
            self.pidfd
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}

/// Whether the other end of a link has hung up, or its process has ended. A system call.
pub(crate) fn has_ended(socket: &Guarded, pidfd: Option<&OwnedFd>) -> bool {
    let mut watched = vec![(socket.as_fd(), Interest::default())];
    watched.extend(pidfd.map(|pidfd| (pidfd.as_fd(), Interest::READ)));
    has_news(&watched)
}

impl Fences for Link {
    #[inline]
    fn light(&self) {
        light_fence(self.asymmetric);
    }
    #[inline]
    fn heavy(&self) {
        heavy_fence();
    }
}
