//! Registered memory: which addresses a VI may use, and which ones the other end may reach by RDMA.
//!
//! A VI and a region each have a protection tag. A VI uses only regions of its own tag. For RDMA, the VI has to allow
//! it, and the region too.

use alloc::collections::BTreeMap;

/// Who wants to use memory, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The program itself, by a data segment.
    Local,
    /// The other end writes.
    RemoteWrite,
    /// The other end reads.
    RemoteRead,
}

/// A region of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub start: u64,
    /// Its length in bytes, not 0.
    pub len_bytes: u64,
    /// Its protection tag.
    pub tag: u64,
    /// Whether the other end may write it.
    pub rdma_write: bool,
    /// Whether the other end may read it.
    pub rdma_read: bool,
}

/// All regions of a NIC, by their handles.
#[derive(Debug, Default)]
pub struct Regions {
    regions: BTreeMap<u32, Region>,
    last: u32,
}

impl Regions {
    /// No memory.
    #[must_use]
    pub fn new() -> Regions {
        Regions::default()
    }

    /// Registers a region. Returns its handle, which is never 0, or `None` if the region is empty, reaches beyond the
    /// end of memory, or there are `max` already.
    pub fn register(&mut self, region: Region, max: usize) -> Option<u32> {
        let ends = region.start.checked_add(region.len_bytes).is_some();
        if region.len_bytes == 0 || !ends || self.regions.len() >= max {
            return None;
        }
        // A handle comes again only after all others.
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            if !self.regions.contains_key(&self.last) {
                break;
            }
        }
        self.regions.insert(self.last, region);
        Some(self.last)
    }

    /// The region of this handle, if it begins at this address.
    #[must_use]
    pub fn get(&self, handle: u32, start: u64) -> Option<&Region> {
        let region = self.regions.get(&handle)?;
        (region.start == start).then_some(region)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, handle: u32, start: u64) -> Option<&mut Region> {
        let region = self.regions.get_mut(&handle)?;
        (region.start == start).then_some(region)
    }

    /// Forgets a region. Returns whether there was one.
    pub fn deregister(&mut self, handle: u32, start: u64) -> bool {
        self.get(handle, start).is_some() && self.regions.remove(&handle).is_some()
    }

    /// Whether a region has this tag.
    #[must_use]
    pub fn uses_tag(&self, tag: u64) -> bool {
        self.regions.values().any(|region| region.tag == tag)
    }

    /// Whether a VI with this tag may use so many bytes at this address.
    #[must_use]
    pub fn allows(&self, handle: u32, address: u64, len_bytes: u64, tag: u64, how: Access) -> bool {
        let Some(region) = self.regions.get(&handle) else {
            return false;
        };
        let inside = address >= region.start
            && address
                .checked_add(len_bytes)
                .is_some_and(|end| end <= region.start + region.len_bytes);
        let permitted = match how {
            Access::Local => true,
            Access::RemoteWrite => region.rdma_write,
            Access::RemoteRead => region.rdma_read,
        };
        inside && permitted && region.tag == tag
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }
}
