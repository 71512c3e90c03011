//! Whether memory that the program names is there: where the kernel would say `EFAULT`, so do we.
//!
//! Before bytes are copied from or to the program's memory, a byte of each page of it is touched, by
//! code of which the addresses are known. Whether a page is there the processor tells: it costs
//! nothing but the touch, and what it says is right, whoever maps and unmaps. If it is not, the
//! signal comes to a handler of ours, which has that code answer `false`.
//!
//! The handler is there from the first socket that we look at, and only as long as the program has
//! none for `SIGSEGV` and `SIGBUS` itself; asked for its handler, it is told that it has none. A fault
//! of the program's own ends it as ever, at the instruction that it was. What the program's own
//! handler is in the way of is told without a touch for pointers that are null, or nearly, and for
//! those that no memory can have.
//!
//! Against it: to ask the kernel (`mincore`, a write to a pipe) costs as much as what is saved, and
//! to keep what it says needs every call that changes the map. To keep our handler in front of the
//! program's, and to call that as the kernel would, is to imitate the kernel's signals, in
//! programs that depend on them (virtual machines of languages).

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{sighandler_t, siginfo_t};

use crate::{process, real};

/// No memory of a program begins below: the kernel's own default for it.
const LOWEST: usize = 1 << 16;
/// Nor is any above, on any machine that we know.
const HIGHEST: usize = 1 << 56;

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
    // SAFETY: a page that is not there is what the handler is for; without it the program's own copy
    // would fault as well. What is written is about to be, or keeps its value.
    at >= LOWEST && at <= last && last < HIGHEST && unsafe { touch(at, last) } != 0
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

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether the handler is in place, or the program's; there is no socket of ours before.
#[inline]
pub fn is_watched() -> bool {
    // Relaxed, here and below: to watch twice does no harm.
    WATCHED.load(Ordering::Relaxed)
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
        // SAFETY: both actions live; zeros are one without mask and flags.
        unsafe {
            let mut before: libc::sigaction = zeroed();
            let mut ours: libc::sigaction = zeroed();
            ours.sa_sigaction = handler();
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            let result = real::sigaction(signal, core::ptr::null(), &raw mut before);
            if result == 0 && before.sa_sigaction == libc::SIG_DFL {
                real::sigaction(signal, &raw const ours, core::ptr::null_mut());
            }
        }
    }
    WATCHED.store(true, Ordering::Relaxed);
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
        let default: libc::sigaction = zeroed();
        real::sigaction(signal, &raw const default, core::ptr::null_mut());
        // A fault comes again, and ends the program. What somebody has sent does not.
        if (*info).si_code <= 0 {
            let (process, thread) = (process::id() as usize, libc::gettid() as usize);
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

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's call; what was before the kernel has just written.
    unsafe {
        let result = real::sigaction(signal, action, before);
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
            shown(unsafe { real::$name(signal, handler) })
        }
    )* };
}

returns_handler! { signal bsd_signal ssignal sysv_signal __sysv_signal sigset }
