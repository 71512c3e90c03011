//! Settings of an aperture, its number, and the sizes of the memory that goes with it.

use std::sync::atomic::{AtomicU64, Ordering};

use barewire_fabric::aperture::Rights;
use barewire_shm::watch;

use crate::error::{Error, Result};

/// Largest aperture, in bytes.
pub const APERTURE_BYTES_MAX: usize = 1 << 36;
/// Most tripwires on one side of one aperture.
pub const TRIPWIRES_MAX: u32 = 1 << 20;

/// Settings of an aperture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApertureConfig {
    /// Its size in bytes.
    pub len_bytes: usize,
    /// What peers may do with it.
    pub rights: Rights,
    /// How many tripwires may be set on it at a time, by its owner.
    pub tripwires_max: u32,
}

impl ApertureConfig {
    /// Of this size and rights, for up to 1024 tripwires.
    #[must_use]
    pub fn new(len_bytes: usize, rights: Rights) -> ApertureConfig {
        ApertureConfig {
            len_bytes,
            rights,
            tripwires_max: 1024,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let limits = [
            (
                "aperture bytes",
                self.len_bytes as u64,
                1,
                APERTURE_BYTES_MAX as u64,
            ),
            (
                "tripwires of an aperture",
                u64::from(self.tripwires_max),
                0,
                u64::from(TRIPWIRES_MAX),
            ),
        ];
        for (what, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(Error::OutOfLimits {
                    what,
                    value,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }
}

/// An aperture, as its handles name it ([`Aperture::id`](crate::Aperture::id),
/// [`RemoteAperture::id`](crate::RemoteAperture::id)): each aperture of a process has another, and none is used again.
/// The two ends of an aperture have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApertureId(u64);

impl ApertureId {
    /// One that nothing has had yet.
    pub(crate) fn next() -> ApertureId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only has to be another number each time.
        ApertureId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// As a number, where a program keeps numbers: other languages do.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

impl core::fmt::Display for ApertureId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bytes of a page of memory.
pub(crate) const PAGE: usize = 4096;

/// Bytes of the counts for so many tripwires: whole pages.
pub(crate) fn counts_bytes(slots: u32) -> usize {
    (slots.max(1) as usize * 8).next_multiple_of(PAGE)
}

/// Bytes of the table for so many tripwires: whole pages.
pub(crate) fn table_bytes(len_bytes: usize, slots: u32) -> usize {
    watch::table_bytes(len_bytes, slots).next_multiple_of(PAGE)
}
