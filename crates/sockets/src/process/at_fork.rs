//! The variables that every fork writes, in the parent or in the child. They lie in one page. After a fork, the
//! first write to a page copies it; so writing all the others costs nothing more.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::process::words::{Guarded, Lone};

/// A cache line of its own: threads write here that have nothing to do with each other.
#[repr(align(64))]
pub struct Line<T>(pub T);

/// Larger than it is, so that it is in one page.
#[repr(C, align(256))]
pub struct AtFork {
    /// For `ids`.
    pub ids: Line<[Lone<AtomicU32>; 3]>,
    /// The word of the lock `table::gate`.
    pub gate: Line<AtomicU32>,
    /// The word of the lock of the epoll tables.
    pub sets: Line<AtomicU32>,
    /// For `table::process_refs`.
    pub process_refs: Line<ProcessRefs>,
}

/// What `table::process_refs` keeps there.
pub struct ProcessRefs {
    pub own: [Lone<AtomicU32>; 3],
    /// Under the gate.
    pub for_child: [Guarded<AtomicU64>; 2],
}

const _: () = assert!(size_of::<AtFork>() <= align_of::<AtFork>());

pub static AT_FORK: AtFork = AtFork {
    ids: Line([const { Lone::new(AtomicU32::new(0)) }; 3]),
    gate: Line(AtomicU32::new(0)),
    sets: Line(AtomicU32::new(0)),
    process_refs: Line(ProcessRefs {
        own: [const { Lone::new(AtomicU32::new(0)) }; 3],
        for_child: [const { Guarded::new(AtomicU64::new(0)) }; 2],
    }),
};
