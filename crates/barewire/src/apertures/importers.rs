//! The importers of an aperture of ours: peers that hold it, and may wait for our stores.
//!
//! Each grant comes with memory for the importer's tripwires on our stores: a watch table,
//! which the importer writes and we only read, and counters, to which we add. Both sides map
//! it, and neither trusts it. An importer that sets a tripwire also announces it in our doorbell
//! page, in a word for this aperture. Until then each store of ours costs one more load: of
//! that word.
//!
//! No store is missed: the importer sets the tripwire, announces it, uses a heavy fence and
//! then reads the bytes; we store the bytes, use a light fence and then read the word
//! and the table. One of the two sees the other (`crates/fabric/tests/loom/waiting.rs`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_shm::watch::{self, Hit, WatchTable, WatchView};
use barewire_shm::{Region, Window};

use crate::apertures::layout::{counts_bytes, table_bytes};
use crate::links::link::Link;

/// Most tripwires that an importer may set on the owner's stores into one aperture.
pub(crate) const ON_OWNER_MAX: u32 = 1024;
/// The same for an importer of another user: each store of the owner's may have to look at
/// all of them.
const ON_OWNER_FOREIGN_MAX: u32 = 16;

/// How many such tripwires an importer gets.
pub(crate) fn on_owner_max(foreign: bool) -> u32 {
    if foreign {
        ON_OWNER_FOREIGN_MAX
    } else {
        ON_OWNER_MAX
    }
}

/// Bytes of the memory for them: whole pages.
pub(crate) fn on_owner_bytes(len_bytes: usize, slots: u32) -> usize {
    table_bytes(len_bytes, slots) + counts_bytes(slots)
}

fn counts(region: &Region, len_bytes: usize, slots: u32) -> Option<Window> {
    region.window(table_bytes(len_bytes, slots), counts_bytes(slots))
}

/// The importer's end of that memory.
pub(crate) struct OnOwner {
    region: Region,
    len_bytes: usize,
    slots: u32,
    table: Option<WatchTable>,
    counts: Window,
}

impl OnOwner {
    /// `None` if the region is not of [`on_owner_bytes`].
    pub fn new(region: Region, len_bytes: usize, slots: u32) -> Option<OnOwner> {
        let counts = counts(&region, len_bytes, slots)?;
        Some(OnOwner {
            region,
            len_bytes,
            slots,
            table: None,
            counts,
        })
    }

    /// The table, made with the first tripwire: until then its pages are not touched.
    pub fn table(&mut self) -> Option<&mut WatchTable> {
        if self.table.is_none() {
            self.table = WatchTable::create(&self.region, self.len_bytes, self.slots);
        }
        self.table.as_mut()
    }

    pub fn count(&self, slot: u32) -> u64 {
        self.counts.atomic_load(slot as usize * 8)
    }
}

/// One of them, as the owner sees it.
struct Importer {
    /// Index of its link in the node's tables.
    index: usize,
    link: Arc<Link>,
    view: WatchView,
    counts: Window,
}

/// Of another user: its word is not in our own page, so its table is looked at each time.
pub(crate) const FOREIGN: u32 = 1;
/// Our own user's: they have a word in our own page.
pub(crate) const OWN: u32 = 2;
/// A heavy fence does not reach us: of one of them, or of any since we are not registered.
pub(crate) const FENCE: u32 = 4;

/// All importers of one aperture.
pub(crate) struct Importers {
    list: RwLock<Vec<Importer>>,
    /// What is needed to know whether one of them waits; without any, what it began with.
    manner: AtomicU32,
    manner_of_none: u32,
}

impl Importers {
    /// None yet. `reached`: heavy fences of others may reach this process.
    pub fn new(reached: bool) -> Importers {
        let manner_of_none = if reached { 0 } else { FENCE };
        Importers {
            list: RwLock::default(),
            manner: AtomicU32::new(manner_of_none),
            manner_of_none,
        }
    }

    /// Adds one, who must not have been told of the aperture yet. `None` if the region is
    /// too small.
    pub fn add(
        &self,
        (index, link): (usize, Arc<Link>),
        manner: u32,
        region: &Region,
        (len_bytes, slots): (usize, u32),
    ) -> Option<()> {
        let importer = Importer {
            index,
            link,
            view: WatchView::open(region, len_bytes, slots)?,
            counts: counts(region, len_bytes, slots)?,
        };
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.push(importer);
        // Release pairs with the Acquire in `manner`. What one needs is done for all, until
        // none is left.
        self.manner.fetch_or(manner, Ordering::Release);
        Some(())
    }

    /// Takes those out to whom it applies; whether none is left.
    pub fn remove(&self, gone: impl Fn(usize) -> bool) -> bool {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.retain(|importer| !gone(importer.index));
        if list.is_empty() {
            // Release pairs with the Acquire in `manner`.
            self.manner.store(self.manner_of_none, Ordering::Release);
        }
        list.is_empty()
    }

    #[inline]
    pub fn manner(&self) -> u32 {
        // Acquire pairs with the Release in `add`.
        self.manner.load(Ordering::Acquire)
    }

    /// After a store of the owner's: fires what it touched.
    pub fn tell(&self, offset: usize, len_bytes: usize) {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        for importer in &*list {
            if importer.view.touches(offset, len_bytes) {
                importer
                    .view
                    .matching(offset, len_bytes, |hit| importer.fire(&hit));
            }
        }
    }
}

impl Importer {
    fn fire(&self, hit: &Hit) {
        if hit.flags & watch::FLAG_COUNT != 0 {
            self.counts.atomic_add(hit.slot as usize * 8, 1);
        }
        // What the table says is not to be trusted.
        let rings = hit.flags & (watch::FLAG_ENQUEUE | watch::FLAG_WAKE) != 0;
        if rings && hit.source < SOURCES_MAX {
            self.link.ring(hit.source);
        }
    }
}
