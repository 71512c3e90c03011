//! Ring-full wait: polling for room in a full byte ring while its receiver is awake, for as long as that
//! pays.
//!
//! Sending over the kernel connection instead costs two more copies and two changes of path. But the
//! receiver may be slow to make room: it may be busy, or run in the very thread that sends. So a
//! sender that has polled without success skips the wait for the next full rings, more of them each time.

use barewire_fabric::hybrid::Broken;

use crate::process::lock::Held;
use crate::process::{clock, spin};
use crate::table::socket_state::SocketState;

/// How long a sender polls for room, from when the receiver last made some.
const WAIT_NS: u64 = 200_000;
/// How long a non-blocking sender polls for room in all. A receiver that reads 64 KiB at once makes room
/// when it has them.
const LOOK_NS: u64 = 50_000;

/// Polls a full ring for a while. Returns whether there is room.
pub fn poll_for_room(socket: &SocketState, waits: bool, held: &Held<'_>) -> Result<bool, Broken> {
    let looks = &socket.ring_full_rests;
    if !spin::may_yield() || !looks.is_worth_one() {
        return Ok(false);
    }
    let memory = socket.memory();
    let sender = socket.sender(held);
    let mut until_ns = clock::now_ns() + if waits { WAIT_NS } else { LOOK_NS };
    let mut before = sender.in_ring();
    loop {
        for _ in 0..32 {
            core::hint::spin_loop();
        }
        let room = sender.room(&memory)?;
        // A few lines at a time would have both ends fight for them.
        if room >= sender.ring_bytes() / 4 {
            looks.forget();
            return Ok(true);
        }
        let now_ns = clock::now_ns();
        if waits && sender.in_ring() != before {
            before = sender.in_ring();
            until_ns = now_ns + WAIT_NS;
        }
        if sender.is_kernel_wanted(&memory) || sender.receiver_sleeps(&memory) {
            return Ok(room > 0);
        }
        if now_ns > until_ns || !spin::yields_well() {
            looks.note_no_room();
            return Ok(room > 0);
        }
    }
}
