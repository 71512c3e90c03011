//! Bytes out of and into a socket that follows the carrier's protocol.
//!
//! All of it holds the lock of its direction, but not while it sleeps. A blocking read
//! sleeps in the kernel, in a `recv` that only peeks: so timeouts, signals, restarts,
//! cancellation and the end of the connection are the kernel's own.

mod errors;
pub mod in_vain;
mod leaving;
pub mod low_water;
mod peeking;
pub mod probe;
mod quick;
mod ready;
mod recall;
mod receiving;
pub mod room;
mod sending;
mod tokens;

use core::ffi::c_int;

use libc::ssize_t;

pub use errors::{has_error, keep_error, take_error, take_kept_error};
pub use leaving::{Left, Patience, cut, let_go, line_only, splice_by_hand, with_line};
pub use ready::{Readiness, is_in_ring, readable_bytes, settle, unread_by_peer};
pub use recall::{answer, answer_beside, is_asked};
pub use receiving::{SIOCATMARK, arm, leave_to_kernel, read_past_us, receive, receive_with};
pub use sending::{mark, send};
pub use tokens::{Tokens, take_tokens};

use crate::confinement;
use crate::real::{self, fail};
use crate::record::{self, RELAYED, Record, Why};

/// The other side broke the protocol, or a process that shares the socket was killed in the
/// middle of a call: the connection ends, as if it had been reset.
#[cold]
fn give_up(fd: c_int, record: &Record) -> ssize_t {
    record.note_why(Why::Broken);
    if record::is_of(fd, record) {
        // SAFETY: no pointers.
        unsafe { real::shutdown(fd, libc::SHUT_RDWR) };
    }
    fail(libc::ECONNRESET)
}

/// Whether the socket was closed while a call waited that began at this `generation` of its record:
/// then the descriptor and the record may be another's. Not if a relay has taken its place, or the
/// program has confined itself: then the descriptor is the kernel's.
fn is_over(fd: c_int, record: &Record, generation: u32) -> bool {
    let is_ours = record::is_of(fd, record) || record.has(RELAYED);
    (record.generation() != generation || !is_ours) && !confinement::all_left()
}
