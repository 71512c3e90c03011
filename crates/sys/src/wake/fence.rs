//! Asymmetric fences: one side pays for both.
//!
//! Two processes each store, then load what the other stored; one of the two
//! must see the other's store. With [`light_fence`] between store and load on
//! the side that does it often and [`heavy_fence`] on the side that does it
//! seldom, the frequent side needs no fence instruction, as long as it is
//! registered and the seldom side has the membarrier call.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use barewire_calls::barrier;

/// Registers this process to take part in the heavy fences of others, and
/// says whether that, and [`heavy_fence`] itself, work by membarrier here.
/// Decided once per process (children by fork inherit it); tell the peer, and
/// use the plain fences on both sides where either side says false. False if
/// the kernel (before Linux 4.16) or a sandbox lacks it, or if the environment
/// has `BAREWIRE_NO_MEMBARRIER=1`.
pub fn register_expedited() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        if std::env::var_os("BAREWIRE_NO_MEMBARRIER").is_some_and(|v| v == "1") {
            return false;
        }
        barrier::take_part() && barrier::fence()
    })
}

/// Orders this thread's earlier stores before its later loads, and the same in
/// every thread of every registered process at wherever it is just then. Where
/// [`register_expedited`] says false it is a plain fence, for this thread only.
pub fn heavy_fence() {
    // Pairs with the peer's `light_fence`.
    fence(Ordering::SeqCst);
    if register_expedited() {
        expedited();
    }
}

fn expedited() {
    // It can fail for want of memory only, so it is worth trying again.
    for _ in 0..8 {
        if barrier::fence() {
            return;
        }
        std::thread::yield_now();
    }
    // Slow (milliseconds), but it does not allocate.
    let _ = barrier::fence_everywhere();
}

/// The frequent side's fence between a store and a load. `by_membarrier`: this
/// process is registered, and the other side fences by membarrier; then it
/// only keeps the compiler from reordering, and else it is a full fence.
#[inline(always)]
pub fn light_fence(by_membarrier: bool) {
    // Each pairs with the peer's `heavy_fence`.
    if by_membarrier {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
