//! Tripwires as memory: an entry in a watch table, and whether it is still set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barewire_fabric::aperture::{Action, Mode};
use barewire_shm::watch::{ArmError, FLAG_COUNT, FLAG_ENQUEUE, FLAG_WAKE};

use crate::apertures::exported::Exported;
use crate::apertures::imported::Imported;
use crate::apertures::layout::ApertureId;
use crate::error::Result;
use crate::links::base::Base;

/// Where a tripwire lies.
pub(crate) enum Place {
    /// On our own aperture: peers' puts fire it.
    Own(Arc<Exported>),
    /// On an imported one: our own puts fire it.
    Imported(Arc<Imported>),
    /// On an imported one: the owner's stores fire it.
    Owners(Arc<Imported>),
}

impl Place {
    fn arm(&self, offset: u64, len_bytes: u64, source: u32, flags: u32) -> Result<(u32, u64)> {
        match self {
            Place::Own(aperture) => {
                let slot = aperture.watch().arm(offset, len_bytes, source, flags)?;
                Ok((slot, aperture.counts.atomic_load(slot as usize * 8)))
            }
            Place::Imported(aperture) => {
                let mut outbound = aperture.outbound();
                aperture.make_outbound(&mut outbound)?;
                let Some(outbound) = outbound.as_mut() else {
                    return Err(ArmError::PlaceFull.into());
                };
                let slot = outbound.table.arm(offset, len_bytes, source, flags)?;
                Ok((slot, outbound.counts.atomic_load(slot as usize * 8)))
            }
            Place::Owners(aperture) => aperture.arm_on_owner(offset, len_bytes, source, flags),
        }
    }

    fn disarm(&self, slot: u32, source: u32) {
        match self {
            Place::Own(aperture) => {
                aperture.watch().disarm(slot);
            }
            Place::Imported(aperture) => {
                if let Some(outbound) = aperture.outbound().as_mut() {
                    outbound.table.disarm(slot);
                }
            }
            Place::Owners(aperture) => aperture.disarm_on_owner(slot, source),
        }
    }

    fn aperture(&self) -> ApertureId {
        match self {
            Place::Own(aperture) => aperture.id,
            Place::Imported(aperture) | Place::Owners(aperture) => aperture.id,
        }
    }

    fn count(&self, slot: u32) -> u64 {
        match self {
            Place::Own(aperture) => aperture.counts.atomic_load(slot as usize * 8),
            Place::Imported(aperture) => {
                let outbound = aperture.outbound();
                let counts = outbound.as_ref().map(|o| &o.counts);
                counts.map_or(0, |c| c.atomic_load(slot as usize * 8))
            }
            Place::Owners(aperture) => aperture.count_on_owner(slot),
        }
    }
}

/// A tripwire, which its handle and the bit that it is reported by share.
pub(crate) struct TripwireCore {
    base: Arc<Base>,
    place: Place,
    pub mode: Mode,
    pub action: Action,
    pub source: u32,
    slot: u32,
    count_before: u64,
    armed: AtomicBool,
}

impl TripwireCore {
    /// Sets a tripwire, whose bit is `source`.
    pub fn set(
        base: &Arc<Base>,
        place: Place,
        source: u32,
        (offset, len_bytes): (usize, usize),
        (mode, action): (Mode, Action),
    ) -> Result<TripwireCore> {
        let flags = match action {
            Action::Enqueue { .. } => FLAG_ENQUEUE,
            Action::Count => FLAG_COUNT,
            Action::Wake => FLAG_WAKE,
        };
        let (slot, count_before) = place.arm(offset as u64, len_bytes as u64, source, flags)?;
        Ok(TripwireCore {
            base: Arc::clone(base),
            place,
            mode,
            action,
            source,
            slot,
            count_before,
            armed: AtomicBool::new(true),
        })
    }

    /// Its bit was found set: what to do for it, if it was still set.
    pub fn fired(&self) -> Option<Action> {
        let armed = match self.mode {
            // AcqRel pairs with itself: only one of firing and disarming takes it out.
            Mode::OneShot => self.armed.swap(false, Ordering::AcqRel),
            // Acquire pairs with the swap in `disarm`.
            Mode::Sticky => self.armed.load(Ordering::Acquire),
        };
        if !armed {
            return None;
        }
        if self.mode == Mode::OneShot {
            self.place.disarm(self.slot, self.source);
        }
        Some(self.action)
    }

    /// The aperture that it was set on, as events name it.
    pub fn aperture(&self) -> ApertureId {
        self.place.aperture()
    }

    /// Whether it is still set: not disarmed, and not a one-shot that has fired.
    pub fn is_armed(&self) -> bool {
        // Acquire pairs with the swap in `fired` and `disarm`.
        self.armed.load(Ordering::Acquire) && !self.has_counted()
    }

    /// How many transfers it has counted; a one-shot counts one at most.
    pub fn counted(&self) -> u64 {
        let count = self.place.count(self.slot).wrapping_sub(self.count_before);
        match self.mode {
            // Nobody is rung for a count, so nobody takes the tripwire out.
            Mode::OneShot => count.min(1),
            Mode::Sticky => count,
        }
    }

    /// Whether it is a one-shot that has done its counting.
    fn has_counted(&self) -> bool {
        self.mode == Mode::OneShot && self.action == Action::Count && self.counted() > 0
    }

    /// Whether somebody of this user could have made it fire.
    pub fn may_be_rung_by(&self, uid: u32) -> bool {
        match &self.place {
            Place::Own(aperture) => aperture.is_granted_to(uid),
            Place::Imported(_) => false,
            Place::Owners(aperture) => aperture.owned_by(uid),
        }
    }

    /// Takes it away.
    pub fn disarm(&self) {
        // A forked child shares the table with its parent, whose tripwire it is.
        if self.base.check_fork().is_err() {
            return;
        }
        // AcqRel pairs with itself: only one of firing and disarming takes it out.
        if self.armed.swap(false, Ordering::AcqRel) {
            self.place.disarm(self.slot, self.source);
        }
    }
}
