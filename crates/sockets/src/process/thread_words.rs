//! Words of the calling thread that are read without a call: the number of its processor, as the kernel keeps it up to
//! date, and one word of our own.
//!
//! A shared library reaches its thread-local variables through a call of the C library, and the number of the processor
//! takes a call as well. Every send needs both. Here each is one load relative to the thread pointer.
//!
//! | word | where |
//! |---|---|
//! | processor | `cpu_id` of the kernel's `struct rseq`, byte 4, at `__rseq_offset` from the thread pointer (glibc 2.35 or later) |
//! | own word | `barewire_thread_word`, in the static part of the thread-local memory; x86-64 only |

use core::sync::atomic::AtomicUsize;

use crate::process::words::AtStart;

/// Where `struct rseq` lies behind the thread pointer, modulo 2^64; 0: the C library has none.
static RSEQ_OFFSET: AtStart<AtomicUsize> = AtStart::new(AtomicUsize::new(0));
/// Byte of `cpu_id` in `struct rseq` (linux/rseq.h).
const CPU_ID_AT: usize = 4;

/// Finds out where the words lie. In the constructor.
pub fn set_up() {
    let symbol = |name: &core::ffi::CStr| {
        // SAFETY: the name ends with a zero.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let offset = symbol(c"__rseq_offset").cast::<isize>();
    let size = symbol(c"__rseq_size").cast::<u32>();
    if offset.is_null() || size.is_null() {
        // SAFETY: no arguments. What `dlsym` has said is not meant for the program.
        unsafe { libc::dlerror() };
        return;
    }
    // SAFETY: variables of the C library's, of these types, constant since it started. No size: not registered.
    unsafe {
        if *size != 0 {
            RSEQ_OFFSET.set(*offset as usize);
        }
    }
}

/// The number of the processor that this thread runs on; `None` if the kernel does not tell.
#[inline]
pub fn processor() -> Option<u32> {
    let offset = RSEQ_OFFSET.get();
    if offset == 0 {
        return None;
    }
    // SAFETY: the C library has registered `struct rseq` of this thread there, for as long as the thread lives.
    let number = unsafe { load_behind_thread_pointer(offset.wrapping_add(CPU_ID_AT)) };
    // Negative: this thread's was not registered.
    u32::try_from(number).ok()
}

/// # Safety
/// So far behind the thread pointer lies an `i32`.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn load_behind_thread_pointer(offset: usize) -> i32 {
    let value;
    // SAFETY: as promised; a load and nothing else.
    unsafe {
        core::arch::asm!(
            "mov {0:e}, dword ptr fs:[{1}]",
            out(reg) value, in(reg) offset, options(nostack, preserves_flags, readonly)
        );
    }
    value
}

/// # Safety
/// So far behind the thread pointer lies an `i32`.
#[cfg(target_arch = "aarch64")]
#[inline]
unsafe fn load_behind_thread_pointer(offset: usize) -> i32 {
    let pointer: usize;
    // SAFETY: reads a register. What lies there is promised, and changes under our hands: volatile.
    unsafe {
        core::arch::asm!("mrs {0}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
        (pointer.wrapping_add(offset) as *const i32).read_volatile()
    }
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss.barewire_thread_word,\"awT\",@nobits",
    ".p2align 3",
    ".globl barewire_thread_word",
    ".hidden barewire_thread_word",
    ".type barewire_thread_word,@object",
    ".size barewire_thread_word,8",
    "barewire_thread_word:",
    ".zero 8",
    ".popsection",
);

/// This thread's own word; 0 in the beginning.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn own_word() -> u64 {
    let value;
    // SAFETY: the word above, of this thread, at the offset that the loader has put into the table.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + barewire_thread_word@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) value, options(nostack, preserves_flags, readonly)
        );
    }
    value
}

/// Sets this thread's own word.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn set_own_word(value: u64) {
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + barewire_thread_word@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _, in(reg) value, options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
thread_local! {
    static OWN_WORD: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// This thread's own word; 0 in the beginning.
#[cfg(not(target_arch = "x86_64"))]
pub fn own_word() -> u64 {
    OWN_WORD.with(core::cell::Cell::get)
}

/// Sets this thread's own word.
#[cfg(not(target_arch = "x86_64"))]
pub fn set_own_word(value: u64) {
    OWN_WORD.with(|cell| cell.set(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_word_of_its_own() {
        set_own_word(7);
        let others = std::thread::spawn(|| {
            let first = own_word();
            set_own_word(8);
            (first, own_word())
        });
        assert_eq!(others.join().unwrap(), (0, 8));
        assert_eq!(own_word(), 7);
    }
}
