//! A node's receive memory for one link: memfd segments cut into regions.
//!
//! A sealed memfd can not grow, so an arena grows by further segments, each larger than
//! the last. Pages are only taken by the kernel when they are touched. A region that has
//! been given back is zeroed where a new connection looks first, and used again.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use barewire_fabric::frame::{CONTROL_BYTES, LINE_BYTES, region_bytes};
use barewire_shm::counters::RegionPlace;
use barewire_shm::{Region, Window};
use barewire_sys::SysError;
use barewire_sys::discover::ARENA_NAME;
use barewire_sys::memory::{Access, Memfd, Placement};

use crate::messages::control::RegionRef;

const SEGMENT_BYTES_FIRST: usize = 256 << 10;
const SEGMENT_BYTES_LARGEST: usize = 64 << 20;
/// Most segments of a link.
pub(crate) const SEGMENTS_MAX: u32 = 1024;

struct Segment {
    memfd: Memfd,
    /// For reading.
    region: Region,
    /// The same memory, for duplex lines.
    writable: Region,
    used_bytes: usize,
}

/// The segments of one link, and which parts of them are free.
#[derive(Default)]
pub(crate) struct Arena {
    segments: Vec<Segment>,
    free: HashMap<u32, Vec<RegionRef>>,
    /// Segments that the peer has been told of.
    announced: u32,
}

/// A region and our (read-only) window on it.
pub(crate) struct Allocated {
    pub region: RegionRef,
    pub window: Window,
    /// A window on it that we may write, too: for the duplex line and its run.
    pub line: Window,
    /// Where others of our user find it.
    pub place: Option<RegionPlace>,
}

impl Arena {
    /// A zeroed region with a ring of `ring_bytes`. New segments have to be announced
    /// to the peer ([`Arena::unannounced`]) before it hears of the region. They are placed as
    /// `placement` says.
    pub fn allocate(
        &mut self,
        ring_bytes: usize,
        placement: &Placement,
    ) -> Result<Allocated, SysError> {
        if let Some(region) = self.free.get_mut(&(ring_bytes as u32)).and_then(Vec::pop) {
            if let Some(allocated) = self.allocated(region) {
                return Ok(allocated);
            }
        }
        let bytes = region_bytes(ring_bytes);
        let room = |s: &Segment| s.region.len_bytes() - s.used_bytes >= bytes;
        if !self.segments.last().is_some_and(room) {
            self.add_segment(bytes, placement)?;
        }
        let number = self.segments.len() - 1;
        let segment = &mut self.segments[number];
        let region = RegionRef {
            segment: number as u32,
            offset: segment.used_bytes as u64,
            ring_bytes: ring_bytes as u32,
        };
        segment.used_bytes += bytes;
        self.allocated(region).ok_or(SysError::InvalidArgument {
            what: "cutting a region from a segment",
            reason: "it does not fit",
        })
    }

    fn allocated(&self, region: RegionRef) -> Option<Allocated> {
        let segment = self.segments.get(region.segment as usize)?;
        let fd_number = u32::try_from(segment.memfd.as_fd().as_raw_fd()).ok();
        let bytes = region_bytes(region.ring_bytes as usize);
        Some(Allocated {
            region,
            window: segment.region.window(region.offset as usize, bytes)?,
            line: segment.writable.window(region.offset as usize, bytes)?,
            place: fd_number.map(|fd_number| RegionPlace {
                fd_number,
                offset_bytes: region.offset,
            }),
        })
    }

    /// Whether that takes a new segment.
    pub fn must_grow(&self, ring_bytes: usize) -> bool {
        let is_free = self.free.get(&(ring_bytes as u32));
        let bytes = region_bytes(ring_bytes);
        let room = |s: &Segment| s.region.len_bytes() - s.used_bytes >= bytes;
        is_free.is_none_or(Vec::is_empty) && !self.segments.last().is_some_and(room)
    }

    fn add_segment(&mut self, at_least: usize, placement: &Placement) -> Result<(), SysError> {
        if self.segments.len() >= SEGMENTS_MAX as usize {
            return Err(SysError::InvalidArgument {
                what: "growing a link's receive memory",
                reason: "it has all the segments it may have",
            });
        }
        let step = SEGMENT_BYTES_FIRST << self.segments.len().min(8);
        let bytes = step.min(SEGMENT_BYTES_LARGEST).max(at_least);
        let bytes = placement.rounded_bytes(bytes.next_multiple_of(4096));
        let memfd = Memfd::create_sealed(ARENA_NAME, bytes)?;
        // Stores go remote, loads stay local, but for the duplex lines, which both sides write.
        let region = memfd.map_placed(Access::Read, placement)?;
        let writable = memfd.map(Access::ReadWrite)?;
        self.segments.push(Segment {
            memfd,
            region,
            writable,
            used_bytes: 0,
        });
        Ok(())
    }

    /// The next segment that the peer does not know yet: number, bytes, descriptor.
    pub fn unannounced(&mut self) -> Option<(u32, u64, BorrowedFd<'_>)> {
        let number = self.announced;
        let segment = self.segments.get(number as usize)?;
        self.announced += 1;
        let bytes = segment.region.len_bytes() as u64;
        Some((number, bytes, segment.memfd.as_fd()))
    }

    /// Takes a region back; neither side uses it any more.
    pub fn free(&mut self, region: RegionRef) {
        let Some(segment) = self.segments.get(region.segment as usize) else {
            return;
        };
        // The control line and the first header are what a fresh connection reads before
        // its peer has stored anything.
        let zeroed = CONTROL_BYTES + LINE_BYTES;
        if segment
            .memfd
            .pwrite_zeros(region.offset as usize, zeroed)
            .is_ok()
        {
            self.free.entry(region.ring_bytes).or_default().push(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_fabric::memory::{Incoming, Outgoing};
    use barewire_sys::memory::HugePages;

    const ANYWHERE: Placement = Placement {
        lock: false,
        numa_node: None,
        huge_pages: HugePages::Never,
    };

    #[test]
    fn regions_do_not_overlap_and_come_back_clean() {
        let mut arena = Arena::default();
        let mut taken = Vec::new();
        for i in 0..200 {
            let ring_bytes = 1024 << (i % 4);
            let allocated = arena.allocate(ring_bytes, &ANYWHERE).unwrap();
            let r = allocated.region;
            let range = r.offset..r.offset + region_bytes(ring_bytes) as u64;
            for (segment, other) in &taken {
                let other: &std::ops::Range<u64> = other;
                let apart = range.end <= other.start || other.end <= range.start;
                assert!(*segment != r.segment || apart);
            }
            taken.push((r.segment, range));
        }
        assert!(arena.segments.len() > 1);

        let allocated = arena.allocate(1024, &ANYWHERE).unwrap();
        let segment = &arena.segments[allocated.region.segment as usize];
        let peer = segment.memfd.map(Access::ReadWrite).unwrap();
        let peer = peer
            .window(allocated.region.offset as usize, region_bytes(1024))
            .unwrap();
        peer.write(0, &[0xff; CONTROL_BYTES + LINE_BYTES]);
        assert_eq!(allocated.window.observe_u64(64), u64::MAX);
        arena.free(allocated.region);
        let again = arena.allocate(1024, &ANYWHERE).unwrap();
        assert_eq!(again.region, allocated.region);
        for word in 0..(CONTROL_BYTES + LINE_BYTES) / 8 {
            assert_eq!(again.window.observe_u64(word * 8), 0);
        }
    }

    #[test]
    fn segments_are_announced_once() {
        let mut arena = Arena::default();
        assert!(arena.unannounced().is_none());
        arena.allocate(4096, &ANYWHERE).unwrap();
        assert_eq!(arena.unannounced().unwrap().0, 0);
        assert!(arena.unannounced().is_none());
        arena.allocate(1 << 20, &ANYWHERE).unwrap();
        assert_eq!(arena.unannounced().unwrap().0, 1);
    }
}
