//! The io_urings whose entries the library inspects before the kernel gets them.
//!
//! For one made by `io_uring_setup` the library maps the submission queue a second time, and unmaps it
//! when the program closes the io_uring. The entries of one made by liburing are read where the program has
//! them, through its `struct io_uring`. Such an io_uring is only noted here, so that it does not count as one
//! that the library has not seen.
//!
//! The mapping must not outlive the io_uring: while it is mapped, closing its last descriptor neither frees
//! it nor cancels its calls in progress.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use barewire_calls::memory::{map as map_file, unmap};

use crate::process::lock::Lock;
use crate::process::memory;
use crate::process::words::{AtStart, Guarded, Lone};
use crate::system::cancel::quietly;

/// Entries that are about to be submitted.
pub struct Queue {
    pub entries: *mut u8,
    /// Which entry comes when; null: in their order.
    pub array: *const u32,
    pub mask: u32,
    /// Entries are 128 bytes long, not 64.
    pub is_wide: bool,
    /// Of a ring that is polled for storage: nothing else works there.
    pub is_polled: bool,
    pub first: u32,
    pub count: u32,
}

/// Rings at a time; one more and the process is the kernel's, as with a ring that cannot be looked at.
/// PostgreSQL makes one for each of its processes before it starts them.
const WATCHED_MAX: usize = 1024;

/// `struct io_uring_params` (linux/io_uring.h), as far as it is read here.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Params {
    entries: u32,
    results: u32,
    pub flags: u32,
    others: [u32; 7],
    head: u32,
    tail: u32,
    mask: u32,
    ring_entries: u32,
    ring_flags: u32,
    dropped: u32,
    array: u32,
}

/// Flags of a ring.
pub const POLLED: u32 = 1;
pub const WIDE_ENTRIES: u32 = 1 << 10;
pub const IN_PROGRAMS_MEMORY: u32 = 1 << 14;
pub const NO_DESCRIPTOR: u32 = 1 << 15;
const NO_ARRAY: u32 = 1 << 16;
/// Flags of rings whose entries can be looked at in the call that submits them. Not among them: a
/// thread of the kernel's submits (`SQPOLL`), entries of two sizes (`SQE_MIXED`), and what is not known.
const KNOWN: u32 = POLLED | 0x3ff8 | NO_ARRAY | 1 << 17 | 1 << 18;
/// As above, of liburing's: it has the queue in its own structure, wherever it is.
const KNOWN_OF_LIBRARY: u32 = KNOWN | IN_PROGRAMS_MEMORY | NO_DESCRIPTOR;

const OFFSET_OF_QUEUE: libc::off_t = 0;
const OFFSET_OF_ENTRIES: libc::off_t = 0x1000_0000;

/// Whether the entries of a ring with these flags can be looked at.
pub const fn can_be(flags: u32) -> bool {
    flags & !KNOWN == 0
}

/// As above, of a ring of liburing's.
pub const fn can_be_of_library(flags: u32) -> bool {
    flags & !KNOWN_OF_LIBRARY == 0
}

/// One ring. All words but `submitting` are written under [`LOCK`].
struct Ring {
    /// Its descriptor plus 1; 0: this place is free.
    fd: Guarded<AtomicI32>,
    /// The program has closed it while a thread was in a call that submits.
    is_closed: AtomicU32,
    /// The mappings, or 0: of the queue and of the entries.
    queue: Guarded<AtomicUsize>,
    queue_bytes: Guarded<AtomicUsize>,
    entries: Guarded<AtomicUsize>,
    entries_bytes: Guarded<AtomicUsize>,
    /// Offsets in the mapping of the queue; of the array 0 if there is none.
    head: Guarded<AtomicU32>,
    tail: Guarded<AtomicU32>,
    array: Guarded<AtomicU32>,
    mask: Guarded<AtomicU32>,
    flags: Guarded<AtomicU32>,
    /// Entries before this one were looked at.
    seen: Guarded<AtomicU32>,
    /// Threads that are in a call that submits.
    submitting: AtomicU32,
}

impl Ring {
    /// A word of the queue, at this offset; `None` if it is not mapped.
    fn word(&self, at: &Guarded<AtomicU32>) -> Option<u32> {
        let queue = self.queue.get();
        let at = at.get() as usize;
        // Acquire pairs with the Release with which the kernel stores its head, and the program its tail.
        // SAFETY: mapped under the lock, which the caller has, and longer than the kernel's offsets.
        (queue != 0)
            .then(|| unsafe { (*((queue + at) as *const AtomicU32)).load(Ordering::Acquire) })
    }

    /// Whether the kernel has got entries that nobody looked at.
    fn is_used_unseen(&self) -> bool {
        let seen = self.seen.get();
        self.word(&self.head)
            .is_some_and(|head| head.wrapping_sub(seen) as i32 > 0)
    }

    #[cold]
    fn unmap_if_closed(&self) {
        let _held = LOCK.hold();
        if self.was_closed() && !self.is_submitting() {
            self.unmap();
        }
    }

    /// Under the lock.
    fn was_closed(&self) -> bool {
        // Relaxed: it is written under the lock.
        self.is_closed.load(Ordering::Relaxed) != 0
    }

    /// Under the lock.
    fn is_submitting(&self) -> bool {
        // Relaxed: it grows under the lock only. Who takes it down to 0 looks behind that whether the ring is closed.
        self.submitting.load(Ordering::Relaxed) != 0
    }

    /// Under the lock, or without other threads.
    fn forget_submitting(&self) {
        // Relaxed: no thread submits.
        self.submitting.store(0, Ordering::Relaxed);
    }

    fn unmap(&self) {
        for (at, bytes) in [
            (&self.queue, &self.queue_bytes),
            (&self.entries, &self.entries_bytes),
        ] {
            let at = at.swap(0);
            if at != 0 {
                // SAFETY: mapped with this length by `set_up`, and looked at by nobody.
                unsafe { unmap(at as *mut c_void, bytes.get()) };
            }
        }
        // Relaxed: under the lock.
        self.is_closed.store(0, Ordering::Relaxed);
        self.fd.set(0);
        COUNT.sub(1);
    }
}

static LOCK: Lock = Lock::new();
/// The places; null if there are none. Not a variable of its own: what lies beside it is written at each fork,
/// and would be spread over many pages.
static RINGS: AtStart<AtomicPtr<Ring>> = AtStart::new(AtomicPtr::new(null_mut()));
/// How many there are: what each close looks at.
static COUNT: Lone<AtomicU32> = Lone::new(AtomicU32::new(0));
/// Places that were ever taken: those behind are free. Under the lock.
static USED: Guarded<AtomicUsize> = Guarded::new(AtomicUsize::new(0));

const RINGS_BYTES: usize = WATCHED_MAX * size_of::<Ring>();
/// Bytes that [`reserve`] takes.
pub const PRIVATE_BYTES: usize = memory::private_bytes(RINGS_BYTES);

/// Reserves the places. Without them no ring is looked at.
pub fn reserve() -> bool {
    let rings = memory::part_private(RINGS_BYTES);
    RINGS.set(rings.unwrap_or(null_mut()).cast());
    rings.is_some()
}

/// For a process that has no ring, and gives the tables' memory back.
pub fn forget_places() {
    USED.set(0);
    RINGS.set(null_mut());
}

fn places() -> &'static [Ring] {
    let rings = RINGS.get();
    if rings.is_null() {
        return &[];
    }
    // SAFETY: reserved for as many, and never unmapped while it leads there; zeros are valid, and nothing is
    // reached but by atomics.
    unsafe { core::slice::from_raw_parts(rings, WATCHED_MAX) }
}

fn used() -> &'static [Ring] {
    let places = places();
    &places[..USED.get().min(places.len())]
}

/// A child has one thread, which submits nothing.
pub fn after_fork() {
    LOCK.reset();
    for ring in used() {
        ring.forget_submitting();
    }
}

fn ring_of(fd: c_int) -> Option<&'static Ring> {
    let is_it = |ring: &&Ring| fd >= 0 && ring.fd.get() == fd + 1 && !ring.was_closed();
    used().iter().find(is_it)
}

/// Whether there is any. Without the lock: who makes one at this moment has submitted nothing.
#[inline]
pub fn are_there() -> bool {
    COUNT.get() != 0
}

/// Whether the entries of a ring are looked at.
pub fn is_watched(fd: c_int) -> bool {
    are_there() && LOCK.hold().is_some_and(|_held| ring_of(fd).is_some())
}

/// A ring of liburing's, which is looked at in the program's memory. `false`: there is no place for it.
pub fn note(fd: c_int, flags: u32) -> bool {
    let Some(_held) = LOCK.hold() else {
        return false;
    };
    enter(fd, flags).is_some()
}

fn enter(fd: c_int, flags: u32) -> Option<&'static Ring> {
    // The one that had this descriptor was closed past us.
    if let Some(old) = ring_of(fd) {
        retire(old);
    }
    let is_free = |it: &Ring| it.fd.get() == 0;
    let places = places();
    let place = places.iter().position(is_free)?;
    USED.set(USED.get().max(place + 1));
    let ring = &places[place];
    ring.fd.set(fd.checked_add(1)?);
    ring.flags.set(flags);
    ring.seen.set(0);
    ring.forget_submitting();
    COUNT.add(1);
    Some(ring)
}

/// A ring has been made by `io_uring_setup`. `false`: its entries cannot be looked at.
pub fn set_up(fd: c_int, params: &Params) -> bool {
    if !can_be(params.flags) {
        return false;
    }
    let has_array = params.flags & NO_ARRAY == 0;
    let stride = 64 << u32::from(params.flags & WIDE_ENTRIES != 0);
    let words = if has_array {
        params.entries as usize
    } else {
        0
    };
    let last = [params.head, params.tail, params.mask].into_iter().max();
    let queue_bytes = last.unwrap_or(0) as usize + 4;
    let queue_bytes = queue_bytes.max(params.array as usize + words * 4);
    let entries_bytes = params.entries as usize * stride;
    let Some(_held) = LOCK.hold() else {
        return false;
    };
    let Some(ring) = enter(fd, params.flags) else {
        return false;
    };
    let queue = map(fd, queue_bytes, OFFSET_OF_QUEUE);
    let entries = map(fd, entries_bytes, OFFSET_OF_ENTRIES);
    ring.queue.set(queue as usize);
    ring.queue_bytes.set(queue_bytes);
    ring.entries.set(entries as usize);
    ring.entries_bytes.set(entries_bytes);
    ring.head.set(params.head);
    ring.tail.set(params.tail);
    let array = if has_array { params.array } else { 0 };
    ring.array.set(array);
    let mask = params.entries.wrapping_sub(1);
    ring.mask.set(mask);
    let is_mapped = !queue.is_null() && !entries.is_null();
    if !is_mapped {
        ring.unmap();
    }
    is_mapped
}

/// A part of a ring; null if it cannot be had.
fn map(fd: c_int, bytes: usize, offset: libc::off_t) -> *mut c_void {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_POPULATE,
    );
    // SAFETY: a new mapping, at an address that the kernel chooses.
    unsafe { map_file(null_mut(), bytes, rights, flags, fd, offset) }.unwrap_or(null_mut())
}

/// The descriptor of a ring is about to be closed, or the entries are not to be looked at any more.
pub fn closing(fd: c_int) {
    if !are_there() {
        return;
    }
    let Some(_held) = LOCK.hold() else { return };
    if let Some(ring) = ring_of(fd) {
        retire(ring);
    }
}

/// As above, of all from `first` to `last`.
pub fn closing_range(first: u32, last: u32) {
    if !are_there() {
        return;
    }
    let Some(_held) = LOCK.hold() else { return };
    for ring in used() {
        let fd = ring.fd.get() - 1;
        if u32::try_from(fd).is_ok_and(|fd| (first..=last).contains(&fd)) {
            retire(ring);
        }
    }
}

/// The place is free; not before the last call that submits has returned.
fn retire(ring: &Ring) {
    // SeqCst pairs, here and below, with the two in the drop of `Submission`: one of the two threads sees the other.
    ring.is_closed.store(1, Ordering::SeqCst);
    if ring.submitting.load(Ordering::SeqCst) == 0 {
        ring.unmap();
    }
}

/// A call that submits is in progress, until this is dropped.
pub struct Submission(&'static Ring);

impl Drop for Submission {
    fn drop(&mut self) {
        // SeqCst pairs, here and below, with the two in `retire`. Who looked at the entries is done.
        let before = self.0.submitting.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.is_closed.load(Ordering::SeqCst) != 0 {
            quietly(|| self.0.unmap_if_closed());
        }
    }
}

/// The next `count` entries of a ring are about to be submitted. `None`: they cannot be looked at,
/// or it cannot be known that they are these: another thread submits entries of the same ring, there
/// are not as many, or some were submitted unseen before.
pub fn begin(fd: c_int, count: u32) -> Option<(Submission, Queue)> {
    let _held = LOCK.hold()?;
    let ring = ring_of(fd)?;
    let (head, tail) = (ring.word(&ring.head)?, ring.word(&ring.tail)?);
    if ring.is_submitting() || ring.is_used_unseen() || tail.wrapping_sub(head) < count {
        return None;
    }
    ring.seen.set(head.wrapping_add(count));
    // Relaxed: under the lock, which `retire` takes before it looks.
    ring.submitting.fetch_add(1, Ordering::Relaxed);
    let array = ring.array.get() as usize;
    let at = ring.queue.get() + array;
    let flags = ring.flags.get();
    let queue = Queue {
        entries: ring.entries.get() as *mut u8,
        array: if array == 0 { 0 } else { at } as *const u32,
        mask: ring.mask.get(),
        is_wide: flags & WIDE_ENTRIES != 0,
        is_polled: flags & POLLED != 0,
        first: head,
        count,
    };
    Some((Submission(ring), queue))
}

/// Entries of a ring of liburing's are submitted up to this one, and were looked at.
pub fn looked(fd: c_int, until: u32) {
    if let Some(_held) = LOCK.hold() {
        if let Some(ring) = ring_of(fd) {
            ring.seen.set(until);
        }
    }
}

/// Whether the kernel has got entries of any ring that nobody looked at.
pub fn are_used_unseen() -> bool {
    let is_used = |ring: &Ring| ring.fd.get() != 0 && ring.is_used_unseen();
    are_there() && LOCK.hold().is_some_and(|_held| used().iter().any(is_used))
}
