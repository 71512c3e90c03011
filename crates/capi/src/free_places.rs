//! Which places of a table are free: a list without a lock.
//!
//! Without a lock, because a process may fork while another thread opens or closes a handle. In the child that thread is
//! gone, and a lock that it held would stay held. So the child loses at most the place that was being opened or closed.
//!
//! Each free place has the number of the next one. The head counts how often it was changed. So it is found out when a
//! place was taken and given back between two looks, and the next one is another by now. The model is in `crates/fabric/tests/loom/free_places.rs`.
//!
//! | bits of the head | mean |
//! |---|---|
//! | 0 to 31 | the first free place, plus one; 0: none is free |
//! | 32 to 63 | how often the head was changed |

use crate::atomics::{AtomicU32, AtomicU64, Ordering};

/// The list.
pub(crate) struct FreePlaces {
    /// Zero at first.
    pub head: AtomicU64,
}

fn changed(head: u64, first: u32) -> u64 {
    ((head >> 32) + 1) << 32 | u64::from(first)
}

impl FreePlaces {
    /// Takes a place, if one is free. `next` says where a place keeps the number of the next one; nobody else writes
    /// there while it is free.
    pub fn take<'a>(&self, next: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        // Acquire pairs with the Release in `give`: the place's next one is there, and its object has gone.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let at = (head as u32).checked_sub(1)?;
            // Relaxed: ordered by the load of the head. If the place was taken since, the exchange fails.
            let first = next(at).load(Ordering::Relaxed);
            // As above. Relaxed on success: what others see of the list was stored by who gave the places.
            let exchanged = self.head.compare_exchange_weak(
                head,
                changed(head, first),
                Ordering::Acquire,
                Ordering::Acquire,
            );
            match exchanged {
                Ok(_) => return Some(at),
                Err(other) => head = other,
            }
        }
    }

    /// Gives a place back.
    pub fn give(&self, at: u32, next: &AtomicU32) {
        // Relaxed: the exchange below finds out if it is an old one.
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Relaxed: the Release below tells of it.
            next.store(head as u32, Ordering::Relaxed);
            // Release pairs with the Acquire loads in `take`. Relaxed on failure: as above.
            let exchanged = self.head.compare_exchange_weak(
                head,
                changed(head, at + 1),
                Ordering::Release,
                Ordering::Relaxed,
            );
            match exchanged {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }
}
