//! Holding an imported aperture: it is given back when nothing of it is in use any more.

use std::sync::{Arc, Weak};

use barewire_fabric::aperture::AccessError;

use crate::apertures::access::FLAG_UNWATCHED;
use crate::apertures::imported::Imported;
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
        self.check(Imported::REFUSES_STORES)?;
        self.memory.bytes.check(offset, bytes.len())?;
        for (nth, stretch) in bytes.chunks(STRETCH_BYTES).enumerate() {
            self.check(Imported::REFUSES_STORES)?;
            let at = offset + nth * STRETCH_BYTES;
            self.memory.bytes.window.write_bytes(at, stretch);
        }
        let flags = self.check(Imported::REFUSES_STORES)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory.touched(flags, offset, bytes.len())
    }

    /// As [`Memory::get`]; an error if the owner is not there to the end.
    pub fn get_all(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(Imported::REFUSES_LOADS)?;
        self.memory.bytes.check(offset, into.len())?;
        for (nth, stretch) in into.chunks_mut(STRETCH_BYTES).enumerate() {
            self.check(Imported::REFUSES_LOADS)?;
            let at = offset + nth * STRETCH_BYTES;
            self.memory.bytes.window.read_bytes(at, stretch);
        }
        self.check(Imported::REFUSES_LOADS).map(drop)
    }
}
