//! Functions that wait: `poll`, `select`, `epoll_wait` and their variants.

use core::ffi::{c_int, c_void};

use barewire_calls::memory::unmap;
use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use crate::epoll::sets;
use crate::hooks::io::from_kernel;
use crate::process::{fault, memory};
use crate::stream::order;
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::{descriptors, slots};
use crate::upgrade::{enrol, steps};
use crate::wait::deadline::Deadline;
use crate::wait::{epoll_ctl, epoll_wait, poll};

/// The program's descriptors, if they can be read.
///
/// # Safety
/// `fds` points to `count` of them.
unsafe fn list<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    if !fault::is_watched()
        || count == 0
        || count > 1 << 20
        || !fault::can_read_aside(fds, count as usize * size_of::<pollfd>())
    {
        return None;
    }
    // SAFETY: as promised.
    Some(unsafe { core::slice::from_raw_parts_mut(fds, count as usize) })
}

/// Whether the library executes the wait: one of its sockets is among them, and nothing that the kernel
/// would refuse.
fn is_our_wait(fds: &[pollfd], mask: *const sigset_t) -> bool {
    poll::has_ours(fds) && is_mask_there(mask) && fault::can_write(fds.as_ptr(), size_of_val(fds))
}

fn is_mask_there(mask: *const sigset_t) -> bool {
    mask.is_null() || fault::can_read_aside(mask, real::KERNEL_MASK_BYTES)
}

/// Asks the kernel alone, and notes the sockets whose end it reports.
fn by_kernel(fds: &mut [pollfd], call: impl FnOnce(*mut pollfd) -> c_int) -> c_int {
    let result = call(fds.as_mut_ptr());
    if result > 0 {
        order::has_used_kernel();
        fds.iter_mut().for_each(poll::note_end);
    }
    result
}

fn poll_ours(fds: &mut [pollfd], deadline: Deadline, mask: *const sigset_t) -> c_int {
    real::keeping_errno(|| poll::poll(fds, deadline, mask))
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: the program's call, here and below.
    let call = |fds| unsafe { real::poll(fds, count, timeout_ms) };
    // SAFETY: the program's call.
    match unsafe { list(fds, count) } {
        Some(fds) if is_our_wait(fds, core::ptr::null()) => {
            poll_ours(fds, Deadline::in_ms(timeout_ms), core::ptr::null())
        }
        Some(fds) => by_kernel(fds, call),
        None => call(fds),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's call, here and below.
    let deadline = unsafe { deadline_of(timeout) };
    if is_nowhere(deadline) {
        return real::fail(libc::EFAULT) as c_int;
    }
    // SAFETY: the program's call.
    let call = |fds| unsafe { real::ppoll(fds, count, timeout, mask) };
    // SAFETY: the program's call.
    match (unsafe { list(fds, count) }, deadline) {
        (Some(fds), Ok(deadline)) if is_our_wait(fds, mask) => poll_ours(fds, deadline, mask),
        (Some(fds), _) => by_kernel(fds, call),
        (None, _) => call(fds),
    }
}

/// Why a time that the program passes is not read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoTime {
    /// There is no such memory. The C library would read it all the same.
    Nowhere,
    /// It is not a time, or there is no socket of ours: the kernel's affair.
    Kernels,
}

fn is_nowhere(deadline: Result<Deadline, NoTime>) -> bool {
    deadline.err() == Some(NoTime::Nowhere)
}

/// # Safety
/// `timeout` is null or the program's.
unsafe fn deadline_of(timeout: *const timespec) -> Result<Deadline, NoTime> {
    let time = if timeout.is_null() {
        None
    } else if fault::is_watched() {
        // SAFETY: as promised; any bytes are a time.
        Some(unsafe { fault::copy_aside(timeout) }.ok_or(NoTime::Nowhere)?)
    } else {
        return Err(NoTime::Kernels);
    };
    Deadline::after(time).ok_or(NoTime::Kernels)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    room: usize,
) -> c_int {
    if (room / size_of::<pollfd>()) < count as usize {
        std::process::abort();
    }
    // SAFETY: the program's call.
    unsafe { poll(fds, count, timeout_ms) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    if (room / size_of::<pollfd>()) < count as usize {
        std::process::abort();
    }
    // SAFETY: the program's call.
    unsafe { ppoll(fds, count, timeout, mask) }
}

// ----------------------------------------------------------------------------------- select

/// Descriptors of a `select` of the usual size, which are kept on the stack.
const FEW: usize = libc::FD_SETSIZE;
/// More than any program has.
const SELECT_MAX: usize = 1 << 20;

/// The three sets of a `select`; any may be null.
#[derive(Clone, Copy)]
struct Sets {
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
}

const READ_EVENTS: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND;
const WRITE_EVENTS: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;

const NONE: pollfd = pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

impl Sets {
    /// Whether the words for descriptors below `count` are there, as `look` finds.
    fn are_there(self, count: c_int, look: impl Fn(*const fd_set, usize) -> bool) -> bool {
        let bytes =
            (count.unsigned_abs() as usize).div_ceil(usize::BITS as usize) * size_of::<usize>();
        let mut sets = [self.read, self.write, self.except].into_iter();
        sets.all(|set| set.is_null() || look(set, bytes))
    }

    /// The sets as entries of a `poll`, in `room` for `count`. Returns how many there are.
    ///
    /// # Safety
    /// The sets are the program's, for descriptors below `count`.
    unsafe fn as_poll(self, count: c_int, room: &mut [pollfd]) -> usize {
        let mut used = 0;
        for fd in 0..count {
            // SAFETY: as promised.
            let is_in = |set: *mut fd_set| !set.is_null() && unsafe { has_bit(set, fd) };
            let events = if is_in(self.read) { READ_EVENTS } else { 0 }
                | if is_in(self.write) { WRITE_EVENTS } else { 0 }
                | if is_in(self.except) { libc::POLLPRI } else { 0 };
            if events != 0 {
                room[used] = pollfd {
                    fd,
                    events,
                    revents: 0,
                };
                used += 1;
            }
        }
        used
    }

    /// Writes the answer into the sets; returns the number of bits.
    ///
    /// # Safety
    /// As for [`Sets::as_poll`].
    unsafe fn answer(self, fds: &[pollfd]) -> c_int {
        let ends = libc::POLLHUP | libc::POLLERR;
        let mut bits = 0;
        for (set, asked, means) in [
            (self.read, READ_EVENTS, READ_EVENTS | ends),
            (self.write, WRITE_EVENTS, WRITE_EVENTS | libc::POLLERR),
            (self.except, libc::POLLPRI, libc::POLLPRI),
        ] {
            for poll in fds.iter().filter(|poll| poll.events & asked != 0) {
                // SAFETY: as promised; a set that was asked for is not null.
                unsafe {
                    if poll.revents & means == 0 {
                        clear_bit(set, poll.fd);
                    } else {
                        bits += 1;
                    }
                }
            }
        }
        bits
    }
}

/// Room for many, from the kernel.
struct Pages {
    at: *mut c_void,
    count: usize,
}

impl Pages {
    fn new(count: usize) -> Option<Self> {
        let at = memory::reserve_private(count * size_of::<pollfd>())?;
        Some(Self { at, count })
    }

    fn room(&mut self) -> &mut [pollfd] {
        // SAFETY: as many zeros, which are valid, and ours until the drop.
        unsafe { core::slice::from_raw_parts_mut(self.at.cast(), self.count) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and borrowed by nobody.
        unsafe { unmap(self.at, self.count * size_of::<pollfd>()) };
    }
}

const WORD_BITS: usize = usize::BITS as usize;

/// # Safety
/// The set has room for the descriptor.
unsafe fn has_bit(set: *const fd_set, fd: c_int) -> bool {
    let fd = fd.unsigned_abs() as usize;
    // SAFETY: as promised. Sets are words of this size.
    unsafe { set.cast::<usize>().add(fd / WORD_BITS).read_unaligned() >> (fd % WORD_BITS) & 1 != 0 }
}

/// # Safety
/// Removes a descriptor from a set.
unsafe fn clear_bit(set: *mut fd_set, fd: c_int) {
    let fd = fd.unsigned_abs() as usize;
    // SAFETY: as above.
    unsafe {
        let word = set.cast::<usize>().add(fd / WORD_BITS);
        word.write_unaligned(word.read_unaligned() & !(1 << (fd % WORD_BITS)));
    }
}

/// `None`: the kernel's alone.
///
/// # Safety
/// The sets are the program's.
unsafe fn select_ours(
    count: c_int,
    sets: Sets,
    deadline: Option<Deadline>,
    mask: *const sigset_t,
) -> Option<c_int> {
    let deadline = deadline?;
    let is_looked_at = fault::is_watched() && count > 0 && count as usize <= SELECT_MAX;
    if !is_looked_at || !sets.are_there(count, fault::can_read_aside) {
        return None;
    }
    let mut few = [NONE; FEW];
    // Not of the heap: a handler of a signal may call this.
    let mut many = None;
    let room = if count as usize <= FEW {
        &mut few[..]
    } else {
        many.insert(Pages::new(count as usize)?).room()
    };
    // SAFETY: as promised.
    let used = unsafe { sets.as_poll(count, room) };
    let fds = &mut room[..used];
    if !is_our_wait(fds, mask) || !sets.are_there(count, fault::can_write) {
        return None;
    }
    let ready = poll_ours(fds, deadline, mask);
    if ready < 0 {
        return Some(ready);
    }
    if fds.iter().any(|poll| poll.revents & libc::POLLNVAL != 0) {
        real::set_errno(libc::EBADF);
        return Some(-1);
    }
    // SAFETY: as promised.
    Some(unsafe { sets.answer(fds) })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let sets = Sets {
        read,
        write,
        except,
    };
    if !fault::is_watched() {
        // SAFETY: the program's call, here and below.
        return from_kernel(|| unsafe { real::select(count, read, write, except, timeout) });
    }
    let given = if timeout.is_null() {
        None
    } else {
        // SAFETY: the program's; any bytes are a time.
        match unsafe { fault::copy_aside(timeout) } {
            None => return real::fail(libc::EFAULT) as c_int,
            given => given,
        }
    };
    let time = given.map(|time| timespec {
        tv_sec: time.tv_sec.saturating_add(time.tv_usec / 1_000_000),
        tv_nsec: time.tv_usec % 1_000_000 * 1000,
    });
    let deadline = Deadline::after(time);
    // SAFETY: the program's call.
    let Some(result) = (unsafe { select_ours(count, sets, deadline, core::ptr::null()) }) else {
        // SAFETY: the program's call.
        return from_kernel(|| unsafe { real::select(count, read, write, except, timeout) });
    };
    // As Linux does: what is left of the time is told.
    if let Some(left) = deadline.and_then(Deadline::left) {
        let left = timeval {
            tv_sec: left.tv_sec,
            tv_usec: left.tv_nsec / 1000,
        };
        // To memory that is only to be read the kernel tells nothing either.
        if fault::can_write(timeout, size_of::<timeval>()) {
            // SAFETY: the program's, and it is there.
            unsafe { timeout.write_unaligned(left) };
        }
    }
    result
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = Sets {
        read,
        write,
        except,
    };
    // SAFETY: the program's call, here and below.
    unsafe {
        let deadline = deadline_of(timeout);
        if is_nowhere(deadline) {
            return real::fail(libc::EFAULT) as c_int;
        }
        match select_ours(count, sets, deadline.ok(), mask) {
            Some(result) => result,
            None => from_kernel(|| real::pselect(count, read, write, except, timeout, mask)),
        }
    }
}

// ------------------------------------------------------------------------------------ epoll

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: no pointers.
    created(steps::with_room(|| unsafe { real::epoll_create(size) }))
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: no pointers.
    created(steps::with_room(|| unsafe { real::epoll_create1(flags) }))
}

fn created(set: c_int) -> c_int {
    if set >= 0 && !slots::is_hidden() {
        quietly(|| sets::created(set));
    }
    set
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if operation == libc::EPOLL_CTL_ADD && descriptors::find(fd).is_none() {
        enrol::before_connect_if_new(fd);
    }
    // SAFETY: the program's call.
    real::keeping_errno(|| unsafe { epoll_ctl::control(set, operation, fd, event) })
}

/// As [`wait_in_set`], for a program without room for events: an event then is an error.
#[cold]
fn wait_without_room(set: c_int, deadline: Deadline, mask: *const sigset_t) -> c_int {
    let mut room = [epoll_event { events: 0, u64: 0 }];
    match real::keeping_errno(|| epoll_wait::wait(set, &mut room, deadline, mask)) {
        1.. => real::fail(libc::EFAULT) as c_int,
        none => none,
    }
}

/// Waits for events of a set, by `kernel` if it has no sockets of ours.
///
/// # Safety
/// `events` points to room for `count` of them; `mask` is null or the program's.
unsafe fn wait_in_set(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    deadline: Deadline,
    mask: *const sigset_t,
    kernel: impl FnOnce() -> c_int,
) -> c_int {
    let sleeping = sets::sleeping(set);
    let is_known = count > 0 && sets::is_known(set);
    if is_known && !is_mask_there(mask) {
        return real::fail(libc::EFAULT) as c_int;
    }
    if is_known && !fault::can_write(events, size_of::<epoll_event>()) {
        return wait_without_room(set, deadline, mask);
    }
    let mut got = 0;
    if !is_known {
        got = kernel();
        if got <= 0 || !sets::is_known(set) {
            return got;
        }
    }
    drop(sleeping);
    // SAFETY: as promised.
    let room = unsafe { core::slice::from_raw_parts_mut(events, count.unsigned_abs() as usize) };
    // Sockets of ours have come into it while it slept.
    real::keeping_errno(|| {
        match epoll_wait::filter_all(set, &mut room[..got.unsigned_abs() as usize]) {
            0 => epoll_wait::wait(set, room, deadline, mask),
            left => left as c_int,
        }
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
) -> c_int {
    let deadline = Deadline::in_ms(timeout_ms);
    // SAFETY: the program's call, here and below.
    unsafe {
        wait_in_set(set, events, count, deadline, core::ptr::null(), || {
            from_kernel(|| real::epoll_wait(set, events, count, timeout_ms))
        })
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let deadline = Deadline::in_ms(timeout_ms);
    // SAFETY: the program's call, here and below.
    unsafe {
        wait_in_set(set, events, count, deadline, mask, || {
            from_kernel(|| real::epoll_pwait(set, events, count, timeout_ms, mask))
        })
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's call, here and below.
    unsafe {
        let kernel = || from_kernel(|| real::epoll_pwait2(set, events, count, timeout, mask));
        match deadline_of(timeout) {
            Ok(deadline) => wait_in_set(set, events, count, deadline, mask, kernel),
            Err(_) => kernel(),
        }
    }
}
