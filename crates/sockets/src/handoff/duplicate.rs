//! Duplicated descriptors: `dup`, `dup2`, `dup3` and `F_DUPFD`.

use core::ffi::c_int;

use crate::epoll::sets;
use crate::handoff::give_back::{self, used_past_us};
use crate::process::ids;
use crate::system::cancel::quietly;
use crate::system::real;
use crate::table::descriptors;

/// Runs a call of the program that duplicates a descriptor, and returns the new descriptor.
pub fn duplicating(old: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let is_known = descriptors::find(old).is_some() || sets::is_set(old);
    if !is_known {
        return call();
    }
    if ids::is_vfork_child() {
        give_back::before_duplicate(old);
        return call();
    }
    let new = real::keeping_errno(|| descriptors::duplicate(old, call));
    if new >= 0 && new != old {
        quietly(|| {
            // The C library's own streams are there: what the program prints goes past us.
            if new <= libc::STDERR_FILENO {
                used_past_us(new);
            }
            sets::set_duplicated(old, new);
        });
    }
    new
}
