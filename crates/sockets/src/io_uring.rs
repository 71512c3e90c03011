//! Programs that use io_uring: the library inspects what they submit before the kernel gets it.

pub mod entries;
pub mod rings;
