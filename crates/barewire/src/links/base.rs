//! What every part of a node uses: who it is, its descriptors and doorbell, its counters, and
//! its settings as they are now.
//!
//! It knows nothing of peers and connections. It stands below the tables, so that neither they
//! nor an aperture need the node that they belong to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire_fabric::doorbell;
use barewire_shm::Window;
use barewire_shm::counters::{CounterPage, Identity, page_bytes};
use barewire_sys::clock::monotonic_ns;
use barewire_sys::discover::COUNTER_PAGE_NAME;
use barewire_sys::memory::{Access, Memfd, arm_fork_guard, fork_generation};
use barewire_sys::process::{Credentials, own_credentials, random_bytes};
use barewire_sys::retire::Retirer;
use barewire_sys::wake::{Epoll, EventFd, Interest, register_expedited};

use crate::config::NodeConfig;
use crate::error::{Error, Result};
use crate::links::driven::DrivenSet;

/// Epoll token of the node's own eventfd.
pub(crate) const TOKEN_EVENTFD: u64 = 0;
/// Epoll token of the links to other hosts.
pub(crate) const TOKEN_DRIVEN: u64 = 4;

/// What may change of a node's settings, as it is now.
#[derive(Clone, Debug)]
pub(crate) struct LiveSettings {
    pub config: NodeConfig,
    /// Whether the capture, if there is one, goes on.
    pub capturing: bool,
}

/// The parts of a node below its tables.
pub(crate) struct Base {
    pub node_id: [u64; 2],
    pub own: Credentials,
    pub epoll: Epoll,
    pub eventfd: EventFd,
    /// Links to other hosts.
    pub driven: Arc<DrivenSet>,
    /// Closes what peers and strangers have sent.
    pub retirer: Retirer,
    /// The doorbell page of our own user's peers, and of ourselves.
    pub own_page: Window,
    pub counters: CounterPage,
    /// Kept open: `barewire ls` finds the page by it.
    _counters_memfd: Memfd,
    /// Whether this process may use membarrier.
    pub membarrier: bool,
    live: Mutex<LiveSettings>,
    /// Something other than the own page has to be looked at.
    attention: AtomicBool,
    /// A tripwire with the action Wake fired.
    woken: AtomicBool,
    fork_generation: u32,
}

impl Base {
    /// `own_page` is the doorbell page for peers of our own user.
    pub fn new(config: &NodeConfig, own_page: Window) -> Result<Base> {
        arm_fork_guard();
        let own = own_credentials();
        let mut id = [0; 16];
        random_bytes(&mut id)?;
        let node_id = [0, 8].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&id[at..at + 8]);
            u64::from_le_bytes(word)
        });
        let slots = config.connections_max;
        let counters_memfd = Memfd::create_sealed(COUNTER_PAGE_NAME, page_bytes(slots))?;
        let identity = Identity {
            pid: own.pid as u32,
            uid: own.uid,
            started_ns: monotonic_ns(),
            node_id,
        };
        let region = counters_memfd.map(Access::ReadWrite)?;
        let counters = CounterPage::create(&region, slots, identity).ok_or(Error::Closed)?;
        counters.set_placed(config.placed());
        let epoll = Epoll::new()?;
        let eventfd = EventFd::new_for_peers()?;
        epoll.add(&eventfd, TOKEN_EVENTFD, Interest::READ_EDGE)?;
        // It is always readable, which the set tells once.
        epoll.wait(&mut Vec::with_capacity(1), Some(Duration::ZERO))?;
        let driven = Arc::new(DrivenSet::new()?);
        epoll.add(&*driven, TOKEN_DRIVEN, Interest::READ)?;
        let retirer = Retirer::new(eventfd.try_clone()?);
        Ok(Base {
            node_id,
            own,
            epoll,
            eventfd,
            driven,
            retirer,
            own_page,
            counters,
            _counters_memfd: counters_memfd,
            membarrier: register_expedited(),
            live: Mutex::new(LiveSettings {
                config: config.clone(),
                capturing: config.capture.is_some(),
            }),
            attention: AtomicBool::new(true),
            woken: AtomicBool::new(false),
            fork_generation: fork_generation(),
        })
    }

    /// What may change of the settings, as it is now. Nothing is locked while this is held.
    pub fn live(&self) -> MutexGuard<'_, LiveSettings> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to work in a child that inherited us.
    pub fn check_fork(&self) -> Result<()> {
        if fork_generation() == self.fork_generation {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Whether this is another user than ours.
    pub fn is_foreign(&self, uid: u32) -> bool {
        uid != self.own.uid
    }

    /// Rings our own doorbell.
    pub fn ring_own(&self, source: u32) {
        if doorbell::ring(&self.own_page, source) % 2 == 1 {
            self.wake();
        }
    }

    /// Wakes whoever sleeps on our descriptors.
    pub fn wake(&self) {
        // Failing means that the counter is full: then it wakes all the same.
        let _ = self.eventfd.signal();
    }

    /// Has the next poll look beyond the own doorbell page, or says that it need not.
    pub fn set_attention(&self, wanted: bool) {
        // Release pairs with the Acquire in `wants_attention`.
        self.attention.store(wanted, Ordering::Release);
    }

    /// Whether something other than the own doorbell page has to be looked at.
    #[inline]
    pub fn wants_attention(&self) -> bool {
        // Acquire pairs with the Release in `set_attention`.
        self.attention.load(Ordering::Acquire)
    }

    /// A tripwire with the action Wake fired: a wait ends without an event.
    pub fn note_woken(&self) {
        // Relaxed: read by the thread that collected the tripwire.
        self.woken.store(true, Ordering::Relaxed);
    }

    /// Whether that happened since this was last asked.
    pub fn take_woken(&self) -> bool {
        // Relaxed: set by the thread that collected the tripwire.
        self.woken.swap(false, Ordering::Relaxed)
    }
}
