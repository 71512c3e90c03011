//! Imported apertures: a peer's memory, as far as it has granted it.

use std::ptr::NonNull;
use std::sync::Arc;

use barewire_fabric::aperture::{AccessError, Action, Memory, Mode, Rights};

use crate::apertures::access::FLAG_READ_ONLY;
use crate::apertures::bytes::check;
use crate::apertures::far::FarMemory;
use crate::apertures::imported::{Imported, Mapped, Place as Where};
use crate::apertures::layout::ApertureId;
use crate::apertures::tripwire::Place;
use crate::error::Result;
use crate::handles::import::Import;
use crate::handles::tripwire::Tripwire;
use crate::links::far::WordOp;
use crate::node::bulk::Job;
use crate::node::core::NodeCore;

/// A peer's memory, as far as it has granted it.
///
/// [`Memory::put`] stores into it with plain stores and [`Memory::get`] loads from it;
/// no system call, and no action of the peer. Once the kernel knows that the peer is gone,
/// every access gives [`AccessError::PeerGone`], loads too, whether or not anybody polls the
/// node. Cloning is cheap; the aperture is given back when the last clone is dropped.
///
/// # Of a node on another host
///
/// Each access is asked for over the link, and carried out by a thread of the owner's process. The owner need not poll.
///
/// | access | costs |
/// |---|---|
/// | [`Memory::put`] | handing the bytes to the transport: it is *posted*. It waits only if the transport takes no more |
/// | [`Memory::get`] and all word accesses | a round trip |
///
/// Accesses that go over one link are carried out in the order in which they were begun. So whoever sees a word sees what
/// the same importer put before it, and so does the owner when it receives a message that was sent after the put. Word
/// accesses are atomic with those of the owner and of all other importers, and a store has been made when it returns.
///
/// A put that was accepted may be lost with the link, or if the owner revokes the aperture at that moment. To make sure of
/// it, load any word of the aperture: that returns after the put is complete. Do so, too, before telling of the put over
/// another link. A bulk transfer is complete when its end is reported. When the link is lost, accesses that wait give
/// [`AccessError::PeerGone`].
#[derive(Clone)]
pub struct RemoteAperture {
    memory: Arc<Imported>,
    import: Arc<Import>,
    /// The node lives as long: the link ends with it.
    node: Arc<NodeCore>,
}

impl RemoteAperture {
    pub(crate) fn new(memory: Arc<Imported>, node: &Arc<NodeCore>) -> RemoteAperture {
        RemoteAperture {
            import: Arc::new(Import::new(&memory, node)),
            memory,
            node: Arc::clone(node),
        }
    }

    /// What events name it by; the same for all clones.
    #[must_use]
    pub fn id(&self) -> ApertureId {
        self.memory.id
    }

    /// Where its bytes begin, for callers that hand the address to other languages; `None` if the owner is on another host.
    /// It is good as long as this handle or a clone lives. With [`Rights::Read`] the bytes can not be written. The owner may
    /// change them at any moment; what is stored by address fires no tripwire.
    #[must_use]
    pub fn base(&self) -> Option<NonNull<u8>> {
        self.place().ok().map(|mapped| mapped.bytes.window.base())
    }

    /// Whether anything stands in the way of an access; the flags.
    #[inline]
    fn check(&self, refusing: u32) -> Result<u32, AccessError> {
        let flags = self.memory.flags();
        if flags & refusing != 0 {
            return self.import.obstacle(flags, refusing);
        }
        Ok(flags)
    }

    /// The memory, if it is mapped here.
    #[inline]
    fn place(&self) -> Result<&Mapped, &FarMemory> {
        match &self.memory.place {
            Where::Mapped(mapped) => Ok(mapped),
            Where::Far(far) => Err(far),
        }
    }

    /// Loads or changes a word on another host.
    #[cold]
    fn far_word(
        &self,
        far: &FarMemory,
        offset: usize,
        op: WordOp,
        operands: [u64; 2],
    ) -> Result<u64, AccessError> {
        let flags = self.check(match op {
            WordOp::Load => Imported::REFUSES_LOADS,
            _ => Imported::REFUSES_STORES,
        })?;
        let was = far.word(&self.node.base, offset, op, operands)?;
        let is_stored = match op {
            WordOp::Load => false,
            WordOp::Store | WordOp::Add => true,
            WordOp::Exchange => was == operands[0],
        };
        if is_stored {
            self.memory.transferred(flags, offset, 8);
        }
        Ok(was)
    }

    /// What we may do with it.
    #[must_use]
    pub fn rights(&self) -> Rights {
        if self.memory.flags() & FLAG_READ_ONLY != 0 {
            Rights::Read
        } else {
            Rights::ReadWrite
        }
    }

    /// Sets a tripwire on our own puts: it fires when one touches `len_bytes` at `offset`,
    /// on our own event queue. For the owner's stores there is
    /// [`RemoteAperture::tripwire_on_owner`].
    ///
    /// # Errors
    /// [`Error::Arm`](crate::Error::Arm), [`Error::LimitReached`](crate::Error::LimitReached); [`Error::Access`](crate::Error::Access) if the owner is gone or has
    /// revoked the aperture.
    pub fn tripwire(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        let place = Place::Imported(Arc::clone(&self.memory));
        self.arm(place, (offset, len_bytes), mode, action)
    }

    /// Sets a tripwire on the owner's stores: it fires when the owner puts, stores, adds or
    /// exchanges through its [`Aperture`](crate::Aperture) and touches one of these bytes, on
    /// our own event queue. Transfers of importers do not fire it. A read-only aperture is
    /// enough, and the owner need not poll its node.
    ///
    /// A store that begins after this returns fires it. To wait for a change: set the
    /// tripwire, read the bytes, and only then wait. It also fires, with nothing stored,
    /// when the owner revokes the aperture or is gone: the next access then returns the error.
    ///
    /// Between hosts, setting it takes a round trip. Each store of the owner's that fires it then costs a system call there,
    /// and what it counts comes a little later. After the owner's death every access fails at once. After a revocation a put, store, add or
    /// exchange fails at once; a load or get fails after the next poll of the importer's node,
    /// or after such a store. So a program that only loads has to poll its node from time to time.
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
    /// [`Error::Arm`](crate::Error::Arm) with the limit: 1024 on one aperture, 16 if the owner is of another
    /// user; [`Error::LimitReached`](crate::Error::LimitReached); [`Error::Access`](crate::Error::Access) if the owner is gone or has revoked
    /// the aperture.
    pub fn tripwire_on_owner(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        let place = Place::Owners(Arc::clone(&self.memory));
        self.arm(place, (offset, len_bytes), mode, action)
    }

    fn arm(
        &self,
        place: Place,
        range: (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        self.check(Imported::REFUSES_LOADS)?;
        let import = Some(Arc::clone(&self.import));
        let tripwire = Tripwire::arm(&self.node, place, import, range, mode, action)?;
        // The owner may have gone after the first look: nothing will fire it then.
        self.check(Imported::REFUSES_LOADS)?;
        Ok(tripwire)
    }

    /// Copies `data` into the aperture at `offset` in the background. The end is reported
    /// by [`Event::Completion`](crate::Event::Completion) with this cookie, which gives the buffer back.
    ///
    /// # Errors
    /// [`Error::LimitReached`](crate::Error::LimitReached) if too many transfers are under way; [`Error::Access`](crate::Error::Access) if
    /// it can not work.
    pub fn bulk_put(&self, offset: usize, data: Vec<u8>, cookie: u64) -> Result<()> {
        self.check(Imported::REFUSES_STORES)?;
        check(self.memory.len_bytes, offset, data.len())?;
        let import = Arc::clone(&self.import);
        let run = move || import.put_all(offset, &data).map(|()| data);
        self.node.bulk(Job::new(cookie, run))
    }

    /// Copies `len_bytes` at `offset` out of the aperture in the background. The end is
    /// reported by [`Event::Completion`](crate::Event::Completion) with this cookie and the bytes.
    ///
    /// # Errors
    /// As [`RemoteAperture::bulk_put`].
    pub fn bulk_get(&self, offset: usize, len_bytes: usize, cookie: u64) -> Result<()> {
        self.check(Imported::REFUSES_LOADS)?;
        check(self.memory.len_bytes, offset, len_bytes)?;
        let import = Arc::clone(&self.import);
        let run = move || {
            let mut data = vec![0; len_bytes];
            import.get_all(offset, &mut data).map(|()| data)
        };
        self.node.bulk(Job::new(cookie, run))
    }
}

impl core::fmt::Debug for RemoteAperture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RemoteAperture")
            .field("len_bytes", &self.memory.len_bytes)
            .field("rights", &self.rights())
            .finish_non_exhaustive()
    }
}

impl Memory for RemoteAperture {
    fn len_bytes(&self) -> usize {
        self.memory.len_bytes
    }

    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let mapped = match self.place() {
            Ok(mapped) => mapped,
            Err(_) => return self.import.put_far(offset, bytes),
        };
        let flags = self.check(Imported::REFUSES_STORES)?;
        mapped.bytes.check(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        mapped.bytes.window.write_bytes(offset, bytes);
        self.memory.touched(mapped, flags, offset, bytes.len())
    }

    #[inline]
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        let mapped = match self.place() {
            Ok(mapped) => mapped,
            Err(_) => return self.import.get_far(offset, into),
        };
        self.check(Imported::REFUSES_LOADS)?;
        mapped.bytes.check(offset, into.len())?;
        mapped.bytes.window.read_bytes(offset, into);
        Ok(())
    }

    #[inline]
    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        let mapped = match self.place() {
            Ok(mapped) => mapped,
            Err(far) => return self.far_word(far, offset, WordOp::Load, [0; 2]),
        };
        self.check(Imported::REFUSES_LOADS)?;
        mapped.bytes.check_word(offset)?;
        Ok(mapped.bytes.window.atomic_load(offset))
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        let mapped = match self.place() {
            Ok(mapped) => mapped,
            Err(far) => {
                let stored = self.far_word(far, offset, WordOp::Store, [value, 0]);
                return stored.map(drop);
            }
        };
        let flags = self.check(Imported::REFUSES_STORES)?;
        mapped.bytes.check_word(offset)?;
        mapped.bytes.window.atomic_store(offset, value);
        self.memory.touched(mapped, flags, offset, 8)
    }

    #[inline]
    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        let mapped = match self.place() {
            Ok(mapped) => mapped,
            Err(far) => return self.far_word(far, offset, WordOp::Add, [value, 0]),
        };
        let flags = self.check(Imported::REFUSES_STORES)?;
        mapped.bytes.check_word(offset)?;
        let was = mapped.bytes.window.atomic_add(offset, value);
        self.memory.touched(mapped, flags, offset, 8)?;
        Ok(was)
    }

    #[inline]
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        let mapped = match self.place() {
            Ok(mapped) => mapped,
            Err(far) => {
                let was = self.far_word(far, offset, WordOp::Exchange, [current, new])?;
                return Ok(if was == current { Ok(was) } else { Err(was) });
            }
        };
        let flags = self.check(Imported::REFUSES_STORES)?;
        mapped.bytes.check_word(offset)?;
        let window = &mapped.bytes.window;
        let result = window.atomic_compare_exchange(offset, current, new);
        if result.is_ok() {
            self.memory.touched(mapped, flags, offset, 8)?;
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apertures::access::FLAG_UNWATCHED;
    use crate::apertures::imported::ACCESSES_PER_ATTEMPT;
    use crate::{Aperture, ApertureConfig, ConnectOptions, Connection, Event, Node};
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
        far.node.state().peers[far.memory.peer.0].watch = None;
        far.memory.access.set(FLAG_UNWATCHED);
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
        assert_eq!(far.memory.flags() & FLAG_UNWATCHED, 0);
        let watched = far.node.state().peers[far.memory.peer.0].watch.is_some();
        assert!(watched);
        drop(owner);
    }
}
