//! Returns from functions after a system call, where the kernel leaves their predictor out of step.
//!
//! A processor predicts where a function returns to by a small stack of its own: a call puts an address there, a return
//! takes one. On AMD processors with the weakness "speculative return stack overflow" Linux returns from its functions in
//! another way (`srso_safe_ret` in `arch/x86/lib/retpoline.S`). What its calls have put there stays, so after a system call
//! a program's own returns are predicted to lead into the kernel. The first one took 110 ns on an EPYC of family 25, model
//! 17 (a `read` from a socket that has nothing: 255 ns; 365 ns with a return behind it; 265 ns with addresses of the
//! program put there in between).
//!
//! Where the kernel does not do so those addresses would be in the way of the right ones. So a program says first whether
//! it does: `barewire_sys::returns` looks.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether returns after a system call are predicted wrong here.
static ARE_MISPREDICTED: AtomicBool = AtomicBool::new(false);

/// Says whether the kernel leaves the predictor out of step.
pub fn set_returns_mispredicted(are_mispredicted: bool) {
    // Relaxed: a thread that sees it later is slower until then, and nothing else depends on it.
    ARE_MISPREDICTED.store(are_mispredicted && !has_shadow_stack(), Ordering::Relaxed);
}

/// To be called right after a system call on a path where 100 ns count: puts the predictor of returns in step again, if
/// the kernel has left it out of step. Has no effect that a program can see.
#[inline(always)]
pub fn after_system_call() {
    // Relaxed: see `set_returns_mispredicted`.
    if ARE_MISPREDICTED.load(Ordering::Relaxed) {
        fill_predictor();
    }
}

/// Puts addresses of the program into the predictor: 24, for as many returns until the next system call. They are wrong,
/// too, but a wrong prediction within the program takes some nanoseconds only.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn fill_predictor() {
    // SAFETY: each call goes to the next line, which takes what the call has stored from the stack. The compiler keeps
    // nothing below the stack pointer here, since it is not told that the stack is left alone. There is no shadow stack,
    // which would miss the returns (see `set_returns_mispredicted`).
    unsafe {
        core::arch::asm!(".rept 24", "call 66f", "int3", "66: add rsp, 8", ".endr");
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn fill_predictor() {}

/// Whether the processor keeps a second stack of return addresses for this thread, and compares.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_shadow_stack() -> bool {
    let shadow_stack_pointer: u64;
    // SAFETY: `rdsspq rax` reads the pointer of that stack. Without one, or on a processor that knows none, it does nothing.
    unsafe {
        core::arch::asm!(
            ".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8",
            inout("rax") 0_u64 => shadow_stack_pointer,
            options(nomem, nostack, preserves_flags)
        );
    }
    shadow_stack_pointer != 0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_shadow_stack() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values in registers and on the stack, and returns through several functions, are what they were.
    #[inline(never)]
    fn depth(left: u64, kept: [u64; 4]) -> u64 {
        if left == 0 {
            fill_predictor();
            return kept.iter().sum();
        }
        let below = depth(left - 1, kept.map(|value| value + left));
        after_system_call();
        below + kept[(left % 4) as usize]
    }

    #[test]
    fn nothing_changes_but_time() {
        for are_mispredicted in [false, true] {
            set_returns_mispredicted(are_mispredicted);
            let expected = (1..=60).map(|left| {
                let added: u64 = (left + 1..=60).sum();
                [1, 2, 3, 4][(left % 4) as usize] + added
            });
            let deepest: u64 = 1 + 2 + 3 + 4 + 4 * (1..=60).sum::<u64>();
            assert_eq!(depth(60, [1, 2, 3, 4]), deepest + expected.sum::<u64>());
        }
        set_returns_mispredicted(false);
    }
}
