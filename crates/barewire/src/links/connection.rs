//! What both halves of a connection and the node's tables share.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use barewire_fabric::frame::STATE_COPIES;
use barewire_fabric::ring::{RingWatch, publish_armed, publish_starved, publish_state};
use barewire_shm::Window;

use crate::error::{Error, Result};
use crate::links::link::Link;

/// What both halves of a connection and the node's tables share.
pub(crate) struct ConnectionCore {
    pub number: u32,
    pub name: String,
    pub link: Arc<Link>,
    /// The peer's region: we store.
    pub outgoing: Window,
    /// The bit that stands for this connection at the peer.
    pub peer_source: u32,
    /// What we have published in the peer's STATE word.
    published: Mutex<u64>,
    /// Something was received and it has not been seen that nothing is left.
    unread: AtomicBool,
    /// The peer has been asked to ring.
    armed: AtomicBool,
    /// An attempt to send found no room, and nobody is asked to ring for it yet.
    wants_room: AtomicBool,
    /// The peer has been asked to ring when there is room.
    starved: AtomicBool,
    /// Held while that changes: the node and the receiver may be in different threads.
    arming: Mutex<()>,
    /// On the node's list of those that have not.
    listed: AtomicBool,
    /// Our own ring and duplex line, for the node to look at.
    watch: RingWatch<Window>,
    /// How far the receiver has read, in lines of the ring.
    tail_lines: AtomicU64,
    /// How often it has tried to receive.
    attempts: AtomicU64,
    /// As much as that was when news was told last.
    told: AtomicU64,
    /// Credit for another host waits for the next thing that is sent there.
    owes_credit: AtomicBool,
    halves: AtomicU8,
}

impl ConnectionCore {
    /// Of a connection over `link`: `outgoing` is the peer's region, `peer_source` its bit there.
    pub fn new(
        number: u32,
        name: String,
        link: Arc<Link>,
        outgoing: Window,
        peer_source: u32,
        watch: RingWatch<Window>,
    ) -> ConnectionCore {
        ConnectionCore {
            number,
            name,
            link,
            outgoing,
            peer_source,
            published: Mutex::new(0),
            unread: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
            starved: AtomicBool::new(false),
            arming: Mutex::new(()),
            listed: AtomicBool::new(false),
            watch,
            tail_lines: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
            told: AtomicU64::new(u64::MAX),
            owes_credit: AtomicBool::new(false),
            halves: AtomicU8::new(2),
        }
    }

    /// Why the connection is down, if so.
    #[inline(always)]
    pub fn check(&self) -> Result<()> {
        match self.link.is_usable() {
            true => Ok(()),
            false => Err(self.why_down()),
        }
    }

    /// Why it is down, with what may be lost of what was sent on it.
    #[cold]
    #[inline(never)]
    fn why_down(&self) -> Error {
        let (host, reason) = match self.link.why_not() {
            Error::HostLost { host, reason, .. } => (host, reason),
            error => return error,
        };
        let remote = self.link.remote();
        let unconfirmed = remote.and_then(|remote| remote.unconfirmed(self.number));
        Error::HostLost {
            host,
            reason,
            lost: unconfirmed.map(|it| it.lost(&self.outgoing)),
        }
    }

    /// Rings the sender for credit, which comes for a quarter of the ring at a time.
    ///
    /// To another host, credit for one quarter waits until something is sent on the connection, or somebody looks for
    /// more: that spares a packet. Credit for the next one goes at once. So less than half of the ring is read and not
    /// told, and the sender has room for its next message without it. If nobody sends or looks, the node's thread sends it
    /// with the next sign of life.
    pub fn ring_for_credit(&self) {
        // Relaxed: a hint. Credit that nobody remembers goes with the next.
        if self.link.remote().is_some() && !self.owes_credit.swap(true, Ordering::Relaxed) {
            return self.link.ring_later(self.peer_source);
        }
        self.paid_credit();
        self.link.ring(self.peer_source);
    }

    /// What there was to send to another host is on its way.
    #[inline]
    pub fn paid_credit(&self) {
        // Relaxed: as above. Looked at first, so that the line is not written with each message.
        if self.owes_credit.load(Ordering::Relaxed) {
            self.owes_credit.store(false, Ordering::Relaxed);
        }
    }

    /// Tells the peer something that stays true: it is to be rung for it.
    pub fn publish_state(&self, bits: u64) {
        if self.change_published(|state| state | bits) {
            self.link.ring(self.peer_source);
        }
    }

    /// Tells the peer whether we copy messages out ([`STATE_COPIES`]): it need not be rung for that.
    pub fn publish_copies(&self, copies: bool) {
        self.change_published(|state| match copies {
            true => state | STATE_COPIES,
            false => state & !STATE_COPIES,
        });
    }

    /// Changes the peer's STATE word; `false` if that changes nothing.
    fn change_published(&self, change: impl FnOnce(u64) -> u64) -> bool {
        // A forked child has no say.
        if self.link.check_fork().is_err() {
            return false;
        }
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let state = change(*published);
        if state == *published {
            return false;
        }
        *published = state;
        publish_state(&self.outgoing, state);
        true
    }

    #[inline]
    pub fn set_may_have_more(&self, more: bool) {
        // Relaxed: a hint between handles of one node.
        if self.unread.load(Ordering::Relaxed) != more {
            self.unread.store(more, Ordering::Relaxed);
        }
    }

    /// Whether readiness is to be told again.
    pub fn may_have_more(&self) -> bool {
        // Relaxed: a hint between handles of one node.
        self.unread.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_armed(&self) -> bool {
        // Relaxed: only says what we have stored ourselves.
        self.armed.load(Ordering::Relaxed)
    }

    /// Arms or disarms by `change`, and remembers which.
    pub fn set_armed(&self, armed: bool, change: impl FnOnce()) {
        let changing = self.arming.lock().unwrap_or_else(PoisonError::into_inner);
        change();
        // Relaxed: only says what we have stored ourselves.
        self.armed.store(armed, Ordering::Relaxed);
        drop(changing);
    }

    /// Has the peer ring again, for the node, which has taken us from its list. A heavy
    /// fence and another look at the ring must follow.
    pub fn rearm(&self) {
        // Relaxed: the list has a lock of its own.
        self.listed.store(false, Ordering::Relaxed);
        // Acquire pairs with `half_gone`: of a closed connection the peer's memory may
        // already serve another.
        if self.halves.load(Ordering::Acquire) > 0 {
            self.set_armed(true, || publish_armed(&self.outgoing, true));
            // Relaxed: the fence that follows orders it.
            if self.wants_room.swap(false, Ordering::Relaxed) {
                publish_starved(&self.outgoing, true);
                self.starved.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether the peer has to be asked to ring for room.
    #[inline]
    pub fn wants_room(&self) -> bool {
        // Relaxed: a later poll sees it, too.
        self.wants_room.load(Ordering::Relaxed)
    }

    /// In how many attempts the receiver has read what it has.
    #[inline]
    pub fn attempts(&self) -> u64 {
        // Relaxed: compared only.
        self.attempts.load(Ordering::Relaxed)
    }

    /// The receiver has read up to this line of the ring, in so many attempts.
    #[inline]
    pub fn set_received(&self, tail_lines: u64, attempts: u64) {
        // Relaxed: the store below orders it.
        self.tail_lines.store(tail_lines, Ordering::Relaxed);
        // Release pairs with the Acquire of `tell_news`: an attempt is seen with what it has read.
        self.attempts.store(attempts, Ordering::Release);
    }

    /// Whether something is there that has not been told since the receiver's last attempt. If so, it is told now.
    ///
    /// What was there may be nothing that one can receive, as the skipped end of the ring. Then an attempt finds
    /// nothing, and what comes next is told.
    #[inline]
    pub fn tell_news(&self) -> bool {
        // Acquire pairs with the Release of `set_received`.
        let attempts = self.attempts.load(Ordering::Acquire);
        // Relaxed: `told` is changed by who polls the node; `tail_lines` came with `attempts`.
        if self.told.load(Ordering::Relaxed) == attempts
            || self.watch.is_empty(self.tail_lines.load(Ordering::Relaxed))
        {
            return false;
        }
        // Relaxed: as above.
        self.told.store(attempts, Ordering::Relaxed);
        true
    }

    /// The node looks at the ring itself from now on, and the peer need not ring. What is there now has been told.
    /// Returns whether the node has to put it on its list.
    pub fn begin_watch(&self) -> bool {
        // Acquire pairs with `half_gone`, as in `rearm`.
        if self.halves.load(Ordering::Acquire) == 0 || !self.is_armed() {
            return false;
        }
        // Relaxed: see `tell_news`. An attempt meanwhile makes it told twice.
        let attempts = self.attempts.load(Ordering::Relaxed);
        self.told.store(attempts, Ordering::Relaxed);
        self.set_armed(false, || publish_armed(&self.outgoing, false));
        self.list()
    }

    /// An attempt to send found no room. Returns whether the node has to be told, to have
    /// the peer ring before anything sleeps.
    pub fn want_room(&self) -> bool {
        // Relaxed: the node's list has a lock of its own.
        !self.starved.load(Ordering::Relaxed)
            && !self.wants_room.swap(true, Ordering::Relaxed)
            && self.list()
    }

    /// There was room: the peer need not ring for it.
    #[inline]
    pub fn had_room(&self) {
        // Relaxed: set by the node's thread; seen late, it costs a bell.
        if self.starved.load(Ordering::Relaxed) {
            self.starved.store(false, Ordering::Relaxed);
            publish_starved(&self.outgoing, false);
        }
    }

    /// Whether this call put it on the list.
    pub fn list(&self) -> bool {
        // Relaxed: the list has a lock of its own.
        !self.listed.swap(true, Ordering::Relaxed)
    }

    /// Whether no handle is left.
    pub fn is_gone(&self) -> bool {
        // Relaxed: a hint; what is gone stays gone.
        self.halves.load(Ordering::Relaxed) == 0
    }

    /// A line that says which connection a handle is of, for people.
    pub fn describe(&self, handle: &str, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (number, name, peer) = (self.number, &self.name, self.link.peer);
        let (pid, uid) = (peer.pid, peer.uid);
        let state = if self.link.is_up() { "" } else { ", down" };
        write!(
            f,
            "{handle} {{ connection: {number}, name: {name:?}, peer: process {pid} of user {uid}{state} }}"
        )
    }

    /// One half is gone; returns whether both are.
    pub fn half_gone(&self) -> bool {
        // AcqRel pairs with itself: the last half sees what the other did.
        self.halves.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
