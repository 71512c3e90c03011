//! Probing the program's memory: where the kernel would return `EFAULT`, the library does too.
//!
//! Before the library copies from or to the program's memory, it touches one byte of each page, by
//! code at known addresses. The processor finds out whether the page is there. That costs nothing but the
//! touch, and the library need not know who maps or unmaps memory. If the page is missing, a signal handler
//! of the library makes that code return `false`.
//!
//! The handler is installed from the first socket until the program sandboxes itself, and only as long
//! as the program has no handler of its own for `SIGSEGV` and `SIGBUS`. A program that asks for its
//! handler is told that it has none. A fault of the program itself ends it as usual, at the instruction
//! where it happened. Where the program's own handler is in the way, null pointers, small ones and those that
//! no memory can have are recognized without a touch. For calls that are not on sockets of this
//! library the kernel is asked then ([`can_read_aside`]).
//!
//! Alternatives that were rejected: asking the kernel each time (`mincore`, a write to a pipe) costs as
//! much as the library saves. Caching the answer needs every call that changes mappings. Keeping our
//! handler in front of the program's means imitating the kernel's signals, in programs that depend on them
//! (language runtimes).

use core::ffi::{c_int, c_long, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::AtomicBool;

use libc::{sighandler_t, siginfo_t};

use crate::process::words::Lone;
use crate::process::{copies, ids};
use crate::system::real;

/// No memory of a program begins below: the kernel's own default for it.
const LOWEST: usize = 1 << 16;
/// Nor is any above, on any machine that we know.
const HIGHEST: usize = if cfg!(target_arch = "aarch64") {
    1 << 52
} else {
    1 << 56
};
/// The bits of a pointer that say where: the others, on aarch64, are a tag of the program's.
const PLACE: usize = if cfg!(target_arch = "aarch64") {
    (1 << 56) - 1
} else {
    usize::MAX
};
/// Pages are at least as large.
const PAGE_BYTES: usize = 4096;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    // Each: the first address in rdi, the last in rsi; 1 in eax if all pages are there.
    ".globl barewire_touch_first",
    ".hidden barewire_touch_first",
    ".globl barewire_touch_read",
    ".hidden barewire_touch_read",
    ".globl barewire_touch_write",
    ".hidden barewire_touch_write",
    ".globl barewire_touch_own",
    ".hidden barewire_touch_own",
    ".globl barewire_touch_last",
    ".hidden barewire_touch_last",
    ".p2align 4",
    "barewire_touch_first:",
    "barewire_touch_read:",
    "2: movzx eax, byte ptr [rdi]",
    "or rdi, 4095",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe 2b",
    "mov eax, 1",
    "ret",
    "barewire_touch_write:",
    "2: mov byte ptr [rdi], 0",
    "or rdi, 4095",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe 2b",
    "mov eax, 1",
    "ret",
    "barewire_touch_own:",
    "2: lock or byte ptr [rdi], 0",
    "or rdi, 4095",
    "inc rdi",
    "cmp rdi, rsi",
    "jbe 2b",
    "mov eax, 1",
    "ret",
    "barewire_touch_last:",
    "xor eax, eax",
    "ret",
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    // Each: the first address in x0, the last in x1; 1 in w0 if all pages are there.
    ".globl barewire_touch_first",
    ".hidden barewire_touch_first",
    ".globl barewire_touch_read",
    ".hidden barewire_touch_read",
    ".globl barewire_touch_write",
    ".hidden barewire_touch_write",
    ".globl barewire_touch_own",
    ".hidden barewire_touch_own",
    ".globl barewire_touch_last",
    ".hidden barewire_touch_last",
    ".p2align 4",
    "barewire_touch_first:",
    "barewire_touch_read:",
    "2: ldrb w2, [x0]",
    "orr x0, x0, #4095",
    "add x0, x0, #1",
    "cmp x0, x1",
    "b.ls 2b",
    "mov w0, #1",
    "ret",
    "barewire_touch_write:",
    "2: strb wzr, [x0]",
    "orr x0, x0, #4095",
    "add x0, x0, #1",
    "cmp x0, x1",
    "b.ls 2b",
    "mov w0, #1",
    "ret",
    "barewire_touch_own:",
    "2: ldxrb w2, [x0]",
    "stxrb w3, w2, [x0]",
    "cbnz w3, 2b",
    "orr x0, x0, #4095",
    "add x0, x0, #1",
    "cmp x0, x1",
    "b.ls 2b",
    "mov w0, #1",
    "ret",
    "barewire_touch_last:",
    "mov w0, wzr",
    "ret",
);

// SAFETY: the functions above; the first and the last are only compared with.
unsafe extern "C" {
    fn barewire_touch_first();
    fn barewire_touch_read(first: usize, last: usize) -> c_int;
    fn barewire_touch_write(first: usize, last: usize) -> c_int;
    fn barewire_touch_own(first: usize, last: usize) -> c_int;
    fn barewire_touch_last();
}

type Touch = unsafe extern "C" fn(usize, usize) -> c_int;

#[inline]
fn is_there(at: usize, len: usize, touch: Touch) -> bool {
    if len == 0 {
        return true;
    }
    let last = at.wrapping_add(len - 1);
    let (low, high) = (at & PLACE, last & PLACE);
    // SAFETY: a page that is not there is what the handler is for; without it the program's own copy
    // would fault as well. What is written is about to be, or keeps its value.
    low >= LOWEST && low <= high && high < HIGHEST && unsafe { touch(at, last) } != 0
}

/// Whether `len` bytes can be read.
#[inline]
pub fn can_read<T>(at: *const T, len: usize) -> bool {
    is_there(at as usize, len, barewire_touch_read)
}

/// Whether `len` bytes can be written, which the caller then does: some are zeros now.
#[inline]
pub fn can_overwrite<T>(at: *const T, len: usize) -> bool {
    is_there(at as usize, len, barewire_touch_write)
}

/// Whether `len` bytes can be written; they are as they were.
#[inline]
pub fn can_write<T>(at: *const T, len: usize) -> bool {
    is_there(at as usize, len, barewire_touch_own)
}

/// Whether the next of the program's places can be written, if those before it can: a look only where
/// another page begins.
#[inline]
pub fn goes_on<T>(at: *const T) -> bool {
    let last = at as usize + size_of::<T>() - 1;
    last % PAGE_BYTES >= size_of::<T>() || can_write(at, size_of::<T>())
}

/// As [`can_read`], for a call that is not on a socket of ours: also where a fault is the program's
/// handler's, or nobody's.
#[inline]
pub fn can_read_aside<T>(at: *const T, len: usize) -> bool {
    // Relaxed: a program that sets a handler meanwhile may have the fault before or after.
    let is_ours = is_watched() && !PROGRAMS.get();
    // Where a caller has its variables, as a rule: to ask the kernel costs a tenth of a microsecond.
    let here = 0_u8;
    let page = |at: usize| at / PAGE_BYTES;
    let is_near = page(at as usize) == page((&raw const here) as usize)
        && page((at as usize).wrapping_add(len)) == page(at as usize);
    let touch = if is_ours || is_near {
        barewire_touch_read
    } else {
        ask_to_read
    };
    is_there(at as usize, len, touch)
}

/// What the program has there, if it can be read: as [`can_read_aside`].
///
/// # Safety
/// Any bytes are a `T`.
#[inline]
pub unsafe fn copy_aside<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: it is there, and as promised.
    can_read_aside(at, size_of::<T>()).then(|| unsafe { at.read_unaligned() })
}

/// Tells the program a time. `false`: there is no such memory, or it is only to be read.
pub fn write_time(at: *mut libc::timespec, time: libc::timespec) -> bool {
    // The kernel writes there first, whoever has the handler.
    let (number, clock) = (libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC as usize);
    // SAFETY: the program's; what the kernel has just written can be written.
    unsafe {
        let is_there = real::syscall(number, clock, at as usize, 0, 0, 0, 0) == 0;
        if is_there {
            at.write_unaligned(time);
        }
        is_there
    }
}

/// As `barewire_touch_read`, by the kernel: of each page it reads some bytes, as a set of signals for
/// an operation that there is not.
///
/// # Safety
/// There is nothing to promise.
unsafe extern "C" fn ask_to_read(first: usize, last: usize) -> c_int {
    const NO_OPERATION: usize = c_int::MAX as usize;
    let mut at = first & !(SET_BYTES - 1);
    let mut there = true;
    while there && at <= last {
        let given = [NO_OPERATION, at, 0, SET_BYTES];
        // SAFETY: nothing is changed.
        there =
            unsafe { barewire_calls::call(libc::SYS_rt_sigprocmask, given) } != Err(libc::EFAULT);
        at = (at | (PAGE_BYTES - 1)) + 1;
    }
    there.into()
}

/// Of a set of signals, to the kernel.
const SET_BYTES: usize = 8;
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Whether the handler is in place. To put it there twice does no harm.
static WATCHED: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));
/// Whether the program has, or had, an action of its own for one of them.
static PROGRAMS: Lone<AtomicBool> = Lone::new(AtomicBool::new(false));

/// Whether the handler is in place, or the program's; there is no socket of ours before.
#[inline]
pub fn is_watched() -> bool {
    WATCHED.get()
}

/// Has the handler in place, where the program has none.
#[inline]
pub fn watch() {
    if !is_watched() {
        begin_to_watch();
    }
}

#[cold]
fn begin_to_watch() {
    for signal in SIGNALS {
        let found = exchange(signal, libc::SIG_DFL, ours());
        if found != libc::SIG_DFL && found != handler() {
            PROGRAMS.set(true);
        }
    }
    WATCHED.set(true);
}

/// Has no handler in place any more, but for the program's.
pub fn end_watch() {
    if WATCHED.swap(false) {
        for signal in SIGNALS {
            exchange(signal, handler(), none());
        }
    }
}

fn none() -> libc::sigaction {
    // SAFETY: zeros are an action: the kernel's own, without mask and flags.
    unsafe { zeroed() }
}

fn ours() -> libc::sigaction {
    libc::sigaction {
        sa_sigaction: handler(),
        sa_flags: libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART,
        ..none()
    }
}

/// Puts an action in place of the one with the handler `from`, if that is there; says what was.
fn exchange(signal: c_int, from: sighandler_t, to: libc::sigaction) -> sighandler_t {
    let (mut now, mut due, mut next) = (none(), from, to);
    // SAFETY: the actions live.
    unsafe {
        if real::sigaction(signal, core::ptr::null(), &raw mut now) != 0 {
            return libc::SIG_ERR;
        }
        if now.sa_sigaction != from {
            return now.sa_sigaction;
        }
        // Another thread may set one meanwhile, and again: what came out, but should not, goes back.
        while real::sigaction(signal, &raw const next, &raw mut now) == 0 && now.sa_sigaction != due
        {
            due = next.sa_sigaction;
            next = now;
        }
    }
    from
}

fn handler() -> sighandler_t {
    on_fault as *const () as sighandler_t
}

/// What the program is told that its handler is.
fn shown(handler_now: sighandler_t) -> sighandler_t {
    if handler_now == handler() {
        libc::SIG_DFL
    } else {
        handler_now
    }
}

/// The handler.
///
/// # Safety
/// Called by the kernel, with what it gives to one that asks for it.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both.
    unsafe {
        let at = instruction(context.cast());
        let touching =
            barewire_touch_first as *const () as u64..barewire_touch_last as *const () as u64;
        if touching.contains(&at.read()) {
            at.write(barewire_touch_last as *const () as u64);
            return;
        }
        let default = none();
        if real::sigaction(signal, &raw const default, core::ptr::null_mut()) != 0 {
            // A filter has refused it: the fault would come again and again.
            copies::end(128 + signal);
        }
        // A fault comes again, and ends the program. What somebody has sent does not, nor what the
        // kernel tells of memory that nobody has touched yet.
        let code = (*info).si_code;
        if code <= 0 || (signal == libc::SIGBUS && code == libc::BUS_MCEERR_AO) {
            let (process, thread) = (ids::id() as usize, libc::gettid() as usize);
            let what = info as usize;
            let number = libc::SYS_rt_tgsigqueueinfo;
            real::syscall(number, process, thread, signal as usize, what, 0, 0);
        }
    }
}

/// Where a context has the address of its next instruction.
///
/// # Safety
/// The context is one that the kernel has given.
unsafe fn instruction(context: *mut libc::ucontext_t) -> *mut u64 {
    // SAFETY: as promised.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        let at = &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize];
        #[cfg(target_arch = "aarch64")]
        let at = &raw mut (*context).uc_mcontext.pc;
        at.cast()
    }
}

/// Runs a call by which the program sets a handler. Ours is in place again if there is none then.
fn setting<T>(signal: c_int, wanted: Option<sighandler_t>, call: impl FnOnce() -> T) -> T {
    let wanted = wanted.filter(|_| SIGNALS.contains(&signal));
    if wanted.is_some_and(|handler| handler != libc::SIG_DFL) {
        PROGRAMS.set(true);
    }
    let result = call();
    if wanted == Some(libc::SIG_DFL) && is_watched() {
        exchange(signal, libc::SIG_DFL, ours());
    }
    result
}

/// `rt_sigaction` by its number, if it is of one of the signals that we watch.
///
/// # Safety
/// The arguments are those of that call.
pub unsafe fn call(args: [usize; 4]) -> Option<c_long> {
    let [signal, action, before, bytes] = args;
    if !is_watched() || !SIGNALS.contains(&(signal as c_int)) || bytes != SET_BYTES {
        return None;
    }
    // An action begins with its handler.
    let action_at = action as *const sighandler_t;
    let is_there = action != 0 && can_read_aside(action_at, size_of::<sighandler_t>());
    // SAFETY: it is there; the program's call; what was before the kernel has just written.
    unsafe {
        let wanted = is_there.then(|| action_at.read_unaligned());
        let result = setting(signal as c_int, wanted, || {
            real::syscall(libc::SYS_rt_sigaction, signal, action, before, bytes, 0, 0)
        });
        let before = before as *mut [sighandler_t; ACTION_WORDS];
        if result == 0 && !before.is_null() && before.read_unaligned()[0] == handler() {
            before.write_unaligned([libc::SIG_DFL; ACTION_WORDS]);
        }
        Some(result)
    }
}

/// The kernel's action: handler, flags, where the handler returns to, mask.
const ACTION_WORDS: usize = 4;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's call, and its action; what was before the kernel has just written.
    unsafe {
        let wanted = action.as_ref().map(|action| action.sa_sigaction);
        let result = setting(signal, wanted, || real::sigaction(signal, action, before));
        if result == 0 && !before.is_null() && (*before).sa_sigaction == handler() {
            before.write(MaybeUninit::zeroed().assume_init());
        }
        result
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's call.
    unsafe { sigaction(signal, action, before) }
}

/// The older functions, which return the handler that was.
macro_rules! returns_handler {
    ($($name:ident)*) => { $(
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            // SAFETY: the program's call.
            setting(signal, Some(handler), || shown(unsafe { real::$name(signal, handler) }))
        }
    )* };
}

returns_handler! { signal bsd_signal ssignal sysv_signal __sysv_signal sigset }
