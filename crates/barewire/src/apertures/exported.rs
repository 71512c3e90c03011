//! Exported apertures, as memory: what the owner's stores and the tripwires of its peers need.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_fabric::aperture::Rights;
use barewire_fabric::doorbell;
use barewire_shm::Window;
use barewire_shm::watch::WatchTable;
use barewire_sys::memory::{
    Access, DetachableMapping, HugePages, Memfd, Placement, SealSet, huge_page_bytes,
};
use barewire_sys::wake::{heavy_fence, light_fence};

use crate::apertures::bytes::Bytes;
use crate::apertures::importers::{FENCE, FOREIGN, Importers, OWN, on_owner_bytes, on_owner_max};
use crate::apertures::layout::{
    APERTURE_BYTES_MAX, ApertureConfig, ApertureId, PAGE, counts_bytes, table_bytes,
};
use crate::error::{Error, Result};
use crate::links::base::Base;
use crate::links::link::Link;

/// An aperture has the size that peers are told. So it can only lie on huge pages as a whole if
/// it is a whole number of them.
pub(crate) fn check_huge(placement: &Placement, len_bytes: usize) -> Result<()> {
    let required = placement.huge_pages == HugePages::Require;
    match huge_page_bytes().filter(|_| required) {
        Some(huge) if len_bytes % huge != 0 => Err(Error::OutOfLimits {
            what: "aperture bytes (on huge pages: a multiple of the least)",
            value: len_bytes as u64,
            min: huge as u64,
            max: APERTURE_BYTES_MAX as u64,
        }),
        _ => Ok(()),
    }
}

/// An aperture of ours. Its owner has one handle; its tripwires keep it, too.
pub(crate) struct Exported {
    pub number: u32,
    pub id: ApertureId,
    base: Arc<Base>,
    pub bytes: Bytes,
    mapping: DetachableMapping,
    memfd: Memfd,
    watch_memfd: Memfd,
    counts_memfd: Memfd,
    watch: Mutex<WatchTable>,
    pub counts: Window,
    pub config: ApertureConfig,
    withdrawn: Mutex<bool>,
    importers: Importers,
    /// Our doorbell page, in which importers say that they wait.
    page: Window,
    granted_to: Mutex<Vec<u32>>,
}

impl Exported {
    /// Makes the memory of an aperture, and then asks for its number.
    pub fn new(
        base: &Arc<Base>,
        config: ApertureConfig,
        placement: &Placement,
        number: impl FnOnce() -> u32,
    ) -> Result<Exported> {
        let slots = config.tripwires_max;
        let memfd = Memfd::create("barewire-aperture", config.len_bytes.next_multiple_of(PAGE))?;
        let mapping = memfd.map_detachable(Access::ReadWrite, placement)?;
        let fixed_size = SealSet::SHRINK | SealSet::GROW;
        memfd.seal(match config.rights {
            Rights::ReadWrite => fixed_size | SealSet::SEAL,
            // Our own mapping stays writable; none made from now on can be.
            Rights::Read => fixed_size | SealSet::FUTURE_WRITE | SealSet::SEAL,
        })?;
        let len_bytes = config.len_bytes;
        let table_bytes = table_bytes(len_bytes, slots);
        let (watch_memfd, table) = Memfd::create_owner_writable("barewire-watch", table_bytes)?;
        let table = WatchTable::create(&table, len_bytes, slots).ok_or(Error::Closed)?;
        let counts_memfd = Memfd::create_sealed("barewire-counts", counts_bytes(slots))?;
        let counts = counts_memfd.map(Access::Read)?.whole();
        Ok(Exported {
            number: number(),
            id: ApertureId::next(),
            base: Arc::clone(base),
            bytes: Bytes {
                window: mapping.region().whole(),
                len_bytes,
            },
            mapping,
            memfd,
            watch_memfd,
            counts_memfd,
            watch: Mutex::new(table),
            counts,
            config,
            withdrawn: Mutex::new(false),
            importers: Importers::new(base.membarrier),
            page: base.own_page.clone(),
            granted_to: Mutex::default(),
        })
    }

    pub fn watch(&self) -> MutexGuard<'_, WatchTable> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_granted_to(&self, uid: u32) -> bool {
        let granted = self
            .granted_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        granted.contains(&uid)
    }

    /// The importer with this link no longer holds it.
    pub fn importer_gone(&self, link: usize) {
        if self.importers.remove(|index| index == link) {
            doorbell::nobody_waits(&self.page, self.number);
        }
    }

    /// After a store of the owner's: fires the tripwires that importers have set on it. That
    /// is a load while nobody holds the aperture, and two while nobody has waited.
    #[inline]
    pub fn stored(&self, offset: usize, len_bytes: usize) {
        // Where that is not enough, `manner` says so.
        light_fence(true);
        let manner = self.importers.manner();
        if manner != 0 {
            self.stored_shared(manner, offset, len_bytes);
        }
    }

    #[inline]
    fn stored_shared(&self, mut manner: u32, offset: usize, len_bytes: usize) {
        if manner & FENCE != 0 {
            light_fence(false);
            manner = self.importers.manner();
        }
        let own = manner & OWN != 0 && doorbell::may_wait(&self.page, self.number);
        if own || manner & FOREIGN != 0 {
            self.tell_importers(offset, len_bytes);
        }
    }

    #[cold]
    fn tell_importers(&self, offset: usize, len_bytes: usize) {
        // In a forked child the lock of the list may be held for ever.
        if self.base.check_fork().is_ok() {
            self.importers.tell(offset, len_bytes);
        }
    }

    /// Makes the memory for the tripwires that an importer sets on our stores, and looks
    /// after it from now on.
    pub fn add_importer(&self, index: usize, link: &Arc<Link>) -> Result<(Memfd, u32)> {
        let len_bytes = self.config.len_bytes;
        let foreign = self.base.is_foreign(link.peer.uid);
        let slots = on_owner_max(foreign);
        let memfd = Memfd::create_sealed("barewire-waiting", on_owner_bytes(len_bytes, slots))?;
        let region = memfd.map(Access::ReadWrite)?;
        let reached = link.is_asymmetric();
        let manner = if foreign { FOREIGN } else { OWN } | if reached { 0 } else { FENCE };
        let importer = (index, Arc::clone(link));
        let added = self
            .importers
            .add(importer, manner, &region, (len_bytes, slots));
        added.ok_or(Error::Closed)?;
        if !reached {
            // Stores of other threads see it before the importer can set a tripwire. Where it
            // is reached, its own fence has them do so.
            heavy_fence();
        }
        Ok((memfd, slots))
    }

    /// Whether it has been withdrawn. Held while it is withdrawn or granted.
    pub fn withdrawn(&self) -> MutexGuard<'_, bool> {
        self.withdrawn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the importers off: what they store from now on is not seen here.
    pub fn detach(&self) -> Result<()> {
        self.mapping.detach()?;
        // What is stored from here on, they do not see.
        self.importers.remove(|_| true);
        self.watch().withdraw();
        Ok(())
    }

    /// Its own tripwires may now be fired by this user, too.
    pub fn set_granted_to(&self, uid: u32) {
        let mut granted = self
            .granted_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !granted.contains(&uid) {
            granted.push(uid);
        }
    }

    /// What an importer maps: the memory, the watch table and the counts.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [
            self.memfd.as_fd(),
            self.watch_memfd.as_fd(),
            self.counts_memfd.as_fd(),
        ]
    }
}

/// Makes what was just stored in a watch table count for every put that begins later.
pub(crate) fn settle_watch() {
    heavy_fence();
}
