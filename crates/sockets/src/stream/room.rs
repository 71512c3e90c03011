//! Waiting for room in a full ring, while its receiver is awake: for as long as that pays.
//!
//! What goes over the line instead costs two copies more and a change of lanes there and back. But a
//! receiver may be long in coming: one that is busy with what it has, or the very thread that sends. So who
//! has looked in vain does without for a while, the longer the more often that has been.

use core::sync::atomic::{AtomicU32, Ordering};

use barewire_fabric::carrier::Broken;

use crate::lock::Held;
use crate::process;
use crate::record::Record;

/// How long a sender looks for room, from when the receiver last made some.
const WAIT_NS: u64 = 200_000;
/// How long one that does not wait looks for it in all. A receiver that reads 64 KiB at once tells of room
/// when it has them.
const LOOK_NS: u64 = 50_000;
/// At most so many full rings in a row are left without a look.
const REST_MAX: u32 = 64;

/// What a socket remembers of its looks, under its send lock.
#[repr(C)]
pub struct Looks {
    /// Full rings to come that are left at once.
    rest: AtomicU32,
    /// How many those will be after the next look in vain.
    next_rest: AtomicU32,
}

// Relaxed, all: under the lock.
impl Looks {
    /// As at the beginning.
    pub fn forget(&self) {
        self.rest.store(0, Ordering::Relaxed);
        self.next_rest.store(1, Ordering::Relaxed);
    }

    /// Whether this full ring is worth a look.
    fn is_worth_one(&self) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        self.rest.store(rest.saturating_sub(1), Ordering::Relaxed);
        rest == 0
    }

    fn in_vain(&self) {
        let rest = self.next_rest.load(Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
        let next = (rest * 2).min(REST_MAX);
        self.next_rest.store(next, Ordering::Relaxed);
    }
}

/// Whether there is room in the ring, which was full, after a while.
pub fn comes(record: &Record, waits: bool, held: &Held<'_>) -> Result<bool, Broken> {
    let looks = &record.looks_for_room;
    if !looks.is_worth_one() {
        return Ok(false);
    }
    let carrier = record.carrier();
    let sender = record.sender(held);
    let mut until_ns = process::now_ns() + if waits { WAIT_NS } else { LOOK_NS };
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
        let now_ns = process::now_ns();
        if waits && sender.in_ring() != before {
            before = sender.in_ring();
            until_ns = now_ns + WAIT_NS;
        }
        if sender.line_wanted(&carrier) || sender.receiver_sleeps(&carrier) {
            return Ok(room > 0);
        }
        if now_ns > until_ns {
            looks.in_vain();
            return Ok(room > 0);
        }
        process::give_way();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_vain_looks_ever_less_often() {
        let looks = Looks {
            rest: AtomicU32::new(7),
            next_rest: AtomicU32::new(7),
        };
        looks.forget();
        let looked_at: Vec<_> = (0..300)
            .filter(|_| {
                let looks_now = looks.is_worth_one();
                if looks_now {
                    looks.in_vain();
                }
                looks_now
            })
            .collect();
        assert_eq!(looked_at, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]);
        looks.forget();
        assert!(looks.is_worth_one() && looks.is_worth_one());
    }
}
