//! Errors that the kernel has told of a connection and the program was not told of yet.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::system::kernel;
use crate::table::socket_state::Record;

/// The kernel tells an error of the line once; the program is told of it later. 0: it was the end.
pub fn keep_error(record: &Record, error: c_int) {
    if error != 0 {
        // Relaxed: it stands for itself.
        record.line_error.store(error, Ordering::Relaxed);
    }
}

/// Whether there is such an error.
pub fn has_error(record: &Record) -> bool {
    // Relaxed: as above.
    record.line_error.load(Ordering::Relaxed) != 0
}

/// Such an error; it is told now.
pub fn take_kept_error(record: &Record) -> Option<c_int> {
    // Looked at first: a swap takes its time. Another thread may be told at the same time.
    let error = match has_error(record) {
        true => record.line_error.swap(0, Ordering::Relaxed),
        false => 0,
    };
    (error != 0).then_some(error)
}

/// The error of a socket that the program has not been told of yet, or else 0; it is told now.
pub fn take_error(fd: c_int, record: &Record) -> c_int {
    take_kept_error(record)
        .unwrap_or_else(|| kernel::option(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0))
}
