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
        check(self.len_bytes, offset, len_bytes)
    }

    #[inline]
    pub fn check_word(&self, offset: usize) -> Result<(), AccessError> {
        check_word(self.len_bytes, offset)
    }
}

/// Whether a range lies inside an aperture of so many bytes.
#[inline]
pub(crate) fn check(
    aperture_bytes: usize,
    offset: usize,
    len_bytes: usize,
) -> Result<(), AccessError> {
    if offset > aperture_bytes || aperture_bytes - offset < len_bytes {
        return Err(AccessError::OutOfRange {
            offset,
            len_bytes,
            aperture_bytes,
        });
    }
    Ok(())
}

/// Whether a word lies inside an aperture of so many bytes.
#[inline]
pub(crate) fn check_word(aperture_bytes: usize, offset: usize) -> Result<(), AccessError> {
    if offset % 8 != 0 {
        return Err(AccessError::Misaligned { offset });
    }
    check(aperture_bytes, offset, 8)
}
