//! Functions that end descriptors, copy them, or hand them to others.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::Ordering;

use barewire_fabric::carrier::{LEAVING, Next, SharedMemory};
use libc::msghdr;

use crate::hooks::socket::duplicating;
use crate::lock::{Held, Lock};
use crate::lost::UNREAD;
use crate::process::quietly;
use crate::record::{self, LEFT, LOCAL, Record, State, Why};
use crate::stream::{Left, Patience};
use crate::{
    capture, confinement, epoll, fault, kernel, marks, members, process, real, relay, report,
    retire, rings, seeker, stream, upgrade, uses, why,
};

/// How long a close waits for a call of another thread on the same socket.
const CLOSE_WAIT_MS: u32 = 100;

/// A descriptor is about to be closed.
pub fn closing(fd: c_int) {
    let record = record::find(fd);
    let is_set = epoll::is_set(fd);
    if record.is_none() && !is_set {
        // Looked at before: is_borrower is a call.
        if rings::watched::are_there() && !process::is_borrower() {
            rings::watched::closing(fd);
        }
        return not_known(fd);
    }
    // The tables are its parent's, other threads of which use the socket.
    if process::is_borrower() {
        return;
    }
    quietly(|| {
        if is_set {
            epoll::set_closed(fd);
        }
        let last = record::detach(fd);
        uses::wait_for(fd);
        if let Some(record) = last {
            uses::wait_for_all(record);
            release(fd, record);
        } else if let Some(record) = record {
            epoll::descriptor_closed(record, fd);
        }
    });
}

/// A descriptor that is no socket of the program's is about to be closed.
fn not_known(fd: c_int) {
    if let Some(number) = record::own(fd).filter(|_| !process::is_borrower()) {
        seeker::lost(number, fd);
    }
}

/// The process is done with a socket whose last descriptor is `fd`, which is still open.
fn release(fd: c_int, record: &'static Record) {
    epoll::socket_closed(record);
    upgrade::end_seeking(fd, record);
    let is_up = record.state() == State::Up;
    if is_up {
        report::closed(record);
        if record.processes.load(Ordering::Acquire) > 1 {
            // Others may be gone without a word.
            members::check_at_times(record);
        }
    }
    let mapping = record::mapping(record);
    // What others have as well is theirs: whoever is killed in here must not hold it.
    if record::others_have(record) {
        return record::unmap(record, mapping);
    }
    why::tell(fd, record);
    if capture::is_on() {
        capture::closed(fd, record);
    }
    if is_up {
        leave(fd, record, CLOSE_WAIT_MS);
    }
    record::leave(record);
}

/// This process has all its sockets from the kernel from now on, and none of them here.
pub fn let_all_go() {
    let deadline_ns = recall_deadline();
    let is_borrower = process::is_borrower();
    record::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        if !matches!(record.state(), State::Listening | State::Plain) {
            give_back(fd, record, Why::Confined, deadline_ns);
        }
        // Nobody is to look for it, unless another process may still meet it.
        if !is_borrower && record.processes.load(Ordering::Acquire) == 1 {
            upgrade::unmark(fd, record);
        }
    });
    if is_borrower {
        return;
    }
    capture::end();
    report::write();
    report::forget();
    record::for_each_descriptor(0, c_uint::MAX, |fd, _| {
        if let Some(record) = record::detach(fd) {
            uses::wait_for_all(record);
            epoll::socket_closed(record);
            if record.processes.load(Ordering::Acquire) == 1 {
                why::tell(fd, record);
            }
            record::leave(record);
        }
    });
}

/// How often a close looks for a token that is on its way.
const TOKEN_WAIT_ROUNDS: u32 = 200;

fn still_waits(rounds: &mut u32, dropped: bool) -> bool {
    *rounds -= 1;
    if !dropped {
        process::give_way();
    }
    *rounds > 0
}

/// The kernel would take tokens for bytes that were not read, and reset the connection. Returns
/// whether there are such bytes in the ring.
fn take_all_tokens(fd: c_int, record: &Record, held: &Held<'_>) -> bool {
    let mut rounds = TOKEN_WAIT_ROUNDS;
    let carrier = record.carrier();
    let receiver = record.receiver(held);
    loop {
        match receiver.next(&carrier) {
            Ok(Next::Ring(_)) => return true,
            Ok(Next::Tokens(count)) => {
                // They are announced before they are sent. One that came to a closed socket would
                // reset the connection, and with it what the other end has not read.
                let taken = stream::take_tokens(fd, record, held, count);
                let dropped = matches!(taken, stream::Tokens::Taken);
                if !still_waits(&mut rounds, dropped) {
                    return false;
                }
            }
            Ok(Next::Line(_)) => {
                receiver.read_line(&carrier, 0);
                return false;
            }
            Ok(Next::Empty) | Err(_) => return false,
        }
    }
}

/// Leaves the line as the kernel expects it: without tokens. If bytes in the ring were not read, the
/// other end is told so, as TCP does.
fn leave(fd: c_int, record: &'static Record, wait_ms: u32) {
    stream::answer(fd, record);
    let _send = record.send_lock.hold_for(wait_ms);
    let Some(held) = record.recv_lock.hold_for(wait_ms) else {
        return;
    };
    let unread = take_all_tokens(fd, record, &held);
    let carrier = record.carrier();
    let side = record.side.load(Ordering::Relaxed) as usize;
    if record.has(LOCAL) {
        carrier.store(LEAVING + side, if unread { UNREAD } else { 1 });
        return;
    }
    carrier.store(LEAVING + side, 1);
    if unread {
        kernel::reset_at_close(fd);
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    closing(fd);
    // SAFETY: the program's call.
    unsafe { real::close(fd) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        close_all(first, last);
    }
    // SAFETY: the program's call.
    unsafe { real::close_range(first, last, flags) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    close_all(first.max(0).unsigned_abs(), c_uint::MAX);
    // SAFETY: the program's call.
    unsafe { real::closefrom(first) };
}

fn close_all(first: c_uint, last: c_uint) {
    for fd in record::known_descriptors(first, last) {
        closing(fd);
    }
    if rings::watched::are_there() && !process::is_borrower() {
        rings::watched::closing_range(first, last);
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the program's call.
    duplicating(fd, || upgrade::with_room(|| unsafe { real::dup(fd) }))
}

/// Whether there is anything to do when a descriptor is closed.
fn is_ours(fd: c_int) -> bool {
    record::find(fd).is_some()
        || record::own(fd).is_some()
        || epoll::is_set(fd)
        || rings::watched::is_watched(fd)
}

/// Whether a descriptor is open.
fn is_open(fd: c_int) -> bool {
    // SAFETY: no pointers.
    unsafe { real::fcntl(fd, libc::F_GETFD, 0) >= 0 }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if old != new && is_ours(new) && is_open(old) {
        closing(new);
    }
    // SAFETY: the program's call.
    duplicating(old, || unsafe { real::dup2(old, new) })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if old != new && flags & !libc::O_CLOEXEC == 0 && is_ours(new) && is_open(old) {
        closing(new);
    }
    // SAFETY: the program's call.
    duplicating(old, || unsafe { real::dup3(old, new, flags) })
}

/// The C library is about to read or write a descriptor past our functions.
pub fn used_past_us(fd: c_int) {
    // What is the kernel's already is asked for again and again.
    if let Some(record) = record::find(fd).filter(|record| record.state() != State::Plain) {
        give_back(fd, record, Why::Usage, recall_deadline());
    }
}

/// Streams of the C library read and write past our functions.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    used_past_us(fd);
    // SAFETY: the program's call.
    unsafe { real::fdopen(fd, mode) }
}

/// The C library closes the descriptor of a stream past our functions. What the stream holds is sent
/// before the descriptor is let go.
///
/// # Safety
/// The stream is the program's.
unsafe fn stream_closing(file: *mut libc::FILE) {
    // SAFETY: as promised.
    unsafe {
        let fd = libc::fileno(file);
        if record::find(fd).is_some() {
            libc::fflush(file);
            closing(fd);
        }
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fclose(file: *mut libc::FILE) -> c_int {
    // SAFETY: the program's call.
    unsafe {
        stream_closing(file);
        real::fclose(file)
    }
}

macro_rules! reopening {
    ($($name:ident)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            mode: *const c_char,
            file: *mut libc::FILE,
        ) -> *mut libc::FILE {
            // SAFETY: the program's call.
            unsafe {
                stream_closing(file);
                real::$name(path, mode, file)
            }
        }
    )* };
}

reopening! { freopen freopen64 }

/// How long the other ends have to take back what was not read, all of them together; each
/// has a little in any case.
const RECALL_NS: u64 = 200_000_000;
/// As above.
const RECALL_MIN_NS: u64 = 10_000_000;
/// How much longer those may need, all together, that say they are at it.
const TAKING_NS: u64 = 1_000_000_000;
/// The least for a socket that other processes on board have as well.
const RECALL_SHARED_NS: u64 = 1_000_000_000;

/// Of the threads that give a socket back. Of this process, by the number of the record.
static TURNS: [Lock; 64] = [const { Lock::new() }; 64];

/// The socket goes to someone who knows nothing of the carrier: it is the kernel's from now
/// on. If the ring has bytes that were not read, the other end takes them back; if it cannot,
/// a relay takes the socket's place.
fn give_back(fd: c_int, record: &'static Record, why: Why, until_ns: u64) {
    quietly(|| give_back_loudly(fd, record, why, until_ns));
}

fn give_back_loudly(fd: c_int, record: &'static Record, why: Why, until_ns: u64) {
    let is_borrower = process::is_borrower();
    let _borrowing = is_borrower.then(process::Borrowing::begin);
    // One at a time: the next finds it done. Before the use, for which whoever closes waits.
    let _turn = TURNS[record.number() as usize % TURNS.len()].hold();
    // Other threads may close it, and get its number for something else.
    let Some(_used) = uses::begin(fd, record) else {
        return;
    };
    let guest = is_borrower.then(|| members::Guest::enter(record));
    if matches!(guest, Some(None)) {
        return;
    }
    if !upgrade::stays_down(record) {
        // A relay for a socket that others have, too, must wait until they have closed it.
        if !is_borrower && record.processes.load(Ordering::Acquire) > 1 {
            members::check(record);
        }
        // Its parent may have closed what it has a copy of, and got the number for another socket.
        // Relaxed: with Up comes the cookie.
        if is_borrower && kernel::cookie(fd) != Some(record.cookie.load(Ordering::Relaxed)) {
            return;
        }
        let is_shared = is_borrower || record.processes.load(Ordering::Acquire) > 1;
        let least_ns = if is_shared {
            RECALL_SHARED_NS
        } else {
            RECALL_MIN_NS
        };
        let until_least_ns = process::now_ns() + least_ns;
        let patience = Patience {
            until_ns: until_ns.max(until_least_ns),
            taking_until_ns: (until_ns + TAKING_NS).max(until_least_ns),
        };
        let left = stream::let_go(fd, record, why, patience);
        if left == Left::Unread && !relay::put_between(fd, record) {
            // No descriptors, or no processes: whoever reads this socket after us would miss bytes.
            stream::line_only(record, why);
            kernel::disconnect(fd);
        }
    } else {
        record.note_why(why);
    }
    if why == Why::Given {
        marks::unmark(fd, record);
    }
}

/// A socket that a child made by vfork duplicates is for the program that it becomes, which has it by
/// a number that our tables, its parent's, do not know.
pub fn before_duplicate(fd: c_int) {
    if let Some(record) = record::find(fd) {
        give_back(fd, record, Why::Given, recall_deadline());
    }
}

/// The program reaches this socket past this library from now on: it is the kernel's. One that listens
/// stays what it is.
pub fn leave_to_kernel(fd: c_int, record: &'static Record, why: Why) {
    let is_left = matches!(record.state(), State::Listening | State::Plain) || record.has(LEFT);
    if !is_left {
        give_back(fd, record, why, recall_deadline());
        if record::is_of(fd, record) {
            record.set(LEFT, true);
        }
    }
}

/// The program reaches its sockets past this library from now on: all are the kernel's.
pub fn give_all_back(why: Why) {
    let deadline_ns = recall_deadline();
    record::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        if !matches!(record.state(), State::Listening | State::Plain) {
            give_back(fd, record, why, deadline_ns);
        }
    });
}

fn recall_deadline() -> u64 {
    process::now_ns() + RECALL_NS
}

/// Whether there is, or was, a socket of ours that a message might give away.
pub fn may_give() -> bool {
    fault::is_watched() && !record::is_hidden()
}

/// Descriptors in this message go to another process.
///
/// # Safety
/// The message is the program's, and there.
pub unsafe fn before_giving(message: *const msghdr) {
    // SAFETY: as promised; the control message is walked as the C library's macros do.
    unsafe {
        if !may_give() || !fault::can_read_aside((*message).msg_control, (*message).msg_controllen)
        {
            return;
        }
        let deadline_ns = recall_deadline();
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes =
                    ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for nth in 0..bytes / 4 {
                    let fd = libc::CMSG_DATA(header)
                        .cast::<c_int>()
                        .add(nth)
                        .read_unaligned();
                    epoll::late::is_looked_at(fd);
                    if let Some(record) = record::find(fd) {
                        give_back(fd, record, Why::Given, deadline_ns);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// Another program is about to begin, in this process or in a child: it has the descriptors
/// that do not close by themselves, and may not be on board. A child made by vfork does this
/// with its parent's tables, as it should: the sockets are the same. It also has
/// those that `actions` duplicate for it, if that is not null.
pub fn before_another_program(actions: *const c_void) {
    if record::is_hidden() {
        return;
    }
    epoll::late::before_another_program();
    let deadline_ns = recall_deadline();
    record::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        let is_kernels = matches!(record.state(), State::Listening | State::Plain);
        if is_kernels && !marks::has_any(record) {
            return;
        }
        // SAFETY: no pointers.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
        let stays = flags >= 0 && flags & libc::FD_CLOEXEC == 0;
        // Relaxed: named by this thread before, or by no actions that it has.
        let named_by = record.named_by.load(Ordering::Relaxed) as usize;
        if stays || (!actions.is_null() && named_by == actions as usize) {
            give_back(fd, record, Why::Given, deadline_ns);
        }
    });
}

/// The program in this process ends (`true`), or goes on because no other could begin. What
/// closes by itself leaves the line without tokens, which the kernel would take for bytes that
/// were not read; what does not is no longer ours. A child made by vfork has nothing that counts.
pub fn end_of_image(ends: bool) {
    if confinement::is_confined() || process::is_borrower() {
        return;
    }
    quietly(|| {
        if !ends {
            return record::take_up_again();
        }
        capture::end();
        record::for_each_descriptor(0, c_uint::MAX, |fd, record| match record.state() {
            State::Up => {
                stream::settle(fd, record, false);
            }
            State::Seeking => upgrade::end_seeking(fd, record),
            _ => {}
        });
        record::leave_to_others();
    });
}

/// This process has a child as from now: it has all our sockets, too. Until it is made no other
/// thread of this process gets a socket or closes one, and the tables are whole.
extern "C" fn before_fork() {
    if confinement::is_confined() {
        return;
    }
    quietly(|| {
        members::look_around();
        // In this order: see relay::replace.
        epoll::begin_fork();
        record::begin_fork();
        record::count_child();
    });
}

extern "C" fn after_fork() {
    epoll::end_fork();
    record::end_fork();
}

extern "C" fn after_fork_in_child() {
    if confinement::is_confined() {
        return;
    }
    process::note_own_ids();
    record::end_fork();
    members::become_child();
    seeker::after_fork();
    uses::after_fork();
    TURNS.iter().for_each(Lock::reset);
    retire::after_fork();
    epoll::after_fork();
    rings::watched::after_fork();
    report::forget();
    capture::forget();
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn fork() -> libc::pid_t {
    // SAFETY: the program's call.
    let child = real::keeping_errno(|| unsafe { real::fork() });
    if child != 0 {
        quietly(|| members::child_made(child));
    }
    child
}

/// A fork of which the C library does not tell.
pub fn fork_untold(call: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    if record::is_hidden() {
        return call();
    }
    real::keeping_errno(|| {
        before_fork();
        let child = call();
        if child == 0 {
            after_fork_in_child();
        } else {
            after_fork();
            members::child_made(child);
        }
        child
    })
}

/// # Safety
/// As for the C library's.
#[allow(non_snake_case, reason = "named after the function")]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Fork() -> libc::pid_t {
    // SAFETY: the program's call.
    fork_untold(|| unsafe { real::_Fork() })
}

/// Registers what is to be done at a fork, and at an end without the usual handlers.
pub fn set_up() {
    // SAFETY: the C library's function of this name has this type.
    unsafe extern "C" {
        fn __register_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
            library: *const c_void,
        ) -> c_int;
        fn __cxa_at_quick_exit(
            handler: extern "C" fn(*mut c_void),
            library: *const c_void,
        ) -> c_int;
    }
    // SAFETY: the functions live as long as the process: this library is never unloaded.
    unsafe {
        __register_atfork(
            Some(before_fork),
            Some(after_fork),
            Some(after_fork_in_child),
            core::ptr::null(),
        );
        __cxa_at_quick_exit(at_quick_exit, core::ptr::null());
    }
}

/// Registered before the program's own, it comes after them.
extern "C" fn at_quick_exit(_: *mut c_void) {
    at_exit();
}

/// The process ends: its sockets are in one process less.
pub fn at_exit() {
    quietly(leave_all);
}

fn leave_all() {
    if confinement::is_confined() || process::is_borrower() {
        return;
    }
    why::tell_all();
    report::write();
    capture::end();
    // The kernel closes them now, or takes them from this process: without tokens.
    record::for_each_descriptor(0, c_uint::MAX, |fd, record| {
        if record.state() == State::Up && record.processes.load(Ordering::Acquire) == 1 {
            leave(fd, record, 0);
        }
    });
    record::leave_to_others();
}

/// Ends without the C library's exit handlers.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    at_exit();
    // SAFETY: ends all threads.
    unsafe { real::syscall(libc::SYS_exit_group, status as usize, 0, 0, 0, 0, 0) };
    std::process::abort();
}
