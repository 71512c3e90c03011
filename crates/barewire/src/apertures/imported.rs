//! Imported apertures, as memory: a peer's aperture, mapped into this process, or on another host.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use barewire_fabric::aperture::{AccessError, Rights};
use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_fabric::memory::Fences;
use barewire_shm::watch::{self, ArmError, Hit, WatchTable, WatchView};
use barewire_shm::{Region, Window};
use barewire_sys::memory::{Access, PeerAccess};

use crate::apertures::access::{
    AccessFlags, FLAG_OUTBOUND, FLAG_OWNER_GONE, FLAG_READ_ONLY, FLAG_REVOKED, FLAG_UNWATCHED,
};
use crate::apertures::bytes::Bytes;
use crate::apertures::far::FarMemory;
use crate::apertures::importers::{OnOwner, on_owner_bytes};
use crate::apertures::layout::{ApertureConfig, ApertureId, PAGE, counts_bytes, table_bytes};
use crate::error::{Error, Misconduct, Result};
use crate::links::base::Base;
use crate::links::budget::Charges;
use crate::links::link::Link;
use crate::messages::passed::Passed;

/// With no thread to watch the owner, one is tried for again after so many accesses.
pub(crate) const ACCESSES_PER_ATTEMPT: u32 = 1024;

/// Tripwires that an importer has set on its own puts.
pub(crate) struct Outbound {
    pub table: WatchTable,
    view: WatchView,
    pub counts: Window,
}

/// Most tripwires that an importer may set on its own puts into one aperture.
const OUTBOUND_MAX: u32 = 1024;

pub(crate) struct Imported {
    pub number: u32,
    pub id: ApertureId,
    base: Weak<Base>,
    link: Arc<Link>,
    /// Index and generation of the peer in the node's tables.
    pub peer: (usize, u32),
    pub len_bytes: usize,
    pub place: Place,
    pub access: Arc<AccessFlags>,
    /// Accesses while no thread watched the owner.
    unwatched: AtomicU32,
    outbound: Mutex<Option<Outbound>>,
    _charges: Charges,
}

/// Where the memory of an imported aperture is.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each aperture, and each access would follow one pointer more"
)]
pub(crate) enum Place {
    Mapped(Mapped),
    /// On another host.
    Far(FarMemory),
}

/// Memory that is mapped into this process.
pub(crate) struct Mapped {
    pub bytes: Bytes,
    watch: WatchView,
    counts: Window,
    slots: u32,
    on_owner: Mutex<OnOwner>,
}

impl Mapped {
    fn on_owner(&self) -> MutexGuard<'_, OnOwner> {
        self.on_owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Imported {
    /// Of the node that imports it, while there is one.
    pub fn base(&self) -> Option<Arc<Base>> {
        self.base.upgrade()
    }

    pub fn outbound(&self) -> MutexGuard<'_, Option<Outbound>> {
        self.outbound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tripwires on our own puts, made when the first is set.
    pub fn make_outbound(&self, outbound: &mut Option<Outbound>) -> Result<()> {
        if outbound.is_some() {
            return Ok(());
        }
        let len_bytes = self.len_bytes;
        let region = Region::private(table_bytes(len_bytes, OUTBOUND_MAX));
        let table = WatchTable::create(&region, len_bytes, OUTBOUND_MAX);
        let view = WatchView::open(&region, len_bytes, OUTBOUND_MAX);
        let (Some(table), Some(view)) = (table, view) else {
            return Err(Error::Closed);
        };
        *outbound = Some(Outbound {
            table,
            view,
            counts: Region::private(counts_bytes(OUTBOUND_MAX)).whole(),
        });
        self.access.set(FLAG_OUTBOUND);
        Ok(())
    }

    /// Sets a tripwire on the owner's stores; its slot and what is counted there. It holds for
    /// what the owner stores after a heavy fence of the caller's.
    pub fn arm_on_owner(
        &self,
        offset: u64,
        len_bytes: u64,
        source: u32,
        flags: u32,
    ) -> Result<(u32, u64)> {
        match &self.place {
            Place::Mapped(mapped) => {
                let mut on_owner = mapped.on_owner();
                let table = on_owner.table().ok_or(ArmError::PlaceFull)?;
                let slot = table.arm(offset, len_bytes, source, flags)?;
                self.access.waiting().push(source);
                self.link.announce_waiting(self.number);
                Ok((slot, on_owner.count(slot)))
            }
            Place::Far(far) => {
                let base = self.base.upgrade().ok_or(AccessError::PeerGone)?;
                let is_rung = flags & (watch::FLAG_ENQUEUE | watch::FLAG_WAKE) != 0;
                let rung = is_rung.then_some(source);
                let slot = far.arm(&base, offset, len_bytes, rung)?;
                self.access.waiting().push(source);
                Ok((slot, 0))
            }
        }
    }

    pub fn disarm_on_owner(&self, slot: u32, source: u32) {
        match &self.place {
            Place::Mapped(mapped) => {
                if let Some(table) = mapped.on_owner().table() {
                    table.disarm(slot);
                }
            }
            Place::Far(far) => far.disarm(slot),
        }
        self.access.waiting().retain(|s| *s != source);
    }

    /// What such a tripwire has counted.
    pub fn count_on_owner(&self, slot: u32) -> u64 {
        match &self.place {
            Place::Mapped(mapped) => mapped.on_owner().count(slot),
            Place::Far(far) => far.count(slot),
        }
    }

    /// Whether the owner is of this user.
    pub fn owned_by(&self, uid: u32) -> bool {
        self.link.peer.uid == uid
    }

    /// What refuses or complicates access.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.access.flags()
    }

    /// Whether accesses that these flags refuse are refused, by what is known now.
    #[cold]
    pub fn verdict(&self, refusing: u32) -> Result<u32, AccessError> {
        let flags = self.flags();
        if flags & FLAG_OWNER_GONE != 0 {
            Err(AccessError::PeerGone)
        } else if flags & FLAG_REVOKED != 0 {
            Err(AccessError::Revoked)
        } else if flags & refusing & FLAG_READ_ONLY != 0 {
            Err(AccessError::ReadOnly)
        } else {
            Ok(flags)
        }
    }

    /// Whether the owner has ended or hung up, as the kernel knows it. A system call.
    pub fn has_owner_ended(&self) -> bool {
        self.link.has_ended()
    }

    /// Counts an access while no thread watches the owner; whether one is to be tried for.
    pub fn is_watch_due(&self) -> bool {
        // Relaxed: a count that only spaces out attempts.
        let accesses = self.unwatched.fetch_add(1, Ordering::Relaxed);
        accesses % ACCESSES_PER_ATTEMPT == ACCESSES_PER_ATTEMPT - 1
    }

    pub const REFUSES_LOADS: u32 = FLAG_REVOKED | FLAG_OWNER_GONE | FLAG_UNWATCHED;
    pub const REFUSES_STORES: u32 = Self::REFUSES_LOADS | FLAG_READ_ONLY;

    /// After a store into mapped memory: fires what it touched.
    #[inline]
    pub fn touched(
        &self,
        mapped: &Mapped,
        flags: u32,
        offset: usize,
        len_bytes: usize,
    ) -> Result<(), AccessError> {
        self.link.light();
        if mapped.watch.touches(offset, len_bytes) {
            self.fire_inbound(mapped, offset, len_bytes)?;
        }
        self.transferred(flags, offset, len_bytes);
        Ok(())
    }

    /// After a store: fires what we have set on our own.
    #[inline]
    pub fn transferred(&self, flags: u32, offset: usize, len_bytes: usize) {
        if flags & FLAG_OUTBOUND != 0 {
            self.fire_outbound(offset, len_bytes);
        }
    }

    #[cold]
    fn fire_inbound(
        &self,
        mapped: &Mapped,
        offset: usize,
        len_bytes: usize,
    ) -> Result<(), AccessError> {
        if mapped.watch.withdrawn() {
            self.access.set(FLAG_REVOKED);
            return Err(AccessError::Revoked);
        }
        mapped.watch.matching(offset, len_bytes, |hit| {
            if hit.slot < mapped.slots {
                count(&mapped.counts, &hit);
            }
            // What the table says is not to be trusted.
            if rings(&hit) && hit.source < SOURCES_MAX {
                self.link.ring(hit.source);
            }
        });
        Ok(())
    }

    #[cold]
    fn fire_outbound(&self, offset: usize, len_bytes: usize) {
        let outbound = self.outbound();
        let Some(outbound) = outbound.as_ref() else {
            return;
        };
        if outbound.view.touches(offset, len_bytes) {
            outbound.view.matching(offset, len_bytes, |hit| {
                count(&outbound.counts, &hit);
                if rings(&hit) {
                    if let Some(base) = self.base.upgrade() {
                        base.ring_own(hit.source);
                    }
                }
            });
        }
    }
}

#[inline]
fn rings(hit: &Hit) -> bool {
    hit.flags & (watch::FLAG_ENQUEUE | watch::FLAG_WAKE) != 0
}

#[inline]
fn count(counts: &Window, hit: &Hit) {
    if hit.flags & watch::FLAG_COUNT != 0 {
        counts.atomic_add(hit.slot as usize * 8, 1);
    }
}

/// Maps what came with a grant. `base`: of the node at which the tripwires on our own stores are to ring.
pub(crate) fn import(
    base: Weak<Base>,
    link: Arc<Link>,
    peer: (usize, u32),
    (number, receiver_tripwires): (u32, u32),
    config: ApertureConfig,
    passed: Passed,
    charges: Charges,
) -> Result<Arc<Imported>, Misconduct> {
    let (access, peer_access) = match config.rights {
        Rights::ReadWrite => (Access::ReadWrite, PeerAccess::ReadWrite),
        Rights::Read => (Access::Read, PeerAccess::ReadOnly),
    };
    let slots = config.tripwires_max;
    let len_bytes = config.len_bytes;
    let on_owner_bytes = on_owner_bytes(len_bytes, receiver_tripwires);
    let [memory, table, counts, on_owner] = passed.take_memory([
        (len_bytes.next_multiple_of(PAGE), peer_access),
        (table_bytes(len_bytes, slots), PeerAccess::ReadOnly),
        (counts_bytes(slots), PeerAccess::ReadWrite),
        (on_owner_bytes, PeerAccess::ReadWrite),
    ])?;
    let unmappable = |_| Misconduct::Control("aperture that can not be mapped here");
    let window = memory.map(access).map_err(unmappable)?.whole();
    let table = table.map(Access::Read).map_err(unmappable)?;
    let counts = counts.map(Access::ReadWrite).map_err(unmappable)?;
    let on_owner = on_owner.map(Access::ReadWrite).map_err(unmappable)?;
    let on_owner = OnOwner::new(on_owner, len_bytes, receiver_tripwires)
        .ok_or(Misconduct::Control("table of tripwires of impossible size"))?;
    let watch = WatchView::open(&table, len_bytes, slots)
        .ok_or(Misconduct::Control("watch table of impossible size"))?;
    let place = Place::Mapped(Mapped {
        bytes: Bytes { window, len_bytes },
        watch,
        counts: counts.whole(),
        slots,
        on_owner: Mutex::new(on_owner),
    });
    let new = Imported::new(base, link, peer, number, config, place, charges);
    Ok(Arc::new(new))
}

/// An aperture of another host, which came without memory.
pub(crate) fn import_far(
    base: &Arc<Base>,
    link: Arc<Link>,
    peer: (usize, u32),
    number: u32,
    config: ApertureConfig,
    charges: Charges,
) -> Result<Arc<Imported>, Misconduct> {
    let far = link
        .remote()
        .and_then(|driven| FarMemory::new(driven, number, config.len_bytes));
    let far = far.ok_or(Misconduct::Control("grants what its proxy does not know"))?;
    let base = Arc::downgrade(base);
    let place = Place::Far(far);
    let new = Imported::new(base, link, peer, number, config, place, charges);
    Ok(Arc::new(new))
}

impl Imported {
    fn new(
        base: Weak<Base>,
        link: Arc<Link>,
        peer: (usize, u32),
        number: u32,
        config: ApertureConfig,
        place: Place,
        charges: Charges,
    ) -> Imported {
        let flags = match config.rights {
            Rights::ReadWrite => 0,
            Rights::Read => FLAG_READ_ONLY,
        };
        Imported {
            number,
            id: ApertureId::next(),
            base,
            link,
            peer,
            len_bytes: config.len_bytes,
            place,
            access: Arc::new(AccessFlags::new(flags)),
            unwatched: AtomicU32::new(0),
            outbound: Mutex::new(None),
            _charges: charges,
        }
    }
}
