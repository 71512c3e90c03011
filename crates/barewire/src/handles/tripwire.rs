//! Tripwires: traps on a range of an aperture.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barewire_fabric::aperture::{Action, Mode};
use barewire_shm::watch::{ArmError, FLAG_COUNT, FLAG_ENQUEUE, FLAG_WAKE};

use crate::error::Result;
use crate::handles::aperture::{Aperture, ApertureShared, settle_watch};
use crate::handles::event::{ApertureId, Event};
use crate::handles::remote::{RemoteAperture, RemoteShared};
use crate::node::shared::Shared;
use crate::tables::state::Source;

/// Where a tripwire lies.
pub(crate) enum Place {
    /// On our own aperture: peers' puts fire it.
    Own(Arc<ApertureShared>),
    /// On an imported one: our own puts fire it.
    Imported(Arc<RemoteShared>),
    /// On an imported one: the owner's stores fire it.
    Owners(Arc<RemoteShared>),
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
            Place::Owners(aperture) => aperture.on_owner().count(slot),
        }
    }
}

pub(crate) struct TripwireShared {
    node: Arc<Shared>,
    place: Place,
    mode: Mode,
    action: Action,
    source: u32,
    slot: u32,
    count_before: u64,
    armed: AtomicBool,
}

impl TripwireShared {
    /// Its bit was found set.
    pub fn fired(&self) -> Option<Event> {
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
        match self.action {
            Action::Enqueue { cookie } => Some(Event::Tripwire {
                cookie,
                aperture: self.place.aperture(),
            }),
            Action::Count => None,
            Action::Wake => {
                self.node.note_woken();
                None
            }
        }
    }

    fn counted(&self) -> u64 {
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

    fn disarm(&self) {
        // A forked child shares the table with its parent, whose tripwire it is.
        if self.node.check_fork().is_err() {
            return;
        }
        // AcqRel pairs with itself: only one of firing and disarming takes it out.
        if self.armed.swap(false, Ordering::AcqRel) {
            self.place.disarm(self.slot, self.source);
        }
    }
}

impl Aperture {
    /// What events name it by.
    #[must_use]
    pub fn id(&self) -> ApertureId {
        self.0.id
    }
}

impl RemoteAperture {
    /// What events name it by; the same for all clones.
    #[must_use]
    pub fn id(&self) -> ApertureId {
        self.shared.id
    }
}

/// A tripwire that has been set. Dropping it disarms it.
pub struct Tripwire(Arc<TripwireShared>);

impl Tripwire {
    pub(crate) fn arm(
        node: &Arc<Shared>,
        place: Place,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        node.check_fork()?;
        let flags = match action {
            Action::Enqueue { .. } => FLAG_ENQUEUE,
            Action::Count => FLAG_COUNT,
            Action::Wake => FLAG_WAKE,
        };
        let source = node.state().add_source(Source::Free)?;
        let armed = place.arm(offset as u64, len_bytes as u64, source, flags);
        let (slot, count_before) = match armed {
            Ok(armed) => armed,
            Err(error) => {
                node.state().free_source(source);
                return Err(error);
            }
        };
        let shared = Arc::new(TripwireShared {
            node: Arc::clone(node),
            place,
            mode,
            action,
            source,
            slot,
            count_before,
            armed: AtomicBool::new(true),
        });
        let own = Source::Tripwire(Arc::clone(&shared));
        node.state().set_source(source, own);
        settle_watch();
        Ok(Tripwire(shared))
    }

    /// The aperture that it was set on, as events name it.
    #[must_use]
    pub fn aperture(&self) -> ApertureId {
        self.0.place.aperture()
    }

    /// Whether it is still set: not disarmed, and not a one-shot that has fired.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        // Acquire pairs with the swap in `fired` and `disarm`.
        self.0.armed.load(Ordering::Acquire) && !self.0.has_counted()
    }

    /// How many transfers it has counted (action [`Action::Count`]); a one-shot counts
    /// one at most.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.counted()
    }

    /// Takes it away. A transfer that is under way may still be reported.
    pub fn disarm(&self) {
        self.0.disarm();
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        self.0.disarm();
        self.0.node.state().free_source(self.0.source);
    }
}

impl core::fmt::Debug for Tripwire {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tripwire")
            .field("mode", &self.0.mode)
            .field("action", &self.0.action)
            .field("armed", &self.is_armed())
            .finish_non_exhaustive()
    }
}
