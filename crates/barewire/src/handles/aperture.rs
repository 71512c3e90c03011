//! Exported apertures: memory that a peer may store into or load from, with stated rights.

use std::ptr::NonNull;
use std::sync::Arc;

use barewire_fabric::aperture::{AccessError, Action, Memory, Mode};
use barewire_fabric::doorbell;

use crate::apertures::exported::{Exported, check_huge};
use crate::apertures::layout::{ApertureConfig, ApertureId};
use crate::apertures::tripwire::Place;
use crate::error::{Error, Result};
use crate::handles::tripwire::Tripwire;
use crate::links::connection::ConnectionCore;
use crate::node::core::NodeCore;

/// Memory of this process that peers may be granted.
///
/// The owner reads and writes it through [`Memory`]. Its own stores fire none of its own
/// tripwires; they fire those that importers have set on them
/// ([`RemoteAperture::tripwire_on_owner`](crate::RemoteAperture::tripwire_on_owner)).
/// Dropping it revokes it.
pub struct Aperture {
    memory: Arc<Exported>,
    node: Arc<NodeCore>,
}

impl Aperture {
    pub(crate) fn new(node: &Arc<NodeCore>, config: ApertureConfig) -> Result<Aperture> {
        config.check()?;
        let placement = node.config.placement();
        check_huge(&placement, config.len_bytes)?;
        let number = || node.state().exports.reserve();
        let memory = Arc::new(Exported::new(&node.base, config, &placement, number)?);
        node.state().exports.set(memory.number, &memory);
        // The number may have been another's.
        doorbell::nobody_waits(&node.base.own_page, memory.number);
        Ok(Aperture {
            memory,
            node: Arc::clone(node),
        })
    }

    /// The settings it was made with.
    #[must_use]
    pub fn config(&self) -> ApertureConfig {
        self.memory.config
    }

    /// What events name it by.
    #[must_use]
    pub fn id(&self) -> ApertureId {
        self.memory.id
    }

    /// Where its bytes begin, for callers that hand the address to other languages. Address and length stay as they are as
    /// long as the aperture lives, also when it is revoked. Peers may change the bytes at any moment, and what is stored by
    /// address fires no tripwire.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.memory.bytes.window.base()
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
        let place = Place::Own(Arc::clone(&self.memory));
        Tripwire::arm(&self.node, place, None, (offset, len_bytes), mode, action)
    }

    /// Cuts all peers off: nothing they store from now on is seen here. Those on other hosts have been sent word of it when
    /// this returns; what they put until it comes is dropped. Our contents stay, in a
    /// private copy, which is placed as the kernel likes: neither locked, near a NUMA node nor on
    /// huge pages.
    ///
    /// # Errors
    /// If the system has no memory for the private copy.
    pub fn revoke(&self) -> Result<()> {
        self.withdraw()
    }

    fn withdraw(&self) -> Result<()> {
        self.node.base.check_fork()?;
        let mut withdrawn = self.memory.withdrawn();
        if *withdrawn {
            return Ok(());
        }
        self.memory.detach()?;
        *withdrawn = true;
        let told = self.node.state().revoke(self.memory.number);
        drop(withdrawn);
        for remote in told {
            // It is on its way when we return.
            remote.settle();
        }
        Ok(())
    }

    pub(crate) fn grant(
        &self,
        node: &Arc<NodeCore>,
        connection: &ConnectionCore,
        cookie: u64,
    ) -> Result<()> {
        // Its tripwires ring at its own node, whose links the peer knows.
        if !Arc::ptr_eq(node, &self.node) {
            return Err(Error::OtherNode);
        }
        let withdrawn = self.memory.withdrawn();
        if *withdrawn {
            return Err(AccessError::Revoked.into());
        }
        node.state().grant(&self.memory, connection, cookie)
    }
}

impl Drop for Aperture {
    fn drop(&mut self) {
        if self.node.base.check_fork().is_err() {
            return;
        }
        // If there is no memory for the copy that revocation makes, the mapping goes away
        // with us all the same.
        let _ = self.withdraw();
        self.node.state().exports.dropped(self.memory.number);
    }
}

impl core::fmt::Debug for Aperture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Aperture")
            .field(&self.memory.config)
            .finish()
    }
}

impl Memory for Aperture {
    fn len_bytes(&self) -> usize {
        self.memory.bytes.len_bytes
    }

    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.memory.bytes.check(offset, bytes.len())?;
        self.memory.bytes.window.write_bytes(offset, bytes);
        if !bytes.is_empty() {
            self.memory.stored(offset, bytes.len());
        }
        Ok(())
    }

    #[inline]
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.memory.bytes.check(offset, into.len())?;
        self.memory.bytes.window.read_bytes(offset, into);
        Ok(())
    }

    #[inline]
    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.memory.bytes.check_word(offset)?;
        Ok(self.memory.bytes.window.atomic_load(offset))
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.memory.bytes.check_word(offset)?;
        self.memory.bytes.window.atomic_store(offset, value);
        self.memory.stored(offset, 8);
        Ok(())
    }

    #[inline]
    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        self.memory.bytes.check_word(offset)?;
        let was = self.memory.bytes.window.atomic_add(offset, value);
        self.memory.stored(offset, 8);
        Ok(was)
    }

    #[inline]
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        self.memory.bytes.check_word(offset)?;
        let window = &self.memory.bytes.window;
        let result = window.atomic_compare_exchange(offset, current, new);
        if result.is_ok() {
            self.memory.stored(offset, 8);
        }
        Ok(result)
    }
}
