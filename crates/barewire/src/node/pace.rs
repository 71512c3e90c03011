//! How often to look at memory that a peer is about to write.
//!
//! A look that comes while the peer answers takes the line away from it. Where the two processors share a cache, the
//! peer has it back at once, and whoever looks often finds the answer early. Where they do not, the peer waits for it
//! as long as for the message, and looks further apart win. So this measures now and then how long the load takes that
//! finds something: that is what a line costs here, however long the peer thinks before it writes.

use barewire_sys::clock::{cycles, cycles_after_loads};

/// Of so many waits one is measured.
const WAITS_PER_MEASUREMENT: u32 = 64;
/// A load that takes longer comes from a processor with which there is no shared cache.
const FAR_CYCLES: u64 = 300;
/// From one look to the next in that case.
const FAR_PAUSE_CYCLES: u64 = 140;

/// The pace of one receiver.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    waits: u32,
    is_far: bool,
}

impl Pace {
    /// Begins a wait. Whether its looks are to be made through [`Pace::measure`].
    #[inline]
    pub fn begin(&mut self) -> bool {
        self.waits = self.waits.wrapping_add(1);
        self.waits % WAITS_PER_MEASUREMENT == 1
    }

    /// Measures a look if it finds something.
    pub fn measure(&mut self, look: impl FnOnce() -> bool) {
        let begin = cycles_after_loads();
        if look() {
            let took = cycles_after_loads().wrapping_sub(begin);
            self.is_far = took > FAR_CYCLES;
        }
    }

    /// Pauses between two looks.
    #[inline]
    pub fn pause(&self) {
        core::hint::spin_loop();
        if self.is_far {
            let begin = cycles();
            while cycles().wrapping_sub(begin) < FAR_PAUSE_CYCLES {
                core::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(pace: &mut Pace, cycles_taken: u64) {
        pace.measure(|| {
            let begin = cycles();
            while cycles().wrapping_sub(begin) < cycles_taken {
                core::hint::spin_loop();
            }
            true
        });
    }

    #[test]
    fn the_first_wait_and_few_others_are_measured() {
        let mut pace = Pace::default();
        let measured = (0..10 * WAITS_PER_MEASUREMENT)
            .filter(|_| pace.begin())
            .count();
        assert_eq!(measured, 10);
        assert!(Pace::default().begin());
    }

    #[test]
    fn what_a_load_took_decides() {
        let mut pace = Pace::default();
        measured(&mut pace, 4 * FAR_CYCLES);
        assert!(pace.is_far);
        // Nothing was found: nothing is known.
        pace.measure(|| false);
        assert!(pace.is_far);
        // A short one. The test may lose the processor in the middle, but not each time.
        let is_near_again = (0..100).any(|_| {
            measured(&mut pace, 0);
            !pace.is_far
        });
        assert!(is_near_again);
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn a_pause_is_longer_where_the_peer_is_far() {
        let least = |is_far| {
            let pace = Pace { waits: 0, is_far };
            let pauses = (0..1000).map(|_| {
                let begin = cycles();
                pace.pause();
                cycles().wrapping_sub(begin)
            });
            pauses.min().unwrap_or(0)
        };
        assert!(least(true) >= FAR_PAUSE_CYCLES);
        assert!(least(false) < least(true));
    }
}
