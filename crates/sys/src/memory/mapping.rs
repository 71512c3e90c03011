//! One mapping in this process's address space, unmapped when dropped.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use barewire_calls::{self as calls, memory};
use barewire_shm::Region;

use crate::error::{Result, SysError, on};

/// How to map memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only; a store would end the process, so `Region` refuses it.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// A page-aligned mapping of `len_bytes` bytes, owned by this value.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<c_void>,
    len_bytes: usize,
}

// SAFETY: a `Mapping` is an address range it alone unmaps; it hands out the
// address but never touches the memory, so any thread may hold or drop it.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared `Mapping` gives out nothing but its address.
unsafe impl Sync for Mapping {}

fn prot(access: Access) -> c_int {
    match access {
        Access::Read => libc::PROT_READ,
        Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    }
}

impl Mapping {
    /// Maps `len_bytes` bytes (not zero) of a file, shared.
    pub(super) fn shared(fd: BorrowedFd<'_>, len_bytes: usize, access: Access) -> Result<Mapping> {
        let (prot, fd) = (prot(access), fd.as_raw_fd());
        // SAFETY: the kernel chooses a free range, so no existing object is touched.
        let base = unsafe { memory::map(null_mut(), len_bytes, prot, libc::MAP_SHARED, fd, 0) };
        Mapping::new("map shared memory (mmap)", base, len_bytes)
    }

    /// As [`Mapping::shared`], at an address that is a multiple of `align_bytes`, a power of
    /// two of at least a page.
    pub(super) fn shared_aligned(
        fd: BorrowedFd<'_>,
        len_bytes: usize,
        access: Access,
        align_bytes: usize,
    ) -> Result<Mapping> {
        const WHAT: &str = "map shared memory at a multiple of a huge page (mmap)";
        let room_bytes = len_bytes.next_multiple_of(rustix::param::page_size());
        let private = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let all_bytes = room_bytes + align_bytes;
        let room = memory::map_new(all_bytes, libc::PROT_NONE, private);
        let room = Mapping::new(WHAT, room, all_bytes)?;
        let before = room.base().align_offset(align_bytes);
        // SAFETY: `before` is less than `align_bytes`, so the range lies in `room`, which nobody
        // else knows and which nothing lies in.
        let base = unsafe {
            let at = room.base().as_ptr().add(before).cast();
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            memory::map(at, len_bytes, prot(access), flags, fd.as_raw_fd(), 0)
        };
        let mapping = Mapping::new(WHAT, base, len_bytes)?;
        let (room, behind) = (room.leak(), before + room_bytes);
        Mapping::unmap_part(room, 0, before);
        Mapping::unmap_part(room, behind, all_bytes - behind);
        Ok(mapping)
    }

    /// Gives back a part of a range that was given up by [`Mapping::leak`] and holds nothing.
    fn unmap_part(room: NonNull<u8>, at: usize, len_bytes: usize) {
        if len_bytes > 0 {
            // SAFETY: the caller owns the range, which nobody has a pointer to. Should it fail,
            // it just stays reserved.
            unsafe { memory::unmap(room.as_ptr().add(at).cast(), len_bytes) };
        }
    }

    /// Maps `len_bytes` bytes (not zero) of zeroed memory of this process alone.
    pub(super) fn anonymous(len_bytes: usize) -> Result<Mapping> {
        let base = memory::map_new(len_bytes, prot(Access::ReadWrite), libc::MAP_PRIVATE);
        Mapping::new("map private memory (mmap)", base, len_bytes)
    }

    fn new(
        what: &'static str,
        base: calls::Result<*mut c_void>,
        len_bytes: usize,
    ) -> Result<Mapping> {
        let base = base.map_err(on(what))?;
        let base = NonNull::new(base).ok_or(SysError::new(what, libc::ENOMEM))?;
        Ok(Mapping { base, len_bytes })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base.cast()
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Gives up the ownership: the range is not unmapped any more.
    pub(super) fn leak(self) -> NonNull<u8> {
        let base = self.base();
        std::mem::forget(self);
        base
    }

    /// Moves this mapping over `target`, in place of what is mapped there. To
    /// other threads it happens at once. Fails without having changed
    /// anything that anyone uses.
    pub(super) fn move_over(self, target: &Mapping, access: Access) -> Result<()> {
        const WHAT: &str = "cut a mapping off from its peers (mremap)";
        let (from, len) = (self.base.as_ptr(), self.len_bytes);
        if len != target.len_bytes {
            return Err(SysError::InvalidArgument {
                what: WHAT,
                reason: "the lengths differ",
            });
        }
        // SAFETY: `from` for `len` bytes is the mapping owned by `self`, to
        // which nobody else has a pointer.
        unsafe { memory::protect(from, len, prot(access)) }.map_err(on(WHAT))?;
        let flags = rustix::mm::MremapFlags::MAYMOVE;
        // SAFETY: `from` is owned by `self`; the target range is kept mapped
        // by `target`, and stays mapped, with the same length and access.
        // Both are accessed through raw pointers and atomics only, for which
        // other values turning up there is nothing new: it is shared memory.
        let moved =
            unsafe { rustix::mm::mremap_fixed(from, len, len, flags, target.base.as_ptr()) };
        moved.map_err(on(WHAT))?;
        // The range that `self` owned is gone; unmapping it could hit another.
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is owned by `self`; every `Region` into it holds
        // an `Arc` of this value, so with the last one no pointer is left.
        // Should it fail, the range just stays mapped.
        unsafe { memory::unmap(self.base.as_ptr(), self.len_bytes) };
    }
}

/// Wraps a mapping so that other crates can use it; it is kept while used.
pub(super) fn region(mapping: Arc<Mapping>, len_bytes: usize, access: Access) -> Region {
    let base = mapping.base();
    let len = len_bytes.min(mapping.len_bytes);
    // SAFETY: `base` is page-aligned and mapped for `len` bytes with `access`
    // until the owner handed over here, the mapping itself, is dropped.
    unsafe { Region::new(base, len, access == Access::ReadWrite, mapping) }
}
