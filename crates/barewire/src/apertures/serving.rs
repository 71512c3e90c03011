//! Accesses that the proxy of another host makes for it, to mapped memory of an owner on this host.
//!
//! Each is checked as what comes from a hostile peer. They are the accesses of an importer on this host, so the
//! owner's tripwires fire for them.

use barewire_fabric::aperture::AccessError;

use crate::apertures::access::FLAG_READ_ONLY;
use crate::apertures::imported::{Imported, Mapped, Place};
use crate::links::far::WordOp;

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// The owner has withdrawn the aperture.
    Revoked,
    /// The other host should not have asked.
    Wrong(&'static str),
}

type Served<T = ()> = Result<T, Unserved>;

const OUTSIDE: Unserved = Unserved::Wrong("access outside an aperture");

impl From<AccessError> for Unserved {
    fn from(error: AccessError) -> Unserved {
        match error {
            AccessError::Revoked | AccessError::PeerGone => Unserved::Revoked,
            _ => OUTSIDE,
        }
    }
}

impl Imported {
    /// The memory, for an access that `stores` or not.
    fn for_access(&self, stores: bool) -> Served<&Mapped> {
        if stores && self.flags() & FLAG_READ_ONLY != 0 {
            return Err(Unserved::Wrong("store into a read-only aperture"));
        }
        match &self.place {
            Place::Mapped(mapped) => Ok(mapped),
            Place::Far(_) => Err(OUTSIDE),
        }
    }

    /// Stores bytes; `fires`: that is a whole put.
    pub fn serve_put(&self, offset: u64, bytes: &[u8], fires: bool) -> Served {
        let mapped = self.for_access(true)?;
        let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        mapped.bytes.check(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        mapped.bytes.window.write_bytes(offset, bytes);
        if fires {
            self.touched(mapped, 0, offset, bytes.len())?;
        }
        Ok(())
    }

    /// Fires what a put touches that has come in pieces.
    pub fn serve_fire(&self, offset: u64, len_bytes: u64) -> Served {
        let mapped = self.for_access(true)?;
        let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        let len_bytes = usize::try_from(len_bytes).map_err(|_| OUTSIDE)?;
        mapped.bytes.check(offset, len_bytes)?;
        if len_bytes > 0 {
            self.touched(mapped, 0, offset, len_bytes)?;
        }
        Ok(())
    }

    /// Loads bytes.
    pub fn serve_get(&self, offset: u64, into: &mut [u8]) -> Served {
        let mapped = self.for_access(false)?;
        let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        mapped.bytes.check(offset, into.len())?;
        mapped.bytes.window.read_bytes(offset, into);
        Ok(())
    }

    /// Loads or changes a word; what it was, 0 after a store.
    pub fn serve_word(&self, offset: u64, op: WordOp, operands: [u64; 2]) -> Served<u64> {
        let mapped = self.for_access(op != WordOp::Load)?;
        let offset = usize::try_from(offset).map_err(|_| OUTSIDE)?;
        mapped.bytes.check_word(offset)?;
        let window = &mapped.bytes.window;
        let (was, is_stored) = match op {
            WordOp::Load => (window.atomic_load(offset), false),
            WordOp::Store => {
                window.atomic_store(offset, operands[0]);
                (0, true)
            }
            WordOp::Add => (window.atomic_add(offset, operands[0]), true),
            WordOp::Exchange => {
                match window.atomic_compare_exchange(offset, operands[0], operands[1]) {
                    Ok(was) => (was, true),
                    Err(found) => (found, false),
                }
            }
        };
        if is_stored {
            self.touched(mapped, 0, offset, 8)?;
        }
        Ok(was)
    }
}
