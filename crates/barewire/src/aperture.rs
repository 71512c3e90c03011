//! Apertures: memory that a peer may store into or load from, with stated rights.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use barewire_fabric::aperture::{AccessError, Action, Memory, Mode, Rights};
use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_fabric::window::Fences;
use barewire_shm::watch::{self, Hit, WatchTable, WatchView};
use barewire_shm::{Region, Window};
use barewire_sys::memory::{Access, DetachableMapping, Memfd, PeerAccess, SealSet};
use barewire_sys::wake::heavy_fence;

use crate::budget::{Charges, Resource};
use crate::bulk::Job;
use crate::bytes::Bytes;
use crate::connection::ConnectionShared;
use crate::control::Message;
use crate::error::{Error, Misconduct, Result};
use crate::event::ApertureId;
use crate::link::Link;
use crate::passed::Passed;
use crate::shared::Shared;
use crate::state::{Pending, State};
use crate::tripwire::{Place, Tripwire};

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

    fn check(&self) -> Result<()> {
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

const PAGE: usize = 4096;

fn counts_bytes(slots: u32) -> usize {
    (slots.max(1) as usize * 8).next_multiple_of(PAGE)
}

fn table_bytes(len_bytes: usize, slots: u32) -> usize {
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
/// The owner reads and writes it through [`Memory`]; its own stores fire no tripwires.
/// Dropping it revokes it.
pub struct Aperture(pub(crate) Arc<ApertureShared>);

impl Aperture {
    pub(crate) fn new(node: &Arc<Shared>, config: ApertureConfig) -> Result<Aperture> {
        config.check()?;
        let slots = config.tripwires_max;
        let memfd = Memfd::create("barewire-aperture", config.len_bytes.next_multiple_of(PAGE))?;
        let mapping = memfd.map_detachable(Access::ReadWrite)?;
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
            granted_to: Mutex::default(),
        });
        node.state().exports.set(number, &shared);
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

    /// Cuts all peers off: nothing they store from now on is seen here. Our contents stay.
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
            return Err(Error::LimitReached {
                what: "grants of one aperture to the same peer",
                limit: 1,
            });
        }
        let message = Message::Grant {
            connection: far,
            aperture: aperture.number,
            cookie,
            len_bytes: aperture.config.len_bytes as u64,
            tripwires: aperture.config.tripwires_max,
            writable: aperture.config.rights == Rights::ReadWrite,
        };
        let fds = [
            aperture.memfd.as_fd(),
            aperture.watch_memfd.as_fd(),
            aperture.counts_memfd.as_fd(),
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

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.bytes.check(offset, bytes.len())?;
        self.0.bytes.window.write_bytes(offset, bytes);
        Ok(())
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.0.bytes.check(offset, into.len())?;
        self.0.bytes.window.read_bytes(offset, into);
        Ok(())
    }

    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.0.bytes.check_word(offset)?;
        Ok(self.0.bytes.window.atomic_load(offset))
    }

    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.0.bytes.check_word(offset)?;
        self.0.bytes.window.atomic_store(offset, value);
        Ok(())
    }

    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        self.0.bytes.check_word(offset)?;
        Ok(self.0.bytes.window.atomic_add(offset, value))
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        self.0.bytes.check_word(offset)?;
        let window = &self.0.bytes.window;
        Ok(window.atomic_compare_exchange(offset, current, new))
    }
}

const FLAG_REVOKED: u32 = 1;
const FLAG_OWNER_GONE: u32 = 2;
const FLAG_OUTBOUND: u32 = 4;
const FLAG_READ_ONLY: u32 = 8;

/// Tripwires that an importer has set on its own puts.
pub(crate) struct Outbound {
    pub table: WatchTable,
    view: WatchView,
    pub counts: Window,
}

/// Most tripwires that an importer may set on its own puts into one aperture.
const OUTBOUND_MAX: u32 = 1024;

pub(crate) struct RemoteShared {
    number: u32,
    pub id: ApertureId,
    node: Weak<Shared>,
    link: Arc<Link>,
    /// Index and generation of the peer in the node's tables.
    peer: (usize, u32),
    bytes: Bytes,
    watch: WatchView,
    counts: Option<Window>,
    slots: u32,
    /// What refuses or complicates access; the node's tables hold it too.
    flags: Arc<AtomicU32>,
    outbound: Mutex<Option<Outbound>>,
    _charges: Charges,
}

/// What an imported aperture takes: its memory, watch table and counts.
const APERTURE: [(Resource, u64); 2] = [(Resource::Mappings, 3), (Resource::PrivateBytes, 1024)];

impl RemoteShared {
    pub fn outbound(&self) -> MutexGuard<'_, Option<Outbound>> {
        self.outbound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tripwires on our own puts, made when the first is set.
    pub fn make_outbound(&self, outbound: &mut Option<Outbound>) -> Result<()> {
        if outbound.is_some() {
            return Ok(());
        }
        let len_bytes = self.bytes.len_bytes;
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
        set(&self.flags, FLAG_OUTBOUND);
        Ok(())
    }

    /// Whether anything stands in the way of an access; the flags.
    #[inline]
    fn check(&self, refusing: u32) -> Result<u32, AccessError> {
        // Acquire pairs with the Release of `set`.
        let flags = self.flags.load(Ordering::Acquire);
        if flags & refusing != 0 {
            return Err(self.why_not(flags));
        }
        Ok(flags)
    }

    #[cold]
    fn why_not(&self, flags: u32) -> AccessError {
        if flags & FLAG_OWNER_GONE != 0 {
            AccessError::PeerGone
        } else if flags & FLAG_REVOKED != 0 {
            AccessError::Revoked
        } else {
            AccessError::ReadOnly
        }
    }

    const REFUSES_LOADS: u32 = FLAG_REVOKED | FLAG_OWNER_GONE;
    const REFUSES_STORES: u32 = Self::REFUSES_LOADS | FLAG_READ_ONLY;

    /// After a store: fires what it touched.
    #[inline]
    pub fn touched(&self, flags: u32, offset: usize, len_bytes: usize) -> Result<(), AccessError> {
        self.link.light();
        if self.watch.touches(offset, len_bytes) {
            self.fire_inbound(offset, len_bytes)?;
        }
        if flags & FLAG_OUTBOUND != 0 {
            self.fire_outbound(offset, len_bytes);
        }
        Ok(())
    }

    #[cold]
    fn fire_inbound(&self, offset: usize, len_bytes: usize) -> Result<(), AccessError> {
        if self.watch.withdrawn() {
            set(&self.flags, FLAG_REVOKED);
            return Err(AccessError::Revoked);
        }
        self.watch.matching(offset, len_bytes, |hit| {
            if let Some(counts) = self.counts.as_ref().filter(|_| hit.slot < self.slots) {
                count(counts, &hit);
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
                    if let Some(node) = self.node.upgrade() {
                        node.ring_own(hit.source);
                    }
                }
            });
        }
    }

    /// A put whose tripwires fire when all of it is there. For bulk transfers.
    pub fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let flags = self.check(Self::REFUSES_STORES)?;
        self.bytes.check(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.bytes.window.write_bytes(offset, bytes);
        self.touched(flags, offset, bytes.len())
    }

    pub fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(Self::REFUSES_LOADS)?;
        self.bytes.check(offset, into.len())?;
        self.bytes.window.read_bytes(offset, into);
        Ok(())
    }
}

impl Drop for RemoteShared {
    fn drop(&mut self) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        if node.check_fork().is_err() {
            return;
        }
        let aperture = self.number;
        let mut state = node.state();
        let peer = state.peers.get_mut(self.peer.0);
        if let Some(peer) = peer.filter(|p| p.generation == self.peer.1) {
            peer.granted.0.remove(&aperture);
            state.send(&node, self.peer.0, &Message::Release { aperture }, &[]);
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

/// A peer's memory, as far as it has granted it.
///
/// [`Memory::put`] stores into it with plain stores and [`Memory::get`] loads from it;
/// no system call, and no action of the peer. Cloning is cheap; the aperture is given
/// back when the last clone is dropped.
#[derive(Clone)]
pub struct RemoteAperture(pub(crate) Arc<RemoteShared>);

impl RemoteAperture {
    /// What we may do with it.
    #[must_use]
    pub fn rights(&self) -> Rights {
        // Relaxed: fixed when it was made.
        if self.0.flags.load(Ordering::Relaxed) & FLAG_READ_ONLY != 0 {
            Rights::Read
        } else {
            Rights::ReadWrite
        }
    }

    /// Sets a tripwire on our own puts: it fires when one touches `len_bytes` at `offset`,
    /// on our own event queue.
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
        let node = self.0.node.upgrade().ok_or(Error::Closed)?;
        let place = Place::Imported(Arc::clone(&self.0));
        Tripwire::arm(&node, place, offset, len_bytes, mode, action)
    }

    /// Copies `data` into the aperture at `offset` in the background. The end is reported
    /// by [`Event::Completion`](crate::Event::Completion) with this cookie, which gives the buffer back.
    ///
    /// # Errors
    /// [`Error::LimitReached`] if too many transfers are under way; [`Error::Access`] if
    /// it can not work.
    pub fn bulk_put(&self, offset: usize, data: Vec<u8>, cookie: u64) -> Result<()> {
        self.0.check(RemoteShared::REFUSES_STORES)?;
        self.0.bytes.check(offset, data.len())?;
        let aperture = Arc::clone(&self.0);
        let node = self.0.node.upgrade().ok_or(Error::Closed)?;
        node.bulk(Job::put(aperture, offset, data, cookie))
    }

    /// Copies `len_bytes` at `offset` out of the aperture in the background. The end is
    /// reported by [`Event::Completion`](crate::Event::Completion) with this cookie and the bytes.
    ///
    /// # Errors
    /// As [`RemoteAperture::bulk_put`].
    pub fn bulk_get(&self, offset: usize, len_bytes: usize, cookie: u64) -> Result<()> {
        self.0.check(RemoteShared::REFUSES_LOADS)?;
        self.0.bytes.check(offset, len_bytes)?;
        let aperture = Arc::clone(&self.0);
        let node = self.0.node.upgrade().ok_or(Error::Closed)?;
        node.bulk(Job::get(aperture, offset, len_bytes, cookie))
    }
}

impl core::fmt::Debug for RemoteAperture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RemoteAperture")
            .field("len_bytes", &self.0.bytes.len_bytes)
            .field("rights", &self.rights())
            .finish_non_exhaustive()
    }
}

impl Memory for RemoteAperture {
    fn len_bytes(&self) -> usize {
        self.0.bytes.len_bytes
    }

    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.put(offset, bytes)
    }

    #[inline]
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.0.get(offset, into)
    }

    #[inline]
    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.0.check(RemoteShared::REFUSES_LOADS)?;
        self.0.bytes.check_word(offset)?;
        Ok(self.0.bytes.window.atomic_load(offset))
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        let flags = self.0.check(RemoteShared::REFUSES_STORES)?;
        self.0.bytes.check_word(offset)?;
        self.0.bytes.window.atomic_store(offset, value);
        self.0.touched(flags, offset, 8)
    }

    #[inline]
    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        let flags = self.0.check(RemoteShared::REFUSES_STORES)?;
        self.0.bytes.check_word(offset)?;
        let was = self.0.bytes.window.atomic_add(offset, value);
        self.0.touched(flags, offset, 8)?;
        Ok(was)
    }

    #[inline]
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        let flags = self.0.check(RemoteShared::REFUSES_STORES)?;
        self.0.bytes.check_word(offset)?;
        let window = &self.0.bytes.window;
        let result = window.atomic_compare_exchange(offset, current, new);
        if result.is_ok() {
            self.0.touched(flags, offset, 8)?;
        }
        Ok(result)
    }
}

impl State {
    /// A peer grants us an aperture.
    pub fn granted(
        &mut self,
        shared: &Arc<Shared>,
        index: usize,
        message: &Message<'_>,
        passed: Passed,
    ) -> Result<(), Misconduct> {
        let &Message::Grant {
            connection,
            aperture,
            cookie,
            len_bytes,
            tripwires,
            writable,
        } = message
        else {
            return Err(Misconduct::Control("not a grant"));
        };
        let Some(serial) = self.standing(index, connection)? else {
            return Ok(());
        };
        let peer = &mut self.peers[index];
        let max = shared.config.granted_apertures_max as usize;
        if peer.granted.0.len() >= max {
            return Err(Misconduct::Exceeds {
                what: "apertures of one peer",
                limit: max as u64,
            });
        }
        let config = ApertureConfig {
            len_bytes: usize::try_from(len_bytes).unwrap_or(usize::MAX),
            rights: if writable {
                Rights::ReadWrite
            } else {
                Rights::Read
            },
            tripwires_max: tripwires,
        };
        if config.check().is_err() || peer.granted.0.contains_key(&aperture) {
            return Err(Misconduct::Control(
                "grants an impossible aperture, or one twice",
            ));
        }
        let link = peer.link().ok_or(Misconduct::Control("closed"))?;
        let at = (index, peer.generation);
        let event = self.charge(shared, index, &[(Resource::Events, 1)])?;
        let charges = self.charge(shared, index, &APERTURE)?;
        let remote = import(shared, link, at, aperture, config, passed, charges)?;
        self.connections[connection as usize].events += 1;
        let peer = &mut self.peers[index];
        peer.granted.0.insert(aperture, Arc::clone(&remote.flags));
        self.push(Pending::Granted {
            number: connection,
            serial,
            cookie,
            aperture: RemoteAperture(remote),
            charges: event,
        });
        Ok(())
    }
}

fn import(
    node: &Arc<Shared>,
    link: Arc<Link>,
    peer: (usize, u32),
    number: u32,
    config: ApertureConfig,
    passed: Passed,
    charges: Charges,
) -> Result<Arc<RemoteShared>, Misconduct> {
    let (access, peer_access, flags) = match config.rights {
        Rights::ReadWrite => (Access::ReadWrite, PeerAccess::ReadWrite, 0),
        Rights::Read => (Access::Read, PeerAccess::ReadOnly, FLAG_READ_ONLY),
    };
    let slots = config.tripwires_max;
    let len_bytes = config.len_bytes;
    let [memory, table, counts] = passed.take_memory([
        (len_bytes.next_multiple_of(PAGE), peer_access),
        (table_bytes(len_bytes, slots), PeerAccess::ReadOnly),
        (counts_bytes(slots), PeerAccess::ReadWrite),
    ])?;
    let unmappable = |_| Misconduct::Control("aperture that can not be mapped here");
    let window = memory.map(access).map_err(unmappable)?.whole();
    let table = table.map(Access::Read).map_err(unmappable)?;
    let counts = counts.map(Access::ReadWrite).map_err(unmappable)?;
    let watch = WatchView::open(&table, len_bytes, slots)
        .ok_or(Misconduct::Control("watch table of impossible size"))?;
    Ok(Arc::new(RemoteShared {
        number,
        id: ApertureId::next(),
        node: Arc::downgrade(node),
        link,
        peer,
        bytes: Bytes { window, len_bytes },
        watch,
        counts: Some(counts.whole()),
        slots,
        flags: Arc::new(AtomicU32::new(flags)),
        outbound: Mutex::new(None),
        _charges: charges,
    }))
}

/// Makes what was just stored in a watch table count for every put that begins later.
pub(crate) fn settle_watch() {
    heavy_fence();
}

fn set(flags: &AtomicU32, flag: u32) {
    // Release pairs with the Acquire load in `RemoteShared::check`.
    flags.fetch_or(flag, Ordering::Release);
}

/// The apertures that one peer has granted and that are still held, by its numbers.
#[derive(Default)]
pub(crate) struct Granted(HashMap<u32, Arc<AtomicU32>>);

impl Granted {
    /// The owner has revoked one; numbers that the peer makes up are ignored.
    pub fn revoked(&self, number: u32) {
        if let Some(flags) = self.0.get(&number) {
            set(flags, FLAG_REVOKED);
        }
    }

    /// The owner of all of them is gone.
    pub fn owner_gone(&self) {
        for flags in self.0.values() {
            set(flags, FLAG_OWNER_GONE);
        }
    }
}
