//! What is done when the program sets a filter of system calls on itself. See `sandbox`.

use crate::handoff::give_back;
use crate::process::fault;
use crate::process::sandbox::{
    begin_leaving, begin_to_come_back, is_open_state, note_all_left, note_sandboxed, note_state,
};
use crate::system::real;
use crate::table::{slots, status};

/// The program is about to set a filter: all its sockets fall back to the kernel.
pub fn begin() {
    let Some(before) = begin_leaving() else {
        return;
    };
    let saved = real::errno();
    // A look-up might need calls.
    real::look_up_all();
    note_all_left();
    give_back::give_all_back_to_sandbox();
    slots::hide();
    status::confined(true);
    fault::end_watch();
    real::set_errno(saved);
    note_sandboxed(before);
}

/// A filter was not set after all. If there is no other, sockets may be upgraded again. Those that fell
/// back stay with the kernel.
pub fn refused() {
    let Some(before) = begin_to_come_back() else {
        return;
    };
    if is_open_state(before) {
        fault::watch();
    }
    slots::show();
    status::confined(false);
    note_state(before);
}
