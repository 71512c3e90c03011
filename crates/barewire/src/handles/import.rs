//! Holding an imported aperture: it is given back when nothing of it is in use any more.

use std::sync::{Arc, Weak};

use barewire_fabric::aperture::AccessError;

use crate::apertures::access::FLAG_UNWATCHED;
use crate::apertures::far::FarMemory;
use crate::apertures::imported::{Imported, Place};
use crate::links::base::Base;
use crate::node::core::NodeCore;

/// A large transfer looks again after so many bytes whether it still makes sense: some ten
/// microseconds.
const STRETCH_BYTES: usize = 128 << 10;

/// That we hold a peer's aperture. It is given back when the last handle, tripwire and transfer
/// of it is gone.
pub(crate) struct Import {
    memory: Arc<Imported>,
    node: Weak<NodeCore>,
}

impl Drop for Import {
    fn drop(&mut self) {
        if let Some(node) = self.node.upgrade() {
            if node.base.check_fork().is_ok() {
                node.state().give_back(&self.memory);
            }
        }
    }
}

impl Import {
    pub fn new(memory: &Arc<Imported>, node: &Arc<NodeCore>) -> Import {
        Import {
            memory: Arc::clone(memory),
            node: Arc::downgrade(node),
        }
    }

    fn check(&self, refusing: u32) -> Result<u32, AccessError> {
        let flags = self.memory.flags();
        if flags & refusing != 0 {
            return self.obstacle(flags, refusing);
        }
        Ok(flags)
    }

    /// Flags stand in the way of an access: whether they still do.
    #[cold]
    pub fn obstacle(&self, flags: u32, refusing: u32) -> Result<u32, AccessError> {
        if flags & FLAG_UNWATCHED != 0 {
            if let Some(node) = self.node.upgrade() {
                node.check_owner(&self.memory);
            }
        }
        self.memory.verdict(refusing)
    }
}

/// Transfers in the background, which may take long enough for the owner to go meanwhile.
impl Import {
    /// As [`Memory::put`]; an error if the owner is not there to the end.
    pub fn put_all(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let Place::Mapped(mapped) = &self.memory.place else {
            self.put_far(offset, bytes)?;
            return self.settle_far();
        };
        self.check(Imported::REFUSES_STORES)?;
        mapped.bytes.check(offset, bytes.len())?;
        for (nth, stretch) in bytes.chunks(STRETCH_BYTES).enumerate() {
            self.check(Imported::REFUSES_STORES)?;
            let at = offset + nth * STRETCH_BYTES;
            mapped.bytes.window.write_bytes(at, stretch);
        }
        let flags = self.check(Imported::REFUSES_STORES)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory.touched(mapped, flags, offset, bytes.len())
    }

    /// As [`Memory::get`]; an error if the owner is not there to the end.
    pub fn get_all(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        let Place::Mapped(mapped) = &self.memory.place else {
            return self.get_far(offset, into);
        };
        self.check(Imported::REFUSES_LOADS)?;
        mapped.bytes.check(offset, into.len())?;
        for (nth, stretch) in into.chunks_mut(STRETCH_BYTES).enumerate() {
            self.check(Imported::REFUSES_LOADS)?;
            let at = offset + nth * STRETCH_BYTES;
            mapped.bytes.window.read_bytes(at, stretch);
        }
        self.check(Imported::REFUSES_LOADS).map(drop)
    }
}

/// Memory on another host.
impl Import {
    fn far(&self) -> Result<(&FarMemory, Arc<Base>), AccessError> {
        let base = self.memory.base().ok_or(AccessError::PeerGone)?;
        match &self.memory.place {
            Place::Far(far) => Ok((far, base)),
            Place::Mapped(_) => Err(AccessError::PeerGone),
        }
    }

    /// Posts a put.
    #[cold]
    pub fn put_far(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let (far, base) = self.far()?;
        let flags = self.check(Imported::REFUSES_STORES)?;
        far.put(&base, offset, bytes)?;
        if !bytes.is_empty() {
            self.memory.transferred(flags, offset, bytes.len());
        }
        Ok(())
    }

    #[cold]
    pub fn get_far(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        let (far, base) = self.far()?;
        self.check(Imported::REFUSES_LOADS)?;
        far.get(&base, offset, into)
    }

    /// Waits until the puts so far are complete: whatever is asked for after them is answered after them.
    fn settle_far(&self) -> Result<(), AccessError> {
        let (far, base) = self.far()?;
        far.get(&base, 0, &mut [0])
    }
}
