//! Cutting a mapping off from the memory it shares, in place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use barewire_shm::Region;

use super::mapping::{self, Access, Mapping};
use crate::error::Result;

/// A mapping of shared memory that can be cut off from its file, so that what
/// peers store afterwards is not seen here, while every [`Region`] stays valid.
pub struct DetachableMapping {
    /// The mapped memory; clones of it stay valid for as long as they are kept.
    pub region: Region,
    mapping: Arc<Mapping>,
    len_bytes: usize,
    access: Access,
    detached: Mutex<bool>,
}

impl std::fmt::Debug for DetachableMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("DetachableMapping");
        out.field("len_bytes", &self.len_bytes)
            .field("access", &self.access);
        out.field("detached", &self.is_detached())
            .finish_non_exhaustive()
    }
}

impl DetachableMapping {
    /// One of `mapping`, which is of `len_bytes` bytes and can be accessed like `access`.
    pub(super) fn new(
        mapping: Arc<Mapping>,
        len_bytes: usize,
        access: Access,
    ) -> DetachableMapping {
        DetachableMapping {
            region: mapping::region(mapping.clone(), len_bytes, access),
            mapping,
            len_bytes,
            access,
            detached: Mutex::new(false),
        }
    }

    /// The mapped memory.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Replaces the shared memory under the same addresses by a private copy
    /// of what it held. The copy is taken word by word (8 bytes, each whole)
    /// while peers may still be storing. Stores by other threads of this
    /// process between the copy and the switch are lost; later ones are kept.
    /// A second call does nothing. Costs memory of the same size.
    ///
    /// # Errors
    /// No memory or address space; the mapping is then still shared.
    pub fn detach(&self) -> Result<()> {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        if *detached {
            return Ok(());
        }
        let copy = Mapping::anonymous(self.len_bytes)?;
        copy_words(&self.mapping, &copy, self.len_bytes / 8);
        copy.move_over(&self.mapping, self.access)?;
        *detached = true;
        Ok(())
    }

    /// Whether [`DetachableMapping::detach`] has succeeded.
    pub fn is_detached(&self) -> bool {
        *self.detached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies `words` words of 8 bytes; words that are zero already stay untouched,
/// so that pages never used cost nothing.
fn copy_words(from: &Mapping, to: &Mapping, words: usize) {
    let (from, to) = (
        from.base().cast::<AtomicU64>(),
        to.base().cast::<AtomicU64>(),
    );
    for index in 0..words {
        // SAFETY: both mappings are page-aligned and hold at least `words`
        // words; both are alive, being borrowed; `from` is readable and `to`
        // is writable and known to nobody else.
        let (from, to) = unsafe { (from.add(index).as_ref(), to.add(index).as_ref()) };
        // Relaxed: a copy word by word; what peers write meanwhile may be in it or not.
        let value = from.load(Ordering::Relaxed);
        if value != 0 {
            // Relaxed: nobody else knows the new memory yet.
            to.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{HugePages, Memfd, Placement};

    const ANYWHERE: Placement = Placement {
        lock: false,
        numa_node: None,
        huge_pages: HugePages::Never,
    };

    fn word(mapping: &Mapping, index: usize) -> &AtomicU64 {
        assert!(index < 1024);
        // SAFETY: the tests map 8192 bytes, page-aligned, and keep them mapped.
        unsafe { mapping.base().cast::<AtomicU64>().add(index).as_ref() }
    }

    #[test]
    fn detached_memory_keeps_its_contents_and_sees_no_more_stores() {
        let memfd = Memfd::create_sealed("detach", 8192).unwrap();
        let peer = memfd.map_raw(Access::ReadWrite, &ANYWHERE).unwrap();
        let ours = memfd.map_detachable(Access::ReadWrite, &ANYWHERE).unwrap();
        let kept = ours.region.clone();
        word(&peer, 0).store(11, Ordering::Relaxed);
        word(&peer, 1023).store(22, Ordering::Relaxed);
        assert_eq!(word(&ours.mapping, 0).load(Ordering::Relaxed), 11);
        assert!(!ours.is_detached());

        ours.detach().unwrap();
        word(&peer, 0).store(99, Ordering::Relaxed);
        assert_eq!(word(&ours.mapping, 0).load(Ordering::Relaxed), 11);
        assert_eq!(word(&ours.mapping, 1023).load(Ordering::Relaxed), 22);
        word(&ours.mapping, 1).store(33, Ordering::Relaxed);
        assert_eq!(word(&peer, 1).load(Ordering::Relaxed), 0);

        ours.detach().unwrap();
        assert!(ours.is_detached());
        assert_eq!(word(&ours.mapping, 1).load(Ordering::Relaxed), 33);
        let mapping = ours.mapping.clone();
        drop(ours);
        assert_eq!(word(&mapping, 0).load(Ordering::Relaxed), 11);
        assert_eq!(kept.len_bytes(), 8192);
    }

    #[test]
    fn read_only_memory_can_be_detached() {
        let memfd = Memfd::create_sealed("detach-ro", 8192).unwrap();
        let peer = memfd.map_raw(Access::ReadWrite, &ANYWHERE).unwrap();
        word(&peer, 7).store(7, Ordering::Relaxed);
        let ours = memfd.map_detachable(Access::Read, &ANYWHERE).unwrap();
        ours.detach().unwrap();
        word(&peer, 7).store(8, Ordering::Relaxed);
        assert_eq!(word(&ours.mapping, 7).load(Ordering::Relaxed), 7);
        assert!(!ours.region.writable());
    }

    #[test]
    fn readers_meet_no_gap_while_memory_is_detached() {
        let memfd = Memfd::create_sealed("detach-race", 8192).unwrap();
        let peer = memfd.map_raw(Access::ReadWrite, &ANYWHERE).unwrap();
        word(&peer, 5).store(5, Ordering::Relaxed);
        for _ in 0..50 {
            let ours = memfd.map_detachable(Access::Read, &ANYWHERE).unwrap();
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let read = || word(&ours.mapping, 5).load(Ordering::Relaxed);
                    while !ours.is_detached() {
                        assert_eq!(read(), 5);
                    }
                    read()
                });
                ours.detach().unwrap();
                assert_eq!(reader.join().unwrap(), 5);
            });
        }
    }
}
