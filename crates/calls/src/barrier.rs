//! Fences in the processors that run other processes: `membarrier`.

use crate::call;

/// `MEMBARRIER_CMD_GLOBAL`: waits for all processors, which takes milliseconds.
const EVERYWHERE: usize = 1;
/// `MEMBARRIER_CMD_GLOBAL_EXPEDITED`
const FENCE: usize = 2;
/// `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED`
const TAKE_PART: usize = 4;

/// Lets [`fence`] of other processes reach this one. `false`: the kernel, before Linux 4.16, or a sandbox lacks it.
pub fn take_part() -> bool {
    command(TAKE_PART)
}

/// Makes every processor that runs a process that takes part pass a full fence. It can fail for want of memory.
pub fn fence() -> bool {
    command(FENCE)
}

/// As [`fence`], in all processes. Slow (milliseconds), but it needs no memory.
pub fn fence_everywhere() -> bool {
    command(EVERYWHERE)
}

fn command(command: usize) -> bool {
    // SAFETY: no pointers.
    unsafe { call(libc::SYS_membarrier, [command]) == Ok(0) }
}
