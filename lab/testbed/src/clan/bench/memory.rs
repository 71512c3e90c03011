//! Apertures of a host with a card.
//!
//! | access | the owner | the importer |
//! |---|---|---|
//! | put | in its memory | a store by the processor where one entry of the write buffer holds it, else a transfer by the card |
//! | get, load | in its memory | asked of the owner's card |
//! | store | in its memory | a store by the processor |
//! | add, exchange | in its memory | asked of the owner's card, which holds its host's bus |
//!
//! All go the same way in order. The owner's card keeps a table of what peers may do. To
//! revoke, the owner first closes its table and then stores a word where the importer
//! looks before each access, so that it is told rather than ignored.

use barewire_fabric::aperture::{AccessError, Action, Mode, Notice, Rights, Trap, TripwireSet};
use barewire_fabric::memory::{Incoming, Outgoing};
use barewire_models::clan::{CamError, Memory, Operation, Place, Transfer};

use super::clock::{Clock, Inner, Patience, Target};
use super::clocks;
use super::events::CardQueue;
use crate::error::SystemError;

/// A word, non-zero once the aperture has been taken away.
const REVOKED: usize = 0;

/// What both ends know.
#[derive(Clone)]
struct Shape {
    clock: Clock,
    len_bytes: usize,
    region: usize,
    /// In the importer's memory.
    control: usize,
}

impl Shape {
    fn check(&self, offset: usize, len_bytes: usize) -> Result<(), AccessError> {
        let end = offset.checked_add(len_bytes);
        if end.is_some_and(|end| end <= self.len_bytes) {
            return Ok(());
        }
        Err(AccessError::OutOfRange {
            offset,
            len_bytes,
            aperture_bytes: self.len_bytes,
        })
    }

    fn check_word(&self, offset: usize) -> Result<(), AccessError> {
        if offset % 8 != 0 {
            return Err(AccessError::Misaligned { offset });
        }
        self.check(offset, 8)
    }

    fn arm(
        &self,
        place: Place,
        range: (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<CardTrap, NoTripwire> {
        self.check(range.0, range.1).map_err(NoTripwire::Outside)?;
        let notice = match action {
            Action::Enqueue { cookie } => Notice::Tripwire { cookie },
            Action::Count | Action::Wake => Notice::Other,
        };
        let armed = self.clock.arm(place, range, mode, (action, notice));
        Ok(CardTrap {
            number: armed.map_err(NoTripwire::Cam)?,
            clock: self.clock.clone(),
        })
    }
}

/// Why the card can not set a tripwire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTripwire {
    /// The range does not lie in the aperture.
    Outside(AccessError),
    /// The associative memory does not take it.
    Cam(CamError),
}

/// A tripwire of the card.
pub struct CardTrap {
    clock: Clock,
    number: u32,
}

impl Trap for CardTrap {
    fn is_armed(&self) -> bool {
        self.clock.inspect(self.number).0
    }
    fn count(&self) -> u64 {
        self.clock.inspect(self.number).1
    }
    fn disarm(&self) {
        self.clock.disarm(self.number);
    }
}

impl Drop for CardTrap {
    fn drop(&mut self) {
        self.clock.give_back(self.number);
    }
}

/// The owner's end of an aperture.
pub struct Exported(Shape);

/// An importer's end of an aperture.
pub struct Imported {
    shape: Shape,
    rights: Rights,
    entry_bytes: usize,
}

/// An end of an aperture, and the event queue of its host.
pub type ApertureEnd<M> = (M, CardQueue);

/// An aperture of zeros, of the first host for the second.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn aperture(
    parameters: &str,
    len_bytes: usize,
    rights: Rights,
    patience: Patience,
) -> Result<(ApertureEnd<Exported>, ApertureEnd<Imported>), SystemError> {
    let [near, far] = clocks(parameters)?;
    let entry_bytes = super::Parameters::parse(parameters)?.write_entry_bytes();
    let region = near.memory().add_region_for(len_bytes, rights);
    let control = far.memory().add_region(64);
    let shape = |clock: &Clock| Shape {
        clock: clock.clone(),
        len_bytes,
        region,
        control,
    };
    let exported = Exported(shape(&near));
    let imported = Imported {
        shape: shape(&far),
        rights,
        entry_bytes,
    };
    Ok((
        (exported, CardQueue::new(near, patience)),
        (imported, CardQueue::new(far, patience)),
    ))
}

impl Exported {
    /// Takes the aperture away from its importer, and returns when that has been told.
    pub fn revoke(&self) {
        let shape = &self.0;
        let memory = shape.clock.memory();
        memory.close_region(shape.region);
        let told = memory.stores(1 - shape.clock.host, shape.control, 64);
        told.publish_u64(REVOKED, 1);
        shape.clock.lock().drain();
    }

    /// The host's own accesses: time goes on, and nothing comes between.
    fn with<T>(&self, access: impl FnOnce(&Memory) -> T) -> T {
        let mut inner = self.0.clock.lock();
        let host = self.0.clock.host;
        inner.go_on(host);
        let found = access(&inner.cabinet.hosts[host as usize].memory);
        drop(inner);
        found
    }

    fn operate(&self, offset: usize, operation: Operation) -> (Vec<u8>, bool) {
        let region = self.0.region;
        let found = self.with(|memory| memory.operate_locally(region, offset, operation));
        found.expect("checked before")
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// A word that was found, as an exchange tells it.
fn exchanged(found: u64, current: u64) -> Result<u64, u64> {
    if found == current {
        Ok(found)
    } else {
        Err(found)
    }
}

impl barewire_fabric::aperture::Memory for Exported {
    fn len_bytes(&self) -> usize {
        self.0.len_bytes
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.check(offset, bytes.len())?;
        let region = self.0.region;
        self.with(|memory| memory.store_locally(region, offset, bytes));
        Ok(())
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.0.check(offset, into.len())?;
        let region = self.0.region;
        self.with(|memory| memory.loads(region).read(offset, into));
        Ok(())
    }

    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.0.check_word(offset)?;
        Ok(word(&self.operate(offset, Operation::Load(8)).0))
    }

    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.0.check_word(offset)?;
        self.put(offset, &value.to_ne_bytes())
    }

    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        self.0.check_word(offset)?;
        Ok(word(&self.operate(offset, Operation::Add(value)).0))
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        self.0.check_word(offset)?;
        let (found, _) = self.operate(offset, Operation::Exchange(current, new));
        Ok(exchanged(word(&found), current))
    }
}

impl TripwireSet for Exported {
    type Trap = CardTrap;
    type Error = NoTripwire;

    fn arm(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<CardTrap, NoTripwire> {
        let place = Place::Own(self.0.region);
        self.0.arm(place, (offset, len_bytes), mode, action)
    }
}

impl Imported {
    fn target(&self, offset: usize) -> Target {
        Target {
            host: 1 - self.shape.clock.host,
            region: self.shape.region,
            offset,
        }
    }

    fn place(&self) -> Place {
        Place::Peer {
            host: 1 - self.shape.clock.host,
            region: self.shape.region,
        }
    }

    /// Something that the owner may have forbidden.
    fn with<T>(
        &self,
        stores: bool,
        access: impl FnOnce(&mut Inner, u8) -> T,
    ) -> Result<T, AccessError> {
        if stores && self.rights == Rights::Read {
            return Err(AccessError::ReadOnly);
        }
        let mut inner = self.shape.clock.lock();
        let host = self.shape.clock.host;
        let memory = inner.cabinet.hosts[host as usize].memory.clone();
        if memory.loads(self.shape.control).read_u64(REVOKED) != 0 {
            return Err(AccessError::Revoked);
        }
        Ok(access(&mut inner, host))
    }

    /// What the owner's card does, and what was there.
    fn operate(&self, offset: usize, operation: Operation) -> Result<Vec<u8>, AccessError> {
        let stores = !matches!(operation, Operation::Load(_));
        let answer = self.with(stores, |inner, host| {
            let target = self.target(offset);
            let found = inner.operate(host, target, operation)?;
            let changed = match operation {
                Operation::Load(_) => false,
                Operation::Add(_) => true,
                Operation::Exchange(current, _) => word(&found) == current,
            };
            if changed {
                // Only now does the card know that it was a transfer.
                let cam = inner.cabinet.hosts[host as usize].interface.cam();
                let fired = cam.touch(self.place(), offset, 8);
                inner.cabinet.fire(host, fired, &mut inner.sim);
            }
            Some(found)
        })?;
        answer.ok_or(AccessError::Revoked)
    }
}

impl barewire_fabric::aperture::Memory for Imported {
    fn len_bytes(&self) -> usize {
        self.shape.len_bytes
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.shape.check(offset, bytes.len())?;
        self.with(true, |inner, host| {
            if bytes.is_empty() {
                return;
            }
            let target = self.target(offset);
            let entry = offset / self.entry_bytes;
            if entry == (offset + bytes.len() - 1) / self.entry_bytes {
                let memory = &inner.cabinet.hosts[host as usize].memory;
                let stores = memory.stores(target.host, target.region, self.shape.len_bytes);
                stores.write(offset, bytes);
                return inner.go_on(host);
            }
            let transfer = Transfer {
                to: target.host,
                region: target.region,
                offset,
                bytes: bytes.to_vec(),
            };
            inner.transfer(host, transfer);
        })
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.shape.check(offset, into.len())?;
        if into.is_empty() {
            return self.with(false, |_, _| ());
        }
        let found = self.operate(offset, Operation::Load(into.len()))?;
        into.copy_from_slice(&found);
        Ok(())
    }

    fn load(&self, offset: usize) -> Result<u64, AccessError> {
        self.shape.check_word(offset)?;
        Ok(word(&self.operate(offset, Operation::Load(8))?))
    }

    fn store(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.shape.check_word(offset)?;
        self.put(offset, &value.to_ne_bytes())
    }

    fn add(&self, offset: usize, value: u64) -> Result<u64, AccessError> {
        self.shape.check_word(offset)?;
        Ok(word(&self.operate(offset, Operation::Add(value))?))
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, AccessError> {
        self.shape.check_word(offset)?;
        let found = self.operate(offset, Operation::Exchange(current, new))?;
        Ok(exchanged(word(&found), current))
    }
}

impl TripwireSet for Imported {
    type Trap = CardTrap;
    type Error = NoTripwire;

    fn arm(
        &self,
        offset: usize,
        len_bytes: usize,
        mode: Mode,
        action: Action,
    ) -> Result<CardTrap, NoTripwire> {
        self.shape
            .arm(self.place(), (offset, len_bytes), mode, action)
    }
}
