//! The tripwires of a card: an associative memory whose entries name ranges of its host's
//! memory.
//!
//! OPEN in the source: an entry matches any byte of a range, is one-shot or sticky, and
//! does one of the [`Action`]s that `barewire-fabric` names.

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

#[derive(Clone, Copy, Debug)]
struct Entry {
    region: usize,
    offset: usize,
    len_bytes: usize,
    mode: Mode,
    action: Action,
    count: u64,
}

impl Entry {
    fn touched_by(&self, region: usize, offset: usize, len_bytes: usize) -> bool {
        self.region == region
            && self.offset < offset.saturating_add(len_bytes)
            && offset < self.offset.saturating_add(self.len_bytes)
    }
}

/// The associative memory.
#[derive(Debug)]
pub struct Cam {
    entries: Vec<Option<Entry>>,
}

impl Cam {
    /// A memory of `capacity` entries, none of them set.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Cam {
            entries: vec![None; capacity],
        }
    }

    /// Sets an entry on `len_bytes` at `offset` of a region.
    ///
    /// # Errors
    /// No entry is free, or the range is empty.
    pub fn arm(
        &mut self,
        region: usize,
        (offset, len_bytes): (usize, usize),
        mode: Mode,
        action: Action,
    ) -> Result<EntryId, CamError> {
        if len_bytes == 0 {
            return Err(CamError::Empty);
        }
        let full = CamError::Full(self.entries.len());
        let free = self.entries.iter().position(Option::is_none).ok_or(full)?;
        self.entries[free] = Some(Entry {
            region,
            offset,
            len_bytes,
            mode,
            action,
            count: 0,
        });
        Ok(EntryId(free))
    }

    /// Takes an entry away.
    pub fn disarm(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(id.0) {
            *entry = None;
        }
    }

    /// How many transfers an entry with [`Action::Count`] has counted.
    #[must_use]
    pub fn count(&self, id: EntryId) -> u64 {
        let entry = self.entries.get(id.0).copied().flatten();
        entry.map_or(0, |entry| entry.count)
    }

    /// Looks up a transfer and says what each entry that it touches does.
    pub fn touch(&mut self, region: usize, offset: usize, len_bytes: usize) -> Vec<Action> {
        let mut fired = Vec::new();
        for place in &mut self.entries {
            let Some(entry) = place.as_mut() else {
                continue;
            };
            if !entry.touched_by(region, offset, len_bytes) {
                continue;
            }
            entry.count += u64::from(entry.action == Action::Count);
            fired.push(entry.action);
            if entry.mode == Mode::OneShot {
                *place = None;
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
        let enqueue = |cookie| Action::Enqueue { cookie };
        let once = cam.arm(1, (8, 8), Mode::OneShot, enqueue(1)).unwrap();
        let counter = cam.arm(1, (0, 64), Mode::Sticky, Action::Count).unwrap();
        cam.arm(2, (0, 64), Mode::Sticky, enqueue(3)).unwrap();
        let full = cam.arm(0, (0, 1), Mode::Sticky, Action::Wake);
        assert_eq!(full, Err(CamError::Full(3)));
        assert_eq!(cam.touch(1, 0, 8), [Action::Count]);
        assert_eq!(cam.touch(1, 15, 100), [enqueue(1), Action::Count]);
        assert_eq!(cam.touch(1, 15, 100), [Action::Count]);
        assert_eq!(cam.touch(2, 63, 1), [enqueue(3)]);
        assert_eq!((cam.touch(2, 64, 1), cam.touch(3, 0, 9)), (vec![], vec![]));
        assert_eq!(cam.count(counter), 3);
        cam.disarm(counter);
        cam.disarm(once);
        assert_eq!(cam.touch(1, 0, 64), []);
        let empty = cam.arm(0, (0, 0), Mode::Sticky, Action::Wake);
        assert_eq!(empty, Err(CamError::Empty));
    }
}
