//! Memory of the program: descriptors that it has posted, and registered memory that they name.
//!
//! Who calls has found the memory in the table of registered regions. The program promises with the registration that
//! it is there until it is deregistered, and with a descriptor that it leaves the data alone until that is done.

use barewire_proto::via::descriptor::{
    CONTROL_BYTES, Control, SEGMENT_BYTES, SEGMENTS_MAX, Segment, status,
};

/// Where the status of a descriptor begins, and what lies in front of it.
const STATUS_AT: usize = 28;
const LENGTH_AT: usize = 24;
const IMMEDIATE_AT: usize = 20;

/// A descriptor of the program, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor(pub(crate) usize);

impl Descriptor {
    fn at(self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut::<u8>(self.0).wrapping_add(offset)
    }

    /// Its control segment.
    ///
    /// # Safety
    /// The program has the memory of it.
    pub(crate) unsafe fn control(self) -> Control {
        let mut bytes = [0; CONTROL_BYTES];
        // SAFETY: the caller says that there are as many bytes. The copy is private, so it is read once.
        unsafe { std::ptr::copy_nonoverlapping(self.at(0), bytes.as_mut_ptr(), CONTROL_BYTES) };
        Control::read(&bytes)
    }

    /// Its segments, as many as a descriptor may have at most.
    ///
    /// # Safety
    /// The program has the memory of so many.
    pub(crate) unsafe fn segments(self, count: u16) -> Vec<Segment> {
        let each = (0..usize::from(count.min(SEGMENTS_MAX))).map(|nth| {
            let mut bytes = [0; SEGMENT_BYTES];
            let from = self.at(CONTROL_BYTES + nth * SEGMENT_BYTES);
            // SAFETY: the caller says that there are as many.
            unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), SEGMENT_BYTES) };
            Segment::read(&bytes)
        });
        each.collect()
    }

    /// Writes what became of it, the status last.
    ///
    /// # Safety
    /// The program has the memory of it: its region is still registered.
    pub(crate) unsafe fn finish(self, len_bytes: u32, immediate: Option<u32>, status: u32) {
        let put = |offset, value: u32| {
            // SAFETY: the control segment has these four bytes. Nobody has a reference to them.
            unsafe { self.at(offset).cast::<u32>().write_volatile(value.to_le()) };
        };
        put(LENGTH_AT, len_bytes);
        if let Some(immediate) = immediate {
            put(IMMEDIATE_AT, immediate);
        }
        // Release: who sees the status sees the data and the length. Pairs with what the program does.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        put(STATUS_AT, status | status::DONE);
    }
}

/// Shows the bytes of segments, one after the other, with their offset.
///
/// # Safety
/// All of it is registered memory of the program.
pub(crate) unsafe fn gather(segments: &[Segment], mut each: impl FnMut(usize, &[u8])) {
    let mut at = 0;
    for segment in segments.iter().filter(|segment| segment.len_bytes > 0) {
        let len_bytes = segment.len_bytes as usize;
        let start = std::ptr::with_exposed_provenance::<u8>(segment.address as usize);
        // SAFETY: the caller says that the memory is there; the program does not write it until the send is done.
        each(at, unsafe { std::slice::from_raw_parts(start, len_bytes) });
        at += len_bytes;
    }
}

/// Has the first `len_bytes` of segments written, one after the other, with their offset.
///
/// # Safety
/// All of it is registered memory of the program.
pub(crate) unsafe fn scatter(
    segments: &[Segment],
    len_bytes: usize,
    mut each: impl FnMut(usize, &mut [u8]),
) {
    let mut at = 0;
    for segment in segments.iter().filter(|segment| segment.len_bytes > 0) {
        let part = (len_bytes - at).min(segment.len_bytes as usize);
        if part == 0 {
            return;
        }
        let start = std::ptr::with_exposed_provenance_mut::<u8>(segment.address as usize);
        // SAFETY: the caller says that the memory is there; the program leaves it alone until the descriptor is done,
        // or, where the other end writes by RDMA, has agreed to that by the registration.
        each(at, unsafe { std::slice::from_raw_parts_mut(start, part) });
        at += part;
    }
}
