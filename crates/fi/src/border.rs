//! The border between libfabric and this crate.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::raw::{self, Function, fi_ops};

/// A table of functions that never changes.
pub(crate) struct Constant<T>(pub(crate) T);

// SAFETY: nobody writes it, and its pointers are those of functions and texts, which are there as long as the library.
unsafe impl<T> Sync for Constant<T> {}

/// What a call returns to libfabric.
pub(crate) trait Answer {
    /// A negative error number.
    fn error(number: c_int) -> Self;
}

impl Answer for c_int {
    fn error(number: c_int) -> c_int {
        -number
    }
}

impl Answer for isize {
    fn error(number: c_int) -> isize {
        -(number as isize)
    }
}

/// Does the work of a call. A panic, which is a mistake of this crate, becomes an error of the call.
#[inline]
pub(crate) fn guarded<A: Answer>(work: impl FnOnce() -> Result<A, c_int>) -> A {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => A::error(error),
        Err(_) => A::error(raw::FI_EOTHER),
    }
}

/// What can be done with an object that can only be closed, besides its own calls.
pub(crate) const fn only_closed_by(close: Function) -> Constant<fi_ops> {
    Constant(fi_ops {
        size: size_of::<fi_ops>(),
        close,
        bind: absent as Function,
        control: absent as Function,
        ops_open: absent as Function,
        tostr: absent as Function,
        ops_set: absent as Function,
    })
}

/// Stands in tables for every function that this provider does not have. The calling conventions of x86-64 and AArch64
/// let a function have fewer parameters than its caller gives; the answer also holds for a caller that takes an `int`.
pub(crate) extern "C" fn absent() -> isize {
    isize::error(raw::FI_ENOSYS)
}

/// Does nothing: there is nothing to clean up.
pub(crate) extern "C" fn nothing() {}
