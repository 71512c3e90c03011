//! This process and its threads: ids, time, giving way.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::zeroed;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::{memory, real};

/// The process that the tables of this library belong to. A child made by vfork shares
/// them, and has another id.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Children made by vfork that are at something of ours: they have their parent's variables, but ids
/// of their own. One that was killed is counted for good.
static BORROWERS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD_ID: Cell<u32> = const { Cell::new(0) };
}

/// In the constructor, and in a child after fork.
pub fn note_own_ids() {
    // SAFETY: no arguments, cannot fail.
    let id = unsafe { libc::getpid() };
    // Relaxed, here and below: compared for equality only.
    OWNER.store(id.unsigned_abs(), Ordering::Relaxed);
    BORROWERS.store(0, Ordering::Relaxed);
    THREAD_ID.with(|cell| cell.set(0));
}

/// The id of this process.
pub fn id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }.unsigned_abs()
}

/// Whether the caller is a child made by vfork, which borrows our memory.
pub fn is_borrower() -> bool {
    // SAFETY: no arguments, cannot fail.
    let id = unsafe { libc::getpid() };
    OWNER.load(Ordering::Relaxed) != id.unsigned_abs()
}

/// A child made by vfork has its own thread id until this is dropped, not its parent's.
pub struct Borrowing(());

impl Borrowing {
    /// For who [`is_borrower`].
    pub fn begin() -> Self {
        // Relaxed, here and below: of the thread that reads it, or of no meaning to it.
        BORROWERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Borrowing {
    fn drop(&mut self) {
        BORROWERS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn thread_id_of_kernel() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::gettid() }.unsigned_abs().max(1)
}

/// The calling thread's id, never 0.
pub fn thread_id() -> u32 {
    if BORROWERS.load(Ordering::Relaxed) != 0 {
        return thread_id_of_kernel();
    }
    THREAD_ID.with(|cell| {
        if cell.get() == 0 {
            let id = thread_id_of_kernel();
            // A child made by vfork has its parent's variables, and is soon gone.
            if is_borrower() {
                return id;
            }
            cell.set(id);
        }
        cell.get()
    })
}

/// Whether there is a thread of this id. One of another process counts.
pub fn thread_lives(id: u32) -> bool {
    // SAFETY: signal 0 is not sent; only whether it could be is told.
    let result = unsafe { real::syscall(libc::SYS_tkill, id as usize, 0, 0, 0, 0, 0) };
    result == 0 || real::errno() != libc::ESRCH
}

/// Whether there is a process of this id.
pub fn lives(id: u32) -> bool {
    // SAFETY: as above; of the process's first thread, which is there as long as any other.
    let result = unsafe { real::syscall(libc::SYS_tgkill, id as usize, id as usize, 0, 0, 0, 0) };
    result == 0 || real::errno() != libc::ESRCH
}

/// Whether this process has one thread; not, where that can not be seen.
pub fn is_alone() -> bool {
    // SAFETY: the path ends with a zero; the status is ours to write.
    unsafe {
        let mut status: libc::stat = zeroed();
        let result = libc::stat(c"/proc/self/task".as_ptr(), &raw mut status);
        // A link for each thread, beside those that every folder has.
        result == 0 && status.st_nlink == 3
    }
}

/// Lets another thread run, if one waits for this processor.
pub fn give_way() {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::sched_yield() };
}

/// Sleeps, or less if a signal comes. Past the C library: a thread is not cancelled here, where it may
/// be in the middle of anything.
pub fn sleep_us(us: u32) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: i64::from(us) * 1000,
    };
    let (clock, at) = (libc::CLOCK_MONOTONIC as usize, (&raw const time) as usize);
    // SAFETY: `time` is valid, and nothing is asked back.
    unsafe { real::syscall(libc::SYS_clock_nanosleep, clock, 0, at, 0, 0, 0) };
}

/// Ends the calling thread if it was cancelled: for a wait that the program would have in the kernel.
pub fn end_if_cancelled() {
    // SAFETY: the C library's function of this name has this type.
    unsafe extern "C-unwind" {
        fn pthread_testcancel();
    }
    // SAFETY: no arguments.
    unsafe { pthread_testcancel() };
}

/// Runs `work`, which is not the program's: `errno` is as it was, and the thread is not cancelled in
/// the middle.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let saved = real::errno();
    let result = uncancelled(work);
    real::set_errno(saved);
    result
}

/// Runs `work`, in which a thread that was cancelled does not end.
pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's function of this name has this type.
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    /// As the C library has it.
    const CANCEL_DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: the number is ours.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    let result = work();
    // SAFETY: as it was; nothing is asked back.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    result
}

/// Runs a call of the kernel's that moves bytes with these `flags`. Of one that does not wait, what it
/// moved is counted, whatever comes: the thread is not cancelled there.
pub fn counted<T>(flags: c_int, call: impl FnOnce() -> T) -> T {
    if flags & libc::MSG_DONTWAIT == 0 {
        call()
    } else {
        uncancelled(call)
    }
}

/// What a thread did so far.
pub struct Usage {
    /// How often it gave up the processor to wait, which is not, how often it was taken away.
    pub sleeps: u64,
    /// How long it ran.
    pub busy_ns: u64,
}

/// What the calling thread did; nothing if the kernel does not tell.
pub fn thread_usage() -> Option<Usage> {
    // SAFETY: numbers, of which zero is one.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: `usage` is ours to write.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let span_ns = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_usec.unsigned_abs() * 1000
    };
    (result == 0).then(|| Usage {
        sleeps: usage.ru_nvcsw.unsigned_abs(),
        busy_ns: span_ns(usage.ru_utime) + span_ns(usage.ru_stime),
    })
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write. The clocks that are asked for there are.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// As [`now_ns`] at the last tick of the kernel's, some milliseconds ago at most: sooner told.
pub fn tick_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC_COARSE)
}

/// How many processors there are. Not, how many this process may use: its other ends may run
/// elsewhere.
pub fn processors() -> u32 {
    // SAFETY: no pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1)
}

/// One more than the number of the processor that this thread runs on; 0 if that is not known.
pub fn processor() -> u64 {
    // SAFETY: no arguments.
    let number = unsafe { libc::sched_getcpu() };
    u64::try_from(number + 1).unwrap_or(0)
}

/// As `fork`, without a signal at its end, and past the C library: no handlers of the
/// program's run, and no lock of the C library is taken.
pub fn copy() -> isize {
    // SAFETY: no flags: a copy of this process, with a copy of this thread's stack.
    unsafe { real::syscall(libc::SYS_clone, 0, 0, 0, 0, 0, 0) as isize }
}

/// Runs `work` in a [`copy`] of this process, which ends then, and returns what it says; `false` if
/// it ended otherwise, or could not be made. All signals are held back meanwhile: no handler of the
/// program's may run in the copy.
pub fn in_copy(work: impl FnOnce() -> bool) -> bool {
    let Some(said) = memory::reserve_shared(size_of::<AtomicBool>()) else {
        return false;
    };
    // SAFETY: zeroed memory of ours, until it is given back below; the sets are ours.
    unsafe {
        let good = &*said.cast::<AtomicBool>();
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let child = copy();
        if child == 0 {
            // Relaxed: looked at when this process has ended.
            good.store(work(), Ordering::Relaxed);
            end(0);
        }
        if child > 0 {
            await_end(child);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        let good = good.load(Ordering::Relaxed);
        libc::munmap(said, size_of::<AtomicBool>());
        good
    }
}

/// Waits until a [`copy`] ends. How it did so is not asked: another thread of the program's, which
/// waits for any child, may be told that.
fn await_end(child: isize) {
    let nothing = core::ptr::null_mut();
    loop {
        // SAFETY: nothing is asked back.
        let result = unsafe { real::waitpid(child as libc::pid_t, nothing, libc::__WALL) };
        if result >= 0 || real::errno() != libc::EINTR {
            return;
        }
    }
}

/// Ends a [`copy`], past the exit handlers, which are the program's.
pub fn end(status: c_int) -> ! {
    loop {
        // SAFETY: ends this process.
        unsafe { real::syscall(libc::SYS_exit_group, status as usize, 0, 0, 0, 0, 0) };
    }
}
