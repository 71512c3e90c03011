//! The tripwires of a card: an associative memory whose entries name ranges of its host's
//! memory.
//!
//! OPEN in the source: an entry matches any byte of a range, of the host's own memory or of
//! what it stores into a peer's; it is one-shot or sticky, and does one of the [`Action`]s
//! that `barewire-fabric` names. A one-shot that has fired keeps its entry until it is taken
//! away.

use std::collections::BTreeMap;

use barewire_fabric::aperture::{Action, Mode};

/// An entry that has been set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(usize);

/// Why an entry can not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CamError {
    /// All entries are taken; how many there are.
    Full(usize),
    /// The range is empty.
    Empty,
}

/// Memory that a transfer may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A region of the own host, into which peers store.
    Own(usize),
    /// A region of another host, into which the own one stores.
    Peer {
        /// The host.
        host: u8,
        /// The region there.
        region: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    offset: usize,
    len_bytes: usize,
    mode: Mode,
    action: Action,
    armed: bool,
    count: u64,
}

impl Entry {
    fn touched_by(&self, offset: usize, len_bytes: usize) -> bool {
        self.armed
            && self.offset < offset.saturating_add(len_bytes)
            && offset < self.offset.saturating_add(self.len_bytes)
    }
}

/// The associative memory.
#[derive(Debug)]
pub struct Cam {
    capacity: usize,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// The entries of a region, so that a look-up takes no longer with many.
    by_place: BTreeMap<Place, Vec<usize>>,
}

impl Cam {
    /// A memory of `capacity` entries, none of them set.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Cam {
            capacity,
            entries: Vec::new(),
            free: Vec::new(),
            by_place: BTreeMap::new(),
        }
    }

    /// Sets an entry on `len_bytes` at `offset` of a region.
    ///
    /// # Errors
    /// No entry is free, or the range is empty.
    pub fn arm(
        &mut self,
        place: Place,
        (offset, len_bytes): (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<EntryId, CamError> {
        if len_bytes == 0 {
            return Err(CamError::Empty);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() < self.capacity => {
                self.entries.push(None);
                self.entries.len() - 1
            }
            None => return Err(CamError::Full(self.capacity)),
        };
        self.entries[index] = Some(Entry {
            place,
            offset,
            len_bytes,
            mode,
            action,
            armed: true,
            count: 0,
        });
        self.by_place.entry(place).or_default().push(index);
        Ok(EntryId(index))
    }

    /// Takes an entry away; what it has counted. To be called once for each.
    pub fn disarm(&mut self, id: EntryId) -> u64 {
        let Some(entry) = self.entries.get_mut(id.0).and_then(Option::take) else {
            return 0;
        };
        if let Some(indices) = self.by_place.get_mut(&entry.place) {
            indices.retain(|index| *index != id.0);
            if indices.is_empty() {
                self.by_place.remove(&entry.place);
            }
        }
        self.free.push(id.0);
        entry.count
    }

    /// Entries that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether a transfer can fire it.
    #[must_use]
    pub fn is_armed(&self, id: EntryId) -> bool {
        let entry = self.entries.get(id.0).copied().flatten();
        entry.is_some_and(|entry| entry.armed)
    }

    /// How many transfers an entry with [`Action::Count`] has counted.
    #[must_use]
    pub fn count(&self, id: EntryId) -> u64 {
        let entry = self.entries.get(id.0).copied().flatten();
        entry.map_or(0, |entry| entry.count)
    }

    /// Looks up a transfer and says what each entry that it touches does.
    pub fn touch(&mut self, place: Place, offset: usize, len_bytes: usize) -> Vec<Action> {
        let mut fired = Vec::new();
        for index in self.by_place.get(&place).into_iter().flatten() {
            let Some(entry) = &mut self.entries[*index] else {
                continue;
            };
            if entry.touched_by(offset, len_bytes) {
                entry.count += u64::from(entry.action == Action::Count);
                entry.armed = entry.mode == Mode::Sticky;
                fired.push(entry.action);
            }
        }
        fired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_a_range_fires_it_and_nothing_else() {
        let mut cam = Cam::new(3);
        let far = Place::Peer { host: 3, region: 1 };
        let enqueue = |cookie| Action::Enqueue { cookie };
        let once = cam
            .arm(Place::Own(1), (8, 8), Mode::OneShot, enqueue(1))
            .unwrap();
        let counter = cam
            .arm(Place::Own(1), (0, 64), Mode::Sticky, Action::Count)
            .unwrap();
        cam.arm(far, (0, 64), Mode::Sticky, enqueue(3)).unwrap();
        let full = cam.arm(Place::Own(0), (0, 1), Mode::Sticky, Action::Wake);
        assert_eq!(full, Err(CamError::Full(3)));
        assert_eq!(cam.touch(Place::Own(1), 0, 8), [Action::Count]);
        assert_eq!(
            cam.touch(Place::Own(1), 15, 100),
            [enqueue(1), Action::Count]
        );
        assert_eq!(cam.touch(Place::Own(1), 15, 100), [Action::Count]);
        assert_eq!(cam.touch(far, 63, 1), [enqueue(3)]);
        assert_eq!(
            (cam.touch(far, 64, 1), cam.touch(Place::Own(3), 0, 9)),
            (vec![], vec![])
        );
        assert_eq!(cam.count(counter), 3);
        assert!(!cam.is_armed(once) && cam.is_armed(counter));
        assert_eq!((cam.disarm(counter), cam.taken()), (3, 2));
        cam.disarm(once);
        assert_eq!(cam.touch(Place::Own(1), 0, 64), []);
        let empty = cam.arm(Place::Own(0), (0, 0), Mode::Sticky, Action::Wake);
        assert_eq!(empty, Err(CamError::Empty));
    }
}
