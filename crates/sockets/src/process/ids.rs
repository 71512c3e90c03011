//! Ids of processes and threads, children made by vfork, and processors.

use core::sync::atomic::AtomicU32;

use barewire_calls::{call, descriptor, process};

use crate::process::at_fork::AT_FORK;
use crate::process::thread_words;
use crate::process::words::Lone;

/// The process that the tables of this library belong to. A child made by vfork shares
/// them, and has another id.
static OWNER: &Lone<AtomicU32> = &AT_FORK.ids.0[0];

/// Children made by vfork that are at something of ours: they have their parent's variables, but ids
/// of their own. Each counts itself before it asks for its id. One that was killed is counted for good.
static BORROWERS: &Lone<AtomicU32> = &AT_FORK.ids.0[1];

/// How many processes came one out of the other until this one. It changes while there is one thread.
static FORKS: &Lone<AtomicU32> = &AT_FORK.ids.0[2];

/// In the constructor, and in a child after fork.
pub fn note_own_ids() {
    OWNER.set(id());
    BORROWERS.set(0);
    FORKS.add(1);
}

/// The id of the process that the tables belong to, also for a child made by vfork.
pub fn owner() -> u32 {
    OWNER.get()
}

/// The id of this process.
pub fn id() -> u32 {
    process::id()
}

/// Whether the caller is a child made by vfork, which borrows our memory.
pub fn is_vfork_child() -> bool {
    owner() != id()
}

/// A child made by vfork has its own thread id until this is dropped, not its parent's.
pub struct VforkWork(());

impl VforkWork {
    /// For who [`is_vfork_child`].
    pub fn begin() -> Self {
        BORROWERS.add(1);
        Self(())
    }
}

impl Drop for VforkWork {
    fn drop(&mut self) {
        BORROWERS.sub(1);
    }
}

/// The calling thread's id, never 0.
///
/// The thread's own word is its id; above it what [`FORKS`] was when it was noted. So a child need not touch its
/// variables to forget its parent's.
#[inline]
pub fn thread_id() -> u32 {
    let noted = thread_words::own_word();
    let is_own = (noted >> 32) as u32 == FORKS.get() && noted as u32 != 0;
    if is_own && BORROWERS.get() == 0 {
        return noted as u32;
    }
    ask_for_thread_id()
}

#[cold]
fn ask_for_thread_id() -> u32 {
    let id = process::thread_id().max(1);
    // A child made by vfork has its parent's variables, and is soon gone.
    if !is_vfork_child() {
        thread_words::set_own_word(u64::from(FORKS.get()) << 32 | u64::from(id));
    }
    id
}

/// Whether there is a thread of this id. One of another process counts.
pub fn thread_exists(id: u32) -> bool {
    // SAFETY: signal 0 is not sent; only whether it could be is told.
    unsafe { call(libc::SYS_tkill, [id as usize, 0]) != Err(libc::ESRCH) }
}

/// Whether there is a process of this id.
pub fn process_exists(id: u32) -> bool {
    // Its first thread is there as long as any other.
    process::has_thread(id, id)
}

/// Whether this process has one thread; not, where that can not be seen.
pub fn is_single_threaded() -> bool {
    // A link for each thread, beside those that every folder has.
    descriptor::status_in(libc::AT_FDCWD, c"/proc/self/task").is_ok_and(|it| it.st_nlink == 3)
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

/// Whether there are several processors. Not, whether this process may use several: its other ends may run
/// elsewhere.
pub fn are_many_processors() -> bool {
    online_processors().unwrap_or_else(|| {
        // SAFETY: no pointers.
        unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) > 1 }
    })
}

/// As above, from where the C library has it too, without the code that it takes to count them: that is cold
/// when a program starts. `None` if it is not there.
fn online_processors() -> Option<bool> {
    let mut text = [0_u8; 16];
    are_many(descriptor::beginning(c"/sys/devices/system/cpu/online", &mut text).ok()?)
}

/// Whether a list like `0-3,5` has more than one number; `None` if it is none.
fn are_many(list: &[u8]) -> Option<bool> {
    let first = list.first().filter(|first| first.is_ascii_digit());
    first.map(|_| list.iter().any(|byte| matches!(byte, b'-' | b',')))
}

/// One more than the number of the processor that this thread runs on; 0 if that is not known.
#[inline]
pub fn processor() -> u64 {
    thread_words::processor().map_or_else(ask_for_processor, |number| u64::from(number) + 1)
}

#[cold]
fn ask_for_processor() -> u64 {
    // SAFETY: no arguments.
    let number = unsafe { libc::sched_getcpu() };
    u64::try_from(number + 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_has_one_or_many() {
        assert_eq!(are_many(b"0\n"), Some(false));
        assert_eq!(are_many(b"12\n"), Some(false));
        assert_eq!(are_many(b"0-1\n"), Some(true));
        assert_eq!(are_many(b"0,2\n"), Some(true));
        assert_eq!(are_many(b""), None);
        assert_eq!(are_many(b"\n"), None);
    }

    /// On a thread that may use one processor only.
    #[test]
    fn the_processor_is_the_one_that_the_thread_is_bound_to() {
        // With a C library that does not tell, a call does.
        thread_words::set_up();
        // SAFETY: numbers, of which zero is one; all three calls are about this thread.
        let bound = unsafe {
            let mut set: libc::cpu_set_t = core::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
            let last = (0..libc::CPU_SETSIZE as usize)
                .rfind(|&number| libc::CPU_ISSET(number, &set))
                .unwrap();
            let mut only: libc::cpu_set_t = core::mem::zeroed();
            libc::CPU_SET(last, &mut only);
            assert_eq!(
                libc::sched_setaffinity(0, size_of_val(&only), &raw const only),
                0
            );
            last as u32
        };
        assert_eq!(processor(), u64::from(bound) + 1);
    }

    #[test]
    fn the_c_library_counts_as_many() {
        // SAFETY: no pointers.
        let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        assert_eq!(are_many_processors(), online > 1);
    }
}
