//! Memory that is shared with the kernel, through which frames come and go.

use std::ptr::{NonNull, null_mut};

use barewire_calls::{Errno as Number, memory};

/// A mapping.
#[derive(Debug)]
pub(super) struct Area {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: an `Area` is an address range that it alone unmaps. Whoever has it, has all of this process's pointers into it.
unsafe impl Send for Area {}

impl Area {
    /// Memory of this process.
    pub(super) fn private(len_bytes: usize) -> Result<Self, Number> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_POPULATE;
        Self::new(memory::map_new(len_bytes, protection, flags)?, len_bytes)
    }

    /// A part of what a socket has to be mapped.
    pub(super) fn of_socket(fd: i32, at_bytes: i64, len_bytes: usize) -> Result<Self, Number> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses a free range.
        let base = unsafe { memory::map(null_mut(), len_bytes, protection, flags, fd, at_bytes) };
        Self::new(base?, len_bytes)
    }

    fn new(base: *mut std::ffi::c_void, len_bytes: usize) -> Result<Self, Number> {
        let base = NonNull::new(base.cast()).ok_or(libc::ENOMEM)?;
        Ok(Self { base, len_bytes })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Whether these bytes are all in it.
    pub(super) fn has(&self, at: usize, len_bytes: usize) -> bool {
        at.checked_add(len_bytes)
            .is_some_and(|end| end <= self.len_bytes)
    }

    /// Copies out what is at `at`, as much as `into` has room for. The bytes are this process's: the kernel has given them
    /// back. `false`: they are not all in the area.
    #[must_use]
    pub(super) fn copy_out(&self, at: usize, into: &mut [u8]) -> bool {
        if !self.has(at, into.len()) {
            return false;
        }
        // SAFETY: the range is in the mapping, and `into` is no part of it: nobody gets a reference into that.
        unsafe {
            let from = self.base.as_ptr().add(at);
            from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
        true
    }

    /// Copies bytes to `at`, where the kernel does not read or write now. `false`: they would not all be in the area.
    #[must_use]
    pub(super) fn copy_in(&mut self, at: usize, bytes: &[u8]) -> bool {
        if !self.has(at, bytes.len()) {
            return false;
        }
        // SAFETY: the range is in the mapping, and `bytes` is no part of it: nobody gets a reference into that.
        unsafe {
            let to = self.base.as_ptr().add(at);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        true
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the range is owned by `self`, and there are no pointers into it elsewhere in this process. The kernel
        // holds pages that it still uses by itself.
        unsafe { memory::unmap(self.base.as_ptr().cast(), self.len_bytes) };
    }
}
