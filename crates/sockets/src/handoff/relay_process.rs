//! The process that a relay runs in: a copy of the program that gives up all but what it needs.

use core::ffi::{c_int, c_void};

use barewire_calls::memory::advise;
use barewire_calls::{call, descriptor};

use crate::epoll::sets;
use crate::handoff::closing::closing;
use crate::handoff::relay_copying::relay;
use crate::process::{copies, ids, open_files};
use crate::system::real;
use crate::table::socket_state::SocketState;
use crate::table::{descriptors, gate, pins, process_refs};

/// On a kernel without `close_range`, descriptors are closed one by one, up to this one.
const OLD_KERNEL_FD_MAX: u32 = 1 << 16;

/// Begins the relay as a grandchild that the program does not notice: it has no exit signal, and no parent
/// here.
pub fn begin(old: c_int, inner: c_int, socket: &'static SocketState, is_shared: bool) -> bool {
    copies::in_copy(|| match copies::copy() {
        // All signals are held back there for good.
        0 => run(old, inner, socket, is_shared),
        grandchild => grandchild > 0,
    })
}

fn run(old: c_int, inner: c_int, socket: &'static SocketState, is_shared: bool) -> ! {
    ids::note_own_ids();
    // Another thread of the program's may have held it when this copy was made.
    gate::end_fork();
    pins::after_fork();
    process_refs::enter();
    sets::forget();
    // SAFETY: strings that end with zeros.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"barewire-relay".as_ptr());
        libc::chdir(c"/".as_ptr());
    }
    close_all_but(old, inner);
    give_memory_back();
    descriptors::keep_only(old, socket);
    relay(old, inner, socket, is_shared);
    closing(old);
    descriptor::close(old);
    copies::end(0);
}

fn close_all_but(a: c_int, b: c_int) {
    let (low, high) = (a.min(b).unsigned_abs(), a.max(b).unsigned_abs());
    for (first, last) in [
        (0, low.wrapping_sub(1)),
        (low + 1, high - 1),
        (high + 1, u32::MAX),
    ] {
        if first > last || (first == 0 && low == 0) {
            continue;
        }
        // SAFETY: no pointers; the descriptors are copies of the program's.
        let closed = unsafe { call(libc::SYS_close_range, [first as usize, last as usize, 0]) };
        if closed.is_err() {
            (first..=last.min(OLD_KERNEL_FD_MAX)).for_each(|fd| descriptor::close(fd as c_int));
        }
    }
}

/// The smallest piece of memory that is worth giving back.
const PIECE_BYTES_MIN: usize = 1 << 20;
/// Longest line of the list of mappings that is looked at; what is cut is the path.
const LINE_BYTES: usize = 128;

/// Gives back what this process has of the program's memory: its heap, and what else is its
/// alone and large. The addresses stay, and read as zeros.
///
/// The stack and the thread's own data stay: they hold what runs here. Tables of this library
/// may go: there is one socket left, which is entered again.
fn give_memory_back() {
    let Some(kept) = thread_vector() else { return };
    let mut file_end = 0;
    open_files::find_line::<LINE_BYTES, ()>(c"/proc/self/maps", |line| {
        give_piece_back(line, &mut file_end, kept);
        None
    });
}

/// One line of the list: `begin-end rw-p offset device inode path`. `file_end` is where the
/// last mapping of a file ended: what follows it at once may hold variables of a library. The
/// pages of `kept` stay.
fn give_piece_back(line: &[u8], file_end: &mut usize, kept: (usize, usize)) -> Option<()> {
    let mut words = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    let mut bounds = words.next()?.split(|&byte| byte == b'-');
    let (begin, end) = (address(bounds.next()?)?, address(bounds.next()?)?);
    let is_private = words.next()? == b"rw-p";
    let inode = words.nth(2)?;
    let path = words.next();
    let is_heap = path == Some(b"[heap]");
    let is_nameless = path.is_none() && inode == b"0" && end - begin >= PIECE_BYTES_MIN;
    if path.is_some_and(|path| path.starts_with(b"/")) {
        *file_end = end;
    }
    let follows_file = *file_end == begin;
    let here = |at: usize| (begin..end).contains(&at);
    let own_data = real::errno_place() as usize;
    let on_stack = (&raw const inode) as usize;
    let is_needed = follows_file || here(own_data) || here(on_stack);
    if is_private && (is_heap || is_nameless) && !is_needed {
        for (first, last) in [(begin, end.min(kept.0)), (begin.max(kept.1), end)] {
            if first < last {
                let (at, len) = (first as *mut c_void, last - first);
                // SAFETY: nothing of this process uses it any more; see give_memory_back.
                let _ = unsafe { advise(at, len, libc::MADV_DONTNEED) };
            }
        }
    }
    Some(())
}

/// The pages of the table in which the dynamic loader finds this thread's variables: of all
/// threads but the first it lies in the heap. `None` where we do not know how to find it.
fn thread_vector() -> Option<(usize, usize)> {
    let table: usize;
    // SAFETY: reads the second word (x86-64) or the first (aarch64) of the thread's control
    // block, which both processors' conventions for thread-local variables give to the loader.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, fs:[8]", out(reg) table, options(nostack, readonly));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("mrs {0}, tpidr_el0", "ldr {0}, [{0}]", out(reg) table, options(nostack, readonly));
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return None;
    }
    // SAFETY: no pointers.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let first = table.checked_sub(page_bytes)? & !(page_bytes - 1);
    Some((first, first + 4 * page_bytes))
}

fn address(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}
