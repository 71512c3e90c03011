//! Memory of an aperture on another host: each access is asked for over the link.
//!
//! The proxy of the owner carries the accesses out, one after the other, with the same code as an importer on the
//! owner's host. So words are changed by the atomic instructions of the owner's machine, and the owner's tripwires fire.
//!
//! | access | costs |
//! |---|---|
//! | put | is *posted*: it takes as long as it takes to hand it to the transport, which may have to be waited for |
//! | get, load, store, add, exchange | a round trip; a long get has several pieces under way |
//!
//! Accesses of one link are carried out in the order in which they were begun, and before messages that were sent after them.
//! So a word that is stored after a put tells that the put is complete, to whomever sees the word. A store is not
//! posted: when it returns, everybody sees it. So all word accesses are in one order, even those to memory of several
//! hosts. A put is only ordered with what goes over the same link.

use std::sync::Arc;
use std::time::Duration;

use barewire_fabric::aperture::AccessError;
use barewire_shm::watch::ArmError;
use barewire_sys::process::online_cpus;

use crate::apertures::bytes::{check, check_word};
use crate::config::Spin;
use crate::error::{Error, Result};
use crate::links::asking::{Asking, disarm};
use crate::links::base::Base;
use crate::links::driven::Driven;
use crate::links::far::{FarAperture, Refusal, WordOp};

/// How long to look for an answer before sleeping, where nobody has said so.
const SPIN: Duration = Duration::from_micros(50);

/// Memory of an aperture on another host.
pub(crate) struct FarMemory {
    driven: Arc<dyn Driven>,
    aperture: Arc<FarAperture>,
    len_bytes: usize,
}

impl FarMemory {
    /// `None` if the other host has not granted it.
    pub fn new(driven: &Arc<dyn Driven>, number: u32, len_bytes: usize) -> Option<FarMemory> {
        Some(FarMemory {
            aperture: driven.far().aperture(number)?,
            driven: Arc::clone(driven),
            len_bytes,
        })
    }

    /// A forked child does not drive its parent's links.
    fn asking<'a>(&'a self, base: &'a Base) -> core::result::Result<Asking<'a>, AccessError> {
        if base.check_fork().is_err() {
            return Err(AccessError::PeerGone);
        }
        Ok(Asking {
            driven: &self.driven,
            set: &base.driven,
            aperture: &self.aperture,
            spin_ns: spin_ns(base.live().config.spin),
        })
    }

    pub fn check(&self, offset: usize, len_bytes: usize) -> core::result::Result<(), AccessError> {
        check(self.len_bytes, offset, len_bytes)
    }

    pub fn put(
        &self,
        base: &Base,
        offset: usize,
        bytes: &[u8],
    ) -> core::result::Result<(), AccessError> {
        self.check(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.asking(base)?.put(offset, bytes).map_err(refused)
    }

    pub fn get(
        &self,
        base: &Base,
        offset: usize,
        into: &mut [u8],
    ) -> core::result::Result<(), AccessError> {
        self.check(offset, into.len())?;
        self.asking(base)?.get(offset, into).map_err(refused)
    }

    /// What the word was; 0 after a store.
    pub fn word(
        &self,
        base: &Base,
        offset: usize,
        op: WordOp,
        operands: [u64; 2],
    ) -> core::result::Result<u64, AccessError> {
        check_word(self.len_bytes, offset)?;
        let asking = self.asking(base)?;
        asking.word(offset, op, operands).map_err(refused)
    }

    /// Sets a tripwire on the owner's stores; its number. `rung`: the bit to ring for it, if any.
    pub fn arm(&self, base: &Base, offset: u64, len_bytes: u64, rung: Option<u32>) -> Result<u32> {
        let aperture_bytes = self.len_bytes as u64;
        let end = offset.checked_add(len_bytes);
        if len_bytes == 0 || end.is_none_or(|end| end > aperture_bytes) {
            return Err(Error::Arm(ArmError::OutOfRange {
                offset,
                len_bytes,
                aperture_bytes,
            }));
        }
        let armed = self.asking(base)?.arm(offset, len_bytes, rung);
        armed.map_err(|refusal| match refusal {
            Refusal::TableFull(slots) => Error::Arm(ArmError::TableFull { slots }),
            Refusal::PlaceFull => Error::Arm(ArmError::PlaceFull),
            other => Error::Access(refused(other)),
        })
    }

    pub fn disarm(&self, trap: u32) {
        disarm(&self.driven, trap);
    }

    /// How often such a tripwire has fired.
    pub fn count(&self, trap: u32) -> u64 {
        self.driven.far().count(trap)
    }
}

fn refused(refusal: Refusal) -> AccessError {
    match refusal {
        Refusal::Revoked => AccessError::Revoked,
        // Only tripwires are refused for lack of room, which are asked for elsewhere.
        Refusal::Gone | Refusal::TableFull(_) | Refusal::PlaceFull => AccessError::PeerGone,
    }
}

fn spin_ns(spin: Spin) -> u64 {
    let time = match spin {
        Spin::Never => Duration::ZERO,
        Spin::Forever => return u64::MAX,
        Spin::For(time) => time,
        // Spinning on the only processor keeps the link's other end from answering if it is here.
        Spin::Adaptive { .. } if online_cpus() < 2 => Duration::ZERO,
        Spin::Adaptive { at_most } => at_most.unwrap_or(SPIN),
    };
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
