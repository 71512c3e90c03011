//! Apertures: memory that a peer may store into or load from, with stated rights.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_fabric::aperture::{AccessError, Action, Memory, Mode, Rights};
use barewire_fabric::doorbell;
use barewire_shm::Window;
use barewire_shm::watch::{self, WatchTable};
use barewire_sys::memory::{
    Access, DetachableMapping, HugePages, Memfd, Placement, SealSet, huge_page_bytes,
};
use barewire_sys::wake::{heavy_fence, light_fence};

use crate::apertures::bytes::Bytes;
use crate::apertures::importers::{FENCE, FOREIGN, Importers, OWN, on_owner_bytes, on_owner_max};
use crate::error::{Error, Result};
use crate::handles::connection::ConnectionShared;
use crate::handles::event::ApertureId;
use crate::handles::tripwire::{Place, Tripwire};
use crate::links::link::Link;
use crate::messages::control::Message;
use crate::node::shared::Shared;

/// Largest aperture, in bytes.
pub const APERTURE_BYTES_MAX: usize = 1 << 36;
/// Most tripwires on one side of one aperture.
pub const TRIPWIRES_MAX: u32 = 1 << 20;

/// Settings of an aperture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApertureConfig {
    /// Its size in bytes.
    pub len_bytes: usize,
    /// What peers may do with it.
    pub rights: Rights,
    /// How many tripwires may be set on it at a time, by its owner.
    pub tripwires_max: u32,
}

impl ApertureConfig {
    /// Of this size and rights, for up to 1024 tripwires.
    #[must_use]
    pub fn new(len_bytes: usize, rights: Rights) -> ApertureConfig {
        ApertureConfig {
            len_bytes,
            rights,
            tripwires_max: 1024,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let limits = [
            (
                "aperture bytes",
                self.len_bytes as u64,
                1,
                APERTURE_BYTES_MAX as u64,
            ),
            (
                "tripwires of an aperture",
                u64::from(self.tripwires_max),
                0,
                u64::from(TRIPWIRES_MAX),
            ),
        ];
        for (what, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(Error::OutOfLimits {
                    what,
                    value,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }
}

pub(crate) const PAGE: usize = 4096;

/// An aperture has the size that peers are told. So it can only lie on huge pages as a whole if
/// it is a whole number of them.
fn check_huge(placement: &Placement, len_bytes: usize) -> Result<()> {
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

pub(crate) fn counts_bytes(slots: u32) -> usize {
    (slots.max(1) as usize * 8).next_multiple_of(PAGE)
}

pub(crate) fn table_bytes(len_bytes: usize, slots: u32) -> usize {
    watch::table_bytes(len_bytes, slots).next_multiple_of(PAGE)
}

pub(crate) struct ApertureShared {
    pub number: u32,
    pub id: ApertureId,
    node: Arc<Shared>,
    bytes: Bytes,
    mapping: DetachableMapping,
    memfd: Memfd,
    watch_memfd: Memfd,
    counts_memfd: Memfd,
    pub watch: Mutex<WatchTable>,
    pub counts: Window,
    config: ApertureConfig,
    withdrawn: Mutex<bool>,
    importers: Importers,
    /// Our doorbell page, in which importers say that they wait.
    page: Window,
    granted_to: Mutex<Vec<u32>>,
}

impl ApertureShared {
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
    fn stored(&self, offset: usize, len_bytes: usize) {
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
        if self.node.check_fork().is_ok() {
            self.importers.tell(offset, len_bytes);
        }
    }

    /// Makes the memory for the tripwires that an importer sets on our stores, and looks
    /// after it from now on.
    fn add_importer(&self, index: usize, link: &Arc<Link>) -> Result<(Memfd, u32)> {
        let len_bytes = self.config.len_bytes;
        let foreign = link.peer.uid != self.node.own.uid;
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

    /// Cuts the peers off: what they store from now on is not seen, and they are told.
    fn withdraw(&self) -> Result<()> {
        self.node.check_fork()?;
        let mut withdrawn = self
            .withdrawn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *withdrawn {
            return Ok(());
        }
        self.mapping.detach()?;
        *withdrawn = true;
        // What is stored from here on, they do not see.
        self.importers.remove(|_| true);
        self.watch().withdraw();
        let mut state = self.node.state();
        let aperture = self.number;
        for link in state.exports.holders(aperture) {
            state.send(&self.node, link, &Message::Revoke { aperture }, &[]);
        }
        Ok(())
    }
}

/// Memory of this process that peers may be granted.
///
/// The owner reads and writes it through [`Memory`]. Its own stores fire none of its own
/// tripwires; they fire those that importers have set on them
/// ([`RemoteAperture::tripwire_on_owner`](crate::RemoteAperture::tripwire_on_owner)).
/// Dropping it revokes it.
pub struct Aperture(pub(crate) Arc<ApertureShared>);

impl Aperture {
    pub(crate) fn new(node: &Arc<Shared>, config: ApertureConfig) -> Result<Aperture> {
        config.check()?;
        let slots = config.tripwires_max;
        let placement = node.config.placement();
        check_huge(&placement, config.len_bytes)?;
        let memfd = Memfd::create("barewire-aperture", config.len_bytes.next_multiple_of(PAGE))?;
        let mapping = memfd.map_detachable(Access::ReadWrite, &placement)?;
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
        let number = node.state().exports.reserve();
        let shared = Arc::new(ApertureShared {
            number,
            id: ApertureId::next(),
            node: Arc::clone(node),
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
            importers: Importers::new(node.membarrier),
            page: node.own_page.clone(),
            granted_to: Mutex::default(),
        });
        node.state().exports.set(number, &shared);
        // The number may have been another's.
        doorbell::nobody_waits(&node.own_page, number);
        Ok(Aperture(shared))
    }

    /// The settings it was made with.
    #[must_use]
    pub fn config(&self) -> ApertureConfig {
        self.0.config
    }

    /// Sets a tripwire on `len_bytes` at `offset`: it fires when a peer's put, store, add
    /// or exchange touches one of these bytes. A put that begins after this returns
    /// fires it.
    ///
    /// # Errors
    /// [`Error::Arm`], [`Error::LimitReached`].
    pub fn tripwire(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        let place = Place::Own(Arc::clone(&self.0));
        Tripwire::arm(&self.0.node, place, offset, len_bytes, mode, action)
    }

    /// Cuts all peers off: nothing they store from now on is seen here. Our contents stay, in a
    /// private copy, which is placed as the kernel likes: neither locked, near a NUMA node nor on
    /// huge pages.
    ///
    /// # Errors
    /// If the system has no memory for the private copy.
    pub fn revoke(&self) -> Result<()> {
        self.0.withdraw()
    }

    pub(crate) fn grant(
        &self,
        node: &Arc<Shared>,
        connection: &ConnectionShared,
        cookie: u64,
    ) -> Result<()> {
        let aperture = &self.0;
        // Its tripwires ring at its own node, whose links the peer knows.
        if !Arc::ptr_eq(node, &aperture.node) {
            return Err(Error::OtherNode);
        }
        let withdrawn = aperture
            .withdrawn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *withdrawn {
            return Err(AccessError::Revoked.into());
        }
        let uid = connection.link.peer.uid;
        let mut granted = aperture
            .granted_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !granted.contains(&uid) {
            granted.push(uid);
        }
        drop(granted);
        let mut state = node.state();
        let (link, far) = state.route(connection.number).ok_or(Error::PeerGone)?;
        if !state.exports.granted(aperture.number, link) {
            return Err(Error::GrantedAlready);
        }
        let (waiting, receiver_tripwires) = match aperture.add_importer(link, &connection.link) {
            Ok(made) => made,
            Err(error) => {
                state.exports.released(aperture.number, link);
                return Err(error);
            }
        };
        let message = Message::Grant {
            connection: far,
            aperture: aperture.number,
            cookie,
            len_bytes: aperture.config.len_bytes as u64,
            tripwires: aperture.config.tripwires_max,
            writable: aperture.config.rights == Rights::ReadWrite,
            receiver_tripwires,
        };
        let fds = [
            aperture.memfd.as_fd(),
            aperture.watch_memfd.as_fd(),
            aperture.counts_memfd.as_fd(),
            waiting.as_fd(),
        ];
        state.send(node, link, &message, &fds);
        Ok(())
    }
}

impl Drop for Aperture {
    fn drop(&mut self) {
        if self.0.node.check_fork().is_err() {
            return;
        }
        // If there is no memory for the copy that revocation makes, the mapping goes away
        // with us all the same.
        let _ = self.0.withdraw();
        self.0.node.state().exports.dropped(self.0.number);
    }
}

impl core::fmt::Debug for Aperture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Aperture").field(&self.0.config).finish()
    }
}

impl Memory for Aperture {
    fn len_bytes(&self) -> usize {
        self.0.bytes.len_bytes
    }

    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.bytes.check(offset, bytes.len())?;
        self.0.bytes.window.write_bytes(offset, bytes);
        if !bytes.is_empty() {
            self.0.stored(offset, bytes.len());
        }
        Ok(())
    }

    #[inline]
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.0.bytes.check(offset, into.len())?;
        self.0.bytes.window.read_bytes(offset, into);
        Ok(())
    }

    #[inline]
    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.0.bytes.check_word(offset)?;
        Ok(self.0.bytes.window.atomic_load(offset))
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.0.bytes.check_word(offset)?;
        self.0.bytes.window.atomic_store(offset, value);
        self.0.stored(offset, 8);
        Ok(())
    }

    #[inline]
    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        self.0.bytes.check_word(offset)?;
        let was = self.0.bytes.window.atomic_add(offset, value);
        self.0.stored(offset, 8);
        Ok(was)
    }

    #[inline]
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        self.0.bytes.check_word(offset)?;
        let window = &self.0.bytes.window;
        let result = window.atomic_compare_exchange(offset, current, new);
        if result.is_ok() {
            self.0.stored(offset, 8);
        }
        Ok(result)
    }
}

/// Makes what was just stored in a watch table count for every put that begins later.
pub(crate) fn settle_watch() {
    heavy_fence();
}
