//! A completion queue. Reading it is what takes operations further.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::kinds::space;
use crate::border::{Constant, absent, guarded, only_closed_by};
use crate::engine::state::{Completion, pointer};
use crate::engine::worked;
use crate::raw::{
    self, Function, fi_cq_err_entry, fi_cq_tagged_entry, fi_ops, fi_ops_cq, fid, fid_cq, fid_domain,
};
use crate::space::{Queue, Space, place};

/// From so many reads on that found nothing, one after the other, while nothing happened in this process, the processor is
/// offered to others: as long as two
/// programs that have a processor each may take to answer.
const IDLE_BEFORE_YIELD: u32 = 4000;
/// Then at each of so many reads.
const READS_PER_YIELD: u32 = 8;

#[repr(C)]
pub(super) struct CompletionQueue {
    fid: fid_cq,
    space: Arc<Space>,
    pub(super) queue: usize,
    /// The bytes of an entry as the program wants it: as much of the longest form.
    entry_bytes: usize,
}

static OPS: Constant<fi_ops> = only_closed_by(close as Function);

static QUEUE: Constant<fi_ops_cq> = Constant(fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: read as Function,
    readfrom: readfrom as Function,
    readerr: readerr as Function,
    sread: sread as Function,
    sreadfrom: sreadfrom as Function,
    signal: absent as Function,
    strerror: strerror as Function,
});

/// Makes the object.
///
/// # Safety
/// `domain` is one of this provider, `attr` one of libfabric's, `queue` leads to a place for a pointer.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut raw::fi_cq_attr,
    queue: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric gives it, or nothing.
        let attr = unsafe { attr.as_ref() };
        let format = attr.map_or(raw::FI_CQ_FORMAT_UNSPEC, |attr| attr.format);
        let words = match format {
            raw::FI_CQ_FORMAT_UNSPEC | raw::FI_CQ_FORMAT_TAGGED => 6,
            raw::FI_CQ_FORMAT_CONTEXT => 1,
            raw::FI_CQ_FORMAT_MSG => 3,
            raw::FI_CQ_FORMAT_DATA => 5,
            _ => return Err(raw::FI_ENOSYS),
        };
        match attr.map_or(raw::FI_WAIT_NONE, |attr| attr.wait_obj) {
            raw::FI_WAIT_NONE | raw::FI_WAIT_UNSPEC | raw::FI_WAIT_YIELD => {}
            _ => return Err(raw::FI_ENOSYS),
        }
        // SAFETY: a domain of this provider.
        let space = unsafe { space(domain) };
        let place = place(&mut space.lock().queues, Queue::default());
        let made = Box::new(CompletionQueue {
            fid: fid_cq {
                fid: fid {
                    fclass: raw::FI_CLASS_CQ,
                    context,
                    ops: &OPS.0,
                },
                ops: &QUEUE.0,
            },
            space,
            queue: place,
            entry_bytes: words * size_of::<u64>(),
        });
        // SAFETY: the caller gives a place for it.
        unsafe { *queue = Box::into_raw(made).cast() };
        Ok(0)
    })
}

/// Closes the object.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guarded(|| {
        // SAFETY: `open` made it, and it was not closed.
        let queue = unsafe { &*fid.cast::<CompletionQueue>() };
        let mut inner = queue.space.lock();
        let of = inner.queues[queue.queue].as_ref();
        if of.is_some_and(|of| !of.endpoints.is_empty()) {
            return Err(raw::FI_EBUSY);
        }
        inner.queues[queue.queue] = None;
        drop(inner);
        // SAFETY: `open` made it so, and libfabric closes an object once.
        drop(unsafe { Box::from_raw(fid.cast::<CompletionQueue>()) });
        Ok(0)
    })
}

/// Reads at most `count` entries. If there are none, lets others run from time to time.
///
/// # Safety
/// There is room for as many at `entries`, and for as many numbers at `sources` unless that is null.
#[inline]
unsafe fn take(
    queue: &CompletionQueue,
    entries: *mut u8,
    count: usize,
    sources: *mut u64,
) -> Result<isize, c_int> {
    let mut inner = queue.space.lock();
    let give = |at: usize, done: &Completion, source: u64| {
        let entry = fi_cq_tagged_entry {
            op_context: done.context.0,
            flags: done.flags,
            len: done.len,
            buf: pointer(done.buf),
            data: done.data,
            tag: done.tag,
        };
        // SAFETY: the entry of the caller is as long, and the beginning of this one.
        unsafe {
            let into = entries.add(at * queue.entry_bytes);
            match queue.entry_bytes == size_of::<fi_cq_tagged_entry>() {
                true => into.cast::<fi_cq_tagged_entry>().write_unaligned(entry),
                false => {
                    let from = (&raw const entry).cast();
                    std::ptr::copy_nonoverlapping(from, into, queue.entry_bytes);
                }
            }
        }
        if !sources.is_null() {
            // SAFETY: there is room for as many numbers.
            unsafe { *sources.add(at) = source };
        }
    };
    let taken = inner.read(queue.queue, count, !sources.is_null(), give)?;
    let of = inner.queue(queue.queue)?;
    if taken > 0 {
        of.idle = 0;
        return Ok(taken as isize);
    }
    let seen = worked();
    if std::mem::replace(&mut of.seen, seen) != seen {
        of.idle = 0;
    }
    of.idle = of.idle.saturating_add(1);
    let gives = of.idle > IDLE_BEFORE_YIELD && of.idle % READS_PER_YIELD == 0;
    drop(inner);
    if gives {
        std::thread::yield_now();
    }
    Err(raw::FI_EAGAIN)
}

/// Reads entries for a call of the program.
///
/// # Safety
/// The queue is one of this provider, and there is room as for [`take`].
unsafe fn answer(cq: *mut fid_cq, entries: *mut c_void, count: usize, sources: *mut u64) -> isize {
    guarded(|| {
        // SAFETY: the caller got it from `open`, and has not closed it.
        let queue = unsafe { &*cq.cast::<CompletionQueue>() };
        // SAFETY: the caller gives room for them.
        unsafe { take(queue, entries.cast(), count, sources) }
    })
}

/// Reads entries.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn read(cq: *mut fid_cq, entries: *mut c_void, count: usize) -> isize {
    // SAFETY: libfabric says that there is room for as many.
    unsafe { answer(cq, entries, count, std::ptr::null_mut()) }
}

/// Reads entries, with their senders.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    entries: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> isize {
    // SAFETY: libfabric says that there is room for as many.
    unsafe { answer(cq, entries, count, sources) }
}

/// Waits until there is something to read.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    entries: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: as those of `sreadfrom`.
    unsafe { sreadfrom(cq, entries, count, std::ptr::null_mut(), cond, timeout_ms) }
}

/// Waits until there is something to read, and lets others run meanwhile.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    entries: *mut c_void,
    count: usize,
    sources: *mut u64,
    _cond: *const c_void,
    timeout_ms: c_int,
) -> isize {
    let begun = Instant::now();
    let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    loop {
        // SAFETY: libfabric says that there is room for as many.
        let taken = unsafe { answer(cq, entries, count, sources) };
        let passed = limit.is_some_and(|limit| begun.elapsed() >= limit);
        if taken != -(raw::FI_EAGAIN as isize) || passed {
            return taken;
        }
    }
}

/// Reads an entry of failure: 1, or an error if there is none.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
unsafe extern "C" fn readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry, _flags: u64) -> isize {
    guarded(|| {
        // SAFETY: the caller got it from `open`, and has not closed it.
        let queue = unsafe { &*cq.cast::<CompletionQueue>() };
        let mut inner = queue.space.lock();
        let done = inner.read_failure(queue.queue)?;
        // SAFETY: libfabric gives an entry to be filled. What its version has besides stays.
        let entry = unsafe { &mut *entry };
        entry.op_context = done.context.0;
        entry.flags = done.flags;
        entry.len = done.len;
        entry.buf = pointer(done.buf);
        entry.data = done.data;
        entry.tag = done.tag;
        entry.olen = done.over;
        entry.err = done.error;
        entry.prov_errno = done.error;
        entry.err_data = std::ptr::null_mut();
        entry.err_data_size = 0;
        Ok(1)
    })
}

/// What an error number of this provider means. They are those of libfabric.
///
/// # Safety
/// It is called by libfabric's rules, with an object of this provider and memory as large as it says.
pub(super) unsafe extern "C" fn strerror(
    _queue: *mut c_void,
    error: c_int,
    _data: *const c_void,
    text: *mut c_char,
    len: usize,
) -> *const c_char {
    let meaning = match error {
        raw::FI_ECONNRESET => c"the peer has gone",
        raw::FI_EHOSTUNREACH => c"nobody has this address",
        raw::FI_ETRUNC => c"the message is longer than its buffer",
        raw::FI_ECANCELED => c"canceled",
        raw::FI_ENOMSG => c"no such message",
        _ => c"an error of the network",
    };
    if !text.is_null() && len > 0 {
        let bytes = meaning.to_bytes();
        let some = bytes.len().min(len - 1);
        // SAFETY: there are `len` bytes of room, which is more than is written.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), text.cast(), some);
            *text.add(some) = 0;
        }
    }
    meaning.as_ptr()
}
