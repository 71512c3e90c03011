//! The doorbell pages of a node: one for each user that it has links with, the bits in them, and
//! the announcement that somebody sleeps.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use barewire_fabric::doorbell::{self, Drain, PAGE_BYTES, SOURCES_MAX};
use barewire_shm::Window;
use barewire_sys::memory::{Access, Memfd, Placement};

use crate::apertures::tripwire::TripwireCore;
use crate::error::{Error, Result};

/// The doorbell page of one trust domain.
pub(crate) struct Domain {
    pub uid: u32,
    memfd: Memfd,
    pub page: Window,
    pub drain: Drain,
}

/// What a bit of the doorbell pages stands for.
#[derive(Clone)]
pub(crate) enum Source {
    Free,
    /// A link's control channel.
    Link(usize),
    Connection(u32),
    Tripwire(Arc<TripwireCore>),
    /// This node itself, to be looked at.
    Own,
}

/// The source by which a node rings itself.
pub(crate) const OWN_SOURCE: u32 = 0;

/// The doorbell pages of a node, what their bits stand for, and who sleeps by them.
pub(crate) struct Doorbells {
    pub domains: Vec<Domain>,
    pub sources: Vec<Source>,
    free_sources: VecDeque<u32>,
    /// Where the pages are to lie.
    placement: Placement,
    sleep_sequence: u64,
    /// Who has announced sleep and not yet being awake: threads, and the descriptor.
    sleepers: u32,
}

impl Doorbells {
    /// With the page for peers of our own user `own_uid`. The pages lie where `placement` says.
    pub fn new(own_uid: u32, placement: &Placement) -> Result<Doorbells> {
        let mut doorbells = Doorbells {
            domains: Vec::new(),
            sources: vec![Source::Own],
            free_sources: VecDeque::new(),
            // A page is far smaller than a huge page.
            placement: placement.on_small_pages(),
            sleep_sequence: 0,
            sleepers: 0,
        };
        doorbells.domain(own_uid)?;
        Ok(doorbells)
    }

    /// The page of our own user's peers, through which this node rings itself.
    pub fn own_page(&self) -> &Window {
        &self.domains[0].page
    }

    fn domain(&mut self, uid: u32) -> Result<usize> {
        if let Some(at) = self.domains.iter().position(|d| d.uid == uid) {
            return Ok(at);
        }
        let memfd = Memfd::create_sealed("barewire-doorbell", PAGE_BYTES)?;
        let page = memfd
            .map_placed(Access::ReadWrite, &self.placement)?
            .whole();
        doorbell::announce_awake(&page, self.sleep_sequence & !1);
        if self.sleep_sequence % 2 == 1 {
            // Somebody sleeps already; the page is not yet known to any peer.
            doorbell::announce_sleep(&page, self.sleep_sequence);
        }
        self.domains.push(Domain {
            uid,
            memfd,
            page,
            drain: Drain::default(),
        });
        Ok(self.domains.len() - 1)
    }

    /// The descriptor of the page for peers of user `uid`, made if there is none yet: then the
    /// next poll has to look at it.
    pub fn descriptor(&mut self, uid: u32) -> Result<BorrowedFd<'_>> {
        let at = self.domain(uid)?;
        Ok(self.domains[at].memfd.as_fd())
    }

    /// From now on ringers wake us.
    pub fn announce_sleep(&mut self) {
        self.sleepers += 1;
        self.renumber_sleep();
    }

    /// Whether anybody sleeps.
    pub fn has_sleepers(&self) -> bool {
        self.sleepers > 0
    }

    /// As [`Doorbells::renumber_sleep`], if anybody sleeps.
    pub fn renumber_sleep_if_asleep(&mut self) {
        if self.sleepers > 0 {
            self.renumber_sleep();
        }
    }

    /// Those who sleep are to be woken again: the last wake-up was taken by another.
    pub fn renumber_sleep(&mut self) {
        self.sleep_sequence += 1 + self.sleep_sequence % 2;
        for domain in &self.domains {
            doorbell::announce_sleep(&domain.page, self.sleep_sequence);
        }
    }

    /// From now on they need not, unless others still sleep.
    pub fn announce_awake(&mut self) {
        self.sleepers -= 1;
        if self.sleepers > 0 {
            return self.renumber_sleep();
        }
        self.sleep_sequence += self.sleep_sequence % 2;
        for domain in &self.domains {
            doorbell::announce_awake(&domain.page, self.sleep_sequence);
        }
    }

    /// Gives up the page of another user, whose last peer has gone.
    pub fn forget(&mut self, uid: u32) {
        self.domains.retain(|d| d.uid != uid);
    }

    /// Finds bits that a dying peer left half-raised.
    pub fn sweep(&self, uid: u32) {
        if let Some(domain) = self.domains.iter().find(|d| d.uid == uid) {
            doorbell::sweep(&domain.page);
        }
    }

    pub fn add_source(&mut self, source: Source) -> Result<u32> {
        // First in, first out: a bit is not used again at once, so that news for its last
        // use rarely reaches the next.
        if self.free_sources.len() > 64 || self.sources.len() >= SOURCES_MAX as usize {
            if let Some(number) = self.free_sources.pop_front() {
                self.sources[number as usize] = source;
                return Ok(number);
            }
            return Err(Error::LimitReached {
                what: "connections and tripwires on one node",
                limit: u64::from(SOURCES_MAX),
            });
        }
        self.sources.push(source);
        Ok(self.sources.len() as u32 - 1)
    }

    pub fn set_source(&mut self, number: u32, source: Source) {
        self.sources[number as usize] = source;
    }

    pub fn free_source(&mut self, number: u32) {
        self.sources[number as usize] = Source::Free;
        self.free_sources.push_back(number);
    }

    /// Whether every bit that was taken from a page has been looked at.
    pub fn is_drained(&self) -> bool {
        self.domains.iter().all(|d| d.drain.is_idle())
    }

    /// Whether nothing has to be looked at but the own page.
    pub fn is_settled(&self) -> bool {
        self.domains.len() == 1 && self.is_drained()
    }

    /// Whether a poll would find something to look at.
    pub fn has_work(&self) -> bool {
        !self.is_drained() || self.domains.iter().any(|d| doorbell::pending(&d.page))
    }
}
