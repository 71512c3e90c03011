//! The bytes of an aperture, with their bounds.

use barewire_fabric::aperture::AccessError;
use barewire_shm::Window;

/// Bounds-checked access to the bytes of an aperture, from whichever side.
#[derive(Clone)]
pub(crate) struct Bytes {
    pub window: Window,
    pub len_bytes: usize,
}

impl Bytes {
    #[inline]
    pub fn check(&self, offset: usize, len_bytes: usize) -> Result<(), AccessError> {
        if offset > self.len_bytes || self.len_bytes - offset < len_bytes {
            return Err(AccessError::OutOfRange {
                offset,
                len_bytes,
                aperture_bytes: self.len_bytes,
            });
        }
        Ok(())
    }

    #[inline]
    pub fn check_word(&self, offset: usize) -> Result<(), AccessError> {
        if offset % 8 != 0 {
            return Err(AccessError::Misaligned { offset });
        }
        self.check(offset, 8)
    }
}
