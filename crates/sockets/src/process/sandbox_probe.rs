//! Finds out whether the library survives the filter of system calls that was inherited.

use core::ffi::{c_int, c_long, c_void};
use core::mem::zeroed;

use barewire_calls::{barrier, call, descriptor, memory, message, option, process};

use crate::process::{clock, copies, family, ids};
use crate::system::{
    fd_passing,
    kernel::{self, Owned},
    real, unix_sockets,
};

/// The line of proc_pid_status(5) that names the filter: 0 is none.
const LINE: &[u8] = b"\nSeccomp:\t";

/// Whether this process has a filter; also `true` if that cannot be known.
pub fn is_filtered() -> bool {
    let mut bytes = [0_u8; 4096];
    let Ok(text) = descriptor::beginning(c"/proc/self/status", &mut bytes) else {
        return true;
    };
    let at = text.windows(LINE.len()).position(|part| part == LINE);
    at.and_then(|at| text.get(at + LINE.len())) != Some(&b'0')
}

/// Whether a copy of this process lives that makes all calls of this library's. The program is told
/// nothing of it: it has no exit signal, and ends at once.
///
/// A filter whose supervisor never answers holds this process up as it does the copy; so it would
/// in any other call of these.
pub fn survives() -> bool {
    copies::in_copy(|| {
        make_all_calls();
        true
    })
}

/// No descriptor: a filter sees a call before the kernel checks its descriptor.
const NONE: c_int = -1;

/// All calls that the library makes for itself, for sockets of either kind, and not only while it reports
/// or is captured. Their results do not matter.
fn make_all_calls() {
    leave_no_core();
    let own = ids::id();
    ids::thread_exists(own);
    ids::process_exists(own);
    clock::yield_now();
    clock::sleep_us(1);
    ids::processor();
    ids::thread_usage();
    meet();
    ask();
    wait();
    let _ = family::has_member(own);
    barrier::take_part();
    barrier::fence();
    begin_a_relay();
    RARE.iter().for_each(|&number| by_number(number));
}

/// A relay is a copy of a copy.
fn begin_a_relay() {
    copies::in_copy(|| true);
    // SAFETY: the kernel refuses a name at no address.
    unsafe { real::prctl(libc::PR_SET_NAME, 0, 0, 0, 0) };
}

/// Those of a relay and its end, of looks for rings and at who else has a socket, of captures of
/// files that were sent, of faults, of threads that begin and end, and before another program.
const RARE: [c_long; 18] = [
    libc::SYS_close_range,
    libc::SYS_chdir,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_newfstatat,
    libc::SYS_faccessat,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_munmap,
];

/// A call by number for which the kernel finds nothing to do: without descriptor or memory.
fn by_number(number: c_long) {
    let none = NONE as usize;
    // SAFETY: as it says.
    let _ = unsafe { call(number, [none]) };
}

/// If the filter kills the copy, that is not a crash of the program.
fn leave_no_core() {
    let none = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let _ = process::set_limit(libc::RLIMIT_CORE, none);
}

/// What two ends do to find each other.
fn meet() {
    let name = unix_sockets::Pair {
        own: 0,
        other: ids::id(),
    };
    let name = name.rendezvous_name();
    let place = kernel::bind_abstract(&name);
    place.iter().for_each(|place| {
        kernel::listen(place);
    });
    let _ = kernel::accept_now(place.map_or(NONE, Owned::into_raw));
    let socket = kernel::connect_abstract(&name).map_or(NONE, Owned::into_raw);
    let _ = option::peer_credentials(socket);
    let page = fd_passing::sealed_memory(PAGE_BYTES).map_or(NONE, Owned::into_raw);
    fd_passing::is_sealed(page, PAGE_BYTES);
    let proof = fd_passing::proof_of(page).map_or(NONE, Owned::into_raw);
    fd_passing::is_proof(proof, page, 0);
    fd_passing::send(socket, b"?", [page, proof]);
    let _ = fd_passing::receive(socket, &mut [0]);
    let _ = message::is_there(socket);
    fd_passing::skip_message(socket);
    kernel::set_holder(NONE, true);
    unix_sockets::set_holder(NONE, true);
    let (nowhere, access) = (core::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping, anywhere.
    let _ = unsafe { memory::map(nowhere, PAGE_BYTES, access, libc::MAP_SHARED, page, 0) };
}

const PAGE_BYTES: usize = 4096;

/// Questions about a socket and its other end.
fn ask() {
    let _ = kernel::tuple(NONE);
    let _ = kernel::cookie(NONE);
    let _ = kernel::stream_positions(NONE, false);
    let _ = unix_sockets::inode(NONE);
    let _ = unix_sockets::unread(NONE);
    let _ = unix_sockets::unread_of(0);
    for request in [libc::FIONREAD, libc::TIOCOUTQ] {
        let _ = descriptor::count(NONE, request);
    }
    unix_sockets::is_stream(NONE);
    unix_sockets::is_simple(NONE);
    unix_sockets::mark(NONE);
    kernel::never_waits(NONE);
    kernel::reset_at_close(NONE);
    kernel::set_option(NONE, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0);
    kernel::set_option(NONE, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    kernel::set_option(NONE, libc::SOL_SOCKET, libc::SO_RCVBUF, 0);
}

/// How bytes, wake-up bytes and threads wait on the kernel connection.
fn wait() {
    let (mut byte, flags) = (0_u8, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let nothing = core::ptr::null_mut::<c_void>();
    // SAFETY: what the kernel is given lives, and has the lengths stated.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        real::recv(NONE, (&raw mut byte).cast(), 1, flags | libc::MSG_PEEK);
        real::send(NONE, (&raw const byte).cast(), 1, flags);
        real::recvmsg(NONE, &raw mut message, flags);
        real::sendmsg(NONE, &raw const message, flags);
        real::poll(nothing.cast(), 0, 0);
        real::ppoll(nothing.cast(), 0, &raw const time, core::ptr::null());
        real::epoll_pwait(NONE, nothing.cast(), 1, 0, core::ptr::null());
        real::epoll_ctl(NONE, libc::EPOLL_CTL_ADD, NONE, nothing.cast());
        real::shutdown(NONE, libc::SHUT_RDWR);
        real::dup3(NONE, NONE, 0);
        real::fcntl(NONE, libc::F_GETFD, 0);
    }
}
