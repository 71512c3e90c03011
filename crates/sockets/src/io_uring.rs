//! Programs that use io_uring: what they submit is looked at before the kernel gets it.

pub mod entries;
pub mod rings;
