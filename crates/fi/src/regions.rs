//! Memory regions: memory of this process that other endpoints may read and write, each under a key.
//!
//! A key is a random number, so that nobody reaches a region whose key he was not told. What a peer asks for is checked
//! here, on the side of the memory, each time.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::memory::Lent;
use crate::raw;

/// The regions of a domain, by key.
#[derive(Default)]
pub(crate) struct Regions(Mutex<HashMap<u64, Region>>);

struct Region {
    start: usize,
    len_bytes: usize,
    /// What peers may do: `FI_REMOTE_READ`, `FI_REMOTE_WRITE`.
    access: u64,
}

/// A part of a region, as a peer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: u64,
    /// Where it begins in the memory of the process that has the region.
    pub(crate) address: u64,
}

impl Regions {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a region, and returns its key.
    ///
    /// # Safety
    /// Until it is removed, these bytes must be there. That is what libfabric asks of a program.
    pub(crate) unsafe fn add(&self, start: usize, len_bytes: usize, access: u64) -> u64 {
        let mut regions = self.lock();
        let mut key = random();
        while key == 0 || regions.contains_key(&key) {
            key = random();
        }
        let region = Region {
            start,
            len_bytes,
            access,
        };
        regions.insert(key, region);
        key
    }

    pub(crate) fn remove(&self, key: u64) {
        self.lock().remove(&key);
    }

    /// The memory of a part of a region, if a peer may do that with it.
    ///
    /// # Errors
    /// `FI_ENOKEY`, or `FI_EACCES` if it is not in the region, or not for that.
    pub(crate) fn part(&self, place: Place, len_bytes: usize, access: u64) -> Result<Lent, c_int> {
        let regions = self.lock();
        let region = regions.get(&place.key).ok_or(raw::FI_ENOKEY)?;
        let address = usize::try_from(place.address).map_err(|_| raw::FI_EACCES)?;
        let offset = address.checked_sub(region.start).ok_or(raw::FI_EACCES)?;
        let room = region.len_bytes.checked_sub(offset);
        if room.is_none_or(|room| len_bytes > room) || region.access & access != access {
            return Err(raw::FI_EACCES);
        }
        let start = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: a part of what `add` was told of, and of nothing else. Who closes the region ends what uses it.
        Ok(unsafe { Lent::one(start, len_bytes) })
    }
}

/// A number that nobody can foresee. The kernel seeds the standard library's hashes with it.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_a_region_is_reached() {
        let regions = Regions::default();
        let memory = [0_u8; 100];
        let start = memory.as_ptr().expose_provenance();
        // SAFETY: it is there until the end.
        let key = unsafe { regions.add(start, 100, raw::FI_REMOTE_READ) };
        let part = |key, address: usize, len, access| {
            let place = Place {
                key,
                address: address as u64,
            };
            regions
                .part(place, len, access)
                .map(|lent| lent.len_bytes())
        };
        let read = raw::FI_REMOTE_READ;
        for (at, len) in [(0, 100), (0, 0), (100, 0), (99, 1), (40, 20)] {
            assert_eq!(part(key, start + at, len, read), Ok(len));
        }
        for (at, len) in [(0, 101), (1, 100), (100, 1), (101, 0), (50, usize::MAX)] {
            assert_eq!(part(key, start + at, len, read), Err(raw::FI_EACCES));
        }
        assert_eq!(part(key, start - 1, 1, read), Err(raw::FI_EACCES));
        assert_eq!(part(key, usize::MAX, 2, read), Err(raw::FI_EACCES));
        let write = raw::FI_REMOTE_WRITE;
        assert_eq!(part(key, start, 1, write), Err(raw::FI_EACCES));
        assert_eq!(part(key ^ 1, start, 1, read), Err(raw::FI_ENOKEY));
        regions.remove(key);
        assert_eq!(part(key, start, 1, read), Err(raw::FI_ENOKEY));
    }
}
