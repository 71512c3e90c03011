//! Waiting for room in a full ring, while its receiver is awake: for as long as that pays.
//!
//! What goes over the line instead costs two copies more and a change of lanes there and back. But a
//! receiver may be long in coming: one that is busy with what it has, or the very thread that sends. So who
//! has looked in vain does without for a while, the longer the more often that has been.

use barewire_fabric::hybrid::Broken;

use crate::process::clock;
use crate::process::lock::Held;
use crate::table::socket_state::Record;

/// How long a sender looks for room, from when the receiver last made some.
const WAIT_NS: u64 = 200_000;
/// How long one that does not wait looks for it in all. A receiver that reads 64 KiB at once tells of room
/// when it has them.
const LOOK_NS: u64 = 50_000;

/// Whether there is room in the ring, which was full, after a while.
pub fn comes(record: &Record, waits: bool, held: &Held<'_>) -> Result<bool, Broken> {
    let looks = &record.looks_for_room;
    if !looks.is_worth_one() {
        return Ok(false);
    }
    let carrier = record.carrier();
    let sender = record.sender(held);
    let mut until_ns = clock::now_ns() + if waits { WAIT_NS } else { LOOK_NS };
    let mut before = sender.in_ring();
    loop {
        for _ in 0..32 {
            core::hint::spin_loop();
        }
        let room = sender.room(&carrier)?;
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
        if sender.is_kernel_wanted(&carrier) || sender.receiver_sleeps(&carrier) {
            return Ok(room > 0);
        }
        if now_ns > until_ns {
            looks.in_vain();
            return Ok(room > 0);
        }
        clock::give_way();
    }
}
