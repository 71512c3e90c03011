//! Programs that run with more rights than whoever began them (secure execution: set-user-id and
//! set-group-id programs, file capabilities, decisions of a security module).
//!
//! Such a program has its environment from somebody with fewer rights, who could have the library append to
//! files, start threads or poll longer in that program's name. The kernel says which programs these are
//! (`AT_SECURE` in getauxval(3)). In them the library does nothing: it reads no setting, opens nothing,
//! starts nothing and marks no socket, and every function goes straight to the C library.
//!
//! It does one thing, as the dynamic loader does with `LD_PRELOAD`: it removes its own variables
//! from the environment. A set-user-id program may begin another one with its rights for both the
//! real and the effective user, as `su` does. That one is not a secure execution, and would obey them.

use core::ffi::{CStr, c_char};

/// How the names of all our variables begin.
const PREFIX: &[u8] = b"BAREWIRE_";

/// Takes our variables out of the environment. For the constructor: there is one thread.
pub fn clear_variables() {
    // SAFETY: a variable of the C library's, of this type.
    unsafe extern "C" {
        static environ: *mut *mut c_char;
    }
    // SAFETY: the C library has set it before any constructor.
    let list = unsafe { environ };
    if !list.is_null() {
        // SAFETY: a list of strings, which ends with a null pointer, and nobody else uses it now.
        unsafe { remove_ours(list) };
    }
}

/// Closes the gaps that our variables leave. The list does not move: the program has its address, too.
///
/// # Safety
/// The list is one of strings that ends with a null pointer, and is the caller's to change.
unsafe fn remove_ours(list: *mut *mut c_char) {
    // SAFETY: as promised: both indexes are within the list, up to its null pointer.
    unsafe {
        let (mut from, mut to) = (0, 0);
        loop {
            let variable = *list.add(from);
            let is_ours =
                !variable.is_null() && CStr::from_ptr(variable).to_bytes().starts_with(PREFIX);
            if !is_ours {
                *list.add(to) = variable;
                to += 1;
            }
            if variable.is_null() {
                return;
            }
            from += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_variables_go_and_all_others_stay_in_their_order() {
        let given = [
            c"BAREWIRE_WHY=/f",
            c"A=BAREWIRE_",
            c"BAREWIRE_",
            c"BAREWIRE",
            c"BAREWIRE_OFF=1",
        ];
        let mut list: Vec<*mut c_char> =
            given.iter().map(|text| text.as_ptr().cast_mut()).collect();
        list.push(core::ptr::null_mut());
        // SAFETY: a list as it is to be; it is ours.
        unsafe { remove_ours(list.as_mut_ptr()) };
        let end = list.iter().position(|text| text.is_null()).unwrap();
        // SAFETY: strings that end with a zero.
        let left: Vec<_> = list[..end]
            .iter()
            .map(|&text| unsafe { CStr::from_ptr(text) })
            .collect();
        assert_eq!(left, [c"A=BAREWIRE_", c"BAREWIRE"]);
    }
}
