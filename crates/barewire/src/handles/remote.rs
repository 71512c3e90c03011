//! Imported apertures: a peer's memory, as far as it has granted it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use barewire_fabric::aperture::{AccessError, Action, Memory, Mode, Rights};
use barewire_fabric::doorbell::SOURCES_MAX;
use barewire_fabric::window::Fences;
use barewire_shm::watch::{self, ArmError, Hit, WatchTable, WatchView};
use barewire_shm::{Region, Window};
use barewire_sys::memory::{Access, PeerAccess};

use crate::apertures::bytes::Bytes;
use crate::apertures::importers::{ON_OWNER_MAX, OnOwner, on_owner_bytes};
use crate::apertures::standing::{
    FLAG_OUTBOUND, FLAG_OWNER_GONE, FLAG_READ_ONLY, FLAG_REVOKED, FLAG_UNWATCHED, Standing,
};
use crate::error::{Error, Misconduct, Result};
use crate::handles::aperture::{ApertureConfig, PAGE, counts_bytes, table_bytes};
use crate::handles::event::ApertureId;
use crate::handles::tripwire::{Place, Tripwire};
use crate::links::budget::{Charges, Resource};
use crate::links::link::Link;
use crate::messages::control::Message;
use crate::messages::passed::Passed;
use crate::node::bulk::Job;
use crate::node::shared::Shared;
use crate::tables::peer::Peer;
use crate::tables::state::{Pending, State};

/// With no thread to watch the owner, one is tried for again after so many accesses.
const ACCESSES_PER_ATTEMPT: u32 = 1024;

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
    standing: Arc<Standing>,
    /// Accesses while no thread watched the owner.
    unwatched: AtomicU32,
    outbound: Mutex<Option<Outbound>>,
    on_owner: Mutex<OnOwner>,
    _charges: Charges,
}

/// What an imported aperture takes: its memory, watch table and counts, and the table for
/// tripwires on the owner's stores.
const APERTURE: [(Resource, u64); 2] = [(Resource::Mappings, 4), (Resource::PrivateBytes, 1024)];

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
        self.standing.set(FLAG_OUTBOUND);
        Ok(())
    }

    pub fn on_owner(&self) -> MutexGuard<'_, OnOwner> {
        self.on_owner.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut on_owner = self.on_owner();
        let table = on_owner.table().ok_or(ArmError::PlaceFull)?;
        let slot = table.arm(offset, len_bytes, source, flags)?;
        self.standing.waiting().push(source);
        self.link.announce_waiting(self.number);
        Ok((slot, on_owner.count(slot)))
    }

    pub fn disarm_on_owner(&self, slot: u32, source: u32) {
        if let Some(table) = self.on_owner().table() {
            table.disarm(slot);
        }
        self.standing.waiting().retain(|s| *s != source);
    }

    /// Whether the owner is of this user.
    pub fn owned_by(&self, uid: u32) -> bool {
        self.link.peer.uid == uid
    }

    /// Whether anything stands in the way of an access; the flags.
    #[inline]
    fn check(&self, refusing: u32) -> Result<u32, AccessError> {
        let flags = self.flags();
        if flags & refusing != 0 {
            return self.obstacle(flags, refusing);
        }
        Ok(flags)
    }

    #[inline]
    fn flags(&self) -> u32 {
        self.standing.flags()
    }

    #[cold]
    fn obstacle(&self, mut flags: u32, refusing: u32) -> Result<u32, AccessError> {
        if flags & FLAG_UNWATCHED != 0 {
            self.look_after_owner();
            flags = self.flags();
        }
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

    /// No thread watches the owner: sees for itself whether it is still there, and now and
    /// then tries to have it watched.
    fn look_after_owner(&self) {
        let Some(node) = self.node.upgrade() else {
            return;
        };
        let (index, generation) = self.peer;
        if self.link.has_ended() {
            return node.look_after(index, generation);
        }
        // Relaxed: a count that only spaces out attempts.
        let accesses = self.unwatched.fetch_add(1, Ordering::Relaxed);
        if accesses % ACCESSES_PER_ATTEMPT == ACCESSES_PER_ATTEMPT - 1 {
            let mut state = node.state();
            let known = |p: &&Peer| p.generation == generation;
            if state.peers.get(index).filter(known).is_some() && state.watch_for_end(&node, index) {
                state.peers[index].granted.watched();
            }
        }
    }

    const REFUSES_LOADS: u32 = FLAG_REVOKED | FLAG_OWNER_GONE | FLAG_UNWATCHED;
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
            self.standing.set(FLAG_REVOKED);
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

    /// A put whose tripwires fire when all of it is there.
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

/// A large transfer looks again after so many bytes whether it still makes sense: some ten
/// microseconds.
const STRETCH_BYTES: usize = 128 << 10;

/// Transfers in the background, which may take long enough for the owner to go meanwhile.
impl RemoteShared {
    /// As [`RemoteShared::put`]; an error if the owner is not there to the end.
    pub fn put_all(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.check(Self::REFUSES_STORES)?;
        self.bytes.check(offset, bytes.len())?;
        for (nth, stretch) in bytes.chunks(STRETCH_BYTES).enumerate() {
            self.check(Self::REFUSES_STORES)?;
            let at = offset + nth * STRETCH_BYTES;
            self.bytes.window.write_bytes(at, stretch);
        }
        let flags = self.check(Self::REFUSES_STORES)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.touched(flags, offset, bytes.len())
    }

    /// As [`RemoteShared::get`]; an error if the owner is not there to the end.
    pub fn get_all(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(Self::REFUSES_LOADS)?;
        self.bytes.check(offset, into.len())?;
        for (nth, stretch) in into.chunks_mut(STRETCH_BYTES).enumerate() {
            self.check(Self::REFUSES_LOADS)?;
            let at = offset + nth * STRETCH_BYTES;
            self.bytes.window.read_bytes(at, stretch);
        }
        self.check(Self::REFUSES_LOADS).map(drop)
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
            if peer.granted.remove(aperture) {
                peer.watch = None;
            }
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
/// no system call, and no action of the peer. Once the kernel knows that the peer is gone,
/// every access gives [`AccessError::PeerGone`], loads too, whether or not anybody polls the
/// node. Cloning is cheap; the aperture is given back when the last clone is dropped.
#[derive(Clone)]
pub struct RemoteAperture {
    pub(crate) shared: Arc<RemoteShared>,
    /// The node lives as long: the link ends with it.
    node: Arc<Shared>,
}

impl RemoteAperture {
    pub(crate) fn new(shared: Arc<RemoteShared>, node: &Arc<Shared>) -> RemoteAperture {
        RemoteAperture {
            shared,
            node: Arc::clone(node),
        }
    }

    /// What we may do with it.
    #[must_use]
    pub fn rights(&self) -> Rights {
        if self.shared.flags() & FLAG_READ_ONLY != 0 {
            Rights::Read
        } else {
            Rights::ReadWrite
        }
    }

    /// Sets a tripwire on our own puts: it fires when one touches `len_bytes` at `offset`,
    /// on our own event queue. To be told what the owner stores:
    /// [`RemoteAperture::tripwire_on_owner`].
    ///
    /// # Errors
    /// [`Error::Arm`], [`Error::LimitReached`]; [`Error::Access`] if the owner is gone or has
    /// revoked the aperture.
    pub fn tripwire(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        let place = Place::Imported(Arc::clone(&self.shared));
        self.arm(place, (offset, len_bytes), mode, action)
    }

    /// Sets a tripwire on the owner's stores: it fires when the owner puts, stores, adds or
    /// exchanges through its [`Aperture`](crate::Aperture) and touches one of these bytes, on
    /// our own event queue. What importers transfer fires it not. A read-only aperture will
    /// do, and the owner need not poll its node.
    ///
    /// A store that begins after this returns fires it. To wait for a change: set the
    /// tripwire, look at the bytes, and only then wait. It also fires, with nothing stored,
    /// when the owner revokes the aperture or is gone, so that whoever waits looks and gets
    /// the error.
    ///
    /// Of the owner's death every access learns at once. Of a revocation a put, store, add or
    /// exchange learns at once; a load or get learns of it after the next poll of the importer's node,
    /// or after such a store. So a program that only loads polls its node now and then.
    ///
    /// ```no_run
    /// # use barewire::{Action, Memory, Mode, Node, RemoteAperture};
    /// # fn wait_for_change(node: &Node, far: &RemoteAperture, last: u64) -> barewire::Result<u64> {
    /// let _trap = far.tripwire_on_owner(0, 8, Mode::Sticky, Action::Wake)?;
    /// let mut events = Vec::new();
    /// loop {
    ///     let now = far.load(0)?; // an error once the owner is gone
    ///     if now != last {
    ///         return Ok(now);
    ///     }
    ///     node.wait(&mut events, 64, None)?;
    ///     events.clear();
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Arm`] with the limit: 1024 on one aperture, 16 if the owner is of another
    /// user; [`Error::LimitReached`]; [`Error::Access`] if the owner is gone or has revoked
    /// the aperture.
    pub fn tripwire_on_owner(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        let place = Place::Owners(Arc::clone(&self.shared));
        self.arm(place, (offset, len_bytes), mode, action)
    }

    fn arm(
        &self,
        place: Place,
        (offset, len_bytes): (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        self.shared.check(RemoteShared::REFUSES_LOADS)?;
        let tripwire = Tripwire::arm(&self.node, place, offset, len_bytes, mode, action)?;
        // The owner may have gone after the first look: nothing will fire it then.
        self.shared.check(RemoteShared::REFUSES_LOADS)?;
        Ok(tripwire)
    }

    /// Copies `data` into the aperture at `offset` in the background. The end is reported
    /// by [`Event::Completion`](crate::Event::Completion) with this cookie, which gives the buffer back.
    ///
    /// # Errors
    /// [`Error::LimitReached`] if too many transfers are under way; [`Error::Access`] if
    /// it can not work.
    pub fn bulk_put(&self, offset: usize, data: Vec<u8>, cookie: u64) -> Result<()> {
        self.shared.check(RemoteShared::REFUSES_STORES)?;
        self.shared.bytes.check(offset, data.len())?;
        let aperture = Arc::clone(&self.shared);
        self.node.bulk(Job::put(aperture, offset, data, cookie))
    }

    /// Copies `len_bytes` at `offset` out of the aperture in the background. The end is
    /// reported by [`Event::Completion`](crate::Event::Completion) with this cookie and the bytes.
    ///
    /// # Errors
    /// As [`RemoteAperture::bulk_put`].
    pub fn bulk_get(&self, offset: usize, len_bytes: usize, cookie: u64) -> Result<()> {
        self.shared.check(RemoteShared::REFUSES_LOADS)?;
        self.shared.bytes.check(offset, len_bytes)?;
        let aperture = Arc::clone(&self.shared);
        self.node
            .bulk(Job::get(aperture, offset, len_bytes, cookie))
    }
}

impl core::fmt::Debug for RemoteAperture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RemoteAperture")
            .field("len_bytes", &self.shared.bytes.len_bytes)
            .field("rights", &self.rights())
            .finish_non_exhaustive()
    }
}

impl Memory for RemoteAperture {
    fn len_bytes(&self) -> usize {
        self.shared.bytes.len_bytes
    }

    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.shared.put(offset, bytes)
    }

    #[inline]
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.shared.get(offset, into)
    }

    #[inline]
    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.shared.check(RemoteShared::REFUSES_LOADS)?;
        self.shared.bytes.check_word(offset)?;
        Ok(self.shared.bytes.window.atomic_load(offset))
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        let flags = self.shared.check(RemoteShared::REFUSES_STORES)?;
        self.shared.bytes.check_word(offset)?;
        self.shared.bytes.window.atomic_store(offset, value);
        self.shared.touched(flags, offset, 8)
    }

    #[inline]
    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        let flags = self.shared.check(RemoteShared::REFUSES_STORES)?;
        self.shared.bytes.check_word(offset)?;
        let was = self.shared.bytes.window.atomic_add(offset, value);
        self.shared.touched(flags, offset, 8)?;
        Ok(was)
    }

    #[inline]
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        let flags = self.shared.check(RemoteShared::REFUSES_STORES)?;
        self.shared.bytes.check_word(offset)?;
        let window = &self.shared.bytes.window;
        let result = window.atomic_compare_exchange(offset, current, new);
        if result.is_ok() {
            self.shared.touched(flags, offset, 8)?;
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
            receiver_tripwires,
        } = message
        else {
            return Err(Misconduct::Control("not a grant"));
        };
        let Some(serial) = self.standing(index, connection)? else {
            return Ok(());
        };
        let peer = &mut self.peers[index];
        let max = shared.live().config.granted_apertures_max as usize;
        let (count, known) = peer.granted.count(aperture);
        if count >= max {
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
        if config.check().is_err() || receiver_tripwires > ON_OWNER_MAX || known {
            return Err(Misconduct::Control(
                "grants an impossible aperture, or one twice",
            ));
        }
        let link = peer.link().ok_or(Misconduct::Control("closed"))?;
        let at = (index, peer.generation);
        let event = self.charge(shared, index, &[(Resource::Events, 1)])?;
        let charges = self.charge(shared, index, &APERTURE)?;
        let numbers = (aperture, receiver_tripwires);
        let remote = import(shared, link, at, numbers, config, passed, charges)?;
        self.connections[connection as usize].events += 1;
        if !self.watch_for_end(shared, index) {
            remote.standing.set(FLAG_UNWATCHED);
        }
        let peer = &mut self.peers[index];
        peer.granted.add(aperture, &remote.standing);
        self.push(Pending::Granted {
            number: connection,
            serial,
            cookie,
            aperture: remote,
            charges: event,
        });
        Ok(())
    }
}

fn import(
    node: &Arc<Shared>,
    link: Arc<Link>,
    peer: (usize, u32),
    (number, receiver_tripwires): (u32, u32),
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
        standing: Arc::new(Standing::new(flags)),
        unwatched: AtomicU32::new(0),
        outbound: Mutex::new(None),
        on_owner: Mutex::new(on_owner),
        _charges: charges,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Aperture, ConnectOptions, Connection, Event, Node};
    use std::time::Duration;

    const SOON: Option<Duration> = Some(Duration::from_secs(20));

    struct Pair {
        owner: (Node, Connection, Aperture),
        _importer: (Node, Box<Connection>),
        far: RemoteAperture,
    }

    fn pair(of: &str) -> Pair {
        let name = format!("unit-{of}-{}", std::process::id());
        let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
        let _listener = server.listen(&name).unwrap();
        let options = ConnectOptions::default();
        client.start_connect(&name, &options).unwrap();
        let to_client = server.next_request(SOON).unwrap().accept().unwrap();
        let Some(Event::Connected(to_server)) = client.next_event(SOON).unwrap() else {
            panic!("not connected");
        };
        let config = ApertureConfig::new(4096, Rights::ReadWrite);
        let aperture = server.export(config).unwrap();
        to_client.grant(&aperture, 0).unwrap();
        let (_, far) = to_server.import(SOON).unwrap();
        Pair {
            owner: (server, to_client, aperture),
            _importer: (client, to_server),
            far,
        }
    }

    /// As if no thread could be started.
    fn unwatch(far: &RemoteAperture) {
        far.node.state().peers[far.shared.peer.0].watch = None;
        far.shared.standing.set(FLAG_UNWATCHED);
    }

    #[test]
    fn without_a_thread_each_access_asks_the_kernel() {
        let Pair {
            owner,
            _importer,
            far,
        } = pair("unwatched");
        unwatch(&far);
        far.store(0, 1).unwrap();
        assert_eq!(far.load(0), Ok(1));
        drop(owner);
        assert_eq!(far.load(0), Err(AccessError::PeerGone));
        assert_eq!(far.put(0, &[1]), Err(AccessError::PeerGone));
    }

    #[test]
    fn a_thread_is_tried_for_again() {
        let Pair { owner, far, .. } = pair("again");
        unwatch(&far);
        for _ in 0..ACCESSES_PER_ATTEMPT {
            far.load(0).unwrap();
        }
        assert_eq!(far.shared.flags() & FLAG_UNWATCHED, 0);
        let watched = far.node.state().peers[far.shared.peer.0].watch.is_some();
        assert!(watched);
        drop(owner);
    }
}
