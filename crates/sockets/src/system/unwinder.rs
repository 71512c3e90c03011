//! The unwinder, `libgcc_s.so.1`, loaded when it is first called.
//!
//! A thread that is cancelled in a call, or a C++ exception, unwinds through this library's functions. In such
//! programs the C library, or the program, has loaded the unwinder already. Every other program would load it
//! at its start, only because this library refers to it. That would take longer than all else that the library
//! does at the start. So the unwinder's functions are defined here. The first call of each looks up the real
//! one, and every call jumps there: the unwinder sees the caller's frame, as if there were nothing in between.
//!
//! They are hidden: the program's own calls do not come here. If another version of Rust's standard library
//! calls a function that is missing below, the dynamic loader finds it as usual, and loads the unwinder at the
//! start.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::system::real;

/// The functions, in the order of the code below.
const NAMES: [&CStr; 14] = [
    c"_Unwind_Backtrace",
    c"_Unwind_DeleteException",
    c"_Unwind_FindEnclosingFunction",
    c"_Unwind_GetCFA",
    c"_Unwind_GetDataRelBase",
    c"_Unwind_GetIP",
    c"_Unwind_GetIPInfo",
    c"_Unwind_GetLanguageSpecificData",
    c"_Unwind_GetRegionStart",
    c"_Unwind_GetTextRelBase",
    c"_Unwind_RaiseException",
    c"_Unwind_Resume",
    c"_Unwind_SetGR",
    c"_Unwind_SetIP",
];

/// Where they are; null: not looked up yet.
static FOUND: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; NAMES.len()];

core::arch::global_asm!(
    // Each: jumps to the real function, with the arguments and the stack as they are.
    ".macro barewire_unwinder name, nth",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    ".p2align 4",
    "\\name:",
    ".cfi_startproc",
    "mov rax, qword ptr [rip + {found} + 8 * \\nth]",
    "test rax, rax",
    "jz 2f",
    "jmp rax",
    "2: mov eax, \\nth",
    "jmp barewire_unwinder_find",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    // Looks up the one whose number is in eax. No function of the unwinder has more than three arguments.
    ".p2align 4",
    ".type barewire_unwinder_find, @function",
    "barewire_unwinder_find:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "mov edi, eax",
    "call {find}",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp rax",
    ".cfi_endproc",
    ".size barewire_unwinder_find, . - barewire_unwinder_find",
    "barewire_unwinder _Unwind_Backtrace, 0",
    "barewire_unwinder _Unwind_DeleteException, 1",
    "barewire_unwinder _Unwind_FindEnclosingFunction, 2",
    "barewire_unwinder _Unwind_GetCFA, 3",
    "barewire_unwinder _Unwind_GetDataRelBase, 4",
    "barewire_unwinder _Unwind_GetIP, 5",
    "barewire_unwinder _Unwind_GetIPInfo, 6",
    "barewire_unwinder _Unwind_GetLanguageSpecificData, 7",
    "barewire_unwinder _Unwind_GetRegionStart, 8",
    "barewire_unwinder _Unwind_GetTextRelBase, 9",
    "barewire_unwinder _Unwind_RaiseException, 10",
    "barewire_unwinder _Unwind_Resume, 11",
    "barewire_unwinder _Unwind_SetGR, 12",
    "barewire_unwinder _Unwind_SetIP, 13",
    found = sym FOUND,
    find = sym find,
);

/// Looks up the function of this number. `errno` stays: a thread that unwinds may end in a handler that looks
/// at it.
#[cold]
extern "C" fn find(nth: u32) -> *mut c_void {
    let saved = real::errno();
    let at = usize::try_from(nth).map_or(0, |nth| nth % NAMES.len());
    // SAFETY: both strings end with a zero; what was loaded is never unloaded, since this handle stays.
    let found = unsafe {
        let unwinder = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW);
        if unwinder.is_null() {
            core::ptr::null_mut()
        } else {
            libc::dlsym(unwinder, NAMES[at].as_ptr())
        }
    };
    if found.is_null() {
        // As the C library does, which needs it for the same.
        std::process::abort();
    }
    // Relaxed: the pointer is to code that was there before it.
    FOUND[at].store(found, Ordering::Relaxed);
    real::set_errno(saved);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: the code above has these names; it is only looked at.
    unsafe extern "C" {
        static _Unwind_GetIPInfo: u8;
        static _Unwind_Resume: u8;
        static _Unwind_SetIP: u8;
    }

    #[test]
    fn each_name_leads_to_the_function_of_that_name() {
        for (nth, name) in NAMES.iter().enumerate() {
            let found = find(nth as u32);
            // SAFETY: zeroed memory of ours, and a name that lives as long as the code.
            let info = unsafe {
                let mut info: libc::Dl_info = core::mem::zeroed();
                assert_ne!(libc::dladdr(found, &raw mut info), 0);
                assert!(!info.dli_sname.is_null());
                CStr::from_ptr(info.dli_sname)
            };
            assert_eq!(info, *name);
        }
    }

    #[test]
    fn the_code_has_them_in_the_same_order() {
        // `mov rax, [rip + place]` of seven bytes leads to the word where the function is.
        let word_of = |code: *const u8| {
            // SAFETY: the code is as above.
            unsafe {
                assert_eq!(core::slice::from_raw_parts(code, 3), [0x48, 0x8b, 0x05]);
                let offset = code.add(3).cast::<i32>().read_unaligned();
                code.offset(7 + offset as isize) as usize
            }
        };
        for (name, code) in [
            (c"_Unwind_GetIPInfo", &raw const _Unwind_GetIPInfo),
            (c"_Unwind_Resume", &raw const _Unwind_Resume),
            (c"_Unwind_SetIP", &raw const _Unwind_SetIP),
        ] {
            let nth = NAMES.iter().position(|it| *it == name).unwrap();
            assert_eq!(word_of(code), core::ptr::from_ref(&FOUND[nth]) as usize);
        }
    }

    #[test]
    fn what_unwinds_is_caught() {
        let caught = std::panic::catch_unwind(|| panic!("on purpose"));
        assert!(caught.is_err());
    }
}
