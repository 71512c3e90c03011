//! Whether sockets of this process may be upgraded at all, as far as its sandbox permits.

use crate::process::sandbox::{is_open, is_open_or, note_found};
use crate::process::sandbox_probe;
use crate::table::{slots, status};

/// Whether sockets may be upgraded. The first call finds out.
#[inline]
pub fn may_upgrade() -> bool {
    // Where nothing can be carried, it does not matter.
    !slots::is_hidden() && is_open_or(find_out)
}

#[cold]
pub fn find_out() -> bool {
    let lives = !sandbox_probe::is_filtered() || sandbox_probe::survives();
    if note_found(lives) && !lives {
        slots::hide();
        status::confined(true);
    }
    is_open()
}
