//! How many full byte rings a sender skips before it waits for room again.

use core::sync::atomic::AtomicU32;

use crate::process::words::Guarded;

/// At most so many full rings in a row are left without a look.
const REST_MAX: u32 = 64;

/// What a socket remembers of its looks, under its send lock.
#[repr(C)]
pub struct Looks {
    /// Full rings to come that are left at once.
    rest: Guarded<AtomicU32>,
    /// How many those will be after the next look that finds nothing.
    next_rest: Guarded<AtomicU32>,
}

impl Looks {
    /// As at the beginning.
    pub fn forget(&self) {
        self.rest.set(0);
        self.next_rest.set(1);
    }

    /// Whether this full ring is worth a look.
    pub fn is_worth_one(&self) -> bool {
        let rest = self.rest.get();
        self.rest.set(rest.saturating_sub(1));
        rest == 0
    }

    /// There was no room.
    pub fn note_no_room(&self) {
        let rest = self.next_rest.get();
        self.rest.set(rest);
        let next = (rest * 2).min(REST_MAX);
        self.next_rest.set(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_finds_no_room_skips_ever_more_full_rings() {
        let looks = Looks {
            rest: Guarded::new(AtomicU32::new(7)),
            next_rest: Guarded::new(AtomicU32::new(7)),
        };
        looks.forget();
        let looked_at: Vec<_> = (0..300)
            .filter(|_| {
                let looks_now = looks.is_worth_one();
                if looks_now {
                    looks.note_no_room();
                }
                looks_now
            })
            .collect();
        assert_eq!(looked_at, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]);
        looks.forget();
        assert!(looks.is_worth_one() && looks.is_worth_one());
    }
}
